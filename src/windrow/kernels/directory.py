"""Key directories: from a 64-bit code to a key's record.

Open addressing with linear probing over a table of words; deletion shifts back, so there are no tombstones and a
lookup costs O(1) as long as the table is at most half full (the owner grows it). A word holds a key's number and the
low bits of its code, so that only the record of the right key is read: others' would each be a miss of the cache.
"""

from typing import Any

from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import (
    NONE,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import chain, directory_at, key_at

KEY_BITS = 32
KEY_MASK = (1 << KEY_BITS) - 1
TAG_MASK = (1 << 31) - 1  # one bit less, for an empty word is negative


@inline
def table_word(code: int, key: int) -> int:
    """What the table holds for a key."""
    return ((code & TAG_MASK) << KEY_BITS) | key


@inline
def find(m: Memory, d: int, code: int) -> int:
    """The key number of a code, or NONE."""
    mask = m.table_size - 1
    table = m.tables_at + d * m.table_size
    at, tag = code & mask, code & TAG_MASK
    while True:
        word = m.w[table + at]
        if word < 0:
            return NONE
        if word >> KEY_BITS == tag and key_at(m, d, word & KEY_MASK).code == code:
            return word & KEY_MASK
        at = (at + 1) & mask


@inline
def place(m: Memory, d: int, code: int, key: int) -> None:
    """Write a key number into the first free place of its probe sequence."""
    mask = m.table_size - 1
    table = m.tables_at + d * m.table_size
    at = code & mask
    while m.w[table + at] >= 0:
        at = (at + 1) & mask
    m.w[table + at] = table_word(code, key)


@inline
def add(m: Memory, d: int, code: int) -> int:
    """A new key with empty chains; the caller has made sure that there is room."""
    ctl = directory_at(m, d)
    key = ctl.free
    if key >= 0:
        ctl.free = key_at(m, d, key).code
    else:
        key = ctl.top
        ctl.top += 1
    ctl.live += 1
    record = key_at(m, d, key)
    for at in range(record.at + 1, record.at + m.key_words):
        m.w[at] = 0
    record.code = code
    for stream in range(m.streams):
        chain(record, stream).head = NONE
        chain(record, stream).tail = NONE
    place(m, d, code, key)
    return key


@inline
def remove(m: Memory, d: int, key: int) -> None:
    """Forget a key: close the gap in its probe sequence and put its number on the free list."""
    mask = m.table_size - 1
    table = m.tables_at + d * m.table_size
    record = key_at(m, d, key)
    mine = table_word(record.code, key)
    hole = record.code & mask
    while m.w[table + hole] != mine:
        hole = (hole + 1) & mask
    at = hole
    while True:
        at = (at + 1) & mask
        other = m.w[table + at]
        if other < 0:
            break
        home = (other >> KEY_BITS) & mask
        # move `other` into the hole unless its home lies cyclically after the hole
        if ((at - home) & mask) >= ((at - hole) & mask):
            m.w[table + hole] = other
            hole = at
    m.w[table + hole] = NONE
    ctl = directory_at(m, d)
    record.code = ctl.free
    chain(record, 0).count = NONE  # marks the record as free
    ctl.free = key
    ctl.live -= 1


@inner
def refill(words: Any, d: int) -> None:
    """Fill the table anew from the records (after growth or restore)."""
    m = memory_of(words)
    table = m.tables_at + d * m.table_size
    for at in range(table, table + m.table_size):
        m.w[at] = NONE
    for key in range(directory_at(m, d).top):
        record = key_at(m, d, key)
        if chain(record, 0).count != NONE:
            place(m, d, record.code, key)
