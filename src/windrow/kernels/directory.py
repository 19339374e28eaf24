"""Key directories: from a 64-bit code to a key's record.

Open addressing with linear probing over a table of words; deletion shifts back, so there are no tombstones and a
lookup costs O(1) as long as the table is at most half full (the owner grows it). A word holds a key's number and the
low bits of its code, so that only the record of the right key is read: others' would each be a miss of the cache.
"""

from typing import Any

from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import (
    CODE,
    COUNT,
    DIR_SIZE,
    HEAD,
    KEY_FREE,
    KEY_LIVE,
    KEY_TOP,
    NONE,
    PER_STREAM,
    TAIL,
)
from windrow.kernels.memory import Memory, memory_of

KEY_BITS = 32
KEY_MASK = (1 << KEY_BITS) - 1
TAG_MASK = (1 << 31) - 1  # one bit less, for an empty word is negative


@inline
def table_word(code: int, key: int) -> int:
    """What the table holds for a key."""
    return ((code & TAG_MASK) << KEY_BITS) | key


@inline
def key_at(m: Memory, d: int, key: int) -> int:
    """Where a key's record begins."""
    return m.keys_at + (d * m.key_cap + key) * m.key_words


@inline
def find(m: Memory, d: int, code: int) -> int:
    """The key number of a code, or NONE."""
    mask = m.table_size - 1
    table = m.tables_at + d * m.table_size
    keys, words = m.keys_at + d * m.key_cap * m.key_words, m.key_words
    at, tag = code & mask, code & TAG_MASK
    while True:
        word = m.w[table + at]
        if word < 0:
            return NONE
        if word >> KEY_BITS == tag and m.w[keys + (word & KEY_MASK) * words + CODE] == code:
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
    ctl = m.dirs_at + d * DIR_SIZE
    key = m.w[ctl + KEY_FREE]
    if key >= 0:
        m.w[ctl + KEY_FREE] = m.w[key_at(m, d, key) + CODE]
    else:
        key = m.w[ctl + KEY_TOP]
        m.w[ctl + KEY_TOP] += 1
    m.w[ctl + KEY_LIVE] += 1
    record = key_at(m, d, key)
    for at in range(record + 1, record + m.key_words):
        m.w[at] = 0
    m.w[record + CODE] = code
    for stream in range(m.streams):
        m.w[record + PER_STREAM * stream + HEAD] = NONE
        m.w[record + PER_STREAM * stream + TAIL] = NONE
    place(m, d, code, key)
    return key


@inline
def remove(m: Memory, d: int, key: int) -> None:
    """Forget a key: close the gap in its probe sequence and put its number on the free list."""
    mask = m.table_size - 1
    table = m.tables_at + d * m.table_size
    record = key_at(m, d, key)
    mine = table_word(m.w[record + CODE], key)
    hole = m.w[record + CODE] & mask
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
    ctl = m.dirs_at + d * DIR_SIZE
    m.w[record + CODE] = m.w[ctl + KEY_FREE]
    m.w[record + COUNT] = NONE  # marks the record as free
    m.w[ctl + KEY_FREE] = key
    m.w[ctl + KEY_LIVE] -= 1


@inner
def refill(words: Any, d: int) -> None:
    """Fill the table anew from the records (after growth or restore)."""
    m = memory_of(words)
    table = m.tables_at + d * m.table_size
    for at in range(table, table + m.table_size):
        m.w[at] = NONE
    for key in range(m.w[m.dirs_at + d * DIR_SIZE + KEY_TOP]):
        record = key_at(m, d, key)
        if m.w[record + COUNT] != NONE:
            place(m, d, m.w[record + CODE], key)
