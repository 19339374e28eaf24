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
from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import (
    GAIN_NONE,
    GAIN_ONE,
    GAIN_RANK,
    GAIN_TOP,
    LEVELS,
    NONE,
    R_STREAM,
    R_TIME,
    START_TOP,
    START_TUNED,
    START_ZERO,
    Key,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import (
    chain,
    credit_at,
    kept_at,
    key_at,
    key_of,
    leaf_at,
    link_at,
    pool_at,
    slot_at,
    stream_at,
    stream_of,
)
from windrow.kernels.policies.ranked import (
    begin_ranking,
    group_leaf,
    lose_head,
    lowest_group,
    restore_key_leaves,
    restore_row_leaves,
    touch_all,
    touch_group,
    touch_row,
    waits,
)
from windrow.kernels.tuner import next_trial, trial_share, tunes
from windrow.kernels.windows import pair_fits

BASE = "ranked"
KEEPS = ("credits",)
LAG = 4


@inline
def root_at(m: Memory, record: Key, stream: int) -> int:
    """Where the root of a key's heap of credits stands, as slot + 1."""
    return kept_at(m, record, 1, stream)


@inline
def filed_at(m: Memory, record: Key, stream: int) -> int:
    """Where the gain of a key's residents stands that their levels know of."""
    return kept_at(m, record, 0, stream)


@inline
def files(m: Memory) -> bool:
    """Whether anything asks for percentiles or ranks."""
    return m.head.credit_start < START_ZERO or m.head.credit_gain == GAIN_RANK


@inline
def pool_of(m: Memory, stream: int) -> int:
    """The pool of a stream."""
    return stream_at(m, stream).pool


@inline
def credit_of(m: Memory, slot: int) -> float:
    """A resident's credit."""
    if m.by_row:
        return slot_at(m, slot).score
    return slot_at(m, slot).score + chain(key_at(m, 0, key_of(m, slot, 0)), stream_of(m, slot)).freq


@inline
def level_credit(m: Memory, slot: int) -> float:
    """A resident's credit as far as its level knows."""
    if m.by_row:
        return slot_at(m, slot).score
    return slot_at(m, slot).score + m.x[filed_at(m, key_at(m, 0, key_of(m, slot, 0)), stream_of(m, slot))]


# ------------------------------------------------------------------------------------------- in and out


@inline
def starts(h: Any, m: Memory, rx: Any, at: int, slot: int) -> None:
    """Give a newcomer its first credit. It may be the least of all, so credits are ranked from the first row on."""
    if m.head.ranking == 0:
        begin_ranking(h, m.w)
    slot_at(m, slot).score = first_credit(h, m.w, stream_of(m, slot))


@inline
def entered(h: Any, m: Memory, slot: int) -> None:
    """Take note of a resident whose credit stands in its score; by key the score becomes its base."""
    stream = stream_of(m, slot)
    line = credit_at(m, pool_of(m, stream))
    line.top = max(line.top, int(slot_at(m, slot).score))
    if m.by_row:
        slot_at(m, slot).mark = 0
    else:
        record = key_at(m, 0, key_of(m, slot, 0))
        slot_at(m, slot).score -= chain(record, stream).freq
        root = root_at(m, record, stream)
        m.w[root] = heap.insert(m, m.w[root] - 1, slot) + 1
        if m.w[root] - 1 == slot:
            touch_group(h, m, key_of(m, slot, 0), stream)
    if files(m):
        levels.put(m, pool_of(m, stream), level_credit(m, slot))
    if m.by_row:
        touch_row(h, m.w, slot, False)


@inline
def leaving(h: Any, m: Memory, slot: int, reason: int) -> None:
    """Forget a resident; by row its leaf is cleared when it has left."""
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
        chain(record, stream).freq = 0.0
        m.x[filed_at(m, record, stream)] = 0.0
    if was_root:
        lose_head(h, m, key_of(m, slot, 0), stream)


@inline
def left(h: Any, m: Memory, slot: int) -> None:
    """By row, clear the leaf."""
    if m.by_row:
        touch_row(h, m.w, slot, True)


@inline
def hopeless(h: Any, m: Memory, r: Any, at: int, key: int) -> bool:
    """Never: nobody knows what credit a newcomer will start with."""
    return False


@inline
def moved(h: Any, a: Memory, b: Memory, slot: int, there: int, same: bool) -> None:
    """Keep the credit of a row that has one; without a history all start alike."""
    if b.head.ranking == 0:
        begin_ranking(h, b.w)
    slot_at(b, there).score = credit_of(a, slot) if same else 0.0


@inner
def build(words: Any) -> None:
    """Heaps and levels from the residents' scores and the keys' counts; the lines of credits stand already."""
    m = memory_of(words)
    for stream in range(m.streams):
        slot = stream_at(m, stream).oldest
        while slot >= 0:
            if not m.by_row:
                root = root_at(m, key_at(m, 0, key_of(m, slot, 0)), stream)
                m.w[root] = heap.insert(m, m.w[root] - 1, slot) + 1
            if files(m):
                levels.put(m, pool_of(m, stream), level_credit(m, slot))
            slot = slot_at(m, slot).newer


@inline
def restored(h: Any, m: Memory, ends: Any, turn: Any) -> int:
    """Heaps and levels first, then leaves."""
    build(m.w)
    count = restore_row_leaves(h, m, ends, turn) if m.by_row else restore_key_leaves(h, m, ends, turn)
    h.rebuild(h, m)
    return count


@inner
def renew(words: Any, pool: int) -> None:
    """Choose a pool's levels anew, as narrow as its credits allow, and file every resident where it belongs."""
    m = memory_of(words)
    least, most = np.inf, 0.0
    for again in range(2):
        for stream in range(m.streams):
            if pool_of(m, stream) != pool:
                continue
            slot = stream_at(m, stream).oldest
            while slot >= 0:
                credit = credit_of(m, slot)
                least, most = min(least, credit), max(most, credit)
                if again:
                    if not m.by_row:
                        record = key_at(m, 0, key_of(m, slot, 0))
                        m.x[filed_at(m, record, stream)] = chain(record, stream).freq
                    levels.put(m, pool, credit)
                slot = slot_at(m, slot).newer
        if not again and least < np.inf:
            levels.clear(m.w, pool, int(least), levels.width_for(int(most) - int(least)))


@inline
def rank_all(h: Any, m: Memory) -> None:
    """Choose all levels anew, and compute every leaf."""
    if files(m):
        for pool in range(m.pools):
            renew(m.w, pool)
    if m.head.ranking != 0:
        touch_all(h, m.w)


# ---------------------------------------------------------------------------------------------- credits


@inline
def leader(h: Any, m: Memory, record: Key, stream: int) -> int:
    """The resident that stands for a key on a stream, or NONE: the one with the least credit."""
    return m.w[root_at(m, record, stream)] - 1


@inline
def group_score(h: Any, m: Memory, key: int, stream: int) -> float:
    """The least credit of a key and stream."""
    record = key_at(m, 0, key)
    return slot_at(m, leader(h, m, record, stream)).score + chain(record, stream).freq


@inner
def first_credit(h: Any, words: Any, stream: int) -> float:
    """The credit of a row of a stream that is about to be admitted."""
    m = memory_of(words)
    start, pool = m.head.credit_start, pool_of(m, stream)
    line = credit_at(m, pool)
    if start == START_ZERO:
        return 0.0
    if start == START_TOP:
        line.top += 1
        return float(line.top)
    rows = pool_at(m, pool).used_rows
    if rows == 0:
        levels.clear(m.w, pool, 0, 0)
        return 0.0
    if line.shift > 0:
        line.seen += 1
        if line.seen >= max(rows, LEVELS):  # a pass over all rows, paid by as many admissions
            line.seen = 0
            renew(m.w, pool)
    share = trial_share(m) if start == START_TUNED else m.head.credit_share
    lowest = leaf_at(m, pool, lowest_leaf(h, m, pool)).base
    return max(levels.percentile(m, pool, rows, share), lowest)


@inline
def lowest_leaf(h: Any, m: Memory, pool: int) -> int:
    """The leaf with the least credit; by row those are looked at again that have gained since they were last."""
    if m.by_row == 0:
        return lowest_group(h, m, pool)
    leaf = tournament.winner(m, pool)
    while leaf_at(m, pool, leaf).base < slot_at(m, leaf).score:
        leaf_at(m, pool, leaf).base = slot_at(m, leaf).score
        tournament.update(m, pool, leaf, 0.0)
        leaf = tournament.winner(m, pool)
    return leaf


@inline
def watches(h: Any, m: Memory) -> bool:
    """Whether matched rows are marked one by one."""
    return m.by_row != 0 and m.head.credit_gain != GAIN_NONE


@inline
def matched(h: Any, m: Memory, slot: int) -> None:
    """Note that the present arrival has matched a resident."""
    at = slot_at(m, slot)
    if at.mark != m.head.seq:  # unique: it is raised when a row is taken
        at.mark = m.head.seq
        at.mark_next = m.head.marked
        m.head.marked = slot


@inline
def joined(h: Any, m: Memory) -> None:
    """Whoever the present arrival matches is paid by every join."""
    if m.head.marked >= 0:
        pay_marked(m.w)


@inline
def rewarded(h: Any, m: Memory, r: Any, at: int, key: int, found: int) -> None:
    """Give credit to the residents that the row at a place has matched; try initial credits, if they are tuned."""
    if found > 0:
        if m.by_row:
            if m.head.marked >= 0:
                pay_marked(m.w)
        elif m.head.credit_gain == GAIN_ONE:
            other = 1 - r[at + R_STREAM]
            if found == chain(key_at(m, 0, key), other).count:
                pay_key(h, m, key, other)
            else:
                pay_some(h, m.w, r[at + R_STREAM], r[at + R_TIME], key)
    if tunes(m):
        next_trial(m.w)


@inner
def pay_some(h: Any, words: Any, stream: int, time: int, key: int) -> None:
    """Give credit to those partners of a key that lie in the window of a row of a stream and time."""
    m = memory_of(words)
    other = 1 - stream
    partner = chain(key_at(m, 0, key), other).tail
    while partner >= 0:
        if pair_fits(m, stream, time, other, slot_at(m, partner).time) > 0:
            pay_one(h, m.w, partner)
        partner = link_at(m, partner, 0).older


@inner
def pay_marked(words: Any) -> None:
    """Give the marked rows what the present arrival adds; ranks are those before anybody is paid."""
    m = memory_of(words)
    gain, first = m.head.credit_gain, m.head.marked
    if gain == GAIN_TOP:
        for pool in range(m.pools):
            credit_at(m, pool).top += 1
    slot = first
    while slot >= 0 and gain == GAIN_RANK:
        at = slot_at(m, slot)
        at.owed = levels.twice_rank(m.w, pool_of(m, stream_of(m, slot)), slot_at(m, slot).score)
        slot = at.mark_next
    slot = first
    while slot >= 0:
        at, pool = slot_at(m, slot), pool_of(m, stream_of(m, slot))
        credit = slot_at(m, slot).score + 1.0
        if gain == GAIN_RANK:
            credit = slot_at(m, slot).score + at.owed
        elif gain == GAIN_TOP:
            credit = float(credit_at(m, pool).top)
        if files(m):
            levels.move(m, pool, slot_at(m, slot).score, credit)
        slot_at(m, slot).score = credit
        if m.several:
            at.mark = 0  # it may match the same arrival in the next join, too
        slot = at.mark_next
    m.head.marked = NONE


@inline
def pay_key(h: Any, m: Memory, key: int, stream: int) -> None:
    """Give all residents of a key and stream one more."""
    record = key_at(m, 0, key)
    gained = chain(record, stream).freq + 1.0
    chain(record, stream).freq = gained
    if not waits(h, m):
        leaf = group_leaf(m, key, stream)
        leaf_at(m, pool_of(m, stream), leaf).base += 1.0  # the same row stands for the key
        tournament.update(m, pool_of(m, stream), leaf, 0.0)
    if files(m) and (gained - m.x[filed_at(m, record, stream)]) * LAG >= chain(record, stream).count:
        file_key(m.w, key, stream)


@inner
def file_key(words: Any, key: int, stream: int) -> None:
    """Let the levels know of all that the residents of a key and stream have gained."""
    m = memory_of(words)
    record = key_at(m, 0, key)
    filed, gained = m.x[filed_at(m, record, stream)], chain(record, stream).freq
    m.x[filed_at(m, record, stream)] = gained
    pool, slot = pool_of(m, stream), chain(record, stream).head
    while slot >= 0:
        base = slot_at(m, slot).score
        levels.move(m, pool, base + filed, base + gained)
        slot = link_at(m, slot, 0).newer


@inner
def pay_one(h: Any, words: Any, slot: int) -> None:
    """By key: give one resident one more, where others of its key did not match."""
    m = memory_of(words)
    stream, key = stream_of(m, slot), key_of(m, slot, 0)
    root = root_at(m, key_at(m, 0, key), stream)
    if files(m):
        levels.take(m, pool_of(m, stream), level_credit(m, slot))
    rest = heap.remove(m.w, m.w[root] - 1, slot)
    slot_at(m, slot).score += 1.0
    m.w[root] = heap.insert(m, rest, slot) + 1
    if files(m):
        levels.put(m, pool_of(m, stream), level_credit(m, slot))
    touch_group(h, m, key, stream)
