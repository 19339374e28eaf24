"""Slots and the two kinds of lists through them.

Both lists are sorted by (time, sequence number), or by sequence number alone where the window counts rows. In-order
rows are appended in O(1). A row that comes out of order walks on from where the stream's last row went into the age
list, so a batch that is sorted costs one merge step per row it passes; from there it finds its place in its chain:

    chain   back from the newest row of the key                        <= newer rows of the key
    age     back from the row before it, to one of the same key        about all rows / rows of the key

Both walk at once and the first to arrive decides: a popular key is met soon, a rare one has a short chain.
"""

from typing import Any

from windrow.kernels.hashing import in_sample, row_word
from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import (
    NONE,
    STREAM_BITS,
    STREAM_MASK,
    Key,
    Stream,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import chain, key_of, link_at, slot_at, stream_at


@inline
def oldest(m: Memory, pool: int) -> int:
    """The resident of a pool with the least (time, sequence number)."""
    best, best_time, best_seq = -1, 0, 0
    for stream in range(m.streams):
        slot = stream_at(m, stream).oldest
        if stream_at(m, stream).pool != pool or slot < 0:
            continue
        time, seq = slot_at(m, slot).time, slot_at(m, slot).seq
        if best < 0 or time < best_time or (time == best_time and seq < best_seq):
            best, best_time, best_seq = slot, time, seq
    return best


@inline
def take_slot(m: Memory) -> int:
    """A free slot; the caller has made sure that there is one."""
    slot = m.head.free
    if slot >= 0:
        m.head.free = slot_at(m, slot).older
        m.head.free_count -= 1
        return slot
    slot = m.head.top
    m.head.top += 1
    return slot


@inline
def free_slot(m: Memory, slot: int) -> None:
    """Give a slot back; row NONE marks it as empty."""
    at = slot_at(m, slot)
    at.row = NONE
    at.older = m.head.free
    m.head.free = slot
    m.head.free_count += 1


@inline
def is_noted(m: Memory, seq: int) -> bool:
    """Whether the owner wants to know when the row of a number is shed: of all rows, or of a sample."""
    if m.head.keep_gone != 0:
        return True
    return m.head.noted > 0.0 and in_sample(row_word(m.head.seed, seq), m.head.noted)


@inline
def set_aside(m: Memory, slot: int, why: int) -> None:
    """Keep the slot of a row that was shed until its owner has asked for it: in order of departure, with the moment."""
    at = slot_at(m, slot)
    at.cost = why << STREAM_BITS | at.cost & STREAM_MASK
    at.time = m.head.clock
    at.newer = m.head.seq
    at.older = m.head.gone
    m.head.gone = slot
    m.head.gone_count += 1


@inline
def age_place(m: Memory, mine: Stream, time: int) -> int:
    """After which resident of a stream a row of a time goes, or NONE for the front."""
    left = mine.newest
    if left < 0 or slot_at(m, left).time <= time or mine.last_rows > 0:
        return left
    if mine.hint >= 0:
        left = mine.hint
    while left >= 0 and slot_at(m, left).time > time:
        left = slot_at(m, left).older
    if left >= 0:
        right = slot_at(m, left).newer
        while right >= 0 and slot_at(m, right).time <= time:
            left = right
            right = slot_at(m, left).newer
    return left


@inline
def age_insert(m: Memory, stream: int, slot: int) -> None:
    """Put a slot into its stream's age list."""
    mine, at = stream_at(m, stream), slot_at(m, slot)
    left = age_place(m, mine, at.time)
    right = mine.oldest if left < 0 else slot_at(m, left).newer
    at.older = left
    at.newer = right
    if left < 0:
        mine.oldest = slot
    else:
        slot_at(m, left).newer = slot
    if right < 0:
        mine.newest = slot
    else:
        slot_at(m, right).older = slot
    mine.hint = slot


@inline
def age_remove(m: Memory, stream: int, slot: int) -> None:
    """Take a slot out of its stream's age list."""
    mine, at = stream_at(m, stream), slot_at(m, slot)
    left, right = at.older, at.newer
    if left < 0:
        mine.oldest = right
    else:
        slot_at(m, left).newer = right
    if right < 0:
        mine.newest = left
    else:
        slot_at(m, right).older = left
    if mine.hint == slot:
        mine.hint = left if left >= 0 else right


@inner
def chain_place(words: Any, slot: int, link: int, tail: int) -> tuple[int, int]:
    """After which row of its chain a row goes that is older than the tail, or NONE; and the steps it took.

    The row is in the age list already.
    """
    m = memory_of(words)
    time, key = slot_at(m, slot).time, key_of(m, slot, link)
    left, before, steps = tail, slot_at(m, slot).older, 0
    while left >= 0 and slot_at(m, left).time > time:
        if before < 0 or key_of(m, before, link) == key:
            return before, steps
        left, before = link_at(m, left, link).older, slot_at(m, before).older
        steps += 1
    return left, steps


@inline
def chain_insert(m: Memory, record: Key, stream: int, slot: int, link: int) -> None:
    """Put a slot into the chain of its key, whose record is given; its link names the key already.

    The slot is in the age list already.
    """
    mine = chain(record, stream)
    at = link_at(m, slot, link)
    left = mine.tail
    if left >= 0 and slot_at(m, left).time > slot_at(m, slot).time:
        if stream_at(m, stream).last_rows == 0:
            left = chain_place(m.w, slot, link, left)[0]
    right = mine.head if left < 0 else link_at(m, left, link).newer
    at.older = left
    at.newer = right
    if left < 0:
        mine.head = slot
    else:
        link_at(m, left, link).newer = slot
    if right < 0:
        mine.tail = slot
    else:
        link_at(m, right, link).older = slot
    mine.count += 1


@inline
def chain_remove(m: Memory, record: Key, stream: int, slot: int, link: int) -> None:
    """Take a slot out of the chain of its key."""
    mine = chain(record, stream)
    at = link_at(m, slot, link)
    left, right = at.older, at.newer
    if left < 0:
        mine.head = right
    else:
        link_at(m, left, link).newer = right
    if right < 0:
        mine.tail = left
    else:
        link_at(m, right, link).older = left
    mine.count -= 1
