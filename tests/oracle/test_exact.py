"""With memory enough, the engine gives the multiset of the naive join, and of DuckDB.

Catches: windows and ties off by one, pairs joined twice or not at all when rows arrive together or out of order,
wrong nulls, NaN and negative zeros, keys that compare wrongly, lost or doubled rows at batch boundaries, residents
that expire too soon.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import exact_join, live_rows, taken_rows
from tests.running import assert_accounted, assert_same, examples, multiset, run
from tests.streams import ANY_WINDOW, Case, cases, configurations, label, tick_by_tick

import windrow as wr


@examples(300)
@given(cases())
def test_without_a_cap_it_is_the_exact_join(case: Case) -> None:
    engine, found = run(case)
    assert_same(multiset(found), exact_join(case.query, case.batches), case.query)
    assert_accounted(engine)
    assert engine.metrics.matched == sum(len(table) for table in found)


@examples(200)
@given(cases(streams=(2,), plain=True))
def test_the_fast_path_of_two_streams_is_the_exact_join(case: Case) -> None:
    _, found = run(case)
    assert_same(multiset(found), exact_join(case.query, case.batches), case.query)


@examples(80)
@given(cases())
def test_counting_alone_counts_the_same(case: Case) -> None:
    engine, found = run(case, count_only=True)
    assert found == [None] * len(found)
    assert engine.metrics.matched == sum(exact_join(case.query, case.batches).values())
    assert_accounted(engine)


@examples(60)
@given(cases(), st.randoms(use_true_random=False))
def test_the_exact_join_does_not_depend_on_batch_boundaries(case: Case, random: Any) -> None:
    if case.query.order == "arrival" or any(s.window.kind == "rows" for s in case.query.streams):
        case = Case(case.query.with_(order="time", streams=[_in_time(s) for s in case.query.streams]), *_rest(case))
    whole, parts = run(case.at_once())[1], run(case)[1]
    assert_same(multiset(parts), multiset(whole))


def _in_time(stream: wr.Stream) -> wr.Stream:
    window = wr.Window.unbounded() if stream.window.kind == "rows" else stream.window
    return stream.with_(window=window)


def _rest(case: Case) -> tuple[Any, Any]:
    return case.schemas, case.batches


@examples(80)
@given(cases(time_kinds=("int", "timestamp", "zoned", "date")), st.randoms(use_true_random=False), st.booleans())
def test_rows_without_a_time_are_ignored_and_change_nothing_else(case: Case, random: Any, pressed: bool) -> None:
    """They neither match, nor move the clock, nor count in a window of rows, nor make others late."""
    if pressed:
        case = case.with_query(memory=random.randrange(3, 9))
    batches = [
        {
            name: [
                made
                for row in part
                for made in ([row] if random.random() < 0.6 else random.sample([row, {**row, "t": None}], 2))
            ]
            for name, part in batch.items()
        }
        for batch in case.batches
    ]
    plain, found = run(case)
    mixed, others = run(replace(case, batches=batches))
    for one, other in zip(found, others, strict=True):
        assert_same(multiset(other), multiset(one), case.query)
    assert_accounted(mixed)
    for k, name in enumerate(case.query.names):
        extra = sum(row["t"] is None for batch in batches for row in batch[name])
        one, other = plain.metrics.streams[name], mixed.metrics.streams[name]
        assert (other.arrived, other.ignored) == (one.arrived + extra, one.ignored + extra), k
        assert (other.late, other.expired, other.shed) == (one.late, one.expired, one.shed)


MEMORIES = [
    wr.Memory(10_000),
    wr.Memory("64 MB"),
    wr.Memory(10_000, split=True),
    wr.Memory("64 MB", split=True),
]


def _fitting(policy: Any) -> st.SearchStrategy[Case]:
    """Cases whose windows a policy can work with: LIFE compares lifetimes, all in time or all in rows."""
    if policy.name.startswith("life"):
        return cases(kinds=("time",)) | cases(kinds=("rows",))
    return cases(kinds=ANY_WINDOW)


@pytest.mark.parametrize("policy", configurations(), ids=label)
@examples(20)
@given(st.data(), st.sampled_from(MEMORIES), st.sampled_from(["shed", "fail"]))
def test_with_ample_memory_every_policy_is_exact(policy: Any, data: Any, memory: wr.Memory, on_full: str) -> None:
    case = data.draw(_fitting(policy)).with_query(memory=memory, policy=policy, on_full=on_full)
    engine, found = run(case)
    assert_same(multiset(found), exact_join(case.query, case.batches), case.query)
    assert_accounted(engine)
    assert engine.metrics.total("shed") == 0
    assert engine.metrics.recall in (None, 1.0)


@examples(100)
@given(cases(timely=True))
def test_residents_are_the_rows_inside_their_windows(case: Case) -> None:
    engine = wr.Engine(case.query, schemas=case.schemas)
    for k, batch in enumerate(case.tables):
        engine.push(batch)
        live = live_rows(case.query, taken_rows(case.query, case.batches[: k + 1]))
        assert [s.resident_rows for s in engine.metrics.streams.values()] == live
        assert_accounted(engine)


@examples(60)
@given(cases(timely=True, order=("time",)))
def test_pushing_tick_by_tick_is_the_same_join(case: Case) -> None:
    slow = tick_by_tick(case)
    assert_same(multiset(run(slow)[1]), exact_join(case.query, case.batches), case.query)


# ------------------------------------------------------------------------------- DuckDB as the judge

TIMED = ("int", "timestamp", "date")


@examples(60)
@given(cases(kinds=("time", "unbounded"), time_kinds=TIMED, order=("time",)))
def test_duckdb_gives_the_same_matches(case: Case) -> None:
    """Whatever the naive join and the engine agree on, a database that knows neither says too."""
    if any(predicate.kind == "distance" for predicate in case.query.on):
        return
    assert_same(multiset(run(case)[1]), _duckdb(case), case.query)


def _duckdb(case: Case) -> Counter[tuple[Any, ...]]:
    tables = {
        name: pa.Table.from_pylist([row for batch in case.batches for row in batch[name]], schema=case.schemas[name])
        for name in case.query.names
    }
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        for name, table in tables.items():
            connection.register(name, table)
        return multiset(connection.sql(_sql(case)).to_arrow_table())


def _sql(case: Case) -> str:
    query = case.query
    conditions = [_condition(predicate, case) for predicate in query.on]
    for k, right in enumerate(query.streams):
        conditions += [_window_condition(left, right, case) for left in query.streams[:k]]
    conditions += [_filter(stream.name, f) for stream in query.streams for f in stream.where]
    columns = ", ".join(f'{o.column} as "{o.name}"' for o in query.select or ())
    return f"select {columns} from {', '.join(query.names)} where {' and '.join(conditions)}"


def _condition(predicate: Any, case: Case) -> str:
    if predicate.kind == "equal":
        return f"{predicate.left} = {predicate.right}"
    if predicate.kind == "compare":
        return f"{predicate.left} {predicate.op} {predicate.right}"
    left, right = (_number(ref, case) for ref in (predicate.left, predicate.right))
    nan = [f"not isnan({ref}::double)" for ref in (predicate.left, predicate.right) if _type(ref, case) == "float"]
    width = predicate.width if isinstance(predicate.width, int | float) else predicate.width.amount // 1000
    return " and ".join([*nan, f"{left} - {right} between -{width} and {width}"])


def _window_condition(left: wr.Stream, right: wr.Stream, case: Case) -> str:
    """-w_right < right.time - left.time < w_left, with closed ends as the windows say."""
    apart = f"({_number(f'{right.name}.t', case)} - {_number(f'{left.name}.t', case)})"
    later, earlier = _reach(left.window), _reach(right.window)
    tie = left.window.holds_near or right.window.holds_near
    return f"{apart} between -{earlier} and {later}" + ("" if tie else f" and {apart} <> 0")


def _reach(window: wr.Window) -> int:
    """The largest distance inside a window, in microseconds or steps."""
    if window.size is None:
        return 10**18
    size = window.size.amount if window.size.unit == "steps" else window.size.amount // 1000
    return size if window.holds_far else size - 1


def _type(ref: str, case: Case) -> str:
    stream, _, column = ref.partition(".")
    arrow = case.schemas[stream].field(column).type
    kinds = {"float": pa.types.is_floating, "time": pa.types.is_temporal}
    return next((kind for kind, holds in kinds.items() if holds(arrow)), "int")


def _number(ref: str, case: Case) -> str:
    """A column as a number: times as microseconds, integers wide enough for every difference."""
    kind = _type(ref, case)
    if kind == "time":
        return f"epoch_us({ref}::timestamp)::hugeint"
    return f"{ref}::hugeint" if kind == "int" else f"{ref}::double"


def _filter(stream: str, condition: wr.Filter) -> str:
    column = f"{stream}.{condition.column}"
    if condition.op.startswith("is"):
        return f"{column} {condition.op}"
    if condition.op.endswith("in"):
        return f"{column} {condition.op} ({', '.join(map(repr, condition.value))})"  # type: ignore[arg-type]
    return f"{column} {condition.op} {condition.value!r}"
