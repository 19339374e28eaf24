"""Columns with any name: dots, backticks and blanks, names that windrow uses itself, names that differ in case only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.running import assert_same, multiset
from tests.spark.joining import started, streamed

import windrow as wr
from windrow.errors import DuplicateColumn, UnknownColumn

PLAIN = ["id", "key", "more", "time", "filtered", "extra", "last", "other"]
ODD = ["a.b`c.d", "key.`", "größe; {x}=(y),\t\"z'", "t.s", "`", ".", "shard", "rows"]
TWINS = ["K", "k", "kk", "Ts", "tS", "TS", "ID", "id"]


@pytest.fixture(scope="module")
def plain(spark: Any) -> Any:
    columns = ("id", "id % 3", "cast(id % 2 as string)", "timestamp_seconds(1000 + id)", "id % 7", "-id", "id", "id")
    return spark.range(90).selectExpr(*(f"{text} as {name}" for text, name in zip(columns, PLAIN, strict=True)))


def joined(frame: Any, names: list[str], **options: Any) -> Any:
    """The same join of a frame with itself, whatever its columns are called."""
    id_, key, more, time, filtered, extra, last, other = names
    select = {name: f"left.{name}" for name in (id_, key, extra)} if "select" not in options else options.pop("select")
    select |= {"right one": f"right.{id_}", "right.two": f"right.{last}", "`": f"right.{other}"}
    where = {"left": [wr.Filter(filtered, ">", 1)], "right": [wr.Filter(filtered, "<", 6)]}
    return wr.join(frame, frame, on=[key, more], time=time, within="9 s", where=where, select=select, **options)


def test_odd_names_in_every_part_of_a_join(plain: Any) -> None:
    found, exact = joined(plain.toDF(*ODD), ODD, shards=2), joined(plain, PLAIN, shards=2)
    assert found.columns == [ODD[0], ODD[1], ODD[5], "right one", "right.two", "`"]
    rows = multiset(found.toArrow())
    assert_same(rows, multiset(exact.toArrow()))
    assert rows.total() > 100


def test_names_that_differ_in_case_only(plain: Any) -> None:
    frame, select = plain.toDF(*TWINS), {"a": "left.K", "b": "left.k", "c": "left.TS"}
    found = joined(frame, TWINS, select=select, shards=2)
    exact = joined(plain, PLAIN, shards=2)
    assert_same(multiset(found.toArrow()), multiset(exact.toArrow()))
    with pytest.raises(DuplicateColumn, match=r"the output would have columns 'K' and 'k'.*select="):
        joined(frame, TWINS, shards=2)
    with pytest.raises(UnknownColumn, match="did you mean 'key'"):
        wr.join(plain, plain, on="KEY", time="time", within="9 s")


def test_a_session_that_tells_cases_apart(spark: Any, plain: Any) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        found = joined(plain.toDF(*TWINS), TWINS, shards=2)
        assert found.columns[:2] == ["K", "k"] and found.select("k").count() > 100
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_odd_names_in_a_stream_its_archive_and_its_repair(spark: Any, plain: Any, tmp_path: Path) -> None:
    """Some rows are late, so that histories are compared with the archive row by row."""
    odd, folder, archive = plain.toDF(*ODD), tmp_path / "in", str(tmp_path / "archive")
    odd.where("shard % 40 < 30").coalesce(1).write.parquet(str(folder))
    odd.where("shard % 40 >= 30").coalesce(1).write.mode("append").parquet(str(folder))
    odd.where("shard < 5").coalesce(1).write.mode("append").parquet(str(folder))
    marked = streamed(spark, folder).withWatermark("`t.s`", "0 seconds")
    query, name = started(joined(marked, ODD, memory=8, archive=archive, shards=2))
    query.awaitTermination()
    totals, history = wr.spark.metrics(query).to_dict(), spark.read.parquet(str(folder))
    output = multiset(spark.table(name).toArrow())
    repaired = multiset(wr.repair(archive, history, history).toArrow())
    assert_same(output + repaired, multiset(joined(history, ODD, shards=2).toArrow()))
    assert totals["late"] > 0 and totals["shed"] > 0 and totals["matched"] == output.total() > 0


def test_names_that_an_archive_cannot_have(spark: Any, tmp_path: Path) -> None:
    live = spark.readStream.format("rate").load().selectExpr("value as id", "value % 3 as k", "timestamp as ts")
    good = {"on": "k", "time": "ts", "within": "9 s", "archive": str(tmp_path / "archive"), "memory": 100}
    for name in ("windrow_why", "windrow_shard", "WINDROW_SEQ"):
        with pytest.raises(DuplicateColumn, match=f"'right' has a column '{name}'.*rename it"):
            wr.join(live, live.toDF(name, "k", "ts"), **good)
    with pytest.raises(DuplicateColumn, match="the output has a column 'windrow_time'"):
        wr.join(live, live, **good, select={"windrow_time": "left.id"})
    with pytest.raises(DuplicateColumn, match="the archive of stream 'left' would have columns 'K' and 'k'"):
        wr.join(live.toDF("K", "k", "ts"), live, **good, select="left.ts")
    assert not (tmp_path / "archive").exists()
    wr.join(live.toDF("windrow_why", "k", "ts"), live, on="k", time="ts", within="9 s")


def test_truncated_joins_of_odd_names_and_twins(plain: Any) -> None:
    for names in (ODD, TWINS, ["key_0", *PLAIN[1:]]):
        frame, on = plain.toDF(*names), [names[1], names[2]]
        found = wr.static.truncate(frame, frame, on=on, keep=50)
        exact = wr.static.truncate(plain, plain, on=["key", "more"], keep=50)
        assert (found.matches, found.left.columns) == (exact.matches, names)
        for side in ("left", "right"):
            assert_same(multiset(getattr(found, side).toArrow()), multiset(getattr(exact, side).toArrow()))
        if names is not TWINS:
            assert found.join().count() == found.matches
    with pytest.raises(DuplicateColumn, match="'left_Ts' and 'left_tS'"):
        wr.static.truncate(plain.toDF(*TWINS), plain.toDF(*TWINS), on=["k", "kk"], keep=50).join()
