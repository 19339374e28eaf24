"""Bound: a query and its streams' schemas, as sites see them: which columns travel, how long rows live, which interval.

The wire form of a row has its columns as "stream.column", and before them

    @time      the time of the row that started it (int64, in units of the query's times)
    @number    its number in its stream, where the stream's window is in rows
    @time.s    the time of its row of stream s, where ties with a later stream must be told (see `tie_times`)

Only columns that a later predicate or the output asks for are there.

An interval is a piece of event time: interval i holds the times from `origin + i tau` to below `origin + (i + 1) tau`.
Of two rows, the earlier one is the one that is less by (time, place of the stream in the query, sequence).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.bind import Binding, bind
from windrow.engine.intake import plain_schemas
from windrow.errors import SpecError
from windrow.kernels.layout import ENDLESS, LATEST, LOW
from windrow.spec import Equal, Query, split_reference
from windrow.spec.durations import Duration
from windrow.spec.predicates import Predicate
from windrow.state.coding import duration_in_units
from windrow.state.coding_types import common_key_type

TIME, NUMBER = "@time", "@number"
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
        self, query: Query, schemas: dict[str, pa.Schema], tau: Duration, origin: int = 0, dense_counts: bool = False
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
        self.dense_counts = dense_counts

    # -- times -----------------------------------------------------------------------------------------------------

    @property
    def unit(self) -> str:
        """The unit of the query's times."""
        return self.binding.domain.unit

    def start(self, interval: int) -> int:
        """Where an interval begins."""
        return self.origin + interval * self.tau

    def interval_of(self, time: np.ndarray) -> np.ndarray:
        """The interval of each time; negative before the origin."""
        return (time - self.origin) // self.tau

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

    def ties(self, head: str, stream: str) -> bool:
        """Whether a row of the head stream matches rows of another at the same instant that came before it."""
        near = self.lives[head].near or self.lives[stream].near
        return near and self.place(stream) < self.place(head)

    # -- columns ---------------------------------------------------------------------------------------------------

    def type_of(self, reference: str) -> pa.DataType:
        """The type of a column."""
        stream, column = split_reference(reference)
        return self.schemas[stream].field(column).type

    def between(self, stream: str, done: tuple[str, ...]) -> tuple[Predicate, ...]:
        """The predicates between a stream and those that are joined already."""
        return tuple(p for p in self.query.predicates if stream in p.streams and other(p, stream) in done)

    def columns(self, done: tuple[str, ...]) -> list[str]:
        """The columns that rows of some streams, joined, still need: for the output, and for predicates to come."""
        outputs = {f"{self.query.names[o.stream]}.{o.column}" for o in self.binding.outputs}
        open_ = [p for p in self.query.predicates if not set(p.streams) <= set(done)]
        wanted = outputs | {reference for p in open_ for reference in p.columns}
        every = [f"{name}.{column}" for name in done for column in self.schemas[name].names]
        return [reference for reference in every if reference in wanted]

    def tie_times(self, done: tuple[str, ...], head: str) -> list[str]:
        """Streams whose times rows must carry, because a later stream could tie with them in neither's window."""
        rest = [name for name in self.query.names if name not in done and not self.lives[name].near]
        return [name for name in done if name != head and rest and not self.lives[name].near]

    def rows_schema(self, done: tuple[str, ...]) -> pa.Schema:
        """The wire form of rows of some streams, joined; the first of them is the head."""
        fields = [pa.field(TIME, pa.int64())]
        if len(done) == 1 and self.lives[done[0]].rows is not None:
            fields.append(pa.field(NUMBER, pa.int64()))
        fields += [pa.field(f"{TIME}.{name}", pa.int64()) for name in self.tie_times(done, done[0])]
        return pa.schema([*fields, *(pa.field(c, self.type_of(c)) for c in self.columns(done))])

    def keys(self, stream: str, done: tuple[str, ...]) -> "Keys":
        """The equalities between a stream and those that are joined already."""
        mine, theirs, types = [], [], []
        for predicate in self.between(stream, done):
            if isinstance(predicate, Equal):
                sides = (predicate.left, predicate.right)
                own = sides[0] if split_reference(sides[0])[0] == stream else sides[1]
                away = sides[1] if own == sides[0] else sides[0]
                mine.append(own)
                theirs.append(away)
                types.append(common_key_type([self.type_of(side) for side in sides], list(sides)))
        return Keys(tuple(mine), tuple(theirs), tuple(types))


@dataclass(frozen=True)
class Keys:
    """An equality of several columns: those of the window's stream, those of arriving rows, their common types."""

    mine: tuple[str, ...]
    theirs: tuple[str, ...]
    types: tuple[Any, ...]


def other(predicate: Predicate, stream: str) -> str:
    """The stream on the other side of a predicate."""
    left, right = predicate.streams
    return right if left == stream else left


def check_query(query: Query) -> None:
    """Refuse what sites cannot run."""
    query.refuse_names("sites")
    if query.order == "arrival":
        raise SpecError("sites joins by event time: sites have no common order of arrival; use order='time'")
    if query.value is not None:
        raise SpecError("sites sheds nothing by value: leave value= out")
