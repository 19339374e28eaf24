"""RAND: any resident of a pool, evenly. A dense list of residents is kept for it."""

from typing import Any

import numpy as np

from windrow.kernels.chains import slot_at, stream_at, stream_of
from windrow.kernels.hashing import random_below
from windrow.kernels.jit import inline
from windrow.kernels.layout import DENSE_AT, PLACE_OFF, POOL, POOL_SIZE, RANDOM, SEED, SLOT_CAP, USED_ROWS
from windrow.kernels.memory import Memory

BASE = "policy"
KEEPS = ("dense",)


@inline
def entered(h: Any, m: Memory, slot: int) -> None:
    """Put a resident at the end of its pool's dense list (it has been charged already)."""
    pool = m.w[stream_at(m, stream_of(m, slot)) + POOL]
    place = m.w[m.pools_at + pool * POOL_SIZE + USED_ROWS] - 1
    m.w[slot_at(m, slot) + m.w[PLACE_OFF]] = place
    m.w[m.w[DENSE_AT] + pool * m.w[SLOT_CAP] + place] = slot


@inline
def left(h: Any, m: Memory, slot: int) -> None:
    """Close the gap of a resident in the dense list with the last one (the charge is gone already)."""
    pool = m.w[stream_at(m, stream_of(m, slot)) + POOL]
    dense = m.w[DENSE_AT] + pool * m.w[SLOT_CAP]
    place = m.w[slot_at(m, slot) + m.w[PLACE_OFF]]
    last = m.w[dense + m.w[m.pools_at + pool * POOL_SIZE + USED_ROWS]]
    m.w[dense + place] = last
    m.w[slot_at(m, last) + m.w[PLACE_OFF]] = place


@inline
def victim(h: Any, m: Memory, pool: int) -> int:
    """Any resident."""
    m.w[RANDOM] += 1
    rows = m.w[m.pools_at + pool * POOL_SIZE + USED_ROWS]
    return m.w[m.w[DENSE_AT] + pool * m.w[SLOT_CAP] + np.int64(random_below(m.w[SEED], m.w[RANDOM], rows))]
