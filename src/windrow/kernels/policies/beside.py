"""Beside another join, to estimate its recall: an exact join that stores a sample of the rows and counts what the other
one has missed (see recall.py). While all rows are stored it counts as any exact join does.
"""

from typing import Any

import numpy as np

from windrow.kernels.chains import slot_at
from windrow.kernels.hashing import row_word
from windrow.kernels.jit import inline
from windrow.kernels.layout import ARRIVED, GROUPS, MATCHED, ROW, SAMPLE_AT, SAMPLE_SHARE, SAMPLE_WEIGHT, SEED, SEQ
from windrow.kernels.memory import Memory

BASE = "policy"


@inline
def watches(h: Any, m: Memory) -> bool:
    """Whether only a sample of the rows is stored."""
    return m.x[SAMPLE_SHARE] > 0.0


@inline
def matched(h: Any, m: Memory, slot: int) -> None:
    """Count a match with a stored row, in the row's group, if the join beside this one had lost the row before."""
    at = slot_at(m, slot)
    if m.w[SEQ] > m.w[at + ROW]:  # the arriving row's number, which is one less, is not below that of the departure
        word = row_word(m.w[SEED], m.w[at + ARRIVED])
        m.x[m.w[SAMPLE_AT] + np.int64(word & np.uint64(GROUPS - 1))] += m.x[SAMPLE_WEIGHT]


@inline
def found_all(h: Any, m: Memory, found: int) -> None:
    """Of a sample, only what was missed is counted."""
    if m.x[SAMPLE_SHARE] == 0.0:
        m.w[MATCHED] += found
