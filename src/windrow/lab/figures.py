"""Figures: what an experiment has measured, row by row, and means with their intervals over seeds."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from windrow.errors import InputError, UnknownColumn

Row = Mapping[str, Any]
Measure = str | Callable[[Row], float]
"""A column, or what follows from several columns of one row."""

# Student's t at 97.5 %, by degrees of freedom from 1; beyond the table the normal's quantile is near enough.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_NORMAL = 1.96


class Mean(NamedTuple):
    """A mean, and between what it lies with a confidence of 95 %; a single value has no width."""

    value: float
    low: float
    high: float

    def __format__(self, form: str) -> str:
        return format(self.value, form)


def mean(values: Sequence[float]) -> Mean:
    """The mean of independent runs.

    >>> f"{mean([1.0, 2.0, 3.0]):.1f}", [round(end, 2) for end in mean([1.0, 2.0, 3.0])[1:]]
    ('2.0', [-0.48, 4.48])
    """
    count = len(values)
    middle = math.fsum(values) / count
    if count == 1:
        return Mean(middle, middle, middle)
    variance = math.fsum((value - middle) ** 2 for value in values) / (count - 1)
    quantile = _STUDENT[count - 2] if count - 2 < len(_STUDENT) else _NORMAL
    half = quantile * math.sqrt(variance / count)
    return Mean(middle, middle - half, middle + half)


@dataclass(frozen=True)
class Figures:
    """The rows of an experiment: its parameters, the seed, and what was measured.

    >>> found = Figures([{"m": 1, "seed": 0, "a": 2.0}, {"m": 1, "seed": 1, "a": 4.0}, {"m": 2, "seed": 0, "a": 5.0}])
    >>> found.mean("a", m=1).value, found.distinct("m")
    (3.0, [1, 2])
    """

    rows: Sequence[Row]

    def where(self, **fixed: Any) -> Figures:
        """The rows with these values."""
        return Figures([row for row in self.rows if all(row.get(name) == value for name, value in fixed.items())])

    def distinct(self, name: str) -> list[Any]:
        """The different values of a parameter, in order of appearance."""
        return list(dict.fromkeys(row[name] for row in self.rows if name in row))

    def cells(self, *names: str) -> Iterator[tuple[str, Figures]]:
        """The rows by the values of these parameters, each part with a label: "w = 400, M = 40"."""
        for values in dict.fromkeys(tuple(row[name] for name in names) for row in self.rows):
            fixed = dict(zip(names, values, strict=True))
            yield ", ".join(_label(name, value) for name, value in fixed.items()), self.where(**fixed)

    def mean(self, measure: Measure, **fixed: Any) -> Mean:
        """The mean of a measure over the rows with these values; only runs under different seeds are independent."""
        rows = self.where(**fixed).rows
        if not rows:
            raise UnknownColumn(f"no figures for {fixed}")
        return mean(Figures(rows).runs(measure))

    def runs(self, measure: Measure) -> list[float]:
        """The mean of a measure under each seed."""
        by_seed: dict[Any, list[float]] = {}
        for row in self.rows:
            by_seed.setdefault(row.get("seed"), []).append(float(_take(measure, row)))
        return [math.fsum(values) / len(values) for values in by_seed.values()]

    def least(self, measure: Measure) -> float:
        """The least value of a measure in any row."""
        return min(float(_take(measure, row)) for row in self.rows)

    def step(self, measure: Measure, before: Row, after: Row) -> Mean:
        """By how much a measure differs between two sets of values, seed by seed."""
        one, two = ({row["seed"]: _take(measure, row) for row in self.where(**fixed).rows} for fixed in (before, after))
        return mean([two[seed] - one[seed] for seed in one if seed in two])

    def curve(self, x: str, y: Measure, **fixed: Any) -> list[tuple[float, Mean]]:
        """A mean of `y` for each value of `x`."""
        part = self.where(**fixed)
        part = Figures([row for row in part.rows if not isinstance(y, str) or y in row])
        return [(value, part.mean(y, **{x: value})) for value in part.distinct(x)]

    def write_csv(self, path: Path) -> None:
        """Write all rows; a column that a row lacks stays empty."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        try:
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, names, lineterminator="\n")
                writer.writeheader()
                writer.writerows(self.rows)
        except OSError as error:
            raise InputError(f"{path}: writing failed: {error.strerror or error}") from error


def span(cells: Sequence[tuple[str, Figures]], measure: Measure, form: str = ".1%") -> str:
    """The least and the largest mean over some cells, and where they are found."""
    means = sorted(((part.mean(measure), label) for label, part in cells), key=lambda found: found[0].value)
    (low, at_low), (high, at_high) = means[0], means[-1]
    if len(means) == 1:
        return f"{low:{form}} ({at_low})"
    return f"{low:{form}} ({at_low}) to {high:{form}} ({at_high})"


def growth(found: Figures, x: str, y: Measure) -> Mean:
    """The power of `x` with which `y` grows: the slope of a straight line through their logarithms, seed by seed."""
    slopes = []
    for _, part in found.cells("seed"):
        points = [(math.log(row[x]), math.log(_take(y, row))) for row in part.rows]
        centre = math.fsum(a for a, _ in points) / len(points)
        spread = math.fsum((a - centre) ** 2 for a, _ in points)
        slopes.append(math.fsum((a - centre) * b for a, b in points) / spread)
    return mean(slopes)


def _take(measure: Measure, row: Row) -> float:
    return row[measure] if isinstance(measure, str) else measure(row)


def _label(name: str, value: Any) -> str:
    """A parameter and its value; a text says by itself what it is."""
    return value if isinstance(value, str) else f"{name} = {value:g}"
