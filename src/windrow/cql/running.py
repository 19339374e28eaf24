"""A query text over whole tables: blocks from the inside out, joins on the engine, everything else on whole columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.cql.aggregates import Groups, Wanted
from windrow.cql.expressions import evaluate, holds
from windrow.cql.joining import KEEP, SINCE, UNTIL, Part, is_plain, join_query, other_conditions, plain_window
from windrow.cql.naming import Block, aggregate_name, resolve
from windrow.cql.relation import FOREVER, Relation, Timed, distinct, streamed, windowed
from windrow.cql.syntax import Aggregate, Column, Select, Source, WindowText, walk
from windrow.engine import Metrics
from windrow.errors import CqlError, SpecError
from windrow.feed import engine_for, run
from windrow.spec import Query, Stream, Window
from windrow.state.coding_times import TimeDomain, duration_in_units


@dataclass(frozen=True)
class Streams:
    """The streams that a text names, in order of time, and the scale of their times."""

    tables: Mapping[str, Timed]
    times: Mapping[str, str | None]
    domain: TimeDomain


@dataclass
class Run:
    """One run of a query text."""

    text: str
    streams: Streams
    options: Mapping[str, Any]
    joins: list[tuple[Query, Metrics]] = field(default_factory=list)
    """Every join that was run, from the inside out, with what it cost."""

    def block(self, select: Select) -> Relation | Timed:
        """What a block gives: a relation, or a stream if it says so."""
        sources = {source.alias: self._source(source) for source in select.sources}
        block = resolve(select, {alias: data.table.column_names for alias, data in sources.items()}, self.text)
        only = select.sources[0]
        relation = self._single(block, only, sources[only.alias]) if len(sources) == 1 else self._joined(block, sources)
        for condition in block.rest:
            relation = relation.where(holds(condition, relation.table, _internal, self.text))
        # A match of streams is new whenever it is found: equal ones that leave at that instant do not undo it.
        each = not block.is_grouped and not select.distinct and all(map(is_plain, select.sources))
        relation = self._grouped(block, relation) if block.is_grouped else relation
        relation = Relation(self._output(block, relation), relation.since, relation.until)
        if select.distinct:
            relation = distinct(relation)
        if select.emit == "relation":
            return relation
        if each and select.emit == "istream":
            order = np.argsort(relation.since, kind="stable")
            return Timed(relation.table.take(pa.array(order)), relation.since[order])
        return streamed(relation, select.emit)

    # ---------------------------------------------------------------------------------------- sources

    def _source(self, source: Source) -> Relation | Timed:
        """A stream's rows as they are, or the relation that a block is."""
        if isinstance(source.what, str):
            return self.streams.tables[source.what]
        found = self.block(source.what)
        if isinstance(found, Relation) and source.window is not None:
            place = source.window.place
            what = "a window is for a stream, and this block is a relation: leave the window out, or select Istream"
            raise CqlError.at(self.text, place.line, place.column, what)
        return found

    def _relation(self, source: Source, data: Relation | Timed) -> Relation:
        """What is in the source at each instant."""
        if isinstance(data, Relation):
            return data
        window = source.window or WindowText("unbounded")
        if window.kind == "partition":
            self._check_parts(window, data.table)
            return windowed(data, "partition", window.rows or 1, window.by)
        if window.kind == "rows":
            return windowed(data, "rows", window.rows or 1)
        if window.kind == "unbounded":
            return windowed(data, "unbounded", 0)
        return windowed(data, "range", 0 if window.kind == "now" else self._ticks(window))

    def _check_parts(self, window: WindowText, table: pa.Table) -> None:
        for name in window.by:
            if name not in table.column_names:
                what = f"Partition By names the column {name!r}, which the stream does not have"
                raise CqlError.at(self.text, window.place.line, window.place.column, what)

    def _ticks(self, window: WindowText) -> int:
        assert window.length is not None
        place = window.place
        if self.streams.domain.kind == "rank":
            what = "a range is a length of time, and the streams have no time column: set time=, or use Rows"
            raise CqlError.at(self.text, place.line, place.column, what)
        try:
            length = duration_in_units(window.length.amount, window.length.unit, self.streams.domain, "the window")
        except SpecError as error:
            raise CqlError.at(self.text, place.line, place.column, str(error)) from None
        return min(math.floor(length), FOREVER)

    # ------------------------------------------------------------------------------------------ joins

    def _single(self, block: Block, source: Source, data: Relation | Timed) -> Relation:
        relation = self._relation(source, data).seen()
        renamed = relation.table.rename_columns([f"{source.alias}.{name}" for name in relation.table.column_names])
        relation = Relation(renamed, relation.since, relation.until)
        for condition in block.filters.get(source.alias, []):
            relation = relation.where(holds(condition, relation.table, _internal, self.text))
        return relation

    def _joined(self, block: Block, sources: Mapping[str, Relation | Timed]) -> Relation:
        """The matches of all sources, each in for as long as all its rows are."""
        plain = all(map(is_plain, block.select.sources))
        parts, tables = [], {}
        for source in block.select.sources:
            relation = self._relation(source, sources[source.alias])
            part = self._part(source, relation, plain)
            parts.append(part)
            tables[source.alias] = self._table(block, source, relation if is_plain(source) else relation.seen(), part)
        query = join_query(block, parts, **self.options)
        engine = engine_for(query, tables)
        matches = pa.concat_tables(run(engine, tables))
        self.joins.append((query, engine.metrics))
        since = np.max([matches[f"{part.alias}.{SINCE}"].to_numpy() for part in parts], axis=0)
        until = np.min([matches[f"{part.alias}.{UNTIL}"].to_numpy() for part in parts], axis=0)
        hidden = [f"{part.alias}.{name}" for part in parts for name in (SINCE, UNTIL)]
        return Relation(matches.drop_columns(hidden), since.astype(np.int64), until.astype(np.int64)).seen()

    def _part(self, source: Source, relation: Relation, plain: bool) -> Part:
        if plain:
            time = self.streams.times[str(source.what)]
            window = plain_window(source.window, self.streams.domain.unit != "steps")
            return Part(Stream(source.alias, time, window))
        if is_plain(source) and (source.window is None or source.window.kind in ("rows", "unbounded")):
            return Part(Stream(source.alias, SINCE, plain_window(source.window)))
        kept = relation.seen()
        longest = int((kept.until - kept.since).max(initial=1))
        if len(kept.until) and int(kept.until.max()) >= FOREVER:
            return Part(Stream(source.alias, SINCE), by_until=True)
        return Part(Stream(source.alias, SINCE, Window.time(longest)), by_until=not is_plain(source))

    def _table(self, block: Block, source: Source, relation: Relation, part: Part) -> pa.Table:
        """The columns of a source that the join reads or gives, and the first and last instant of each row."""
        alias = source.alias
        joined = [end.name for join in block.joins for end in _columns(join) if end.of == alias]
        filtered = [c.name for condition in block.filters.get(alias, []) for c in _columns(condition)]
        timed = [part.stream.time] if part.stream.time not in (None, SINCE) else []
        names = list(dict.fromkeys([*block.needed(alias), *joined, *filtered, *timed]))
        table = relation.table.select(names)
        table = table.append_column(SINCE, pa.array(relation.since)).append_column(UNTIL, pa.array(relation.until))
        others = other_conditions(block, alias)
        if others:
            renamed = relation.table.rename_columns([f"{alias}.{name}" for name in relation.table.column_names])
            mask = np.logical_and.reduce([holds(condition, renamed, _internal, self.text) for condition in others])
            table = table.append_column(KEEP, pa.array(mask))
        return table

    # ----------------------------------------------------------------------------------------- output

    def _grouped(self, block: Block, relation: Relation) -> Relation:
        table = relation.table
        keys = {str(column): table[str(column)] for column in block.group}
        wanted = []
        for aggregate in block.aggregates:
            values = None if aggregate.operand is None else evaluate(aggregate.operand, table, _internal, self.text)
            wanted.append(Wanted(aggregate_name(aggregate), aggregate.function, values, aggregate.distinct))
        found = Groups(relation, list(keys.values())).result(keys, wanted)
        if block.having is not None:
            found = found.where(holds(block.having, found.table, _internal, self.text))
        return found

    def _output(self, block: Block, relation: Relation) -> pa.Table:
        columns = [evaluate(value, relation.table, _internal, self.text) for _, value in block.items]
        return pa.table(columns, names=[name for name, _ in block.items])


def _internal(expression: Column | Aggregate) -> str:
    return aggregate_name(expression) if isinstance(expression, Aggregate) else str(expression)


def _columns(expression: Any) -> list[Column]:
    return [part for part in walk(expression) if isinstance(part, Column)]
