"""Set measures against slow, obvious twins: counted with Counter, assigned by trying everything.

They catch a row counted once instead of as often as it stands, null or NaN that differs from itself, codes of
nested values that collide, and a plan of moves that is not the cheapest.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.errors import (
    DuplicateColumn,
    InputError,
    KeyTypeError,
    MissingDependency,
    SpecError,
    UnknownColumn,
)
from windrow.quality import transport
from windrow.quality.distance import earth_movers, match_and_compare
from windrow.quality.measures import ArchiveMetric, Comparison, archive_metric, compare, difference

# ---------------------------------------------------------------------------------------- the twins


def counted(table: pa.Table) -> Counter[Any]:
    """The rows with multiplicities, made hashable; NaN and -0.0 by value."""

    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return "NaN" if math.isnan(value) else value + 0.0
        if isinstance(value, dict):
            return tuple((name, plain(item)) for name, item in value.items())
        return tuple(plain(item) for item in value) if isinstance(value, (list, tuple)) else value

    return Counter(tuple(plain(value) for value in row.values()) for row in table.to_pylist())


def cheapest_moves(left: list[Any], right: list[Any]) -> float:
    """The least sum of distances when the smaller list goes into different places of the larger one."""
    small, large = sorted((left, right), key=len)
    return min(
        sum(math.dist(one, two) for one, two in zip(small, places, strict=True))
        for places in permutations(large, len(small))
    )


def cheapest_cover(left: list[Any], right: list[Any]) -> tuple[float, int]:
    """Weight and number of edges of the best edge cover, by trying every set of edges."""
    edges = [(i, j) for i in range(len(left)) for j in range(len(right))]
    covers = [
        chosen
        for size in range(1, len(left) + len(right))
        for chosen in combinations(edges, size)
        if len({i for i, _ in chosen}) == len(left) and len({j for _, j in chosen}) == len(right)
    ]
    return min((round(sum(math.dist(left[i], right[j]) for i, j in c), 9), len(c)) for c in covers)


# ------------------------------------------------------------------------------------ simple measures

VALUES = {
    pa.int64(): st.none() | st.integers(0, 2),
    pa.float64(): st.sampled_from([None, 0.0, -0.0, 1.5, float("nan"), -float("nan"), float("inf")]),
    pa.string(): st.none() | st.sampled_from(["", "a", "ab", "b"]),
    pa.bool_(): st.none() | st.booleans(),
    pa.list_(pa.string()): st.none() | st.lists(st.sampled_from([None, "", "a"]), max_size=2),
    pa.struct([("x", pa.int64()), ("y", pa.list_(pa.float64()))]): st.none()
    | st.fixed_dictionaries(
        {
            "x": st.none() | st.integers(0, 1),
            "y": st.none() | st.lists(st.sampled_from([0.0, -0.0]), max_size=1),
        }
    ),
    pa.map_(pa.string(), pa.int64()): st.none()
    | st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 1)), max_size=2),
}


@st.composite
def table_pairs(draw: Any) -> tuple[pa.Table, pa.Table]:
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    rows = st.lists(st.tuples(*(VALUES[kind] for kind in kinds)), max_size=8)

    def build(values: list[Any]) -> pa.Table:
        columns = [pa.array([row[i] for row in values], kind) for i, kind in enumerate(kinds)]
        return pa.table(columns, names=[f"c{i}" for i in range(len(kinds))])

    one, two = build(draw(rows)), build(draw(rows))
    cut = draw(st.integers(0, one.num_rows))  # chunks must not matter
    return pa.concat_tables([one.slice(0, cut), one.slice(cut)]), two


@given(table_pairs())
def test_counts_are_those_of_multisets(pair: tuple[pa.Table, pa.Table]) -> None:
    x, y = map(counted, pair)
    result = compare(*pair)
    assert result == Comparison(x.total(), y.total(), (x & y).total())
    assert result.missing == (y - x).total()
    assert result.extra == (x - y).total()
    assert result.symmetric_difference == ((x - y) + (y - x)).total()
    assert result.jaccard == (pytest.approx((x & y).total() / (x | y).total()) if x or y else 1.0)
    missing, extra = difference(*pair)
    assert counted(missing) == y - x
    assert counted(extra) == x - y


@given(table_pairs())
def test_a_table_equals_itself(pair: tuple[pa.Table, pa.Table]) -> None:
    result = compare(pair[0], pair[0])
    assert result.symmetric_difference == 0
    assert [result.dice, result.jaccard, result.cosine, result.overlap, result.recall, result.precision] == [1] * 6


def test_measures_by_hand() -> None:
    result = compare(pa.table({"k": [1, 1, 2, 9]}), pa.table({"k": [1, 2, 2, 3, 3, 3, 3, 3, 3]}))
    assert (result.matching, result.missing, result.extra) == (2, 7, 2)
    assert result.dice == 4 / 13
    assert result.jaccard == 2 / 11
    assert result.cosine == 2 / 6
    assert result.overlap == 2 / 4
    assert result.recall == 2 / 9
    assert result.precision == 2 / 4
    assert not result.is_subset
    assert result.as_dict()["symmetric_difference"] == 9


def test_empty_results() -> None:
    empty, some = pa.table({"k": pa.array([], pa.int64())}), pa.table({"k": [1, 2]})
    both = compare(empty, empty)
    assert {both.dice, both.jaccard, both.cosine, both.overlap, both.recall, both.precision} == {1.0}
    nothing = compare(empty, some)
    assert (nothing.dice, nothing.jaccard, nothing.cosine, nothing.recall) == (0.0, 0.0, 0.0, 0.0)
    assert (nothing.overlap, nothing.precision, nothing.is_subset) == (1.0, 1.0, True)
    assert compare(some, empty).recall == 1.0
    assert compare(some.select([]), some.select([])).matching == 2


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (pa.array([1, 2], pa.int32()), pa.array([1, 2], pa.int64())),
        (pa.array(["a", "b"]), pa.array(["a", "b"]).dictionary_encode()),
        (pa.array(["a", "b"], pa.large_string()), pa.array(["a", "b"], pa.string_view())),
        (pa.array([0, 1], pa.timestamp("s", "UTC")), pa.array([0, 10**6], pa.timestamp("us", "UTC"))),
        (pa.array([None, None], pa.null()), pa.array([None, None], pa.string())),
        (pa.array([1.5, 2.5], pa.float16()), pa.array([1.5, 2.5], pa.float64())),
        (pa.array([[1], [2]], pa.list_(pa.int64(), 1)), pa.array([[1], [2]], pa.list_(pa.int64()))),
        (pa.array([1, 2], pa.decimal128(5, 1)), pa.array([1, 2], pa.decimal128(7, 2))),
        (pa.array([b"a", None]), pa.array([b"a", None], pa.large_binary())),
        (pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),) * 2,
        (pa.array([[1], None], pa.list_view(pa.int64())),) * 2,
        (pa.array([{}, None], pa.struct([])),) * 2,
    ],
    ids=lambda array: str(array.type),
)
def test_types_that_hold_the_same_values_compare(one: pa.Array, two: pa.Array) -> None:
    assert compare(pa.table({"c": one}), pa.table({"c": two})) == Comparison(2, 2, 2)
    assert compare(pa.table({"c": one}), pa.table({"c": two.slice(1)})) == Comparison(2, 1, 1)


def test_columns_may_stand_in_any_order_and_be_chosen() -> None:
    one, two = pa.table({"a": [1, 2], "b": [3, 4]}), pa.table({"b": [3, 4], "a": [1, 9]})
    assert compare(one, two).matching == 1
    assert compare(one, two, columns=["b"]).matching == 2
    assert compare(one, two.append_column("c", [[0, 0]]), columns=["a", "b"]).matching == 1


def test_errors_say_what_does_not_fit() -> None:
    one = pa.table({"key": [1]})
    with pytest.raises(UnknownColumn, match=r"approximate table has no column 'more'"):
        compare(one, pa.table({"key": [1], "more": [2]}))
    with pytest.raises(UnknownColumn, match=r"exact table has no column 'key'; did you mean 'keys'"):
        compare(one, pa.table({"keys": [1]}), columns=["key"])
    with pytest.raises(KeyTypeError, match="'key' is int64 in the approximate table and string in the exact"):
        compare(one, pa.table({"key": ["1"]}))
    with pytest.raises(DuplicateColumn, match="exact table has two columns named 'key'"):
        compare(one, pa.table([[1], [1]], names=["key", "key"]))
    with pytest.raises(InputError, match=r"approximate rows must be a pyarrow\.Table, got list"):
        compare([1], one)
    with pytest.raises(SpecError, match="matching must be at most 1"):
        Comparison(1, 2, 2)


def test_archive_metric_counts_probes_and_matches() -> None:
    metric = archive_metric(40, Comparison(90, 100, 90))
    assert metric == ArchiveMetric(archived=40, missing=10)
    assert (metric.work, metric.matches_per_row) == (50, 0.25)
    assert ArchiveMetric(0, 0).matches_per_row == 0.0
    with pytest.raises(SpecError, match="archived must be at least 0"):
        ArchiveMetric(-1, 0)


# ------------------------------------------------------------------------------ measures with distance

LINE = st.lists(st.tuples(st.integers(0, 6)), max_size=6)
PLANE = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=5)


def points(rows: list[tuple[int, ...]], dimensions: int) -> pa.Table:
    return pa.table({f"x{i}": pa.array([row[i] for row in rows], pa.int64()) for i in range(dimensions)})


@given(LINE, LINE)
def test_earth_movers_on_a_line(left: list[Any], right: list[Any]) -> None:
    result = earth_movers(points(left, 1), points(right, 1), ["x0"])
    assert result.work == pytest.approx(cheapest_moves(left, right))
    assert result.moved == min(len(left), len(right))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200), st.randoms(use_true_random=False))
def test_earth_movers_of_equal_masses_pairs_sorted_values(values: list[float], rng: Any) -> None:
    others = [value + rng.uniform(-10, 10) for value in values]
    result = earth_movers(pa.table({"x": values}), pa.table({"x": others}), ["x"])
    twin = sum(abs(a - b) for a, b in zip(sorted(values), sorted(others), strict=True))
    assert result.work == pytest.approx(twin, abs=1e-6)
    assert result.distance == pytest.approx(twin / len(values), abs=1e-6)


def test_earth_movers_of_a_subset_is_zero_whatever_is_missing() -> None:
    whole = pa.table({"x": np.arange(1000), "y": np.arange(1000) % 7})
    result = earth_movers(whole.slice(0, 10), whole, ["x", "y"])
    assert (result.work, result.moved, result.distance) == (0.0, 10, 0.0)
    assert earth_movers(whole, whole.slice(0, 0), ["x"]).distance == 0.0


def test_earth_movers_keeps_the_last_digit_of_large_times() -> None:
    now = 1_700_000_000_000_000_123
    one, two = (pa.table({"t": pa.array([t, now - 10**9], pa.timestamp("ns"))}) for t in (now, now + 3))
    assert earth_movers(one, two, ["t"]).work == 3.0
    ends = [pa.table({"t": pa.array([t], pa.int64())}) for t in (-(2**63), 2**63 - 1)]
    assert earth_movers(*ends, ["t"]).work == pytest.approx(2.0**64)


@given(PLANE, PLANE)
def test_earth_movers_in_the_plane(left: list[Any], right: list[Any]) -> None:
    pytest.importorskip("ortools", reason="the extra `optimum`")
    result = earth_movers(points(left, 2), points(right, 2), ["x0", "x1"])
    assert result.work == pytest.approx(cheapest_moves(left, right), abs=1e-9)


SMALL = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=3)


@given(SMALL, SMALL)
def test_match_and_compare_finds_the_cheapest_cover(left: list[Any], right: list[Any]) -> None:
    pytest.importorskip("ortools", reason="the extra `optimum`")
    weight, edges = cheapest_cover(left, right)
    result = match_and_compare(points(left, 2), points(right, 2), ["x0", "x1"], penalty=0.5)
    assert result.work == pytest.approx(weight, abs=1e-6)
    assert result.shared == 2 * edges - len(left) - len(right)
    assert result.distance == pytest.approx(weight + 0.5 * result.shared, abs=1e-6)


def test_match_and_compare_sees_what_is_missing() -> None:
    pytest.importorskip("ortools", reason="the extra `optimum`")
    exact = pa.table({"x": [0, 10, 11]})
    assert match_and_compare(exact, exact, ["x"]).distance == 0.0
    result = match_and_compare(pa.table({"x": [0, 10]}), exact, ["x"], penalty=2)
    assert (result.work, result.shared, result.distance) == (1.0, 1, 3.0)
    wide = match_and_compare(pa.table({"x": [0.5]}), pa.table({"x": np.arange(1000)}), ["x"])
    assert (wide.work, wide.shared) == (pytest.approx(499_001), 999)


def test_match_and_compare_against_nothing() -> None:
    some, none = pa.table({"x": [1]}), pa.table({"x": pa.array([], pa.int64())})
    assert match_and_compare(some, none, ["x"]).distance == math.inf
    assert match_and_compare(none, none, ["x"]).distance == 0.0


def test_distances_refuse_what_has_no_place() -> None:
    good = pa.table({"x": [1.0], "y": [2.0], "s": ["a"]})
    with pytest.raises(SpecError, match="name at least one numeric column"):
        earth_movers(good, good, [])
    with pytest.raises(SpecError, match="'s' is string: a coordinate must be a number or a time, name another"):
        earth_movers(good, good, ["s"])
    with pytest.raises(InputError, match="'x' of the exact table has nulls"):
        earth_movers(good, pa.table({"x": pa.array([None], pa.float64())}), ["x"])
    with pytest.raises(InputError, match="'x' has NaN or infinite"):
        earth_movers(good, pa.table({"x": [math.nan]}), ["x"])
    with pytest.raises(SpecError, match="penalty must be a finite number"):
        match_and_compare(good, good, ["x"], penalty=-1.0)


@pytest.mark.parametrize("scale", [5e-324, 1e-308, 1e-200, 1e200, 1e307])
@pytest.mark.parametrize("columns", [["x"], ["x", "y"]])
def test_distances_of_any_size(scale: float, columns: list[str]) -> None:
    """Squares and sums of coordinates leave the range of floats long before the distances do."""
    one = pa.table({"x": [0.0, 8 * scale], "y": [0.0, 0.0]})
    two = pa.table({"x": [3 * scale, 8 * scale], "y": [4 * scale, 0.0]})
    length = 3 if columns == ["x"] else 5
    assert earth_movers(one, two, columns).work == pytest.approx(length * scale)
    assert match_and_compare(one, two, columns).work == pytest.approx(length * scale)


def test_large_coordinates_without_a_difference_do_not_hide_small_ones() -> None:
    one, two = (pa.table({"x": [1e308], "y": [y]}) for y in (0.0, 1e-5))
    assert earth_movers(one, two, ["x", "y"]).work == pytest.approx(1e-5)


def test_distances_that_add_up_to_more_than_floats_hold() -> None:
    one, two = pa.table({"x": [1e308]}), pa.table({"x": [-1e308]})
    for measure in (earth_movers, match_and_compare):
        with pytest.raises(InputError, match="add up to more than floats can hold: divide the coordinates"):
            measure(one, two, ["x"])


def test_large_inputs_and_a_missing_solver_are_clear_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    side = math.isqrt(transport.MAX_PAIRS) + 1
    one = pa.table({"x": np.arange(side), "y": np.zeros(side)})
    two = pa.table({"x": np.arange(side), "y": np.ones(side)})
    with pytest.raises(InputError, match="1,001 against 1,001 rows would need 1,002,001 distances"):
        match_and_compare(one, two, ["x", "y"])
    with pytest.raises(InputError, match="compare a sample"):
        earth_movers(one, two, ["x", "y"])
    monkeypatch.setitem(sys.modules, "ortools.graph.python", None)
    with pytest.raises(MissingDependency, match=r"needs the package ortools: .*pip install ortools"):
        earth_movers(one.slice(0, 2), two.slice(0, 2), ["x", "y"])
