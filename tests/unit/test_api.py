"""Can catch: a join that depends on the library its tables come from, shares that are no shares, and unclear errors."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.running import assert_same, multiset
from tests.streams import POLICY_NAMES

import windrow as wr
from windrow import feed
from windrow.errors import (
    DuplicateColumn,
    InputError,
    KeyTypeError,
    MemoryFull,
    MemoryTooSmall,
    SpecError,
    TimeError,
    UnknownColumn,
    UnknownPolicy,
)
from windrow.spec import Band, Equal, Memory, Value, Window

START = datetime(2024, 5, 1)


def table_of(seed, rows, span=60, keys=6, sort=True):
    random = Random(seed)
    steps = [random.randrange(span) for _ in range(rows)]
    steps = sorted(steps) if sort else steps
    return pa.table(
        {
            "user": pa.array([random.randrange(keys) for _ in steps], pa.int64()),
            "ts": pa.array([START + timedelta(seconds=s) for s in steps], pa.timestamp("us")),
            "n": pa.array(range(rows), pa.int64()),
            "word": pa.array([random.choice(["a", "b", None]) for _ in steps], pa.string()),
        }
    )


LEFT, RIGHT = table_of(1, 120), table_of(2, 110)
SELECT = ["left.user", ("left.n", "n"), ("right.n", "m")]


def naive(left, right, seconds):
    """(user, n, m) of every match, by nested loops."""
    found = []
    for a in left.to_pylist():
        for b in right.to_pylist():
            apart = (b["ts"] - a["ts"]).total_seconds()
            if a["user"] == b["user"] and abs(apart) < seconds:
                found.append({"user": a["user"], "n": a["n"], "m": b["n"]})
    return multiset(pa.Table.from_pylist(found, schema=pa.schema([("user", "int64"), ("n", "int64"), ("m", "int64")])))


MAKERS = {
    "arrow": lambda table: table,
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "pandas": lambda table: table.to_pandas(),
    "pandas with an index": lambda table: table.to_pandas().iloc[::-1],
    "polars": pl.from_arrow,
    "chunks": lambda table: pa.concat_tables([table.slice(0, 7), table.slice(7, 0), table.slice(7)]),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_the_join_is_the_same_from_every_library(maker):
    make = MAKERS[maker]
    result = wr.join(make(LEFT), make(RIGHT), on="user", time="ts", within="9 s", select=SELECT)
    exact = naive(LEFT, RIGHT, 9)
    assert_same(multiset(result.table), exact)
    assert result.recall == 1.0 and result.metrics.matched == sum(exact.values()) > 0


def test_libraries_can_be_mixed_and_tables_need_not_be_sorted():
    left, right = table_of(3, 90, sort=False), table_of(4, 90, sort=False)
    result = wr.join(left.to_pandas(), pl.from_arrow(right), "user", "ts", "9 s", select=SELECT)
    assert_same(multiset(result.table), naive(left, right, 9))
    assert result.metrics.total("late") == 0


def test_the_result_goes_to_pandas_and_polars():
    result = wr.join(LEFT, RIGHT, on="user", time="ts", within="9 s")
    assert result.table.column_names == ["user", "left_ts", "left_n", "left_word", "right_ts", "right_n", "right_word"]
    frame, polars = result.to_pandas(), result.to_polars()
    assert isinstance(frame, pd.DataFrame) and isinstance(polars, pl.DataFrame)
    assert list(frame.columns) == polars.columns == result.table.column_names
    assert len(frame) == polars.height == result.table.num_rows > 0
    assert polars.to_arrow().column("left_n").to_pylist() == result.table["left_n"].to_pylist()
    assert frame["right_n"].tolist() == result.table["right_n"].to_pylist()


def test_whole_tables_are_cut_into_slices_without_a_trace(monkeypatch):
    options = {"on": "user", "time": "ts", "within": "9 s", "select": SELECT}
    whole = wr.join(LEFT, RIGHT, memory=25, **options)
    monkeypatch.setattr(feed.feed, "__defaults__", (17,))
    cut = wr.join(LEFT, RIGHT, memory=25, **options)
    assert_same(multiset(cut.table), multiset(whole.table))
    assert cut.metrics.streams == whole.metrics.streams and cut.metrics.total("shed") > 0


@pytest.mark.parametrize("policy", [*POLICY_NAMES, wr.policies.Prob(statistics=wr.statistics.Oracle())])
def test_a_share_is_of_what_the_exact_join_holds(policy):
    options = {"on": "user", "time": "ts", "within": "20 s", "select": SELECT}
    exact = wr.join(LEFT, RIGHT, **options)
    assert wr.join(LEFT, RIGHT, memory="100%", policy=policy, **options).recall == 1.0
    shared = wr.join(LEFT, RIGHT, memory="25%", policy=policy, **options)
    assert shared.metrics.peak_rows == -(-exact.metrics.peak_rows // 4)
    assert shared.recall == pytest.approx(shared.metrics.matched / exact.metrics.matched)
    assert 0 < shared.metrics.matched < exact.metrics.matched
    assert multiset(shared.table) <= multiset(exact.table)


def test_a_share_can_be_split():
    options = {"on": "user", "time": "ts", "within": "20 s"}
    need = wr.join(LEFT, RIGHT, **options).metrics.peak_rows
    result = wr.join(LEFT, RIGHT, memory=Memory("50%", split={"left": 3, "right": 1}), **options)
    assert result.metrics.streams["right"].resident_rows <= need / 8 + 1
    assert result.metrics.peak_rows <= need / 2 + 1
    even = wr.join(LEFT, RIGHT, memory=Memory("1%", split=True), **options)
    assert even.metrics.peak_rows <= 2  # the least that a split can hold


def test_lateness_takes_rows_in_their_order_and_counts_what_is_too_late(monkeypatch):
    random = Random(6)
    steps = sorted(random.randrange(300) for _ in range(200))
    delayed = sorted(steps, key=lambda s: s + random.uniform(0, 40))
    left = pa.table({"user": [1] * 200, "ts": delayed, "n": range(200)})
    right = pa.table({"user": [1] * 200, "ts": steps, "n": range(200)})
    monkeypatch.setattr(feed, "LATE_SLICE_ROWS", 20)
    select = [("left.n", "n"), ("right.n", "m")]
    ample = wr.join(left, right, "user", "ts", 10, lateness=40, select=select)
    exact = wr.join(left, right, "user", "ts", 10, select=select)
    assert ample.metrics.total("late") == 0
    assert_same(multiset(ample.table), multiset(exact.table))
    strict = wr.join(left, right, "user", "ts", 10, lateness={"left": 1, "right": 1}, select=select)
    assert strict.metrics.streams["left"].late > 0 == strict.metrics.streams["right"].late
    assert multiset(strict.table) < multiset(exact.table)


def test_row_numbers_are_the_time_where_none_is_named():
    left, right = [1, 1, 2, 1], [1, 2, 1, 1]
    tables = [pa.table({"k": keys, "n": range(4)}) for keys in (left, right)]
    result = wr.join(*tables, on="k", within=2, select=[("left.n", "n"), ("right.n", "m")])
    expected = [(i, j) for i in range(4) for j in range(4) if left[i] == right[j] and abs(i - j) < 2]
    assert sorted(multiset(result.table)) == expected


def test_sides_may_differ_in_time_window_and_filter():
    left = LEFT.rename_columns(["user", "at", "n", "word"])
    result = wr.join(
        left, RIGHT, on="user", time={"left": "at", "right": "ts"}, within={"left": "5 s", "right": Window.time("2 s")},
        where={"right": [("word", "=", "a")]}, select=SELECT,
    )  # fmt: skip
    expected = 0
    for a in LEFT.to_pylist():
        for b in RIGHT.to_pylist():
            apart = (b["ts"] - a["ts"]).total_seconds()
            expected += a["user"] == b["user"] and b["word"] == "a" and -2 < apart < 5
    assert result.metrics.matched == result.table.num_rows == expected > 0
    assert result.metrics.streams["right"].ignored == sum(w != "a" for w in RIGHT["word"].to_pylist())


def test_predicates_and_values():
    on = [Equal("left.user", "right.user"), Band("left.n", "right.n", 10)]
    value = Value({"left": "n"}, "sum")
    result = wr.join(LEFT, RIGHT, on=on, time="ts", within="30 s", select=SELECT, value=value)
    rows = result.table.to_pylist()
    assert rows and all(abs(row["n"] - row["m"]) <= 10 for row in rows)
    assert result.metrics.value == sum(row["n"] for row in rows)


def test_select_chooses_and_names_columns():
    result = wr.join(LEFT, RIGHT, "user", "ts", "9 s", select={"who": "left.user", "when": "right.ts"})
    assert result.table.column_names == ["who", "when"]
    assert result.table.schema.field("when").type == pa.timestamp("us")


def test_empty_tables_join_to_an_empty_table():
    for left, right in [(LEFT.slice(0, 0), RIGHT), (LEFT, RIGHT.slice(0, 0)), (LEFT.slice(0, 0), RIGHT.slice(0, 0))]:
        for memory in (None, 10, "20%"):
            result = wr.join(left, right, "user", "ts", "9 s", memory=memory, select=SELECT)
            assert result.table.num_rows == 0 and result.table.column_names == ["user", "n", "m"]
            assert result.recall == 1.0


def test_the_same_seed_gives_the_same_answer():
    options = {"on": "user", "time": "ts", "within": "20 s", "memory": 10, "policy": "rand", "select": SELECT}
    first, again = (wr.join(LEFT, RIGHT, seed=3, **options) for _ in range(2))
    assert first.table.equals(again.table)
    assert not first.table.equals(wr.join(LEFT, RIGHT, seed=4, **options).table)


ERRORS = [
    (UnknownColumn, "did you mean 'user'", {"on": "usr"}),
    (UnknownColumn, "ts", {"time": "tss"}),
    (UnknownColumn, "right", {"select": ["right.nn"]}),
    (DuplicateColumn, "user", {"select": ["left.user", "right.user"]}),
    (UnknownPolicy, "prob", {"policy": "probb"}),
    (SpecError, "window", {"within": "0 s"}),
    (SpecError, "side", {"within": {"lleft": "1 s"}}),
    (SpecError, "memory", {"memory": "many"}),
    (MemoryTooSmall, "at least", {"memory": 0}),
    (MemoryTooSmall, "at least", {"memory": "50 B"}),
    (KeyTypeError, "word", {"on": Equal("left.user", "right.word")}),
    (TimeError, "word", {"time": "word"}),
    (InputError, "left", {"left": 5}),
    (InputError, "right", {"right": "a text"}),
    (MemoryFull, "nothing of this push", {"memory": 5, "on_full": "fail"}),
]


@pytest.mark.parametrize(("error", "says", "options"), ERRORS)
def test_errors_say_what_is_wrong(error, says, options):
    given = {"left": LEFT, "right": RIGHT, "on": "user", "time": "ts", "within": "9 s", **options}
    with pytest.raises(error, match=says):
        wr.join(**given)


def test_numpy_numbers_are_fine():
    result = wr.join(LEFT, RIGHT, "user", "n", np.int64(4), memory=np.int64(10))
    assert result.metrics.peak_rows <= 10


@pytest.mark.parametrize("lateness", [0, 3])
def test_rows_without_a_time_are_counted_and_left_out(lateness):
    left = pa.table({"k": [1, 1, 1], "t": pa.array([None, 2, 3], pa.int64())})
    right = pa.table({"k": [1, 1], "t": pa.array([3, None], pa.int64())})
    result = wr.join(left, right, on="k", time="t", within=5, lateness=lateness)
    assert sorted(result.table["left_t"].to_pylist()) == [2, 3]
    assert [s.ignored for s in result.metrics.streams.values()] == [1, 1]
    assert [s.late for s in result.metrics.streams.values()] == [0, 0]
