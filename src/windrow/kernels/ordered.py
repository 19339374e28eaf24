"""Ordered indexes: residents of a stream sorted by a number, for band and comparison predicates.

Sorted blocks of at most BLOCK pairs (number, slot), and the blocks themselves in order:

    order ->  [b3]      [b0]         [b7]      | free: [b1] [b2] ...
               1 4 4     5 8 9 12     30 31

insert and remove: two binary searches and a shift inside one block; a full block splits, two neighbours that fill no
more than FILLED places of one block are merged. A range scan starts with the same two searches and then reads
sequentially. Pairs are sorted by (number, sequence number of the slot's row), so that equal numbers do not slow removal
and the order of a scan does not depend on which slots rows happen to have.

Invariant: any two neighbours hold more than FILLED pairs together, so an index of n pairs has at most 2 n / FILLED + 1
blocks.
"""

from typing import Any

from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import (
    B_COUNT,
    B_NUMBER,
    B_SLOT,
    BLOCK,
    BLOCK_WORDS,
    FILLED,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import index_at, slot_at


@inline
def block_at(m: Memory, ix: int, place: int) -> int:
    """Where the record of the block begins that stands at a place of the order."""
    block = m.w[m.head.orders_at + ix * m.head.block_cap + place]
    return m.head.blocks_at + (ix * m.head.block_cap + block) * BLOCK_WORDS


@inline
def arrived(m: Memory, slot: int) -> int:
    """The sequence number of a slot's row."""
    return slot_at(m, slot).seq


@inner
def block_of(words: Any, ix: int, number: int, seq: int) -> int:
    """The last place in the order whose first pair is not above (number, sequence number), or 0."""
    m = memory_of(words)
    low, high = 0, index_at(m, ix).used
    while high - low > 1:
        mid = (low + high) >> 1
        at = block_at(m, ix, mid)
        first = m.w[at + B_NUMBER]
        if first < number or (first == number and arrived(m, m.w[at + B_SLOT]) <= seq):
            low = mid
        else:
            high = mid
    return low


@inner
def place_in(words: Any, at: int, number: int, seq: int) -> int:
    """The first place in a block that is not below (number, sequence number)."""
    m = memory_of(words)
    low, high = 0, m.w[at + B_COUNT]
    while low < high:
        mid = (low + high) >> 1
        there = m.w[at + B_NUMBER + mid]
        if there < number or (there == number and arrived(m, m.w[at + B_SLOT + mid]) < seq):
            low = mid + 1
        else:
            high = mid
    return low


@inner
def split(words: Any, ix: int, place: int) -> None:
    """Move the upper half of a full block into a new block after it."""
    m = memory_of(words)
    order = m.head.orders_at + ix * m.head.block_cap
    used = index_at(m, ix).used
    fresh = m.w[order + used]
    for k in range(used, place + 1, -1):
        m.w[order + k] = m.w[order + k - 1]
    m.w[order + place + 1] = fresh
    index_at(m, ix).used = used + 1
    old, new = block_at(m, ix, place), block_at(m, ix, place + 1)
    half = BLOCK // 2
    for k in range(half):
        m.w[new + B_NUMBER + k] = m.w[old + B_NUMBER + half + k]
        m.w[new + B_SLOT + k] = m.w[old + B_SLOT + half + k]
    m.w[new + B_COUNT] = half
    m.w[old + B_COUNT] = half


@inner
def insert(words: Any, ix: int, number: int, slot: int) -> None:
    """Add a pair; the caller has made sure that one block is free."""
    m = memory_of(words)
    if index_at(m, ix).used == 0:
        index_at(m, ix).used = 1
        m.w[block_at(m, ix, 0) + B_COUNT] = 0
    seq = arrived(m, slot)
    place = block_of(m.w, ix, number, seq)
    if m.w[block_at(m, ix, place) + B_COUNT] == BLOCK:
        split(m.w, ix, place)
        place = block_of(m.w, ix, number, seq)
    at = block_at(m, ix, place)
    here = place_in(m.w, at, number, seq)
    for k in range(m.w[at + B_COUNT], here, -1):
        m.w[at + B_NUMBER + k] = m.w[at + B_NUMBER + k - 1]
        m.w[at + B_SLOT + k] = m.w[at + B_SLOT + k - 1]
    m.w[at + B_NUMBER + here] = number
    m.w[at + B_SLOT + here] = slot
    m.w[at + B_COUNT] += 1


@inner
def remove(words: Any, ix: int, number: int, slot: int) -> None:
    """Take a pair out that is there."""
    m = memory_of(words)
    seq = arrived(m, slot)
    place = block_of(m.w, ix, number, seq)
    at = block_at(m, ix, place)
    here = place_in(m.w, at, number, seq)
    left = m.w[at + B_COUNT] - 1
    m.w[at + B_COUNT] = left
    for k in range(here, left):
        m.w[at + B_NUMBER + k] = m.w[at + B_NUMBER + k + 1]
        m.w[at + B_SLOT + k] = m.w[at + B_SLOT + k + 1]
    if left == 0:
        give_back(m.w, ix, place)
    elif left <= FILLED:
        if place + 1 < index_at(m, ix).used and left + m.w[block_at(m, ix, place + 1) + B_COUNT] <= FILLED:
            merge(m.w, ix, place)
        elif place > 0 and left + m.w[block_at(m, ix, place - 1) + B_COUNT] <= FILLED:
            merge(m.w, ix, place - 1)


@inner
def merge(words: Any, ix: int, place: int) -> None:
    """Move the pairs of the next block to the end of the one at a place."""
    m = memory_of(words)
    at, after = block_at(m, ix, place), block_at(m, ix, place + 1)
    count = m.w[at + B_COUNT]
    for k in range(m.w[after + B_COUNT]):
        m.w[at + B_NUMBER + count + k] = m.w[after + B_NUMBER + k]
        m.w[at + B_SLOT + count + k] = m.w[after + B_SLOT + k]
    m.w[at + B_COUNT] = count + m.w[after + B_COUNT]
    give_back(m.w, ix, place + 1)


@inner
def give_back(words: Any, ix: int, place: int) -> None:
    """Move an empty block behind the used ones."""
    m = memory_of(words)
    order = m.head.orders_at + ix * m.head.block_cap
    block = m.w[order + place]
    index_at(m, ix).used -= 1
    for k in range(place, index_at(m, ix).used):
        m.w[order + k] = m.w[order + k + 1]
    m.w[order + index_at(m, ix).used] = block


@inner
def seek(words: Any, ix: int, number: int) -> tuple[int, int]:
    """Where a scan of numbers >= `number` starts: place in the order, place in the block."""
    m = memory_of(words)
    if index_at(m, ix).used == 0:
        return 0, 0
    place = block_of(m.w, ix, number, -1)
    at = block_at(m, ix, place)
    here = place_in(m.w, at, number, -1)
    if here == m.w[at + B_COUNT]:
        return place + 1, 0
    return place, here


@inline
def ordered_bits(bits: int) -> int:
    """A float's bits as an integer that sorts as Spark sorts floats: -0.0 = 0.0, NaN above all."""
    if (bits & 0x7FFFFFFFFFFFFFFF) > 0x7FF0000000000000:
        return 0x7FFFFFFFFFFFFFFF
    if bits >= 0:
        return bits
    if bits == -0x8000000000000000:
        return 0
    return bits ^ 0x7FFFFFFFFFFFFFFF
