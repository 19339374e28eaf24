"""Small figures of many numbers: quantiles, and the exponent of a tail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TAIL_SHARE = 0.1  # the largest of the numbers, which make the tail
LEAST_TAIL = 10  # fewer say nothing


@dataclass(frozen=True)
class Spread:
    """How numbers are spread: their mean, and below which of them a share of all lies."""

    count: int
    mean: float
    p10: float
    p25: float
    median: float
    p75: float
    p90: float


def spread(values: np.ndarray) -> Spread | None:
    """The spread of numbers; None where there are none."""
    if not len(values):
        return None
    return Spread(len(values), float(values.mean()), *map(float, np.quantile(values, [0.1, 0.25, 0.5, 0.75, 0.9])))


def hill(values: np.ndarray) -> float | None:
    """Hill's estimate of a, where P(X > x) falls as x ** -a in the tail; None where the tail is too short to tell.

    The smaller, the heavier the tail. It is the mean of ln(x / least of the tail) over the tail, inverted.
    """
    size = int(len(values) * TAIL_SHARE)
    if size < LEAST_TAIL:
        return None
    tail = np.partition(values, len(values) - size - 1)[len(values) - size - 1 :]
    least = float(tail.min())
    logs = np.log(tail / least) if least > 0 else np.zeros(1)
    return float(size / logs.sum()) if logs.sum() > 0 else None
