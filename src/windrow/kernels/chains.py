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
    ARRIVED,
    CLOCK,
    COST,
    COUNT,
    FREE,
    FREE_COUNT,
    GONE,
    GONE_COUNT,
    HEAD,
    HINT,
    KEEP_GONE,
    KEY,
    LAST_ROWS,
    LINK0,
    LINK_NEWER,
    LINK_OLDER,
    LINK_WORDS,
    NEWER,
    NEWEST,
    NONE,
    NOTED,
    OLDER,
    OLDEST,
    PER_STREAM,
    POOL,
    ROW,
    SEED,
    SEQ,
    STREAM_BITS,
    STREAM_MASK,
    STREAM_SIZE,
    TAIL,
    TIME,
    TOP,
)
from windrow.kernels.memory import Memory, memory_of


@inline
def slot_at(m: Memory, slot: int) -> int:
    """Where a slot's record begins."""
    return m.slots_at + slot * m.slot_words


@inline
def link_at(m: Memory, slot: int, link: int) -> int:
    """Where a slot's link begins."""
    return m.slots_at + slot * m.slot_words + LINK0 + link * LINK_WORDS


@inline
def stream_of(m: Memory, slot: int) -> int:
    """The stream of a slot."""
    return m.w[slot_at(m, slot) + COST] & STREAM_MASK


@inline
def stream_at(m: Memory, stream: int) -> int:
    """Where a stream's line begins."""
    return m.streams_at + stream * STREAM_SIZE


@inline
def oldest(m: Memory, pool: int) -> int:
    """The resident of a pool with the least (time, sequence number)."""
    best, best_time, best_seq = -1, 0, 0
    for stream in range(m.streams):
        slot = m.w[stream_at(m, stream) + OLDEST]
        if m.w[stream_at(m, stream) + POOL] != pool or slot < 0:
            continue
        time, seq = m.w[slot_at(m, slot) + TIME], m.w[slot_at(m, slot) + ARRIVED]
        if best < 0 or time < best_time or (time == best_time and seq < best_seq):
            best, best_time, best_seq = slot, time, seq
    return best


@inline
def take_slot(m: Memory) -> int:
    """A free slot; the caller has made sure that there is one."""
    slot = m.w[FREE]
    if slot >= 0:
        m.w[FREE] = m.w[slot_at(m, slot) + OLDER]
        m.w[FREE_COUNT] -= 1
        return slot
    slot = m.w[TOP]
    m.w[TOP] += 1
    return slot


@inline
def free_slot(m: Memory, slot: int) -> None:
    """Give a slot back; row NONE marks it as empty."""
    at = slot_at(m, slot)
    m.w[at + ROW] = NONE
    m.w[at + OLDER] = m.w[FREE]
    m.w[FREE] = slot
    m.w[FREE_COUNT] += 1


@inline
def is_noted(m: Memory, seq: int) -> bool:
    """Whether the owner wants to know when the row of a number is shed: of all rows, or of a sample."""
    if m.w[KEEP_GONE] != 0:
        return True
    return m.x[NOTED] > 0.0 and in_sample(row_word(m.w[SEED], seq), m.x[NOTED])


@inline
def set_aside(m: Memory, slot: int, why: int) -> None:
    """Keep the slot of a row that was shed until its owner has asked for it: in order of departure, with the moment."""
    at = slot_at(m, slot)
    m.w[at + COST] = (why << STREAM_BITS) | (m.w[at + COST] & STREAM_MASK)
    m.w[at + TIME] = m.w[CLOCK]
    m.w[at + NEWER] = m.w[SEQ]
    m.w[at + OLDER] = m.w[GONE]
    m.w[GONE] = slot
    m.w[GONE_COUNT] += 1


@inline
def age_place(m: Memory, mine: int, time: int) -> int:
    """After which resident of a stream a row of a time goes, or NONE for the front."""
    left = m.w[mine + NEWEST]
    if left < 0 or m.w[slot_at(m, left) + TIME] <= time or m.w[mine + LAST_ROWS] > 0:
        return left
    if m.w[mine + HINT] >= 0:
        left = m.w[mine + HINT]
    while left >= 0 and m.w[slot_at(m, left) + TIME] > time:
        left = m.w[slot_at(m, left) + OLDER]
    if left >= 0:
        right = m.w[slot_at(m, left) + NEWER]
        while right >= 0 and m.w[slot_at(m, right) + TIME] <= time:
            left = right
            right = m.w[slot_at(m, left) + NEWER]
    return left


@inline
def age_insert(m: Memory, stream: int, slot: int) -> None:
    """Put a slot into its stream's age list."""
    mine, at = stream_at(m, stream), slot_at(m, slot)
    left = age_place(m, mine, m.w[at + TIME])
    right = m.w[mine + OLDEST] if left < 0 else m.w[slot_at(m, left) + NEWER]
    m.w[at + OLDER] = left
    m.w[at + NEWER] = right
    if left < 0:
        m.w[mine + OLDEST] = slot
    else:
        m.w[slot_at(m, left) + NEWER] = slot
    if right < 0:
        m.w[mine + NEWEST] = slot
    else:
        m.w[slot_at(m, right) + OLDER] = slot
    m.w[mine + HINT] = slot


@inline
def age_remove(m: Memory, stream: int, slot: int) -> None:
    """Take a slot out of its stream's age list."""
    mine, at = stream_at(m, stream), slot_at(m, slot)
    left, right = m.w[at + OLDER], m.w[at + NEWER]
    if left < 0:
        m.w[mine + OLDEST] = right
    else:
        m.w[slot_at(m, left) + NEWER] = right
    if right < 0:
        m.w[mine + NEWEST] = left
    else:
        m.w[slot_at(m, right) + OLDER] = left
    if m.w[mine + HINT] == slot:
        m.w[mine + HINT] = left if left >= 0 else right


@inner
def chain_place(words: Any, slot: int, link: int, tail: int) -> tuple[int, int]:
    """After which row of its chain a row goes that is older than the tail, or NONE; and the steps it took.

    The row is in the age list already.
    """
    m = memory_of(words)
    time, key = m.w[slot_at(m, slot) + TIME], key_of(m, slot, link)
    left, before, steps = tail, m.w[slot_at(m, slot) + OLDER], 0
    while left >= 0 and m.w[slot_at(m, left) + TIME] > time:
        if before < 0 or key_of(m, before, link) == key:
            return before, steps
        left, before = m.w[link_at(m, left, link) + LINK_OLDER], m.w[slot_at(m, before) + OLDER]
        steps += 1
    return left, steps


@inline
def chain_insert(m: Memory, record: int, stream: int, slot: int, link: int) -> None:
    """Put a slot into the chain of its key, whose record is given; its link names the key already.

    The slot is in the age list already.
    """
    mine = record + PER_STREAM * stream
    at = link_at(m, slot, link)
    left = m.w[mine + TAIL]
    if left >= 0 and m.w[slot_at(m, left) + TIME] > m.w[slot_at(m, slot) + TIME]:
        if m.w[stream_at(m, stream) + LAST_ROWS] == 0:
            left = chain_place(m.w, slot, link, left)[0]
    right = m.w[mine + HEAD] if left < 0 else m.w[link_at(m, left, link) + LINK_NEWER]
    m.w[at + LINK_OLDER] = left
    m.w[at + LINK_NEWER] = right
    if left < 0:
        m.w[mine + HEAD] = slot
    else:
        m.w[link_at(m, left, link) + LINK_NEWER] = slot
    if right < 0:
        m.w[mine + TAIL] = slot
    else:
        m.w[link_at(m, right, link) + LINK_OLDER] = slot
    m.w[mine + COUNT] += 1


@inline
def chain_remove(m: Memory, record: int, stream: int, slot: int, link: int) -> None:
    """Take a slot out of the chain of its key."""
    mine = record + PER_STREAM * stream
    at = link_at(m, slot, link)
    left, right = m.w[at + LINK_OLDER], m.w[at + LINK_NEWER]
    if left < 0:
        m.w[mine + HEAD] = right
    else:
        m.w[link_at(m, left, link) + LINK_NEWER] = right
    if right < 0:
        m.w[mine + TAIL] = left
    else:
        m.w[link_at(m, right, link) + LINK_OLDER] = left
    m.w[mine + COUNT] -= 1


@inline
def key_of(m: Memory, slot: int, link: int) -> int:
    """The key number that a slot's link names."""
    return m.w[link_at(m, slot, link) + KEY]
