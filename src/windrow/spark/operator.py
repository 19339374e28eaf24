"""The stateful operator: one engine per shard. Blobs in, matches and counters out, its snapshot as the state.

A micro-batch that is retried starts from the same state and gets the same blobs, which are put in order before they
are joined, so it gives the same matches, the same archive files and the same state. Between micro-batches a worker
keeps nothing: an engine left there would be memory beside the budget, and Spark rarely calls on the same worker again.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine import Engine
from windrow.engine.intake import plain_schema
from windrow.errors import SnapshotError, WindrowError
from windrow.feed import CodedTables, engine_for, run
from windrow.spark.archive import Run, check_archive, write_departed
from windrow.spark.facts import facts_of, refuse_changes
from windrow.spark.job import Job
from windrow.spark.labels import labels
from windrow.spark.pack import WITNESS, blob_table, blobs
from windrow.spark.shipping import take_shipped
from windrow.spark.worker import settle
from windrow.spec import Query

RESULT = "shard int, metrics string, matches binary"
STATE = "identity string, pushes long, snapshot binary"
ORDER = ("stream", "source", "number")
BLOB_ROWS = 1 << 18
MOST_BYTES = 1 << 25  # of matches in blobs of so many rows; after them
BLOB_BYTES = 1 << 14  # for a blob, about
MOST_BLOBS = 1_000
LARGEST_STATE = 2**31 - 2**20  # what one value of Spark's state can hold


@dataclass(frozen=True)
class Operator:
    """The functions that Spark runs per shard."""

    job: Job

    def stream(self, key: tuple[Any, ...], frames: Iterable[Any], state: Any) -> Iterator[Any]:
        """One micro-batch of one shard (`applyInPandasWithState`)."""
        import pandas as pd

        take_shipped()
        shard = int(key[0])
        packed = pd.concat(list(frames), ignore_index=True)
        tables = self._tables([packed[name].to_numpy() for name in ORDER], packed["rows"])
        identity, pushes, snapshot = state.get if state.exists else (None, 0, None)
        known, archive = self._known(identity), self.job.archive
        if archive is not None:
            files = check_archive(self.job, shard, known, _run(), all_shards=shard == WITNESS)
        engine = self._engine(shard, snapshot)
        matches = engine.push(tables)
        engine.push({}, watermark=self._watermark(state))  # holds for the rows of the next micro-batch
        remembered: dict[str, Any] = {"facts": facts_of(self.job)}
        if archive is not None:
            files = write_departed(archive, shard, files, engine.departed())
            remembered["archive"] = {"id": archive.id, "files": files}
        after = engine.snapshot()
        if len(after) > LARGEST_STATE:
            raise WindrowError(
                f"shard {shard} has a state of {len(after):,} bytes, too many for Spark: use more shards"
            )
        state.update((json.dumps(remembered), pushes + 1, after))
        settle("operator")
        for result in _results(shard, engine, [] if matches is None else [matches]):
            yield result.to_pandas()

    def batch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All rows of the shards of one partition (`mapInArrow`)."""
        take_shipped()
        packed: dict[int, list[tuple[Any, ...]]] = {}
        for batch in batches:
            numbers = (batch[name].to_pylist() for name in ("shard", *ORDER))
            for shard, *where, blob in zip(*numbers, batch["rows"], strict=True):
                packed.setdefault(shard, []).append((*where, blob.as_buffer()))
        for shard in sorted(packed):
            *where, rows = zip(*packed.pop(shard), strict=True)
            tables = CodedTables(self._tables([np.array(numbers) for numbers in where], rows))
            query = _in_time_order(self.job.shard_query(labels(self.job.shards).index(shard)))
            engine = engine_for(query, tables, self.job.recall)
            yield from _results(shard, engine, run(engine, tables))

    def _known(self, identity: str | None) -> dict[str, Any] | None:
        """What a state remembers of its archive; a state of another join is refused."""
        if identity is None:
            return None
        try:
            remembered = json.loads(identity)
        except ValueError:  # of before LAYOUT 2
            remembered = {"facts": {}}
        refuse_changes(remembered["facts"], facts_of(self.job), "the checkpoint", SnapshotError)
        known: dict[str, Any] | None = remembered.get("archive")
        return known

    def _engine(self, shard: int, snapshot: bytes | None) -> Engine:
        """The engine of a state, or a new one."""
        query = self.job.shard_query(labels(self.job.shards).index(shard))
        if snapshot is not None:
            own_clock = not self.job.follows_spark
            return Engine.restore(bytes(snapshot), query, recall=self.job.recall, own_clock=own_clock)
        schemas = {n: plain_schema(s) for n, s in zip(query.names, self.job.schemas, strict=True)}
        return Engine(
            query, schemas, recall=self.job.recall, departures=self.job.archive is not None,
            own_clock=not self.job.follows_spark,
        )  # fmt: skip

    def _tables(self, where: list[np.ndarray], rows: Iterable[Any]) -> dict[str, pa.Table]:
        """Each stream's rows, in the order in which they were packed."""
        packed, found, stream = list(rows), {}, where[0]
        order = np.lexsort(where[::-1])
        for s, name in enumerate(self.job.query.names):
            schema = self.job.schemas[s]
            parts = [blob_table(packed[k], schema) for k in order[stream[order] == s]]
            found[name] = pa.concat_tables([schema.empty_table(), *parts])
        return found

    def _watermark(self, state: Any) -> int | None:
        """Spark's watermark of this micro-batch, made by those before it, in units of the time columns."""
        first = self.job.query.streams[0].time
        if first is None or not pa.types.is_timestamp(self.job.schemas[0].field(first).type):
            return None
        millis = state.getCurrentWatermarkMs()
        return millis * 1000 if millis > 0 else None


def _in_time_order(query: Query) -> Query:
    """The query without lateness: a batch frame has no order of arrival, so its rows are sorted and none is late."""
    return query.with_(streams=[stream.with_(lateness=0) for stream in query.streams])


def _run() -> Run:
    """Which query runs here, and since when; Spark tells its tasks."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return Run()
    return Run(context.getLocalProperty("sql.streaming.queryId"), context.getLocalProperty("spark.jobGroup.id"))


def _results(shard: int, engine: Engine, found: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Matches as blobs, then the counters.

    Spark puts what comes back from Python together to batches of 10,000 records, whatever their size, and holds each in
    memory beside its heap, of which it has little. So blobs are large only as long as matches are few.
    """
    sent = 0
    for table in found:
        sent += table.nbytes
        rows = BLOB_ROWS if sent <= MOST_BYTES else max(1, table.num_rows * BLOB_BYTES // table.nbytes)
        batches = [b for b in table.combine_chunks().to_batches(rows) if b.num_rows]
        for start in range(0, len(batches), MOST_BLOBS):
            yield _result(shard, blobs(batches[start : start + MOST_BLOBS]))
    yield _result(shard, pa.nulls(1, pa.binary()), json.dumps(engine.metrics.to_dict()))


def _result(shard: int, matches: pa.Array, metrics: str | None = None) -> pa.RecordBatch:
    columns = [pa.array([shard] * len(matches), pa.int32()), pa.array([metrics] * len(matches), pa.string())]
    return pa.record_batch([*columns, matches], names=["shard", "metrics", "matches"])
