"""How far int64s lie apart, and int64s so far away: exact over the whole range, and nothing overflows.

Times, and the numbers of bands, are any int64s (times without the least, which is LOW), so two of them may lie up to
2**64 - 1 apart, which an int64 does not hold. A distance is therefore an unsigned word. Reach, lateness, patience and
the width of a band stand in the block as the int64 with the same bits, ENDLESS for no end; `length` reads them.
Subtraction of unsigned words is exact where it cannot come out negative, which each caller has seen to. Times and
distances are never added to or taken from each other but here, where the result stops at the ends of int64.
"""

from typing import Any

import numpy as np

from windrow.kernels.jit import inline
from windrow.kernels.layout import LATEST, LOW

SIGN = np.uint64(1 << 63)


@inline
def length(word: int) -> Any:
    """The distance that a word of the block stands for, unsigned."""
    return np.uint64(word)


@inline
def apart(later: int, earlier: int) -> Any:
    """How far two int64s lie apart, of which the first is not less: unsigned."""
    return np.uint64(later) - np.uint64(earlier)


@inline
def before(number: int, distance: Any) -> Any:
    """The int64 that lies so far before another, or LOW; the distance is unsigned."""
    if distance >= np.uint64(number) ^ SIGN:  # which is how far the number lies above LOW
        return LOW
    return np.int64(np.uint64(number) - distance)


@inline
def after(number: int, distance: Any) -> Any:
    """The int64 that lies so far behind another, or LATEST; the distance is unsigned."""
    if distance >= np.uint64(LATEST) - np.uint64(number):
        return LATEST
    return np.int64(np.uint64(number) + distance)
