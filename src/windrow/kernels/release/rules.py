"""The rules by which a resident is found useless (docs/decisions/0030).

    Yes       every row that the resident reaches by many-one joins has arrived
    No        no match that is still to come contains it
    Unknown   neither is known

    Y1        Yes   each of its child streams has a partner of it that is Yes
    Y2        Yes   it is in a match                                                         (hooks.py)
    N1        No    a filter refuses it                                                      (hooks.py)
    N2 dead   No    closed to a neighbour (evidence.py), where it has no partner but No rows
    N3 complete No  neighbours that cover the graph, maybe with its own help if it is Yes: closed to each of them, where
                    it has no Unknown partner
    L         a No row leaves once every parent stream is exempt, or it is closed to it

Whatever holds once goes on to hold, or its resident becomes No: rules may be applied in any order, at any time, to any
of the residents. To apply them seldom costs memory, and never a match.
"""

from typing import Any

from windrow.kernels.drive_many import holds
from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import NO, UNKNOWN, YES, Cover, Edge
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import (
    chain,
    cover_at,
    edge_at,
    key_at,
    key_of,
    link_at,
    predicate_at,
    promise_at,
    slot_at,
    stream_at,
)
from windrow.kernels.release.evidence import closed_by, is_closed, is_used, link_into


@inner
def all_hold(words: Any, edge: Edge, slot: int, there: int) -> bool:
    """Whether all predicates hold between a resident and one of a neighbour."""
    m = memory_of(words)
    for p in range(m.preds):
        pred = predicate_at(m, p)
        if pred.left == edge.stream and pred.right == edge.other:
            if not holds(m.w, pred, slot, there):
                return False
        elif pred.left == edge.other and pred.right == edge.stream and not holds(m.w, pred, there, slot):
            return False
    return True


@inline
def partner_with(m: Memory, edge: Edge, slot: int, statuses: int) -> bool:
    """Whether a resident has a partner on an edge with one of some statuses, given by a bit for each."""
    if edge.directory < 0:
        return True  # nobody looked
    link = link_into(m, edge.other, edge.directory)
    there = chain(key_at(m, edge.directory, key_of(m, slot, edge.link)), edge.other).tail
    while there >= 0:
        if (statuses >> slot_at(m, there).status) & 1 and (edge.plain != 0 or all_hold(m.w, edge, slot, there)):
            return True
        there = link_at(m, there, link).older
    return False


LIVE = (1 << YES) | (1 << UNKNOWN)


@inline
def is_dead(m: Memory, stream: int, slot: int) -> bool:
    """N2."""
    mine = stream_at(m, stream)
    for k in range(mine.first_edge, mine.after_edge):
        edge = edge_at(m, k)
        promise = closed_by(m, edge, slot)
        if promise >= 0 and not partner_with(m, edge, slot, LIVE):
            promise_at(m, promise).released += 1
            return True
    return False


@inline
def is_complete(m: Memory, stream: int, slot: int) -> bool:
    """N3."""
    mine, status = stream_at(m, stream), slot_at(m, slot).status
    if m.head.covers_hold == 0:
        return False
    for c in range(mine.first_cover, mine.after_cover):
        cover = cover_at(m, c)
        if cover.own != 0 and status != YES:
            continue
        if covered(m, cover.edges, mine.first_edge, mine.after_edge, slot):
            credit(m.w, cover, stream, slot)
            return True
    return False


@inner
def credit(words: Any, cover: Cover, stream: int, slot: int) -> None:
    """Count a resident for the promises by which a cover shows it complete: those that close it, and those of unique
    keys by which it reaches what it covers itself."""
    m = memory_of(words)
    mine = stream_at(m, stream)
    for k in range(mine.first_edge, mine.after_edge):
        edge = edge_at(m, k)
        if (cover.edges >> (k - mine.first_edge)) & 1:
            promise_at(m, closed_by(m, edge, slot)).released += 1
        elif cover.own != 0 and is_used(m, edge.child):
            promise_at(m, edge.child).released += 1


@inline
def covered(m: Memory, edges: int, first: int, after: int, slot: int) -> bool:
    """Whether a resident is closed to all neighbours of a cover, and has no Unknown partner there."""
    for k in range(first, after):
        if (edges >> (k - first)) & 1:
            edge = edge_at(m, k)
            if not is_closed(m, edge, slot) or partner_with(m, edge, slot, 1 << UNKNOWN):
                return False
    return True


@inline
def children_yes(m: Memory, stream: int, slot: int) -> bool:
    """Y1."""
    mine = stream_at(m, stream)
    for k in range(mine.first_edge, mine.after_edge):
        edge = edge_at(m, k)
        if is_used(m, edge.child) and not partner_with(m, edge, slot, 1 << YES):
            return False
    return True


@inline
def is_wanted(m: Memory, stream: int, slot: int) -> bool:
    """Whether a No row is still to tell a parent that comes later: else it leaves (L)."""
    mine = stream_at(m, stream)
    for k in range(mine.first_edge, mine.after_edge):
        edge = edge_at(m, k)
        if is_used(m, edge.parent) and edge.is_exempt == 0 and promise_at(m, edge.parent).is_quiet == 0:
            if not is_closed(m, edge, slot):
                return True
    return False


@inner
def judge(words: Any, stream: int, slot: int) -> bool:
    """Find out what is known of a resident; whether that has changed."""
    m = memory_of(words)
    mine, at = stream_at(m, stream), slot_at(m, slot)
    if at.status >= NO:
        return False
    if is_dead(m, stream, slot):
        mine.dead += 1
        at.status = NO
        return True
    if at.status == UNKNOWN and children_yes(m, stream, slot):
        at.status = YES
        judge_complete(m, stream, slot)
        return True
    return judge_complete(m, stream, slot)


@inline
def judge_complete(m: Memory, stream: int, slot: int) -> bool:
    """Whether a resident is complete, and noted as such."""
    if not is_complete(m, stream, slot):
        return False
    stream_at(m, stream).complete += 1
    slot_at(m, slot).status = NO
    return True
