"""Steps with the array of values and counts (V2), and the table of partial and full rows (M2): algorithms 5, 4 and 9.

    Tell       at the window: new values, and which are gone                                   SM-D1
    Choose     at the source: arriving rows whose key is among the values                      SM-D1
    Answer     at the window: the same as Tell, new rows of values whose rows were sent, and
               the rows of values that were asked for                                          SM-S2
    Ask        at the source: values that arriving rows meet and whose rows are not here       SM-S2
    Meet       at the source: arriving rows joined with the full rows                          SM-S2

A question and its answer are under way for some time, so Answer takes the questions of interval i together with its
batch of interval i + lag. A row of the window therefore stays until interval i has been answered. Which rows a value
has is known by the number of its entry, so that a key that goes and comes back is not mistaken for the one before.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from windrow.sites.bound import NEVER, TIME
from windrow.sites.edges import Edge, Window, Windows
from windrow.sites.messages import Part
from windrow.sites.rows import RowStore
from windrow.sites.semijoins import copied
from windrow.sites.steps import State, Step, Timed, rows_in
from windrow.sites.values import PLACES, Codes, Values, codes_of, places
from windrow.state.columns import empty_table

ASKED = pa.schema([pa.field("entry", pa.int64())])


def key_schema(edge: Edge) -> pa.Schema:
    """The key columns of the window's stream, as new values travel."""
    return pa.schema([edge.batch.field(c) for c in dict.fromkeys(edge.bound.keys(edge.stream, edge.done).mine)])


class Tell(Timed):
    """Reads the window's batch, its clock: writes new values (v_J), and counts or what is gone (v_C)."""

    stores = 1

    def __init__(self, edge: Edge, name: str, windows: Windows) -> None:
        super().__init__(edge, name, windows)
        self.keys = edge.bound.keys(edge.stream, edge.done)
        self.values = Values()
        self.store = RowStore(self.kept(edge), windows.share)  # its marks: the number of the row's entry

    @staticmethod
    def kept(edge: Edge) -> pa.Schema:
        """What is remembered of rows beside their entries."""
        return pa.schema([edge.batch.field(TIME)])

    @staticmethod
    def schemas(edge: Edge) -> list[pa.Schema]:
        return [key_schema(edge), PLACES]

    def run(self, interval: int, parts: list[Part | None]) -> list[Part]:
        """Algorithm 9 at the window, without full rows."""
        batch, clock = (rows_in(part) for part in parts)
        assert batch is not None
        told, _ = self._update(interval, self.store.admit(batch))
        self.count_told(batch)
        self.moments.pass_on(clock)
        self.store.forget(NEVER)
        return told

    def count_told(self, batch: pa.Table) -> None:
        """Under a budget: how many rows have a key that is told. A row that found no room may have one, too."""
        if self.store.share is not None and batch.num_rows:
            self.store.told = max(self.store.told, 0) + int((self.values.find(self.codes(batch)) >= 0).sum())

    def _update(self, interval: int, batch: pa.Table) -> tuple[list[Part], np.ndarray]:
        """Count new rows and those that expire: new values and counts; and which entry each row of the batch has.

        The batch is what the store has room for (`RowStore.admit`).
        """
        place, first = self.values.add(self.codes(batch))
        number = self.values.number[place]
        until = self.edge.bound.until(self.edge.stream, batch)
        self.store.append(batch, until, self.marks(number))
        self.values.subtract(self.expired(self.store.mark[self.store.expire(self.moments.low(interval))]))
        new = self.new_values(batch, first)
        vanished = self.values.gone()
        dense = self.edge.bound.dense_counts
        told = Part(places(self.values.count if dense else vanished), {"dense": int(dense)})
        self.values.remove(vanished)
        return [Part(new), told], number

    def codes(self, batch: pa.Table) -> Codes:
        """The codes by which keys of the window are known."""
        return codes_of(batch, self.keys.mine, self.keys.types)

    def marks(self, number: np.ndarray) -> np.ndarray:
        """What is marked on rows of entries with these numbers."""
        return number

    def expired(self, marks: np.ndarray) -> np.ndarray:
        """The numbers of entries whose rows, marked like this, have expired."""
        return marks

    def new_values(self, batch: pa.Table, first: np.ndarray) -> pa.Table:
        """The keys of new entries, given by their first rows, as they travel."""
        return batch.select(key_schema(self.edge).names).take(pa.array(first))

    def state(self) -> State:
        numbers = {"before": self.moments.before, "store": self.store.numbers()}
        return numbers | {"next": self.values.next}, {"values": self.values.table(), "rows": self.store.table()}

    def load(self, numbers: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        self.moments.before = int(numbers["before"])
        self.values = Values.of(tables["values"], int(numbers["next"]))
        self.store.load(tables["rows"], numbers["store"])


class Known(Step):
    """A copy of the values, kept by what is told: what Choose and Ask have alike."""

    def __init__(self, edge: Edge, name: str, windows: Windows) -> None:
        super().__init__(edge, name, windows)
        self.keys = edge.bound.keys(edge.stream, edge.done)
        self.values = Values()

    def learn(self, new: Part | None, gone: Part | None) -> None:
        """Algorithm 9 at the source: open entries, close those whose count is nothing."""
        assert new is not None and gone is not None
        self.values.open(self.codes_told(new.table))
        told = gone.table["n"].to_numpy()
        self.values.remove(np.flatnonzero(told == 0) if gone.facts["dense"] else told)

    def find(self, arriving: pa.Table) -> np.ndarray:
        """The place of each arriving row's key among the values."""
        return self.values.find(self.codes_asked(arriving))

    def codes_told(self, told: pa.Table) -> Codes:
        """The codes of new values."""
        return codes_of(told, self.keys.mine, self.keys.types)

    def codes_asked(self, arriving: pa.Table) -> Codes:
        """The codes of arriving rows' keys."""
        return codes_of(arriving, self.keys.theirs, self.keys.types)

    def state(self) -> State:
        return {"next": self.values.next}, {"values": self.values.table()}

    def load(self, numbers: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        self.values = Values.of(tables["values"], int(numbers["next"]))


class Choose(Known):
    """Reads arriving rows, new values, what is gone: writes the arriving rows that may have partners (B1')."""

    @staticmethod
    def schemas(edge: Edge) -> list[pa.Schema]:
        return [edge.arriving]

    def run(self, interval: int, parts: list[Part | None]) -> list[Part]:
        """Learn, choose."""
        arriving = rows_in(parts[0])
        assert arriving is not None
        self.learn(parts[1], parts[2])
        return [Part(arriving.filter(pa.array(self.find(arriving) >= 0)) if arriving.num_rows else arriving)]


class Ask(Known):
    """Reads arriving rows, new values, what is gone: writes the entries whose rows are wanted (delta V2').

    An entry is asked for once. It travels as its number, which both ends know.
    """

    @staticmethod
    def schemas(edge: Edge) -> list[pa.Schema]:
        return [ASKED]

    def run(self, interval: int, parts: list[Part | None]) -> list[Part]:
        """Learn, ask."""
        arriving = rows_in(parts[0])
        assert arriving is not None
        self.learn(parts[1], parts[2])
        if not arriving.num_rows:
            return [Part(empty_table(ASKED))]
        place = np.unique(self.find(arriving))
        place = place[place >= 0]
        place = place[~self.values.flag[place]]
        self.values.flag[place] = True
        return [Part(pa.table({"entry": self.values.number[place]}, schema=ASKED))]


class Answer(Tell):
    """Reads the window's batch, its clock, and (lagging) the entries that are asked for.

    Writes new values, counts, the new rows of entries whose rows were sent (s_F), and (lagging) the rows that were
    asked for (delta W2').
    """

    @staticmethod
    def kept(edge: Edge) -> pa.Schema:
        return copied(edge)

    @staticmethod
    def schemas(edge: Edge) -> list[pa.Schema]:
        return [*Tell.schemas(edge), copied(edge), copied(edge)]

    def __init__(self, edge: Edge, name: str, windows: Windows) -> None:
        super().__init__(edge, name, windows)
        self.lows: list[int] = []  # the lowest moments of intervals that have not been answered

    def run(self, interval: int, parts: list[Part | None]) -> list[Part]:
        """Answer the questions of an earlier interval, then take the batch: its rows go along where others went."""
        batch, clock, asked = (rows_in(part) for part in parts)
        assert batch is not None
        answered = empty_table(copied(self.edge)) if asked is None else self._answer(asked)
        self.lows.append(self.moments.low(interval))
        batch = self.store.admit(batch)
        told, number = self._update(interval, batch)
        place, here = self._places(number)
        sent = np.zeros(len(number), np.bool_)
        sent[here] = self.values.flag[place[here]]
        fresh = batch.select(copied(self.edge).names).filter(pa.array(sent))
        self.moments.pass_on(clock)
        if len(self.lows) > self.edge.lag:
            self.lows.pop(0)
        self.store.forget(self.lows[0])
        return [*told, Part(fresh), Part(answered)]

    def _answer(self, asked: pa.Table) -> pa.Table:
        """The rows of entries, of which none was sent before; the entries that are still there are marked as sent."""
        wanted = asked["entry"].to_numpy()
        if not len(wanted):
            return empty_table(copied(self.edge))
        place, here = self._places(wanted)
        self.values.flag[place[here]] = True
        mine = np.isin(self.store.mark, wanted) & (self.store.until >= self.lows[0])
        return self.store.take(np.flatnonzero(mine))

    def _places(self, number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where entries of some numbers stand, and which of them are there."""
        place = self.values.place_of(number)
        return place, place >= 0

    def state(self) -> State:
        numbers, tables = super().state()
        return numbers, {**tables, "lows": pa.table({"low": pa.array(self.lows, pa.int64())})}

    def load(self, numbers: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        super().load(numbers, tables)
        self.lows = tables["lows"]["low"].to_pylist()


class Meet(Timed):
    """Reads arriving rows, new full rows, full rows that were asked for, the clock: writes the joined rows."""

    stores = 1

    def __init__(self, edge: Edge, name: str, windows: Windows) -> None:
        super().__init__(edge, name, windows)
        self.window = Window(edge, windows, name, label=name)

    def run(self, interval: int, parts: list[Part | None]) -> list[Part]:
        """Insert, join, let go."""
        arriving, fresh, answered, clock = (rows_in(part) for part in parts)
        assert arriving is not None and fresh is not None and answered is not None
        for rows in (answered, fresh):
            self.window.held.store(rows, self.edge.bound.until(self.edge.stream, rows))
        joined = empty_table(self.edge.joined)
        if arriving.num_rows:
            joined = self.window.join(arriving, self.moments.of(arriving, clock))
        self.moments.pass_on(clock)
        self.window.held.release(self.name, self.moments.low(interval + 1))
        return [Part(joined)]
