"""The oracle: a table of how often keys arrive over the whole stream, made before the first row."""

from typing import Any

from windrow.kernels.jit import inner
from windrow.kernels.memory import memory_of


@inner
def oracle_line(words: Any, d: int, code: int) -> int:
    """Where the oracle's line for a code begins (code, counts, worths), or -1."""
    m = memory_of(words)
    line_words = 1 + 2 * m.streams
    low, end = m.w[m.head.oracle_start_at + d], m.w[m.head.oracle_start_at + d + 1]
    high = end
    while low < high:
        mid = (low + high) >> 1
        if m.w[m.head.oracle_at + mid * line_words] < code:
            low = mid + 1
        else:
            high = mid
    at = m.head.oracle_at + low * line_words
    if low < end and m.w[at] == code:
        return at
    return -1
