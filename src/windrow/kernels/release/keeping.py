"""Whether rows that a filter refuses are kept: they tell parents that come later, and take memory until they go.

A refused row that is kept is a resident without payload. Parents that come after it are not stored; without it they
are, until their own windows end. So it pays where many parents come after few such rows, and does not where a refused
row stays longer than the parents it tells: then the join would hold more than it does without constraints. Both are
counted, for each promise of a unique key, and compared once as many were refused as a 16th of the residents:

    told * (stay of a parent)  <  kept * (stay of a refused row)     refused rows go at once, and those that are held go

The question is asked again when sixteen times as many rows as there are residents were refused since. Parents that
are here when a refused row comes are told in any case (waking.py).
"""

from windrow.kernels.apart import length
from windrow.kernels.jit import inline
from windrow.kernels.layout import BY_UNIQUE, NO, Edge
from windrow.kernels.memory import Memory
from windrow.kernels.places import chain, edge_at, key_at, promise_at, slot_at, stream_at
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
            promise.kept += 1
            kept |= edge.is_exempt == 0 and promise.is_quiet == 0
        elif edge.parent >= 0:
            kept = True  # what is found out later may need it
    return kept


@inline
def note_told(m: Memory, edge: Edge, key: int) -> None:
    """Count a newcomer that has a No row for its partner, if it has."""
    there = chain(key_at(m, edge.directory, key), edge.other).head
    if there >= 0 and slot_at(m, there).status >= NO:
        promise_at(m, edge.child).told += 1


@inline
def stay(m: Memory, stream: int, in_rows: bool) -> float:
    """How long rows of a stream stay: as a share of all arrivals, or a length of time."""
    mine = stream_at(m, stream)
    if in_rows:
        return min(float(mine.last_rows) / max(mine.rank, 1), 1.0)
    return float(length(mine.reach))


@inline
def parents_stay(m: Memory, stream: int, promise: int) -> float:
    """How much longer the parents of a stream's rows stay than these: the largest ratio; 1 if it cannot be told."""
    mine, most = stream_at(m, stream), 0.0
    for k in range(mine.first_edge, mine.after_edge):
        edge = edge_at(m, k)
        if edge.parent == promise:
            ratio, in_rows = 1.0, mine.last_rows > 0
            if in_rows == (stream_at(m, edge.other).last_rows > 0):
                ratio = stay(m, edge.other, in_rows) / max(stay(m, stream, in_rows), 1e-9)
            most = max(most, ratio)
    return most


@inline
def choose_kept(m: Memory, residents: int) -> None:
    """Decide anew whether refused rows are kept, where enough was counted."""
    for k in range(m.head.promises):
        promise = promise_at(m, k)
        if promise.kind != BY_UNIQUE or promise.is_used == 0:
            continue
        if promise.is_quiet:
            if promise.kept >= ASK_AGAIN * max(LEAST_KEPT, residents):
                promise.kept, promise.told, promise.is_quiet = 0, 0, 0
        elif promise.kept >= max(LEAST_KEPT, residents >> 4):
            if promise.told * parents_stay(m, promise.stream, k) < promise.kept:
                promise.kept, promise.told, promise.is_quiet = 0, 0, 1
                m.head.rounds = 0
            else:
                promise.kept, promise.told = promise.kept >> 1, promise.told >> 1
