"""Bound: a query and its streams' schemas, as sites see them: which columns travel, how long rows live, which interval.

The wire form of a row has its columns as "stream.column", and before them

    @time      the time of the row that started it (int64, in units of the query's times)
    @number    its number in its stream, where the stream's window is in rows
    @time.s    the time of its row of stream s, where ties with a later stream must be told (see `tie_times`)
    @head      the place of the stream whose row started it, where that differs from row to row   (tree ordering)
    @until     the last moment at which all its rows are in their windows                         (tree ordering)

Only columns that a later predicate or the output asks for are there.

An interval is a piece of event time: interval i holds the times from `origin + i tau` to below `origin + (i + 1) tau`.
Of two rows, the earlier one is the one that is less by (time, place of the stream in the query, sequence).

In a tree, joined rows are a stream of their own: its name has the streams that are in it, as in "a+b".
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.bind import Binding, bind
from windrow.engine.intake import plain_schemas
from windrow.errors import SpecError
from windrow.kernels.layout import ENDLESS, LATEST, LOW
from windrow.sites.equalities import Connections, by_stream, classes
from windrow.spec import Equal, Query, split_reference
from windrow.spec.durations import Duration
from windrow.spec.predicates import Predicate
from windrow.state.coding import duration_in_units
from windrow.state.coding_types import common_key_type

TIME, NUMBER, HEAD, UNTIL = "@time", "@number", "@head", "@until"
NEVER = LATEST - 1  # the last moment of a row that does not expire


@dataclass(frozen=True)
class Life:
    """How long rows of a stream can be matched: a distance in time, from a landmark on, or a number of rows."""

    reach: int | None  # the largest distance in time (None: any)
    since: int | None  # rows before it are matched by nobody
    near: bool  # whether a row of the same instant is matched
    rows: int | None  # or the last so many rows of the stream


class Bound:
    """A query with schemas and intervals."""

    def __init__(
        self,
        query: Query,
        schemas: dict[str, pa.Schema],
        tau: Duration,
        origin: int = 0,
        dense_counts: bool = False,
        tree: bool = False,
    ) -> None:
        check_query(query)
        self.query = query
        self.schemas = plain_schemas(schemas, query.names)
        plain = query.with_(memory=None, policy="fifo", sample=None, shards=None, order="time")
        self.binding: Binding = bind(plain, self.schemas)
        units = duration_in_units(tau.amount, tau.unit, self.binding.domain, "the interval")
        if units < 1 or units.denominator != 1:
            raise SpecError(
                f"the interval {tau} must be a whole number of units of the times, which count in {self.unit}"
            )
        self.tau, self.origin = int(units), origin
        self.dense_counts, self.tree = dense_counts, tree
        self._schemas: dict[tuple[str, ...], pa.Schema] = {}
        self._columns: dict[tuple[str, ...], list[str]] = {}
        self._keys: dict[tuple[str, tuple[str, ...]], Keys] = {}
        self._types: dict[tuple[str, str], pa.DataType] = {}

    # -- times -----------------------------------------------------------------------------------------------------

    @property
    def unit(self) -> str:
        """The unit of the query's times."""
        return self.binding.domain.unit

    def start(self, interval: int) -> int:
        """Where an interval begins."""
        return self.origin + interval * self.tau

    def interval_of(self, time: np.ndarray) -> np.ndarray:
        """The interval of each time; negative before the origin. Times too far from it to count are those nearest."""
        every = np.iinfo(np.int64)
        near = np.clip(time, every.min + max(self.origin, 0), every.max + min(self.origin, 0))
        return (near - self.origin) // self.tau

    @cached_property
    def lives(self) -> dict[str, Life]:
        """How long the rows of each stream can be matched."""
        found = {}
        for name, (reach, since, near, rows, *_) in zip(self.query.names, self.binding.plan.windows, strict=True):
            found[name] = Life(
                None if reach == ENDLESS else int(np.int64(reach).view(np.uint64)),
                None if since == LOW else int(since),
                bool(near),
                int(rows) or None,
            )
        return found

    def until(self, stream: str, batch: pa.Table) -> np.ndarray:
        """The last moment at which each row of a stream can be matched; LOW if there is none.

        A moment is a time or, where the stream's window is in rows, how many of its rows have come.
        """
        if is_joined(stream):
            return batch[UNTIL].to_numpy()
        life = self.lives[stream]
        if life.rows is not None:
            return batch[NUMBER].to_numpy() + life.rows
        time = batch[TIME].to_numpy()
        if life.reach is None:
            until = np.full(len(time), NEVER)
        else:
            until = np.where(time > NEVER - life.reach, NEVER, time + np.int64(min(life.reach, NEVER)))
        return until if life.since is None else np.where(time < life.since, LOW + 1, until)

    def place(self, stream: str) -> int:
        """Where a stream stands in the query."""
        return self.query.names.index(stream)

    def far(self, streams: Iterable[str]) -> list[str]:
        """Streams whose windows leave out their own instant."""
        return [name for name in parts(streams) if not self.lives[name].near]

    # -- columns ---------------------------------------------------------------------------------------------------

    def type_of(self, reference: str) -> pa.DataType:
        """The type of a column."""
        stream, column = split_reference(reference)
        return self.schemas[stream].field(column).type

    def between(self, stream: str, done: tuple[str, ...]) -> tuple[Predicate, ...]:
        """The predicates between a stream and those that are joined already; of equal columns, one pair."""
        mine, theirs = parts([stream]), parts(done)
        found: list[Predicate] = []
        places = sorted({place for name in mine for place in self._classes_of[name]})
        for group in (self._columns_by_stream[place] for place in places):
            away = next((group[name] for name in theirs if name in group), None)
            if away is not None:
                found.append(Equal(next(group[name] for name in mine if name in group), away))
        found += [p for p in self._others if set(mine) & set(p.streams) and set(theirs) & set(p.streams)]
        if not found:
            raise SpecError(f"{stream!r} has no predicate with {', '.join(theirs)}: join it after others")
        return tuple(found)

    @cached_property
    def classes(self) -> list[list[str]]:
        """Columns that are equal in every match."""
        return classes(self.query, self.type_of)

    @cached_property
    def _classes_of(self) -> dict[str, list[int]]:
        """The places of the classes that a stream has a column in."""
        groups = self._columns_by_stream
        return {name: [k for k, there in enumerate(groups) if name in there] for name in self.query.names}

    @cached_property
    def _columns_by_stream(self) -> list[dict[str, str]]:
        """The columns of each class, by stream."""
        return [by_stream(group) for group in self.classes]

    @cached_property
    def connections(self) -> Connections:
        """Which streams can be joined with which."""
        return Connections(self.query)

    @cached_property
    def _others(self) -> list[Predicate]:
        """Predicates that no class of equal columns stands for."""
        equal = {column for group in self.classes for column in group}
        return [p for p in self.query.predicates if not (isinstance(p, Equal) and {p.left, p.right} <= equal)]

    def columns(self, done: tuple[str, ...]) -> list[str]:
        """The columns that rows of some streams, joined, still need: for the output, and for predicates to come."""
        if done not in self._columns:
            self._columns[done] = self._found_columns(done)
        return self._columns[done]

    @cached_property
    def _outputs(self) -> set[str]:
        names = self.query.names
        return {f"{names[o.stream]}.{o.column}" for o in self.binding.outputs}

    def _found_columns(self, done: tuple[str, ...]) -> list[str]:
        done = parts(done)
        open_ = [p for p in self._others if not set(p.streams) <= set(done)]
        wanted = self._outputs | {reference for p in open_ for reference in p.columns}
        for group in self._columns_by_stream:
            here = [group[name] for name in done if name in group]
            if here and len(here) < len(group):
                wanted.add(here[0])
        every = [f"{name}.{column}" for name in done for column in self.schemas[name].names]
        return [reference for reference in every if reference in wanted]

    def tie_times(self, done: tuple[str, ...]) -> list[str]:
        """Streams whose times rows must carry, because a later stream could tie with them in neither's window.

        The time of the head is there anyway, unless rows have different heads.
        """
        rest = self.far(name for name in self.query.names if name not in parts(done))
        return [name for name in self.far(done) if name != done[0]] if rest else []

    def rows_schema(self, done: tuple[str, ...]) -> pa.Schema:
        """The wire form of rows of some streams, joined; the first of them is the head."""
        if done not in self._schemas:
            self._schemas[done] = self._rows_schema(done)
        return self._schemas[done]

    def _rows_schema(self, done: tuple[str, ...]) -> pa.Schema:
        fields = [pa.field(TIME, pa.int64())]
        if is_joined(done[0]):
            fields.append(pa.field(HEAD, pa.int64()))
        elif len(done) == 1 and self.lives[done[0]].rows is not None:
            fields.append(pa.field(NUMBER, pa.int64()))
        if self.tree:
            fields.append(pa.field(UNTIL, pa.int64()))
        fields += [pa.field(f"{TIME}.{name}", pa.int64()) for name in self.tie_times(done)]
        return pa.schema([*fields, *(pa.field(c, self.type_of(c)) for c in self.columns(done))])

    def keys(self, stream: str, done: tuple[str, ...]) -> "Keys":
        """The equalities between a stream and those that are joined already."""
        if (stream, done) not in self._keys:
            self._keys[stream, done] = self._found_keys(stream, done)
        return self._keys[stream, done]

    def _found_keys(self, stream: str, done: tuple[str, ...]) -> "Keys":
        mine, theirs, types = [], [], []
        for predicate in self.between(stream, done):
            if isinstance(predicate, Equal):
                sides = (predicate.left, predicate.right)
                own = sides[0] if split_reference(sides[0])[0] in parts([stream]) else sides[1]
                away = sides[1] if own == sides[0] else sides[0]
                mine.append(own)
                theirs.append(away)
                types.append(self._common_type(*sides))
        return Keys(tuple(mine), tuple(theirs), tuple(types))

    def _common_type(self, left: str, right: str) -> pa.DataType:
        """The type in which two columns are compared."""
        if (left, right) not in self._types:
            self._types[left, right] = common_key_type([self.type_of(left), self.type_of(right)], [left, right])
        return self._types[left, right]


@dataclass(frozen=True)
class Keys:
    """An equality of several columns: those of the window's stream, those of arriving rows, their common types."""

    mine: tuple[str, ...]
    theirs: tuple[str, ...]
    types: tuple[Any, ...]


def is_joined(stream: str) -> bool:
    """Whether a stream is one of joined rows."""
    return "+" in stream


def parts(streams: Iterable[str]) -> tuple[str, ...]:
    """Streams, with those of joined rows taken apart."""
    return tuple(name for stream in streams for name in stream.split("+"))


def check_query(query: Query) -> None:
    """Refuse what sites cannot run."""
    query.refuse_names("sites")
    query.refuse_deletions("sites ship insertions only: join in one engine")
    if query.order == "arrival":
        raise SpecError("sites joins by event time: sites have no common order of arrival; use order='time'")
    if query.value is not None:
        raise SpecError("sites sheds nothing by value: leave value= out")
    if query.constraints is not None or query.on_violation != "lose":
        raise SpecError("constraints release nothing at sites: leave constraints= and on_violation= out")
