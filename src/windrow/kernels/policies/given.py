"""GIVEN: a row is worth the number that came with it."""

from typing import Any

from windrow.kernels.chains import slot_at
from windrow.kernels.jit import inline
from windrow.kernels.layout import NONE, R_GAIN, SCORE_OFF
from windrow.kernels.memory import Memory

BASE = "ranked"
OWN_LEAVES = True
GIVEN = True


@inline
def starts(h: Any, m: Memory, rx: Any, at: int, slot: int) -> None:
    """Keep the number."""
    m.x[slot_at(m, slot) + m.w[SCORE_OFF]] = rx[at + R_GAIN]


@inline
def moved(h: Any, a: Memory, b: Memory, slot: int, there: int, same: bool) -> None:
    """Keep the number of a row that has one, and nothing else is known of the others."""
    b.x[slot_at(b, there) + b.w[SCORE_OFF]] = a.x[slot_at(a, slot) + a.w[SCORE_OFF]] if same else 0.0


@inline
def ending(h: Any, m: Memory, pool: int) -> int:
    """Nobody: whoever gives the numbers may know that the window is about to grow."""
    return NONE
