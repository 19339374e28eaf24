"""A query text that runs on and on: batches in, changes of its result out.

    push    rows wait until their instant is over (waiting.py), then go through the blocks (blocks.py), a span of time
            at once. What does not fit the text is found before anything is taken; what only values show, such as a sum
            beyond 64 bits or a join that is full and sheds nothing, ends the query, which goes on from a snapshot.

Which rows are pushed together does not matter for what comes out, but for where it is cut.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.cql.blocks import Arriving, BlockRun, Setting
from windrow.cql.results import AT, CHANGE, moments, with_columns
from windrow.cql.syntax import Select
from windrow.cql.waiting import Counts, Line, Waiting
from windrow.engine import Engine, Metrics
from windrow.engine.intake import as_table, check_batches
from windrow.engine.prepare import fitted
from windrow.engine.snapshots import counts, read_strictly
from windrow.errors import InputError, MemoryFull, SnapshotError, WindrowError
from windrow.maintained.book import Book
from windrow.maintained.changes import Changes, Span
from windrow.maintained.joins import Joined
from windrow.maintained.relation import FOREVER, Timed
from windrow.maintained.windows import Deleted
from windrow.spec import Memory, Query
from windrow.spec.bytesize import format_bytes
from windrow.state.coding_times import ticks_of
from windrow.state.snapshot import form

AT_TICKS = "(at)"  # the instants of rows that wait, in a snapshot
SLACK = 32  # one part in so many of a budget may be given to what is kept before it is taken from the join


@dataclass(frozen=True)
class ContinuousMetrics:
    """What a running query has seen and what it holds.

    `streams` has the rows that arrived, were late (their instant was over), ignored (without a time) and are waiting;
    of streams with deletions also those that were `deleted`, and the deletions that were `unknown`. `joins` are the
    queries of the joins with their metrics, from the inside out. `kept_rows` and `kept_bytes` are what is kept beside
    the joins: rows of windows, results with the time until which they count, totals of groups; `kept_bytes` has the
    rows that wait, too. `bytes` is all together, `peak_bytes` the most of it at the end of a push.
    """

    streams: dict[str, dict[str, int]]
    joins: tuple[tuple[Query, Metrics], ...]
    kept_rows: int
    kept_bytes: int
    bytes: int
    peak_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        joins = [{"streams": list(query.names), **metrics.to_dict()} for query, metrics in self.joins]
        return {**self.__dict__, "joins": joins}


class Continuous:
    """A query text over streams that go on. Made by `Cql.start`.

    >>> import pyarrow as pa, windrow as wr
    >>> totals = wr.cql("Select sum(L.v) as v From L [Range 5], R [Range 5] Where L.k = R.k").start(time="t")
    >>> rows = {"L": pa.table({"t": [1, 2], "k": [1, 2], "v": [3, 4]}), "R": pa.table({"t": [4, 20], "k": [1, 2]})}
    >>> totals.push(rows, watermark=21).to_pylist()
    [{'at': 4, 'change': 1, 'v': 3}, {'at': 7, 'change': -1, 'v': 3}, {'at': 7, 'change': 1, 'v': None}]
    """

    def __init__(self, select: Select, make: Any, lateness: Any) -> None:
        self._select, self._make, self._lateness = select, make, lateness
        self._waiting: Waiting | None = None
        self._block: BlockRun | None = None
        self._book = Book(1)
        self._none: pa.Table | None = None
        self._peak = 0
        self._interrupted = False

    # -- pushing -----------------------------------------------------------------------------------------------------

    def push(self, batches: Mapping[str, Any], watermark: dt.datetime | int | None = None) -> pa.Table:
        """Take rows of any of the streams: what changes in the instants that are over by now.

        Of a relation, a row for each that comes or leaves, with the time "at" and "change", 1 or -1; of Istream and
        Dstream the rows of that stream with the time "at". A watermark says that no row before it will come.
        """
        self._check_whole()
        first = self._waiting is None
        try:
            tables = self._checked(batches)
            waiting, block = self.bound()
            found = {name: (table, *waiting.timed(name, table)) for name, table in tables.items()}
            mark = None if watermark is None else ticks_of(watermark, waiting.setting.domain, "push: watermark")
            self._check_room(tables)
        except Exception:
            if first:  # a first push that is refused tells no columns
                self._waiting = self._block = self._none = None
            raise
        self._interrupted = True
        for name, (table, at, rows) in found.items():
            waiting.add(name, table, at, rows)
        result = self._advance(waiting, block, min(waiting.reach(mark), FOREVER - 1))
        self._interrupted = False
        return result

    def finish(self) -> pa.Table:
        """The input has ended: what changes in all instants that are still to come."""
        self._check_whole()
        waiting, block = self.bound()
        self._interrupted = True
        result = self._advance(waiting, block, FOREVER - 1)
        self._interrupted = False
        return result

    def _check_whole(self) -> None:
        """Refuse to go on after a push that was interrupted."""
        if self._interrupted:
            raise WindrowError("a push was interrupted half-way, so the state is not whole: restore the last snapshot")

    def _checked(self, batches: Mapping[str, Any]) -> dict[str, pa.Table]:
        """The rows of a push as tables of the columns that are known; a first push tells them."""
        names = self._make.names
        check_batches(batches, names)
        tables = {name: as_table(data, name) for name, data in batches.items() if data is not None}
        if self._waiting is None:
            if missing := [name for name in names if name not in tables]:
                raise InputError(f"the first push must bring every stream, if only its columns: {missing[0]!r} is not")
            self.bind({name: tables[name].schema for name in names})
        waiting, _ = self.bound()
        for name, table in tables.items():
            tables[name] = fitted(waiting.schemas[name], table, name)
        return tables

    def bind(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Tell the columns of all streams. Whatever does not fit them is found by a run without rows."""
        setting: Setting = self._make.setting(schemas)
        for name, sign in setting.signs.items():
            if not _is_number(schemas[name].field(sign).type):
                raise InputError(f"{name}.{sign} is a column of signs, which are numbers such as 1 and -1")
        waiting = Waiting(setting, schemas, self._make.ticks(self._lateness, setting))
        streams, deletes = waiting.until(waiting.over)
        found = BlockRun(self._select, setting).advance(Arriving(streams, deletes, Span(waiting.over, waiting.over)))
        self._none = self._told(found, setting)
        self._waiting, self._block = waiting, BlockRun(self._select, setting)

    def bound(self) -> tuple[Waiting, BlockRun]:
        """What waits, and the blocks; there are none before the first push, unless schemas were given."""
        if self._waiting is None or self._block is None:
            raise WindrowError("the query has no state yet: push rows of every stream, or give it schemas")
        return self._waiting, self._block

    def _advance(self, waiting: Waiting, block: BlockRun, end: int) -> pa.Table:
        span = Span(waiting.over, end)
        streams, deletes = waiting.until(end)
        assert self._none is not None
        result = self._none
        if end > span.start:
            result = self._told(block.advance(Arriving(streams, deletes, span)), waiting.setting)
        self._settle(block)
        return result

    def _told(self, found: Changes | Timed, setting: Setting) -> pa.Table:
        """The changes as a table, in order of time; what leaves at an instant goes before what comes."""
        if isinstance(found, Timed):
            return with_columns(found.table, {AT: moments(found.at, setting.domain)})
        self._remember(found)
        brief = np.flatnonzero(found.until < FOREVER)
        rows = pa.concat_tables([found.came, found.left, found.came.take(pa.array(brief))])
        at = np.concatenate([found.since, found.at, found.until[brief]])
        change = np.repeat(np.array([1, -1, -1]), [len(found.since), len(found.at), len(brief)])
        order = np.lexsort((change, at))
        columns = {AT: moments(at[order], setting.domain), CHANGE: pa.array(change[order])}
        return with_columns(rows.take(pa.array(order)), columns)

    def _remember(self, found: Changes) -> None:
        """Keep the rows that are in the relation."""
        self._book.drop(self._book.find(0, found.left_ids)[0])
        stay = np.flatnonzero(found.until == FOREVER)
        self._book.add(found.ids[stay], found.came.take(pa.array(stay)), keys=[found.ids[stay]])

    @property
    def relation(self) -> pa.Table:
        """The rows that are in the relation now: after the last instant that is over."""
        if self._select.emit != "relation":
            raise InputError("a stream has no rows at a moment: select without Istream or Dstream to get the relation")
        if self._none is None:
            raise WindrowError("the query has no state yet: push rows of every stream, or give it schemas")
        return self._book.take(self._book.all(), self._none.drop_columns([AT, CHANGE]))

    # -- memory ------------------------------------------------------------------------------------------------------

    def _joins(self) -> list[Joined]:
        return [part for part in self.bound()[1].held if isinstance(part, Joined)]

    def _books(self) -> list[Book]:
        return [self._book, *(book for part in self.bound()[1].held for book in part.books)]

    def _kept_bytes(self) -> int:
        return self.bound()[0].nbytes + sum(book.nbytes for book in self._books())

    def _check_room(self, tables: Mapping[str, pa.Table]) -> None:
        """Refuse rows where what is kept leaves the join no room: it cannot be shed, nor can a join that sheds none.

        A watermark without rows is taken, for it lets rows leave.
        """
        budget = self._budget()
        if budget is None or not any(table.num_rows for table in tables.values()):
            return
        kept, held = self._kept_bytes(), sum(part.metrics.resident_bytes for part in self._joins() if _fails(part))
        if kept > budget - budget // 4 or kept + held > budget:
            raise MemoryFull(
                f"what the query keeps beside its join takes {format_bytes(kept)} of its memory of "
                f"{format_bytes(budget)}, and cannot be shed: nothing of this push was taken; push a watermark that "
                "lets rows leave, raise memory, or select smaller windows or fewer groups"
            )

    def _budget(self) -> int | None:
        memory = Memory.of(self._make.options.get("memory"))
        return None if memory is None or memory.bytes is None else int(memory.bytes)

    def _settle(self, block: BlockRun) -> None:
        """After a push: note the most bytes, and give the join what the rest leaves of the budget."""
        kept = self._kept_bytes()
        joins = [part for part in block.held if isinstance(part, Joined)]
        self._peak = max(self._peak, kept + sum(part.metrics.resident_bytes for part in joins))
        budget = self._budget()
        if budget is None:
            return
        for part in joins:
            if part.engine is not None and part.engine.memory is not None:
                left = max(budget - kept, budget // 4)
                if abs(left - int(part.engine.memory.bytes or 0)) > budget // SLACK:
                    with suppress(MemoryFull):  # a join that sheds nothing keeps what it needs: see _check_room
                        part.engine.memory = Memory(f"{left} bytes", split=part.engine.memory.split)

    @property
    def metrics(self) -> ContinuousMetrics:
        """The counters now."""
        if self._waiting is None:
            return ContinuousMetrics({name: dict(Counts().__dict__) for name in self._make.names}, (), 0, 0, 0, 0)
        waiting, block = self.bound()
        streams = {
            name: {**counts.__dict__, "waiting": len(waiting.rows[name])} for name, counts in waiting.counts.items()
        }
        for name in waiting.setting.signs:
            window = next(part for part in block.held if isinstance(part, Deleted) and part.stream == name)
            streams[name] |= {"deleted": window.deleted, "unknown": window.unknown}
        joins = tuple((part.query, part.metrics) for part in self._joins())
        kept = self._kept_bytes()
        total = kept + sum(metrics.resident_bytes for _, metrics in joins)
        rows = sum(len(book) for book in self._books())
        return ContinuousMetrics(streams, joins, rows, kept, total, max(self._peak, total))

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
        self._check_whole()
        header: dict[str, Any] = {"cql": self._make.text, "bound": self._waiting is not None}
        if self._waiting is None:
            return form.write(header, [])
        waiting, block = self.bound()
        lines = [form.table_bytes(_beside(line.all())) for line in waiting.rows.values()]
        books = [book.saved() for book in self._books()]
        if self._budget() is not None:
            self._pack(lines, books)
        header |= {"budget": self._budget(), "memories": [_memory_of(part) for part in self._joins()]}
        header |= {"lateness": waiting.lateness, "over": waiting.over, "newest": list(waiting.newest.values())}
        header |= {"times": waiting.setting.times, "signs": dict(waiting.setting.signs)}
        header |= {"counts": [list(c.__dict__.values()) for c in waiting.counts.values()], "peak": self._peak}
        header["numbers"] = [_numbers(part) for part in block.held]
        parts: list[Any] = [schema.serialize() for schema in waiting.schemas.values()]
        parts += lines
        parts += [saved or b"" for saved in books]
        for part in self._joins():
            parts.append(b"" if part.engine is None else part.engine.snapshot())
        return form.write(header, parts)

    def _pack(self, lines: list[pa.Buffer], books: list[pa.Buffer | None]) -> None:
        """Keep as many bytes as whoever restores the snapshot: what is kept leaves the rest of a budget to the join."""
        waiting, block = self.bound()
        for name, line in zip(waiting.rows, lines, strict=True):
            waiting.rows[name] = _line(form.table_of(line), waiting.schemas[name])
        for book, saved in zip(self._books(), books, strict=True):
            if saved is not None:
                book.restore(saved)
        self._settle(block)

    def load(self, data: bytes) -> None:
        """Take over the state of a snapshot of the same query."""
        snap = form.read(data)
        header = snap.header
        if header.get("cql") != self._make.text:
            raise SnapshotError("the snapshot is of another query text: restore it with the text that it was taken of")
        if not header.get("bound"):
            return
        with read_strictly():
            parts = list(snap.parts)
            self.bind({name: pa.ipc.read_schema(parts.pop(0)) for name in self._make.names})
            waiting, block = self.bound()
            if header["times"] != waiting.setting.times or header["signs"] != waiting.setting.signs:
                raise SnapshotError("the snapshot was taken with other columns of times or signs: give the same ones")
            for name, newest, came in zip(self._make.names, header["newest"], header["counts"], strict=True):
                waiting.rows[name] = _line(form.table_of(parts.pop(0)), waiting.schemas[name])
                waiting.newest[name], waiting.counts[name] = _tick(newest), Counts(*counts(came).tolist())
            waiting.over, self._peak, waiting.lateness = _tick(header["over"]), header["peak"], header["lateness"]
            for part, numbers in zip(block.held, header["numbers"], strict=True):
                _take_over(part, counts(numbers).tolist())
            for book in self._books():
                if (saved := parts.pop(0)).size:
                    book.restore(saved)
            joins = [(part, parts.pop(0)) for part in self._joins()]
            if parts:
                raise ValueError("it has more parts than a query writes")
        same = header["budget"] == self._budget()
        for (part, saved), memory in zip(joins, header["memories"], strict=True):
            if saved.size:
                query = part.query if memory is None or not same else _with_memory(part.query, memory)
                part.engine = Engine.restore(saved.to_pybytes(), query)
        if not same:
            self._settle(block)


def _memory_of(part: Joined) -> int | None:
    """The bytes that a join has by now, if it has a budget in bytes."""
    memory = None if part.engine is None else part.engine.memory
    return None if memory is None or memory.bytes is None else int(memory.bytes)


def _with_memory(query: Query, size: int) -> Query:
    split = None if query.memory is None else query.memory.split
    return query.with_(memory=Memory(f"{size} bytes", split=split))


def _fails(part: Joined) -> bool:
    """Whether a join sheds nothing."""
    return part.query.on_full == "fail"


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _numbers(part: Any) -> list[int]:
    """What a part counts."""
    if isinstance(part, Deleted):
        return [part.window.count, part.deleted, part.unknown]
    return [part.count]


def _take_over(part: Any, numbers: list[int]) -> None:
    if isinstance(part, Deleted):
        part.window.count, part.deleted, part.unknown = numbers
    else:
        (part.count,) = numbers


def _beside(rows: Timed) -> pa.Table:
    return rows.table.append_column(AT_TICKS, pa.array(rows.at))


def _line(table: pa.Table, schema: pa.Schema) -> Line:
    at = np.array(table[AT_TICKS].to_numpy(), np.int64)
    rows = table.drop_columns([AT_TICKS])
    if not rows.schema.equals(schema):
        raise ValueError("rows that wait have other columns")
    line = Line(schema)
    line.add(Timed(rows, at))
    return line


def _tick(value: Any) -> int:
    if type(value) is not int or not -FOREVER <= value <= FOREVER:
        raise ValueError("it has times that are none")
    return value
