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
    BASE,
    ENDS,
    FAIL,
    POOL_SIZE,
    ROOT,
    SPAN,
    STILL_WORDS,
    TIE,
    TURN,
    WIN,
)
from windrow.kernels.memory import Memory, memory_of

ROUNDING = 2.0**-50  # more than eight roundings of a float


@inline
def node_at(m: Memory, pool: int, node: int) -> int:
    """Where a node's record begins."""
    return m.nodes_at + (pool * 2 * m.leaves + node) * m.node_words


@inline
def leaf_at(m: Memory, pool: int, leaf: int) -> int:
    """Where a leaf's record begins."""
    return node_at(m, pool, m.leaves + leaf)


@inline
def root(m: Memory, pool: int) -> int:
    """The node that has all used leaves below it."""
    return m.w[m.pools_at + pool * POOL_SIZE + ROOT]


@inline
def winner(m: Memory, pool: int) -> int:
    """The leaf with the lowest priority."""
    return m.w[node_at(m, pool, root(m, pool)) + WIN]


@inline
def priority(m: Memory, at: int, clock: float) -> float:
    """The priority of the leaf at a place, at a clock."""
    if m.drifting == 0 or m.x[at + BASE] == np.inf:
        return m.x[at + BASE]
    return m.x[at + BASE] * max(m.x[at + ENDS] - max(clock, m.x[at + TURN]), 0.0)


@inline
def falls(m: Memory, at: int, clock: float) -> tuple[float, float]:
    """How fast the priority of the leaf at a place falls at a clock, and until when it does so."""
    if m.x[at + BASE] == np.inf or clock >= m.x[at + ENDS]:
        return 0.0, np.inf
    if m.x[at + TURN] > clock:
        return 0.0, m.x[at + TURN]
    return m.x[at + BASE], m.x[at + ENDS]


@inline
def crossing(m: Memory, low: int, high: int, clock: float) -> float:
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
def loses(m: Memory, at: int, p_at: float, other: int, p_other: float) -> bool:
    """Whether the leaf or node at a place has the lower priority of two, the earlier arrival where they are equal."""
    return p_at < p_other or (p_at == p_other and m.w[at + TIE] < m.w[other + TIE])


@inline
def settle(m: Memory, pool: int, node: int, clock: float) -> bool:
    """Decide one inner node again; whether anything about it changed that its parent has to know."""
    at, left, right = node_at(m, pool, node), node_at(m, pool, 2 * node), node_at(m, pool, 2 * node + 1)
    p_left, p_right = priority(m, left, clock), priority(m, right, clock)
    swap = loses(m, right, p_right, left, p_left)
    low, high = (right, left) if swap else (left, right)
    changed = m.w[at + WIN] != m.w[low + WIN]
    m.w[at + WIN], m.x[at + BASE], m.w[at + TIE] = m.w[low + WIN], m.x[low + BASE], m.w[low + TIE]
    if not m.drifting:
        return changed
    m.x[at + ENDS], m.x[at + TURN] = m.x[low + ENDS], m.x[low + TURN]
    until = crossing(m, low, high, clock)
    until = min(until, m.x[left + FAIL], m.x[right + FAIL])
    # a limit that is too early costs one more look, so only an earlier one has to be told upwards
    known = m.x[at + FAIL]
    if changed or until < known or known <= clock:
        m.x[at + FAIL] = until
        changed = changed or until < known
    return changed


@inline
def update(m: Memory, pool: int, leaf: int, clock: float) -> None:
    """Repair the path above a leaf whose priority or tie has changed."""
    if leaf >= m.w[m.pools_at + pool * POOL_SIZE + SPAN]:
        if m.x[leaf_at(m, pool, leaf) + BASE] < np.inf:
            rebuild(m.w, pool, clock, m.leaves)
    elif m.drifting:
        update_drifting(m, pool, leaf, clock)
    else:
        update_still(m, pool, leaf)


@inline
def update_still(m: Memory, pool: int, leaf: int) -> None:
    """The same where leaves do not drift. Who wins a node is chosen without a branch, which nobody could predict."""
    first = m.nodes_at + pool * 2 * m.leaves * STILL_WORDS
    node, top = m.leaves + leaf, root(m, pool)
    at = first + node * STILL_WORDS
    best, base, tie = leaf, m.x[at + BASE], m.w[at + TIE]
    while node > top:
        rival = first + (node ^ 1) * STILL_WORDS
        other, base_there, tie_there = m.w[rival + WIN], m.x[rival + BASE], m.w[rival + TIE]
        lower = (base_there < base) | ((base_there == base) & (tie_there < tie))
        best = other if lower else best
        base = base_there if lower else base
        tie = tie_there if lower else tie
        node >>= 1
        at = first + node * STILL_WORDS
        if m.w[at + WIN] == best and best != leaf:
            break
        m.w[at + WIN], m.x[at + BASE], m.w[at + TIE] = best, base, tie


@inline
def update_drifting(m: Memory, pool: int, leaf: int, clock: float) -> None:
    """The same where nodes also say until when they stand: the line that wins so far is carried upwards."""
    node, top = m.leaves + leaf, root(m, pool)
    at = node_at(m, pool, node)
    best, lowest, fails = leaf, priority(m, at, clock), np.inf
    while node > top:
        rival = node_at(m, pool, node ^ 1)
        other, winner_at, loser_at = priority(m, rival, clock), at, rival
        fails = min(fails, m.x[rival + FAIL])
        if loses(m, rival, other, at, lowest):
            best, lowest, winner_at, loser_at = m.w[rival + WIN], other, rival, at
        until = min(fails, crossing(m, winner_at, loser_at, clock))
        node >>= 1
        at = node_at(m, pool, node)
        known, changed = m.x[at + FAIL], m.w[at + WIN] != best
        # a limit that is too early costs one more look, so only an earlier one has to be told upwards
        stands = not changed and until >= known > clock
        if stands and best != leaf:
            break
        for word in range(FAIL):
            m.w[at + word] = m.w[winner_at + word]
        if not stands:
            m.x[at + FAIL] = until
        fails = m.x[at + FAIL]


@inline
def due(m: Memory, pool: int, node: int, clock: float) -> bool:
    """Whether the winner of a node may have changed by now (never of a leaf)."""
    return m.x[node_at(m, pool, node) + FAIL] <= clock


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
def clear(m: Memory, at: int) -> None:
    """Make the leaf at a place empty."""
    m.x[at + BASE] = np.inf
    m.w[at + TIE] = 9223372036854775807
    if m.drifting:
        m.x[at + ENDS] = -np.inf
        m.x[at + TURN] = -np.inf


@inner
def rebuild(words: Any, pool: int, clock: float, leaves: int) -> None:
    """Decide every node, after growth, restore, or a change that touches all leaves; later ones are empty and were."""
    m = memory_of(words)
    used = m.w[m.pools_at + pool * POOL_SIZE + SPAN]  # what was needed once will be again
    for leaf in range(leaves):
        m.w[leaf_at(m, pool, leaf) + WIN] = leaf
        if m.x[leaf_at(m, pool, leaf) + BASE] < np.inf:
            used = max(used, leaf + 1)
        if m.drifting:
            m.x[leaf_at(m, pool, leaf) + FAIL] = np.inf
    set_root(m, pool, used)
    first, last, top = m.leaves, m.leaves + m.w[m.pools_at + pool * POOL_SIZE + SPAN] - 1, root(m, pool)
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
    line, bits = m.pools_at + pool * POOL_SIZE, 1
    while 1 << bits < used and m.leaves & (1 << bits) == 0:
        bits += 1
    whole = 1 << bits < used
    m.w[line + ROOT] = 1 if whole else m.leaves >> bits
    m.w[line + SPAN] = m.leaves if whole else 1 << bits
