"""The bound for three and more streams, lifetimes of single rows, and schedules replayed while everything changes.

Catches: shares of a match that add up to less than the match (then a policy passes the bound), a replay that changes
memory an instant too early, rows held past their own life.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.streams import POLICY_NAMES
from tests.unit.test_optimum import Rows, best, streams, table

import windrow as wr
from windrow.errors import InputError, SpecError, TimeError, UnknownColumn
from windrow.lab.generators import zipf_pair
from windrow.offline.schedule import fits

NAMES = "abc"


@st.composite
def triples(draw: st.DrawFn) -> list[Rows]:
    def rows() -> Rows:
        times = sorted(draw(st.lists(st.integers(0, 5), min_size=1, max_size=4)))
        return [(t, draw(st.integers(0, 1)), 1) for t in times]

    return [rows() for _ in NAMES]


def most_of_three(parts: list[Rows], window: int, places: int) -> float:
    """The best schedule of a join of three streams on one key, by trying them all."""
    rows = [(s, t, k) for s, part in enumerate(parts) for t, k, _ in part]
    instants = sorted({t for _, t, _ in rows})

    def gained(held: frozenset[int], now: int) -> int:
        fresh = {x for x, row in enumerate(rows) if row[1] == now}
        there = [x for x in held | fresh if now - rows[x][1] < window]
        sides = [[x for x in there if rows[x][0] == s] for s in range(3)]
        return sum(len({rows[x][2] for x in m}) == 1 and not fresh.isdisjoint(m) for m in product(*sides))

    @cache
    def most(held: frozenset[int], step: int) -> int:
        if step == len(instants):
            return 0
        here = sorted(held | {x for x, row in enumerate(rows) if row[1] == instants[step]})
        subsets = [frozenset[int]()]
        for x in here:
            subsets += [s | {x} for s in subsets if len(s) < places]
        return gained(held, instants[step]) + max(most(s, step + 1) for s in subsets)

    return float(most(frozenset(), 0))


def query_of(window: int, **others: Any) -> wr.Query:
    return wr.Query(streams=[wr.Stream(n, "t", wr.Window.time(window)) for n in NAMES], on="k", **others)


@given(triples(), st.integers(1, 6), st.integers(1, 4))
def test_three_streams_are_held_between_a_schedule_and_a_bound(parts: list[Rows], window: int, places: int) -> None:
    tables = {name: table(part) for name, part in zip(NAMES, parts, strict=True)}
    found = wr.optimum(query_of(window, memory=places), tables)
    best_of_all = most_of_three(parts, window, places)
    assert found.value <= best_of_all <= found.bound + 1e-6
    assert fits(found.instance, found.until)
    assert found.value <= found.replay() <= best_of_all
    for policy in POLICY_NAMES:
        engine = wr.Engine(query_of(window, memory=places, policy=policy))
        engine.push(tables)
        assert engine.metrics.matched <= found.bound + 1e-6


def test_ample_memory_closes_the_gap_of_three_streams() -> None:
    rng = np.random.default_rng(5)
    tables = {n: pa.table({"t": np.arange(60), "k": rng.integers(0, 4, 60)}) for n in NAMES}
    found = wr.optimum(query_of(20), tables, memory=60)
    assert found.value == found.exact == pytest.approx(found.bound)
    short = wr.optimum(query_of(20), tables, memory=10)
    assert 0 < short.value <= short.bound < short.exact


@given(streams(), st.integers(2, 6), st.integers(0, 4), st.data())
def test_rows_with_lives_of_their_own(both: Any, window: int, places: int, data: st.DataObject) -> None:
    left, right = both
    lives = [data.draw(st.lists(st.integers(1, 7), min_size=len(rows), max_size=len(rows))) for rows in both]
    own = [pa.array(part, pa.int64()) for part in lives]
    tables = [table(rows).append_column("life", o) for rows, o in zip(both, own, strict=True)]
    found = wr.optimum(
        *tables, on="k", time="t", within=window, memory=places, lifetimes={"left": "life", "right": "life"}
    )
    held = {(s, i): life for s, part in enumerate(lives) for i, life in enumerate(part)}
    assert found.value == best_with_lives(left, right, window, places, held)


def best_with_lives(left: Rows, right: Rows, window: int, places: int, lives: dict[tuple[int, int], int]) -> float:
    """As `best`, with each row's weight standing for its number."""
    marked = [[(t, k, i) for i, (t, k, _) in enumerate(rows)] for rows in (left, right)]

    def worth(x: Any, y: Any) -> float:
        early, late = (x, y) if x[1] <= y[1] else (y, x)
        return float(late[1] - early[1] < lives[early[0], early[3]])

    return best(*marked, lambda *_: window, lambda _: places, worth)


@given(
    streams(most=9), st.integers(1, 6), st.integers(1, 6), st.integers(0, 7), st.integers(1, 5), st.integers(1, 5),
    st.integers(0, 7), st.integers(0, 3),
)  # fmt: skip
def test_the_engine_follows_schedules_while_memory_and_windows_change(
    both: Any, first: int, then: int, when: int, few: int, many: int, moment: int, warm_up: int
) -> None:
    left, right = (table(rows) for rows in both)
    found = wr.optimum(
        left, right, on="k", time="t", within=first, memory=few, memory_changes=[(moment, many)],
        window_changes={"left": [(when, then)]}, warm_up=warm_up,
    )  # fmt: skip
    assert found.replay() == found.value


@given(streams(most=8), st.integers(1, 4), st.integers(1, 4), st.sampled_from(["rows", "none", "band", "less"]))
def test_other_windows_and_predicates(both: Any, size: int, places: int, kind: str) -> None:
    """The replay is the judge: an engine that follows the schedule gives its value, and no policy gives more."""
    tables = {"left": table(both[0]), "right": table(both[1])}
    window = {"rows": wr.Window.rows(size), "none": wr.Window.unbounded()}.get(kind, wr.Window.time(size))
    on: Any = {"band": [wr.Band("left.k", "right.k", 1)], "less": [wr.Compare("left.k", "<", "right.k")]}.get(kind, "k")
    query = wr.Query(streams=[wr.Stream(n, "t", window) for n in tables], on=on, memory=places)
    found = wr.optimum(query, tables)
    assert found.replay() == found.value == found.bound
    for policy in POLICY_NAMES:
        if kind == "none" and policy.startswith("life"):  # compares lifetimes, which have no end here
            continue
        engine = wr.Engine(query.with_(policy=policy))
        engine.push(tables)
        assert engine.metrics.matched <= found.value


def test_questions_that_cannot_be_asked() -> None:
    one = pa.table({"t": [0], "k": [1], "life": [0.5]})
    ask = {"on": "k", "time": "t", "within": 3, "memory": 1}
    with pytest.raises(UnknownColumn, match="lifetimes"):
        wr.optimum(one, one, **ask, lifetimes={"left": "lifes"})
    with pytest.raises(TimeError, match=r"left\.life has -5: a lifetime cannot be negative"):
        wr.optimum(pa.table({"t": [0], "k": [1], "life": [-5]}), one, **ask, lifetimes={"left": "life"})
    with pytest.raises(SpecError, match="no stream 'centre'"):
        wr.optimum(one, one, **ask, lifetimes={"centre": "life"})
    with pytest.raises(TimeError, match="int64"):
        wr.optimum(one, one, **ask, lifetimes={"left": "life"})
    with pytest.raises(SpecError, match="on="):
        wr.optimum(one, one, memory=1)
    with pytest.raises(SpecError, match="leave them out"):
        wr.optimum(query_of(3, memory=1), dict.fromkeys(NAMES, one), on="k")
    with pytest.raises(SpecError, match="streams are a, b, c"):
        wr.optimum(query_of(3, memory=1), {"a": one})


ONE = pa.table({"t": [0, 1, 2], "k": [1, 1, 1]})
ASK: dict[str, Any] = {"on": "k", "time": "t", "within": 3, "memory": 1}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"memory_changes": [(2, 3), (1, 2)]}, "in order of time: 1 stands behind"),
        ({"memory_changes": [3]}, "no pair of a time"),
        ({"memory_changes": {1: 2}}, "list of .time, value."),
        ({"memory_changes": [(None, 2)]}, "no pair of a time"),
        ({"window_changes": {"lift": [(1, 2)]}}, "did you mean 'left'"),
        ({"window_changes": [(1, 2)]}, "by stream"),
        ({"window_changes": {"left": [(1, wr.Window.rows(2))]}}, "only windows in time"),
        ({"window_changes": {"left": [(1, wr.Window.landmark(2))]}}, "only windows in time"),
        ({"window_changes": {"left": [(1, wr.Window.time(2, closed="left"))]}}, "the same end"),
        ({"lifetimes": "life"}, "columns by stream"),
        ({"lifetimes": {"left": 3}}, "columns by stream"),
    ],
)
def test_changes_and_lifetimes_that_mean_nothing_are_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        wr.optimum(ONE, ONE, **ASK, **asked)


def test_a_value_that_is_no_number_and_a_schedule_of_no_stream_are_refused() -> None:
    with pytest.raises(InputError, match="one finite number"):
        wr.optimum(ONE, ONE, **ASK, value=lambda pairs: ["much"] * pairs.num_rows)
    best = wr.optimum(ONE, ONE, **ASK)
    with pytest.raises(SpecError, match="no stream 'centre'; the streams are left, right"):
        best.schedule("centre")
    with pytest.raises(SpecError, match="by stream"):
        wr.optimum(query_of(3, memory=1), [ONE, ONE, ONE])


def test_more_memory_than_a_flow_can_count_is_enough() -> None:
    best = wr.optimum(ONE, ONE, **{**ASK, "memory": 2**62})
    assert best.value == best.exact == 9


def test_columns_may_have_the_names_that_schedules_use() -> None:
    named = ONE.append_column("windrow_row", pa.array([7, 7, 7])).append_column("windrow_until", pa.array([0, 0, 0]))
    best = wr.optimum(named, ONE, **ASK, value=lambda pairs: pairs["left.windrow_row"])
    assert best.exact == 63
    assert best.replay() == best.value


def test_too_many_matches_are_refused_before_they_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windrow.offline.matches.MOST_MATCHES", 8)
    with pytest.raises(SpecError, match=r"more than 8 matches.*fewer rows"):
        wr.optimum(ONE, ONE, **ASK, value=lambda pairs: np.ones(pairs.num_rows))
    assert wr.optimum(ONE, ONE, **{**ASK, "within": 1}, value=lambda pairs: np.ones(pairs.num_rows)).exact == 3


@pytest.mark.parametrize("since", [0, 1, 2, 3])
def test_rows_that_come_together_before_a_landmark_do_not_match(since: int) -> None:
    within = {"left": wr.Window.landmark(since), "right": wr.Window.unbounded()}
    ask = {**ASK, "within": within}
    assert wr.optimum(ONE, ONE, **ask).exact == wr.join(ONE, ONE, on="k", time="t", within=within).table.num_rows


def test_of_changes_at_one_instant_the_last_counts() -> None:
    left, right = pa.table({"t": [0, 6], "k": [1, 1]}), pa.table({"t": [6, 9], "k": [1, 1]})
    memory = [(1, 1), (2, 4)]  # both before the rows of time 6
    windows = {"left": [(1, 2), (2, 8)]}
    ask = {**ASK, "within": 8, "memory": 3}
    best = wr.optimum(left, right, **ask, memory_changes=memory, window_changes=windows)
    assert (best.exact, best.value, best.replay()) == (3, 3, 3)


@given(streams(most=8), st.integers(1, 6))
def test_memory_that_moves_from_one_stream_to_the_other_is_replayed(both: Any, when: int) -> None:
    first, then = (wr.Memory(4, split={"left": share, "right": 1 - share}) for share in (0.75, 0.25))
    ask = {**ASK, "within": 5, "memory": first, "memory_changes": [(when, then)]}
    found = wr.optimum(table(both[0]), table(both[1]), **ask)
    assert found.replay() == found.value


def test_a_number_is_split_as_the_memory_before_it() -> None:
    left, right = zipf_pair(rows=120, keys=10, seed=3)
    ask = {"on": "k", "time": "t", "within": 20, "memory": wr.Memory(20, split=True)}
    plain = wr.optimum(left, right, **ask, memory_changes=[(60, 8)])
    assert plain.value == wr.optimum(left, right, **ask, memory_changes=[(60, wr.Memory(8, split=True))]).value
    assert plain.replay() == plain.value < wr.optimum(left, right, **ask).value
