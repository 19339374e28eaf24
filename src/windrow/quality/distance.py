"""Measures with distance: how far the wrong rows of an approximate result are from the right ones.

Both need numeric columns (times are numbers too) as coordinates. A subset of the exact result is at Earth
Mover's distance 0 whatever it misses; Match-And-Compare sees what is missing, and how well the rest stands in
for it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.errors import InputError, SpecError
from windrow.kernels.analysis.line_transport import line_transport
from windrow.quality.measures import ratio
from windrow.quality.multiset import SIDES, align, tally
from windrow.quality.transport import distances, least_cover, least_work
from windrow.record import number


@dataclass(frozen=True)
class EarthMovers:
    """The least work that moves the smaller multiset into places of the larger one.

    `work` is the sum of distances moved, in the unit of the coordinates; `moved` is the number of rows of the
    smaller multiset, those that need not move included.
    """

    work: float
    moved: int

    @property
    def distance(self) -> float:
        """The mean distance per row moved."""
        return ratio(self.work, self.moved, 0.0)


def earth_movers(approximate: pa.Table, exact: pa.Table, columns: Sequence[str]) -> EarthMovers:
    """The Earth Mover's distance between two multisets of points whose coordinates are in `columns`.

    If one multiset is smaller, all of it is moved and the rest of the larger one stays unmatched; so a subset
    is at distance 0. One coordinate is solved exactly by a sweep along the line in O(n log n); several, by
    Euclidean distance and OR-tools' min-cost flow (the extra `optimum`), for as many rows as
    `transport.MAX_PAIRS` allows. Rows that both share stay where they are: by the triangle inequality that is
    never worse.
    """
    left, right, unit = _points(approximate, exact, columns)
    counts = tally(left, right)
    place = np.column_stack([column.to_numpy() for column in pa.concat_tables([left, right]).columns])
    place = place[counts.first]
    surplus = counts.left - counts.right
    if left.num_rows > right.num_rows:
        surplus = -surplus
    if not (surplus > 0).any():
        work = 0.0
    elif place.shape[1] == 1:
        order = np.argsort(place[:, 0])
        order = order[surplus[order] != 0]
        work = float(line_transport(place[order, 0], surplus[order]))
    else:
        what = "the Earth Mover's distance in several columns"
        cost = distances(place[surplus > 0], place[surplus < 0], what)
        work = least_work(cost, surplus[surplus > 0], -surplus[surplus < 0], what)
    return EarthMovers(_in_units(work, unit), min(left.num_rows, right.num_rows))


@dataclass(frozen=True)
class MatchAndCompare:
    """A cheapest cover of the bipartite graph between two multisets, and the distance that it stands for.

    Every row is joined to at least one row of the other multiset. `work` is the sum of distances along the
    edges of the cover; `shared` counts, over all rows of both sides, the edges beyond a row's first: how
    often a row has to stand in for one that the other side lacks.
    """

    work: float
    shared: int
    penalty: float

    @property
    def distance(self) -> float:
        """`work` plus `penalty` for each shared edge."""
        return self.work + self.penalty * self.shared


def match_and_compare(
    approximate: pa.Table, exact: pa.Table, columns: Sequence[str], penalty: float = 1.0
) -> MatchAndCompare:
    """The Match-And-Compare distance: match rows by a minimum-cost cover, then compare along its edges.

    Unlike the Earth Mover's distance it leaves no row of either side unmatched, so missing rows cost the
    distance to the nearest row that is there, plus `penalty` (in the unit of the coordinates). Against an
    empty result it is infinite. For small results only (`transport.MAX_PAIRS`); needs the extra `optimum`.
    """
    penalty = number(penalty, "penalty")
    left, right, unit = _points(approximate, exact, columns)
    rows = left.num_rows + right.num_rows
    if min(left.num_rows, right.num_rows) == 0:
        return MatchAndCompare(math.inf if rows else 0.0, 0, penalty)
    one, two = (np.column_stack([column.to_numpy() for column in side.columns]) for side in (left, right))
    what = "Match-And-Compare"
    cover = least_cover(distances(one, two, what), what)
    return MatchAndCompare(_in_units(cover.weight, unit), 2 * cover.edges - rows, penalty)


def _points(approximate: pa.Table, exact: pa.Table, columns: Sequence[str]) -> tuple[pa.Table, pa.Table, int]:
    """The coordinates of both tables as float64 columns, in units of a power of two, which is told.

    It is the least in which no two coordinates of a column lie more than one apart, so that squares and sums of
    distances keep to the range of floats.
    """
    if not columns:
        raise SpecError("columns is empty: name at least one numeric column as coordinate")
    left, right = align(approximate, exact, columns)
    found = []
    for name in left.column_names:
        one, two = left[name], right[name]
        for column, side in zip((one, two), SIDES, strict=True):
            if column.null_count:
                raise InputError(f"column {name!r} of the {side} table has nulls: filter them out")
        found.append(_coordinates(pa.chunked_array([*one.chunks, *two.chunks], type=one.type), name))
    with np.errstate(over="ignore"):
        spans = [float(np.ptp(values)) for values in found if len(values)]
    widest = max(spans, default=0.0)
    unit = math.frexp(widest)[1] if math.isfinite(widest) else sys.float_info.max_exp + 1
    for i, (name, values) in enumerate(zip(left.column_names, found, strict=True)):
        scaled = np.ldexp(values, -unit) if spans and spans[i] > 0.0 else np.zeros(len(values))
        left = left.set_column(i, name, pa.array(scaled[: len(left)]))
        right = right.set_column(i, name, pa.array(scaled[len(left) :]))
    return left, right, unit


def _in_units(work: float, unit: int) -> float:
    """Work that was counted in units of a power of two."""
    try:
        return math.ldexp(work, unit)
    except OverflowError:
        raise InputError("the distances add up to more than floats can hold: divide the coordinates first") from None


def _coordinates(column: pa.ChunkedArray, name: str) -> NDArray[np.float64]:
    kind = column.type
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise SpecError(f"column {name!r} is {kind}: a coordinate must be a number or a time, name another column")
    values: NDArray[Any] = column.to_numpy()
    if pa.types.is_floating(column.type):
        if not np.isfinite(values).all():
            raise InputError(f"column {name!r} has NaN or infinite values: filter them out")
        return values.astype(np.float64)
    # Unsigned subtraction is exact over the whole 64-bit range; floats would round large times before it.
    words = values.astype(np.int64).view(np.uint64) if values.dtype.kind == "i" else values.astype(np.uint64)
    least = pc.min(column).as_py() or 0
    return (words - np.uint64(least % 2**64)).astype(np.float64)
