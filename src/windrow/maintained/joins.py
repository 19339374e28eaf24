"""Joins: the matches of relations that change, found by an engine, each in for as long as all its rows are.

A row comes to the engine when it comes into its relation. How it leaves depends on what it is a row of:

    LASTING    a stream with a window in time, or none: the engine has that window, and the end is known in advance
    COUNTED    a stream with a window in rows: the engine has it, too; the ends come with the changes
    GIVEN      anything else: the engine is told by a deletion

A match leaves when the first of its rows does. It is held until then with its columns, found by the time that is known
or by the numbers of its rows, so a row that the engine has released meanwhile is not needed for it. Where nobody asks
what leaves, nothing is held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from windrow.engine import Engine, Metrics
from windrow.feed import engine_for, run
from windrow.maintained.book import Book, Found
from windrow.maintained.changes import Changes, Span
from windrow.maintained.relation import FOREVER, Ints
from windrow.spec import Duration, Query, Stream, Window
from windrow.state.coding_numbers import NANOSECONDS
from windrow.state.coding_times import TimeDomain

SINCE, ROW, SIGN = "(since)", "(row)", "(sign)"
"""Columns that the join adds to each of its streams: when a row came, its number, and whether it comes or leaves."""

LASTING, COUNTED, GIVEN = "lasting", "counted", "given"


@dataclass(frozen=True)
class Part:
    """One of the relations: its name, the scale of its times, how its rows leave; `length` is in ticks, or in rows."""

    name: str
    domain: TimeDomain
    kind: str
    length: int | None = None

    @property
    def stream(self) -> Stream:
        """It as a stream of the engine."""
        if self.kind == GIVEN:
            return Stream(self.name, SINCE, sign=SIGN, identity=[ROW])
        if self.kind == COUNTED:
            return Stream(self.name, SINCE, Window.rows(self.length or 1))
        return Stream(self.name, SINCE, Window.unbounded() if self.length is None else self._range(self.length))

    def _range(self, ticks: int) -> Window:
        """The window of rows that are in for so many ticks, as a range with both ends."""
        unit = self.domain.unit
        length = Duration(ticks - 1, "steps") if unit == "steps" else Duration((ticks - 1) * NANOSECONDS[unit], "ns")
        if ticks == 1:  # the shortest window there is holds the instant alone
            return Window.time(Duration(1, "steps" if unit == "steps" else "ns"))
        return Window.time(length, closed="both")

    def rows(self, changes: Changes) -> pa.Table:
        """What the engine is given of the changes of a span."""
        if self.kind != GIVEN:
            return self._marked(changes.came, changes.since, changes.ids)
        brief = np.flatnonzero(changes.until < FOREVER)
        tables = [
            self._marked(changes.left, changes.at, changes.left_ids, -1),
            self._marked(changes.came, changes.since, changes.ids, 1),
            self._marked(changes.came.take(pa.array(brief)), changes.until[brief], changes.ids[brief], -1),
        ]
        return pa.concat_tables(tables)

    def _marked(self, table: pa.Table, at: Ints, ids: Ints, sign: int = 0) -> pa.Table:
        moments = pa.array(at).cast(self.domain.arrow_type)
        table = table.append_column(SINCE, moments).append_column(ROW, pa.array(ids))
        return table.append_column(SIGN, pa.array(np.full(len(at), sign, np.int8))) if sign else table


class Joined:
    """A join whose matches are kept up to date; `keeps` if somebody asks what leaves."""

    def __init__(self, query: Query, parts: Sequence[Part], keeps: bool) -> None:
        self.query, self.parts, self.keeps = query, tuple(parts), keeps
        self.ending = [part.name for part in parts if part.kind != LASTING]
        self.book = Book(len(self.ending))
        self.count = 0
        self.engine: Engine | None = None

    @property
    def books(self) -> list[Book]:
        """What it holds beside the engine."""
        return [self.book]

    @property
    def metrics(self) -> Metrics:
        """What the engine says."""
        return Engine(self.query).metrics if self.engine is None else self.engine.metrics

    def advance(self, changes: Mapping[str, Changes], span: Span, whole: bool = False) -> Changes:
        """What comes and leaves among the matches in a span; `whole` if it is all that there is."""
        matches = self._matches({part.name: part.rows(changes[part.name]) for part in self.parts}, span, whole)
        ends = {name: changes[name].ends() for name in self.ending}
        since = np.max([_words(matches, part.name, SINCE) for part in self.parts], axis=0)
        until = np.min([self._until(part, matches, ends) for part in self.parts], axis=0)
        keys = [_words(matches, name, ROW) for name in self.ending]
        hidden = [f"{part.name}.{own}" for part in self.parts for own in (SINCE, ROW)]
        if len(hidden) == matches.num_columns:  # a table without columns has no rows
            matches = matches.append_column(ROW, pa.nulls(matches.num_rows, pa.bool_()))
        table = matches.drop_columns(hidden)
        seen = np.flatnonzero(since < until)
        order = seen[np.argsort(since[seen], kind="stable")]
        table, since, until = table.take(pa.array(order)), since[order], until[order]
        ids = self.count + np.arange(len(order))
        self.count += len(order)
        none = table.slice(0, 0)
        found = Changes(table, since, np.full(len(since), FOREVER), ids, none, *(np.zeros(0, np.int64),) * 2)
        return self._held(found, until, [key[order] for key in keys], ends, span) if self.keeps else found

    def _matches(self, tables: dict[str, pa.Table], span: Span, whole: bool) -> pa.Table:
        if whole:
            self.engine = engine_for(self.query, tables)
            self.query = self.engine.query
            return pa.concat_tables(run(self.engine, tables))
        if self.engine is None:
            self.engine = Engine(self.query, {name: table.schema for name, table in tables.items()})
        found = self.engine.push(tables)
        self.engine.push({}, watermark=min(span.end + 1, FOREVER))  # which would make rows of the same push late
        return found

    def _until(self, part: Part, matches: pa.Table, ends: Mapping[str, tuple[Ints, Ints]]) -> Ints:
        """When the rows of a part leave, as far as that is known."""
        if part.kind == LASTING:
            at = _words(matches, part.name, SINCE)
            if part.length is None:
                return np.full(len(at), FOREVER)
            return np.where(at < FOREVER - part.length, at + part.length, FOREVER)
        ids, at = ends[part.name]
        rows = _words(matches, part.name, ROW)
        place = np.minimum(np.searchsorted(ids, rows), max(len(ids) - 1, 0))
        return np.where(ids[place] == rows, at[place], FOREVER) if len(ids) else np.full(len(rows), FOREVER)

    def _held(
        self, found: Changes, until: Ints, keys: list[Ints], ends: Mapping[str, tuple[Ints, Ints]], span: Span
    ) -> Changes:
        """The changes with what leaves; what stays is held."""
        due = self.book.due(span.end)
        leaving, times = [due], [self.book.until(due)]
        for which, name in enumerate(self.ending):
            hit, of = self.book.find(which, ends[name][0])
            leaving.append(hit)
            times.append(ends[name][1][of])
        gone, at = _first(leaving, times)
        left = replace(
            found, until=np.where(until > span.end, FOREVER, until), left=self.book.take(gone, found.came), at=at,
            left_ids=self.book.ids(gone),
        )  # fmt: skip
        self.book.drop(gone)
        stay = np.flatnonzero(until > span.end)
        self.book.add(found.ids[stay], found.came.take(pa.array(stay)), until[stay], [key[stay] for key in keys])
        return left


def _first(found: Sequence[Found], times: Sequence[Ints]) -> tuple[Found, Ints]:
    """Rows of a book, each once, with the first of its times."""
    chunk, row = (np.concatenate([getattr(one, name) for one in found]) for name in ("chunk", "row"))
    at = np.concatenate(times)
    order = np.lexsort((at, row, chunk))
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (np.diff(chunk[order]) != 0) | (np.diff(row[order]) != 0)
    kept = order[fresh]
    return Found(chunk[kept], row[kept]), at[kept]


def _words(matches: pa.Table, name: str, column: str) -> Ints:
    return np.asarray(matches[f"{name}.{column}"].cast(pa.int64()))
