"""The filter in front of demoted rows: whether one of a stream may lie under a key, without a look at the disk.

A table of words with four places each. A key has a number of 16 bits, not 0, in the first free place from the word on
that its other bits name; keys with the same number share it. So a look reads one word, mostly, and says in vain that
there is something about once in 10,000 times. Nothing is ever taken out: the table is filled anew when too much of it
is of rows that are gone (state/demoted.py), and it is never more than three quarters full (`lacks_room`).

What is looked for and may be there is noted as a call: stream, directory, code. A list that is full says so by its
length, and then every demoted row is called.
"""

from typing import Any

import numpy as np

from windrow.kernels.hashing import mix64
from windrow.kernels.jit import entry, inline, inner
from windrow.kernels.layout import CALLED_SIZE, DONE, GROW_FILTER, NONE
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import stream_at

PLACES = 4  # of a word


@inline
def key_word(m: Memory, stream: int, d: int, code: int) -> Any:
    """The bits of a key of a stream in a directory."""
    return mix64(np.uint64(code) + mix64(np.uint64(stream * m.dirs + d + 1)))


@inline
def number_of(key: Any) -> Any:
    """The number of a key."""
    return max(np.int64(key & np.uint64(0xFFFF)), 1)


@inner
def seek(words: Any, key: Any) -> tuple[Any, int, bool]:
    """Where the number of a key stands, or would stand: the word, the shift of its place, and whether it is there."""
    m = memory_of(words)
    number = number_of(key)
    size = m.head.filter_words
    at: Any = np.int64((key >> np.uint64(16)) % np.uint64(size))
    for _ in range(size):
        word = m.w[m.head.filter_at + at]
        for place in range(PLACES):
            there = (word >> (16 * place)) & 0xFFFF
            if there == number:
                return at, 16 * place, True
            if there == 0:
                return at, 16 * place, False
        at = at + 1 if at + 1 < size else 0
    return NONE, 0, True  # no place is free: everything may be there


@inner
def put(words: Any, stream: int, d: int, code: int) -> None:
    """Let the filter know that a demoted row of a stream lies under a key."""
    m = memory_of(words)
    key = key_word(m, stream, d, code)
    at, shift, there = seek(m.w, key)
    if not there:
        m.w[m.head.filter_at + at] |= number_of(key) << shift
        m.head.filter_used += 1


@inline
def call(m: Memory, stream: int, d: int, code: int) -> None:
    """Note that demoted rows of a stream are looked for under a key, or all of them where there is none."""
    k = m.head.called
    at = m.head.called_at + k * CALLED_SIZE
    if 0 < k <= m.head.called_cap:
        before = at - CALLED_SIZE
        if m.w[before] == stream and m.w[before + 1] == d and m.w[before + 2] == code:
            return
    if k < m.head.called_cap:
        m.w[at], m.w[at + 1], m.w[at + 2] = stream, d, code
    m.head.called = min(k + 1, m.head.called_cap + 1)


@inline
def look_down(m: Memory, stream: int, d: int, code: int) -> None:
    """Note a key under which a row looks for partners, if demoted ones may lie there."""
    if m.head.filter_used > 0 and seek(m.w, key_word(m, stream, d, code))[2]:
        call(m, stream, d, code)


@inline
def lacks_room(m: Memory, rows: int) -> int:
    """GROW_FILTER if the filter may become too full when all residents and so many rows more are demoted."""
    for stream in range(m.streams):
        rows += stream_at(m, stream).rows
    m.head.need = m.head.filter_used + rows * m.links
    return GROW_FILTER if m.head.need > m.head.filter_words * (PLACES - 1) else DONE


@entry
def put_all(block: Any, stream: int, d: int, codes: Any) -> None:
    """Let the filter know many keys."""
    m = memory_of(block)
    for k in range(codes.shape[0]):
        put(m.w, stream, d, codes[k])
