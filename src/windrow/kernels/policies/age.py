"""AGE: how long rows pay, learned from the ages at which they match and leave.

Ages are shares of the window, in AGE_BINS bins. Per stream, rate(j) = matches at age j / rows that reached age j,
C(k) = the sum of rate over ages below k, and k_opt the k with the largest C(k) / k. Rows older than k_opt leave first,
the oldest of them; while there are none, the newcomer does. That is FIFO where the memory holds rows for longer than
k_opt, and the staggered scheme where it does not.

Nothing is known of ages that no row reaches: there the last known rate is taken to go on, as the model says that curves
have no minima. One arrival in OBSERVED is looked at; what was learned is halved with every new estimate.
"""

from typing import Any

import numpy as np

from windrow.kernels.distances import apart, length
from windrow.kernels.hashing import mix64
from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import (
    A_GONE,
    A_LIMIT,
    A_MATCHES,
    AGE_BINS,
    AGE_SIZE,
    ENDLESS,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import slot_at, stream_at, stream_of

BASE = "policy"
KEEPS = ("ages",)
OBSERVED = 8
ESTIMATE_EVERY = 1024  # arrivals
ENOUGH = 16.0  # rows that must have reached an age before its rate is believed


@inline
def lived(m: Memory, slot: int) -> float:
    """A resident's age as a share of its window; endless where the window is."""
    at, mine = slot_at(m, slot), stream_at(m, stream_of(m, slot))
    if mine.last_rows > 0:
        return (mine.rank - 1 - at.rank) / mine.last_rows
    if mine.reach == ENDLESS:
        return np.inf
    return float(apart(m.head.clock, at.time)) / (float(length(mine.reach)) + 1.0)


@inline
def bin_of(share: float) -> int:
    """The bin of an age."""
    return int(min(max(share, 0.0), 1.0 - 0.5 / AGE_BINS) * AGE_BINS)


@inline
def ages_at(m: Memory, stream: int) -> int:
    """Where a stream's line of ages begins."""
    return m.head.ages_at + stream * AGE_SIZE


@inline
def learns_ages(m: Memory) -> bool:
    """Whether the age that pays is estimated, and not given."""
    return m.head.age_limit <= 0.0


@inline
def watches(h: Any, m: Memory) -> bool:
    """Whether the ages of the rows are noted that the present arrival matches."""
    return learns_ages(m) and mix64(np.uint64(m.head.seq)) % np.uint64(OBSERVED) == np.uint64(0)


@inline
def matched(h: Any, m: Memory, slot: int) -> None:
    """Note the age of a resident that the present arrival has matched."""
    m.x[ages_at(m, stream_of(m, slot)) + A_MATCHES + bin_of(lived(m, slot))] += 1.0


@inline
def leaving(h: Any, m: Memory, slot: int, reason: int) -> None:
    """Note the age of a resident that leaves."""
    m.x[ages_at(m, stream_of(m, slot)) + A_GONE + bin_of(lived(m, slot))] += 1.0


@inline
def limit(m: Memory, stream: int) -> float:
    """The age up to which a stream's rows pay, k_opt: given, or as estimated; the whole window until that is known."""
    given = m.head.age_limit
    return given if given > 0.0 else m.x[ages_at(m, stream) + A_LIMIT]


@inline
def arrived(h: Any, m: Memory) -> None:
    """Estimate anew, every so often."""
    if learns_ages(m) and m.head.arrivals % ESTIMATE_EVERY == 0:
        estimate(m.w)


@inner
def estimate(words: Any) -> None:
    """Find k_opt of every stream: the age at which matches per time held are most; of equals the longest."""
    m = memory_of(words)
    for stream in range(m.streams):
        line = ages_at(m, stream)
        reached = 0.0
        for k in range(AGE_BINS):
            reached += m.x[line + A_GONE + k]
        if reached < ENOUGH:
            continue
        total, rate, best, most = 0.0, 0.0, AGE_BINS, -1.0
        for k in range(AGE_BINS):
            if reached >= ENOUGH:
                rate = m.x[line + A_MATCHES + k] / reached
            reached -= m.x[line + A_GONE + k]
            total += rate
            if total >= most * (k + 1):
                best, most = k + 1, total / (k + 1)
            m.x[line + A_MATCHES + k] *= 0.5
            m.x[line + A_GONE + k] *= 0.5
        m.x[line + A_LIMIT] = best / AGE_BINS


@inline
def victim(h: Any, m: Memory, pool: int) -> int:
    """Whom AGE sheds."""
    return overdue(m, pool)


@inline
def overdue(m: Memory, pool: int) -> int:
    """Whom AGE sheds: of the streams' oldest rows the one furthest beyond its limit or, if none is, the newest row."""
    best, most, newest = -1, 1.0, -1
    for stream in range(m.streams):
        mine = stream_at(m, stream)
        if mine.pool != pool or mine.oldest < 0:
            continue
        slot, last = mine.oldest, mine.newest
        over = lived(m, slot) / limit(m, stream)
        if over > most or (over == most and (best < 0 or earlier(m, slot, best))):
            best, most = slot, over
        if newest < 0 or earlier(m, newest, last):
            newest = last
    return best if best >= 0 else newest


@inline
def earlier(m: Memory, a: int, b: int) -> bool:
    """Whether row a comes before row b in (time, sequence number)."""
    one, other = slot_at(m, a), slot_at(m, b)
    if one.time != other.time:
        return one.time < other.time
    return one.seq < other.seq
