"""When the rules are applied: to residents of which time may have shown something, each time as many rows as a quarter
of all have arrived since.

Arrivals, and whatever becomes of a row, wake those whom that concerns (waking.py). What is left is evidence that comes
with time: k arrivals, values that were left behind, clusters that have ended. Each stream that has such evidence is
swept, children first: residents of which it shows nothing are passed over, and where it is all a matter of waiting the
first of them ends the sweep, for those behind it have waited less. What expires or is shed wakes nobody, so all
residents are judged now and then, children first and then the other way: after each collection where that frees much,
down to once in 32 collections where it does not.

So judging costs about a look per arrival, and at most about a quarter more is held than the rules would leave. Where
it frees next to nothing it is done less often, down to once for as many arrivals as there are residents; one that
frees much brings the pace back. The pace follows from what was taken, so it does not depend on how rows were cut into
batches.

When memory is full all are judged before a row is shed, not sooner than an eighth of them has arrived since the last;
No rows then leave even if a parent that comes later would have learnt from them.
"""

from typing import Any

from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import BY_INTEGRITY, NO, NONE, RELEASED
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import edge_at, evidence_at, promise_at, slot_at, stream_at, stream_of
from windrow.kernels.release.evidence import is_used, pass_steps, shows
from windrow.kernels.release.keeping import choose_kept
from windrow.kernels.release.rules import is_wanted, judge
from windrow.kernels.release.sparing import goes, stays
from windrow.kernels.release.waking import NEXT, bare, let_go, look_again, to_do, wake_all, wakes_any
from windrow.kernels.retain import depart

LEAST = 256  # arrivals between two collections
SLOWEST = 4  # quarters of the residents
SELDOM = 32  # collections between two in which all residents are judged, at most


@inline
def judge_stream(h: Any, m: Memory, stream: int, pressed: bool) -> bool:
    """Judge the residents of a stream, and release those that may leave, if pressed all that are No; whether anything
    has changed."""
    changed = False
    slot = stream_at(m, stream).oldest
    while slot >= 0:
        after = slot_at(m, slot).newer
        changed |= judge(m.w, stream, slot)
        if pressed and slot_at(m, slot).status >= NO:
            m.head.blinded += stays(m, slot)
            depart(h, m, slot, RELEASED)
            changed = True
        elif goes(m, slot):
            if not is_wanted(m, stream, slot):
                let_go(h, m, stream, slot)
                changed = True
            elif h.strips(h, m):
                bare(m, stream, slot)
        slot = after
    return changed


@inline
def judge_streams(h: Any, m: Memory, upwards: bool, pressed: bool) -> bool:
    """Judge all residents of which something can be found out, children first or last."""
    changed = False
    for k in range(m.streams):
        stream = stream_at(m, k if upwards else m.streams - 1 - k).turn
        if stream_at(m, stream).is_judged or stream_at(m, stream).remembers:
            changed |= judge_stream(h, m, stream, pressed)
    return changed


@inner
def collect_all(h: Any, words: Any) -> None:
    """Judge all residents until nothing changes, and release those that may leave."""
    m = memory_of(words)
    for k in range(m.head.ordered):
        pass_steps(m, k)
    upwards = True
    while judge_streams(h, m, upwards, False):
        upwards = not upwards


@inline
def held(m: Memory) -> int:
    """Residents of all streams."""
    rows = 0
    for stream in range(m.streams):
        rows += stream_at(m, stream).rows
    return rows


WAITS, SHOWS = 1, 2


@inline
def timed(m: Memory, stream: int) -> int:
    """What time shows of a stream's rows: nothing, that they have waited, or something else."""
    found, mine = 0, stream_at(m, stream)
    for e in range(mine.first_edge, mine.after_edge):
        edge = edge_at(m, e)
        for k in range(edge.first_evidence, edge.after_evidence):
            promise = evidence_at(m, k).promise
            if edge.directory >= 0 and is_used(m, promise):
                found = max(found, WAITS if promise_at(m, promise).kind == BY_INTEGRITY else SHOWS)
    return found


@inline
def time_shows(m: Memory, stream: int, slot: int) -> bool:
    """Whether time has shown that no more partners of a resident come from some neighbour."""
    mine = stream_at(m, stream)
    for e in range(mine.first_edge, mine.after_edge):
        edge = edge_at(m, e)
        for k in range(edge.first_evidence, edge.after_evidence):
            line = evidence_at(m, k)
            if edge.directory >= 0 and is_used(m, line.promise) and shows(m, line, edge, slot):
                return True
    return False


@inline
def by_place(h: Any, m: Memory, stream: int) -> bool:
    """Whether the residents of a stream are best looked at as they lie in memory, which reads ahead: where it holds
    many of the slots, nobody is woken by what becomes of them, so that their order does not matter, and every slot that
    is not free is a resident's."""
    plain = h.strips(h, m) and m.head.gone_count == 0 and m.head.down_count == 0
    return plain and 4 * stream_at(m, stream).rows >= m.head.top and not wakes_any(m, stream)


@inner
def sweep(h: Any, words: Any, stream: int, todo: Any) -> None:
    """Judge the residents of a stream of which time has shown something, and whoever that concerns."""
    m = memory_of(words)
    kind = timed(m, stream)
    if kind == 0:
        return
    if kind == SHOWS and by_place(h, m, stream):
        for slot in range(m.head.top):
            if slot_at(m, slot).row != NONE and stream_of(m, slot) == stream and time_shows(m, stream, slot):
                look_again(h, m.w, stream, slot, todo)
        return
    todo[NEXT] = stream_at(m, stream).oldest
    while todo[NEXT] >= 0:
        slot = todo[NEXT]
        todo[NEXT] = slot_at(m, slot).newer
        if time_shows(m, stream, slot):
            if look_again(h, m.w, stream, slot, todo):
                wake_all(h, m.w, todo)
        elif kind == WAITS:
            todo[NEXT] = NONE


@inner
def collect(h: Any, words: Any) -> None:
    """Judge the residents of which time has shown something, now and then all, and release those that may leave."""
    m = memory_of(words)
    before = held(m)
    for k in range(m.head.ordered):
        pass_steps(m, k)
    choose_kept(m.w, before)
    todo = to_do()
    for k in range(m.streams):
        stream = stream_at(m, k).turn
        if stream_at(m, stream).is_judged:
            sweep(h, m.w, stream, todo)
    m.head.rounds -= 1
    if m.head.rounds < 0:
        left = held(m)
        if judge_streams(h, m, True, False):
            judge_streams(h, m, False, False)
        m.head.every = 1 if left - held(m) > left >> 5 else min(2 * m.head.every, SELDOM)
        m.head.rounds = m.head.every - 1
    note_collected(m, before)


@inner
def collect_pressed(h: Any, words: Any) -> None:
    """Judge all residents where memory is full, and release even No rows that wait for parents."""
    m = memory_of(words)
    before = held(m)
    for k in range(m.head.ordered):
        pass_steps(m, k)
    if judge_streams(h, m, True, True):
        judge_streams(h, m, False, True)
    note_collected(m, before)


@inline
def note_collected(m: Memory, before: int) -> None:
    """Note what a collection has left, and when the next one is due."""
    m.head.collected, m.head.spared = m.head.arrivals, held(m)
    if before - m.head.spared < before >> 4:
        m.head.pace = min(2 * m.head.pace, SLOWEST)
    else:
        m.head.pace = 1


@inline
def is_pressing(m: Memory) -> bool:
    """Whether judging is worth its while before a row is shed: enough has come since, or none may be shed."""
    since = m.head.arrivals - m.head.collected
    return m.head.releasing != 0 and (m.head.fail_when_full != 0 or since >= max(16, m.head.spared >> 3))


@inline
def is_due(m: Memory) -> bool:
    """Whether enough has come since residents were last judged."""
    return m.head.releasing != 0 and m.head.arrivals - m.head.collected >= max(LEAST, m.head.spared * m.head.pace >> 2)
