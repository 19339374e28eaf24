"""A kinetic tournament: the leaf with the lowest priority, while priorities drift with the clock.

A leaf's priority is ``base + slope * max(clock, turn)``: constant (slope 0), falling towards expiry, or constant until
`turn` and falling afterwards. Inner nodes name the winner (the lowest) below them and, where leaves drift, until when that stays true.

    update   O(log n), and O(1) when the leaf neither was nor becomes a winner
    advance  visits only nodes whose winner may have changed since the last clock

Empty leaves have base = +inf. Ties are decided by the sequence number of the leaf's oldest row: the earlier arrival loses,
so that the later one is worth more. Node 1 is the root; leaf i is node LEAVES + i.
"""


import numpy as np

from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import (
    BASE,
    FAILS_AT,
    SLOPE,
    TIE,
    TURN,
)
from windrow.kernels.memory import Memory


@inline
def leaf_at(m: Memory, pool: int, leaf: int) -> int:
    """Where a leaf's record begins."""
    return m.leaves_at + (pool * m.leaves + leaf) * m.leaf_words


@inline
def winner(m: Memory, pool: int) -> int:
    """The leaf with the lowest priority."""
    return m.w[m.wins_at + pool * 2 * m.leaves + 1]


@inline
def priority(m: Memory, at: int, clock: float) -> float:
    """The priority of the leaf at a place, at a clock."""
    if m.drifting == 0 or m.x[at + SLOPE] == 0.0:
        return m.x[at + BASE]
    return m.x[at + BASE] + m.x[at + SLOPE] * max(clock, m.x[at + TURN])


@inline
def crossing(m: Memory, low: int, high: int, clock: float) -> float:
    """The earliest clock at which the leaf `high` may stop being above `low` (a safe, early guess)."""
    until = np.inf
    low_slope, high_slope = m.x[low + SLOPE], m.x[high + SLOPE]
    if low_slope != 0.0 and m.x[low + TURN] > clock:
        until = m.x[low + TURN]
        low_slope = 0.0
    if high_slope != 0.0 and m.x[high + TURN] > clock:
        until = min(until, m.x[high + TURN])
        high_slope = 0.0
    if high_slope < low_slope:
        gap = priority(m, high, clock) - priority(m, low, clock)
        until = min(until, clock + max(gap, 0.0) / (low_slope - high_slope))
    return until


@inline
def settle(m: Memory, pool: int, node: int, clock: float) -> bool:
    """Decide one inner node again; whether anything about it changed."""
    wins = m.wins_at + pool * 2 * m.leaves
    left, right = m.w[wins + 2 * node], m.w[wins + 2 * node + 1]
    at_left, at_right = leaf_at(m, pool, left), leaf_at(m, pool, right)
    p_left, p_right = priority(m, at_left, clock), priority(m, at_right, clock)
    swap = p_right < p_left or (p_right == p_left and m.w[at_right + TIE] < m.w[at_left + TIE])
    low = right if swap else left
    changed = m.w[wins + node] != low
    m.w[wins + node] = low
    if m.drifting == 0:
        return changed
    until = crossing(m, at_right, at_left, clock) if swap else crossing(m, at_left, at_right, clock)
    fails = m.w[FAILS_AT] + pool * m.leaves
    if 2 * node < m.leaves:
        until = min(until, m.x[fails + 2 * node], m.x[fails + 2 * node + 1])
    changed = changed or until != m.x[fails + node]
    m.x[fails + node] = until
    return changed


@inline
def update(m: Memory, pool: int, leaf: int, clock: float) -> None:
    """Repair the path above a leaf whose priority or tie has changed."""
    if m.drifting:
        update_drifting(m, pool, leaf, clock)
        return
    wins = m.wins_at + pool * 2 * m.leaves
    at = leaf_at(m, pool, leaf)
    best, base, tie = leaf, m.x[at + BASE], m.w[at + TIE]
    node = m.leaves + leaf
    while node > 1:
        rival = m.w[wins + (node ^ 1)]
        at = leaf_at(m, pool, rival)
        if m.x[at + BASE] < base or (m.x[at + BASE] == base and m.w[at + TIE] < tie):
            best, base, tie = rival, m.x[at + BASE], m.w[at + TIE]
        node >>= 1
        if m.w[wins + node] == best and best != leaf:
            break
        m.w[wins + node] = best


@inner
def update_drifting(m: Memory, pool: int, leaf: int, clock: float) -> None:
    """The same where nodes also say until when they stand."""
    wins = m.wins_at + pool * 2 * m.leaves
    node = (m.leaves + leaf) >> 1
    while node >= 1:
        if not settle(m, pool, node, clock) and m.w[wins + node] != leaf:
            break
        node >>= 1


@inner
def advance(m: Memory, pool: int, clock: float) -> None:
    """Move the clock: decide anew, from the bottom up, the nodes whose time has come."""
    fails = m.w[FAILS_AT] + pool * m.leaves
    if m.drifting == 0 or m.x[fails + 1] > clock:
        return
    stack = np.empty(128, np.int64)
    stack[0] = 2
    top = 1
    while top > 0:
        top -= 1
        node, ready = stack[top] >> 1, stack[top] & 1
        if ready == 1:
            settle(m, pool, node, clock)
            continue
        stack[top] = 2 * node + 1
        top += 1
        if 2 * node < m.leaves:
            for child in (2 * node, 2 * node + 1):
                if m.x[fails + child] <= clock:
                    stack[top] = 2 * child
                    top += 1


@inline
def clear(m: Memory, at: int) -> None:
    """Make the leaf at a place empty."""
    m.x[at + BASE] = np.inf
    m.w[at + TIE] = 9223372036854775807
    if m.drifting:
        m.x[at + SLOPE] = 0.0
        m.x[at + TURN] = -np.inf


@inner
def rebuild(m: Memory, pool: int, clock: float) -> None:
    """Decide every node, after growth, restore, or a change that touches all leaves."""
    wins = m.wins_at + pool * 2 * m.leaves
    for leaf in range(m.leaves):
        m.w[wins + m.leaves + leaf] = leaf
    for node in range(m.leaves - 1, 0, -1):
        settle(m, pool, node, clock)
