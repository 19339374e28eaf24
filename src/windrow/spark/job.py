"""A job: all that a Spark worker needs to know of a join. Frozen, small, and sent along with the functions."""

from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa

from windrow.engine.bind import Binding, bind
from windrow.engine.intake import plain_schema
from windrow.engine.prepare import codes_in
from windrow.engine.routing import Routing, routing_of
from windrow.errors import MemoryTooSmall
from windrow.spec import Query, shard_query

LAYOUT = 2  # of blobs, state and archive: raised when one of them changes


@dataclass(frozen=True)
class Archive:
    """Where lost rows go, and the id by which a checkpoint knows the folder again."""

    place: str
    id: str


@dataclass(frozen=True)
class Job:
    """One join on Spark: the query, the streams' schemas, how many shards, and where lost rows go."""

    query: Query
    schemas: tuple[pa.Schema, ...]
    shards: int
    recall: bool = True
    archive: Archive | None = None
    ahead_ms: int = 0  # of Spark's watermark the join's own lies so much ahead (join.py)

    def schema(self, stream: str) -> pa.Schema:
        """The schema of a stream."""
        return self.schemas[self.query.names.index(stream)]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the streams."""
        return self.query.names

    @property
    def times(self) -> tuple[str | None, ...]:
        """The column of times of each stream."""
        return tuple(stream.time for stream in self.query.streams)

    @property
    def follows_spark(self) -> bool:
        """Whether Spark's watermark alone says which rows are late.

        Not where times are no timestamps, of which Spark makes none, nor with patience, which is a shard's own.
        """
        return self.query.patience is None and self.marked

    @property
    def marked(self) -> bool:
        """Whether Spark makes a watermark of the streams' times."""
        return all(is_moment(schema, time) for schema, time in zip(self.schemas, self.times, strict=True))

    def shard_query(self, shard: int) -> Query:
        """The query of one shard."""
        return shard_query(self.query, shard, self.shards)

    def parts(self, stream: int, piece: pa.Table, first_row: int) -> dict[int, list[pa.Table]]:
        """The rows of each shard; they are those of a stream from a number on."""
        binding, routing = known(self)
        found: dict[int, list[pa.Table]] = {}
        codes = partial(codes_in, binding, stream, table=piece)
        for order, starts in routing.split(stream, codes, first_row + np.arange(piece.num_rows)):
            ordered = piece.take(pa.array(order)) if self.shards > 1 else piece
            for cell in np.flatnonzero(np.diff(starts)):
                part = ordered.slice(starts[cell], starts[cell + 1] - starts[cell])
                found.setdefault(int(cell), []).append(part)
        return found


def is_moment(schema: pa.Schema, time: str | None) -> bool:
    """Whether a time is a timestamp, of which Spark makes a watermark."""
    return time is not None and bool(pa.types.is_timestamp(schema.field(time).type))


def planned(job: Job) -> tuple[Binding, Routing]:
    """Check a job against its schemas, at plan time; how its rows are compared and routed."""
    schemas = {name: plain_schema(schema) for name, schema in zip(job.query.names, job.schemas, strict=True)}
    query = job.query if job.query.memory is None or job.query.memory.share is None else job.query.with_(memory=None)
    own = replace(job, query=query).shard_query(0)
    try:
        binding = bind(own, schemas)
    except MemoryTooSmall as error:
        if job.shards == 1:
            raise
        raise MemoryTooSmall(f"memory of {query.memory} is for {job.shards} shards: {error} for each shard") from None
    return binding, routing_of(binding, job.shards)


@lru_cache(maxsize=16)
def known(job: Job) -> tuple[Binding, Routing]:
    """The same, remembered in a worker."""
    return planned(job)
