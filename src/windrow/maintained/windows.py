"""Windows: the relation that a window makes of a stream, as rows come.

    Lasting    a row is in for a length of time, or for ever
    Latest     the last n rows are in, of the stream or of each part of it; a row leaves when the n-th after it comes
    Deleted    in front of them, where a stream brings deletions: a row leaves its window when it is deleted

A window holds the rows that are in, because whoever takes its changes is told what leaves. Of a stream whose window
the engine of a join has, a `Lasting` holds none (see joins.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.prepare import row_codes
from windrow.kernels.maintained import named_rows
from windrow.maintained.book import Book
from windrow.maintained.changes import BEFORE, NOTHING, Changes, Span
from windrow.maintained.relation import FOREVER, Ints, Timed, row_numbers, stacked, until_pushed_out


@dataclass
class Lasting:
    """Each row is in for so many ticks; None for ever. Rows that end are held until then, if somebody asks for them."""

    ticks: int | None
    holds: bool = True
    book: Book = field(default_factory=Book)
    count: int = 0

    def until(self, at: Ints) -> Ints:
        """When rows of these instants leave."""
        if self.ticks is None:
            return np.full(len(at), FOREVER)
        return np.where(at < FOREVER - self.ticks, at + self.ticks, FOREVER)

    def advance(self, stream: Timed, span: Span) -> Changes:
        """What comes and leaves in a span."""
        ids = self.count + np.arange(len(stream.at))
        self.count += len(ids)
        until = self.until(stream.at) if self.holds else np.full(len(ids), FOREVER)
        due = self.book.due(span.end)
        left, at, gone = self.book.take(due, stream.table), self.book.until(due), self.book.ids(due)
        self.book.drop(due)
        stays = np.flatnonzero((until > span.end) & (until < FOREVER))
        self.book.add(ids[stays], stream.table.take(pa.array(stays)), until[stays])
        return Changes(stream.table, stream.at, np.where(until > span.end, FOREVER, until), ids, left, at, gone)

    @property
    def books(self) -> list[Book]:
        """What it holds."""
        return [self.book]


@dataclass
class Latest:
    """The last rows of each part of a stream: of those with equal values in some columns, or of all."""

    rows: int
    by: tuple[str, ...] = ()
    book: Book = field(default_factory=lambda: Book(1))
    count: int = 0

    def advance(self, stream: Timed, span: Span) -> Changes:
        """What comes and leaves in a span."""
        ids = self.count + np.arange(len(stream.at))
        self.count += len(ids)
        codes = row_codes(stream.table, self.by)
        found, _ = self.book.find(0, np.unique(codes))
        held, held_ids = self.book.take(found, stream.table), self.book.ids(found)
        order = np.argsort(held_ids, kind="stable")
        found, held, held_ids = found.picked(order), held.take(pa.array(order)), held_ids[order]
        count = len(held_ids)
        parts = np.zeros(count + len(ids), np.int64)
        if self.by:  # codes may collide, values do not
            parts = row_numbers([stacked((held, stream.table), name) for name in self.by])
        until = until_pushed_out(np.concatenate([np.zeros(count, np.int64), stream.at]), parts, self.rows)
        gone = np.flatnonzero(until[:count] < FOREVER)
        self.book.drop(found.picked(gone))
        stays = np.flatnonzero(until[count:] == FOREVER)
        self.book.add(ids[stays], stream.table.take(pa.array(stays)), keys=[codes[stays]])
        left = held.take(pa.array(gone))
        return Changes(stream.table, stream.at, until[count:], ids, left, until[gone], held_ids[gone]).seen()

    @property
    def books(self) -> list[Book]:
        """What it holds."""
        return [self.book]


@dataclass
class Deleted:
    """Deletions of a stream, found among the rows that are in its window.

    A deletion takes effect at its instant, and names the oldest row that came before that instant and is equal in all
    columns but the time and the sign, or in those that are said to identify a row. One that finds none is ignored and
    counted.
    """

    stream: str
    window: Lasting | Latest
    by: tuple[str, ...]
    book: Book = field(default_factory=lambda: Book(2))
    deleted: int = 0
    unknown: int = 0

    def advance(self, stream: Timed, deletes: Any, span: Span) -> Changes:
        """What comes and leaves in a span; `deletes` says which rows of the stream are deletions."""
        k = np.flatnonzero(~deletes)
        rows = Timed(stream.table.take(pa.array(k)), stream.at[k])
        changes = self.window.advance(rows, span)
        gone = Timed(stream.table.take(pa.array(np.flatnonzero(deletes))), stream.at[deletes])
        return self._shortened(changes, gone)

    def _shortened(self, changes: Changes, gone: Timed) -> Changes:
        """The changes of the window, in which rows leave when they are deleted, and not again."""
        _, of = self.book.find(1, changes.left_ids)
        changes = changes.picked(np.ones(len(changes.since), np.bool_), np.isin(np.arange(len(changes.at)), of))
        held, _ = self.book.find(0, np.unique(row_codes(gone.table, self.by)))
        ids, count = self.book.ids(held), len(held)
        until = np.full(count, FOREVER)
        here, place = np.isin(ids, changes.left_ids), np.argsort(changes.left_ids)
        until[here] = changes.at[place[np.searchsorted(changes.left_ids, ids[here], sorter=place)]]
        target = self._targets(self.book.take(held, changes.came), changes, until, gone)
        done = target >= 0
        self.deleted, self.unknown = self.deleted + int(done.sum()), self.unknown + int((~done).sum())
        early, brief = done & (target < count), done & (target >= count)
        changed = changes.until.copy()
        changed[target[brief] - count] = gone.at[brief]
        taken = held.picked(target[early])
        stays = ~np.isin(changes.left_ids, self.book.ids(taken))
        left = pa.concat_tables([self.book.take(taken, changes.came), changes.left.filter(pa.array(stays))])
        at = np.concatenate([gone.at[early], changes.at[stays]])
        left_ids = np.concatenate([self.book.ids(taken), changes.left_ids[stays]])
        over, _ = self.book.find(1, np.unique(left_ids))
        self.book.drop(over)
        found = Changes(changes.came, changes.since, changed, changes.ids, left, at, left_ids).seen()
        rest = np.flatnonzero(found.until == FOREVER)
        rows = found.came.take(pa.array(rest))
        self.book.add(found.ids[rest], rows, keys=[row_codes(rows, self.by), found.ids[rest]])
        return found

    def _targets(self, held: pa.Table, changes: Changes, until: Ints, gone: Timed) -> Ints:
        """For each deletion, the row that it deletes, among those that are held and those that came; or -1."""
        rows, came = held.num_rows, len(changes.since)
        if not len(gone.at):
            return NOTHING
        tables = (held, changes.came, gone.table)
        numbers = row_numbers([stacked(tables, name) for name in self.by])
        since = np.concatenate([np.full(rows, BEFORE), changes.since])
        ends = np.concatenate([until, changes.until])
        ids = np.concatenate([np.full(rows, -1), changes.ids])
        mine = np.lexsort((np.arange(rows + came), ids, numbers[: rows + came]))
        deletions = np.lexsort((gone.at, numbers[rows + came :]))
        target = named_rows(
            numbers[mine], since[mine], ends[mine], numbers[rows + came :][deletions], gone.at[deletions]
        )
        found = np.full(len(gone.at), -1)
        found[deletions] = np.where(target >= 0, mine[np.maximum(target, 0)] if len(mine) else -1, -1)
        return found

    @property
    def books(self) -> list[Book]:
        """What it holds."""
        return [self.book, *self.window.books]
