"""Row store: the rows of a window at its own site in order of their sequence, for semijoins that send some of them.

Rows stand in the order of (time, sequence), so their last moments rise, and those that expire are the first ones.
"""

import numpy as np
import pyarrow as pa

from windrow.state.columns import empty_table


class RowStore:
    """Rows by sequence number, with their last moment and a word that programs write (sent, or the entry's number)."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.first = 0  # the sequence number of the first row that is there
        self.until = np.zeros(0, np.int64)
        self.mark = np.zeros(0, np.int64)
        self.chunks: list[pa.Table] = []
        self._before = 0  # rows of the first chunk that are gone

    @property
    def next(self) -> int:
        """The sequence number of the next row."""
        return self.first + len(self.until)

    def append(self, rows: pa.Table, until: np.ndarray, mark: np.ndarray) -> None:
        """Add rows behind the others."""
        if rows.num_rows:
            self.chunks.append(rows.select(self.schema.names))
            self.until = np.concatenate([self.until, until])
            self.mark = np.concatenate([self.mark, mark])

    def expired(self, moment: int) -> int:
        """How many rows have their last moment before this one."""
        return int(np.searchsorted(self.until, moment, side="left"))

    def drop(self, rows: int) -> None:
        """Forget the first rows."""
        self.first += rows
        self.until, self.mark = self.until[rows:], self.mark[rows:]
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
        return rows.append_column("@until", pa.array(self.until)).append_column("@mark", pa.array(self.mark))

    @classmethod
    def of(cls, table: pa.Table, first: int) -> "RowStore":
        """The store whose table this is."""
        store = cls(table.drop_columns(["@until", "@mark"]).schema)
        store.first = first
        store.append(table, table["@until"].to_numpy(), table["@mark"].to_numpy().copy())
        return store
