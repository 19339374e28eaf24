"""GIVEN: a row is worth the number that came with it."""

from typing import Any

from windrow.kernels.jit import inline
from windrow.kernels.layout import NONE, R_GAIN
from windrow.kernels.memory import Memory
from windrow.kernels.places import slot_at

BASE = "ranked"
OWN_LEAVES = True
GIVEN = True


@inline
def starts(h: Any, m: Memory, rx: Any, at: int, slot: int) -> None:
    """Keep the number."""
    slot_at(m, slot).score = rx[at + R_GAIN]


@inline
def moved(h: Any, a: Memory, b: Memory, slot: int, there: int, same: bool) -> None:
    """Keep the number of a row that has one, and nothing else is known of the others."""
    slot_at(b, there).score = slot_at(a, slot).score if same else 0.0


@inline
def ending(h: Any, m: Memory, pool: int) -> int:
    """Nobody: whoever gives the numbers may know that the window is about to grow."""
    return NONE
