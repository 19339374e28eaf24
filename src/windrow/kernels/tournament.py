"""A kinetic tournament: the leaf with the lowest priority, while priorities drift with the clock.

A leaf's priority is its `base`, or where leaves drift ``base * (ends - clock)``: falling until it ends, nothing from
then on, and constant until `turn` where that is later. Inner nodes name the winner (the lowest) below them and, where
leaves drift, until when that stays true. The product is taken last, so that a leaf with a larger base or a later end
never has the lower priority, however numbers are rounded.

    update   O(log n), and O(1) when the leaf neither was nor becomes a winner
    advance  visits only nodes whose winner may have changed since the last clock

Empty leaves have base = +inf. Ties are decided by the sequence number of the leaf's oldest row: the earlier arrival
loses, so that the later one is worth more. Leaf i is node LEAVES + i, and the parent of node n is n / 2. A node keeps
a copy of what its winner won with, so that a path is repaired with one read per level.

Low leaves are used first, and mostly few are. The root is therefore the lowest node that has all used leaves below
it, if those are the first SPAN of them, a power of two; nodes above it are not kept. Else it is node 1.
"""

from typing import Any

import numpy as np

from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import (
    NODE_COPIED,
    Node,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import leaf_at, node_at, pool_at, still_node_at

ROUNDING = 2.0**-50  # more than eight roundings of a float


@inline
def root(m: Memory, pool: int) -> int:
    """The node that has all used leaves below it."""
    return pool_at(m, pool).root


@inline
def winner(m: Memory, pool: int) -> int:
    """The leaf with the lowest priority."""
    return node_at(m, pool, root(m, pool)).win


@inline
def priority(m: Memory, at: Node, clock: float) -> float:
    """The priority of the leaf at a place, at a clock."""
    if m.drifting == 0 or at.base == np.inf:
        return at.base
    return at.base * max(at.ends - max(clock, at.turn), 0.0)


@inline
def falls(m: Memory, at: Node, clock: float) -> tuple[float, float]:
    """How fast the priority of the leaf at a place falls at a clock, and until when it does so."""
    if at.base == np.inf or clock >= at.ends:
        return 0.0, np.inf
    if at.turn > clock:
        return 0.0, at.turn
    return at.base, at.ends


@inline
def crossing(m: Memory, low: Node, high: Node, clock: float) -> float:
    """The earliest clock at which the leaf `high` may stop being above `low` (a safe, early guess).

    Priorities are rounded. Until then they differ by more than rounding can do: which leaf wins at a clock never
    depends on when it was last looked at, so a tournament that is built anew has the same winner.
    """
    low_rate, low_until = falls(m, low, clock)
    high_rate, high_until = falls(m, high, clock)
    until = min(low_until, high_until)
    p_low, p_high = priority(m, low, clock), priority(m, high, clock)
    gap, doubt = p_high - p_low, ROUNDING * (p_high + p_low)
    if high_rate == low_rate or gap == np.inf:
        return until
    if gap <= doubt:
        return clock
    if high_rate > low_rate:
        meet = clock + (gap - doubt) / (high_rate - low_rate + ROUNDING * (high_rate + low_rate))
        until = min(until, meet - ROUNDING * abs(meet))
    return until


@inline
def loses(m: Memory, at: Node, p_at: float, other: Node, p_other: float) -> bool:
    """Whether the leaf or node at a place has the lower priority of two, the earlier arrival where they are equal."""
    return p_at < p_other or (p_at == p_other and at.tie < other.tie)


@inline
def settle(m: Memory, pool: int, node: int, clock: float) -> bool:
    """Decide one inner node again; whether anything about it changed that its parent has to know."""
    at, left, right = node_at(m, pool, node), node_at(m, pool, 2 * node), node_at(m, pool, 2 * node + 1)
    p_left, p_right = priority(m, left, clock), priority(m, right, clock)
    swap = loses(m, right, p_right, left, p_left)
    low, high = (right, left) if swap else (left, right)
    changed = at.win != low.win
    at.win, at.base, at.tie = low.win, low.base, low.tie
    if not m.drifting:
        return changed
    at.ends, at.turn = low.ends, low.turn
    until = crossing(m, low, high, clock)
    until = min(until, left.fail, right.fail)
    # a limit that is too early costs one more look, so only an earlier one has to be told upwards
    known = at.fail
    if changed or until < known or known <= clock:
        at.fail = until
        changed = changed or until < known
    return changed


@inline
def update(m: Memory, pool: int, leaf: int, clock: float) -> None:
    """Repair the path above a leaf whose priority or tie has changed."""
    if leaf >= pool_at(m, pool).span:
        if leaf_at(m, pool, leaf).base < np.inf:
            rebuild(m.w, pool, clock, m.leaves)
    elif m.drifting:
        update_drifting(m, pool, leaf, clock)
    else:
        update_still(m, pool, leaf)


@inline
def update_still(m: Memory, pool: int, leaf: int) -> None:
    """The same where leaves do not drift. Who wins a node is chosen without a branch, which nobody could predict."""
    node, top = m.leaves + leaf, root(m, pool)
    at = still_node_at(m, pool, node)
    best, base, tie = leaf, at.base, at.tie
    while node > top:
        rival = still_node_at(m, pool, node ^ 1)
        other, base_there, tie_there = rival.win, rival.base, rival.tie
        lower = (base_there < base) | ((base_there == base) & (tie_there < tie))
        best = other if lower else best
        base = base_there if lower else base
        tie = tie_there if lower else tie
        node >>= 1
        at = still_node_at(m, pool, node)
        if at.win == best and best != leaf:
            break
        at.win, at.base, at.tie = best, base, tie


@inline
def update_drifting(m: Memory, pool: int, leaf: int, clock: float) -> None:
    """The same where nodes also say until when they stand: the line that wins so far is carried upwards."""
    node, top = m.leaves + leaf, root(m, pool)
    at = node_at(m, pool, node)
    best, lowest, fails = leaf, priority(m, at, clock), np.inf
    while node > top:
        rival = node_at(m, pool, node ^ 1)
        other, winner_at, loser_at = priority(m, rival, clock), at, rival
        fails = min(fails, rival.fail)
        if loses(m, rival, other, at, lowest):
            best, lowest, winner_at, loser_at = rival.win, other, rival, at
        until = min(fails, crossing(m, winner_at, loser_at, clock))
        node >>= 1
        at = node_at(m, pool, node)
        known, changed = at.fail, at.win != best
        # a limit that is too early costs one more look, so only an earlier one has to be told upwards
        stands = not changed and until >= known > clock
        if stands and best != leaf:
            break
        for word in range(NODE_COPIED):
            m.w[at.at + word] = m.w[winner_at.at + word]
        if not stands:
            at.fail = until
        fails = at.fail


@inline
def due(m: Memory, pool: int, node: int, clock: float) -> bool:
    """Whether the winner of a node may have changed by now (never of a leaf)."""
    return node_at(m, pool, node).fail <= clock


@inner
def advance(words: Any, pool: int, clock: float) -> None:
    """Move the clock: decide anew, children before parents, the nodes whose time has come."""
    m = memory_of(words)
    top = root(m, pool)
    if m.drifting == 0 or not due(m, pool, top, clock):
        return
    node, came_from = top, 0
    while node >= top:
        left, right = 2 * node, 2 * node + 1
        if came_from < left and due(m, pool, left, clock):
            node, came_from = left, 0
        elif came_from < right and due(m, pool, right, clock):
            node, came_from = right, 0
        else:
            settle(m, pool, node, clock)
            node, came_from = node >> 1, node


@inline
def clear(m: Memory, at: Node) -> None:
    """Make the leaf at a place empty."""
    at.base = np.inf
    at.tie = 9223372036854775807
    if m.drifting:
        at.ends = -np.inf
        at.turn = -np.inf


@inner
def rebuild(words: Any, pool: int, clock: float, leaves: int) -> None:
    """Decide every node, after growth, restore, or a change that touches all leaves; later ones are empty and were."""
    m = memory_of(words)
    used = pool_at(m, pool).span  # what was needed once will be again
    for leaf in range(leaves):
        leaf_at(m, pool, leaf).win = leaf
        if leaf_at(m, pool, leaf).base < np.inf:
            used = max(used, leaf + 1)
        if m.drifting:
            leaf_at(m, pool, leaf).fail = np.inf
    set_root(m, pool, used)
    first, last, top = m.leaves, m.leaves + pool_at(m, pool).span - 1, root(m, pool)
    if top == 1:
        for node in range(m.leaves - 1, 0, -1):
            settle(m, pool, node, clock)
        return
    while last > top:
        first, last = first >> 1, last >> 1
        for node in range(first, last + 1):
            settle(m, pool, node, clock)


@inline
def set_root(m: Memory, pool: int, used: int) -> None:
    """Take as root the lowest node that has the first `used` leaves below it."""
    line, bits = pool_at(m, pool), 1
    while 1 << bits < used and m.leaves & (1 << bits) == 0:
        bits += 1
    whole = 1 << bits < used
    line.root = 1 if whole else m.leaves >> bits
    line.span = m.leaves if whole else 1 << bits
