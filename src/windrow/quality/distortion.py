"""Distortion: how far the keys of an approximate result spread otherwise than those of the exact one.

A result of half the size with the same spread of keys serves an estimate of shares or means as well as the exact one; a
larger result of popular keys only does not. Two measures between the distributions P (exact) and Q (approximate), each
the shares of the matches that fall on each key:

    SSE   the sum over all keys of (P - Q)^2: 0 for equal spread, at most 2
    KL    the sum over all keys of P log(P / Q), in nats

KL has no value where the exact result has a key that the approximate one lacks. So both distributions are smoothed
first: `smooth` matches (half of one unless told, the Jeffreys prior) are added to the count of every key that either
result has. KL then is finite, 0 for equal counts, and still falls to 0 as the shares become equal and the counts large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.errors import InputError
from windrow.quality.multiset import align, tally
from windrow.record import number

SMOOTH = 0.5


@dataclass(frozen=True)
class Distortion:
    """How an approximate result's keys spread against the exact result's."""

    sse: float
    kl: float
    keys: int
    """Keys that either result has."""


def distortion(
    approximate: pa.Table, exact: pa.Table, columns: str | Sequence[str], smooth: float = SMOOTH
) -> Distortion:
    """The distortion between two results' keys in `columns`.

    >>> exact = pa.table({"k": [1, 1, 2, 2]})
    >>> distortion(pa.table({"k": [1, 2]}), exact, "k").sse, distortion(pa.table({"k": [1, 1]}), exact, "k").sse
    (0.0, 0.5)
    """
    counts = tally(*align(approximate, exact, [columns] if isinstance(columns, str) else list(columns)))
    return distortion_of_counts(counts.left, counts.right, smooth)


def distortion_of_counts(approximate: Any, exact: Any, smooth: float = SMOOTH) -> Distortion:
    """The distortion between two results given as how many matches each has of every key, in one order of keys.

    A result without matches has no spread: two such do not differ, and one of them is taken as spread evenly.
    """
    if not number(smooth, "smooth"):
        raise InputError("smooth must be above 0: KL has no value where a key is missing")
    left, right = (_counts(side, what) for side, what in ((approximate, "approximate"), (exact, "exact")))
    if len(left) != len(right):
        raise InputError(f"counts must be of the same keys, got {len(left)} approximate and {len(right)} exact")
    some = (left > 0) | (right > 0)
    left, right = left[some], right[some]
    if not len(left):
        return Distortion(0.0, 0.0, 0)
    sse = float(np.square(_shares(right) - _shares(left)).sum())
    p, q = _shares(right + smooth), _shares(left + smooth)
    return Distortion(sse, max(float((p * np.log(p / q)).sum()), 0.0), len(left))


def _counts(values: Any, what: str) -> np.ndarray:
    counts = np.asarray(values, np.float64)
    if counts.ndim != 1 or not np.isfinite(counts).all() or bool((counts < 0).any()):
        raise InputError(f"the {what} counts must be a list of numbers that are not negative")
    return counts


def _shares(counts: np.ndarray) -> np.ndarray:
    counts = np.ldexp(counts, -np.frexp(counts.max())[1])  # none above one, so that their sum is finite
    total = counts.sum()
    return counts / total if total else np.full(len(counts), 1.0 / len(counts))
