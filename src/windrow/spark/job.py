"""A job: all that a Spark worker needs to know of a join. Frozen, small, and sent along with the functions."""

from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa

from windrow.engine.bind import Binding, bind
from windrow.engine.intake import plain_schema
from windrow.engine.routing import Routing, routing_of
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
    def follows_spark(self) -> bool:
        """Whether Spark's watermark alone says which rows are late.

        Not where times are no timestamps, of which Spark makes none, nor with patience, which is a shard's own.
        """
        return self.query.patience is None and self.marked

    @property
    def marked(self) -> bool:
        """Whether Spark makes a watermark of the streams' times."""
        times = zip(self.query.streams, self.schemas, strict=True)
        return all(t.time is not None and pa.types.is_timestamp(s.field(t.time).type) for t, s in times)

    def shard_query(self, shard: int) -> Query:
        """The query of one shard."""
        return shard_query(self.query, shard, self.shards)


def planned(job: Job) -> tuple[Binding, Routing]:
    """Check a job against its schemas, at plan time; how its rows are compared and routed."""
    schemas = {name: plain_schema(schema) for name, schema in zip(job.query.names, job.schemas, strict=True)}
    query = job.query if job.query.memory is None or job.query.memory.share is None else job.query.with_(memory=None)
    binding = bind(replace(job, query=query).shard_query(0), schemas)
    return binding, routing_of(binding, job.shards)


@lru_cache(maxsize=16)
def known(job: Job) -> tuple[Binding, Routing]:
    """The same, remembered in a worker."""
    return planned(job)
