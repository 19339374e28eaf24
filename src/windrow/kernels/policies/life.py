"""LIFE: p * (e - now), how often partners arrive times the time that is left until the row expires at e.

The product is the tournament's (tournament.py): a leaf has p as its base and e as its end, and drifts with the clock.
"""

from typing import Any

from windrow.kernels.jit import inline

BASE = "counting"
DRIFTING = True


@inline
def drifts(h: Any) -> int:
    """They do."""
    return 1
