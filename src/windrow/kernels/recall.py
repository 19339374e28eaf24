"""The estimate of recall: an exact join beside another, of all rows or of a sample of them.

It begins beside a join that has lost nothing so far, with its residents.

The estimate of recall is an exact join that only counts, and stores a sample of the rows. Every row probes, but only
sampled rows are stored, each with the number at which the shedding join has lost it (in the word for its payload row,
which a join that only counts does not need). A match with a stored row that was lost before stands for 1 / share
matches that were missed. That is an unbiased count, and a steady one: what was missed is known to come from rows that
a policy held for the least worth.
"""

from typing import Any

import numpy as np

from windrow.kernels.hashing import in_sample, row_word
from windrow.kernels.jit import entry, inline
from windrow.kernels.layout import (
    BARE,
    EXPIRED,
    HIGH,
    NONE,
    PROBE_ONLY,
    R_LIVE,
    R_ROW,
    REFUSED,
)
from windrow.kernels.maintenance import move_one
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import slot_at, stream_at
from windrow.kernels.retain import depart, shed


@inline
def chosen(m: Memory, slot: int, share: float) -> bool:
    """Whether a resident belongs to the sample of a share of all rows."""
    if slot_at(m, slot).row == BARE:
        return False  # it is in no match
    return share == 1.0 or in_sample(row_word(m.head.seed, slot_at(m, slot).seq), share)


@entry
def chosen_rows(block: Any, share: float) -> int:
    """How many residents belong to the sample of a share of all rows."""
    m = memory_of(block)
    found = 0
    for stream in range(m.streams):
        slot = stream_at(m, stream).oldest
        while slot >= 0:
            found += chosen(m, slot, share)
            slot = slot_at(m, slot).newer
    return found


@entry
def begin_beside(h: Any, old: Any, new: Any, share: float) -> None:
    """Admit the residents of one block that belong to a sample to an empty block of the same join without a cap, which
    has room for them; none of them has been lost. Counters go on; who is not chosen counts as expired, as in `thin`."""
    a, b = memory_of(old), memory_of(new)
    b.head.seq, b.head.arrivals = a.head.seq, a.head.arrivals
    b.head.clock, b.head.watermark = a.head.clock, a.head.watermark
    b.head.matched, b.head.value = a.head.matched, a.head.value
    b.head.peak_rows, b.head.peak_bytes = a.head.peak_rows, a.head.peak_bytes
    for stream in range(a.streams):
        mine, theirs = stream_at(b, stream), stream_at(a, stream)
        mine.expired, mine.released = theirs.expired, theirs.released
        mine.last_time, mine.rank = theirs.last_time, theirs.rank
        slot = theirs.oldest
        while slot >= 0:
            if chosen(a, slot, share):
                there = move_one(h, a, b, slot, stream, 0, False)
                slot_at(b, there).row = HIGH
            else:
                mine.expired += 1
            slot = slot_at(a, slot).newer
    shed(h, b)  # without a cap it only notes the peaks


@entry
def mark_sample(block: Any, records: Any, words: int, share: float, numbers: Any, departed: Any) -> None:
    """Mark the rows of a batch that are not to be stored, and when the others leave the join beside this one.

    `numbers` are those of rows that have left it, in order, and `departed` the next number when each did.
    """
    m = memory_of(block)
    seq, k = m.head.seq, 0
    for at in range(0, records.shape[0], words):
        if records[at + R_LIVE] == REFUSED:
            seq += 1
        elif records[at + R_LIVE] != 0:
            stored = in_sample(row_word(m.head.seed, seq), share)
            records[at + R_LIVE] = 1 if stored else PROBE_ONLY
            while k < numbers.shape[0] and numbers[k] < seq:
                k += 1
            records[at + R_ROW] = departed[k] if k < numbers.shape[0] and numbers[k] == seq else HIGH
            seq += 1


@entry
def note_departures(block: Any, numbers: Any, departed: Any) -> None:
    """Note which residents have left the join beside this one; numbers are in order."""
    m = memory_of(block)
    for stream in range(m.streams):
        slot = stream_at(m, stream).oldest
        while slot >= 0:
            at = slot_at(m, slot)
            k = np.searchsorted(numbers, at.seq)
            if k < numbers.shape[0] and numbers[k] == at.seq:
                at.row = departed[k]
            slot = at.newer


@entry
def note_missing(block: Any, other: Any) -> None:
    """Note which residents another block of the same join does not hold, as if those had left it long ago."""
    m, o = memory_of(block), memory_of(other)
    numbers, n = np.empty(o.head.top, np.int64), 0
    for slot in range(o.head.top):
        if slot_at(o, slot).row != NONE:
            numbers[n] = slot_at(o, slot).seq
            n += 1
    numbers = np.sort(numbers[:n])
    for stream in range(m.streams):
        slot = stream_at(m, stream).oldest
        while slot >= 0:
            at = slot_at(m, slot)
            k = np.searchsorted(numbers, at.seq)
            at.row = HIGH if k < n and numbers[k] == at.seq else 0
            slot = at.newer


@entry
def thin(h: Any, block: Any, share: float) -> None:
    """Let the residents depart that do not belong to a smaller sample."""
    m = memory_of(block)
    for stream in range(m.streams):
        slot = stream_at(m, stream).oldest
        while slot >= 0:
            after = slot_at(m, slot).newer
            if not in_sample(row_word(m.head.seed, slot_at(m, slot).seq), share):
                depart(h, m, slot, EXPIRED)
            slot = after
