"""`windrow.cql(text)`: a query text, read and checked, that can be explained and run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.cql.blocks import Arriving, BlockRun, Setting
from windrow.cql.continuous import Continuous
from windrow.cql.explaining import explained
from windrow.cql.joining import is_plain, join_query, other_conditions, plain_window
from windrow.cql.naming import columns_read, resolve
from windrow.cql.options import check_columns, checked_options
from windrow.cql.parsing import parse
from windrow.cql.results import CqlResult, result_of
from windrow.cql.syntax import Column, Select, Source
from windrow.cql.waiting import instants
from windrow.engine.intake import as_table, plain_schemas
from windrow.errors import CqlError, InputError, SpecError, UnknownColumn, alternatives
from windrow.maintained.changes import BEFORE, Span
from windrow.maintained.joins import Joined
from windrow.maintained.relation import FOREVER, Relation, Timed
from windrow.spec import Duration, DurationLike, Output, Query, Stream
from windrow.spec.durations import parse_duration
from windrow.state.coding_times import duration_in_units, time_domain

_NO_QUERY = (
    "only one join of streams that selects Istream of their columns is a Query (any text runs batch by batch: start, "
    "on_spark)"
)

Times = str | Mapping[str, str] | None


class _NoQuery(SpecError):
    """A text is no `windrow.Query`."""


class Cql:
    """A query text that has been read: names of streams and columns are looked up when tables are given.

    >>> import pyarrow as pa
    >>> query = Cql("Select Istream(L.k, R.v) From L [Range 5], R [Range 5] Where L.k = R.k")
    >>> tables = {"L": pa.table({"t": [1, 2], "k": [1, 2]}), "R": pa.table({"t": [4, 9], "k": [1, 2], "v": ["a", "b"]})}
    >>> query.run(tables, time="t").table.to_pylist()
    [{'at': 4, 'k': 1, 'v': 'a'}]
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree: Select = parse(text)
        for select in _selects(self.tree):
            self._check_sources(select)

    def _check_sources(self, select: Select) -> None:
        seen: set[str] = set()
        for source in select.sources:
            place = source.place
            if not source.alias.isidentifier():
                what = f"a source needs a name of letters, digits and underscores here: {source.alias!r} As name"
                raise CqlError.at(self.text, place.line, place.column, what)
            if source.alias in seen:
                what = f"two sources are called {source.alias!r}: give one another name with As"
                raise CqlError.at(self.text, place.line, place.column, what)
            seen.add(source.alias)

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """The streams that the text names, in the order in which it does."""
        return tuple(dict.fromkeys(s.what for s in _sources(self.tree) if isinstance(s.what, str)))

    def run(
        self, tables: Mapping[str, Any], time: Times = None, *, lateness: DurationLike | None = None, **options: Any
    ) -> CqlResult:
        """Run the query over whole tables, as if their rows came one after the other in order of time.

        Parameters:
            tables: Arrow tables, pandas or Polars data frames, by the names of the streams.
            time: the column with the event time, for all streams or for each; None takes the one column of moments or
                dates that a table has. Where no table has one, the number of a row is its time.
            lateness: how far behind the newest row before it in its table a row may come; those that come later are
                left out, and counted in the result's `late`. None takes all rows.
            options: of the joins: memory, policy, constraints, and the like, as in `windrow.Query`. A budget is for one
                join, so a text with several of them takes none.
        """
        options = self._checked(options, time)
        self._check_given(tables)
        given = {name: as_table(tables[name], name) for name in self.streams}
        setting = self._setting({name: table.schema for name, table in given.items()}, time, {}, options)
        most = None if lateness is None else _ticks(parse_duration(lateness, "lateness"), setting)
        streams, late = {}, {}
        for name, table in given.items():
            streams[name], late[name] = _in_order(table, name, setting, most)
        newest = max((int(stream.at[-1]) for stream in streams.values() if len(stream.at)), default=0)
        block = BlockRun(self.tree, setting)
        found = block.advance(Arriving(streams, {}, Span(BEFORE, FOREVER - 1), whole=True))
        joins = [(part.query, part.metrics) for part in block.held if isinstance(part, Joined)]
        data = found if isinstance(found, Timed) else Relation(found.came, found.since, found.until)
        return result_of(data, setting.domain, newest, joins, late)

    def start(
        self,
        schemas: Mapping[str, pa.Schema] | None = None,
        time: Times = None,
        *,
        sign: Times = None,
        lateness: DurationLike = 0,
        **options: Any,
    ) -> Continuous:
        """The query over streams that go on: an object to `push` batches to, which gives what changes.

        Parameters:
            schemas: each stream's Arrow schema; taken from the first push if they are not given.
            time: the column with the event time, for all streams or for each; see `run`.
            sign: for streams that bring deletions, the column that says so by a number below zero: the name, or names
                by stream. A deletion is of the oldest row that is in the window and equal in all other columns but the
                time; one that finds none is ignored and counted.
            lateness: how far behind the newest time of its stream a row may come.
            options: of the joins, as in `run`. A budget in bytes is for all that the query holds.
        """
        options = self._checked(options, time, sign)
        found = Continuous(self.tree, _Start(self, time, sign, options), parse_duration(lateness, "lateness"))
        if schemas is not None:
            self._check_given(schemas)
            found.bind(plain_schemas({name: schemas[name] for name in self.streams}, self.streams))
        return found

    def restore(
        self, data: bytes, time: Times = None, *, sign: Times = None, lateness: DurationLike = 0, **options: Any
    ) -> Continuous:
        """The running query of a snapshot, with the settings that it was started with; memory may be another."""
        found = self.start(None, time, sign=sign, lateness=lateness, **options)
        found.load(data)
        return found

    def explain(self, tables: Mapping[str, Any] | None = None) -> str:
        """What the query does, block by block: windows, join graph, covers, and which constraints could help."""
        known = None if tables is None else {n: as_table(data, n).column_names for n, data in tables.items()}
        return explained(self.tree, self.text, known)

    def query(self, time: Times = None, tables: Mapping[str, Any] | None = None, **options: Any) -> Query:
        """The text as a `windrow.Query`, to push batches to, if it is one join of streams and selects their columns.

        Parameters:
            time: the column with the event time, for all streams or for each.
            tables: where names are looked up; without them every column must say which source it is of.
            options: memory, policy, constraints, and the like, as in `windrow.Query`.
        """
        options = self._checked(options, time)
        given = {name: as_table(data, name) for name, data in (tables or {}).items()}
        clocks = {name: _of(time, name) for name in self.streams}
        whole = any(pa.types.is_integer(t.schema.field(clocks[n]).type) for n, t in given.items() if clocks.get(n))
        return self._as_query({name: table.column_names for name, table in given.items()}, clocks, options, whole)

    def on_spark(
        self,
        frames: Mapping[str, Any],
        time: Times = None,
        *,
        sign: Times = None,
        lateness: DurationLike | None = None,
        archive: Any = None,
        recall: bool = True,
        **options: Any,
    ) -> Any:
        """The query over Spark DataFrames, streaming or batch, by the names of the streams: a DataFrame.

        A text that `query` takes is joined in shards, and gives its matches: see `windrow.spark.on_spark`. Any other,
        and one with windows in rows or with deletions, runs as one task, and gives what `push` gives, micro-batch by
        micro-batch; over batch frames the table of `run`.

        Parameters:
            time: as in `run`; where it is not given, the one column of moments or dates of a frame.
            sign, lateness: as in `start`; the lateness may also be declared by `withWatermark`.
            archive, recall: of texts that are joined in shards.
            options: of the joins, as in `run`.
        """
        from windrow.spark.frames import check_frames
        from windrow.spark.texts import text_on_spark

        self._check_given(frames)
        options = self._checked(options, time, sign)
        check_frames(self.streams, frames)
        known = {name: list(frame.columns) for name, frame in frames.items()}
        clocks = {name: _chosen_time(name, known[name], _moments_of(frame), time) for name, frame in frames.items()}
        query = None if sign is not None else self._in_shards(known, clocks, lateness, options)
        if query is not None:
            by_alias = {source.alias: frames[str(source.what)] for source in self.tree.sources}
            return query.on_spark(by_alias, archive=archive, recall=recall)
        if archive is not None or not recall:
            raise SpecError("archive= and recall= are for texts that are one join of streams, without windows in rows")
        explained(self.tree, self.text, known)  # for its errors, which name all the columns there are
        always = {name: known[name] if sign is not None else [str(clock)] for name, clock in clocks.items()}
        columns = columns_read(_selects(self.tree), known, always)
        return text_on_spark(self, frames, columns, clocks, sign=sign, lateness=lateness, options=options)

    def _in_shards(
        self, known: Mapping[str, Any], clocks: Mapping[str, str | None], lateness: Any, options: Mapping[str, Any]
    ) -> Query | None:
        """The query, if that is what the text is, and one that can be cut into shards."""
        try:
            query = self._as_query(known, clocks, options)
        except _NoQuery:
            return None
        if any(stream.window.kind == "rows" for stream in query.streams):
            return None
        late = 0 if lateness is None else lateness
        return query.with_(streams=[stream.with_(lateness=late) for stream in query.streams])

    def _as_query(
        self,
        known: Mapping[str, Any],
        clocks: Mapping[str, str | None],
        options: Mapping[str, Any],
        whole: bool = False,
    ) -> Query:
        """The query; `whole` if times are known to be whole numbers."""
        tree = self.tree
        if len(tree.sources) < 2 or not all(map(is_plain, tree.sources)):
            raise _NoQuery(f"{_NO_QUERY}: this one joins no streams, has blocks in it or partitioned windows")
        block = resolve(tree, {s.alias: known.get(str(s.what)) for s in tree.sources}, self.text)
        if tree.emit != "istream" or tree.distinct or block.is_grouped:
            raise _NoQuery(f"{_NO_QUERY}: this one has no Istream, is grouped or Distinct")
        if block.rest or any(other_conditions(block, alias) for alias in block.aliases):
            raise _NoQuery(f"{_NO_QUERY}: this one has conditions that are no comparison of columns and constants")
        if block.open or not all(isinstance(value, Column) for _, value in block.items):
            raise _NoQuery(f"{_NO_QUERY}: this one selects expressions, or * of streams whose columns are not known")
        windows = [s.window for s in tree.sources if s.window is not None and s.window.length is not None]
        timed = not whole and all(w.length.unit == "ns" for w in windows if w.length is not None)
        streams = [Stream(s.alias, clocks[str(s.what)], plain_window(s.window, timed)) for s in tree.sources]
        return join_query(block, streams, [Output(str(value), name) for name, value in block.items], **options)

    def _checked(self, options: Mapping[str, Any], time: Times = None, sign: Times = None) -> dict[str, Any]:
        """The options; what is said beside the text and cannot be meant is refused."""
        check_columns("time", time, self.streams)
        check_columns("sign", sign, self.streams)
        signed = [name for name in self.streams if _of(sign, name) is not None]
        return checked_options(list(_selects(self.tree)), self.text, options, signed)

    def _check_given(self, tables: Mapping[str, Any]) -> None:
        for name in tables:
            if name not in self.streams:
                raise InputError(f"the query has no stream {name!r}{alternatives(name, self.streams, 'streams')}")
        if missing := [name for name in self.streams if name not in tables]:
            raise InputError(f"there is no table for the stream {missing[0]!r}")

    def _setting(
        self, schemas: Mapping[str, pa.Schema], time: Times, signs: Mapping[str, str], options: Mapping[str, Any]
    ) -> Setting:
        """What the blocks of the text share, for streams of these columns."""
        clocks = {name: _time_column(name, schema, time) for name, schema in schemas.items()}
        if None in clocks.values() and any(clocks.values()):
            bare = next(name for name, clock in clocks.items() if clock is None)
            raise InputError(f"stream {bare!r} has no column of times, and others have: say which with time=")
        kinds = [None if clocks[name] is None else schema.field(clocks[name]).type for name, schema in schemas.items()]
        domain = time_domain(kinds, [f"{name}.{clocks[name]}" for name in schemas])
        return Setting(self.text, {n: s.names for n, s in schemas.items()}, clocks, signs, domain, options)


@dataclass(frozen=True)
class _Start:
    """What a running query was started with."""

    query: Cql
    time: Times
    sign: Times
    options: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the streams."""
        return self.query.streams

    @property
    def text(self) -> str:
        """The query's text."""
        return self.query.text

    def setting(self, schemas: Mapping[str, pa.Schema]) -> Setting:
        """What the blocks share, for streams of these columns."""
        signs = {name: column for name in self.names if (column := _of(self.sign, name)) is not None}
        for name, column in signs.items():
            if column not in schemas[name].names:
                raise UnknownColumn.of(column, schemas[name].names, f"sign: stream {name!r}")
        return self.query._setting(schemas, self.time, signs, self.options)

    def ticks(self, lateness: Duration, setting: Setting) -> int:
        """The lateness in ticks."""
        return _ticks(lateness, setting)


def _ticks(lateness: Duration, setting: Setting) -> int:
    """A lateness in ticks."""
    if lateness.amount and setting.domain.kind == "rank":
        raise SpecError("lateness is a length of time, and the streams have no time column: set time=")
    return math.ceil(duration_in_units(lateness.amount, lateness.unit, setting.domain, "lateness"))


def _in_order(table: pa.Table, name: str, setting: Setting, lateness: int | None) -> tuple[Timed, int]:
    """The rows of a whole table in order of time, and how many came too late to be among them."""
    at, rows = instants(table, name, setting)
    late = 0
    if lateness is not None and len(rows):
        on_time = np.maximum.accumulate(at[rows]) - at[rows] <= lateness
        late, rows = int(len(rows) - on_time.sum()), rows[on_time]
    order = rows[np.argsort(at[rows], kind="stable")]
    return Timed(table.take(pa.array(order)), at[order]), late


def _time_column(name: str, schema: pa.Schema, time: Times) -> str | None:
    moments = [f.name for f in schema if pa.types.is_timestamp(f.type) or pa.types.is_date(f.type)]
    return _chosen_time(name, schema.names, moments, time)


def _moments_of(frame: Any) -> list[str]:
    """The columns of a Spark DataFrame with moments or dates."""
    return [name for name, kind in frame.dtypes if kind in ("timestamp", "timestamp_ntz", "date")]


def _chosen_time(name: str, columns: Sequence[str], moments: Sequence[str], time: Times) -> str | None:
    if time is not None:
        column = _of(time, name)
        if column is None:
            raise InputError(f"time says nothing of stream {name!r}: name its column of times")
        if column not in columns:
            raise UnknownColumn.of(column, columns, f"time: stream {name!r}")
        return column
    if len(moments) > 1:
        raise InputError(f"stream {name!r} has several columns of times ({', '.join(moments)}): say which with time=")
    return moments[0] if moments else None


def _of(columns: Times, name: str) -> str | None:
    """The column of one stream."""
    return columns.get(name) if isinstance(columns, Mapping) else columns


def _selects(select: Select) -> Iterator[Select]:
    """A block and all blocks in it."""
    yield select
    for source in select.sources:
        if isinstance(source.what, Select):
            yield from _selects(source.what)


def _sources(select: Select) -> Iterator[Source]:
    return (source for block in _selects(select) for source in block.sources)
