"""No policy, and no second match: a row that only asks whether it has partners is told so by the first one it meets."""

from typing import Any

from windrow.kernels.jit import inline
from windrow.kernels.memory import Memory

BASE = "policy"


@inline
def enough(h: Any, m: Memory) -> bool:
    """Whether a match is enough: it is."""
    return True
