"""Deleting: a row that takes an earlier row of its stream out of memory, instead of coming into it.

It is found in the chain of its first key, or among all residents of a stream that has none, by the number that both
carry. It departs as if its window had passed: nothing is lost by it. A deletion neither probes nor counts as an arrival
in windows of rows; matches that were found are the business of whoever keeps them.
"""

from typing import Any

from windrow.kernels.directory import find
from windrow.kernels.jit import inner
from windrow.kernels.layout import DELETES, EXPIRED, NONE, R_CODES, R_LIVE, R_SLOT, R_STREAM
from windrow.kernels.memory import memory_of
from windrow.kernels.places import chain, directory_of, key_at, link_at, numbers_at, slot_at, stream_at
from windrow.kernels.retain import depart_one


@inner
def named_resident(words: Any, r: Any, at: int) -> int:
    """The resident that the deletion at a place names, the oldest of several, or NONE."""
    m = memory_of(words)
    stream, column = r[at + R_STREAM], DELETES - r[at + R_LIVE]
    number = r[at + R_CODES + m.links + column]
    d = directory_of(m, stream, 0) if m.links > 0 else NONE
    if d >= 0:
        key = find(m, d, r[at + R_CODES])
        slot = chain(key_at(m, d, key), stream).head if key >= 0 else NONE
        while slot >= 0 and m.w[numbers_at(m, slot) + column] != number:
            slot = link_at(m, slot, 0).newer
        return slot
    slot = stream_at(m, stream).oldest
    while slot >= 0 and m.w[numbers_at(m, slot) + column] != number:
        slot = slot_at(m, slot).newer
    return slot


@inner
def delete(h: Any, words: Any, r: Any, at: int) -> None:
    """Let the resident depart that the deletion at a place names; if there is none, the record says so: R_LIVE is 0."""
    m = memory_of(words)
    r[at + R_SLOT] = NONE
    slot = named_resident(m.w, r, at)
    if slot >= 0:
        depart_one(h, m.w, slot, EXPIRED)
    else:
        r[at + R_LIVE] = 0
