"""Histograms: how the values of a column are spread, for chances of partners in a range.

A histogram has BINS bins of one width, which doubles when a value falls outside, and sums over a range in a tree.
"""

from typing import Any

import numpy as np

from windrow.kernels.jit import inner
from windrow.kernels.layout import BINS, H_TREE, Histogram
from windrow.kernels.memory import memory_of


@inner
def hist_put(words: Any, line: Histogram, at: int, weight: float) -> None:
    """Add to a bin (Fenwick tree)."""
    m = memory_of(words)
    at += 1
    while at <= BINS:
        m.x[line.at + H_TREE + at] += weight
        at += at & -at


@inner
def hist_sum(words: Any, line: Histogram, upto: int) -> float:
    """Mass of the first `upto` bins."""
    m = memory_of(words)
    total = 0.0
    while upto > 0:
        total += m.x[line.at + H_TREE + upto]
        upto -= upto & -upto
    return total


@inner
def hist_widen(words: Any, line: Histogram, downward: bool) -> None:
    """Double the range of a histogram, upwards or downwards, by joining bins two by two."""
    m = memory_of(words)
    plain = np.empty(BINS)
    for k in range(BINS):
        plain[k] = hist_sum(m.w, line, k + 1) - hist_sum(m.w, line, k)
    start = 0
    if downward:
        line.low -= BINS * line.step
        start = BINS // 2
    line.step *= 2.0
    for k in range(BINS + 1):
        m.x[line.at + H_TREE + k] = 0.0
    for k in range(BINS):
        if plain[k] > 0.0:
            hist_put(m.w, line, start + k // 2, plain[k])


@inner
def hist_learn(words: Any, line: Histogram, value: float, weight: float) -> None:
    """Count one value."""
    m = memory_of(words)
    if not abs(value) < 1e300:
        return
    if line.step == 0.0:
        line.step = max(abs(value) * 1e-6, 1e-6)
        line.low = value - line.step * (BINS // 2)
    while value < line.low:
        hist_widen(m.w, line, True)
    while value >= line.low + BINS * line.step:
        hist_widen(m.w, line, False)
    at = int((value - line.low) / line.step)
    hist_put(m.w, line, min(max(at, 0), BINS - 1), weight)
    line.total += weight


@inner
def hist_below(words: Any, line: Histogram, value: float) -> float:
    """Mass below a value; the bin it falls into is taken as even."""
    m = memory_of(words)
    at = (value - line.low) / line.step
    at = min(max(at, 0.0), float(BINS))
    whole = int(at)
    below = hist_sum(m.w, line, whole)
    if whole >= BINS:
        return below
    return below + (at - whole) * (hist_sum(m.w, line, whole + 1) - below)


@inner
def hist_share(words: Any, line: Histogram, low: float, high: float) -> float:
    """Share of the mass in [low, high]; 1 while nothing is known."""
    m = memory_of(words)
    if not line.total > 0.0:
        return 1.0
    return max((hist_below(m.w, line, high) - hist_below(m.w, line, low)) / line.total, 0.0)
