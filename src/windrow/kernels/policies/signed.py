"""No policy, for streams that bring deletions: an exact join, or one that stops when its memory is full."""

from typing import Any

from windrow.kernels.deleting import delete
from windrow.kernels.jit import inline
from windrow.kernels.layout import DELETES, R_LIVE
from windrow.kernels.memory import Memory, memory_of_numbered_pair

BASE = "policy"


@inline
def pair_memory(h: Any, block: Any) -> Memory:
    """The block of a join of two streams with a common key, whose rows have the number that deletions name."""
    return memory_of_numbered_pair(block)


@inline
def deleted(h: Any, m: Memory, r: Any, at: int) -> bool:
    """Do what a deletion asks for."""
    if r[at + R_LIVE] > DELETES:
        return False
    delete(h, m.w, r, at)
    h.undone(h, m, r, at)
    return True
