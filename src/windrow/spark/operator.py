"""The stateful operator: one engine per shard. Blobs in, matches and counters out.

A micro-batch that is retried starts from the same state and gets the same blobs, which are put in order before they
are joined, so it gives the same matches, the same archive files and the same state. Of that state there are two forms:
a snapshot and the pushes since (`append`, deltas.py) and, for stores that cannot append, one whole snapshot that every
micro-batch reads and writes (`stream`).
"""

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from windrow.engine import Engine
from windrow.engine.intake import plain_schema
from windrow.errors import SnapshotError, WindrowError
from windrow.feed import CodedTables, Pace, engine_for, run
from windrow.kernels import layout as at
from windrow.spark.archive import Run, check_archive, write_departed
from windrow.spark.deltas import ENTRY, Deltas, Head, Push, Store, counters_of
from windrow.spark.facts import facts_of, refuse_changes
from windrow.spark.job import Job, known
from windrow.spark.labels import labels
from windrow.spark.pack import WITNESS, blobs, tables_of
from windrow.spark.roll_call import CALL, CALLED
from windrow.spark.shipping import take_shipped
from windrow.spark.warm import Cache, Key, chained
from windrow.spark.worker import settle
from windrow.spec import Query

RESULT = "shard int, metrics string, matches binary"
STATE = "identity string, pushes long, snapshot binary"
METRICS = "metrics"  # the counters of the last push, beside what else a state remembers
ORDER = tuple(ENTRY.names[:3])
BLOB_ROWS = 1 << 18
_TYPES = [(field.name, field.type) for field in ENTRY]
MOST_BYTES = 1 << 25  # of matches in blobs of so many rows; after them
BLOB_BYTES = 1 << 14  # for a blob, about
MOST_BLOBS = 1_000
LARGEST_STATE = 2**31 - 2**20  # what one value of Spark's state can hold
WAKES = 4  # times that a silent shard is woken while its longest window passes


class Whole(Protocol):
    """What runs per shard where the state is one value."""

    def stream(self, key: tuple[Any, ...], frames: Iterable[Any], state: Any) -> Iterator[Any]:
        """One micro-batch of one shard (`applyInPandasWithState`)."""

    def batch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All rows of the shards of one partition (`mapInArrow`)."""


@dataclass(frozen=True)
class Operator:
    """The functions that Spark runs per shard."""

    job: Job

    def append(
        self, shard: int, frames: Iterable[Any], store: Store, mark: int, cache: Cache | None = None
    ) -> Iterator[pa.RecordBatch]:
        """One micro-batch of one shard, or a timer that has passed, whose state is kept as deltas.

        Parameters:
            frames: its blobs; none where only the watermark has moved.
            mark: Spark's watermark in milliseconds, not above 0 where there is none.
            cache: where engines are kept between micro-batches, by version.
        """
        take_shipped()
        mark = max(mark + self.job.ahead_ms, 0) if mark > 0 else 0
        taken, called = in_order(frames)
        head, push = Head.read(store.head()), Push(taken, mark * 1000 if mark > 0 else None)
        if called and not push.blobs.num_rows:
            return self._answer(shard, head, store, cache)
        if not push.blobs.num_rows and self._rests(head, store, mark):
            return iter(())
        head = replace(head, place=head.place or secrets.token_hex(8))
        files, deltas = self._files(shard, head.identity or None), Deltas(store, shard)
        found = self._brought(shard, head, deltas, cache)
        try:
            matches = self._take(found.engine, push)
            identity, counters = self._identity(shard, files, found.engine)
            head = replace(head, identity=identity, settings=settings_of(self.job, shard))
            head = replace(head, attached=head.attached + found.warm, rebuilt=head.rebuilt + found.rebuilt)
            head = deltas.written(head, found.engine, push, found.whole)
            if head.timer is None or head.timer <= mark:
                head = self._timed(head, store)
            store.set_head(head.text())
        except BaseException:
            if cache is not None and found.folder is not None:
                cache.drop(found.folder)
            raise
        if cache is not None:
            cache.put(self._key(shard, head), found.engine, found.folder)
        settle("operator")
        counters |= self._warm(shard, head, cache)
        return results(shard, [] if matches is None else [matches], counters, called)

    def stream(self, key: tuple[Any, ...], frames: Iterable[Any], state: Any) -> Iterator[Any]:
        """One micro-batch of one shard, whose state is one snapshot (`applyInPandasWithState`)."""
        take_shipped()
        shard = int(key[0])
        identity, pushes, snapshot = state.get if state.exists else (None, 0, None)
        taken, called = in_order(frames)
        if called and not taken.num_rows:
            if identity is not None:
                told = self._remembered(identity).get(METRICS) or self._engine(shard, snapshot).metrics.to_dict()
                yield from (result.to_pandas() for result in results(shard, [], told, called))
            return
        files = self._files(shard, identity)
        engine = self._engine(shard, snapshot)
        millis = state.getCurrentWatermarkMs() if self.job.marked else 0
        matches = self._take(engine, Push(taken, millis * 1000 if millis > 0 else None))
        identity, counters = self._identity(shard, files, engine)
        advice = "use more shards, or the RocksDB state store (windrow.spark.tune)"
        state.update((identity, pushes + 1, fitting(engine.snapshot(), f"shard {shard}", advice)))
        settle("operator")
        for result in results(shard, [] if matches is None else [matches], counters, called):
            yield result.to_pandas()

    def batch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All rows of the shards of one partition (`mapInArrow`)."""
        take_shipped()
        for shard, streams, rows in by_shard(batches):
            tables = CodedTables(self._tables(streams, rows))
            query = _in_time_order(self._query(shard))
            engine = engine_for(query, tables, self.job.recall)
            yield from results(shard, run(engine, tables, pace=Pace()), engine)

    # -- one push --------------------------------------------------------------------------------------------------

    def _take(self, engine: Engine, push: Push) -> Any:
        """The matches of a push. Its watermark holds for the rows of the next one."""
        matches = None
        if push.blobs.num_rows:
            rows = [blob.as_buffer() for blob in push.blobs["rows"]]
            matches = engine.push(self._tables(push.blobs["stream"].to_pylist(), rows))
        engine.push({}, watermark=push.watermark)
        return matches

    def _again(self, engine: Engine, push: Push) -> None:
        """A push of the log: what it matched was handed on, and what it lost was archived, the first time."""
        self._take(engine, push)
        if self.job.archive is not None:
            engine.departed()

    def _tables(self, streams: Sequence[int], rows: Sequence[pa.Buffer]) -> dict[str, pa.Table]:
        return tables_of(self.job.query.names, self.job.schemas, streams, rows)

    # -- the roll call (roll_call.py) ------------------------------------------------------------------------------

    def _answer(self, shard: int, head: Head, store: Store, cache: Cache | None) -> Iterator[pa.RecordBatch]:
        """The counters of a shard that has no rows: those of its last push. Nothing is taken, and nothing written."""
        if not head.pushes:
            return iter(())
        told = self._remembered(head.identity).get(METRICS)
        told = told or Deltas(store, shard).replayed(head, self._again).metrics.to_dict()
        return results(shard, [], told | self._warm(shard, head, cache), called=True)

    def _warm(self, shard: int, head: Head, cache: Cache | None) -> dict[str, Any]:
        """What is known of the engine that is kept between micro-batches, where one is."""
        if cache is None:
            return {}
        held = cache.held_bytes(self._key(shard, head))
        return {"warm": {"attached": head.attached, "rebuilt": head.rebuilt, "bytes": held}}

    # -- timers ----------------------------------------------------------------------------------------------------

    def _rests(self, head: Head, store: Store, mark: int) -> bool:
        """Whether a shard whose timer has passed has nothing to do: it is empty, or had rows since the timer was set.

        Then it has heard of the watermark, and another timer is set.
        """
        wake = self._wakes_at(head)
        if head.resident_rows and (wake is None or wake <= mark):
            return False
        store.set_head(self._timed(head, store).text())
        return True

    def _timed(self, head: Head, store: Store) -> Head:
        """Set a timer for a shard that holds rows."""
        wake = self._wakes_at(head) if head.resident_rows else None
        if wake is not None:
            store.wake_at(max(1, wake - self.job.ahead_ms))
        return replace(head, timer=wake)

    def _wakes_at(self, head: Head) -> int | None:
        """At which watermark a shard that is silent until then has something to expire, in milliseconds."""
        reach = [most for most in known(self.job)[0].plan.windows[:, 0].view(np.uint64).tolist() if most < at.HIGH]
        if not self.job.marked or not reach:
            return None
        return 1 if head.watermark is None else head.watermark // 1000 + max(1, max(reach) // WAKES // 1000)

    # -- the engine of a state -------------------------------------------------------------------------------------

    def _query(self, shard: int) -> Query:
        return self.job.shard_query(labels(self.job.shards).index(shard))

    def _engine(self, shard: int, snapshot: bytes | None) -> Engine:
        """The engine of a snapshot, or a new one."""
        query, own_clock = self._query(shard), not self.job.follows_spark
        if snapshot is not None:
            return Engine.restore(bytes(snapshot), query, recall=self.job.recall, own_clock=own_clock)
        schemas = {n: plain_schema(s) for n, s in zip(query.names, self.job.schemas, strict=True)}
        departures = self.job.archive is not None
        return Engine(query, schemas, recall=self.job.recall, departures=departures, own_clock=own_clock)

    def _key(self, shard: int, head: Head) -> Key:
        """Under which an engine is kept between micro-batches; a query may hold several joins, and equal ones."""
        join = f"{_run().query}/{join_of(self.job)}/{head.place}"
        return Key(join, shard, chained(head.version, head.settings.encode()))

    def _brought(self, shard: int, head: Head, deltas: Deltas, cache: Cache | None) -> "Brought":
        """The engine of a state, under the job's settings."""
        if not head.pushes:
            return Brought(self._engine(shard, None), whole=True)
        changed = head.settings != settings_of(self.job, shard)
        if cache is not None and not changed:
            engine, folder = cache.engine(self._key(shard, head))
            if engine is not None and folder is not None:
                if counters_of(engine) == head.counters:
                    return Brought(engine, folder, warm=True)
                cache.drop(folder)
        engine = deltas.replayed(head, self._again)
        return Brought(self._engine(shard, engine.snapshot()) if changed else engine, rebuilt=True, whole=changed)

    # -- what a state remembers ------------------------------------------------------------------------------------

    def _identity(self, shard: int, files: dict[str, int] | None, engine: Engine) -> tuple[str, dict[str, Any]]:
        """Write what was lost to the archive; join, archive and counters as a state remembers them; the counters."""
        remembered: dict[str, Any] = {"facts": facts_of(self.job)}
        if self.job.archive is not None and files is not None:
            files = write_departed(self.job.archive, shard, files, engine.departed())
            remembered["archive"] = {"id": self.job.archive.id, "files": files}
        counters = remembered[METRICS] = engine.metrics.to_dict()
        return json.dumps(remembered), counters

    def _files(self, shard: int, identity: str | None) -> dict[str, int] | None:
        """How many files of the archive a state knows of, by stream; a state or archive of another join is refused."""
        known = None if identity is None else self._remembered(identity).get("archive")
        if self.job.archive is None:
            return None
        return check_archive(self.job, shard, known, _run(), all_shards=shard == WITNESS)

    def _remembered(self, identity: str) -> dict[str, Any]:
        """What a state remembers; a state of another join is refused."""
        try:
            remembered: dict[str, Any] = json.loads(identity)
        except ValueError:  # of before LAYOUT 2
            remembered = {"facts": {}}
        refuse_changes(remembered["facts"], facts_of(self.job), "the checkpoint", SnapshotError)
        return remembered


@lru_cache(maxsize=64)
def settings_of(job: Job, shard: int) -> str:
    """A digest of that under which a shard's log is written: a log is replayed under no other."""
    query = job.shard_query(labels(job.shards).index(shard))
    return chained("", json.dumps([query.to_json(), job.recall, job.follows_spark]).encode())


@lru_cache(maxsize=64)
def join_of(job: Job) -> str:
    """A digest of what makes a join another one."""
    return chained("", json.dumps(facts_of(job)).encode())


@dataclass(frozen=True)
class Brought:
    """An engine, and how it came: warm from a folder, or rebuilt; and whether a whole snapshot must follow."""

    engine: Engine
    folder: Path | None = None
    warm: bool = False
    rebuilt: bool = False
    whole: bool = False


def in_order(frames: Iterable[Any]) -> tuple[pa.RecordBatch, bool]:
    """The blobs of a micro-batch in the order in which they were packed; whether the shard is called (roll_call.py)."""
    parts = [pa.table([pa.array(frame[name], type_) for name, type_ in _TYPES], schema=ENTRY) for frame in frames]
    packed = pa.concat_tables([ENTRY.empty_table(), *parts])
    order = np.lexsort([packed[name].to_numpy() for name in ORDER[::-1]])
    calls = int(np.count_nonzero(packed["stream"].to_numpy() == CALL))  # in order they come first
    ordered = packed.take(pa.array(order[calls:])).combine_chunks()
    found = ordered.to_batches()[0] if ordered.num_rows else pa.RecordBatch.from_pylist([], schema=ENTRY)
    return found, calls > 0


def by_shard(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, list[int], list[pa.Buffer]]]:
    """The blobs of each shard of a partition, in the order in which they were packed, with the streams they are of."""
    packed: dict[int, list[tuple[Any, ...]]] = {}
    for batch in batches:
        numbers = (batch[name].to_pylist() for name in ("shard", *ORDER))
        for shard, *where, blob in zip(*numbers, batch["rows"], strict=True):
            packed.setdefault(shard, []).append((*where, blob.as_buffer()))
    for shard in sorted(packed):
        ordered = sorted(packed.pop(shard), key=lambda blob: blob[:3])
        yield shard, [blob[0] for blob in ordered], [blob[-1] for blob in ordered]


def fitting(snapshot: bytes, whose: str, advice: str) -> bytes:
    """A snapshot, if it fits into one value of Spark's state."""
    if len(snapshot) > LARGEST_STATE:
        raise WindrowError(f"{whose} has a state of {len(snapshot):,} bytes, too many for Spark: {advice}")
    return snapshot


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


def results(shard: int, found: Iterable[pa.Table], counters: Any, called: bool = False) -> Iterator[pa.RecordBatch]:
    """Matches as blobs, then the counters, which an engine has when all are out, and whether the shard was called.

    Spark puts what comes back from Python together to batches of 10,000 records, whatever their size, and holds each in
    memory beside its heap, of which it has little. So blobs are large only as long as matches are few.
    """
    sent = 0
    for table in found:
        sent += table.nbytes
        rows = BLOB_ROWS if sent <= MOST_BYTES else max(1, table.num_rows * BLOB_BYTES // max(1, table.nbytes))
        for first in range(0, table.num_rows, BLOB_ROWS):  # part by part: there may be no room for all of them twice
            batches = table.slice(first, BLOB_ROWS).combine_chunks().to_batches(rows)
            for start in range(0, len(batches), MOST_BLOBS):
                yield _result(shard, blobs(batches[start : start + MOST_BLOBS]))
    told = counters.metrics.to_dict() if isinstance(counters, Engine) else counters
    yield _result(shard, pa.nulls(1, pa.binary()), json.dumps(told | {CALLED: True} if called else told))


def _result(shard: int, matches: pa.Array, metrics: str | None = None) -> pa.RecordBatch:
    columns = [pa.array([shard] * len(matches), pa.int32()), pa.array([metrics] * len(matches), pa.string())]
    return pa.record_batch([*columns, matches], names=["shard", "metrics", "matches"])
