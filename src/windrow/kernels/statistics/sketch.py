"""The sketch: counts of all keys in a table of fixed size, never too low (a count-min sketch)."""

from typing import Any

import numpy as np

from windrow.kernels.hashing import mix64
from windrow.kernels.jit import inner
from windrow.kernels.memory import memory_of


@inner
def sketch_cell(words: Any, d: int, stream: int, what: int, k: int, code: int) -> int:
    """Where the k-th counter of a code stands; what: 0 count, 1 worth."""
    m = memory_of(words)
    worths = 2 if m.valued else 1
    word = mix64(np.uint64(code) + np.uint64(k + 1) * np.uint64(0x9E3779B97F4A7C15))
    line = ((d * m.streams + stream) * worths + what) * m.head.sketch_depth + k
    return m.head.sketch_at + line * m.head.sketch_width + np.int64(word % np.uint64(m.head.sketch_width))


@inner
def sketch_read(words: Any, d: int, stream: int, what: int, code: int) -> float:
    """The sketch's estimate: the least of its counters for a code."""
    m = memory_of(words)
    least = np.inf
    for k in range(m.head.sketch_depth):
        least = min(least, m.x[sketch_cell(m.w, d, stream, what, k, code)])
    return least


@inner
def sketch_add(words: Any, d: int, stream: int, what: int, code: int, weight: float) -> float:
    """Add to the sketch, conservatively (only counters below the new estimate rise); the new estimate."""
    m = memory_of(words)
    total = sketch_read(m.w, d, stream, what, code) + weight
    for k in range(m.head.sketch_depth):
        at = sketch_cell(m.w, d, stream, what, k, code)
        if m.x[at] < total:
            m.x[at] = total
    return total
