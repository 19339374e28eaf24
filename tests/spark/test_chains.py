"""Joins behind joins and aggregations in one streaming query: the rows that Spark's own joins give.

Catches: matches that a join or an aggregation behind takes for late, operators that wait for each other's watermark,
states of several joins in one query that are taken for each other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from tests.running import assert_same, multiset
from tests.spark.folders import LATENESS, WITHIN, Folders
from tests.spark.joining import RANGE, WINDOWS, collected, static, streamed

import windrow as wr

DELAY = f"{LATENESS} seconds"
AGE = f"{LATENESS + max(WITHIN.values())} seconds"  # how far a match may lie behind the rows that are taken
IDS = {"a": "left.id", "b": "right.id", "ts": "left.ts", "number": "left.number"}


def by_windrow(left: Any, right: Any, select: dict[str, str], **options: Any) -> Any:
    return wr.join(left, right, on="number", time="ts", within=WINDOWS, select=select, shards=2, **options)


def by_spark(left: Any, right: Any, select: dict[str, str]) -> Any:
    pairs = left.alias("left").join(right.alias("right"), F.expr(f"left.number = right.number and {RANGE}"))
    return pairs.selectExpr(*(f"{reference} as {name}" for name, reference in select.items()))


@pytest.fixture(scope="module")
def sides(spark: Any, folders: Folders) -> dict[str, Any]:
    return {side: static(spark, folders, side).select("id", "ts", "number") for side in folders.paths}


@pytest.fixture
def live(spark: Any, folders: Folders, rocksdb: None) -> dict[str, Any]:
    """Both streams; three files a micro-batch."""
    frames = {side: streamed(spark, path, 3).select("id", "ts", "number") for side, path in folders.paths.items()}
    return {side: frame.withWatermark("ts", DELAY) for side, frame in frames.items()}


FEW = "number = 1"
AGAIN = {"a": "left.a", "b": "left.b", "c": "right.id"}


def test_a_join_of_a_join(live: dict[str, Any], sides: dict[str, Any], folders: Folders) -> None:
    first = by_windrow(live["left"], live["right"].where(FEW), IDS).withWatermark("ts", AGE)
    found = collected(by_windrow(first, live["right"].where("id % 3 = 0"), AGAIN))
    pairs = by_spark(sides["left"], sides["right"].where(FEW), IDS)
    expected = by_spark(pairs, sides["right"].where("id % 3 = 0"), AGAIN).toArrow()
    assert_same(multiset(found), multiset(expected), f"seed {folders.seed}")
    assert expected.num_rows > 100


def test_a_union_of_joins(live: dict[str, Any], sides: dict[str, Any], folders: Folders) -> None:
    found = collected(by_windrow(live["left"], live["right"], IDS).union(by_windrow(live["right"], live["left"], IDS)))
    expected = by_spark(sides["left"], sides["right"], IDS).union(by_spark(sides["right"], sides["left"], IDS))
    assert_same(multiset(found), multiset(expected.toArrow()), f"seed {folders.seed}")


def counted(frame: Any) -> Any:
    """How many rows of each number fall into every 15 seconds."""
    found = frame.groupBy(F.window("ts", "15 seconds"), "number").agg(F.count("*").alias("id"))
    return found.select(F.window_time("window").alias("ts"), "number", "id")


def test_an_aggregation_between_joins(live: dict[str, Any], sides: dict[str, Any], folders: Folders) -> None:
    matches = by_windrow(live["left"], live["right"].where(FEW), IDS).withWatermark("ts", AGE)
    found = collected(by_windrow(counted(matches), live["left"].where(FEW), {**IDS, "at": "right.ts"}))
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
    joined = by_windrow(counted(live["left"].where(FEW)), live["right"], select)
    for _ in range(2):
        writer = joined.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        writer.format("parquet").start(str(tmp_path / "rows")).awaitTermination()
    found = spark.read.parquet(str(tmp_path / "rows")).toArrow()
    closed = max(row["ts"] for row in found.to_pylist())
    expected = by_spark(counted(sides["left"].where(FEW)), sides["right"], select).where(F.col("ts") <= F.lit(closed))
    assert_same(multiset(found), multiset(expected.toArrow()), f"seed {folders.seed}")
    assert found.num_rows > 20
