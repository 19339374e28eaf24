"""Edge: one one-way join of a sequence: rows that arrive at a site meet the window of one more stream.

`Window` is the part of it at a site that holds the window (or a copy): which moment an arriving row asks about, which
residents came before it, what the joined row has. It is where the paper's T-limited join stands (constraint 3), with
ties broken by (time, place of the stream in the query).
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.sites.bound import HEAD, NUMBER, TIME, UNTIL, Bound, is_joined
from windrow.sites.budget import Share
from windrow.sites.held import Held, Shape


class Windows:
    """The windows and copies of a site.

    One for all users of a stream's batches that ask it the same, or one that a step keeps for itself, whose label is
    the step's name. Under a budget each step has its own (budget.py).
    """

    def __init__(self, share: Share | None = None) -> None:
        self.share = share
        self.held: dict[tuple[Shape, str], Held] = {}

    def __call__(self, shape: Shape, label: str, user: str, schema: pa.Schema, types: list[pa.DataType]) -> Held:
        key = (shape, label if self.share is None else user)
        if key not in self.held:
            self.held[key] = Held(shape, schema, types, self.share)
        self.held[key].join_users(user)
        return self.held[key]


@dataclass(frozen=True)
class Edge:
    """A one-way join: rows of the streams `done` (the first is the head) meet the window of `stream`."""

    bound: Bound
    name: str
    done: tuple[str, ...]
    stream: str
    source: str  # the site of the arriving rows
    destination: str  # the site of the stream
    lag: int = 1  # how many intervals a question and its answer may be under way before anybody waits

    @property
    def head(self) -> str:
        """The stream whose rows started."""
        return self.done[0]

    @cached_property
    def counted(self) -> bool:
        """Whether moments are numbers of rows."""
        return not is_joined(self.stream) and self.bound.lives[self.stream].rows is not None

    @cached_property
    def arriving(self) -> pa.Schema:
        """Rows before the join."""
        return self.bound.rows_schema(self.done)

    @cached_property
    def batch(self) -> pa.Schema:
        """Rows of the stream."""
        return self.bound.rows_schema((self.stream,))

    @cached_property
    def joined(self) -> pa.Schema:
        """Rows after the join."""
        return self.bound.rows_schema((*self.done, self.stream))

    def heads(self, arriving: pa.Table) -> Any:
        """The place of the stream whose row started each arriving row: one number, where it is the same for all."""
        return arriving[HEAD].to_numpy() if is_joined(self.head) else self.bound.place(self.head)

    def shape(self, kept: tuple[str, ...]) -> Shape:
        """What a window of the stream is asked by this edge."""
        return Shape(self.stream, kept, self.bound.between(self.stream, self.done))

    @cached_property
    def asked(self) -> list[str]:
        """The columns of arriving rows that the predicates read."""
        return self.shape(()).asked

    @cached_property
    def partial(self) -> pa.Schema:
        """A partial row: what the predicates read of an arriving one."""
        return pa.schema([self.arriving.field(name) for name in self.asked])


class Moments:
    """Which moment of a window arriving rows ask about: their time, or how many of its rows came before them."""

    def __init__(self, edge: Edge) -> None:
        self.edge = edge
        self.before = 0  # rows of the window's stream in earlier intervals, if moments count rows

    def low(self, interval: int) -> int:
        """The lowest moment of the interval that is being joined."""
        return self.before if self.edge.counted else self.edge.bound.start(interval)

    def of(self, arriving: pa.Table, clock: pa.Table | None) -> np.ndarray:
        """The moment of each arriving row; `clock` has the times of all rows of the stream in this interval."""
        time = arriving[TIME].to_numpy()
        if not self.edge.counted:
            return time
        assert clock is not None
        earlier = self.edge.bound.place(self.edge.stream) < self.edge.heads(arriving)
        ticks = clock[TIME].to_numpy()
        behind, ahead = (np.searchsorted(ticks, time, side=side) for side in ("right", "left"))
        return self.before + np.where(earlier, behind, ahead)

    def pass_on(self, clock: pa.Table | None) -> None:
        """The interval has been joined."""
        if clock is not None:
            self.before += clock.num_rows


class Window:
    """A window, or a copy of one, that arriving rows of an edge are joined with."""

    def __init__(self, edge: Edge, windows: Windows, user: str, label: str = "") -> None:
        self.edge = edge
        wanted = {*edge.joined.names, TIME, HEAD, *(f"{TIME}.{name}" for name in edge.bound.far([edge.stream]))}
        kept = tuple(c for c in edge.batch.names if c in wanted and c != NUMBER)
        shape = edge.shape(kept)
        self.held = windows(shape, label, user, edge.batch, [edge.arriving.field(c).type for c in shape.asked])

    def join(self, arriving: pa.Table, now: np.ndarray) -> pa.Table:
        """Each arriving row with the residents that it meets and that came before it."""
        edge = self.edge
        rows, residents = self.held.probe(now, [arriving[c] for c in edge.asked])
        earlier = self._earlier(arriving, rows, residents)
        if not earlier.all():
            where = np.flatnonzero(earlier)
            rows, residents = rows[where], residents.take(pa.array(where))
        self.held.joined = (self.held.joined or 0) + len(rows)
        return self._joined(arriving, rows, residents)

    def _earlier(self, arriving: pa.Table, rows: np.ndarray, residents: pa.Table) -> np.ndarray:
        """Which residents came before the rows that they are paired with, and do not tie outside both windows."""
        edge, bound = self.edge, self.edge.bound
        time, own = residents[TIME].to_numpy(), arriving[TIME].to_numpy()[rows]
        mine = residents[HEAD].to_numpy() if is_joined(edge.stream) else bound.place(edge.stream)
        theirs = edge.heads(arriving)[rows] if is_joined(edge.head) else edge.heads(arriving)
        earlier = (time < own) | ((time == own) & (mine < theirs))
        for one, other in product(bound.far([edge.stream]), bound.far(edge.done)):
            earlier &= times_of(residents, one, edge.stream) != times_of(arriving, other, edge.head)[rows]
        return earlier

    def _joined(self, arriving: pa.Table, rows: np.ndarray, residents: pa.Table) -> pa.Table:
        index, columns = pa.array(rows), []
        for field in self.edge.joined:
            if field.name == f"{TIME}.{self.edge.stream}":
                columns.append(residents[TIME])
            elif field.name == UNTIL:
                last = np.minimum(arriving[UNTIL].to_numpy()[rows], residents[UNTIL].to_numpy())
                columns.append(pa.array(last))
            elif field.name in arriving.column_names:
                columns.append(arriving[field.name].take(index))
            else:
                columns.append(residents[field.name])
        return pa.Table.from_arrays(columns, schema=self.edge.joined)


def times_of(rows: pa.Table, stream: str, head: str) -> np.ndarray:
    """The times of the rows of a stream in joined rows that a head started."""
    return rows[TIME if stream == head else f"{TIME}.{stream}"].to_numpy()
