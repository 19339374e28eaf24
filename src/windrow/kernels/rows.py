"""Rows on their way in and out of the block: records of a batch, and payload rows of slots."""

from typing import Any

import numpy as np

from windrow.kernels.jit import entry
from windrow.kernels.layout import (
    R_CODES,
    R_COST,
    R_GAIN,
    R_LIVE,
    R_ROW,
    R_SLOT,
    R_STREAM,
    R_TICK,
    R_TIME,
    STREAM_MASK,
)
from windrow.kernels.memory import memory_of
from windrow.kernels.places import slot_at


@entry
def pack(out: Any, order: Any, tick: Any, head: Any, gain: Any, codes: Any, numbers: Any) -> None:
    """Write one record per row, in the given order; head is (time, stream, live, payload row, cost) by column."""
    links, vals = codes.shape[0], numbers.shape[0]
    floats = out.view(np.float64)
    words = R_CODES + links + vals
    for k in range(order.shape[0]):
        i, at = order[k], k * words
        out[at + R_TICK] = tick[i]
        out[at + R_TIME] = head[0, i]
        out[at + R_STREAM] = head[1, i]
        out[at + R_LIVE] = head[2, i]
        out[at + R_ROW] = head[3, i]
        out[at + R_COST] = head[4, i]
        if gain.shape[0] > 0:
            floats[at + R_GAIN] = gain[i]
        out[at + R_SLOT] = -1
        for link in range(links):
            out[at + R_CODES + link] = codes[link, i]
        for column in range(vals):
            out[at + R_CODES + links + column] = numbers[column, i]


@entry
def still_there(block: Any, slots: Any, streams: Any, rows: Any) -> Any:
    """Which rows of a batch still sit in the slots they were given."""
    m = memory_of(block)
    found = np.zeros(slots.shape[0], np.bool_)
    for k in range(slots.shape[0]):
        if slots[k] >= 0:
            at = slot_at(m, slots[k])
            found[k] = at.row == rows[k] and (at.cost & STREAM_MASK) == streams[k]
    return found


@entry
def live_rows(block: Any, owners: Any, stream: int, first: int) -> Any:
    """Positions of the rows of a stream's payload, stored from `first` on, whose slots still point at them."""
    m = memory_of(block)
    found = np.empty(owners.shape[0], np.int64)
    n = 0
    for k in range(owners.shape[0]):
        at = slot_at(m, owners[k])
        if at.row == first + k and (at.cost & STREAM_MASK) == stream:
            found[n] = k
            n += 1
    return found[:n]


@entry
def repoint(block: Any, slots: Any, first: int) -> None:
    """Tell slots that their payload rows now follow each other from `first` on."""
    m = memory_of(block)
    for k in range(slots.shape[0]):
        slot_at(m, slots[k]).row = first + k
