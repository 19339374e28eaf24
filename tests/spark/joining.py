"""The same join twice: by windrow, and by Spark itself; and how its results are brought together."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.spark.folders import LATENESS, PAYLOAD, WITHIN, Folders

import windrow as wr

_names = count()

SECOND = "interval 1 second"
WINDOWS = {side: f"{seconds} seconds" for side, seconds in WITHIN.items()}
RANGE = f"right.ts - left.ts < {WITHIN['left']} * {SECOND} and left.ts - right.ts < {WITHIN['right']} * {SECOND}"
SELECT = {f"{side}_{column}": f"{side}.{column}" for side in WITHIN for column in PAYLOAD}


def static(spark: Any, folders: Folders, side: str) -> Any:
    """All rows of a stream."""
    return spark.read.parquet(str(folders.paths[side]))


def streamed(spark: Any, path: Path | str, files: int = 1) -> Any:
    """A stream of the files in a folder, so many per micro-batch."""
    schema = spark.read.parquet(str(path)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(path))


def started(matches: Any) -> tuple[Any, str]:
    """A query that runs until all that is there has been taken, and the table into which it writes."""
    name = f"matches_{next(_names)}"
    writer = matches.writeStream.format("memory").queryName(name).trigger(availableNow=True)
    return writer.start(), name


def written(matches: Any, output: Path) -> Any:
    """The same into files beside a checkpoint, from which it can go on; waits for the end."""
    writer = matches.writeStream.format("parquet").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(output / "checkpoint")).start(str(output / "rows"))
    query.awaitTermination()
    return query


def collected(matches: Any) -> pa.Table:
    """All matches of a streaming join of files."""
    query, name = started(matches)
    query.awaitTermination()
    return matches.sparkSession.table(name).toArrow()


def joined(left: Any, right: Any, on: Any, **options: Any) -> Any:
    """windrow's join, with all columns of both sides."""
    given = {"time": "ts", "within": WINDOWS, "lateness": f"{LATENESS} seconds", "select": SELECT, **options}
    return wr.join(left, right, on=on, **given)


def joined_by_spark(left: Any, right: Any, on: str | list[str]) -> Any:
    """Spark's own inner join with the same keys and the same range of times."""
    columns = [on] if isinstance(on, str) else on
    condition = " and ".join([*(f"left.{c} = right.{c}" for c in columns), RANGE])
    from pyspark.sql import functions as F

    pairs = left.alias("left").join(right.alias("right"), F.expr(condition))
    return pairs.selectExpr(*(f"{reference} as {name}" for name, reference in SELECT.items()))


def joined_by_spark_streaming(left: Any, right: Any, on: str | list[str]) -> Any:
    """The same over streams: both sides have a watermark."""
    delay = f"{LATENESS} seconds"
    return joined_by_spark(left.withWatermark("ts", delay), right.withWatermark("ts", delay), on)
