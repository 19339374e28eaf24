"""A join on Spark without Spark: micro-batches through packer, operator and unpacker, one shard after another.

What a checkpoint keeps is a dictionary here: runs can be killed, started again under another query, and set back. The
state of a shard is a whole snapshot, or deltas in a store whose timers pass when the watermark does.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import windrow as wr
from windrow.engine import emit
from windrow.engine.departures import WHY
from windrow.spark import operator, roll_call
from windrow.spark.archive import Run, read_header, start_archive
from windrow.spark.contents import contents
from windrow.spark.job import Job, planned
from windrow.spark.operator import Operator
from windrow.spark.pack import Packer
from windrow.spark.places import opened, place_of
from windrow.spark.unpack import Unpacker

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("t", pa.int64())])
WINDOW = {"left": 6, "right": 4}
_starts = count()


def query(lateness: int = 2, window: Mapping[str, Any] = WINDOW, **options: Any) -> wr.Query:
    """The join of these tests."""
    streams = [wr.Stream(name, "t", wr.Window.time(size), lateness) for name, size in window.items()]
    given = {"on": "k", "select": {"a": "left.id", "b": "right.id"}, "memory": 8, "policy": "fifo", **options}
    return wr.Query(streams=streams, **given)


def batches(seed: int, pushes: int, rows: int = 12) -> list[dict[str, pa.Table]]:
    """Rows of both streams: about three instants a batch, some out of order, some late, a few keys."""
    chance, numbers, found = Random(seed), count(), []
    for push in range(pushes):
        batch: dict[str, list[dict[str, int]]] = {"left": [], "right": []}
        for name in [chance.choice(["left", "right"]) for _ in range(rows)]:
            time = 3 * push + chance.randrange(3) - (chance.randrange(12) if chance.random() < 0.3 else 0)
            batch[name].append({"id": next(numbers), "k": chance.randrange(4), "t": time})
        found.append({name: pa.Table.from_pylist(part, schema=SCHEMA) for name, part in batch.items()})
    return found


@dataclass
class Kept:
    """What Spark hands to the operator: the state of one shard."""

    get: Any = None
    exists: bool = False

    def update(self, value: Any) -> None:
        self.get, self.exists = value, True

    def getCurrentWatermarkMs(self) -> int:
        return 0


@dataclass
class Pages:
    """Spark's store of one shard, for deltas."""

    text: str | None = None
    pieces: dict[int, bytes] = field(default_factory=dict)
    log: dict[int, tuple[int | None, bytes]] = field(default_factory=dict)
    timers: set[int] = field(default_factory=set)

    def head(self) -> str | None:
        return self.text

    def set_head(self, text: str) -> None:
        self.text = text

    def piece(self, number: int) -> bytes:
        return self.pieces[number]

    def set_piece(self, number: int, data: bytes) -> None:
        self.pieces[number] = bytes(data)

    def remove_piece(self, number: int) -> None:
        del self.pieces[number]

    def entry(self, number: int) -> tuple[int | None, bytes]:
        return self.log[number]

    def add_entry(self, number: int, watermark: int | None, data: bytes) -> None:
        assert number not in self.log
        self.log[number] = watermark, bytes(data)

    def remove_entry(self, number: int) -> None:
        del self.log[number]

    def wake_at(self, millis: int) -> None:
        self.timers.add(millis)


@dataclass
class Driven:
    """A streaming query with a checkpoint and, unless told otherwise, an archive."""

    archive: Path | str | None
    shards: int = 2
    schemas: tuple[pa.Schema, pa.Schema] = (SCHEMA, SCHEMA)
    states: dict[int, Any] = field(default_factory=dict)
    output: Counter[Any] = field(default_factory=Counter)
    run: Run = field(default_factory=lambda: Run(f"query {next(_starts)}"))
    job: Job | None = None
    deltas: bool = False
    cache: Any = None
    mark: int = 0  # Spark's watermark, in milliseconds
    metrics: dict[int, dict[str, Any]] = field(default_factory=dict)  # the last of each shard since the start
    called: bool = False  # whether all shards have told theirs since then
    number: int = 0  # of the next micro-batch

    def start(self, query: wr.Query, **options: Any) -> Driven:
        """Start, or start again: plan the join, as `on_spark` does."""
        given = {"shards": self.shards, "schemas": self.schemas, **options}
        archive = given.pop("archive", self.archive)
        job = Job(query, **given)
        binding, _ = planned(job)
        if archive is not None:
            job = replace(job, archive=start_archive(job, place_of(archive), binding))
        self.job, self.run = job, replace(self.run, start=str(next(_starts)))
        self.metrics, self.called = {}, False
        return self

    def push(self, batch: dict[str, pa.Table], commit: bool = True) -> None:
        """One micro-batch; without a commit, as if it was killed at its end."""
        assert self.job is not None
        after, found, counters, called = dict(self.states), Counter[Any](), dict(self.metrics), self.called
        unpack = Unpacker(emit.schema(planned(self.job)[0]))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(operator, "_run", lambda: self.run)
            patch.setattr(roll_call, "_moment", lambda: (str(self.run.start), self.number))
            packed = self._packed(batch)
            for shard in sorted({*packed, *(self.states if self.deltas else ())}):
                for frame in self._shard(shard, packed.get(shard, []), after):
                    blobs = pa.RecordBatch.from_pandas(frame)
                    for rows in unpack([blobs.set_column(2, "matches", blobs["matches"].cast(pa.binary()))]):
                        found.update((row["a"], row["b"]) for row in rows.to_pylist())
                    for text in frame["metrics"].dropna():
                        counters[shard] = json.loads(text)
                        called |= counters[shard].pop(roll_call.CALLED, False)
        if commit:
            self.states, self.metrics, self.called = after, counters, called
            self.output += found
            self.number += 1

    def head(self, shard: int) -> dict[str, Any]:
        """What a state of deltas says of itself."""
        found: dict[str, Any] = json.loads(self.states[shard].text)
        return found

    def _shard(self, shard: int, frames: list[Any], after: dict[int, Any]) -> Iterator[Any]:
        """What the operator gives for one shard; its state goes to `after`."""
        assert self.job is not None
        if not self.deltas:
            state = Kept(self.states.get(shard), shard in self.states)
            yield from Operator(self.job).stream((shard,), frames, state)
            if state.exists:
                after[shard] = state.get
            return
        store = copy.deepcopy(self.states.get(shard, Pages()))
        turns = [(None, frames)] if frames else []
        for timer, rows in turns + [(timer, []) for timer in sorted(store.timers) if timer <= self.mark]:
            for result in Operator(self.job).append(shard, rows, store, self.mark, self.cache):
                yield result.to_pandas()
            store.timers.discard(timer)
        if store.text is not None:
            after[shard] = store

    def _packed(self, batch: dict[str, pa.Table]) -> dict[int, list[Any]]:
        """The blobs of every shard that has some."""
        assert self.job is not None
        found: dict[int, list[Any]] = {}
        for s, name in enumerate(self.job.query.names):
            rows = batch[name].select(self.job.schemas[s].names)
            for packed in Packer(self.job, s, streaming=True)(rows.to_batches()):
                frame = packed.to_pandas()
                for shard in frame["shard"].unique():
                    found.setdefault(int(shard), []).append(frame[frame["shard"] == shard])
        return dict(sorted(found.items()))


def archived(archive: Path | str) -> dict[str, list[dict[str, Any]]]:
    """The rows of an archive that count, by stream, read from its files alone."""
    found = contents(place_of(archive), wr.Query.from_json(read_header(archive)["query"]).names)
    found.check()
    system, root = opened(found.place)
    rows: dict[str, list[dict[str, Any]]] = {}
    for stream in WINDOW:
        tables = [pq.read_table(system.open_input_file(f"{root}/{f.name}")) for f in found.kept(stream)]
        rows[stream] = [row for table in tables for row in table.to_pylist()]
    return rows


def bags(archive: Path | str) -> dict[str, Counter[Any]]:
    """The same as multisets."""
    return {name: Counter(tuple(row.items()) for row in rows) for name, rows in archived(archive).items()}


def missed(lost: dict[str, list[dict[str, Any]]], history: list[dict[str, pa.Table]]) -> Counter[Any]:
    """The pairs that were missed, by the rule of engine/departures.py."""
    found: Counter[Any] = Counter()
    rows = {name: pa.concat_tables([batch[name] for batch in history]).to_pylist() for name in WINDOW}
    by_why: dict[tuple[str, str], dict[int, Any]] = {(n, w): {} for n in WINDOW for w in ("late", "shed", "disordered")}
    for name in WINDOW:
        for row in lost[name]:
            by_why[name, "shed" if row[WHY] == "sampled" else row[WHY]][row["id"]] = row
    for left in rows["left"]:
        for right in rows["right"]:
            if not fits(left, right):
                continue
            pair = left["id"], right["id"]
            if left["id"] in by_why["left", "late"] or right["id"] in by_why["right", "late"]:
                found[pair] += 1
                continue
            for s, x, o, y in (("left", left, "right", right), ("right", right, "left", left)):
                gone, seen = by_why[s, "shed"].get(x["id"]), by_why[o, "disordered"].get(y["id"])
                if gone is not None:
                    after = seen is not None and seen["windrow_seq"] >= gone["windrow_seq"]  # of one key, so one shard
                    found[pair] += y["t"] > gone["windrow_clock"] or after
    return +found


def fits(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Whether two rows match."""
    return left["k"] == right["k"] and -WINDOW["left"] < left["t"] - right["t"] < WINDOW["right"]


def exact(history: list[dict[str, pa.Table]]) -> Counter[Any]:
    """The exact join."""
    rows = {name: pa.concat_tables([batch[name] for batch in history]).to_pylist() for name in WINDOW}
    return Counter((a["id"], b["id"]) for a in rows["left"] for b in rows["right"] if fits(a, b))
