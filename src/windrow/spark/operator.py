"""The stateful operator: one engine per shard. Blobs in, matches and counters out, its snapshot as the state.

A micro-batch that is retried starts from the same state and gets the same blobs, which are put in order before they
are joined, so it gives the same matches, the same archive files and the same state. Between micro-batches a worker
keeps nothing: an engine left there would be memory beside the budget, and Spark rarely calls on the same worker again.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from windrow.engine import Engine
from windrow.engine.intake import plain_schema
from windrow.errors import SnapshotError, WindrowError
from windrow.feed import engine_for, run
from windrow.spark.archive import write_departed
from windrow.spark.job import Job
from windrow.spark.pack import blob_table
from windrow.spark.routing import labels
from windrow.spark.worker import settle
from windrow.spec import Query, Stream

RESULT = "shard int, metrics string, matches binary"
STATE = "identity string, pushes long, snapshot binary"
BLOB_ROWS = 1 << 18
LARGEST_STATE = 2**31 - 2**20  # what one value of Spark's state can hold


@dataclass(frozen=True)
class Operator:
    """The functions that Spark runs per shard."""

    job: Job

    def stream(self, key: tuple[Any, ...], frames: Iterable[Any], state: Any) -> Iterator[Any]:
        """One micro-batch of one shard (`applyInPandasWithState`)."""
        import pandas as pd

        shard = int(key[0])
        tables = self._tables(pd.concat(list(frames), ignore_index=True))
        identity, pushes, snapshot = state.get if state.exists else (self.job.identity, 0, None)
        if identity != self.job.identity:
            raise SnapshotError(_OTHER_JOB)
        engine = self._engine(shard, snapshot)
        matches = engine.push(tables, watermark=self._watermark(engine, state))
        if self.job.archive is not None:
            write_departed(self.job, shard, pushes, engine.departed())
        after = engine.snapshot()
        if len(after) > LARGEST_STATE:
            raise WindrowError(
                f"shard {shard} has a state of {len(after):,} bytes, too many for Spark: use more shards"
            )
        state.update((identity, pushes + 1, after))
        settle("operator")
        yield _result(shard, engine, [] if matches is None else [matches])

    def batch(self, key: tuple[Any, ...], frame: Any) -> Any:
        """All rows of one shard (`applyInPandas`)."""
        shard = int(key[0])
        tables = self._tables(frame)
        query = _in_time_order(self.job.shard_query(labels(self.job.shards).index(shard)))
        engine = engine_for(query, tables, self.job.recall)
        return _result(shard, engine, list(run(engine, tables)))

    def _engine(self, shard: int, snapshot: bytes | None) -> Engine:
        """The engine of a state, or a new one."""
        query = self.job.shard_query(labels(self.job.shards).index(shard))
        if snapshot is not None:
            return Engine.restore(bytes(snapshot), query)
        schemas = {n: plain_schema(s) for n, s in zip(query.names, self.job.schemas, strict=True)}
        return Engine(query, schemas, recall=self.job.recall, departures=self.job.archive is not None)

    def _tables(self, packed: Any) -> dict[str, pa.Table]:
        """Each stream's rows, in the order in which they were packed."""
        ordered = packed.sort_values(["stream", "source", "number"], kind="stable")
        found = {}
        for s, name in enumerate(self.job.query.names):
            schema = self.job.schemas[s]
            blobs = ordered["rows"][ordered["stream"] == s]
            found[name] = pa.concat_tables([schema.empty_table(), *(blob_table(b, schema) for b in blobs)])
        return found

    def _watermark(self, engine: Engine, state: Any) -> int | None:
        """Spark's watermark in units of the time columns."""
        first = self.job.query.streams[0].time
        if first is None or not pa.types.is_timestamp(self.job.schemas[0].field(first).type):
            return None
        millis = state.getCurrentWatermarkMs()
        return millis * 1000 if millis > 0 else None


def _in_time_order(query: Query) -> Query:
    """The query without lateness: a batch frame has no order of arrival, so its rows are sorted and none is late."""
    return query.with_(streams=[Stream(s.name, s.time, s.window, 0, s.where) for s in query.streams])


_OTHER_JOB = (
    "the checkpoint holds state of another join: another query, other columns, another number of shards, or an archive "
    "turned on or off; restore these as they were, or start with a new checkpoint folder"
)


def _result(shard: int, engine: Engine, found: list[pa.Table]) -> Any:
    """Matches as blobs, and the counters."""
    import pandas as pd

    blobs: list[bytes | None] = []
    for table in found:
        for batch in table.combine_chunks().to_batches(max_chunksize=BLOB_ROWS):
            if batch.num_rows:
                blobs.append(batch.serialize().to_pybytes())
    texts: list[str | None] = [None] * len(blobs) + [json.dumps(engine.metrics.to_dict())]
    return pd.DataFrame({"shard": [shard] * len(texts), "metrics": texts, "matches": [*blobs, None]})
