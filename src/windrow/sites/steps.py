"""Steps: what one site does for one program in each interval, once the messages of the interval are all there.

A step reads channels and writes channels. A channel carries one part (rows, perhaps none, and a few numbers) for every
interval. A step takes intervals in order, and interval i when every channel that it reads has it: never by a clock. So
what it writes depends on what it reads and on nothing else, however long anything was under way; a silent stream sends
parts without rows, which say that it is silent.

    Join       arriving rows with a window                                   SP-S, SP-D, SM-D1, SM-D2
    Project    the partial rows of arriving ones                             SM-S1, SM-D2
    Judge      which partial rows have partners in the window                SM-D2
    Reduce     arriving rows of which that was said                          SM-D2
    (semijoins.py, mixed.py: the steps of algorithms 7 to 9)

State is a few numbers, tables, and windows that steps of a site share; `state` and `load` give and take it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from windrow.sites.edges import Edge, Moments, Window, Windows
from windrow.sites.messages import Part
from windrow.state.coding import cast_keys, common_key_type, exact_codes, key_codes, keys_equal
from windrow.state.columns import empty_table

State = tuple[dict[str, Any], dict[str, pa.Table]]
"""Numbers by name, and tables by name."""


@dataclass(frozen=True)
class Port:
    """A channel as a step sees it: when the step takes interval i, the channel is at i - lag."""

    channel: str
    lag: int = 0


@dataclass(frozen=True)
class Placed:
    """A step in a network: what it does, where, what it reads and what it writes."""

    kind: "type[Step]"
    name: str
    site: str
    reads: tuple[Port, ...]
    writes: tuple[Port, ...]
    edge: Edge


class Step(ABC):
    """One site's part of a program."""

    stores: ClassVar[int] = 0  # windows, copies and stores of rows that it has

    def __init__(self, edge: Edge, name: str, windows: Windows) -> None:
        self.edge, self.name = edge, name

    def begin(self, rows: int) -> None:  # noqa: B027 most do not count
        """So many rows of the window's stream came before the first interval."""

    @abstractmethod
    def run(self, interval: int, parts: list[Part | None]) -> list[Part]:
        """Take an interval: a part for each channel that is read, in their order (None before a lagging channel's first
        interval, or where there is no channel); a part for each channel that is written."""

    def state(self) -> State:
        """What the step remembers, beside windows."""
        return {}, {}

    def load(self, numbers: dict[str, Any], tables: dict[str, pa.Table]) -> None:  # noqa: B027 most remember nothing
        """Remember what `state` gave."""

    @staticmethod
    def schemas(edge: Edge) -> list[pa.Schema]:
        """The schema of each channel that is written."""
        return [edge.joined]


class Timed(Step):
    """A step that asks a window about moments, or lets go of rows by them."""

    def __init__(self, edge: Edge, name: str, windows: Windows) -> None:
        super().__init__(edge, name, windows)
        self.moments = Moments(edge)

    def begin(self, rows: int) -> None:
        self.moments.before = rows

    def state(self) -> State:
        return {"before": self.moments.before}, {}

    def load(self, numbers: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        self.moments.before = int(numbers["before"])


def rows_in(part: Part | None) -> pa.Table | None:
    """The rows of a part, if it is there."""
    return None if part is None else part.table


class Join(Timed):
    """Reads arriving rows, the window's batch, its clock: writes the joined rows.

    The window takes the interval's batch when the arriving rows of the interval are here, and lets go of a row when the
    arriving rows of all intervals that could meet it have been joined: constraints 1 and 2.
    """

    stores = 1

    def __init__(self, edge: Edge, name: str, windows: Windows) -> None:
        super().__init__(edge, name, windows)
        self.window = Window(edge, windows, name)

    def run(self, interval: int, parts: list[Part | None]) -> list[Part]:
        """Store the batch, join, let go."""
        arriving, batch, clock = (rows_in(part) for part in parts)
        assert arriving is not None and batch is not None
        self.window.held.store_once(interval, batch, self.edge.bound.until(self.edge.stream, batch))
        joined = empty_table(self.edge.joined)
        if arriving.num_rows:
            joined = self.window.join(arriving, self.moments.of(arriving, clock))
        self.moments.pass_on(clock)
        self.window.held.release(self.name, self.moments.low(interval + 1))
        return [Part(joined)]


class Project(Step):
    """Reads arriving rows: writes their distinct partial rows (K1)."""

    @staticmethod
    def schemas(edge: Edge) -> list[pa.Schema]:
        return [edge.partial]

    def run(self, interval: int, parts: list[Part | None]) -> list[Part]:
        """Project."""
        arriving = rows_in(parts[0])
        assert arriving is not None
        return [Part(distinct(arriving, self.edge)[0])]


FOUND = pa.schema([pa.field("found", pa.bool_())])


class Judge(Timed):
    """Reads partial rows, the window's batch, its clock: writes a bit for each partial row, whether it has partners.

    The reduced K1 of the paper is the partial rows themselves; both ends know their order, so a bit is enough.
    """

    stores = 1

    def __init__(self, edge: Edge, name: str, windows: Windows) -> None:
        super().__init__(edge, name, windows)
        self.window = Window(edge, windows, name)

    @staticmethod
    def schemas(edge: Edge) -> list[pa.Schema]:
        return [FOUND]

    def run(self, interval: int, parts: list[Part | None]) -> list[Part]:
        """Store the batch, look, let go. A partial row has no time, so it asks about the lowest moment."""
        partial, batch, clock = (rows_in(part) for part in parts)
        assert partial is not None and batch is not None
        held = self.window.held
        held.store_once(interval, batch, self.edge.bound.until(self.edge.stream, batch))
        now = np.full(partial.num_rows, self.moments.low(interval))
        found = held.partners(now, partial.columns)
        self.moments.pass_on(clock)
        held.release(self.name, self.moments.low(interval + 1))
        return [Part(pa.table({"found": pa.array(found, pa.bool_())}, schema=FOUND))]


class Reduce(Step):
    """Reads arriving rows, and a bit for each of their partial rows: writes those that have partners (B1')."""

    @staticmethod
    def schemas(edge: Edge) -> list[pa.Schema]:
        return [edge.arriving]

    def run(self, interval: int, parts: list[Part | None]) -> list[Part]:
        """Choose."""
        arriving, found = rows_in(parts[0]), rows_in(parts[1])
        assert arriving is not None and found is not None
        if not arriving.num_rows:
            return [Part(arriving)]
        which = distinct(arriving, self.edge)[1]
        bits = found["found"].to_numpy(zero_copy_only=False)[which]
        return [Part(arriving.filter(pa.array(bits)))]


def distinct(arriving: pa.Table, edge: Edge) -> tuple[pa.Table, np.ndarray]:
    """The distinct partial rows of arriving ones, and which of them each arriving row has.

    Codes find them; should two different partial rows have one code, no row is left out.
    """
    partial = arriving.select(edge.asked)
    if not partial.num_rows:
        return partial, np.zeros(0, np.int64)
    types = [common_key_type([partial.schema.field(c).type], [c]) for c in edge.asked]
    codes, _ = key_codes(partial.columns, types, where=edge.asked)
    _, first, which = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)  # in the order in which they came
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    few, which = partial.take(pa.array(first[order])), place[which]
    if not exact_codes(types):
        again = few.take(pa.array(which))
        if not keys_equal(cast_keys(partial.columns, types), cast_keys(again.columns, types)).all():
            return partial, np.arange(partial.num_rows)
    return few, which
