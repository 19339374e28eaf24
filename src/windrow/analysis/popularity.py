"""Popularity: how unequal keys are over the whole stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windrow.analysis.coded import Coded


@dataclass(frozen=True)
class Popularity:
    """How often keys come, whenever that is.

    A key's frequency falls about as rank ** -slope: least squares over the logarithms of both, `error` being the
    standard error of the slope (None with fewer than three keys). `entropy` is in bits: 2 ** entropy keys of equal
    frequency would be as hard to foresee.
    """

    keys: int
    top_share: float
    slope: float
    error: float | None
    entropy: float
    frequencies: np.ndarray  # rows of each key, the most frequent first


def popularity(stream: Coded) -> Popularity:
    """The popularity of a stream's keys."""
    counts = np.bincount(stream.ids, minlength=stream.keys)
    counts = np.sort(counts[counts > 0])[::-1]
    slope, error = fitted(counts)
    shares = counts / stream.rows
    entropy = float(-(shares * np.log2(shares)).sum())
    return Popularity(len(counts), float(shares[0]), slope, error, entropy, counts)


def fitted(counts: np.ndarray) -> tuple[float, float | None]:
    """The slope at which descending counts fall with their rank, both as logarithms, and its standard error."""
    x, y = np.log(np.arange(1, len(counts) + 1)), np.log(counts)
    x = x - x.mean()
    squares = float((x * x).sum())
    slope = float((x * (y - y.mean())).sum()) / squares
    if len(counts) < 3:
        return -slope, None
    rest = y - y.mean() - slope * x
    return -slope, float(np.sqrt((rest * rest).sum() / (len(counts) - 2) / squares))
