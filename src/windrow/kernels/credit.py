"""Credits of GreedyDual-Join: what residents have earned by matching, and where newcomers start.

Two forms, by what the plan says:

    by key   two streams with a common key, one more per match. All residents of a key and stream that match an
             arrival gain alike: credit = base of the row + count of its key and stream. A heap per key and stream
             finds the least base, a leaf of the tournament stands for the key. An arrival costs one count, one leaf.
    by row   everything else. Rows that an arrival matches are marked while it probes (each once, however many
             matches they share) and paid after it, O(1) each: credits only rise, so a leaf may say less than it should
             until it wins; then it is looked at again, O(log n), and each look is paid by a gain.

Decrements of the paper's methods 2 and 3 take the same from every resident of a pool. Neither the order of credits nor
a percentile's place in it notices, so none is kept here; nor does either notice a common factor, so ranks count double
and all credits are whole numbers. Credits are those of the paper but for such a number and factor.

Levels (levels.py) count credits by row as they are. By key they may lag: a key's residents are moved to their new
levels when their gain since the last time reaches a part (1 / LAG) of how many they are, so that moving costs LAG rows
per arrival, amortised. A percentile is too low by no more than the largest such gain, and exact where keys have at most
LAG residents.
"""

from typing import Any

import numpy as np

from windrow.kernels import heap, levels, tournament
from windrow.kernels.chains import key_of, link_at, slot_at, stream_at
from windrow.kernels.directory import key_at
from windrow.kernels.estimate import freq_at, worth_at
from windrow.kernels.jit import entry, inline, inner
from windrow.kernels.layout import (
    BASE,
    C_SEEN,
    C_SHIFT,
    C_TOP,
    COUNT,
    CREDIT_GAIN,
    CREDIT_SHARE,
    CREDIT_START,
    GAIN_NONE,
    GAIN_RANK,
    GAIN_TOP,
    GREEDY_DUAL,
    HEAD,
    LEVELS,
    LINK_NEWER,
    MARK,
    MARK_NEXT,
    MARKED,
    NEWER,
    NONE,
    OLDEST,
    OWED,
    PER_STREAM,
    POOL,
    POOL_SIZE,
    SCORE_OFF,
    SEQ,
    START_TOP,
    START_TUNED,
    START_ZERO,
    USED_ROWS,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.score import group_leaf, lose_head, lowest_group, root_at, stream_of, touch_group, waits
from windrow.kernels.tuner import trial_share

LAG = 4


@inline
def filed_at(m: Memory, record: int, stream: int) -> int:
    """Where the gain of a key's residents stands that their levels know of."""
    return worth_at(m, record, stream)


@inline
def files(m: Memory) -> bool:
    """Whether anything asks for percentiles or ranks."""
    return m.w[CREDIT_START] < START_ZERO or m.w[CREDIT_GAIN] == GAIN_RANK


@inline
def pool_of(m: Memory, stream: int) -> int:
    """The pool of a stream."""
    return m.w[stream_at(m, stream) + POOL]


@inline
def score_at(m: Memory, slot: int) -> int:
    """Where a row's credit stands or, by key, its base."""
    return slot_at(m, slot) + m.w[SCORE_OFF]


@inline
def credit_of(m: Memory, slot: int) -> float:
    """A resident's credit."""
    if m.by_row:
        return m.x[score_at(m, slot)]
    return m.x[score_at(m, slot)] + m.x[freq_at(key_at(m, 0, key_of(m, slot, 0)), stream_of(m, slot))]


@inline
def level_credit(m: Memory, slot: int) -> float:
    """A resident's credit as far as its level knows."""
    if m.by_row:
        return m.x[score_at(m, slot)]
    return m.x[score_at(m, slot)] + m.x[filed_at(m, key_at(m, 0, key_of(m, slot, 0)), stream_of(m, slot))]


# ------------------------------------------------------------------------------------------- in and out


@inline
def enter(m: Memory, slot: int) -> None:
    """Take note of a resident whose credit stands in its score; by key the score becomes its base."""
    stream = stream_of(m, slot)
    line = levels.line_at(m, pool_of(m, stream))
    m.w[line + C_TOP] = max(m.w[line + C_TOP], int(m.x[score_at(m, slot)]))
    if m.by_row:
        m.w[heap.links_at(m, slot) + MARK] = 0
    else:
        record = key_at(m, 0, key_of(m, slot, 0))
        m.x[score_at(m, slot)] -= m.x[freq_at(record, stream)]
        root = root_at(m, record, stream)
        m.w[root] = heap.insert(m, m.w[root] - 1, slot) + 1
        if m.w[root] - 1 == slot:
            touch_group(m.w, key_of(m, slot, 0), stream)
    if files(m):
        levels.put(m, pool_of(m, stream), level_credit(m, slot))


@inline
def leave(m: Memory, slot: int) -> None:
    """Forget a resident; by row its leaf is left to the caller."""
    stream = stream_of(m, slot)
    if files(m):
        levels.take(m, pool_of(m, stream), level_credit(m, slot))
    if m.by_row:
        return
    record = key_at(m, 0, key_of(m, slot, 0))
    root = root_at(m, record, stream)
    was_root = m.w[root] - 1 == slot
    m.w[root] = heap.remove(m.w, m.w[root] - 1, slot) + 1
    if m.w[root] == 0:
        m.x[freq_at(record, stream)] = 0.0
        m.x[filed_at(m, record, stream)] = 0.0
    if was_root:
        lose_head(m.w, key_of(m, slot, 0), stream)


@entry
def build(block: Any) -> None:
    """Heaps and levels from the residents' scores and the keys' counts; the lines of credits stand already."""
    m = memory_of(block)
    for stream in range(m.streams):
        slot = m.w[stream_at(m, stream) + OLDEST]
        while slot >= 0:
            if not m.by_row:
                root = root_at(m, key_at(m, 0, key_of(m, slot, 0)), stream)
                m.w[root] = heap.insert(m, m.w[root] - 1, slot) + 1
            if files(m):
                levels.put(m, pool_of(m, stream), level_credit(m, slot))
            slot = m.w[slot_at(m, slot) + NEWER]


@inner
def renew(words: Any, pool: int) -> None:
    """Choose a pool's levels anew, as narrow as its credits allow, and file every resident where it belongs."""
    m = memory_of(words)
    least, most = np.inf, 0.0
    for again in range(2):
        for stream in range(m.streams):
            if pool_of(m, stream) != pool:
                continue
            slot = m.w[stream_at(m, stream) + OLDEST]
            while slot >= 0:
                credit = credit_of(m, slot)
                least, most = min(least, credit), max(most, credit)
                if again:
                    if not m.by_row:
                        record = key_at(m, 0, key_of(m, slot, 0))
                        m.x[filed_at(m, record, stream)] = m.x[freq_at(record, stream)]
                    levels.put(m, pool, credit)
                slot = m.w[slot_at(m, slot) + NEWER]
        if not again and least < np.inf:
            levels.clear(m.w, pool, int(least), levels.width_for(int(most) - int(least)))


# ---------------------------------------------------------------------------------------------- credits


@inner
def first_credit(words: Any, stream: int) -> float:
    """The credit of a row of a stream that is about to be admitted."""
    m = memory_of(words)
    start, pool = m.w[CREDIT_START], pool_of(m, stream)
    line = levels.line_at(m, pool)
    if start == START_ZERO:
        return 0.0
    if start == START_TOP:
        m.w[line + C_TOP] += 1
        return float(m.w[line + C_TOP])
    rows = m.w[m.pools_at + pool * POOL_SIZE + USED_ROWS]
    if rows == 0:
        levels.clear(m.w, pool, 0, 0)
        return 0.0
    if m.w[line + C_SHIFT] > 0:
        m.w[line + C_SEEN] += 1
        if m.w[line + C_SEEN] >= max(rows, LEVELS):  # a pass over all rows, paid by as many admissions
            m.w[line + C_SEEN] = 0
            renew(m.w, pool)
    share = trial_share(m) if start == START_TUNED else m.x[CREDIT_SHARE]
    lowest = m.x[tournament.leaf_at(m, pool, least(m, pool)) + BASE]
    return max(levels.percentile(m, pool, rows, share), lowest)


@inline
def least(m: Memory, pool: int) -> int:
    """The leaf with the least credit; by row those are looked at again that have gained since they were last."""
    if m.by_row == 0:
        return lowest_group(m.w, pool)
    leaf = tournament.winner(m, pool)
    while m.x[tournament.leaf_at(m, pool, leaf) + BASE] < m.x[score_at(m, leaf)]:
        m.x[tournament.leaf_at(m, pool, leaf) + BASE] = m.x[score_at(m, leaf)]
        tournament.update(m, pool, leaf, 0.0)
        leaf = tournament.winner(m, pool)
    return leaf


@inline
def marks(m: Memory) -> bool:
    """Whether matched rows are marked one by one."""
    return m.rule == GREEDY_DUAL and m.by_row != 0 and m.w[CREDIT_GAIN] != GAIN_NONE


@inline
def mark(m: Memory, slot: int) -> None:
    """Note that the present arrival has matched a resident."""
    at = heap.links_at(m, slot)
    if m.w[at + MARK] != m.w[SEQ]:  # unique: it is raised when a row is taken
        m.w[at + MARK] = m.w[SEQ]
        m.w[at + MARK_NEXT] = m.w[MARKED]
        m.w[MARKED] = slot


@inner
def pay_marked(words: Any) -> None:
    """Give the marked rows what the present arrival adds; ranks are those before anybody is paid."""
    m = memory_of(words)
    gain, first = m.w[CREDIT_GAIN], m.w[MARKED]
    if gain == GAIN_TOP:
        for pool in range(m.pools):
            m.w[levels.line_at(m, pool) + C_TOP] += 1
    slot = first
    while slot >= 0 and gain == GAIN_RANK:
        at = heap.links_at(m, slot)
        m.w[at + OWED] = levels.twice_rank(m.w, pool_of(m, stream_of(m, slot)), m.x[score_at(m, slot)])
        slot = m.w[at + MARK_NEXT]
    slot = first
    while slot >= 0:
        at, pool = heap.links_at(m, slot), pool_of(m, stream_of(m, slot))
        credit = m.x[score_at(m, slot)] + 1.0
        if gain == GAIN_RANK:
            credit = m.x[score_at(m, slot)] + m.w[at + OWED]
        elif gain == GAIN_TOP:
            credit = float(m.w[levels.line_at(m, pool) + C_TOP])
        if files(m):
            levels.move(m, pool, m.x[score_at(m, slot)], credit)
        m.x[score_at(m, slot)] = credit
        if m.several:
            m.w[at + MARK] = 0  # it may match the same arrival in the next join, too
        slot = m.w[at + MARK_NEXT]
    m.w[MARKED] = NONE


@inline
def pay_key(m: Memory, key: int, stream: int) -> None:
    """Give all residents of a key and stream one more."""
    record = key_at(m, 0, key)
    gained = m.x[freq_at(record, stream)] + 1.0
    m.x[freq_at(record, stream)] = gained
    if not waits(m):
        leaf = group_leaf(m, key, stream)
        m.x[tournament.leaf_at(m, pool_of(m, stream), leaf) + BASE] += 1.0  # the same row stands for the key
        tournament.update(m, pool_of(m, stream), leaf, 0.0)
    if files(m) and (gained - m.x[filed_at(m, record, stream)]) * LAG >= m.w[record + PER_STREAM * stream + COUNT]:
        file_key(m.w, key, stream)


@inner
def file_key(words: Any, key: int, stream: int) -> None:
    """Let the levels know of all that the residents of a key and stream have gained."""
    m = memory_of(words)
    record = key_at(m, 0, key)
    filed, gained = m.x[filed_at(m, record, stream)], m.x[freq_at(record, stream)]
    m.x[filed_at(m, record, stream)] = gained
    pool, slot = pool_of(m, stream), m.w[record + PER_STREAM * stream + HEAD]
    while slot >= 0:
        base = m.x[score_at(m, slot)]
        levels.move(m, pool, base + filed, base + gained)
        slot = m.w[link_at(m, slot, 0) + LINK_NEWER]


@inner
def pay_one(words: Any, slot: int) -> None:
    """By key: give one resident one more, where others of its key did not match."""
    m = memory_of(words)
    stream, key = stream_of(m, slot), key_of(m, slot, 0)
    root = root_at(m, key_at(m, 0, key), stream)
    if files(m):
        levels.take(m, pool_of(m, stream), level_credit(m, slot))
    rest = heap.remove(m.w, m.w[root] - 1, slot)
    m.x[score_at(m, slot)] += 1.0
    m.w[root] = heap.insert(m, rest, slot) + 1
    if files(m):
        levels.put(m, pool_of(m, stream), level_credit(m, slot))
    touch_group(m.w, key, stream)
