"""An engine that goes by a watermark that it is told (`own_clock=False`), as every shard on Spark does.

Catches: rows late that are not behind what was told, residents that expire before the last row that may match them,
memory that fills with rows for which nobody waits any longer, an estimate of recall that counts other rows.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import exact_join, exact_resident_need
from tests.running import assert_accounted, assert_part, assert_same, examples, multiset, run, start
from tests.streams import KINDS, Case, cases, of_kind, tick_by_tick

import windrow as wr

TIMED = ("time", "landmark", "unbounded")


@st.composite
def hostile(draw: st.DrawFn, kinds: tuple[str, ...] = TIMED) -> tuple[Case, list[int]]:
    """Rows dealt to pushes whatever their time; and the watermark that is told after each push."""
    case = draw(cases(streams=(2, 2, 3), time_kinds=("int",), order=("time",), kinds=kinds))
    random, pushes = Random(draw(st.integers(0, 10**6))), draw(st.integers(1, 5))
    batches: list[dict[str, Any]] = [{name: [] for name in case.query.names} for _ in range(pushes)]
    for batch in case.batches:
        for name, rows in batch.items():
            for row in rows:
                usual = min(int((row["t"] + 3) * pushes / 20), pushes - 1)
                batches[usual if random.random() < 0.7 else random.randrange(pushes)][name].append(row)
    marks = sorted(draw(st.lists(st.integers(-4, 16), min_size=pushes, max_size=pushes)))
    return replace(case, batches=batches), marks


def in_time(case: Case, marks: list[int]) -> list[dict[str, Any]]:
    """The rows that are not behind what was told after an earlier push."""
    told = [-(10**9), *marks]
    return [
        {name: [row for row in rows if row["t"] >= mark] for name, rows in batch.items()}
        for batch, mark in zip(case.batches, told, strict=False)
    ]


def count(batches: list[dict[str, Any]]) -> int:
    return sum(len(rows) for batch in batches for rows in batch.values())


@examples(200)
@given(hostile(), st.booleans(), st.booleans())
def test_rows_are_late_when_it_is_told_and_all_others_meet(
    drawn: tuple[Case, list[int]], capped: bool, restored: bool
) -> None:
    case, marks = drawn
    if capped:
        case = case.with_query(memory=10_000)
    engine, found = start(case, own_clock=False), []
    for batch, mark in zip(case.tables, marks, strict=True):
        found.append(engine.push(batch))
        engine.push({}, watermark=mark)
        if restored:
            engine = wr.Engine.restore(engine.snapshot(), case.query)
        assert engine.watermark == mark
    kept = in_time(case, marks)
    assert_same(multiset(found), exact_join(case.query, kept), case.query)
    assert engine.metrics.late == count(case.batches) - count(kept)
    assert_accounted(engine)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@examples(40)
@given(st.data(), st.integers(2, 12))
def test_above_the_budget_more_rows_may_be_late_and_are_told(kind: Any, data: Any, memory: int) -> None:
    """Whoever is not late and not shed meets all others of the kind, and recall is over all who are not late."""
    policy = data.draw(of_kind(kind))
    case, marks = data.draw(hostile(("time",) if policy.name.startswith("life") else TIMED))
    case = case.with_query(memory=max(memory, len(case.query.names)), policy=policy)
    engine, found = start(case, own_clock=False, departures=True), []
    late: dict[str, list[int]] = {name: [] for name in case.query.names}
    for batch, mark in zip(case.tables, marks, strict=True):
        found.append(engine.push(batch))
        engine.push({}, watermark=mark)
        for name, table in engine.departed().items():
            late[name] += [row["id"] for row in table.to_pylist() if row["windrow_why"] == "late"]
        assert engine.metrics.peak_rows <= case.query.memory.rows
        assert_accounted(engine)
    kept = [
        {name: [row for row in rows if row["id"] not in late[name]] for name, rows in batch.items()}
        for batch in case.batches
    ]
    exact = exact_join(case.query, kept)
    assert engine.metrics.late == count(case.batches) - count(kept) >= count(case.batches) - count(in_time(case, marks))
    assert_part(multiset(found), exact)
    assert engine.metrics.exact_matched in (None, exact.total())
    if not engine.metrics.shed:
        assert_same(multiset(found), exact, case.query)


@examples(100)
@given(cases(timely=True, time_kinds=("int",), order=("time",), kinds=TIMED), st.sampled_from(["shed", "fail"]))
def test_memory_for_rows_in_order_of_time_loses_nothing(case: Case, on_full: str) -> None:
    """However long a push is: once memory is full, whoever the lateness does not wait for makes room."""
    need = max(1, exact_resident_need(case.query, tick_by_tick(case).batches))
    case = case.at_once().with_query(memory=need, on_full=on_full)
    engine, found = run(case, own_clock=False)
    assert engine.metrics.shed == 0
    assert engine.metrics.peak_rows <= need
    assert_same(multiset(found), exact_join(case.query, case.batches), case.query)


def test_the_sampler_leaves_out_no_more() -> None:
    """It counts with the rows that full memory holds, not with all for which the giver of watermarks still waits."""
    streams = [wr.Stream(name, "t", 20) for name in "ab"]
    query = wr.Query(streams=streams, on="k", memory=20, sample="unbiased")
    rows = {"k": [t % 3 for t in range(400)], "t": list(range(400))}
    sampled = []
    for own_clock in (True, False):
        engine = wr.Engine(query, own_clock=own_clock)
        engine.push({"a": rows, "b": rows})
        sampled.append({name: stream.sampled for name, stream in engine.metrics.streams.items()})
    assert sampled[0] == sampled[1] and min(sampled[0].values()) > 50


@examples(40)
@given(hostile(), st.integers(1, 6))
def test_a_budget_that_shrinks_lets_go_first_of_what_nobody_waits_for(
    drawn: tuple[Case, list[int]], memory: int
) -> None:
    case, _ = drawn
    case = case.with_query(memory=10_000)
    engine, _ = run(case, own_clock=False)
    before = engine.metrics
    engine.memory = memory
    if engine.metrics.shed > before.shed:
        own, _ = run(case.at_once())
        assert engine.watermark == own.watermark
    assert_accounted(engine)


def test_arrivals_are_a_clock_of_their_own() -> None:
    streams = [wr.Stream(name, "t", 5) for name in "ab"]
    with pytest.raises(wr.errors.SpecError, match="own_clock=False needs time columns"):
        wr.Engine(wr.Query(streams=streams, on="k", order="arrival"), own_clock=False)
    with pytest.raises(wr.errors.SpecError, match="own_clock=False needs time columns"):
        wr.Engine(wr.Query(streams=[wr.Stream(n, None, wr.Window.rows(3)) for n in "ab"], on="k"), own_clock=False)


def test_full_memory_waits_for_the_rows_of_the_push() -> None:
    """A row far behind, which is not late, still meets its partner: others of its push may be as far behind."""
    streams = [wr.Stream(name, "t", 10) for name in "ab"]
    engine = wr.Engine(wr.Query(streams=streams, on="k", memory=3), own_clock=False)
    engine.push({"a": {"k": [1, 2], "t": [0, 50]}, "b": {"k": [3], "t": [50]}})
    assert engine.push({"b": {"k": [1], "t": [5]}}).num_rows == 1
    assert engine.metrics.resident_rows == 3 == engine.metrics.arrived - engine.metrics.shed
