"""Pairing heaps over residents: the row of a key with the least credit, whatever its age.

A heap is its root, a slot. The order is by score, of equal scores by arrival, so which row is the root never depends
on how the heap grew. Child and next sibling are slots or NONE; previous is the left sibling, or of a first child its
parent. Insertion costs O(1), removal of any row O(log n) amortised.
"""

from typing import Any

from windrow.kernels.chains import slot_at
from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import ARRIVED, CHILD, HEAP_NEXT, HEAP_OFF, HEAP_PREV, NONE, SCORE_OFF
from windrow.kernels.memory import Memory, memory_of


@inline
def links_at(m: Memory, slot: int) -> int:
    """Where a slot's links in its heap stand."""
    return slot_at(m, slot) + m.w[HEAP_OFF]


@inline
def before(m: Memory, a: int, b: int) -> bool:
    """Whether row a leaves before row b."""
    one, other = slot_at(m, a), slot_at(m, b)
    mine, theirs = m.x[one + m.w[SCORE_OFF]], m.x[other + m.w[SCORE_OFF]]
    return mine < theirs or (mine == theirs and m.w[one + ARRIVED] < m.w[other + ARRIVED])


@inline
def joined(m: Memory, a: int, b: int) -> int:
    """One heap of two: the root that comes first, with the other as its first child."""
    if before(m, b, a):
        a, b = b, a
    top, under = links_at(m, a), links_at(m, b)
    child = m.w[top + CHILD]
    m.w[under + HEAP_NEXT] = child
    m.w[under + HEAP_PREV] = a
    if child >= 0:
        m.w[links_at(m, child) + HEAP_PREV] = b
    m.w[top + CHILD] = b
    return a


@inline
def insert(m: Memory, root: int, slot: int) -> int:
    """The root after a row has come in; `root` is NONE for an empty heap."""
    at = links_at(m, slot)
    m.w[at + CHILD] = NONE
    m.w[at + HEAP_NEXT] = NONE
    m.w[at + HEAP_PREV] = NONE
    return slot if root < 0 else joined(m, root, slot)


@inner
def gathered(words: Any, first: int) -> int:
    """One heap of siblings: two by two from the left, then all together from the right; NONE of none."""
    m = memory_of(words)
    pairs = NONE
    while first >= 0:
        second = m.w[links_at(m, first) + HEAP_NEXT]
        after, one = NONE, first
        if second >= 0:
            after = m.w[links_at(m, second) + HEAP_NEXT]
            one = joined(m, first, second)
        m.w[links_at(m, one) + HEAP_NEXT] = pairs
        pairs, first = one, after
    root = NONE
    while pairs >= 0:
        after = m.w[links_at(m, pairs) + HEAP_NEXT]
        root = pairs if root < 0 else joined(m, root, pairs)
        pairs = after
    if root >= 0:
        m.w[links_at(m, root) + HEAP_NEXT] = NONE
        m.w[links_at(m, root) + HEAP_PREV] = NONE
    return root


@inner
def remove(words: Any, root: int, slot: int) -> int:
    """The root after a row has gone, or NONE."""
    m = memory_of(words)
    at = links_at(m, slot)
    below = gathered(m.w, m.w[at + CHILD])
    if slot == root:
        return below
    left, right = m.w[at + HEAP_PREV], m.w[at + HEAP_NEXT]
    if m.w[links_at(m, left) + CHILD] == slot:
        m.w[links_at(m, left) + CHILD] = right
    else:
        m.w[links_at(m, left) + HEAP_NEXT] = right
    if right >= 0:
        m.w[links_at(m, right) + HEAP_PREV] = left
    return root if below < 0 else joined(m, root, below)
