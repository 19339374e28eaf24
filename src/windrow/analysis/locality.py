"""Locality: everything that one stream shows by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windrow.analysis.ages import Ages, ages
from windrow.analysis.coded import Coded
from windrow.analysis.popularity import Popularity, popularity
from windrow.analysis.recency import Gaps, StackDistances, gaps, stack


@dataclass(frozen=True)
class Locality:
    """One stream: rows that have a key, rows left out because they have none, and what the keys are like."""

    name: str
    rows: int
    left_out: int
    popularity: Popularity
    stack: StackDistances
    gaps: Gaps
    ages: Ages


def locality(stream: Coded, partner: Coded, window: int, seed: int) -> Locality:
    """What a stream is like, its rows waiting for those of a partner."""
    permuted = np.random.default_rng(seed).permutation(stream.ids)
    return Locality(
        stream.name, stream.rows, stream.left_out, popularity(stream),
        stack(stream, permuted), gaps(stream, permuted), ages(stream, partner, window),
    )  # fmt: skip
