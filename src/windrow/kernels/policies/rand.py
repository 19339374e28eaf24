"""RAND: any resident of a pool, evenly. A dense list of residents is kept for it.

Two streams with a common key have none before a part of memory is used (exact.py): it begins with the residents of
each stream by age.
"""

from typing import Any

import numpy as np

from windrow.kernels.hashing import random_below
from windrow.kernels.jit import inline
from windrow.kernels.layout import NONE
from windrow.kernels.memory import Memory
from windrow.kernels.places import pool_at, slot_at, stream_at, stream_of

BASE = "policy"
DEFERS = True
KEEPS = ("dense",)


@inline
def entered(h: Any, m: Memory, slot: int) -> None:
    """Put a resident at the end of its pool's dense list (it has been charged already)."""
    pool = stream_at(m, stream_of(m, slot)).pool
    put(m, pool, pool_at(m, pool).used_rows - 1, slot)


@inline
def put(m: Memory, pool: int, place: int, slot: int) -> None:
    """Put a resident at a place of its pool's dense list."""
    slot_at(m, slot).place = place
    m.w[m.head.dense_at + pool * m.head.slot_cap + place] = slot


@inline
def begins(h: Any, m: Memory) -> None:
    """List the residents of each stream, the oldest first."""
    for pool in range(m.pools):
        place = 0
        for stream in range(m.streams):
            slot = stream_at(m, stream).oldest if stream_at(m, stream).pool == pool else NONE
            while slot >= 0:
                put(m, pool, place, slot)
                place += 1
                slot = slot_at(m, slot).newer


@inline
def left(h: Any, m: Memory, slot: int) -> None:
    """Close the gap of a resident in the dense list with the last one (the charge is gone already)."""
    pool = stream_at(m, stream_of(m, slot)).pool
    dense = m.head.dense_at + pool * m.head.slot_cap
    place = slot_at(m, slot).place
    put(m, pool, place, m.w[dense + pool_at(m, pool).used_rows])


@inline
def victim(h: Any, m: Memory, pool: int) -> int:
    """Any resident."""
    m.head.random += 1
    rows = pool_at(m, pool).used_rows
    return m.w[m.head.dense_at + pool * m.head.slot_cap + np.int64(random_below(m.head.seed, m.head.random, rows))]
