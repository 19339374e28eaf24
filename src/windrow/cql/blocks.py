"""The blocks of a query text as they run: each takes what came to its sources in a span of time, and gives its changes.

    sources -> windows -> join (the engine) -> conditions -> groups -> output -> Distinct -> Istream or Dstream

A block holds what its parts hold: windows their rows, joins their residents and, if somebody asks what leaves, their
matches, groups their totals. `run` gives a block all its rows in one span; nothing else is different.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.cql.expressions import evaluate, holds
from windrow.cql.joining import KEEP, columns_in, is_plain, join_query, other_conditions
from windrow.cql.naming import aggregate_name, resolve
from windrow.cql.syntax import Aggregate, Column, Select, Source, WindowText
from windrow.errors import CqlError, SpecError
from windrow.maintained.aggregates import Asked
from windrow.maintained.changes import Changes, Span
from windrow.maintained.groups import Groups
from windrow.maintained.joins import COUNTED, GIVEN, LASTING, Joined, Part
from windrow.maintained.relation import FOREVER, Timed
from windrow.maintained.windows import Deleted, Lasting, Latest
from windrow.state.coding_times import TimeDomain, duration_in_units

Windowed = Lasting | Latest | Deleted
Held = Windowed | Joined | Groups


@dataclass(frozen=True)
class Setting:
    """What all blocks of a text share: the text, each stream's columns, times and column of signs, the scale of times,
    and options of joins."""

    text: str
    columns: Mapping[str, Sequence[str]]
    times: Mapping[str, str | None]
    signs: Mapping[str, str]
    domain: TimeDomain
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Arriving:
    """What came in a span: the rows of each stream in order of time, which of them are deletions, and the span; `whole`
    if it is all that there is."""

    streams: Mapping[str, Timed]
    deletes: Mapping[str, Any]
    span: Span
    whole: bool = False


class BlockRun:
    """One block while it runs; `keeps` if somebody asks what leaves it."""

    def __init__(self, select: Select, setting: Setting, keeps: bool = True) -> None:
        self.select, self.setting = select, setting
        self.inner = {
            s.alias: BlockRun(s.what, setting, s.what.emit == "relation")
            for s in select.sources
            if isinstance(s.what, Select)
        }
        self.block = resolve(select, {s.alias: self._known(s) for s in select.sources}, setting.text)
        self.columns = [name for name, _ in self.block.items]
        plain = all(is_plain(s) and s.what not in setting.signs for s in select.sources)
        grouped = self.block.is_grouped or select.distinct
        # A match of streams is new whenever it is found: equal ones that leave at that instant do not undo it.
        self.each = plain and not grouped and select.emit == "istream"
        self.keeps = grouped or (select.emit != "relation" and not self.each) or (keeps and not self.each)
        self.windows = {s.alias: self._window(s) for s in select.sources if not self._is_relation(s)}
        self.joined = self._joined() if len(select.sources) > 1 else None
        asked = [
            Asked(aggregate_name(a), a.function, None if a.operand is None else f"({aggregate_name(a)})", a.distinct)
            for a in self.block.aggregates
        ]
        self.groups = Groups([str(c) for c in self.block.group], asked) if self.block.is_grouped else None
        self.distinct = Groups(self.columns, ()) if select.distinct else None

    @property
    def held(self) -> Iterator[Held]:
        """All parts of this block and of those in it that hold something, in a fixed order."""
        for inner in self.inner.values():
            yield from inner.held
        yield from self.windows.values()
        yield from (part for part in (self.joined, self.groups, self.distinct) if part is not None)

    def advance(self, arriving: Arriving) -> Changes | Timed:
        """What comes and leaves in a span; of a block that selects Istream or Dstream the rows of that stream."""
        changes = {s.alias: self._arrived(s, arriving) for s in self.select.sources}
        if self.joined is not None:
            given = {alias: own.with_tables(partial(self._with_keep, alias)) for alias, own in changes.items()}
            found = self.joined.advance(given, arriving.span, arriving.whole)
        else:
            found = self._single(self.select.sources[0], changes)
        for condition in self.block.rest:
            found = self._where(found, condition)
        if self.groups is not None:
            found = self.groups.advance(found.with_tables(self._operands), arriving.span)
            found = found if self.block.having is None else self._where(found, self.block.having)
        found = found.with_tables(self._output)
        if self.distinct is not None:
            found = self.distinct.advance(found, arriving.span)
        if self.select.emit == "relation":
            return found
        return Timed(found.came, found.since) if self.each else found.streamed(self.select.emit)

    def _where(self, changes: Changes, condition: Any) -> Changes:
        return changes.where(lambda table: holds(condition, table, _internal, self.setting.text))

    # ---------------------------------------------------------------------------------------- sources

    def _known(self, source: Source) -> Sequence[str]:
        if isinstance(source.what, Select):
            return self.inner[source.alias].columns
        sign = self.setting.signs.get(source.what)
        return [name for name in self.setting.columns[source.what] if name != sign]

    def _is_relation(self, source: Source) -> bool:
        relation = isinstance(source.what, Select) and source.what.emit == "relation"
        if relation and source.window is not None:
            what = "a window is for a stream, and this block is a relation: leave the window out, or select Istream"
            raise self._error(source.window, what)
        return relation

    def _window(self, source: Source) -> Windowed:
        """What makes a relation of the stream that a source is."""
        window = source.window or WindowText("unbounded")
        if window.kind == "partition":
            for name in window.by:
                if name not in self._known(source):
                    what = f"Partition By names the column {name!r}, which the stream does not have"
                    raise self._error(window, what)
        signed = source.what in self.setting.signs
        joined = len(self.select.sources) > 1
        found: Lasting | Latest
        if window.kind in ("partition", "rows"):
            found = Latest(window.rows or 1, window.by)
        else:
            found = Lasting(self._ticks(window), holds=signed or not joined)
        if not signed:
            return found
        by = tuple(name for name in self._known(source) if name != self.setting.times[str(source.what)])
        if not by:
            raise SpecError(f"stream {source.what!r} has no column by which a deletion could name its row")
        return Deleted(str(source.what), found, by)

    def _error(self, window: WindowText, what: str) -> CqlError:
        return CqlError.at(self.setting.text, window.place.line, window.place.column, what)

    def _ticks(self, window: WindowText) -> int | None:
        """For how many ticks a row is in; both ends of a range belong to it."""
        if window.kind == "unbounded":
            return None
        if window.kind == "now":
            return 1
        assert window.length is not None
        if self.setting.domain.kind == "rank":
            what = "a range is a length of time, and the streams have no time column: set time=, or use Rows"
            raise self._error(window, what)
        try:
            length = duration_in_units(window.length.amount, window.length.unit, self.setting.domain, "the window")
        except SpecError as error:
            raise self._error(window, str(error)) from None
        ticks = math.floor(length) + 1
        return ticks if ticks < FOREVER else None

    def _arrived(self, source: Source, arriving: Arriving) -> Changes:
        """The changes of a source."""
        found: Changes | Timed
        if isinstance(source.what, Select):
            found = self.inner[source.alias].advance(arriving)
        else:
            stream = arriving.streams[source.what]
            found = Timed(stream.table.select(self._read(source)), stream.at)
        if isinstance(found, Changes):
            return found
        window = self.windows[source.alias]
        if isinstance(window, Deleted):
            return window.advance(found, arriving.deletes[str(source.what)], arriving.span)
        return window.advance(found, arriving.span)

    def _read(self, source: Source) -> list[str]:
        """The columns of a stream that the block reads, at least one: a table without columns has no rows."""
        alias, window = source.alias, self.windows[source.alias]
        if isinstance(window, Deleted):
            return list(self._known(source))
        read = [*self.block.joins, *self.block.filters.get(alias, [])]
        names = [*self.block.needed(alias), *(c.name for e in read for c in columns_in(e) if c.of == alias)]
        names += window.by if isinstance(window, Latest) else ()
        return list(dict.fromkeys(names)) or [self._known(source)[0]]

    def _single(self, source: Source, changes: Mapping[str, Changes]) -> Changes:
        """The rows of the only source for which its conditions hold."""
        found = changes[source.alias].with_tables(lambda table: _renamed(table, source.alias)).seen()
        for condition in self.block.filters.get(source.alias, []):
            found = self._where(found, condition)
        return found

    # ------------------------------------------------------------------------------------------ joins

    def _joined(self) -> Joined:
        parts = [self._part(source) for source in self.select.sources]
        options = options_for(self.setting.options, self.block.aliases)
        query = join_query(self.block, [part.stream for part in parts], **options).with_(patience=0)
        return Joined(query, parts, self.keeps)

    def _part(self, source: Source) -> Part:
        window, alias, domain = self.windows.get(source.alias), source.alias, self.setting.domain
        if isinstance(window, Lasting):
            return Part(alias, domain, LASTING, window.ticks)
        if isinstance(window, Latest) and not window.by:
            return Part(alias, domain, COUNTED, window.rows)
        return Part(alias, domain, GIVEN)

    def _with_keep(self, alias: str, table: pa.Table) -> pa.Table:
        """The rows of a source with a column that says whether conditions hold which are no filters of the engine."""
        others = other_conditions(self.block, alias)
        if not others:
            return table
        renamed = _renamed(table, alias)
        masks = [holds(condition, renamed, _internal, self.setting.text) for condition in others]
        return table.append_column(KEEP, pa.array(np.logical_and.reduce(masks)))

    # ----------------------------------------------------------------------------------------- output

    def _operands(self, table: pa.Table) -> pa.Table:
        """The columns that groups read: keys and operands; at least one."""
        text = self.setting.text
        found = {str(column): table[str(column)] for column in self.block.group}
        for one in self.block.aggregates:
            if one.operand is not None:
                found[f"({aggregate_name(one)})"] = evaluate(one.operand, table, _internal, text)
        return pa.table(found) if found else pa.table({"(row)": pa.nulls(table.num_rows, pa.bool_())})

    def _output(self, table: pa.Table) -> pa.Table:
        columns = [evaluate(value, table, _internal, self.setting.text) for _, value in self.block.items]
        return pa.table(columns, names=self.columns)


def options_for(options: Mapping[str, Any], aliases: Sequence[str]) -> dict[str, Any]:
    """The options of one of several joins: of declared constraints those that speak of its sources."""
    declared = options.get("constraints")
    if declared is None or isinstance(declared, str) or not isinstance(declared, (list, tuple)):
        return dict(options)
    mine = [constraint for constraint in declared if set(constraint.streams) <= set(aliases)]
    return {**options, "constraints": mine or None}


def _renamed(table: pa.Table, alias: str) -> pa.Table:
    return table.rename_columns([f"{alias}.{name}" for name in table.column_names])


def _internal(expression: Column | Aggregate) -> str:
    return aggregate_name(expression) if isinstance(expression, Aggregate) else str(expression)
