"""What the experiments on truncated joins share: components of two relations, and how long a method takes on them.

As in section 5.1 of "Semantic Approximation of Data Stream Joins": 50,000 rows a relation, whose keys are drawn from
Zipf distributions of the same skew, each relation with its own ranking of the keys.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from time import process_time

import numpy as np
from numpy.typing import NDArray

from windrow.lab.experiment import Conditions
from windrow.lab.generators import zipf_pair
from windrow.offline import truncation

ROWS, COMPONENTS, KEEP = 50_000, 1_000, 5_000
SMALLER = 50  # by what quick runs are cut

Counts = NDArray[np.int64]
Method = Callable[[Counts, Counts, int], truncation.Kept]

METHODS: dict[str, Method] = {"OPTDP": truncation.plain, "ADG": truncation.adg, "fast optimum": truncation.optimal}
"""The paper's dynamic programme and greedy method, and the optimum by lemma 2."""


def size(value: int, conditions: Conditions) -> int:
    """A size of the paper, cut where a run shall be quick."""
    return max(2, value // SMALLER) if conditions.quick else value


def components(conditions: Conditions, seed: int, z: float, count: int, correlation: str) -> tuple[Counts, Counts]:
    """Rows of each relation by component."""
    count = size(count, conditions)
    pair = zipf_pair(size(ROWS, conditions), count, z, z, correlation, seed)
    left, right = (np.bincount(table["k"].to_numpy(), minlength=count) for table in pair)
    return left, right


def seconds(method: Method, counts: tuple[Counts, Counts], keep: int, least: float = 0.1) -> float:
    """The processor's time for one call: the mean over as many as take a while.

    Not the clock's, for others may be at work. Kernels must have been compiled before.
    """
    calls, start = 0, process_time()
    while not calls or process_time() - start < least:
        method(*counts, keep)
        calls += 1
    return (process_time() - start) / calls


@cache
def prepare() -> None:
    """Compile every method on components that lead into all of its kernels, so that no clock sees it."""
    counts = components(Conditions(), 0, 0.5, COMPONENTS, "uncorrelated")
    for method in METHODS.values():
        method(*counts, ROWS // 50)
