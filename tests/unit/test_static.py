"""Static truncated joins.

Catches: an optimum that is none, greedy choices beyond their bounds, tables whose join is not what the histograms
promise, budgets that are not met, questions that make no sense and are answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.running import examples

import windrow as wr
from windrow.errors import KeyTypeError, SpecError, UnknownColumn
from windrow.offline.truncation import Kept, adg, optimal, plain
from windrow.offline.truncation_sides import ndg, ndg_many, optimal_sides, plain_sides
from windrow.static.keys import labels

# ------------------------------------------------------------------------------------- slow, obvious twins


def naive_answers(m: list[int], n: list[int]) -> dict[tuple[int, int], int]:
    """For every (rows of the left, rows of the right) the most matches: all choices are tried."""
    found = {(0, 0, 0)}
    for most_a, most_b in zip(m, n, strict=True):
        box = list(product(range(most_a + 1), range(most_b + 1)))
        found = {(x + a, y + b, z + a * b) for x, y, z in found for a, b in box}
    best: dict[tuple[int, int], int] = {}
    for a, b, matches in found:
        best[a, b] = max(best.get((a, b), 0), matches)
    return best


def check(kept: Kept, m: Any, n: Any) -> None:
    assert (kept.a >= 0).all() and (kept.a <= m).all()
    assert (kept.b >= 0).all() and (kept.b <= n).all()


def lost(kept: Kept) -> int:
    return kept.exact - kept.matches


tiny = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=3)


# ------------------------------------------------------------------------------------- the optimum


@given(tiny)
def test_best_for_every_budget_of_tiny_relations(pairs: list[tuple[int, int]]) -> None:
    """Every budget of an instance, in all and by side, against all choices: thousands of questions in a run."""
    m, n = [a for a, _ in pairs], [b for _, b in pairs]
    by_side = naive_answers(m, n)
    in_all: dict[int, int] = {}
    for (a, b), matches in by_side.items():
        in_all[a + b] = max(in_all.get(a + b, 0), matches)
    for keep, matches in in_all.items():
        found = optimal(m, n, keep)
        check(found, m, n)
        assert found.rows == keep and found.proved
        assert found.matches == matches == plain(m, n, keep).matches, f"{m} {n} keep {keep}"
        assert len(found.cut) <= 1
    for (a, b), matches in by_side.items():
        found = optimal_sides(m, n, a, b)
        check(found, m, n)
        assert (found.a.sum(), found.b.sum()) == (a, b) and found.proved
        assert found.matches == matches, f"{m} {n} keep {a}, {b}"


SHAPES = {
    "any": lambda rng, c, top: (rng.integers(0, top, c), rng.integers(0, top, c)),
    "squares": lambda rng, c, top: (x := rng.integers(1, top, c), x),
    "stars": lambda rng, c, top: (np.ones(c, np.int64), rng.integers(1, top, c)),
    "nearly equal": lambda rng, c, top: (top + rng.integers(0, 3, c), top + rng.integers(0, 3, c)),
    "even": lambda rng, c, top: (2 * rng.integers(0, top, c), 2 * rng.integers(0, top, c)),
    "skewed": lambda rng, c, top: ((top * c / (1 + np.arange(c))).astype(int), rng.integers(1, top, c)),
}


def relations(shape: str, seed: int, components: int, top: int) -> tuple[Any, Any]:
    return SHAPES[shape](np.random.default_rng(seed), components, top)


@pytest.mark.parametrize("shape", SHAPES)
@examples(25)
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(2, 24), st.floats(0, 1))
def test_the_optimum_is_that_of_the_published_programme(
    shape: str, seed: int, components: int, top: int, share: float
) -> None:
    m, n = relations(shape, seed, components, top)
    keep = round(share * int(m.sum() + n.sum()))
    found = optimal(m, n, keep)
    check(found, m, n)
    assert found.rows == keep
    assert found.matches == plain(m, n, keep).matches


@given(st.sampled_from(sorted(SHAPES)), st.integers(0, 2**32), st.floats(0, 1), st.floats(0, 1))
def test_the_optimum_by_side_is_that_of_the_published_programme(
    shape: str, seed: int, share_a: float, share_b: float
) -> None:
    m, n = relations(shape, seed, 8, 7)
    rows = round(share_a * int(m.sum())), round(share_b * int(n.sum()))
    found = optimal_sides(m, n, *rows)
    assert found.proved and found.matches == plain_sides(m, n, *rows).matches


def test_where_the_effort_ends_the_answer_is_bracketed() -> None:
    m, n = relations("any", 5, 40, 12)
    whole = optimal_sides(m, n, 60, 60)
    short = optimal_sides(m, n, 60, 60, effort=10)
    assert whole.proved and not short.proved
    assert ndg(m, n, 60, 60).matches <= short.matches <= whole.matches <= short.bound


def test_two_components_may_be_cut_when_sides_have_budgets() -> None:
    found = optimal_sides([2, 10], [10, 2], 5, 5)
    assert found.matches == 12 and len(found.cut) == 2
    assert optimal([2, 10], [10, 2], 10).matches == 16


# ------------------------------------------------------------------------------------- greedy


@pytest.mark.parametrize("shape", SHAPES)
@examples(25)
@given(st.integers(0, 2**32), st.floats(0, 1), st.floats(0, 1))
def test_greedy_stays_within_its_bounds(shape: str, seed: int, share_a: float, share_b: float) -> None:
    m, n = relations(shape, seed, 9, 9)
    keep = round(share_a * int(m.sum() + n.sum()))
    greedy, best = adg(m, n, keep), optimal(m, n, keep)
    check(greedy, m, n)
    assert greedy.rows == keep and len(greedy.cut) <= 1
    assert best.matches / 2 <= greedy.matches <= best.matches
    assert lost(greedy) <= 2 * lost(best)
    rows = round(share_a * int(m.sum())), round(share_b * int(n.sum()))
    greedy, best = ndg(m, n, *rows), optimal_sides(m, n, *rows)
    check(greedy, m, n)
    assert (greedy.a.sum(), greedy.b.sum()) == rows
    assert greedy.matches <= best.matches
    assert lost(greedy) <= 2 * lost(best)


def test_node_degrees_alone_may_keep_less_than_half() -> None:
    """The published bound on what NDG keeps does not hold: many stars look better than one square."""
    m, n = [1] * 9 + [9], [10] * 9 + [9]
    assert ndg(m, n, 9, 9).matches == 9
    assert optimal_sides(m, n, 9, 9).matches == 81


def test_right_rows_are_chosen_by_the_partners_that_are_left() -> None:
    m, n = [1, 5], [6, 4]  # the left row with six partners is kept, so the right rows with five have none
    assert ndg(m, n, 1, 2).matches == 2


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=3), st.floats(0, 1))
def test_many_relations_lose_at_most_so_many_times_what_they_must(keys: list[tuple[int, ...]], share: float) -> None:
    counts = np.array(keys).T
    keeps = [round(share * int(c.sum())) for c in counts]
    kept = np.array(ndg_many(list(counts), keeps))
    assert kept.sum(axis=1).tolist() == keeps and (kept <= counts).all()
    exact = counts.prod(axis=0).sum()
    least = min(exact - np.prod(c, axis=0).sum() for c in product(*map(choices, counts, keeps)))
    assert exact - kept.prod(axis=0).sum() <= 3 * least


def choices(rows: Any, keep: int) -> Iterator[Any]:
    return (np.array(c) for c in product(*(range(r + 1) for r in rows)) if sum(c) == keep)


# ------------------------------------------------------------------------------------- tables

KEYS = {
    "numbers": ([1, 2, None, 4], [2.0, 4.0, 1.0, None], pa.int32(), pa.float64()),
    "text": (["a", "", None, "é" * 40], ["é" * 40, "a", "", "c"], pa.string(), pa.large_string()),
    "dates": ([0, 1, 2, None], [2, 1, 0, 5], pa.date32(), pa.date64()),
    "floats": ([0.0, -0.0, float("nan"), None], [float("nan"), 0.0, 1.5, None], pa.float64(), pa.float32()),
    "bytes": ([b"a", b"b", b"", None], [b"", b"a", b"c", b"b"], pa.binary(), pa.large_binary()),
}


def tables(kind: str, seed: int, rows: int = 60) -> tuple[pa.Table, pa.Table]:
    rng = np.random.default_rng(seed)
    made = []
    for values, type_, column in zip(KEYS[kind][:2], KEYS[kind][2:], ("x", "y"), strict=True):
        if pa.types.is_date64(type_):
            values = [None if v is None else v * 86_400_000 for v in values]
        key = [values[k] for k in rng.choice(4, rows, p=[0.5, 0.25, 0.15, 0.1])]
        made.append(pa.table({"k": pa.array(key, type_), column: np.arange(rows)}))
    return made[0], made[1]


@pytest.mark.parametrize("kind", KEYS)
@examples(10)
@given(st.integers(0, 2**32), st.floats(0, 1))
def test_the_join_of_truncated_tables_has_the_size_that_was_promised(kind: str, seed: int, share: float) -> None:
    left, right = tables(kind, seed)
    exact = wr.join(left, right, on="k").table.num_rows
    rows = round(share * 60)
    questions: list[dict[str, Any]] = [
        {"keep": 2 * rows},
        {"drop": rows, "method": "adg"},
        {"keep_a": rows, "drop_b": 7},
        {"drop_a": 60 - rows, "method": "ndg"},
    ]
    for question in questions:
        result = wr.static.truncate(left, right, on="k", **question)
        assert result.exact_matches == exact
        assert wr.join(result.left, result.right, on="k").table.num_rows == result.matches == result.table.num_rows
        assert (result.left.num_rows, result.right.num_rows) == (result.kept_left, result.kept_right)
        assert result.kept_left + result.dropped_left == 60 == result.kept_right + result.dropped_right
        assert result.bytes.shipped == result.bytes.histograms + result.bytes.requests + result.bytes.rows
        assert result.bytes.rows <= result.bytes.everything
    assert result.kept_left == rows and result.kept_right == 60


def test_result_says_what_was_cut_and_keeps_the_first_rows() -> None:
    left = pa.table({"k": ["a"] * 4 + ["b"] * 2, "g": [1] * 6, "x": range(6)})
    right = pa.table({"k": ["b"] * 2 + ["a"] * 5 + [None], "g": [1] * 7 + [2], "y": range(8)})
    result = wr.static.truncate(left, right, on=["k", "g"], keep=5)
    assert result.cut == (wr.static.Cut(("a", 1), 4, 2, 5, 3),)
    assert result.left["x"].to_pylist() == [0, 1] and result.right["y"].to_pylist() == [2, 3, 4]
    assert (result.matches, result.exact_matches, result.optimal) == (6, 24, True)
    assert result.recall == 0.25 and result.join().column_names == ["k", "g", "x", "y"]
    everything = wr.static.truncate(left, right, on=["k", "g"], keep=14)
    assert everything.recall == 1.0 and everything.cut == ()
    assert wr.static.truncate(left, right, on=["k", "g"], keep=13).right["k"].null_count == 0


def test_pandas_polars_and_empty_tables() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    left, right = pandas.DataFrame({"k": [1, 1, 2]}), polars.DataFrame({"k": [1, 2, 2]})
    assert wr.static.truncate(left, right, on="k", keep=4).matches == 2
    nothing = wr.static.truncate(left.iloc[:0], right, on="k", keep=2)
    assert (nothing.kept_right, nothing.matches, nothing.recall, nothing.table.num_rows) == (2, 0, 1.0, 0)


def test_keys_whose_codes_collide_stay_apart() -> None:
    words = pa.chunked_array([[str(k % 7) for k in range(50)]])
    true, count = labels([[words], [words.slice(5)]], [pa.string()])
    forced, forced_count = labels([[words], [words.slice(5)]], [pa.string()], mask=1)
    assert count == forced_count == 7
    for a, b in zip(true, forced, strict=True):
        assert len({*zip(a.tolist(), b.tolist(), strict=True)}) == 7


def test_many_tables() -> None:
    rng = np.random.default_rng(1)
    given_ = {name: pa.table({"k": rng.integers(0, 4, 15), name: range(15)}) for name in ("a", "b", "c")}
    result = wr.static.truncate_many(given_, on="k", keep={"a": 6, "c": 9})
    assert [table.num_rows for table in result.tables.values()] == [6, 15, 9]
    assert result.join().num_rows == result.matches < result.exact_matches
    with pytest.raises(SpecError, match="'d', which is not given"):
        wr.static.truncate_many(given_, on="k", keep={"d": 1})
    with pytest.raises(SpecError, match="keep of 'a' is 16, but there are only 15 rows"):
        wr.static.truncate_many(given_, on="k", keep={"a": 16})
    with pytest.raises(SpecError, match="rows of each relation"):
        wr.static.truncate_many(given_, on="k", keep=6)  # type: ignore[arg-type]
    assert wr.static.truncate_many(given_, on="k", keep={"a": np.int64(6), "c": 9}).matches == result.matches


# ------------------------------------------------------------------------------------- refusals

BAD = {
    "too many": ({"keep": 11}, "keep is 11, but there are only 10 rows"),
    "too many dropped": ({"drop": 11}, "drop is 11, but there are only 10 rows"),
    "too many of a side": ({"keep_a": 6}, "keep_a is 6, but there are only 5 rows"),
    "negative": ({"keep": -1}, "keep cannot be negative"),
    "negative drop": ({"drop_b": -1, "keep_a": 1}, "drop_b cannot be negative"),
    "no number": ({"keep": 1.5}, "keep must be a whole number of rows, got 1.5"),
    "no budget": ({}, "say how many rows to keep"),
    "two budgets": ({"keep": 1, "keep_a": 1}, "not both"),
    "said twice": ({"keep_a": 1, "drop_a": 4}, "say the same thing twice"),
    "unknown method": ({"keep": 1, "method": "best"}, "method"),
    "adg by side": ({"keep_a": 1, "method": "adg"}, "adg keeps so many rows in all"),
    "ndg in all": ({"keep": 1, "method": "ndg"}, "ndg keeps so many rows of each side"),
    "no equality": ({"keep": 1, "on": wr.Band("left.k", "right.k", 1)}, "equalities only"),
}


@pytest.mark.parametrize("case", BAD)
def test_questions_that_make_no_sense(case: str) -> None:
    table = pa.table({"k": range(5)})
    question, message = BAD[case]
    with pytest.raises(SpecError, match=message):
        wr.static.truncate(table, table, **{"on": "k", **question})


def test_keys_that_do_not_compare_and_columns_that_are_not_there() -> None:
    table, text = pa.table({"k": [1]}), pa.table({"k": ["1"]})
    with pytest.raises(KeyTypeError, match="cannot be compared"):
        wr.static.truncate(table, text, on="k", keep=1)
    with pytest.raises(UnknownColumn, match="'left' has no column 'q'"):
        wr.static.truncate(table, text, on="q", keep=1)


@pytest.mark.parametrize("m", [[1, -1], [0.5, 1.0], [[1], [2]], [1]], ids=str)
def test_histograms_that_are_none(m: Any) -> None:
    with pytest.raises(SpecError):
        optimal(m, [1, 1], 1)


def test_more_matches_than_can_be_counted() -> None:
    with pytest.raises(SpecError, match="2\\^60"):
        optimal([2**40], [2**40], 5)
