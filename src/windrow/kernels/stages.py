"""Looking: rows find their matches among the residents, as the drivers find them, and nothing of the block changes.

Each row looks by itself: no row is stored, so rows of one batch do not meet each other, and no clock moves. The hooks
are those of `exact`, or of `first` where one match is enough, so that no policy sees the rows.

    two streams      the code of a row is looked up, and the chain of its key is walked (drive_pair.walk)
    more             a probe begins at a slot: the next free one is written on, without being taken, and marked as empty
                     again (drive_many.probe_many)

What these functions write beside matches, the tally of visits and the sum of values, the caller puts back, who also
says by EMIT whether matches are wanted or only how many each row has (Shard.look).
"""

from typing import Any

import numpy as np

from windrow.kernels.directory import find
from windrow.kernels.drive_many import CURSOR_SIZE, probe_joins, probe_many
from windrow.kernels.drive_pair import all_fit, walk, widen
from windrow.kernels.jit import entry, inline
from windrow.kernels.joins import join_of_link
from windrow.kernels.layout import (
    NONE,
    OUT_PAUSE,
    R_CODES,
    R_LIVE,
    R_STREAM,
    R_TIME,
)
from windrow.kernels.memory import Memory, bare_floats, bare_ints, memory_of
from windrow.kernels.places import chain, directory_of, key_at, link_at, numbers_at, slot_at
from windrow.kernels.settle import row_words, write_row


@entry
def look_pair(h: Any, block: Any, batch: Any, out: Any, counts: Any, start: int) -> tuple[int, Any, int]:
    """Look with the rows of a batch from one on: the row after the last, the matches as payload rows, and how many.

    `counts` says how many matches each row has.
    """
    m, r, rx = h.pair_memory(h, block), bare_ints(batch), bare_floats(batch)
    lines, width = bare_ints(out), out.shape[1]
    words, rows, emits = row_words(m), counts.shape[0], m.head.emit != 0
    sent, i = 0, start
    while i < rows and sent < OUT_PAUSE:
        at, found = i * words, 0
        key = find(m, 0, r[at + R_CODES]) if r[at + R_LIVE] > 0 else NONE
        if key >= 0:
            found = chain(key_at(m, 0, key), 1 - r[at + R_STREAM]).count
        if found > 0 and (emits or h.hides(h, m) or not all_fit(m, r[at + R_TIME])):
            if emits and sent + found > width:
                out = widen(out, sent + found)
                lines, width = bare_ints(out), out.shape[1]
            found = walk(h, m.w, r, rx, at, key, lines, width, sent)
        if emits:
            sent += found
        counts[i] = found
        i += 1
    return i, out, sent


@inline
def meets(m: Memory, r: Any, at: int, slot: int) -> bool:
    """Write the keys of the row at a place into a slot; whether there are residents that it might match.

    A key that is not known has none. Of several joins, the row then cannot match in those that read it.
    """
    stream = r[at + R_STREAM]
    for link in range(m.links):
        d = directory_of(m, stream, link)
        if d < 0:
            continue
        key = find(m, d, r[at + R_CODES + link])
        link_at(m, slot, link).key = key
        if key < 0:
            if not m.several:
                return False
            m.w[numbers_at(m, slot)] &= ~(1 << join_of_link(m, stream, link))
    return True


@entry
def look_many(h: Any, block: Any, batch: Any, out: Any, counts: Any, start: int) -> tuple[int, Any, int]:
    """The same for any other join; the row after the last is NONE if no slot is free."""
    m, r, rx = memory_of(block), bare_ints(batch), bare_floats(batch)
    bound = np.empty(m.streams, np.int64)
    cur = np.zeros((m.streams, CURSOR_SIZE), np.int64)
    words, rows = row_words(m), counts.shape[0]
    sent, i = 0, start
    slot = m.head.free if m.head.free >= 0 else m.head.top
    if slot == m.head.slot_cap:
        return NONE, out, 0
    while i < rows and sent < OUT_PAUSE:
        at, found = i * words, 0
        if r[at + R_LIVE] > 0:
            write_row(m, r, rx, at, slot)
            if not meets(m, r, at, slot):
                pass
            elif m.several:
                out, sent, found = probe_joins(h, m.w, slot, bound, cur, out, sent)
            else:
                out, sent, found = probe_many(h, m.w, slot, r[at + R_STREAM], bound, cur, out, sent)
        counts[i] = found
        i += 1
    slot_at(m, slot).row = NONE
    return i, out, sent
