"""Steps of one-step semijoins at the source: the non-redundant semijoin (algorithm 7) and the copy (algorithm 8).

    Unsent     at the window: rows that partial rows ask for and that were never sent, and how many sent ones expired
    Copied     at the source: arriving rows joined with the copy, whose first rows leave when told how many

"Sent" is marked for one copy: each program that reads a window has marks of its own.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from windrow.sites.edges import Edge, Window, Windows
from windrow.sites.messages import Part
from windrow.sites.rows import RowStore
from windrow.sites.steps import State, Timed, rows_in
from windrow.state.columns import empty_table

SEQ = "@seq"


class Unsent(Timed):
    """Reads partial rows (K1), the window's batch, its clock: writes the rows that the copy lacks (delta W2').

    With them goes how many of the rows that were sent have expired after the interval: the update of the copy.
    """

    stores = 2

    def __init__(self, edge: Edge, name: str, windows: Windows) -> None:
        super().__init__(edge, name, windows)
        shape = edge.shape((SEQ,))
        schema = edge.batch.append(pa.field(SEQ, pa.int64()))
        self.held = windows(shape, "", name, schema, [edge.arriving.field(c).type for c in shape.asked])
        self.store = RowStore(self.schemas(edge)[0], windows.share)  # its marks: 1 for a row that was sent

    @staticmethod
    def schemas(edge: Edge) -> list[pa.Schema]:
        return [copied(edge)]

    def run(self, interval: int, parts: list[Part | None]) -> list[Part]:
        """Store the batch, find what is asked for, count what expires."""
        partial, batch, clock = (rows_in(part) for part in parts)
        assert partial is not None and batch is not None
        self._take(interval, self.store.admit(batch))
        rows = self._unsent(interval, partial)
        self.moments.pass_on(clock)
        low = self.moments.low(interval + 1)
        expired = int(self.store.mark[self.store.expire(low)].sum())  # algorithm 8: only rows that were sent count
        self.store.forget(low)
        self.held.release(self.name, low)
        return [Part(rows, {"expired": expired})]

    def _take(self, interval: int, batch: pa.Table) -> None:
        until = self.edge.bound.until(self.edge.stream, batch)
        numbers = np.arange(self.store.next, self.store.next + batch.num_rows)
        self.held.store_once(interval, batch.append_column(SEQ, pa.array(numbers)), until)
        self.store.append(batch, until, np.zeros(batch.num_rows, np.int64))

    def _unsent(self, interval: int, partial: pa.Table) -> pa.Table:
        """Algorithm 7: the rows that match a partial row and were never sent; they are marked."""
        now = np.full(partial.num_rows, self.moments.low(interval))
        _, found = self.held.probe(now, partial.columns)
        place = np.unique(found[SEQ].to_numpy()) - self.store.first
        place = place[(place >= 0) & (place < len(self.store.mark))]  # a shared window may be ahead of this step
        place = place[(self.store.mark[place] == 0) & ~self.store.out[place]]
        self.store.mark[place] = 1
        if self.held.share is not None:
            self.held.passed = (self.held.passed or 0) + len(place)  # met once is enough to be sent
        return self.store.take(place)

    def state(self) -> State:
        numbers = {"before": self.moments.before, "store": self.store.numbers()}
        return numbers, {"rows": self.store.table()}

    def load(self, numbers: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        self.moments.before = int(numbers["before"])
        self.store.load(tables["rows"], numbers["store"])


class Copied(Timed):
    """Reads arriving rows, the rows that the copy lacks, the window's clock: writes the joined rows.

    The copy is a queue in order of (time, sequence): rows that come later may be older than those that are there.
    """

    stores = 1

    def __init__(self, edge: Edge, name: str, windows: Windows) -> None:
        super().__init__(edge, name, windows)
        self.window = Window(edge, windows, name, label=name)
        self.queue = np.zeros(0, np.int64)  # the last moments of the rows in the copy, rising

    def run(self, interval: int, parts: list[Part | None]) -> list[Part]:
        """Insert, join, remove."""
        arriving, clock = rows_in(parts[0]), rows_in(parts[2])
        assert arriving is not None and parts[1] is not None
        rows, facts = parts[1]
        until = self.edge.bound.until(self.edge.stream, rows)
        self.window.held.store(rows, until)
        if len(until):
            self.queue = np.sort(np.concatenate([self.queue, until]), kind="stable")
        joined = empty_table(self.edge.joined)
        if arriving.num_rows:
            joined = self.window.join(arriving, self.moments.of(arriving, clock))
        self.moments.pass_on(clock)
        self._remove(facts["expired"])
        return [Part(joined)]

    def _remove(self, rows: int) -> None:
        """Algorithm 8, at the source: the first rows of the queue leave."""
        if rows:
            self.window.held.release(self.name, int(self.queue[rows - 1]) + 1)
            self.queue = self.queue[rows:]

    def state(self) -> State:
        return {"before": self.moments.before}, {"queue": pa.table({"until": self.queue})}

    def load(self, numbers: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        self.moments.before = int(numbers["before"])
        self.queue = tables["queue"]["until"].to_numpy()


def copied(edge: Edge) -> pa.Schema:
    """The rows of a window as they are copied: without columns that neither a predicate nor the output needs."""
    wanted = {*edge.bound.columns((*edge.done, edge.stream)), *edge.shape(()).own}
    return pa.schema([field for field in edge.batch if field.name in wanted or field.name.startswith("@")])
