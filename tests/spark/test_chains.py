"""Joins behind joins and aggregations in one streaming query: the rows that Spark's own joins give.

Catches: matches that a join or an aggregation behind takes for late, operators that wait for each other's watermark,
states of several joins in one query that are taken for each other.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from tests.running import assert_same, multiset
from tests.spark.folders import LATENESS, Folders
from tests.spark.joining import RANGE, WINDOWS, collected, started, static, streamed, written

import windrow as wr

DELAY = f"{LATENESS} seconds"
IDS = {"a": "left.id", "b": "right.id", "ts": "left.ts", "number": "left.number"}
AGAIN = {"a": "left.a", "b": "left.b", "c": "right.id"}
FEW = "number = 1"


def by_windrow(left: Any, right: Any, select: dict[str, str], lateness: Any = DELAY) -> Any:
    options = {"time": "ts", "within": WINDOWS, "lateness": lateness, "shards": 2}
    return wr.join(left, right, on="number", select=select, **options)


def by_spark(left: Any, right: Any, select: dict[str, str]) -> Any:
    pairs = left.alias("left").join(right.alias("right"), F.expr(f"left.number = right.number and {RANGE}"))
    return pairs.selectExpr(*(f"{reference} as {name}" for name, reference in select.items()))


@pytest.fixture(scope="module")
def sides(spark: Any, folders: Folders) -> dict[str, Any]:
    return {side: static(spark, folders, side).select("id", "ts", "number") for side in folders.paths}


@pytest.fixture
def live(spark: Any, folders: Folders, rocksdb: None) -> dict[str, Any]:
    """Both streams; two files a micro-batch."""
    return {side: streamed(spark, path, 2).select("id", "ts", "number") for side, path in folders.paths.items()}


def test_joins_of_joins_and_a_union(live: dict[str, Any], sides: dict[str, Any], folders: Folders) -> None:
    """The time of the first matches carries the watermark; of the second ones it is said how far they lie behind."""
    some = "id % 3 = 0"
    first = by_windrow(live["left"], live["right"].where(FEW), IDS)
    second = by_windrow(
        first, live["right"].where(some), {**AGAIN, "ts": "left.ts", "number": "left.number"}, {"right": DELAY}
    )
    third = by_windrow(
        second, live["left"].where(some), {**AGAIN, "c": "right.id"}, {"left": "50 seconds", "right": DELAY}
    )
    query, table = started(
        third.union(by_windrow(live["left"], live["right"], {**AGAIN, "a": "left.id", "b": "left.id"}))
    )
    query.awaitTermination()
    found, told = live["left"].sparkSession.table(table).toArrow(), wr.spark.metrics(query).to_dict()
    pairs = by_spark(sides["left"], sides["right"].where(FEW), IDS)
    more = by_spark(pairs, sides["right"].where(some), {**AGAIN, "ts": "left.ts", "number": "left.number"})
    expected = by_spark(more, sides["left"].where(some), AGAIN)
    beside = by_spark(sides["left"], sides["right"], {**AGAIN, "a": "left.id", "b": "left.id"})
    assert_same(multiset(found), multiset(expected.union(beside).toArrow()), f"seed {folders.seed}")
    assert expected.count() > 100 < beside.count()
    assert [join["matched"] for join in told["joins"]] == [f.count() for f in (pairs, more, expected, beside)]
    for join in told["joins"]:
        assert join["warm"]["rebuilt"] == 0 < join["warm"]["attached"]


def counted(frame: Any) -> Any:
    """How many rows of each number fall into every 15 seconds."""
    found = frame.groupBy(F.window("ts", "15 seconds"), "number").agg(F.count("*").alias("id"))
    return found.select(F.window_time("window").alias("ts"), "number", "id")


def test_an_aggregation_between_joins(live: dict[str, Any], sides: dict[str, Any], folders: Folders) -> None:
    matches = by_windrow(live["left"], live["right"].where(FEW), IDS)
    found = collected(
        by_windrow(counted(matches), live["left"].where(FEW), {**IDS, "at": "right.ts"}, {"right": DELAY})
    )
    pairs = counted(by_spark(sides["left"], sides["right"].where(FEW), IDS))
    expected = by_spark(pairs, sides["left"].where(FEW), {**IDS, "at": "right.ts"})
    closed = max(row["ts"] for row in found.to_pylist())  # windows behind it are still open at the end
    expected = expected.where(F.col("ts") <= F.lit(closed))
    assert_same(multiset(found), multiset(expected.toArrow()), f"seed {folders.seed}")
    assert len({row["ts"] for row in found.to_pylist()}) > 8


def test_a_join_that_begins_with_an_aggregation_and_goes_on_after_a_restart(
    spark: Any, live: dict[str, Any], sides: dict[str, Any], folders: Folders, tmp_path: Path
) -> None:
    select = {"n": "left.id", "ts": "left.ts", "b": "right.id"}
    counts = counted(live["left"].where(FEW).withWatermark("ts", DELAY))
    joined = by_windrow(counts, live["right"], select, {"right": DELAY})
    for _ in range(2):
        written(joined, tmp_path)
    found = spark.read.parquet(str(tmp_path / "rows")).toArrow()
    closed = max(row["ts"] for row in found.to_pylist())
    expected = by_spark(counted(sides["left"].where(FEW)), sides["right"], select).where(F.col("ts") <= F.lit(closed))
    assert_same(multiset(found), multiset(expected.toArrow()), f"seed {folders.seed}")
    assert found.num_rows > 20


def test_equal_joins_in_one_query_are_all_warm(
    spark: Any, rocksdb: None, sides: dict[str, Any], folders: Folders, tmp_path: Path
) -> None:
    """Three joins with the same settings, two of them with the same rows, each with a warm place of its own, also after
    a restart."""
    files = {side: sorted(path.glob("*.parquet")) for side, path in folders.paths.items()}
    live = {}
    for side, path in folders.paths.items():
        (tmp_path / side).mkdir()
        schema = spark.read.parquet(str(path)).schema
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / side))
        live[side] = stream.select("id", "ts", "number")
    joins = [by_windrow(live["left"], live["right"], IDS) for _ in range(2)]
    joins.append(by_windrow(live["left"].where(FEW), live["right"], IDS))
    assert len(files["left"]) >= 6
    for part in (slice(0, 3), slice(3, None)):
        for side, names in files.items():
            for name in names[part]:
                shutil.copy2(name, tmp_path / side / name.name)
        query = written(joins[0].union(joins[1]).union(joins[2]), tmp_path)
        told = wr.spark.metrics(query).to_dict()["joins"]
    found = spark.read.parquet(str(tmp_path / "rows")).toArrow()
    all_rows = by_spark(sides["left"], sides["right"], IDS)
    few = by_spark(sides["left"].where(FEW), sides["right"], IDS)
    assert_same(multiset(found), multiset(all_rows.union(all_rows).union(few).toArrow()), f"seed {folders.seed}")
    assert [join["matched"] for join in told] == [all_rows.count(), all_rows.count(), few.count()]
    for join in told:
        assert join["warm"]["rebuilt"] == 0 < join["warm"]["attached"]
