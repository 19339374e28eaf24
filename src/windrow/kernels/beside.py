"""How a second join begins beside another that has lost nothing so far: with its residents, or a sample of them."""

from typing import Any

from windrow.kernels.chains import slot_at, stream_at
from windrow.kernels.hashing import in_sample, row_word
from windrow.kernels.jit import entry, inline
from windrow.kernels.layout import (
    ARRIVALS,
    ARRIVED,
    CLOCK,
    EXPIRED,
    HIGH,
    LAST_TIME,
    MATCHED,
    NEWER,
    OLDEST,
    PEAK_BYTES,
    PEAK_ROWS,
    RANK,
    RELEASED,
    ROW,
    SEED,
    SEQ,
    VALUE,
    WATERMARK,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.retain import shed
from windrow.kernels.upkeep import move_one


@inline
def chosen(m: Memory, slot: int, share: float) -> bool:
    """Whether a resident belongs to the sample of a share of all rows."""
    return share == 1.0 or in_sample(row_word(m.w[SEED], m.w[slot_at(m, slot) + ARRIVED]), share)


@entry
def chosen_rows(block: Any, share: float) -> int:
    """How many residents belong to the sample of a share of all rows."""
    m = memory_of(block)
    found = 0
    for stream in range(m.streams):
        slot = m.w[stream_at(m, stream) + OLDEST]
        while slot >= 0:
            found += chosen(m, slot, share)
            slot = m.w[slot_at(m, slot) + NEWER]
    return found


@entry
def begin_beside(h: Any, old: Any, new: Any, share: float) -> None:
    """Admit the residents of one block that belong to a sample to an empty block of the same join without a cap, which
    has room for them; none of them has been lost. Counters go on; who is not chosen counts as expired, as in `thin`."""
    a, b = memory_of(old), memory_of(new)
    for word in (SEQ, MATCHED, CLOCK, WATERMARK, ARRIVALS, PEAK_ROWS, PEAK_BYTES):
        b.w[word] = a.w[word]
    b.x[VALUE] = a.x[VALUE]
    for stream in range(a.streams):
        mine, theirs = stream_at(b, stream), stream_at(a, stream)
        for word in (EXPIRED, RELEASED, LAST_TIME, RANK):
            b.w[mine + word] = a.w[theirs + word]
        slot = a.w[theirs + OLDEST]
        while slot >= 0:
            if chosen(a, slot, share):
                there = move_one(h, a, b, slot, stream, 0, False)
                b.w[slot_at(b, there) + ROW] = HIGH
            else:
                b.w[mine + EXPIRED] += 1
            slot = a.w[slot_at(a, slot) + NEWER]
    shed(h, b)  # without a cap it only notes the peaks
