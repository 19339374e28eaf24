"""Many engines in one process: a join cut into shards, each with an engine, a part of the memory and a thread.

    push    code (each stream in a thread) -> route: which rows are which shard's -> take (each shard in a thread)

Rows are coded once. A shard is given the places of its rows in the tables, which are shared, so that a row is copied
when it becomes a resident and not before. Kernels, Arrow and numpy let go of the interpreter's lock while they work.

One watermark holds for all shards: the one that a single engine would have. It is found after each push, from what the
shards have seen, and each of them is raised to it. So the same rows are late and the same rows have expired, and below
the budget the matches are the same, in another order. In a push a shard goes by its own rows: they bring it no further.

The matches of a push come shard by shard, so they do not depend on which thread was faster.
"""

import copy
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine import persistence
from windrow.engine.bind import Binding, bind
from windrow.engine.departures import SHARD
from windrow.engine.engine import Engine
from windrow.engine.intake import plain_schemas
from windrow.engine.metrics import Metrics, added_up
from windrow.engine.prepare import Rows, codes_in, rows_of
from windrow.engine.routing import Codes, Routing, routing_of
from windrow.engine.snapshots import counts
from windrow.errors import DuplicateColumn, MemoryFull
from windrow.kernels import layout as at
from windrow.spec import Memory, Query, shard_query
from windrow.state.parts import view
from windrow.state.shard import Shard

FEW_ROWS = 1 << 12  # of a push: so few are taken sooner than threads are woken


class ShardedEngine(Engine):
    """Joins as `Engine` does, which makes one of these of a query that asks for several shards.

    Parameters as of `Engine`, and:
        memories: the part of the memory that each shard has; None divides it evenly.

    >>> import windrow as wr
    >>> streams = [wr.Stream("left", "ts", 10), wr.Stream("right", "ts", 10)]
    >>> engine = wr.Engine(wr.Query(streams=streams, on="k", shards=3))
    >>> rows = pa.table({"k": range(100), "ts": range(100)})
    >>> engine.push({"left": rows, "right": rows}).num_rows, len(engine.engines)
    (100, 3)
    """

    engines: list[Engine]
    _memories: Sequence[Memory] | None = None

    def __init__(self, query: Query, *given: Any, memories: Sequence[Memory] | None = None, **options: Any) -> None:
        self._memories = memories
        super().__init__(query, *given, **options)

    @property
    def _shards(self) -> int:
        return self.query.shards or 1

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(min(self._shards, os.cpu_count() or 1), "windrow-shard")

    def _query(self, shard: int, query: Query, memories: Sequence[Memory] | None) -> Query:
        """What one shard joins."""
        own = shard_query(query, shard, self._shards)
        return own if memories is None else own.with_(memory=memories[shard])

    def _bind(self, schemas: dict[str, pa.Schema]) -> None:
        if self._keeps_departures and (taken := [name for name, s in schemas.items() if SHARD in s.names]):
            raise DuplicateColumn(f"stream {taken[0]!r} has a column {SHARD!r}, which departed rows get: rename it")
        plain = plain_schemas(schemas, self.query.names)
        made = partial(
            Engine, schemas=plain, count_only=self.count_only, recall=self._tracks, departures=self._keeps_departures,
            own_clock=self.own_clock,
        )  # fmt: skip
        binding = bind(self.query.with_(memory=None), plain)
        routing = routing_of(binding, self._shards)
        queries = [self._query(shard, self.query, self._memories) for shard in range(routing.size)]
        whole = self._whole(binding, routing)
        self._hold([made(query, oracle=oracle) for query, oracle in zip(queries, whole, strict=True)], routing)
        self._start_counting([0] * len(self.query.streams))

    def _whole(self, binding: Binding, routing: Routing) -> list[dict[str, pa.Table]]:
        """What the oracle of each shard is shown: all rows that the shard will get."""
        found: list[dict[str, pa.Table]] = [{} for _ in range(routing.size)]
        for name, table in self._oracle.items():
            stream = binding.query.names.index(name)
            parts = _parts(routing, stream, partial(codes_in, binding, stream, table=table), np.arange(len(table)))
            for mine, where in zip(found, parts, strict=True):
                mine[name] = table.take(pa.array(where))
        return found

    def _hold(self, engines: list[Engine], routing: Routing) -> None:
        self.engines, self.routing = engines, routing
        self._told.update(*(engine._told for engine in engines))
        for engine in engines:
            engine._told = self._told  # what one has said the others need not say
        self._binding = engines[0].bound()[0]

    def _start_counting(self, arrived: Any) -> None:
        """Begin with so many rows of each stream, counted once: their copies, and who is late, the shards count."""
        self._arrived = np.zeros((len(self.query.streams), 3), np.int64)
        self._arrived[:, 0] = arrived

    def bound(self) -> tuple[Binding, Shard]:
        """The binding by which rows are prepared, and the first shard, whose watermark is that of all."""
        return super().bound() if self._binding is None else self.engines[0].bound()

    # -- pushing ---------------------------------------------------------------------------------------------------

    def _each(self, work: Callable[..., Any], *given: Iterable[Any], rows: int = FEW_ROWS) -> list[Any]:
        """Do some work on each of the things given, which bring so many rows: in threads, or here if those are few.

        It ends when all of it has ended, whatever went wrong.
        """
        if rows < FEW_ROWS:
            return list(map(work, *given))
        futures = [self._pool.submit(work, *arguments) for arguments in zip(*given, strict=True)]
        wait(futures)
        return [future.result() for future in futures]

    def _rows(self, binding: Binding, inputs: list[pa.Table]) -> list[Rows]:
        def coded(stream: int, table: pa.Table) -> Rows:
            return rows_of(binding, stream, table, int(self._arrived[stream, 0]))

        return self._each(coded, range(len(inputs)), inputs, rows=sum(table.num_rows for table in inputs))

    def routed(self, rows: list[Rows]) -> list[tuple[Engine, list[Rows]]]:
        """The shards' engines, each with the rows that it would take of these."""
        self.bound()
        routes = [self._routes(stream, r) for stream, r in enumerate(rows)]
        return [
            (engine, [r.part(where[shard]) for r, where in zip(rows, routes, strict=True)])
            for shard, engine in enumerate(self.engines)
        ]

    def _finish(self) -> None:
        self.bound()
        for engine in self.engines:
            engine._finish()

    def _take(self, rows: list[Rows], mark: int, probing: bool = True) -> Any:
        """The matches, shard after shard."""
        many = sum(len(r.time) for r in rows)
        routes = self._each(self._routes, range(len(rows)), rows, rows=many)

        def taken(shard: int, engine: Engine) -> Any:
            return engine._take([r.part(where[shard]) for r, where in zip(rows, routes, strict=True)], mark, probing)

        self._interrupted = True
        engines = self._careful(rows, routes)
        try:
            found = self._each(taken, range(len(engines)), engines, rows=many)
        except MemoryFull as error:
            self._interrupted = engines is self.engines
            raise MemoryFull(f"in one of the shards {error}") from None
        self.engines = engines
        self._arrived[:, 0] += [len(r.time) for r in rows]
        times = [r.time[r.counted] for r in rows]
        self._agree(max(int(time.max(initial=at.LOW)) for time in times))
        self._interrupted = False
        return None if self.count_only else pa.concat_tables(found)

    def _routes(self, stream: int, rows: Rows) -> list[np.ndarray]:
        """By shard, which of a stream's rows it gets."""
        binding, first = self.bound()[0], int(self._arrived[stream, 0])

        def codes(directory: int) -> tuple[np.ndarray, np.ndarray | None]:
            link = int(binding.plan.positions()[stream, directory])
            return rows.codes[link], rows.keyed[link]

        return _parts(self.routing, stream, codes, first + np.arange(len(rows.time)))

    def _careful(self, rows: list[Rows], routes: list[list[np.ndarray]]) -> list[Engine]:
        """The engines; or copies of them where one may find its memory full, after which nothing was taken by any."""
        if self.bound()[0].plan.fail_when_full:
            for shard, engine in enumerate(self.engines):
                costs = [r.cost[where[shard]] for r, where in zip(rows, routes, strict=True)]
                stream = np.repeat(np.arange(len(costs)), [len(cost) for cost in costs])
                if engine.bound()[1].fitting(stream, np.ones(len(stream)), np.concatenate(costs)) < len(stream):
                    return [_copied(engine) for engine in self.engines]
        return self.engines

    def _agree(self, most: int) -> None:
        """Raise the watermark of all shards to where all rows have brought it, but not past a time."""
        words = [engine.bound()[1].words for engine in self.engines]
        mark = max(int(w[at.Head.watermark]) for w in words)
        if self.own_clock:
            streams = len(self.query.streams)
            lines = np.stack([view(w, at.Head.streams_at, streams, at.STREAM_SIZE) for w in words])
            mark = max(mark, min(_own_mark(lines), most))
        for engine in self.engines:
            engine._raise_watermark(mark)

    def departed(self) -> dict[str, pa.Table]:
        """The rows of each stream that were lost since the last call, as of one engine, and in which shard.

        Clocks and sequence numbers are the shard's own. A row that is sent to several shards may be lost in each.
        """
        if self._binding is None or not self._keeps_departures:
            return super().departed()
        found: dict[str, list[pa.Table]] = {name: [] for name in self.query.names}
        for shard, engine in enumerate(self.engines):
            for name, table in engine.departed().items():
                number = pa.repeat(pa.scalar(shard, pa.int32()), table.num_rows)
                found[name].append(table.append_column(SHARD, number))
        return {name: pa.concat_tables(tables) for name, tables in found.items()}

    # -- changing while it runs, and what it says of itself ----------------------------------------------------------

    def _change(self, query: Query) -> None:
        self._check({})
        if self._binding is not None:
            memories = self._memories if query.memory == self.query.memory else None
            changed = [_copied(engine) for engine in self.engines] if query.on_full == "fail" else self.engines
            try:
                for shard, engine in enumerate(changed):
                    engine._change(self._query(shard, query, memories))
            except MemoryFull as error:
                raise MemoryFull(f"in one of the shards {error}") from None
            self._memories = memories
            self._hold(changed, self.routing)
            self._agree(at.LATEST)
        self.query = query

    def _track_no_longer(self) -> None:
        super()._track_no_longer()
        for engine in self.engines if self._binding is not None else ():
            engine._track_no_longer()

    def _go_by(self, own_clock: bool) -> None:
        self.own_clock = own_clock
        for engine in self.engines if self._binding is not None else ():
            engine._go_by(own_clock)

    @property
    def metrics(self) -> Metrics:
        """The counters now, of all shards together; `engines` have their own."""
        return super().metrics if self._binding is None else added_up([engine.metrics for engine in self.engines])

    @property
    def allocated_bytes(self) -> int:
        """Bytes that are really allocated now, in all shards."""
        return 0 if self._binding is None else sum(engine.allocated_bytes for engine in self.engines)

    # -- snapshots -------------------------------------------------------------------------------------------------

    def _saved(self) -> tuple[dict[str, Any], list[Any]]:
        header = {"arrived": self._arrived[:, 0].tolist()}
        return header, self._each(lambda engine: engine.snapshot(), self.engines)

    def _fill(self, header: dict[str, Any], parts: list[pa.Buffer]) -> None:
        demoting = None if self.query.demotes is None else self._query(0, self.query, None).on_violation

        def restored(part: memoryview) -> Engine:
            return persistence.restored(Engine, part, None, None, None, demoting)

        self._hold_shards(self._each(restored, map(memoryview, parts)), counts(header["arrived"]))
        self._check_parts()

    def _hold_shards(self, engines: list[Engine], arrived: Any) -> None:
        """Take over the shards of an engine that was left, and how many rows of each stream it had counted."""
        self._hold(engines, routing_of(engines[0].bound()[0], self._shards))
        memories = [engine.query.memory for engine in engines if engine.query.memory is not None]
        even = self._query(0, self.query, None).memory
        self._memories = None if all(memory == even for memory in memories) else memories
        self._start_counting(arrived)

    def _leave(self, folder: Path, key: str) -> dict[str, Any]:
        for shard, engine in enumerate(self.engines):
            engine.park(folder / str(shard), key)
        return {"arrived": self._arrived[:, 0].tolist(), "shards": len(self.engines)}

    def _take_up(self, folder: Path, header: dict[str, Any], key: str) -> None:
        engines = [Engine.attach(folder / str(shard), key=key) for shard in range(header["shards"])]
        self._hold_shards(engines, header["arrived"])

    def _check_parts(self) -> None:
        """Refuse engines of a snapshot that are not the shards of one join."""
        engines, routing = self.engines, self.routing
        if len(engines) != routing.size:
            raise ValueError(f"it has {len(engines)} shards where there should be {routing.size}")
        made = ("count_only", "_tracks", "_keeps_departures", "own_clock", "watermark")
        for shard, engine in enumerate(engines):
            own = self._query(shard, self.query, self._memories)
            if engine.query != own or engine.bound()[0].schemas != self.bound()[0].schemas:
                raise ValueError(f"its shard {shard} is of another join")
            if any(getattr(engine, name) != getattr(engines[0], name) for name in made):
                raise ValueError(f"its shard {shard} was made in another way")
        if any(getattr(engines[0], name) != getattr(self, name) for name in made):
            raise ValueError("its shards were made in another way")
        came = np.sum([engine._arrived[:, 0] for engine in engines], axis=0)
        if not np.array_equal(came, [n * routing.copies(s) for s, n in enumerate(self._arrived[:, 0])]):
            raise ValueError("its counters do not add up")
        _check_memories(self.query.memory, [engine.query.memory for engine in engines])


def _parts(routing: Routing, stream: int, codes: Codes, number: np.ndarray) -> list[np.ndarray]:
    """By shard, which of a stream's rows it gets."""
    found = [np.zeros(0, np.int64)] * routing.size
    for order, starts in routing.split(stream, codes, number):
        for shard in np.flatnonzero(np.diff(starts)):
            found[shard] = order[starts[shard] : starts[shard + 1]]
    return found


def _own_mark(lines: np.ndarray) -> int:
    """Where rows have brought the watermark that went to several shards, [shard, stream, word] of the streams' lines.

    As kernels.retain.own_mark finds it, of the latest rows that any shard has seen.
    """
    last = lines[:, :, at.Stream.last_time].max(axis=0)
    clock, least = int(last.max()), at.LATEST
    lags = lines[0, :, [at.Stream.patience, at.Stream.lateness]].view(np.uint64).tolist()
    for seen, patience, lateness in zip(last.tolist(), *lags, strict=True):
        least = min(least, max(max(seen, clock - patience) - lateness, at.LOW))
    return least


def _copied(engine: Engine) -> Engine:
    """The same engine once more, of which one may change and the other not; where none is shed."""
    other = copy.copy(engine)
    other._shard = copy.copy(engine.bound()[1])
    other._shard.hold(other._shard.words.copy())
    if other._shard.demoted is not None:
        other._shard.demoted = other._shard.demoted.copied()
    other._payloads = [copy.copy(payload) for payload in engine._payloads]
    for payload in other._payloads:
        payload.chunks = list(payload.chunks)
    other._arrived, other._false = engine._arrived.copy(), engine._false.copy()
    other._deletions = engine._deletions.copy()
    if engine._departures is not None:
        other._departures = engine._departures.copied()
        other._gone = list(engine._gone)
    return other


def _check_memories(whole: Memory | None, parts: list[Memory | None]) -> None:
    """Refuse parts of a memory that are more than the whole, or not of its kind."""
    if whole is None:
        fine = all(part is None for part in parts)
    else:
        limits = [part.rows if whole.bytes is None else part.bytes for part in parts if part is not None]
        same = len(limits) == len(parts) and None not in limits
        fine = same and sum(limit or 0 for limit in limits) <= (whole.rows or whole.bytes or 0)
        fine = fine and all(part is not None and part.split == whole.split for part in parts)
    if not fine:
        raise ValueError("its shards have other memory than the join")
