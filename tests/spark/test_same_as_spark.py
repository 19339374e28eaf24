"""Below the budget the answer is Spark's own: the same multiset as its inner join with a range of event time."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.running import assert_same, multiset
from tests.spark.folders import KEYS, LATENESS, PAYLOAD, START, Folders
from tests.spark.joining import (
    collected,
    joined,
    joined_by_spark,
    joined_by_spark_streaming,
    started,
    static,
    streamed,
)

import windrow as wr

# key, shards, files of each stream per micro-batch, whether Spark's streaming join is asked too
CASES = [
    ("number", 1, 1, True),
    ("name", 7, 2, False),
    (["name", "area"], 7, 2, False),
    (["ratio", "flag"], 3, 6, False),
    (["price", "flag"], 2, 3, False),
]


@pytest.mark.parametrize(("on", "shards", "files", "streaming"), CASES, ids=str)
def test_streaming_gives_what_sparks_own_join_gives(
    spark: Any, folders: Folders, on: Any, shards: int, files: int, streaming: bool
) -> None:
    left, right = (streamed(spark, path, files) for path in folders.paths.values())
    found = multiset(collected(joined(left, right, on, shards=shards)))
    exact = multiset(joined_by_spark(*(static(spark, folders, side) for side in folders.paths), on).toArrow())
    assert_same(found, exact, f"seed {folders.seed}")
    assert exact.total() > 100
    if streaming:
        left, right = (streamed(spark, path, 3) for path in folders.paths.values())
        assert_same(found, multiset(collected(joined_by_spark_streaming(left, right, on))), f"seed {folders.seed}")


@pytest.mark.parametrize("on", [*KEYS, ["name", "ratio", "moment"]], ids=str)
def test_batch_gives_what_sparks_own_join_gives(spark: Any, folders: Folders, on: Any) -> None:
    left, right = (static(spark, folders, side) for side in folders.paths)
    wanted = ["id", "ts", on] if isinstance(on, str) else PAYLOAD
    select = {f"{side}_{column}": f"{side}.{column}" for side in folders.paths for column in wanted}
    found = joined(left, right, on, select=select, shards=4).toArrow()
    exact = joined_by_spark(left, right, on).select(*select).toArrow()
    assert found.schema.equals(exact.schema)
    assert_same(multiset(found), multiset(exact), f"seed {folders.seed}")
    assert found.num_rows > 50


def test_batch_in_a_session_of_another_time_zone(spark: Any, folders: Folders) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        test_batch_gives_what_sparks_own_join_gives(spark, folders, "moment")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize(("memory", "policy"), [(None, "auto"), (45, "rand"), ("40%", "prob"), ("24 kB", "auto")])
def test_shards_in_one_process_are_those_of_spark(spark: Any, policy: str, memory: Any) -> None:
    """Rows go to the same shards, which have the same memory and draw the same lots: the same rows are shed."""
    random, sides = Random(7), []
    for _ in range(2):
        keys = [random.choice([*range(25), *range(5)]) for _ in range(400)]
        times = [START + timedelta(seconds=k, milliseconds=random.randrange(900)) for k in range(400)]
        sides.append(pa.table({"k": keys, "ts": pa.array(times, pa.timestamp("us")), "id": range(400)}))
    options = {"on": "k", "time": "ts", "within": "90 s", "memory": memory, "policy": policy, "shards": 3}
    options["select"] = {"a": "left.id", "b": "right.id"}
    here = wr.join(*sides, **options)
    there = wr.join(*(spark.createDataFrame(side) for side in sides), **options)
    assert_same(multiset(there.toArrow()), multiset(here.table))
    told, mine = wr.spark.metrics(there).total(), here.metrics
    for name in ("arrived", "shed", "matched", "recall", "recall_interval", "peak_rows", "peak_bytes"):
        assert getattr(told, name) == getattr(mine, name), name
    assert mine.matched > 300 and (mine.shed > 100) == (memory is not None)


ODD = {
    "variant": "parse_json(concat('[', id, ']'))",
    "interval": "make_dt_interval(0, 0, 0, id)",
    "char": "cast('x' as char(3))",
    "never null": "named_struct('a', array(id), 'm', map(id, 'x'), 'i', array(parse_json('1')))",
}


def test_columns_of_rarer_types_travel(spark: Any) -> None:
    made = [f"{text} as `{name}`" for name, text in ODD.items()]
    frame = spark.range(6).selectExpr("id % 2 as k", "timestamp_seconds(id) as ts", "id", *made)
    plain = frame.columns[2:]
    select = {f"{side}_{name}": f"{side}.{name}" for side in ("left", "right") for name in plain}
    found = wr.join(frame, frame, on="k", time="ts", within="3 s", select=select, shards=2)
    condition = "left.k = right.k and abs(unix_micros(left.ts) - unix_micros(right.ts)) < 3000000"
    pairs = frame.alias("left").join(frame.alias("right"), F.expr(condition))
    exact = pairs.selectExpr(*(f"{side}.`{name}` as `{side}_{name}`" for side in ("left", "right") for name in plain))
    assert found.schema.simpleString() == exact.schema.simpleString()
    texts = [F.to_json(F.struct(*found.columns)).alias("row")]
    assert_same(multiset(found.select(*texts).toArrow()), multiset(exact.select(*texts).toArrow()))


def test_whole_numbers_as_times(spark: Any, folders: Folders) -> None:
    left, right = (streamed(spark, path, 3) for path in folders.paths.values())
    select = {"a": "left.id", "b": "right.id", "at": "left.steps"}
    found = wr.join(left, right, on="area", time="steps", within=20, lateness=20, select=select, shards=3)
    condition = F.expr("left.area = right.area and abs(left.steps - right.steps) < 20")
    left, right = (static(spark, folders, side).alias(side) for side in folders.paths)
    exact = left.join(right, condition).selectExpr("left.id as a", "right.id as b", "left.steps as at")
    assert_same(multiset(collected(found)), multiset(exact.toArrow()), f"seed {folders.seed}")


@pytest.mark.parametrize("default", ["TIMESTAMP_LTZ", "TIMESTAMP_NTZ"])
def test_times_without_a_zone(spark: Any, folders: Folders, default: str, request: pytest.FixtureRequest) -> None:
    """Also in a session that means them when it says timestamp."""
    request.addfinalizer(lambda: spark.conf.unset("spark.sql.timestampType"))
    spark.conf.set("spark.sql.timestampType", default)
    frames = [streamed(spark, path, 2) for path in folders.paths.values()]
    frames = [frame.selectExpr("id", "number", "cast(ts as timestamp_ntz) as ts") for frame in frames]
    options = {"within": "15 s", "lateness": f"{LATENESS} s", "select": {"a": "left.id", "b": "right.id"}, "shards": 2}
    found = wr.join(*frames, on="number", time="ts", **options)
    left, right = (static(spark, folders, side).alias(side) for side in folders.paths)
    condition = "left.number = right.number and abs(unix_micros(left.ts) - unix_micros(right.ts)) < 15000000"
    exact = left.join(right, F.expr(condition)).selectExpr("left.id as a", "right.id as b")
    assert_same(multiset(collected(found)), multiset(exact.toArrow()), f"seed {folders.seed}")


def test_a_declared_watermark_is_the_lateness(spark: Any, folders: Folders) -> None:
    """Nothing is said of lateness but by `withWatermark`, as in Spark's own join."""
    left, right = (streamed(spark, path, 2) for path in folders.paths.values())
    left, right = left.withWatermark("ts", f"{LATENESS} seconds"), right.withWatermark("ts", "60 seconds")
    query, name = started(joined(left, right, "name", lateness=0, shards=2))
    metrics = wr.spark.metrics(query)
    query.awaitTermination()
    found = multiset(spark.table(name).toArrow())
    assert metrics.to_dict()["expired"] > 0 == metrics.to_dict()["late"]
    exact = multiset(joined_by_spark(*(static(spark, folders, side) for side in folders.paths), "name").toArrow())
    assert_same(found, exact, f"seed {folders.seed}")
