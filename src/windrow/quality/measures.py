"""Set measures: how far an approximate result is from the exact one, both multisets of rows.

The simple measures follow from three counts: the rows of the approximate result X, of the exact result Y, and
of what they share. `compare` finds the counts, `Comparison` gives the measures. `distance` has the measures
that also ask how near a wrong row is to a right one. The archive metric looks at the work that is left if
nothing is lost for good.

A join that sheds rows of an equality join only ever misses matches: X is a subset of Y. Then the symmetric
difference is the number of missing matches (the papers' MAX-subset error), matching, Dice, Jaccard and cosine
all rise with the size of X, overlap is always 1 and the Earth Mover's distance always 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.quality.multiset import align, tally
from windrow.record import whole


@dataclass(frozen=True)
class Comparison:
    """An approximate multiset X against the exact multiset Y: |X|, |Y|, |X ∩ Y|, and what follows from them.

    Where a formula divides by zero the measure says whether X is as good as it can be: 1 if it is (two empty
    results are equal, an empty X is a subset of anything), 0 if not.

    >>> Comparison(approximate_rows=6, exact_rows=8, matching=6).jaccard
    0.75
    """

    approximate_rows: int
    exact_rows: int
    matching: int
    """The matching coefficient |X ∩ Y|: each row as often as it stands in both."""

    def __post_init__(self) -> None:
        whole(self.approximate_rows, "approximate_rows")
        whole(self.exact_rows, "exact_rows")
        whole(self.matching, "matching", most=min(self.approximate_rows, self.exact_rows))

    @property
    def missing(self) -> int:
        """Rows of Y that X lacks: the MAX-subset error when X is a subset."""
        return self.exact_rows - self.matching

    @property
    def extra(self) -> int:
        """Rows of X that Y does not have: none if rows were only shed."""
        return self.approximate_rows - self.matching

    @property
    def symmetric_difference(self) -> int:
        """|(X - Y) ∪ (Y - X)|: missing and extra rows together."""
        return self.missing + self.extra

    @property
    def is_subset(self) -> bool:
        """Whether every row of X stands in Y at least as often."""
        return self.extra == 0

    @property
    def dice(self) -> float:
        """2 |X ∩ Y| / (|X| + |Y|)."""
        return ratio(2 * self.matching, self.approximate_rows + self.exact_rows, 1.0)

    @property
    def jaccard(self) -> float:
        """|X ∩ Y| / |X ∪ Y|, where the union holds each row as often as the side that has it more often."""
        return ratio(self.matching, self.matching + self.symmetric_difference, 1.0)

    @property
    def cosine(self) -> float:
        """|X ∩ Y| / sqrt(|X| |Y|), the usual coefficient.

        The paper prints the root of |X| + |Y|, with which even equal results would not score 1.
        """
        root = math.sqrt(self.approximate_rows * self.exact_rows)
        return ratio(self.matching, root, 1.0 if self.symmetric_difference == 0 else 0.0)

    @property
    def overlap(self) -> float:
        """|X ∩ Y| / min(|X|, |Y|): 1 whenever one contains the other."""
        return ratio(self.matching, min(self.approximate_rows, self.exact_rows), 1.0)

    @property
    def recall(self) -> float:
        """The share of Y that X has."""
        return ratio(self.matching, self.exact_rows, 1.0)

    @property
    def precision(self) -> float:
        """The share of X that is right."""
        return ratio(self.matching, self.approximate_rows, 1.0)

    def as_dict(self) -> dict[str, int | float]:
        """Every count and measure by name, ready for JSON or a table."""
        return {name: getattr(self, name) for name in MEASURES}


MEASURES = (
    *("approximate_rows", "exact_rows", "matching", "missing", "extra", "symmetric_difference"),
    *("recall", "precision", "dice", "jaccard", "cosine", "overlap"),
)


def ratio(part: float, total: float, otherwise: float) -> float:
    """`part` / `total`, or `otherwise` when there is nothing to divide by."""
    return part / total if total else otherwise


def compare(approximate: pa.Table, exact: pa.Table, columns: Sequence[str] | None = None) -> Comparison:
    """Compare two tables as multisets of rows, on `columns` or on all (then both must have the same).

    >>> compare(pa.table({"k": [1, 1, 2]}), pa.table({"k": [1, 2, 2, None]})).symmetric_difference
    3
    """
    left, right = align(approximate, exact, columns)
    counts = tally(left, right)
    return Comparison(left.num_rows, right.num_rows, int(np.minimum(counts.left, counts.right).sum()))


def difference(
    approximate: pa.Table, exact: pa.Table, columns: Sequence[str] | None = None
) -> tuple[pa.Table, pa.Table]:
    """The rows behind the counts, repeats and all: those that are missing, those that are extra."""
    left, right = align(approximate, exact, columns)
    counts = tally(left, right)
    both = pa.concat_tables([left, right])
    order = np.argsort(counts.first)
    lack = (counts.right - counts.left)[order]
    missing, extra = (np.repeat(counts.first[order], np.maximum(side, 0)) for side in (lack, -lack))
    return both.take(pa.array(missing)), both.take(pa.array(extra))


@dataclass(frozen=True)
class ArchiveMetric:
    """The work left for later repair when shed rows are archived instead of lost.

    Repair probes every archived row once and emits every missing match once. `archived` is the number of rows
    shed into the archive, `missing` the number of matches that they would still give.
    """

    archived: int
    missing: int

    def __post_init__(self) -> None:
        whole(self.archived, "archived")
        whole(self.missing, "missing")

    @property
    def work(self) -> int:
        """Rows to probe again plus matches to emit: 0 when nothing is missing and nothing was put away."""
        return self.archived + self.missing

    @property
    def matches_per_row(self) -> float:
        """What an archived row gives back on average: the lower, the better the choice of rows to shed."""
        return ratio(self.missing, self.archived, 0.0)


def archive_metric(archived: int, comparison: Comparison) -> ArchiveMetric:
    """The archive metric of a run that shed `archived` rows and whose result compares like this."""
    return ArchiveMetric(archived, comparison.missing)
