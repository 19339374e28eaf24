"""Packing: rows of one stream become Arrow blobs, one per shard and piece, before the shuffle.

A blob is a record batch without its schema (the job has it). Beside it travel the stream, where it comes from (so that
the order of a shard's blobs does not depend on the shuffle) and its latest time, from which Spark makes its watermark.
The codes of keys, by which rows find their shard, do not travel: coding keys again is cheaper (decision 0023).

One shard, the witness, gets a blob in every micro-batch, if need be an empty one. Its number is the same however many
shards there are, so a checkpoint of another join is noticed at once and not only when rows reach a shard with state.
Now and then all shards are called, rows or not (roll_call.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from windrow.spark.labels import labels
from windrow.spark.roll_call import calls, is_called
from windrow.spark.shipping import take_shipped
from windrow.spark.worker import settle

PIECE_ROWS, PIECE_BYTES = 1 << 18, 1 << 26
WITNESS = 0  # the first label of any number of shards
PACKED = "shard int, stream int, source long, number int, latest timestamp_ltz, rows binary"  # whatever is the default
ARROW = pa.schema(
    [
        ("shard", pa.int32()),
        ("stream", pa.int32()),
        ("source", pa.int64()),
        ("number", pa.int32()),
        ("latest", pa.timestamp("us", tz="UTC")),
        ("rows", pa.binary()),
    ]
)


class Slices(Protocol):
    """What packing knows of a job: its streams' columns and times, and how it is cut."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the streams."""

    @property
    def schemas(self) -> tuple[pa.Schema, ...]:
        """The columns of each stream that travel."""

    @property
    def times(self) -> tuple[str | None, ...]:
        """The column of times of each stream."""

    @property
    def shards(self) -> int:
        """Into how many slices it is cut."""

    def parts(self, stream: int, piece: pa.Table, first_row: int) -> dict[int, list[pa.Table]]:
        """The rows of each slice; they are those of a stream from a number on."""


@dataclass(frozen=True)
class Packer:
    """The function that `mapInArrow` runs over one stream."""

    job: Slices
    stream: int
    streaming: bool = False
    join: str = ""  # a name that no other join of a query has

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blobs of all rows of a partition."""
        from pyspark import TaskContext

        take_shipped()
        context = TaskContext.get()
        source = context.partitionId() if context is not None else 0
        number, rows, seen = 0, 0, not self.streaming
        witness = labels(self.job.shards).index(WITNESS)
        if self.streaming and source == 0 and is_called(self.join):  # there is a first partition where there is any
            yield calls(labels(self.job.shards), source, ARROW)
        for piece in _pieces(batches, self.job.schemas[self.stream]):
            parts = self.job.parts(self.stream, piece, rows)
            seen |= witness in parts
            yield self._batch(parts, source, number)
            number, rows = number + 1, rows + piece.num_rows
        if not seen:
            yield self._batch({witness: [self.job.schemas[self.stream].empty_table()]}, source, number)
        settle("pack")

    def _batch(self, found: dict[int, list[pa.Table]], source: int, number: int) -> pa.RecordBatch:
        names = labels(self.job.shards)
        time = self.job.times[self.stream]
        parts = [(cell, part) for cell, mine in sorted(found.items()) for part in mine]
        n = len(parts)
        return pa.record_batch(
            [
                pa.array([names[cell] for cell, _ in parts], pa.int32()),
                pa.array([self.stream] * n, pa.int32()),
                pa.array([source] * n, pa.int64()),
                pa.array([number * self.job.shards + k for k in range(n)], pa.int32()),
                pa.array([_latest(part, time) for _, part in parts], pa.timestamp("us", tz="UTC")),
                blobs([_record_batch(part) for _, part in parts]),
            ],
            schema=ARROW,
        )


def _pieces(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """The batches put together to pieces, in the job's types; where rows are wide, of fewer rows."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= PIECE_ROWS or size >= PIECE_BYTES:
            yield _piece(waiting, schema)
            waiting, rows, size = [], 0, 0
    if rows:
        yield _piece(waiting, schema)


def _piece(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches).rename_columns(schema.names).cast(schema)


def _latest(part: pa.Table, time: str | None) -> pa.Scalar:
    """The latest time of a blob, where Spark can make a watermark of it."""
    stamp = pa.timestamp("us", tz="UTC")
    if time is None or not pa.types.is_timestamp(part.schema.field(time).type):
        return pa.scalar(None, stamp)
    latest = pc.max(part[time])
    return pa.scalar(latest.value, stamp) if latest.is_valid else pa.scalar(None, stamp)


def _record_batch(part: pa.Table) -> pa.RecordBatch:
    """A table as one record batch."""
    if part.num_rows == 0:
        return pa.RecordBatch.from_pylist([], schema=part.schema)
    return part.combine_chunks().to_batches()[0]


def blobs(batches: list[pa.RecordBatch]) -> pa.Array:
    """Record batches as blobs, written one behind the other into the array's memory: Python never holds their bytes."""
    sink = pa.BufferOutputStream()
    ends = [0]
    for batch in batches:
        sink.write(batch.serialize())
        ends.append(sink.tell())
    offsets = pa.array(ends, pa.int32())
    return pa.Array.from_buffers(pa.binary(), len(batches), [None, offsets.buffers()[1], sink.getvalue()])


def blob_table(blob: pa.Buffer, schema: pa.Schema) -> pa.Table:
    """The table of a blob."""
    return pa.Table.from_batches([pa.ipc.read_record_batch(blob, schema)])


def tables_of(
    names: Sequence[str], schemas: Sequence[pa.Schema], streams: Sequence[int], rows: Sequence[pa.Buffer]
) -> dict[str, pa.Table]:
    """Each stream's rows, of blobs in the order in which they were packed."""
    found = {}
    for s, (name, schema) in enumerate(zip(names, schemas, strict=True)):
        parts = [blob_table(blob, schema) for stream, blob in zip(streams, rows, strict=True) if stream == s]
        found[name] = pa.concat_tables([schema.empty_table(), *parts])
    return found
