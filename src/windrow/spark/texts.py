"""Query texts on Spark that are not one join of streams: one task runs the whole text, as it runs embedded.

    frames    -> pack (the rows of each stream become Arrow blobs)
              -> shuffle, to one task
              -> the text, batch by batch; its snapshot is the state, read and written whole in every micro-batch
              -> unpack (changes become rows)

What comes out of a micro-batch is what the same text gives embedded for a push of the same rows: blobs are put in the
order in which they were packed, so a micro-batch that is retried gives the same. An instant is over when every stream
has brought a later row, by more than the lateness, or when Spark's watermark has passed it: the rows of a micro-batch
are taken first, and the watermark that Spark has made of those before holds behind them.

This room does not know how texts are read: it is handed one, ready to be started.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from windrow.engine import Metrics
from windrow.errors import SnapshotError, SpecError
from windrow.spark.facts import ANEW, COLUMNS, refuse_changes
from windrow.spark.frames import (
    arrow_schema,
    declared_lateness,
    is_case_sensitive,
    refuse_collated,
    refuse_twins,
    spark_schema,
)
from windrow.spark.interpreter import check_interpreter
from windrow.spark.job import LAYOUT, is_moment
from windrow.spark.join import handed_on, millis, operated_whole, packed_stream
from windrow.spark.metrics import observed
from windrow.spark.operator import by_shard, fitting, in_order, results
from windrow.spark.pack import tables_of
from windrow.spark.shipping import ship, take_shipped
from windrow.spark.unpack import Unpacker
from windrow.spark.upstream import refuse_behind
from windrow.spark.worker import settle
from windrow.spec import Duration, DurationLike, Query
from windrow.spec.durations import parse_duration

Joins = Sequence[tuple[Query, Metrics]]
SUMMED = ("matched", "expired", "released", "shed", "sampled", "peak_rows")  # of the joins of a text
RECALL = ("recall", "recall_interval", "recent_recall", "exact_matched")
NONE = parse_duration(0, "lateness")  # whichever way nothing is said: "0 seconds" is the same
SMALLER = "select smaller windows or fewer groups, or run the text embedded (start)"


class Running(Protocol):
    """A text that runs on (`windrow.cql.Continuous`)."""

    @property
    def metrics(self) -> Any:
        """Its counters."""

    def push(self, batches: Mapping[str, Any], watermark: Any = None) -> pa.Table:
        """Take rows: what changes."""

    def snapshot(self) -> bytes:
        """The whole state."""


class Text(Protocol):
    """A text that has been read (`windrow.cql.Cql`)."""

    text: str

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of its streams."""

    def run(self, tables: Mapping[str, Any], time: Any = None, **options: Any) -> Any:
        """The text over whole tables."""

    def start(self, schemas: Any = None, time: Any = None, **options: Any) -> Running:
        """The text over streams that go on."""

    def restore(self, data: bytes, time: Any = None, **options: Any) -> Running:
        """The same from a snapshot."""


@dataclass(frozen=True)
class TextJob:
    """All that a worker needs to know of a text: what packing asks for (pack.py), and what it was started with."""

    text: Text
    schemas: tuple[pa.Schema, ...]
    times: tuple[str | None, ...]
    sign: Any
    lateness: Duration
    options: Mapping[str, Any]
    shards: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the streams."""
        return self.text.streams

    def parts(self, stream: int, piece: pa.Table, first_row: int) -> dict[int, list[pa.Table]]:
        """All rows go to the one task."""
        return {0: [piece]}

    @property
    def marked(self) -> bool:
        """Whether Spark makes a watermark of the streams' times."""
        return all(is_moment(schema, time) for schema, time in zip(self.schemas, self.times, strict=True))

    @property
    def clocks(self) -> dict[str, str | None]:
        """The column of times by stream."""
        return dict(zip(self.names, self.times, strict=True))

    @property
    def facts(self) -> dict[str, Any]:
        """What a checkpoint holds on to, by name, as JSON values."""
        columns = {
            f"{COLUMNS}{name}": {field.name: str(field.type) for field in schema}
            for name, schema in zip(self.names, self.schemas, strict=True)
        }
        times = {f"time of {name}": time for name, time in self.clocks.items()}
        given = {
            "query text": self.text.text,
            "sign": self.sign,
            "lateness": str(self.lateness if self.lateness.amount else NONE),
        }
        return {"layout": LAYOUT, **given, **times, **columns}

    def started(self) -> Running:
        """The text at its beginning."""
        schemas = dict(zip(self.names, self.schemas, strict=True))
        return self.text.start(schemas, self.clocks, sign=self.sign, lateness=self.lateness, **self.options)

    def restored(self, identity: str, snapshot: bytes) -> Running:
        """The text as a state has it; a state of another one is refused."""
        refuse_changes(json.loads(identity)["facts"], self.facts, "the checkpoint", SnapshotError, "query")
        try:
            return self.text.restore(snapshot, self.clocks, sign=self.sign, lateness=self.lateness, **self.options)
        except SnapshotError as error:  # options that a join does not let change, or a snapshot that was altered
            told = str(error).partition("; restore it")[0]
            raise SnapshotError(f"the checkpoint does not go on: {told}. Set that back, or {ANEW}") from error

    def ran(self, tables: Mapping[str, pa.Table]) -> Any:
        """The text over whole tables."""
        return self.text.run(tables, self.clocks, **self.options)


@dataclass(frozen=True)
class TextOperator:
    """The functions that Spark runs; `schema` is that of what they give."""

    job: TextJob
    schema: pa.Schema

    def stream(self, key: tuple[Any, ...], frames: Iterable[Any], state: Any) -> Iterator[Any]:
        """One micro-batch (`applyInPandasWithState`)."""
        take_shipped()
        identity, pushes, snapshot = state.get if state.exists else (None, 0, None)
        running = self.job.started() if identity is None else self.job.restored(identity, bytes(snapshot or b""))
        mark = state.getCurrentWatermarkMs() if self.job.marked else 0
        blobs, called = in_order(frames)  # all rows come here: where there is a call there are blobs
        rows = [blob.as_buffer() for blob in blobs["rows"]]
        tables = tables_of(self.job.names, self.job.schemas, blobs["stream"].to_pylist(), rows)
        found = running.push(tables, watermark=mark * 1000 if mark > 0 else None)
        after = fitting(running.snapshot(), "the query text", SMALLER)
        state.update((json.dumps({"facts": self.job.facts}), pushes + 1, after))
        settle("operator")
        for result in results(int(key[0]), [found.cast(self.schema)], _counters(running.metrics), called):
            yield result.to_pandas()

    def batch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All rows (`mapInArrow`)."""
        take_shipped()
        for shard, streams, rows in by_shard(batches):
            tables = tables_of(self.job.names, self.job.schemas, streams, rows)
            found = self.job.ran(tables)
            yield from results(shard, [found.table.cast(self.schema)], _ran(tables, self.job.clocks, found.joins))


def text_on_spark(
    text: Text,
    frames: Mapping[str, Any],
    columns: Mapping[str, Sequence[str]],
    times: Mapping[str, str | None],
    *,
    sign: Any = None,
    lateness: DurationLike | None = None,
    options: Mapping[str, Any],
) -> Any:
    """A text over Spark DataFrames as one task: a DataFrame of its changes or, over batch frames, of its result.

    Parameters:
        frames: streaming or batch DataFrames by the names of the streams.
        columns: of each stream, those that the text reads; the others stay where they are.
        times: each stream's column of times.
        sign, lateness, options: as the text is started with. Without a lateness it is the longest that `withWatermark`
            has declared.
    """
    names, first = text.streams, frames[text.streams[0]]
    streaming = bool(first.isStreaming)
    _check(times, sign, streaming)
    for name in names:
        refuse_behind(frames[name], name)
        refuse_collated(frames[name], name, columns[name])
    check_interpreter(first)
    schemas = tuple(arrow_schema(frames[name], name, columns[name]) for name in names)
    late = _lateness(frames, times, lateness)
    job = TextJob(text, schemas, tuple(times[name] for name in names), sign, late, options)
    output, schema = spark_schema(_nothing(job, streaming).schema)
    refuse_twins(output.names, "the output", "name its columns with As", is_case_sensitive(first))
    ship(first)
    token = secrets.token_hex(4)
    packed = [packed_stream(job, frames[name], s, streaming, millis(late), token) for s, name in enumerate(names)]
    result = operated_whole(TextOperator(job, schema), packed, job.shards, streaming)
    return handed_on(result, observed(result, streaming), Unpacker(schema), output)


def _check(times: Mapping[str, str | None], sign: Any, streaming: bool) -> None:
    if bare := [name for name, time in times.items() if time is None]:
        raise SpecError(
            f"on Spark every stream needs a column of times, and {bare[0]!r} has none: say which with time="
        )
    if sign is not None and not streaming:
        raise SpecError("deletions (sign=) are for streaming frames: whole tables have none")


def _lateness(frames: Mapping[str, Any], times: Mapping[str, str | None], given: DurationLike | None) -> Duration:
    """The lateness of all streams: the one that is given, or else the longest that `withWatermark` declares."""
    known = parse_duration(0 if given is None else given, "lateness")
    delays = {name: declared_lateness(frames[name], name, time) for name, time in times.items()}
    declared = {name: delay for name, delay in delays.items() if delay is not None}
    if given is None and declared:
        return parse_duration(f"{max(declared.values())} ms", "lateness")
    for name, delay in declared.items():
        if delay != millis(known):
            raise SpecError(
                f"lateness is {known}, but withWatermark declares {delay} ms for stream {name!r}, which Spark does not "
                "let anyone change: say it in one place"
            )
    return known


def _nothing(job: TextJob, streaming: bool) -> pa.Table:
    """What the text gives for no rows: its columns. Whatever is wrong with text, options and columns is said here."""
    if streaming:
        return job.started().push({})
    empty: pa.Table = job.ran({n: s.empty_table() for n, s in zip(job.names, job.schemas, strict=True)}).table
    return empty


def _counters(metrics: Any) -> dict[str, Any]:
    """The counters of a running text, as those of a shard are told (metrics.py); all of them under "text"."""
    waiting = sum(stream["waiting"] for stream in metrics.streams.values())
    rows = sum(join.resident_rows for _, join in metrics.joins) + metrics.kept_rows + waiting
    held = {"resident_rows": rows, "resident_bytes": metrics.bytes, "peak_bytes": metrics.peak_bytes}
    return {**_told(metrics.streams, metrics.joins), **held, "text": metrics.to_dict()}


def _ran(tables: Mapping[str, pa.Table], clocks: Mapping[str, str | None], joins: Joins) -> dict[str, Any]:
    """The counters of a text that has run over whole tables."""
    came = {
        name: {"arrived": t.num_rows, "late": 0, "ignored": t[clocks[name]].null_count} for name, t in tables.items()
    }
    held = {n: sum(getattr(join, n) for _, join in joins) for n in ("resident_rows", "resident_bytes", "peak_bytes")}
    return {**_told(came, joins), **held, "text": {"joins": [join.to_dict() for _, join in joins]}}


def _told(streams: Mapping[str, Mapping[str, int]], joins: Joins) -> dict[str, Any]:
    """Rows by stream, what the joins count together and, of a text with one join, its recall and its constraints."""
    found: dict[str, Any] = {"streams": streams, "value": None, **dict.fromkeys(RECALL)}
    found |= {n: sum(stream[n] for stream in streams.values()) for n in ("arrived", "late", "ignored")}
    found |= {name: sum(getattr(join, name) for _, join in joins) for name in SUMMED}
    if len(joins) == 1:
        one = joins[0][1].to_dict()
        found |= {name: one[name] for name in (*RECALL, "constraints") if name in one}
    return found
