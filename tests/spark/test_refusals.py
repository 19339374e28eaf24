"""What cannot work is refused when the join is written down, not when it runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import windrow as wr
from windrow.errors import (
    DuplicateColumn,
    InputError,
    KeyTypeError,
    MemoryTooSmall,
    MissingDependency,
    SpecError,
    TimeError,
    UnknownColumn,
)


@pytest.fixture(scope="module")
def static(spark: Any) -> Any:
    return spark.range(5).selectExpr("id", "id % 3 as k", "timestamp_seconds(id) as ts")


@pytest.fixture(scope="module")
def live(spark: Any) -> Any:
    rate = spark.readStream.format("rate").load()
    return rate.selectExpr("value as id", "value % 3 as k", "timestamp as ts")


COLUMNS = {
    "months": "interval '1' month",
    "nested months": "array(named_struct('v', interval '1' month))",
    "months and days": "make_interval(1, 2, 3)",
    "months by name": "map('a', interval '1' month)",
    "two of one name": "array(map(1, named_struct('a', 1, 'a', 2)))",
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_that_cannot_travel(static: Any, live: Any, kind: str) -> None:
    for frame in (static, live):
        odd = frame.selectExpr("*", f"{COLUMNS[kind]} as odd")
        with pytest.raises(SpecError, match=r"'right': column 'odd' has type .*cast it, or drop it"):
            wr.join(frame, odd, on="k", time="ts", within="10 s")


KEYS = {"map": "map('a', k)", "struct": "named_struct('k', k)", "array": "array(k)"}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_that_cannot_be_compared(live: Any, kind: str) -> None:
    odd = live.selectExpr("id", "ts", f"{KEYS[kind]} as k")
    with pytest.raises(KeyTypeError, match=r"k.*cannot be|k.*key"):
        wr.join(odd, odd, on="k", time="ts", within="10 s")


def test_frames_that_do_not_fit_together(static: Any, live: Any) -> None:
    alone = r"all frames must be streaming, or none: left is streaming, right is static; .*stream\.join\(static"
    with pytest.raises(SpecError, match=alone):
        wr.join(live, static, on="k", time="ts", within="10 s")
    zoneless = live.selectExpr("k", "cast(ts as timestamp_ntz) as ts")
    with pytest.raises(wr.errors.TimeError, match=r"some times have a time zone.*on Spark cast to timestamp_ntz"):
        wr.join(live.selectExpr("k", "cast(ts as timestamp) as ts"), zoneless, on="k", time="ts", within="10 s")
    with pytest.raises(InputError, match=r"'left' is of pandas on Spark: to_spark\(\)"):
        wr.join(*[static.pandas_api()] * 2, on="k", time="ts", within="10 s")
    query = wr.Query(streams=[wr.Stream(n, "ts", "10 s") for n in "abc"], on="k")
    with pytest.raises(InputError, match="no DataFrame is given for the stream 'c'"):
        query.on_spark({"a": live, "b": live})
    with pytest.raises(InputError, match="no stream 'd'"):
        query.on_spark(dict.fromkeys("abcd", live))
    with pytest.raises(InputError, match="'right' must be a Spark DataFrame, got dict"):
        wr.join(live, {"k": [1]}, on="k", time="ts", within="10 s")
    with pytest.raises(KeyTypeError, match=r"left\.k.*right\.k"):
        wr.join(live, live.selectExpr("ts", "encode(string(k), 'utf-8') as k"), on="k", time="ts", within="10 s")


def test_columns_that_are_not_there_or_there_twice(live: Any) -> None:
    with pytest.raises(UnknownColumn, match="'user'"):
        wr.join(live, live, on="user", time="ts", within="10 s")
    with pytest.raises(UnknownColumn, match="'when'"):
        wr.join(live, live, on="k", time="when", within="10 s")
    twice = live.selectExpr("k", "ts", "id", "id")
    with pytest.raises(DuplicateColumn, match="two columns called 'id'"):
        wr.join(live, twice, on="k", time="ts", within="10 s")


def test_what_streams_cannot_have(live: Any, static: Any, tmp_path: Any) -> None:
    good = {"on": "k", "time": "ts", "within": "10 s"}
    with pytest.raises(SpecError, match="share of what the exact join needs"):
        wr.join(live, live, **good, memory="20%")
    with pytest.raises(SpecError, match="oracle needs whole streams"):
        policy = wr.policies.Prob(statistics=wr.statistics.Oracle())
        wr.join(live, live, **good, memory=100, policy=policy)
    with pytest.raises(SpecError, match="order='time'"):
        wr.join(live, live, **good, order="arrival")
    with pytest.raises(SpecError, match="every stream needs a time column"):
        wr.join(live, live, on="k", within=10)
    with pytest.raises(SpecError, match="window in rows"):
        wr.join(live, live, on="k", time="ts", within=wr.Window.rows(5))
    with pytest.raises(SpecError, match="archive is for streaming joins"):
        wr.join(static, static, **good, archive=str(tmp_path / "archive"))
    assert not (tmp_path / "archive").exists()
    with pytest.raises(TimeError, match="not of one kind"):
        wr.join(live, live.withColumn("ts", live.ts.cast("date")), **good)


def test_watermarks_that_say_something_else(live: Any) -> None:
    good = {"on": "k", "time": "ts", "within": "10 s"}
    marked = live.withWatermark("ts", "5 seconds")
    with pytest.raises(SpecError, match=r"'right': lateness is 3 s.*withWatermark declares 5000 ms"):
        wr.join(live, marked, **good, lateness="3 s")
    wr.join(live, marked, **good, lateness={"left": "3 s", "right": "5 s"})
    other = live.selectExpr("*", "ts as came").withWatermark("came", "5 seconds")
    with pytest.raises(SpecError, match="'left' has a watermark on 'came', but its time is 'ts'"):
        wr.join(other, live, **good)


@pytest.mark.parametrize("shards", [0, -1, True, 2.5, "4", 1 << 17])
def test_shards_that_are_no_number_of_shards(live: Any, shards: Any) -> None:
    with pytest.raises(SpecError, match="shards must be "):
        wr.join(live, live, on="k", time="ts", within="10 s", shards=shards)


def test_memory_that_is_too_little_for_the_shards(live: Any) -> None:
    with pytest.raises(MemoryTooSmall, match="too little for 8 shards"):
        wr.join(live, live, on="k", time="ts", within="10 s", memory=7, shards=8)
    with pytest.raises(MemoryTooSmall):
        wr.join(live, live, on="k", time="ts", within="10 s", memory="80 B", shards=8)
    with pytest.raises(MemoryTooSmall, match=r"4 kB is for 2 shards: memory of 2 kB .* for each shard$"):
        wr.join(live, live, on="k", time="ts", within="10 s", memory="4 kB", policy="prob", shards=2)
    with pytest.raises(MemoryTooSmall, match=r"^memory of 500 B cannot hold one row: .* give at least [\d.]+ kB$"):
        wr.join(live, live, on="k", time="ts", within="10 s", memory="500 B", policy="prob", shards=1)


def test_archives_are_for_spark() -> None:
    import pyarrow as pa

    table = pa.table({"k": [1], "ts": [1]})
    with pytest.raises(InputError, match="for Spark DataFrames"):
        wr.join(table, table, on="k", time="ts", within=5, archive="lost")


def test_metrics_of_something_else() -> None:
    with pytest.raises(InputError, match="metrics needs a streaming query"):
        wr.spark.metrics(5)


def test_metrics_of_a_batch_that_was_not_computed(static: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark itself would wait for ever."""
    matches = wr.join(static, static, on="k", time="ts", within="10 s", shards=1)
    with monkeypatch.context() as patch:
        patch.setattr(import_module("windrow.spark.metrics"), "SEEN_WITHIN", 0.2)
        with pytest.raises(InputError, match=r"has not been computed yet: call count\(\)"):
            wr.spark.metrics(matches)
    found = matches.count()
    assert wr.spark.metrics(matches).to_dict()["matched"] == found > 0


def test_metrics_are_followed_from_any_thread(live: Any) -> None:
    """A thread of its own has no active session."""
    query = live.writeStream.format("noop").start()
    try:
        with ThreadPoolExecutor(1) as pool:
            followed = pool.submit(wr.spark.metrics, query).result()
        assert followed.to_dict()["matched"] == 0
    finally:
        query.stop()


def test_workers_with_another_python(static: Any, live: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "no-such-python")
    for frame, archive in ((static, None), (live, str(tmp_path / "archive"))):
        with pytest.raises(MissingDependency, match="'no-such-python', which does not start: set PYSPARK_PYTHON"):
            wr.join(frame, frame, on="k", time="ts", within="10 s", archive=archive)
    assert not (tmp_path / "archive").exists()


def test_texts_that_spark_compares_by_a_collation(static: Any, live: Any) -> None:
    """Spark takes "A" and "a" for equal there; windrow would miss such matches without a word."""
    collated = "cast(string(k) as string collate UTF8_LCASE) as k"
    said = r"'(left|right|L)': column 'k' has collation UTF8_LCASE.*cast it"
    good = {"on": "k", "time": "ts", "within": "10 s"}
    for frame in (static, live):
        odd, plain = frame.selectExpr("id", "ts", collated), frame.selectExpr("id", "ts", "string(k) as k")
        with pytest.raises(KeyTypeError, match=said):
            wr.join(plain, odd, **good)
        with pytest.raises(KeyTypeError, match=said):
            wr.join(odd, odd, on="id", time="ts", within="10 s", where={"left": wr.Filter("k", "=", "a")})
        with pytest.raises(KeyTypeError, match=said):
            wr.cql("Select k, count(*) as n From L [Range 10 s] Group By k").on_spark({"L": odd}, time="ts")
        assert wr.join(odd, odd, on="id", time="ts", within="10 s").schema["left_k"].dataType.collation == "UTF8_LCASE"
    odd = static.selectExpr("id", collated)
    with pytest.raises(KeyTypeError, match=said):
        wr.static.truncate(odd, odd, on="k", keep=5)
