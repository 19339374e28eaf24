"""Pairing heaps over residents: the row of a key with the least credit, whatever its age.

A heap is its root, a slot. The order is by score, of equal scores by arrival, so which row is the root never depends
on how the heap grew. Child and next sibling are slots or NONE; previous is the left sibling, or of a first child its
parent. Insertion costs O(1), removal of any row O(log n) amortised.
"""

from typing import Any

from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import NONE
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import slot_at


@inline
def before(m: Memory, a: int, b: int) -> bool:
    """Whether row a leaves before row b."""
    one, other = slot_at(m, a), slot_at(m, b)
    mine, theirs = one.score, other.score
    return mine < theirs or (mine == theirs and one.seq < other.seq)


@inline
def joined(m: Memory, a: int, b: int) -> int:
    """One heap of two: the root that comes first, with the other as its first child."""
    if before(m, b, a):
        a, b = b, a
    top, under = slot_at(m, a), slot_at(m, b)
    child = top.child
    under.heap_next = child
    under.heap_prev = a
    if child >= 0:
        slot_at(m, child).heap_prev = b
    top.child = b
    return a


@inline
def insert(m: Memory, root: int, slot: int) -> int:
    """The root after a row has come in; `root` is NONE for an empty heap."""
    at = slot_at(m, slot)
    at.child = NONE
    at.heap_next = NONE
    at.heap_prev = NONE
    return slot if root < 0 else joined(m, root, slot)


@inner
def gathered(words: Any, first: int) -> int:
    """One heap of siblings: two by two from the left, then all together from the right; NONE of none."""
    m = memory_of(words)
    pairs = NONE
    while first >= 0:
        second = slot_at(m, first).heap_next
        after, one = NONE, first
        if second >= 0:
            after = slot_at(m, second).heap_next
            one = joined(m, first, second)
        slot_at(m, one).heap_next = pairs
        pairs, first = one, after
    root = NONE
    while pairs >= 0:
        after = slot_at(m, pairs).heap_next
        root = pairs if root < 0 else joined(m, root, pairs)
        pairs = after
    if root >= 0:
        slot_at(m, root).heap_next = NONE
        slot_at(m, root).heap_prev = NONE
    return root


@inner
def remove(words: Any, root: int, slot: int) -> int:
    """The root after a row has gone, or NONE."""
    m = memory_of(words)
    at = slot_at(m, slot)
    below = gathered(m.w, at.child)
    if slot == root:
        return below
    left, right = at.heap_prev, at.heap_next
    if slot_at(m, left).child == slot:
        slot_at(m, left).child = right
    else:
        slot_at(m, left).heap_next = right
    if right >= 0:
        slot_at(m, right).heap_prev = left
    return root if below < 0 else joined(m, root, below)
