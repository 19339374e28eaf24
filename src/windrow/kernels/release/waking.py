"""Waking: a resident whose partner has come, or has become Yes or No, is judged then, with all that follow from it.

What happens to a row says something of its parents alone, by rules N2, N3 and Y1 on many-one edges. Of other edges only
time can say that they are closed, and then the resident is judged at every collection anyway (collect.py). So waking
goes from children to parents, along the chains of their common key, and each row wakes others twice at most: when it
becomes Yes and when it becomes No.

    todo      [how many wait, the resident that a sweep comes to next, then (slot, sequence number) of each]

Rows that wait for their turn are No or Yes already, and may be gone when it comes: another row has their slot then, or
none, or it is on its way to disk and says so by being Unknown (demoting.py). A list that is full forgets rows; all
residents are judged at the next collection then.
"""

from typing import Any

import numpy as np

from windrow.kernels.directory import find
from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import (
    BARE,
    NO_KEY,
    NONE,
    R_CODES,
    R_STREAM,
    RELEASED,
    STREAM_BITS,
    UNKNOWN,
    Edge,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import chain, edge_at, key_at, key_of, link_at, slot_at, stream_at, stream_of
from windrow.kernels.release.evidence import is_used, link_into
from windrow.kernels.release.rules import is_wanted, judge
from windrow.kernels.release.sparing import goes, is_spared, spare
from windrow.kernels.retain import charge, depart

MOST_WAITING = 64
WAITING, NEXT, FIRST = 0, 1, 2


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
    """Release a resident that is No, or spare it to see what comes."""
    if is_spared(m, slot_at(m, slot).seq):
        if h.strips(h, m):
            bare(m, stream, slot)
        spare(m, slot)
    else:
        depart(h, m, slot, RELEASED)


@inline
def to_do() -> Any:
    """An empty list of residents that wake others."""
    todo = np.empty(FIRST + 2 * MOST_WAITING, np.int64)
    todo[WAITING], todo[NEXT] = 0, NONE
    return todo


@inner
def part_with(h: Any, words: Any, stream: int, slot: int, todo: Any) -> bool:
    """Let a No row go, unless parents that come later are to meet it; whether it went."""
    m = memory_of(words)
    if is_wanted(m, stream, slot):
        if h.strips(h, m):
            bare(m, stream, slot)
        return False
    if todo[NEXT] == slot:
        todo[NEXT] = slot_at(m, slot).newer
    let_go(h, m, stream, slot)
    return True


@inline
def wakes(m: Memory, edge: Edge) -> bool:
    """Whether what becomes of a stream's rows says something of their partners on an edge."""
    return edge.directory >= 0 and is_used(m, edge.parent) and stream_at(m, edge.other).is_judged != 0


@inline
def wakes_any(m: Memory, stream: int) -> bool:
    """Whether what becomes of a stream's rows says something of others."""
    mine = stream_at(m, stream)
    for k in range(mine.first_edge, mine.after_edge):
        if wakes(m, edge_at(m, k)):
            return True
    return False


@inner
def look_again(h: Any, words: Any, stream: int, slot: int, todo: Any) -> bool:
    """Judge a resident; if that has changed anything it is to wake others before it goes. Whether it has."""
    m = memory_of(words)
    changed = judge(m.w, stream, slot)
    if changed and wakes_any(m, stream):
        waiting = todo[WAITING]
        if waiting < MOST_WAITING:
            todo[FIRST + 2 * waiting], todo[FIRST + 2 * waiting + 1] = slot, slot_at(m, slot).seq
            todo[WAITING] = waiting + 1
            return True
        m.head.rounds = 0
    if goes(m, slot):
        return part_with(h, m.w, stream, slot, todo) or changed
    return changed


@inner
def wake(h: Any, words: Any, edge: Edge, key: int, todo: Any) -> None:
    """Judge the partners that a key has on an edge."""
    m = memory_of(words)
    other, link = edge.other, link_into(m, edge.other, edge.directory)
    slot = chain(key_at(m, edge.directory, key), other).head
    while slot >= 0:
        after = link_at(m, slot, link).newer
        look_again(h, m.w, other, slot, todo)
        slot = after


@inner
def wake_all(h: Any, words: Any, todo: Any) -> None:
    """Let all that wait wake others, until none waits."""
    m = memory_of(words)
    while todo[WAITING] > 0:
        waiting = todo[WAITING] - 1
        todo[WAITING] = waiting
        slot = todo[FIRST + 2 * waiting]
        at = slot_at(m, slot)
        if at.row == NONE or at.status == UNKNOWN or at.seq != todo[FIRST + 2 * waiting + 1]:
            continue
        stream = stream_of(m, slot)
        mine = stream_at(m, stream)
        for k in range(mine.first_edge, mine.after_edge):
            if wakes(m, edge_at(m, k)):
                wake(h, m.w, edge_at(m, k), key_of(m, slot, edge_at(m, k).link), todo)
        if goes(m, slot):
            part_with(h, m.w, stream, slot, todo)


@inner
def wake_key(h: Any, words: Any, edge: Edge, key: int) -> None:
    """Judge the partners that a key has on an edge, and whoever that concerns."""
    todo = to_do()
    wake(h, words, edge, key, todo)
    wake_all(h, words, todo)


@inline
def wake_parents(h: Any, m: Memory, r: Any, at: int) -> None:
    """Judge the residents that have waited for the arriving row at a place, which has been settled."""
    if m.head.releasing == 0:
        return
    mine = stream_at(m, r[at + R_STREAM])
    for k in range(mine.first_edge, mine.after_edge):
        edge = edge_at(m, k)
        if wakes(m, edge) and r[at + R_CODES + edge.link] != NO_KEY:
            key = find(m, edge.directory, r[at + R_CODES + edge.link])
            if key >= 0 and chain(key_at(m, edge.directory, key), edge.other).head >= 0:
                wake_key(h, m.w, edge, key)
