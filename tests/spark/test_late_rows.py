"""Late rows are those that Spark's own join would drop under the same watermarks: no more, whatever the delays.

Catches: rows late by a newer watermark than Spark's, residents that expire before the last row that Spark would let
match them, a watermark that is lost with a restart. Rows come up to 200 seconds late under delays of 0 and 7 seconds;
one stream falls silent for two micro-batches, one micro-batch is empty, many times are equal, and some rows come with
the very time of the watermark.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.running import assert_part, assert_same, multiset
from tests.spark.folders import UTC_STAMP, write_files
from tests.spark.joining import started, streamed, written

import windrow as wr

FILES, ROWS, SECOND = 8, 30, 1_000_000
START = 1_700_000_000 * SECOND
WITHIN = {"left": 20, "right": 35}  # seconds
DELAYS = {"left": "0 seconds", "right": "7 seconds"}
SELECT = {name: name.replace("_", ".") for name in ("left_id", "right_id")}
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("ts", UTC_STAMP)])
SILENT, EMPTY = (3, 4), 5
Streams = dict[str, list[list[tuple[int, int, int]]]]  # per file: number, key and microseconds of each row


def hostile(random: Random, side: str) -> list[list[tuple[int, int, int]]]:
    """One stream, one row per second, in files."""
    files = []
    for file in range(FILES):
        rows = []
        for n in range(file * ROWS, (file + 1) * ROWS):
            behind, step = random.random() * 200 * SECOND, random.choice([1, SECOND])
            time = n * SECOND - int(behind if random.random() < 0.4 else 0)
            rows.append((n, random.randrange(4), START + time // step * step))
        rows[-1] = (*rows[-1][:2], START + rows[-1][0] * SECOND)
        rows[0] = (*rows[0][:2], START + ((file - 1) * ROWS - 1 - 7) * SECOND)  # the last row two files ago, less 7 s
        files.append([] if file == EMPTY or (side == "right" and file in SILENT) else rows)
    return files


@dataclass(frozen=True)
class Ran:
    """The streams and their folder, what Spark's own join has made of them, and its watermark in each micro-batch."""

    root: Path
    streams: Streams
    own: Counter[Any]
    marks: list[int]


@pytest.fixture(scope="module")
def ran(spark: Any, seed: int, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    root, random = tmp_path_factory.mktemp("hostile"), Random(seed)
    streams = {side: hostile(random, side) for side in WITHIN}
    for side, files in streams.items():
        parts = [[dict(zip(SCHEMA.names, row, strict=True)) for row in rows] for rows in files]
        write_files(root / side, [pa.Table.from_pylist(rows, schema=SCHEMA) for rows in parts])
    own, query = result(by_spark(marked(spark, root)))
    return Ran(root, streams, own, marks(query))


def marked(spark: Any, root: Path) -> list[Any]:
    return [streamed(spark, root / side).withWatermark("ts", DELAYS[side]) for side in WITHIN]


def by_windrow(frames: list[Any], **options: Any) -> Any:
    windows = {side: f"{seconds} s" for side, seconds in WITHIN.items()}
    return wr.join(*frames, on="k", time="ts", within=windows, select=SELECT, **options)


def by_spark(frames: list[Any]) -> Any:
    left, right = (frame.alias(side) for side, frame in zip(WITHIN, frames, strict=True))
    early, late = (f"interval {seconds} seconds" for seconds in WITHIN.values())
    condition = f"left.k = right.k and right.ts < left.ts + {early} and left.ts < right.ts + {late}"
    return left.join(right, F.expr(condition)).selectExpr(*(f"{ref} as {name}" for name, ref in SELECT.items()))


def result(frame: Any) -> tuple[Counter[Any], Any]:
    """What a query has put out, and the query."""
    query, name = started(frame)
    query.awaitTermination()
    return multiset(frame.sparkSession.table(name).toArrow()), query


def marks(query: Any) -> list[int]:
    """Spark's watermark in each micro-batch with rows, in microseconds."""
    texts = [report.eventTime["watermark"] for report in query.recentProgress]
    return [round(datetime.fromisoformat(text).timestamp() * 1000) * 1000 for text in texts]


def expected(streams: Streams, told: list[int], at_the_mark: bool) -> tuple[Counter[Any], int]:
    """The join of all rows but the late ones, and how many those are: behind the watermark of the batch before."""
    before = [0, *told]
    kept = {
        side: [row for k, rows in enumerate(files) for row in rows if row[2] >= before[k] + (not at_the_mark)]
        for side, files in streams.items()
    }
    found = Counter(
        (a, b)
        for a, key, at in kept["left"]
        for b, other, then in kept["right"]
        if key == other and then - at < WITHIN["left"] * SECOND and at - then < WITHIN["right"] * SECOND
    )
    return found, sum(len(rows) for files in streams.values() for rows in files) - sum(map(len, kept.values()))


def test_rows_are_late_as_in_sparks_own_join(spark: Any, ran: Ran, seed: int) -> None:
    """But for rows exactly at the watermark, which Spark drops: they are not behind it."""
    note = f"seed {seed}"
    assert_same(ran.own, expected(ran.streams, ran.marks, at_the_mark=False)[0], f"{note}: is Spark's rule another?")
    found, query = result(by_windrow(marked(spark, ran.root), shards=1))
    exact, late = expected(ran.streams, marks(query), at_the_mark=True)
    assert_same(found, exact, note)
    assert_part(ran.own, found)
    assert wr.spark.metrics(query).to_dict()["late"] == late > 20
    assert expected(ran.streams, marks(query), at_the_mark=False)[1] > late, "some rows were at the mark"


def test_restarts_and_shards_without_rows_make_no_more_rows_late(
    spark: Any, ran: Ran, tmp_path: Path, seed: int, rocksdb: None
) -> None:
    """In more shards than keys, capped but with memory enough, `lateness=` instead of a declared watermark.

    The state is one of deltas: Spark's watermark is held back by the window, and the engine's put ahead again.
    """
    for half in (slice(0, 4), slice(4, FILES)):
        for side in WITHIN:
            (tmp_path / side).mkdir(exist_ok=True)
            for file in sorted((ran.root / side).iterdir())[half]:
                shutil.copy2(file, tmp_path / side / file.name)
        plain = [streamed(spark, tmp_path / side) for side in WITHIN]
        written(by_windrow(plain, shards=5, lateness=DELAYS, memory=5_000), tmp_path)
    found = multiset(spark.read.parquet(str(tmp_path / "rows")).toArrow())
    assert_part(ran.own, found)
    assert_part(found, expected(ran.streams, [0] * FILES, at_the_mark=True)[0])
    assert ran.own.total() > 200, f"seed {seed}"
