"""When the rules are applied: to all residents, each time as many rows as a quarter of them have arrived since.

So judging costs a few looks per arrival, and at most about a quarter more is held than the rules would leave. Where
judging frees next to nothing it is done less often, down to once for as many arrivals as there are residents; one that
frees much brings the pace back. The pace follows from what was taken, so it does not depend on how rows were cut into
batches.

When memory is full they are judged before a row is shed, not sooner than an eighth of them has arrived since the last;
No rows then leave even if a parent that comes later would have learnt from them.

Rules feed each other along the graph: that a child is No kills its parents, that a parent is complete may free its
child. Streams are therefore judged children first, and then the other way, which is left out for a while where it frees
next to nothing. Residents that wait for evidence of order or clusters note when that can come (rules.schedule), and are
passed over until then.
"""

from typing import Any

from windrow.kernels.hashing import in_sample, row_word
from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import BARE, NO, RELEASED, SPARED, STREAM_BITS
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import slot_at, stream_at
from windrow.kernels.release.evidence import pass_steps
from windrow.kernels.release.rules import is_wanted, judge, schedule
from windrow.kernels.retain import charge, depart

LEAST = 256  # arrivals between two collections
SLOWEST = 4  # quarters of the residents
SKIPPED = 7  # collections in which parents are not judged once more after their children, where that freed little
MOST_SPARED = 4096  # residents that are spared, at most: windows without an end would fill up with them


@inline
def bare(m: Memory, stream: int, slot: int) -> None:
    """Let a resident stay without payload."""
    at = slot_at(m, slot)
    if at.row != BARE:
        cost = at.cost >> STREAM_BITS
        charge(m, stream, 0, m.head.bare_cost - cost, 0)
        at.row = BARE
        at.cost = (m.head.bare_cost << STREAM_BITS) | stream


@inline
def let_go(h: Any, m: Memory, stream: int, slot: int) -> None:
    """Release a resident, or spare it to see what comes."""
    share = m.head.spares
    if (
        share > 0.0
        and m.head.spared_rows < MOST_SPARED
        and in_sample(row_word(m.head.seed, slot_at(m, slot).seq), share)
    ):
        if h.strips(h, m):
            bare(m, stream, slot)
        slot_at(m, slot).status = SPARED
        m.head.spared_rows += 1
    else:
        depart(h, m, slot, RELEASED)


@inline
def judge_stream(h: Any, m: Memory, stream: int, pressed: bool, whole: bool) -> bool:
    """Judge the residents of a stream of which something new can be known, or the whole of them, and release those that
    may leave, if pressed all that are No; whether anything has changed."""
    changed = False
    slot, scheduled = stream_at(m, stream).oldest, m.head.due_off > 0
    while slot >= 0:
        at = slot_at(m, slot)
        after = at.newer
        if scheduled and not whole and not pressed and at.due > m.head.arrivals:
            slot = after
            continue
        changed |= judge(m.w, stream, slot)
        if scheduled and at.status < NO:
            schedule(m.w, stream, slot)
        if pressed and slot_at(m, slot).status >= NO:
            depart(h, m, slot, RELEASED)
            changed = True
        elif slot_at(m, slot).status == NO:
            if not is_wanted(m, stream, slot):
                let_go(h, m, stream, slot)
                changed = True
            elif h.strips(h, m):
                bare(m, stream, slot)
        slot = after
    return changed


@inline
def judge_streams(h: Any, m: Memory, upwards: bool, pressed: bool, whole: bool) -> bool:
    """Judge all residents of which something can be found out, children first or last."""
    changed = False
    for k in range(m.streams):
        stream = stream_at(m, k if upwards else m.streams - 1 - k).turn
        if stream_at(m, stream).is_judged or (pressed and stream_at(m, stream).remembers):
            changed |= judge_stream(h, m, stream, pressed, whole)
    return changed


@inner
def collect_all(h: Any, words: Any) -> None:
    """Judge all residents until nothing changes, and release those that may leave."""
    m = memory_of(words)
    for k in range(m.head.ordered):
        pass_steps(m, k)
    upwards = True
    while judge_streams(h, m, upwards, False, True):
        upwards = not upwards


@inline
def held(m: Memory) -> int:
    """Residents of all streams."""
    rows = 0
    for stream in range(m.streams):
        rows += stream_at(m, stream).rows
    return rows


@inner
def collect(h: Any, words: Any, pressed: bool) -> None:
    """Judge all residents, and release those that may leave; if memory is full, No rows that wait for parents too."""
    m = memory_of(words)
    before = held(m)
    for k in range(m.head.ordered):
        pass_steps(m, k)
    changed = judge_streams(h, m, True, pressed, False)
    if changed and (pressed or m.head.passed_over == 0):
        between = held(m)
        judge_streams(h, m, False, pressed, False)
        m.head.passed_over = SKIPPED if between - held(m) < between >> 5 else 0
    elif m.head.passed_over > 0:
        m.head.passed_over -= 1
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
