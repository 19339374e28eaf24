"""Row store: the rows of a window at its own site by sequence, for semijoins that send some of them."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from windrow.engine.metrics import StreamMetrics
from windrow.sites.budget import STORED_BYTES, Share
from windrow.state.columns import empty_table

LAST, MARK, OUT = "@last", "@mark", "@out"


class RowStore:
    """Rows by sequence number, with their last moment and a word that programs write (sent, or the entry's number).

    A row is *out* when its last moment has passed and it has been counted; it is forgotten when nobody can ask for it.
    With a share of a budget, a store that is full takes no more rows until some are forgotten.
    """

    def __init__(self, schema: pa.Schema, share: Share | None = None) -> None:
        self.schema, self.share = schema, share
        self.came = self.shed = self.peak_rows = self.peak_bytes = 0
        self.told = -1  # rows that came whose key was told, where keys are all that is told; else -1
        self.first = 0  # the sequence number of the first row that is there
        self.until = np.zeros(0, np.int64)
        self.mark = np.zeros(0, np.int64)
        self.out = np.zeros(0, np.bool_)
        self.chunks: list[pa.Table] = []
        self._before = 0  # rows of the first chunk that are gone

    @property
    def next(self) -> int:
        """The sequence number of the next row."""
        return self.first + len(self.until)

    def admit(self, batch: pa.Table) -> pa.Table:
        """The rows of a batch that there is room for, the first ones: others are shed."""
        self.came += batch.num_rows
        if self.share is None or not batch.num_rows:
            return batch
        width = batch.select(self.schema.names).nbytes / batch.num_rows
        room = min(self.share.room(len(self.until), self.nbytes, width), batch.num_rows)
        self.shed += batch.num_rows - room
        return batch.slice(0, room)

    @property
    def nbytes(self) -> int:
        """The bytes that a budget is charged."""
        return len(self.until) * STORED_BYTES + sum(chunk.nbytes for chunk in self.chunks)

    def counters(self) -> StreamMetrics:
        """What became of the rows that came."""
        alive = len(self.until)
        return StreamMetrics(arrived=self.came, expired=self.came - self.shed - alive, shed=self.shed,
                             resident_rows=alive, resident_bytes=self.nbytes)  # fmt: skip

    def append(self, rows: pa.Table, until: np.ndarray, mark: np.ndarray, out: np.ndarray | None = None) -> None:
        """Add rows behind the others."""
        if rows.num_rows:
            self.chunks.append(rows.select(self.schema.names))
            self.until = np.concatenate([self.until, until])
            self.mark = np.concatenate([self.mark, mark])
            self.out = np.concatenate([self.out, np.zeros(len(until), np.bool_) if out is None else out])
            self.peak_rows, self.peak_bytes = max(self.peak_rows, len(self.until)), max(self.peak_bytes, self.nbytes)

    def expire(self, moment: int) -> np.ndarray:
        """The places of rows whose last moment is before this one and that were not out: they are now."""
        found = np.flatnonzero((self.until < moment) & ~self.out)
        self.out[found] = True
        return found

    def forget(self, moment: int) -> None:
        """Drop the first rows that are out and whose last moment is before this one."""
        stay = ~self.out | (self.until >= moment)
        rows = int(stay.argmax()) if stay.any() else len(stay)
        self.first += rows
        self.until, self.mark, self.out = self.until[rows:], self.mark[rows:], self.out[rows:]
        rows += self._before
        while self.chunks and rows >= self.chunks[0].num_rows:
            rows -= self.chunks.pop(0).num_rows
        self._before = rows

    def take(self, places: np.ndarray) -> pa.Table:
        """The rows at some places, counted from the first one."""
        if not len(places):
            return empty_table(self.schema)
        return pa.concat_tables(self.chunks).take(pa.array(places + self._before))

    def table(self) -> pa.Table:
        """All rows, with what belongs to them."""
        rows = self.take(np.arange(len(self.until)))
        for name, column in ((LAST, self.until), (MARK, self.mark), (OUT, self.out)):
            rows = rows.append_column(name, pa.array(column))
        return rows

    def numbers(self) -> dict[str, int]:
        """What belongs to the table, as numbers."""
        names = ("first", "came", "shed", "told", "peak_rows", "peak_bytes")
        return {name: int(getattr(self, name)) for name in names}

    def load(self, table: pa.Table, numbers: Mapping[str, int]) -> None:
        """Go on from a table and its numbers."""
        out = table[OUT].to_numpy(zero_copy_only=False).copy()
        self.append(table, table[LAST].to_numpy(), table[MARK].to_numpy().copy(), out)
        for name, value in numbers.items():
            setattr(self, name, value)
