"""Sparing: a sample of the rows that are released stays, without payload, to see what comes after all.

A resident that is spared is No and in no match that is given out. Its key remembers what came, so that promises are
seen broken (watch.py); and a probe that comes upon it has found a match that is missed. Whether a row is spared follows
from the seed and its number: each is with the probability `spares`, whatever becomes of others. So a match in which
n rows are spared, and the rest is there, stands for 1 / spares ** n matches that were missed, which makes their sum an
estimate without bias; they are counted in random groups of rows, from which its error is known. A No row that had to
stay in any case stands for itself.

When there are more than MOST_SPARED of them the share is halved, and those leave that are not in the smaller sample:
whoever stays is in it with the new probability, so that nothing that is counted later is counted wrongly.

    SPARED        would be in matches, if a promise is broken
    VOID_SPARED   a filter refuses it: it tells of promises, and is in no match
"""

from typing import Any

import numpy as np

from windrow.kernels.hashing import in_sample, row_word
from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import BY_INTEGRITY, FORGOTTEN, GROUPS, NO, RELEASED, SPARED, VOID, VOID_SPARED
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import came_at, edge_at, evidence_at, key_of, promise_at, slot_at, stream_at, stream_of
from windrow.kernels.release.evidence import shows
from windrow.kernels.retain import depart

MOST_SPARED = 4096  # residents: windows without an end would fill up with them
SALT = 0x3C6EF372FE94F82B  # samplers and the estimate of what was shed draw other numbers from the same seed


@inline
def spare_word(m: Memory, seq: int) -> Any:
    """The word that decides whether the row of a number is spared."""
    return row_word(m.head.seed ^ SALT, seq)


@inline
def is_spared(m: Memory, seq: int) -> bool:
    """Whether the row of a number stays when it is released."""
    return m.head.spares > 0.0 and in_sample(spare_word(m, seq), m.head.spares)


@inline
def goes(m: Memory, slot: int) -> bool:
    """Whether a resident is No, and is let go as soon as nobody wants it any more."""
    status = slot_at(m, slot).status
    return status == NO or status == VOID


@inline
def stays(m: Memory, slot: int) -> bool:
    """Whether a resident was spared."""
    status = slot_at(m, slot).status
    return status == SPARED or status == VOID_SPARED


@inline
def spare(m: Memory, slot: int) -> None:
    """Let a No row stay."""
    slot_at(m, slot).status = VOID_SPARED if slot_at(m, slot).status == VOID else SPARED
    m.head.spared_rows += 1


@inner
def thin_spared(h: Any, words: Any) -> None:
    """Halve the share of rows that are spared until few enough are."""
    m = memory_of(words)
    while m.head.spared_rows > MOST_SPARED:
        m.head.spares = 0.5 * m.head.spares
        for stream in range(m.streams):
            slot = stream_at(m, stream).oldest
            while slot >= 0:
                after = slot_at(m, slot).newer
                if stays(m, slot) and not is_spared(m, slot_at(m, slot).seq):
                    depart(h, m, slot, RELEASED)
                slot = after


@inline
def doubt_unique(m: Memory, slot: int, stream: int) -> None:
    """Count uniqueness of a stream as broken where a row that has met the only one of its key, deleted since, meets the
    next one: keys have forgotten the first, and cannot tell."""
    mine = stream_at(m, stream_of(m, slot))
    for k in range(mine.first_edge, mine.after_edge):
        edge = edge_at(m, k)
        if edge.other != stream or edge.directory < 0 or edge.child < 0:
            continue
        if m.w[came_at(m, edge.directory, key_of(m, slot, edge.link), stream)] == FORGOTTEN:
            promise_at(m, edge.child).violations += 1
            promise_at(m, edge.child).since = stream_at(m, stream).rank


@inline
def doubt_integrity(m: Memory, bound: Any, stream: int) -> None:
    """Count Integrity as broken that says that no partner of a stream's row in a match comes any more, if one has come
    after it, where keys alone do not tell who is a partner."""
    mine, slot = stream_at(m, stream), bound[stream]
    for e in range(mine.first_edge, mine.after_edge):
        edge = edge_at(m, e)
        if edge.directory < 0 or slot_at(m, bound[edge.other]).seq < slot_at(m, slot).seq:
            continue
        for k in range(edge.first_evidence, edge.after_evidence):
            promise = promise_at(m, evidence_at(m, k).promise)
            if promise.kind == BY_INTEGRITY and promise.plain == 0 and shows(m, evidence_at(m, k), edge, slot):
                promise.violations += promise.is_used
                promise.since = stream_at(m, edge.other).rank


@inline
def add_missed(m: Memory, weight: float, seq: int) -> None:
    """Count matches that are missed: of a sample by the group of the row of a number, else for themselves."""
    if weight == 1.0:
        m.head.missed += 1.0
    else:
        m.x[m.head.missed_at + np.int64(spare_word(m, seq) & np.uint64(GROUPS - 1))] += weight


@inner
def miss_pair(words: Any, slot: int, stream: int) -> None:
    """Count a match of an arriving row of a stream with a No row as missed."""
    m = memory_of(words)
    status = slot_at(m, slot).status
    if status == NO or status == SPARED:
        add_missed(m, 1.0 / m.head.spares if status == SPARED else 1.0, slot_at(m, slot).seq)
        doubt_unique(m, slot, stream)


@inner
def miss_many(words: Any, bound: Any) -> None:
    """Count a match with No rows, given by its slots, as missed; the last row to come has just come."""
    m = memory_of(words)
    weight, first, last = 1.0, 0, 0
    for k in range(m.streams):
        if slot_at(m, bound[k]).status == SPARED:
            weight /= m.head.spares
            first = slot_at(m, bound[k]).seq
        if slot_at(m, bound[k]).seq > slot_at(m, bound[last]).seq:
            last = k
    add_missed(m, weight, first)
    for k in range(m.streams):
        if slot_at(m, bound[k]).status >= NO:
            doubt_unique(m, bound[k], last)
            doubt_integrity(m, bound, k)
