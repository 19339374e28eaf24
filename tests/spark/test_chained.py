"""What Spark would refuse with its plan is refused in one line before: with most stores a query holds one windrow join.

What it runs is in test_chains.py.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
from pyspark.sql import functions as F

import windrow as wr
from windrow.errors import SpecError
from windrow.spark.upstream import plan_text


def live(spark: Any) -> Any:
    rate = spark.readStream.format("rate").load().withWatermark("timestamp", "5 seconds")
    return rate.selectExpr("value as FlatMapGroupsInPandasWithState", "value % 3 as k", "timestamp as ts")


def joined(left: Any, right: Any) -> Any:
    select = {"k": "left.k", "ts": "left.ts"}
    return wr.join(left, right, on="k", time="ts", within="10 s", select=select, shards=2)


def aggregated(frame: Any) -> Any:
    counted = frame.groupBy(F.window("ts", "2 seconds"), "k").count()
    return counted.selectExpr("window.start as ts", "k", "count as n")


def sessions(frame: Any) -> Any:
    return frame.groupBy(F.session_window("ts", "2 seconds"), "k").count().selectExpr("session_window.start as ts", "k")


def test_a_join_behind_a_join(spark: Any) -> None:
    matches = joined(live(spark), live(spark))
    with pytest.raises(
        SpecError, match=r"'left' comes from another windrow join.*windrow.spark.tune.*or write it out"
    ) as error:
        joined(matches.where("k > 0").selectExpr("k + 1 as k", "ts"), live(spark))
    assert "\n" not in str(error.value)
    plain = live(spark).select("k", "ts")
    with pytest.raises(SpecError, match=r"'right' comes from another windrow join"):
        joined(live(spark), plain.union(matches))


@pytest.mark.parametrize("before", [aggregated, sessions])
def test_a_join_behind_an_aggregation(spark: Any, before: Any) -> None:
    with pytest.raises(SpecError, match=r"'right' comes from an aggregation.*query of its own") as error:
        joined(live(spark), before(live(spark)))
    assert "\n" not in str(error.value)


def test_a_time_that_carries_no_watermark(spark: Any, rocksdb: None) -> None:
    with pytest.raises(SpecError, match=r"'right' comes from a join or an aggregation.*say with lateness=") as error:
        joined(live(spark), aggregated(live(spark)))
    assert "\n" not in str(error.value)
    marked = joined(live(spark), live(spark))  # whose streams declare their watermark: matches may lie behind it
    with pytest.raises(SpecError, match=r"'left' comes from a join or an aggregation, and its time 'ts' carries no"):
        joined(marked, live(spark))


def test_what_may_stand_before_a_join(spark: Any) -> None:
    """Spark runs these: nothing is refused that would work, and no name of a column is taken for an operator."""
    left, static = live(spark), spark.range(5).selectExpr("id as k", "timestamp_seconds(id) as ts")
    joined(left.dropDuplicates(["k", "ts"]), live(spark).limit(5))
    joined(left.join(static.select("k"), "k"), live(spark))
    condition = F.expr("l.k = r.k and l.ts between r.ts and r.ts + interval 3 seconds")
    pairs = left.alias("l").join(live(spark).alias("r"), condition).selectExpr("l.k as k", "l.ts as ts")
    joined(pairs, live(spark))
    joined(joined(static, aggregated(static)), static)


def test_only_the_plan_is_overheard(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    stop = threading.Event()

    def talk() -> None:
        while not stop.wait(0.001):
            print("talk")

    talker, before = threading.Thread(target=talk), sys.stdout
    talker.start()
    try:
        plan = plan_text(live(spark))
    finally:
        stop.set()
        talker.join()
    assert "StreamingRelation" in plan and "talk" not in plan
    assert sys.stdout is before and set(capsys.readouterr().out.split()) <= {"talk"}
