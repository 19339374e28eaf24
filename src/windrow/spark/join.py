"""`windrow.join` on Spark DataFrames: the plan from frames to a frame of matches."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.bind import Binding, bind
from windrow.engine.intake import plain_schema
from windrow.errors import SpecError
from windrow.kernels import layout as at
from windrow.policies import Given
from windrow.spark.archive import start_archive
from windrow.spark.frames import (
    WATERMARK_DELAY,
    arrow_schema,
    by_place,
    check_frames,
    declared_lateness,
    is_case_sensitive,
    refuse_collated,
    refuse_own,
    refuse_twins,
)
from windrow.spark.interpreter import check_interpreter
from windrow.spark.job import Job, is_moment, planned
from windrow.spark.metrics import observed
from windrow.spark.operator import RESULT, STATE, Operator, Whole
from windrow.spark.pack import PACKED, Packer, Slices
from windrow.spark.places import place_of
from windrow.spark.shipping import ship
from windrow.spark.store import appends
from windrow.spark.unpack import Unpacker
from windrow.spark.upstream import stands_behind
from windrow.spec import Duration, Query, Stream, split_reference

DEFAULT_SHARDS = 8
PARTITIONS = "spark.sql.shuffle.partitions"


def on_spark(
    query: Query,
    frames: Mapping[str, Any],
    *,
    shards: int | None = None,
    archive: str | os.PathLike[str] | None = None,
    recall: bool = True,
) -> Any:
    """The matches of a query over Spark DataFrames, one per stream, as a DataFrame.

    Parameters:
        frames: streaming or batch DataFrames by the names of the streams.
        shards: into how many independent slices the join is cut; memory is divided among them. Fixed for the life of a
            checkpoint. By default the query's or, if it has none, as many as there are shuffle partitions, up to 8.
        archive: a folder for the rows that are lost, with why and when, from which `repair` finds the missing matches.
            A path or an address such as s3a://bucket/folder; it belongs to one checkpoint.
        recall: estimate recall beside the join (only where memory is capped).
    """
    query.refuse_names("Spark")
    query = query if shards is None else query.with_(shards=shards)
    given = dict(frames)
    check_frames(query.names, given)
    streaming = given[query.names[0]].isStreaming
    appending = streaming and appends(given[query.names[0]])
    behind = {s.name: s.lateness for s in query.streams if stands_behind(given[s.name], s, appending)}
    check_interpreter(given[query.names[0]])
    query = _with_declared_lateness(query, given)
    schemas = {name: arrow_schema(given[name], name) for name in query.names}
    for stream in query.streams:
        refuse_collated(given[stream.name], stream.name, _compared(query, stream))
    travelling = _needed(query, schemas) if archive is None else {name: schemas[name].names for name in query.names}
    chosen = tuple(pa.schema([schemas[name].field(c) for c in columns]) for name, columns in travelling.items())
    job = Job(query, chosen, _shards(query, given[query.names[0]]), recall)
    _check(job, streaming, archive)
    binding, _ = planned(job)
    if appending and job.marked:
        fresh = not behind and all(declared_lateness(given[s.name], s.name, s.time) is None for s in query.streams)
        job = replace(job, ahead_ms=age_ms(binding) if fresh else -max(map(millis, behind.values()), default=0))
    output = _output_type(binding, given, job)
    if archive is not None:
        _check_archived(job, output)
        job = replace(job, archive=start_archive(job, place_of(archive), binding))
    ship(given[query.names[0]])
    token = secrets.token_hex(4)
    packed = [_packed(job, given[name], s, streaming, name in behind, token) for s, name in enumerate(query.names)]
    result = _operated(job, packed, appending, streaming)
    return handed_on(result, observed(result, streaming), Unpacker(_returning(binding, schemas)), output)


def _check(job: Job, streaming: bool, archive: Any) -> None:
    if job.query.demotes is not None:
        raise SpecError(
            "on_violation='demote' is for joins in one process: on Spark a checkpoint would hold every row that was "
            "demoted; leave on_violation out, which then is 'lose'"
        )
    if job.query.memory is not None and job.query.memory.share is not None and streaming:
        raise SpecError(
            f"memory {job.query.memory} is a share of what the exact join needs, which is not known for streams that "
            "have not ended: give bytes or rows"
        )
    if archive is not None and not streaming:
        raise SpecError("an archive is for streaming joins: a batch join with more memory gives the exact answer")
    if any(stream.time is None for stream in job.query.streams) or job.query.order == "arrival":
        raise SpecError("on Spark every stream needs a time column, and order='time': a shuffle keeps no other order")
    if any(stream.window.kind == "rows" for stream in job.query.streams):
        raise SpecError("a window in rows counts arrivals over all shards, which Spark does not order: use time")
    if any(stream.sign is not None for stream in job.query.streams):
        raise SpecError("streams with deletions are joined embedded: use windrow.Engine, or leave sign= out")
    if getattr(getattr(job.query.policy, "statistics", None), "honest", True) is False and streaming:
        raise SpecError("an oracle needs whole streams, which have not ended: choose other statistics")


def _with_declared_lateness(query: Query, frames: Mapping[str, Any]) -> Query:
    """The query with the lateness that `withWatermark` declares, for streams that declare none themselves."""
    streams = []
    for stream in query.streams:
        delay = declared_lateness(frames[stream.name], stream.name, stream.time)
        if delay is not None and delay != stream.lateness.amount // 1_000_000:
            if stream.lateness.amount:
                raise SpecError(
                    f"stream {stream.name!r}: lateness is {stream.lateness}, but withWatermark declares {delay} ms, or "
                    "the join before it does, which Spark does not let anyone change: say it in one place, as with "
                    "lateness= for the other streams alone"
                )
            stream = stream.with_(lateness=f"{delay} ms")
        streams.append(stream)
    return query.with_(streams=streams)


def _check_archived(job: Job, output: Any) -> None:
    """An archive is read again by Spark, beside columns of windrow's own."""
    for name in job.query.names:
        columns = job.schema(name).names
        refuse_twins(columns, f"the archive of stream {name!r}", "rename one of them", case_sensitive=False)
        refuse_own(columns, f"stream {name!r}")
    refuse_own(output.names, "the output")


def _needed(query: Query, schemas: Mapping[str, pa.Schema]) -> dict[str, list[str]]:
    """By stream, the columns that have to travel."""
    binding = bind(query.with_(memory=None), {name: plain_schema(schema) for name, schema in schemas.items()})
    found = {}
    for stream, payload in zip(query.streams, binding.payload, strict=True):
        keep = {*payload, stream.time, *_compared(query, stream)}
        if isinstance(query.policy, Given):
            keep.add(query.policy.column)
        if query.value is not None:
            keep |= {column for s, column in query.value.columns if s == stream.name}
        found[stream.name] = [column for column in schemas[stream.name].names if column in keep]
    return found


def _compared(query: Query, stream: Stream) -> set[str]:
    """The columns of a stream that predicates and filters compare."""
    found = {c for p in query.predicates for s, c in map(split_reference, p.columns) if s == stream.name}
    return found | {f.column for f in stream.where}


def _shards(query: Query, frame: Any) -> int:
    if query.shards is not None:
        return query.shards
    return max(1, min(int(frame.sparkSession.conf.get(PARTITIONS, "200")), DEFAULT_SHARDS))


def _packed(job: Job, frame: Any, stream: int, streaming: bool, behind: bool, token: str) -> Any:
    """One stream as blobs."""
    delay = None if behind else millis(job.query.streams[stream].lateness) + max(job.ahead_ms, 0)
    return packed_stream(job, frame, stream, streaming, delay, token)


def packed_stream(job: Slices, frame: Any, stream: int, streaming: bool, delay_ms: int | None, token: str) -> Any:
    """One stream as blobs, with the watermark that the frame already has, or one with this delay, over their latest
    times; with none if no delay is given. The token tells equal joins of a query apart."""
    from pyspark.sql import functions as F

    schema, time = job.schemas[stream], job.times[stream]
    packed = by_place(frame, schema.names).mapInArrow(as_function(Packer(job, stream, streaming, token)), PACKED)
    if not streaming or delay_ms is None or not is_moment(schema, time):
        return packed
    declared = declared_lateness(frame, job.names[stream], time)
    if declared is not None:  # Spark allows one watermark per stream; the operator is told that there is one
        columns = [F.col(column) for column in packed.columns if column != "latest"]
        return packed.select(*columns, F.col("latest").alias("latest", metadata={WATERMARK_DELAY: declared}))
    return packed.withWatermark("latest", f"{delay_ms} milliseconds")


def millis(lateness: Duration) -> int:
    """A lateness in whole milliseconds, as Spark counts."""
    return math.ceil(lateness.amount / 1_000_000)


def age_ms(binding: Binding) -> int:
    """How far behind the rows of a join its matches may lie, or 0 if no end can be told; a power of two.

    Spark's watermark is held back so far, and the engine's put ahead of it again: so it fits the times of matches, and
    what stands behind the join takes none of them for late. A power of two, because it stays for a checkpoint's life.
    """
    reach = max(binding.plan.windows[:, 0].view(np.uint64).tolist())
    return 0 if reach >= at.HIGH else 1 << math.ceil(math.log2(reach // 1000 + 2))


def as_function(call: Callable[[Iterable[Any]], Any]) -> Callable[[Any], Any]:
    """A call as a function, which is what Spark asks for."""

    def run(batches: Any) -> Any:
        return call(batches)

    return run


def _operated(job: Job, packed: list[Any], appending: bool, streaming: bool) -> Any:
    """The packed streams through one engine per shard."""
    if not appending:
        return operated_whole(Operator(job), packed, job.shards, streaming)
    from windrow.spark.processor import Shards

    together = reduce(lambda a, b: a.unionByName(b), packed)
    shards = together.drop("latest").groupBy("shard")  # with that column Spark would drop blobs that look late
    mode = "EventTime" if job.marked else "None"
    return shards.transformWithStateInPandas(Shards(job), RESULT, "append", mode)


def operated_whole(operator: Whole, packed: list[Any], shards: int, streaming: bool) -> Any:
    """The packed streams through an operator whose state is one value per shard; over batch frames it has none."""

    def stream(key: Any, frames: Any, state: Any) -> Any:
        return operator.stream(key, frames, state)

    together = reduce(lambda a, b: a.unionByName(b), packed)
    if streaming:
        return together.groupBy("shard").applyInPandasWithState(stream, RESULT, STATE, "append", "NoTimeout")
    return together.repartition(shards, "shard").mapInArrow(as_function(operator.batch), RESULT)


def _output_type(binding: Binding, frames: Mapping[str, Any], job: Job) -> Any:
    """The output's columns with Spark's own types; times carry the watermark where it fits them."""
    from pyspark.sql.types import StructField, StructType

    names, frame = [o.name for o in binding.outputs], next(iter(frames.values()))
    refuse_twins(names, "the output", "choose and name the columns with select=", is_case_sensitive(frame))
    types = [{f.name: f.dataType for f in frames[name].schema.fields} for name in binding.query.names]
    fields = [StructField(o.name, types[o.stream][o.column]) for o in binding.outputs]
    if job.ahead_ms > 0:
        delay = job.ahead_ms + max(millis(stream.lateness) for stream in job.query.streams)
        for field, o in zip(fields, binding.outputs, strict=True):
            if o.column == job.query.streams[o.stream].time:
                field.metadata = {WATERMARK_DELAY: delay}
    return StructType(fields)


def _returning(binding: Binding, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
    """The output's columns in Arrow, in the types in which they came: by marks inside of these, which engines do not
    keep, Spark knows a geometry from a struct."""
    came = [schemas[binding.query.names[o.stream]].field(o.column) for o in binding.outputs]
    return pa.schema([field.with_name(o.name) for field, o in zip(came, binding.outputs, strict=True)])


def handed_on(result: Any, watched: tuple[Any, Any], unpack: Unpacker, output: Any) -> Any:
    """The matches as rows; a batch frame carries the observation of its counters along."""
    frame, observation = watched
    matches = frame.mapInArrow(as_function(unpack), output)
    if observation is not None:
        matches.windrow_observation = observation
    return matches
