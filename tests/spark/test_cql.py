"""A query text over DataFrames gives what it gives over tables.

Catches: names of streams, columns or times that get lost on the way, windows that mean something else on Spark; texts
whose state is lost in a checkpoint, or taken for that of another text. (Texts without Spark: test_texts.py.)
"""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from tests.cql_texts import rows_of, text_of
from tests.running import assert_same, multiset
from tests.spark.folders import write_files
from tests.spark.joining import streamed, written

import windrow as wr
from windrow.lab.traffic import network_links

TEXT = """
Select Istream(First.pid, B.size as bytes) From C [Range 2 seconds] as First, B [Range 1 second]
Where First.pid = B.pid and B.size > 100
"""
GROUPED = """
Select B.size % 3 as rest, max(A.bytes) as most, count(*) as n
From (Select Istream(pid, size * 2 as bytes) From C [Partition By pid Rows 1]) [Range 1 second] as A, B [Range 1 second]
Where A.pid = B.pid Group By B.size Having count(*) < 3
"""
NETWORK = """
Select sum(C.size) as bytes, count(*) as packets
From C [Range 3 seconds], B [Range 3 seconds], O [Range 3 seconds]
Where C.pid = B.pid and B.pid = O.pid
"""
RANGE, FILES = dt.timedelta(seconds=3), 4


def test_texts_over_batch_frames(spark: Any) -> None:
    """One that is joined in shards gives its matches, any other the table that it gives embedded."""
    links = network_links(3, rates=(400, 800, 10), onward=(0.5, 0.5), seed=2)
    tables = {name: links[name] for name in "CB"}
    frames = {name: spark.createDataFrame(table.to_pandas()) for name, table in tables.items()}
    found = wr.cql(TEXT).on_spark(frames).toArrow()
    wanted = wr.cql(TEXT).run(tables).values
    order = [("pid", "ascending"), ("bytes", "ascending")]
    assert wanted.num_rows > 100
    assert pa.table(found.sort_by(order).to_pydict()) == pa.table(wanted.sort_by(order).to_pydict())
    ours, wanted = wr.cql(GROUPED.replace("% 3", "")).on_spark(frames), wr.cql(GROUPED.replace("% 3", "")).run(tables)
    found = ours.toArrow()
    assert found.column_names == wanted.table.column_names and wanted.table.num_rows > 100
    assert_same(multiset(found.drop_columns(["since", "until"])), multiset(wanted.values))
    metrics = wr.spark.metrics(ours).to_dict()
    assert (metrics["arrived"], metrics["matched"]) == (3600, wanted.joins[-1][1].matched)


def parts_of(table: pa.Table) -> list[pa.Table]:
    """A table in pieces, one for each micro-batch."""
    size = -(-table.num_rows // FILES)
    return [table.slice(k * size, size) for k in range(FILES)]


def resumed(spark: Any, text: str, parts: dict[str, list[pa.Table]], root: Path, **options: Any) -> pa.Table:
    """What a text gives in two runs from one checkpoint; in between another text is refused."""
    for name in parts:
        write_files(root / "all" / name, parts[name])

    def attempt(text: str, files: slice) -> None:
        for name in parts:
            (root / name).mkdir(exist_ok=True)
            for file in sorted((root / "all" / name).iterdir())[files]:
                shutil.copy2(file, root / name / file.name)
        frames = {name: streamed(spark, root / name) for name in parts}
        written(wr.cql(text).on_spark(frames, **options), root)

    attempt(text, slice(0, FILES // 2))
    with pytest.raises(StreamingQueryException, match="the checkpoint is of another query: query text was"):
        attempt(f"{text} -- another", slice(FILES // 2, FILES))
    attempt(text, slice(0, 0))
    return spark.read.parquet(str(root / "rows")).toArrow()


def embedded(text: str, parts: dict[str, list[pa.Table]], **options: Any) -> pa.Table:
    """The same in this process."""
    running = wr.cql(text).start({name: tables[0].schema for name, tables in parts.items()}, **options)
    return pa.concat_tables([running.push({name: parts[name][k] for name in parts}) for k in range(FILES)])


def test_the_sum_over_three_links_is_sparks_own_at_any_instant(spark: Any, tmp_path: Path, seed: int) -> None:
    """The query of the k-constraints paper, restarted in the middle: from its changes the relation at some instants,
    which Spark computes from the rows of the windows by its own three-way join and aggregation."""
    links = network_links(9, rates=(60, 90, 60), onward=(0.7, 0.7), seed=seed)
    parts = {name: parts_of(table) for name, table in links.items()}
    found = resumed(spark, NETWORK, parts, tmp_path)
    assert_same(multiset(found), multiset(embedded(NETWORK, parts)), f"seed {seed}")
    changes, random = found.sort_by([("at", "ascending"), ("change", "ascending")]).to_pylist(), Random(seed)
    known = min(table["ts"][-1].as_py() for table in links.values())
    instants = [known - dt.timedelta(microseconds=random.randrange(1, 8_000_000)) for _ in range(12)]
    rows = {name: spark.read.parquet(str(tmp_path / "all" / name)) for name in links}
    packets = rows["C"].withColumnRenamed("ts", "c").join(rows["B"].select("pid", F.col("ts").alias("b")), "pid")
    packets = packets.join(rows["O"].select("pid", F.col("ts").alias("o")), "pid")
    moments = spark.createDataFrame([(str(moment),) for moment in instants], "at string")
    moments = moments.select(F.col("at").cast("timestamp_ntz").alias("at"))
    inside = [f"{name} between at - interval 3 seconds and at" for name in "cbo"]
    own = packets.join(moments, F.expr(" and ".join(inside))).groupBy("at")
    wanted = {row["at"]: row for row in own.agg(F.sum("size").alias("bytes"), F.count("*").alias("packets")).collect()}
    assert len(wanted) > 9
    for moment in instants:
        present = [row for row in changes if row["at"] <= moment][-1]
        row = wanted.get(moment)
        expected = (None, 0) if row is None else (row["bytes"], row["packets"])
        assert (present["change"], present["bytes"], present["packets"]) == (1, *expected), f"seed {seed}: {moment}"


def test_a_random_text_with_the_store_to_which_one_appends(
    spark: Any, tmp_path: Path, seed: int, rocksdb: None
) -> None:
    """Times are whole numbers, of which Spark makes no watermark."""
    random, schema = Random(seed), pa.schema(dict.fromkeys("tkgv", pa.int64()))
    while True:
        text = text_of(random)
        streams = {n: pa.Table.from_pylist(rows_of(random, 40, 0.1), schema=schema) for n in wr.cql(text).streams}
        parts = {name: parts_of(table) for name, table in streams.items()}
        wanted = embedded(text, parts, time="t")
        if 20 < wanted.num_rows < 5_000 and "at" in wanted.column_names:
            break
    found = resumed(spark, text, parts, tmp_path, time="t")
    assert_same(multiset(found.select(wanted.column_names)), multiset(wanted), f"seed {seed}: {text}")


def test_what_no_text_does_on_spark_is_said_when_it_is_written_down(spark: Any, tmp_path: Path) -> None:
    links = network_links(1, rates=(5, 5, 5))
    for name, table in links.items():
        write_files(tmp_path / name, [table])
    static = {name: spark.read.parquet(str(tmp_path / name)) for name in links}
    frames = {name: streamed(spark, tmp_path / name) for name in links}
    errors = wr.errors

    def refused(error: type[Exception], told: str, text: str, frames: dict[str, Any], **options: Any) -> None:
        with pytest.raises(error, match=told):
            wr.cql(text).on_spark(frames, **options)

    refused(errors.SpecError, "archive= and recall= are for texts that are one join", NETWORK, frames, archive="lost")
    refused(errors.SpecError, "deletions .* are for streaming frames", NETWORK, static, sign="size")
    refused(errors.InputError, "there is no table for the stream 'O'", NETWORK, {n: frames[n] for n in "CB"})
    refused(errors.SpecError, "all frames must be streaming, or none", NETWORK, {**frames, "O": static["O"]})
    refused(
        errors.SpecError, "memory is the budget of one join", "Select count(*) From C", {"C": frames["C"]}, memory=9
    )
    refused(errors.InputError, "stream 'C' must be a Spark DataFrame, got pyarrow.Table", NETWORK, links)
    refused(errors.SpecError, "share of what", NETWORK, frames, memory="20%")
    bare = {"C": frames["C"].drop("ts")}
    refused(errors.SpecError, "every stream needs a column of times", "Select count(*) as n From C", bare)
    twins = "Select C.pid as a, C.size as A From C [Rows 2]"
    refused(errors.DuplicateColumn, "does not tell apart: name its columns with As", twins, {"C": frames["C"]})
    nested = "Select A.n From (Select count(siz) as n From C) as A"
    refused(errors.CqlError, "siz.*\n.*\n?.*", nested, {"C": frames["C"]})
    stamped = {name: frame.withColumn("ts", F.col("ts").cast("timestamp")) for name, frame in frames.items()}
    marked = {name: frame.withWatermark("ts", "5 seconds") for name, frame in stamped.items()}
    refused(errors.SpecError, "withWatermark declares 5000 ms for stream", NETWORK, marked, lateness="1 second")
    assert wr.cql(NETWORK).on_spark(marked, lateness="5 seconds").isStreaming
    in_shards = {name: marked[name] for name in "CB"}
    refused(
        errors.SpecError, "lateness is 1 second.*, but withWatermark declares", TEXT, in_shards, lateness="1 second"
    )
    counted = marked["C"].groupBy(F.window("ts", "1 second")).count().select(F.window_time("window").alias("ts"))
    refused(errors.SpecError, "behind one Spark runs only query texts", "Select count(*) as n From C", {"C": counted})
