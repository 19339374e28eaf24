"""Row store: the rows of a window at its own site by sequence, for semijoins that send some of them."""

import numpy as np
import pyarrow as pa

from windrow.state.columns import empty_table

LAST, MARK, OUT = "@last", "@mark", "@out"


class RowStore:
    """Rows by sequence number, with their last moment and a word that programs write (sent, or the entry's number).

    A row is *out* when its last moment has passed and it has been counted; it is forgotten when nobody can ask for it.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
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

    def append(self, rows: pa.Table, until: np.ndarray, mark: np.ndarray, out: np.ndarray | None = None) -> None:
        """Add rows behind the others."""
        if rows.num_rows:
            self.chunks.append(rows.select(self.schema.names))
            self.until = np.concatenate([self.until, until])
            self.mark = np.concatenate([self.mark, mark])
            self.out = np.concatenate([self.out, np.zeros(len(until), np.bool_) if out is None else out])

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

    @classmethod
    def of(cls, table: pa.Table, first: int) -> "RowStore":
        """The store whose table this is."""
        store = cls(table.drop_columns([LAST, MARK, OUT]).schema)
        store.first = first
        out = table[OUT].to_numpy(zero_copy_only=False).copy()
        store.append(table, table[LAST].to_numpy(), table[MARK].to_numpy().copy(), out)
        return store
