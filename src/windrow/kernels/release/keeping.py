"""Whether rows that a filter refuses are kept: they tell parents that come later, and take memory until they go.

A refused row that is kept is a resident without payload, mostly with a key of its own. Parents that come after it are
not stored; without it they are, until their own windows end. So it pays where many parents come after few such rows,
and does not where a refused row stays longer than the parents it tells: then the join would hold more than it does
without constraints. Both are counted, for each promise of a unique key, and compared in bytes once as many were refused
as a 16th of the residents:

    told * (window of a parent) / (time counted)          parents that would be held, if refused rows were not
    kept * (window of a refused row) / (time counted)     refused rows that are held; not more than their stream holds

If there are more of these than of those, refused rows are let go at once, and those that are held go. The question is
asked again when sixteen times as many rows as there are residents were refused since. Parents that are here when a
refused row comes are told in any case (waking.py).
"""

from typing import Any

from windrow.kernels.distances import apart, length
from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import BY_UNIQUE, NO, Edge, Promise
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import came_at, chain, directory_of, edge_at, key_at, promise_at, slot_at, stream_at
from windrow.kernels.release.evidence import is_used

LEAST_KEPT = 256
ASK_AGAIN = 16  # times the residents


@inline
def is_kept(m: Memory, stream: int) -> bool:
    """Whether a row of a stream that a filter refuses stays to tell parents that come later; it is counted."""
    mine, kept = stream_at(m, stream), False
    for k in range(mine.first_edge, mine.after_edge):
        edge = edge_at(m, k)
        if is_used(m, edge.parent):
            promise = promise_at(m, edge.parent)
            if promise.kept == 0:
                promise.asked, promise.asked_clock = mine.rank, m.head.clock
            promise.kept += 1
            kept |= edge.is_exempt == 0 and promise.is_quiet == 0
        elif edge.parent >= 0:
            kept = True  # what is found out later may need it
    return kept


@inline
def note_told(m: Memory, edge: Edge, key: int, cost: int) -> None:
    """Count the bytes of a newcomer that has a No row for its partner, if it has: the first of a key with the key."""
    there = chain(key_at(m, edge.directory, key), edge.other).head
    if there >= 0 and slot_at(m, there).status >= NO:
        first = m.w[came_at(m, edge.directory, key, edge.stream)] <= 0
        promise_at(m, edge.child).told += cost + m.head.key_bytes // m.dirs if first else cost


@inline
def times_counted(m: Memory, promise: Promise, stream: int) -> float:
    """How many times as long as was counted the window of a stream is; no more than all that has come."""
    mine, of = stream_at(m, stream), stream_at(m, promise.stream)
    counted = float(max(of.rank - promise.asked, 1))
    if mine.last_rows > 0:
        window = float(mine.last_rows) * of.rank / max(mine.rank, 1) / counted
    else:
        span = apart(m.head.clock, promise.asked_clock) if m.head.clock > promise.asked_clock else length(1)
        window = float(length(mine.reach)) / float(span)
    return min(window, of.rank / counted)


@inline
def refused_bytes(m: Memory, stream: int) -> int:
    """What a refused row of a stream is charged, with its keys."""
    size = m.head.bare_cost
    for link in range(m.links):
        if directory_of(m, stream, link) >= 0:
            size += m.head.key_bytes // m.dirs
    return size


@inline
def pays(m: Memory, promise: Promise, which: int) -> bool:
    """Whether refused rows keep parents of more bytes out than they have themselves."""
    mine, saved = stream_at(m, promise.stream), 0.0
    for k in range(mine.first_edge, mine.after_edge):
        if edge_at(m, k).parent == which:
            saved = max(saved, promise.told * times_counted(m, promise, edge_at(m, k).other))
    held = min(float(mine.rows), promise.kept * times_counted(m, promise, promise.stream))
    return saved >= held * refused_bytes(m, promise.stream)


@inner
def choose_kept(words: Any, residents: int) -> None:
    """Decide anew whether refused rows are kept, where enough was counted."""
    m = memory_of(words)
    for k in range(m.head.promises):
        promise = promise_at(m, k)
        if promise.kind != BY_UNIQUE or promise.is_used == 0:
            continue
        if promise.is_quiet:
            if promise.kept >= ASK_AGAIN * max(LEAST_KEPT, residents):
                promise.kept, promise.told, promise.is_quiet = 0, 0, 0
        elif promise.kept >= max(LEAST_KEPT, residents >> 4):
            if pays(m, promise, k):  # what is long ago counts less
                promise.kept, promise.told = promise.kept >> 1, promise.told >> 1
                promise.asked += (stream_at(m, promise.stream).rank - promise.asked) >> 1
                promise.asked_clock += (m.head.clock - promise.asked_clock) >> 1
            else:
                promise.kept, promise.told, promise.is_quiet = 0, 0, 1
                m.head.rounds = 0
