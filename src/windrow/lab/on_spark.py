"""The demo's join once more, on Spark: the same streams as files that arrive one after the other."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from windrow import spark
from windrow.errors import WindrowError
from windrow.lab.session import local_session
from windrow.spec import Query

SHARDS = 2
PIECES = 4  # micro-batches


@dataclass(frozen=True)
class SparkRun:
    """What a streaming run on Spark gave."""

    shards: int
    batches: int
    matched: int
    shed: int
    peak_bytes: int
    seconds: float


def stream(query: Query, tables: Mapping[str, pa.Table]) -> SparkRun:
    """Join tables as streams of files, a micro-batch for each, in a session on this machine."""
    with TemporaryDirectory(prefix="windrow-") as name, local_session(SHARDS) as session:
        folder = Path(name)
        write_pieces(query, tables, folder)
        frames = {stream: _arriving(session, folder / stream) for stream in tables}
        started = perf_counter()
        matches = query.on_spark(frames, shards=SHARDS, recall=False)
        sink = matches.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
        running = sink.trigger(availableNow=True).start()
        running.awaitTermination()
        seconds = perf_counter() - started
        if running.exception() is not None:
            raise WindrowError(f"Spark: {running.exception()}")
        found = spark.metrics(running).to_dict()
        batches = len([progress for progress in running.recentProgress if progress.numInputRows])
    return SparkRun(SHARDS, batches, found["matched"], found["shed"], found["peak_bytes"], seconds)


def write_pieces(query: Query, tables: Mapping[str, pa.Table], folder: Path, pieces: int = PIECES) -> None:
    """Each table as files of its own folder; the files of one number hold the same span of time."""
    times = {name: np.asarray(table[str(query.stream(name).time)]) for name, table in tables.items()}
    together = np.sort(np.concatenate(list(times.values())))
    cuts = together[[len(together) * k // pieces for k in range(1, pieces)]]
    for name, table in tables.items():
        (folder / name).mkdir()
        bounds = [0, *np.searchsorted(times[name], cuts), table.num_rows]
        for k, (start, end) in enumerate(pairwise(bounds)):
            path = folder / name / f"{k:03d}.parquet"
            pq.write_table(table.slice(start, end - start), path)
            os.utime(path, (k + 1, k + 1))  # Spark takes files in the order of their age


def _arriving(session: Any, folder: Path) -> Any:
    """A folder as a stream of its files, one at a time."""
    schema = session.read.parquet(str(folder)).schema
    return session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
