"""What a join that releases does at the hooks of its driver (kernels/policies/policy.py lists them)."""

from typing import Any

from windrow.kernels import reasons
from windrow.kernels.directory import find
from windrow.kernels.jit import inline, inner
from windrow.kernels.keys import open_key
from windrow.kernels.layout import (
    BARE,
    EXPIRED,
    NO,
    R_CODES,
    R_COST,
    R_LIVE,
    R_SLOT,
    R_STREAM,
    R_TIME,
    REFUSED,
    RELEASED,
    SHED,
    STREAM_BITS,
    UNKNOWN,
    VOID,
    YES,
)
from windrow.kernels.memory import Memory, memory_of, memory_of_numbered_pair
from windrow.kernels.places import came_at, chain, edge_at, key_at, key_of, link_at, promise_at, slot_at, stream_at
from windrow.kernels.release import collect as collecting
from windrow.kernels.release.evidence import forget_codes, is_used, note_befores, note_codes, note_key, observe
from windrow.kernels.release.keeping import is_kept, note_told
from windrow.kernels.release.rules import is_wanted, judge
from windrow.kernels.release.sparing import (
    MOST_SPARED,
    goes,
    is_spared,
    miss_many,
    miss_pair,
    spare,
    stays,
    thin_spared,
)
from windrow.kernels.release.waking import let_go, wake_parents
from windrow.kernels.retain import admit, any_over
from windrow.kernels.settle import copy_row, fill

RELEASES = True


@inline
def pair_memory(h: Any, block: Any) -> Memory:
    """The block of a join of two streams with a common key."""
    return memory_of_numbered_pair(block)


@inline
def observed(h: Any, m: Memory, r: Any, at: int) -> None:
    """An arrival tells what has come, whatever becomes of it."""
    if m.head.ordered > 0:
        observe(m.w, r, at)


@inline
def strip(m: Memory, slot: int, stream: int) -> None:
    """Let a row that is not yet admitted be a resident without payload."""
    slot_at(m, slot).row = BARE
    slot_at(m, slot).cost = (m.head.bare_cost << STREAM_BITS) | stream


@inline
def refused(h: Any, m: Memory, r: Any, rx: Any, at: int) -> None:
    """N1: a row that a filter refuses is No, and stays where parents that come later ask for it."""
    stream = r[at + R_STREAM]
    if r[at + R_LIVE] == REFUSED and stream_at(m, stream).remembers:
        if is_kept(m, stream):
            slot = fill(h, m, r, rx, at)
            strip(m, slot, stream)
            slot_at(m, slot).status = VOID
            h.starts(h, m, rx, at, slot)
            admit(h, m, slot)
        else:
            m.head.seq += 1
            reasons.count(m, stream, RELEASED)
    note_codes(m.w, r, at)
    wake_parents(h, m, r, at)


@inline
def undone(h: Any, m: Memory, r: Any, at: int) -> None:
    """A row was deleted: who met it as its only partner has none to come, and who comes later may meet the next one.

    Uniqueness of a stream with deletions is that of its rows at each moment. One that was found by watching is strict.
    """
    wake_parents(h, m, r, at)
    if not m.head.monitored:
        forget_codes(m.w, r, at)


@inline
def visible(h: Any, m: Memory, slot: int) -> bool:
    """No rows are in no match."""
    return slot_at(m, slot).status < NO


@inline
def sees(h: Any, m: Memory, slot: int) -> bool:
    """A probe goes on from No rows, too, to find what is missed; but not from rows that a filter refuses."""
    return slot_at(m, slot).status < VOID


@inline
def is_new(h: Any, m: Memory, bound: Any) -> bool:
    """A match with No rows is missed: a promise was broken."""
    for k in range(m.streams):
        if slot_at(m, bound[k]).status >= NO:
            miss_many(m.w, bound)
            return False
    return True


@inline
def misses(h: Any, m: Memory, slot: int, stream: int) -> None:
    """The same in a join of two streams."""
    miss_pair(m.w, slot, stream)


@inline
def hides(h: Any, m: Memory) -> bool:
    """Some residents may be invisible."""
    return True


@inline
def paired(h: Any, m: Memory, slot: int) -> None:
    """Y2."""
    slot_at(m, slot).status = YES


@inline
def stored(h: Any, m: Memory, slot: int, stream: int) -> None:
    """A slot has been filled with an arriving row."""
    slot_at(m, slot).status = YES if stream_at(m, stream).is_leaf else UNKNOWN
    note_befores(m, slot, stream)


@inline
def noted(h: Any, m: Memory, r: Any, at: int) -> None:
    """An arriving row has been settled: its keys know that it came, and so do those who waited for it."""
    slot = r[at + R_SLOT]
    if slot >= 0 and slot_at(m, slot).status == NO and is_spared(m, slot_at(m, slot).seq):
        if not is_wanted(m, r[at + R_STREAM], slot):
            let_go(h, m, r[at + R_STREAM], slot)
    note_codes(m.w, r, at)
    wake_parents(h, m, r, at)


@inline
def useless(h: Any, m: Memory, r: Any, at: int, key: int) -> bool:
    """Whether the row at a place, of a join of two streams, need not be stored: its only partner has come already."""
    if key < 0:
        return False
    edge = edge_at(m, stream_at(m, r[at + R_STREAM]).first_edge)
    met = m.head.releasing != 0 and is_used(m, edge.child) and m.w[came_at(m, 0, key, edge.other)] > 0
    if not met or (not h.strips(h, m) and is_spared(m, m.head.seq - 1)):
        return False
    promise_at(m, edge.child).released += 1
    note_told(m, edge, key, r[at + R_COST])
    return True


@inline
def done_with(h: Any, m: Memory, slot: int, stream: int) -> bool:
    """Whether the row in a slot, which has been probed and is not yet admitted, need not be: it is No already."""
    if not stream_at(m, stream).is_judged or m.head.releasing == 0:
        return False
    judge(m.w, stream, slot)
    if slot_at(m, slot).status != NO:
        return False
    cost = slot_at(m, slot).cost >> STREAM_BITS
    for k in range(stream_at(m, stream).first_edge, stream_at(m, stream).after_edge):
        if edge_at(m, k).directory >= 0 and is_used(m, edge_at(m, k).child):
            note_told(m, edge_at(m, k), key_of(m, slot, edge_at(m, k).link), cost)
    if not is_wanted(m, stream, slot) and not is_spared(m, slot_at(m, slot).seq):
        return True
    if h.strips(h, m):
        strip(m, slot, stream)
    return False


@inline
def settled(h: Any, m: Memory, r: Any, at: int) -> None:
    """A row of a join of two streams has been settled: whoever waited for it as their only partner leaves."""
    stream, code = r[at + R_STREAM], r[at + R_CODES]
    key = find(m, 0, code)
    if key < 0:
        return
    note_key(m, stream, 0, 0, key, r[at + R_TIME])
    if m.head.releasing == 0 or not is_used(m, edge_at(m, stream_at(m, stream).first_edge).parent):
        return
    other = 1 - stream
    slot = chain(key_at(m, 0, key), other).head
    while slot >= 0:
        after = link_at(m, slot, 0).newer
        if slot_at(m, slot).status < NO:
            stream_at(m, other).complete += 1
            promise_at(m, edge_at(m, stream_at(m, stream).first_edge).parent).released += 1
            slot_at(m, slot).status = NO
        if goes(m, slot):
            let_go(h, m, other, slot)
        slot = after


@inline
def let_pass(h: Any, m: Memory, r: Any, rx: Any, at: int) -> None:
    """A row that need not be stored leaves at once, or is spared."""
    stream_at(m, r[at + R_STREAM]).complete += 1
    if is_spared(m, m.head.seq - 1):
        spare_newcomer(h, m.w, r, rx, at)
    else:
        reasons.count(m, r[at + R_STREAM], RELEASED)


@inner
def spare_newcomer(h: Any, words: Any, r: Any, rx: Any, at: int) -> None:
    """Store the row at a place of a join of two streams, the last that was counted, without payload."""
    m = memory_of(words)
    stream, slot = r[at + R_STREAM], copy_row(m, r, rx, at)
    h.stored(h, m, slot, stream)
    link_at(m, slot, 0).key = open_key(h, m, 0, r[at + R_CODES])
    strip(m, slot, stream)
    slot_at(m, slot).status = NO
    spare(m, slot)
    h.starts(h, m, rx, at, slot)
    admit(h, m, slot)


@inline
def parting(h: Any, m: Memory, slot: int) -> None:
    """A resident is about to leave."""
    if stays(m, slot):
        m.head.spared_rows -= 1


@inline
def why_expired(h: Any, m: Memory, slot: int) -> int:
    """A row that was spared would have been released long before."""
    return RELEASED if stays(m, slot) else EXPIRED


@inline
def why_shed(h: Any, m: Memory, slot: int) -> int:
    """A No row is in no match: to let it go for lack of memory loses nothing."""
    m.head.blinded += stays(m, slot)
    return RELEASED if slot_at(m, slot).status >= NO else SHED


@inline
def matters(h: Any, m: Memory, slot: int) -> bool:
    """No rows are in no match, and the sampler is not asked for them; those that are on their way to disk have left."""
    status = slot_at(m, slot).status
    return status == UNKNOWN or status == YES


@inline
def ended(h: Any, m: Memory) -> None:
    """A group has ended. Where memory is full, residents are judged before any is shed, and No rows leave first."""
    if collecting.is_due(m):
        collecting.collect(h, m.w)
    if any_over(m) and collecting.is_pressing(m):
        collecting.collect_pressed(h, m.w)
    if m.head.spared_rows > MOST_SPARED:
        thin_spared(h, m.w)


@inline
def collect(h: Any, m: Memory) -> None:
    """Judge all residents now."""
    if m.head.releasing:
        collecting.collect_all(h, m.w)
