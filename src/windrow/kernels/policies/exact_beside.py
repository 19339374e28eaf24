"""Beside another join, to estimate its recall: an exact join that stores a sample of the rows and counts what the other
one has missed (see recall.py). While all rows are stored it counts as any exact join does.
"""

from typing import Any

import numpy as np

from windrow.kernels.hashing import row_word
from windrow.kernels.jit import inline
from windrow.kernels.layout import GROUPS
from windrow.kernels.memory import Memory
from windrow.kernels.places import slot_at

BASE = "policy"


@inline
def watches(h: Any, m: Memory) -> bool:
    """Whether only a sample of the rows is stored."""
    return m.head.sample_share > 0.0


@inline
def matched(h: Any, m: Memory, slot: int) -> None:
    """Count a match with a stored row, in the row's group, if the join beside this one had lost the row before."""
    at = slot_at(m, slot)
    if m.head.seq > at.row:  # the arriving row's number, which is one less, is not below that of the departure
        word = row_word(m.head.seed, at.seq)
        m.x[m.head.sample_at + np.int64(word & np.uint64(GROUPS - 1))] += m.head.sample_weight


@inline
def found_all(h: Any, m: Memory, found: int) -> None:
    """Of a sample, only what was missed is counted."""
    if m.head.sample_share == 0.0:
        m.head.matched += found
