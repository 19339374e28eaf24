"""RAND: any resident of a pool, evenly. A dense list of residents is kept for it."""

from typing import Any

import numpy as np

from windrow.kernels.hashing import random_below
from windrow.kernels.jit import inline
from windrow.kernels.memory import Memory
from windrow.kernels.places import pool_at, slot_at, stream_at, stream_of

BASE = "policy"
KEEPS = ("dense",)


@inline
def entered(h: Any, m: Memory, slot: int) -> None:
    """Put a resident at the end of its pool's dense list (it has been charged already)."""
    pool = stream_at(m, stream_of(m, slot)).pool
    place = pool_at(m, pool).used_rows - 1
    slot_at(m, slot).place = place
    m.w[m.head.dense_at + pool * m.head.slot_cap + place] = slot


@inline
def left(h: Any, m: Memory, slot: int) -> None:
    """Close the gap of a resident in the dense list with the last one (the charge is gone already)."""
    pool = stream_at(m, stream_of(m, slot)).pool
    dense = m.head.dense_at + pool * m.head.slot_cap
    place = slot_at(m, slot).place
    last = m.w[dense + pool_at(m, pool).used_rows]
    m.w[dense + place] = last
    slot_at(m, last).place = place


@inline
def victim(h: Any, m: Memory, pool: int) -> int:
    """Any resident."""
    m.head.random += 1
    rows = pool_at(m, pool).used_rows
    return m.w[m.head.dense_at + pool * m.head.slot_cap + np.int64(random_below(m.head.seed, m.head.random, rows))]
