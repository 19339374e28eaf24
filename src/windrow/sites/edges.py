"""Edge: one one-way join of a sequence: rows that arrive at a site meet the window of one more stream.

`Window` is the part of it at a site that holds the window (or a copy): which moment an arriving row asks about, which
residents came before it, what the joined row has. It is where the paper's T-limited join stands (constraint 3), with
ties broken by (time, place of the stream in the query).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.sites.bound import TIME, Bound
from windrow.sites.held import Held, Shape

Windows = Callable[[Shape, str, pa.Schema, list[pa.DataType]], Held]
"""Gives a site's window of a shape: the one that all users of the stream's batches share, whose label is empty, or the
copy that one step keeps, whose label is the step's name."""


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

    @property
    def counted(self) -> bool:
        """Whether moments are numbers of rows."""
        return self.bound.lives[self.stream].rows is not None

    @property
    def arriving(self) -> pa.Schema:
        """Rows before the join."""
        return self.bound.rows_schema(self.done)

    @property
    def batch(self) -> pa.Schema:
        """Rows of the stream."""
        return self.bound.rows_schema((self.stream,))

    @property
    def joined(self) -> pa.Schema:
        """Rows after the join."""
        return self.bound.rows_schema((*self.done, self.stream))

    def shape(self, kept: tuple[str, ...]) -> Shape:
        """What a window of the stream is asked by this edge."""
        return Shape(self.stream, kept, self.bound.between(self.stream, self.done))

    @property
    def asked(self) -> list[str]:
        """The columns of arriving rows that the predicates read."""
        return self.shape(()).asked

    @property
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
        bound = self.edge.bound
        earlier = bound.place(self.edge.stream) < bound.place(self.edge.head)
        return self.before + np.searchsorted(clock[TIME].to_numpy(), time, side="right" if earlier else "left")

    def pass_on(self, clock: pa.Table | None) -> None:
        """The interval has been joined."""
        if clock is not None:
            self.before += clock.num_rows


class Window:
    """A window, or a copy of one, that arriving rows of an edge are joined with."""

    def __init__(self, edge: Edge, windows: Windows, user: str, label: str = "") -> None:
        self.edge = edge
        kept = (TIME, *(c for c in edge.bound.columns((*edge.done, edge.stream)) if c in edge.batch.names))
        shape = edge.shape(kept)
        self.held = windows(shape, label, edge.batch, [edge.arriving.field(c).type for c in shape.asked])
        self.held.join_users(user)

    def join(self, arriving: pa.Table, now: np.ndarray) -> pa.Table:
        """Each arriving row with the residents that it meets and that came before it."""
        edge = self.edge
        rows, residents = self.held.probe(now, [arriving[c] for c in edge.asked])
        time = residents[TIME].to_numpy()
        own = arriving[TIME].to_numpy()[rows]
        earlier = time <= own if edge.bound.ties(edge.head, edge.stream) else time < own
        if not edge.bound.lives[edge.stream].near:
            for name in arriving.column_names:
                if name.startswith(f"{TIME}."):
                    earlier &= time != arriving[name].to_numpy()[rows]
        if not earlier.all():
            where = np.flatnonzero(earlier)
            rows, residents = rows[where], residents.take(pa.array(where))
        return self._joined(arriving, rows, residents)

    def _joined(self, arriving: pa.Table, rows: np.ndarray, residents: pa.Table) -> pa.Table:
        index, columns = pa.array(rows), []
        for field in self.edge.joined:
            if field.name == f"{TIME}.{self.edge.stream}":
                columns.append(residents[TIME])
            elif field.name in arriving.column_names:
                columns.append(arriving[field.name].take(index))
            else:
                columns.append(residents[field.name])
        return pa.Table.from_arrays(columns, schema=self.edge.joined)
