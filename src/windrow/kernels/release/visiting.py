"""Demoted rows that are looked for come back for a moment, and find what was missed.

When the rows of a group have looked for partners where demoted ones may lie, these are put back into memory one after
the other: each is probed as if it arrived, and then stays until all of them have been. A probe of theirs may call for
further ones, which come next. Then all leave again, and memory is what it was before.

Let q be the last row of a match, by sequence number. The match was given when q came, if all others were in memory
then; a row that left when the next number was `gone` was there if gone > q. So a match is new now if q is of this
group, and one of the others had gone <= q. Every such match is found: the probe of q, or of a demoted row of it that
has come back, misses another demoted row of it, which is then called; the last of them to come finds it, once.

Only chains, age lists and indexes take part, no policy, no statistics, no clock. A visitor's status is -2 - gone.
"""

from typing import Any

import numpy as np

from windrow.kernels.chains import free_slot, take_slot
from windrow.kernels.drive_many import CURSOR_SIZE, probe_many
from windrow.kernels.group import room
from windrow.kernels.jit import entry, inline
from windrow.kernels.keys import open_key
from windrow.kernels.layout import (
    D_CODES,
    D_COST,
    D_GAIN,
    D_GONE,
    D_RANK,
    D_ROW,
    D_SEQ,
    D_STREAM,
    D_TIME,
    DONE,
    STREAM_BITS,
)
from windrow.kernels.memory import Memory, bare_ints, memory_of
from windrow.kernels.places import directory_of, link_at, numbers_at, slot_at, stream_of
from windrow.kernels.release.demoting import looks, visible
from windrow.kernels.retain import admit, withdraw

__all__ = ["is_new", "leave", "looks", "visible", "visit"]


@inline
def is_new(h: Any, m: Memory, bound: Any) -> bool:
    """Whether a match has a row of the present group, and was not found when its last row came."""
    last, latest = bound[0], slot_at(m, bound[0]).seq
    for k in range(1, m.streams):
        seq = slot_at(m, bound[k]).seq
        if seq > latest:
            last, latest = bound[k], seq
    if latest < m.head.group_seq:
        return False
    for k in range(m.streams):
        status = slot_at(m, bound[k]).status
        if status < 0 and bound[k] != last and -2 - status <= latest:
            return True
    return False


@inline
def come_back(h: Any, m: Memory, r: Any, at: int) -> int:
    """A slot with the data of the demoted row at a place, its keys opened, not yet a resident."""
    slot, stream = take_slot(m), r[at + D_STREAM]
    record = slot_at(m, slot)
    record.time, record.seq, record.row = r[at + D_TIME], r[at + D_SEQ], r[at + D_ROW]
    record.cost = (r[at + D_COST] << STREAM_BITS) | stream
    record.status = -2 - r[at + D_GONE]
    if m.rank_off > 0:
        record.rank = r[at + D_RANK]
    if m.valued:
        m.w[record.at + m.head.gain_off] = r[at + D_GAIN]
    for column in range(m.vals):
        m.w[numbers_at(m, slot) + column] = r[at + D_CODES + m.links + column]
    for link in range(m.links):
        d = directory_of(m, stream, link)
        if d >= 0:
            link_at(m, slot, link).key = open_key(h, m, d, r[at + D_CODES + link])
    return slot


@entry
def visit(h: Any, block: Any, rows: Any, slots: Any, out: Any) -> tuple[int, Any, int, int]:
    """Let demoted rows come back, [row, word] as `take_down` gives them; their slots are written down.

    DONE, or what has to grow first; the matches as payload rows, how many of these, and how many were found.
    """
    m, r = memory_of(block), bare_ints(rows)
    count, words = rows.shape
    status = room(m, count)
    if status != DONE:
        return status, out, 0, 0
    bound = np.empty(m.streams, np.int64)
    cur = np.zeros((m.streams, CURSOR_SIZE), np.int64)
    sent, total = 0, 0
    for k in range(count):
        slot = come_back(h, m, r, k * words)
        out, sent, found = probe_many(h, m.w, slot, stream_of(m, slot), bound, cur, out, sent)
        admit(h, m, slot)
        slots[k] = slot
        total += found
    return DONE, out, sent, total


@entry
def leave(h: Any, block: Any, slots: Any) -> None:
    """Let rows that came back leave again."""
    m = memory_of(block)
    for k in range(slots.shape[0]):
        withdraw(h, m, slots[k], stream_of(m, slots[k]))
        free_slot(m, slots[k])
