"""Priorities: what a policy's rule says a resident is worth.

    PROB           p                     p: how often partners arrive (probability-weighted benefit with output values)
    LIFE           p * (e - now)         e: when the row expires
    LIFE_EXPECTED  p * min(e - now, L)   L: how long rows of such a p have been held
    GIVEN          what came with the row
    GREEDY_DUAL    the row's credit      see credit.py
    AUTO           p                     p: as the present choice counts arrivals, see estimate.py

Where every stream shares one key and no output value is given, all rows of a stream with one key have one p: the
leaf is (key, stream) and its oldest row stands for it; with credits, the one that has least. Such a leaf may wait: it
then says no more than it should, base, end and tie, and is brought up to date when it wins (`waits`).

Otherwise each row is a leaf of its own; its p is taken when it arrives and looked at again when it is about to be shed.
RAND, FIFO and AGE need no priorities.

Of several joins, p is the sum of a row's chances in each that it can match in. They are all counted in arrivals, so
that they compare: how many rows have come that it would have met.
"""

from typing import Any

import numpy as np

from windrow.kernels import tournament
from windrow.kernels.apart import apart, length
from windrow.kernels.chains import key_of, slot_at, stream_at
from windrow.kernels.directory import key_at
from windrow.kernels.estimate import LEAST, arrivals_of, freq_at, hist_share, life_expected, usual, worth_of
from windrow.kernels.jit import inline, inner
from windrow.kernels.joins import join_of_link, join_of_number, joins, matches_in
from windrow.kernels.layout import (
    ARRIVALS,
    ARRIVED,
    AUTO,
    BASE,
    BRIEF,
    CACHED,
    CHOICE,
    CLOCK,
    COST,
    ENDS,
    GAIN_OFF,
    GIVEN,
    GREEDY_DUAL,
    GROWTH,
    H_TOTAL,
    HEAD,
    HIST_OF_AT,
    HIST_SIZE,
    HISTS_AT,
    KEY_TOP,
    LAST_ROWS,
    LIFE,
    LIFE_EXPECTED,
    MIXED,
    NEWER,
    NONE,
    OFFSET,
    OLDEST,
    P_BAND,
    P_DIMS,
    P_DISTANCE,
    P_EQUAL,
    P_FLOAT,
    P_GE,
    P_GT,
    P_KIND,
    P_LE,
    P_LEFT,
    P_LEFT_COL,
    P_LIMIT,
    P_LT,
    P_RIGHT,
    P_RIGHT_COL,
    PER_STREAM,
    POOL,
    POOL_SIZE,
    POSITION_AT,
    PRED_SIZE,
    PREDS_AT,
    PROB,
    RANK,
    REACH,
    SCORE_OFF,
    STREAM_MASK,
    TIE,
    TIME,
    TOP,
    TURN,
    VALUE_SUM,
    WEIGHT,
    WIDTH,
)
from windrow.kernels.memory import Memory, memory_of

HIGHEST = 1e150  # scores are cut here, so that a score times a clock stays finite


@inline
def ranked(m: Memory) -> bool:
    """Whether the rule keeps priorities at all."""
    rule = m.rule
    return rule == PROB or rule == LIFE or rule == LIFE_EXPECTED or rule == GIVEN or rule == GREEDY_DUAL or rule == AUTO


@inline
def stream_of(m: Memory, slot: int) -> int:
    """The stream of a slot."""
    return m.w[slot_at(m, slot) + COST] & STREAM_MASK


@inline
def clock(m: Memory) -> float:
    """Now, in the unit in which lifetimes are compared: event time, or arrivals where windows count rows."""
    if m.w[stream_at(m, 0) + LAST_ROWS] > 0:
        return float(m.w[ARRIVALS])
    return float(m.w[CLOCK])


@inline
def expiry(m: Memory, slot: int) -> float:
    """When a resident will expire, on the same clock."""
    at, stream = slot_at(m, slot), stream_of(m, slot)
    rank = m.w[at + m.rank_off] if m.w[stream_at(m, stream) + LAST_ROWS] > 0 else 0
    return expiry_of(m, stream, m.w[at + TIME], rank)


@inline
def expiry_of(m: Memory, stream: int, time: int, rank: int) -> float:
    """When a row of a stream will expire that has a time and, where windows count rows, a rank."""
    mine = stream_at(m, stream)
    rows, seen = m.w[mine + LAST_ROWS], m.w[mine + RANK]
    if rows > 0:
        return m.w[ARRIVALS] + (rows - (seen - 1 - rank)) * max(1.0, m.w[ARRIVALS] / max(seen, 1))
    return float(time) + float(length(m.w[mine + REACH])) + 1.0


@inline
def held(m: Memory, slot: int) -> float:
    """How long a resident has been held, on the same clock."""
    if m.w[stream_at(m, 0) + LAST_ROWS] > 0:
        return float(m.w[ARRIVALS] - m.w[slot_at(m, slot) + ARRIVED])
    return float(apart(m.w[CLOCK], m.w[slot_at(m, slot) + TIME]))


@inline
def root_at(m: Memory, record: int, stream: int) -> int:
    """Where the root of a key's heap of credits stands, as slot + 1."""
    return record + 1 + (PER_STREAM + 1) * m.streams + stream


@inline
def leader(m: Memory, record: int, stream: int) -> int:
    """The resident that stands for a key on a stream: the oldest or, with credits, the one with the least; or NONE."""
    if m.rule == GREEDY_DUAL:
        return m.w[root_at(m, record, stream)] - 1
    return m.w[record + PER_STREAM * stream + HEAD]


@inline
def group_score(m: Memory, key: int, stream: int) -> float:
    """How often partners of a key arrive, on all the other streams of the common key; or the least credit."""
    record = key_at(m, 0, key)
    if m.rule == GREEDY_DUAL:
        first = slot_at(m, leader(m, record, stream))
        return m.x[first + m.w[SCORE_OFF]] + m.x[freq_at(record, stream)]
    if m.streams == 2:
        return arrivals_of(m, record, 1 - stream)
    product = 1.0
    for other in range(m.streams):
        if other != stream:
            product *= arrivals_of(m, record, other)
    return product


@inner
def with_keys(words: Any, d: int, key: int, stream: int, chance: float, value: float) -> tuple[float, float]:
    """A row's chance of partners and the output value to expect, after the partners through one directory."""
    m = memory_of(words)
    record = key_at(m, d, key)
    for other in range(m.streams):
        if other == stream or m.w[m.w[POSITION_AT] + other * m.dirs + d] == NONE:
            continue
        freq = arrivals_of(m, record, other)
        worth = worth_of(m, record, other) if m.valued else freq
        if m.streams > 2:  # a row with more neighbours must not count as rarer: compare with the usual arrival
            often = usual(m, d, other)
            freq, worth = freq / often, worth / often
        value = value * freq + worth * chance if m.w[VALUE_SUM] else value * worth
        chance *= freq
    return chance, value


@inner
def partner_range(words: Any, pred: int, slot: int, left_side: bool, dim: int) -> tuple[float, float]:
    """The range of numbers on the other side that a resident would match."""
    m = memory_of(words)
    column = m.w[pred + P_LEFT_COL] if left_side else m.w[pred + P_RIGHT_COL]
    at = slot_at(m, slot) + m.vals_off + column + dim
    number = m.x[at] if m.w[pred + P_FLOAT] else float(m.w[at])
    if np.isnan(number):  # the largest of all numbers
        number = np.inf
    kind = m.w[pred + P_KIND]
    if kind == P_BAND or kind == P_DISTANCE:
        return number - m.x[pred + P_LIMIT], number + m.x[pred + P_LIMIT]
    upward = kind == P_LT or kind == P_LE  # left < right
    if upward or kind == P_GT or kind == P_GE:
        if upward == left_side:
            return number, np.inf
        return -np.inf, number
    return -np.inf, np.inf


@inner
def range_factor(words: Any, slot: int, stream: int, join: int) -> float:
    """A row's chance of partners through the band, distance and comparison predicates of a join."""
    m = memory_of(words)
    factor = 1.0
    for k in range(m.preds):
        pred = m.w[PREDS_AT] + k * PRED_SIZE
        left_side = m.w[pred + P_LEFT] == stream
        if m.w[pred + P_KIND] == P_EQUAL or not (left_side or m.w[pred + P_RIGHT] == stream):
            continue
        other = m.w[pred + P_RIGHT] if left_side else m.w[pred + P_LEFT]
        column = m.w[pred + P_RIGHT_COL] if left_side else m.w[pred + P_LEFT_COL]
        if m.several and join_of_number(m, other, column) != join:
            continue
        for dim in range(m.w[pred + P_DIMS]):
            hist = m.w[m.w[HIST_OF_AT] + other * m.vals + column + dim]
            if hist >= 0:
                low, high = partner_range(m.w, pred, slot, left_side, dim)
                factor *= hist_share(m.w, m.w[HISTS_AT] + hist * HIST_SIZE, low, high)
    return factor


@inner
def usual_range(words: Any, stream: int, join: int) -> float:
    """Arrivals that the ranges of a stream in a join choose from: the geometric mean over them."""
    m = memory_of(words)
    logs, n = 0.0, 0
    for k in range(m.preds):
        pred = m.w[PREDS_AT] + k * PRED_SIZE
        left_side = m.w[pred + P_LEFT] == stream
        if m.w[pred + P_KIND] == P_EQUAL or not (left_side or m.w[pred + P_RIGHT] == stream):
            continue
        other = m.w[pred + P_RIGHT] if left_side else m.w[pred + P_LEFT]
        column = m.w[pred + P_RIGHT_COL] if left_side else m.w[pred + P_LEFT_COL]
        hist = m.w[m.w[HIST_OF_AT] + other * m.vals + column]
        if hist >= 0 and join_of_number(m, other, column) == join:
            total = m.x[m.w[HISTS_AT] + hist * HIST_SIZE + H_TOTAL]
            if m.rule == AUTO and m.w[CHOICE] & BRIEF == 0 and m.x[GROWTH] != 1.0:
                total = float(m.w[stream_at(m, other) + RANK])  # histograms weigh recent arrivals more, keys do not
            elif m.rule == AUTO and m.w[CHOICE] & MIXED:
                total *= 2.0  # keys count all arrivals beside the recent ones
            logs += np.log(max(total, LEAST))
            n += 1
    return float(np.exp(logs / n)) if n > 0 else 1.0


@inner
def chance_in(words: Any, slot: int, stream: int, join: int) -> float:
    """A row's chance of partners in one of several joins, counted in arrivals.

    One partner by key: f. Several:  product of f / u  times  their unit, the geometric mean of u;  f is how often a key
    has come, u how often that of the usual arrival. By ranges alone: the share of those that have come, times their
    number. Shares of ranges multiply the rest.
    """
    m = memory_of(words)
    freq, relative, logs, n = 1.0, 1.0, 0.0, 0
    for link in range(m.links):
        d = m.w[m.classes_at + stream * m.links + link]
        if d < 0 or join_of_link(m, stream, link) != join:
            continue
        record = key_at(m, d, key_of(m, slot, link))
        for other in range(m.streams):
            if other == stream or m.w[m.w[POSITION_AT] + other * m.dirs + d] == NONE:
                continue
            often = usual(m, d, other)
            freq = arrivals_of(m, record, other)
            relative *= freq / often
            logs += np.log(often)
            n += 1
    chance = freq
    if n == 0:
        chance = usual_range(m.w, stream, join)
    elif n > 1:
        chance = relative * float(np.exp(logs / n))
    return chance * range_factor(m.w, slot, stream, join) if m.hists > 0 else chance


@inner
def joint_score(words: Any, slot: int, stream: int) -> float:
    """A resident's chances of partners, summed over the joins in which it can match."""
    m = memory_of(words)
    total = 0.0
    for join in range(joins(m)):
        if matches_in(m, slot, join):
            total += chance_in(m.w, slot, stream, join)
    return total


@inner
def row_score(words: Any, slot: int) -> float:
    """A resident's chance of partners over its keys and ranges, weighted by the output value to expect."""
    m = memory_of(words)
    if m.rule == GIVEN or m.rule == GREEDY_DUAL:
        return m.x[slot_at(m, slot) + m.w[SCORE_OFF]]
    stream = stream_of(m, slot)
    if m.several:
        return joint_score(m.w, slot, stream)
    chance, value = 1.0, 1.0
    if m.valued:
        value = m.x[slot_at(m, slot) + m.w[GAIN_OFF]]
    for link in range(m.links):
        d = m.w[m.classes_at + stream * m.links + link]
        if d >= 0:
            chance, value = with_keys(m.w, d, key_of(m, slot, link), stream, chance, value)
    score = value if m.valued else chance
    if m.hists > 0:
        score *= range_factor(m.w, slot, stream, 0)
    return score


@inline
def cut(score: float) -> float:
    """A score that is finite and not negative."""
    return min(max(score, 0.0), HIGHEST) if score == score else 0.0


@inline
def set_leaf(m: Memory, leaf: int, slot: int, score: float) -> None:
    """Write the priority of the leaf at a place, for the resident that stands for it; it is finite and not negative."""
    score = cut(score)
    m.w[leaf + TIE] = m.w[slot_at(m, slot) + ARRIVED]
    m.x[leaf + BASE] = score
    if not m.drifting:
        return
    ends = expiry(m, slot)
    m.x[leaf + ENDS] = ends
    m.x[leaf + TURN] = -np.inf
    if m.rule == LIFE_EXPECTED:
        whole = ends - clock(m) + held(m, slot)
        m.x[leaf + TURN] = ends - life_expected(m.w, stream_of(m, slot), score / m.x[WEIGHT], whole)


@inline
def group_leaf(m: Memory, key: int, stream: int) -> int:
    """The leaf of a key and stream."""
    mine = stream_at(m, stream)
    return key * m.w[m.pools_at + m.w[mine + POOL] * POOL_SIZE + WIDTH] + m.w[mine + OFFSET]


@inline
def group_of(m: Memory, pool: int, leaf: int) -> tuple[int, int]:
    """The key and stream of a leaf."""
    width = m.w[m.pools_at + pool * POOL_SIZE + WIDTH]
    stream = 0
    while m.w[stream_at(m, stream) + POOL] != pool or m.w[stream_at(m, stream) + OFFSET] != leaf % width:
        stream += 1
    return leaf // width, stream


@inner
def touch_group(words: Any, key: int, stream: int) -> None:
    """Bring the leaf of a key and stream up to date after its chain or its frequencies changed."""
    m = memory_of(words)
    pool = m.w[stream_at(m, stream) + POOL]
    leaf = group_leaf(m, key, stream)
    at = tournament.leaf_at(m, pool, leaf)
    head = leader(m, key_at(m, 0, key), stream)
    if head < 0:
        if m.x[at + BASE] == np.inf:
            return
        tournament.clear(m, at)
    else:
        score = group_score(m, key, stream)
        if not m.drifting and m.x[at + BASE] == score and m.w[at + TIE] == m.w[slot_at(m, head) + ARRIVED]:
            return
        set_leaf(m, at, head, score)
    tournament.update(m, pool, leaf, clock(m))


@inline
def waits(m: Memory) -> bool:
    """Whether a leaf may say less than it should until it wins: that of a group.

    What a key gains and what stands for it when its oldest row is gone only raise its priority. Not so where the time
    for which a row will be held is an estimate, which may fall. And not where the state lies in the cache: there it
    costs no more to touch a leaf at once than to look later whether it should have been.
    """
    if m.by_row or m.rule == LIFE_EXPECTED or m.table_size <= CACHED:
        return False
    return m.drifting == 0 or m.w[stream_at(m, 0) + LAST_ROWS] == 0


@inner
def lose_head(words: Any, key: int, stream: int) -> None:
    """Bring the leaf of a key and stream up to date after the resident that stood for it has left, if it must be now.

    It must be when nobody is left, or when the next one came earlier, which disordered rows may do.
    """
    m = memory_of(words)
    head = leader(m, key_at(m, 0, key), stream)
    if waits(m) and head >= 0:
        leaf = tournament.leaf_at(m, m.w[stream_at(m, stream) + POOL], group_leaf(m, key, stream))
        if m.w[slot_at(m, head) + ARRIVED] > m.w[leaf + TIE]:
            return
    touch_group(m.w, key, stream)


@inner
def lowest_group(words: Any, pool: int) -> int:
    """The leaf with the lowest priority; those that win with less than they should say are brought up to date."""
    m = memory_of(words)
    leaf = tournament.winner(m, pool)
    while waits(m):
        at = tournament.leaf_at(m, pool, leaf)
        if m.x[at + BASE] == np.inf:
            break
        key, stream = group_of(m, pool, leaf)
        head, score = leader(m, key_at(m, 0, key), stream), cut(group_score(m, key, stream))
        if m.x[at + BASE] == score and m.w[at + TIE] == m.w[slot_at(m, head) + ARRIVED]:
            break
        set_leaf(m, at, head, score)
        tournament.update(m, pool, leaf, clock(m))
        leaf = tournament.winner(m, pool)
    return leaf


@inner
def touch_row(words: Any, slot: int, gone: bool) -> None:
    """Bring a resident's own leaf up to date."""
    m = memory_of(words)
    pool = m.w[stream_at(m, stream_of(m, slot)) + POOL]
    at = tournament.leaf_at(m, pool, slot)
    if gone:
        tournament.clear(m, at)
    else:
        score = row_score(m.w, slot)
        m.x[slot_at(m, slot) + m.w[SCORE_OFF]] = score
        set_leaf(m, at, slot, score)
    tournament.update(m, pool, slot, clock(m))


@inner
def touch_all(words: Any) -> None:
    """Compute every leaf anew and rebuild the tournaments."""
    m = memory_of(words)
    if not ranked(m):
        return
    for pool in range(m.pools):
        for leaf in range(leaves_used(m, pool)):
            tournament.clear(m, tournament.leaf_at(m, pool, leaf))
    for stream in range(m.streams):
        fill_leaves(m.w, stream)
    for pool in range(m.pools):
        tournament.rebuild(m.w, pool, clock(m), leaves_used(m, pool))


@inline
def leaves_used(m: Memory, pool: int) -> int:
    """How many leaves of a pool have ever been used, the first ones."""
    if m.by_row:
        return m.w[TOP]
    return m.w[m.dirs_at + KEY_TOP] * m.w[m.pools_at + pool * POOL_SIZE + WIDTH]


@inner
def fill_leaves(words: Any, stream: int) -> None:
    """Write the leaves of one stream's residents, without repairing the tournament."""
    m = memory_of(words)
    pool = m.w[stream_at(m, stream) + POOL]
    slot = m.w[stream_at(m, stream) + OLDEST]
    while slot >= 0:
        if m.by_row:
            score = row_score(m.w, slot)
            m.x[slot_at(m, slot) + m.w[SCORE_OFF]] = score
            set_leaf(m, tournament.leaf_at(m, pool, slot), slot, score)
        else:
            key = key_of(m, slot, 0)
            if leader(m, key_at(m, 0, key), stream) == slot:
                at = tournament.leaf_at(m, pool, group_leaf(m, key, stream))
                set_leaf(m, at, slot, group_score(m, key, stream))
        slot = m.w[slot_at(m, slot) + NEWER]
