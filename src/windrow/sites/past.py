"""Past: the rows of an own stream that a new plan would have to know: all that may still be met."""

from collections import deque

import numpy as np
import pyarrow as pa

from windrow.sites.bound import TIME, Bound
from windrow.state.columns import empty_table


class Past:
    """Rows of a stream in wire form, interval by interval."""

    def __init__(self, bound: Bound, stream: str) -> None:
        self.bound, self.stream = bound, stream
        self.schema = bound.rows_schema((stream,))
        self.chunks: deque[tuple[int, pa.Table, int]] = deque()  # interval, rows, the last moment of the last one

    def add(self, interval: int, rows: pa.Table) -> None:
        """The rows of an interval, which has ended."""
        if rows.num_rows:
            self.chunks.append((interval, rows, int(self.bound.until(self.stream, rows).max())))

    def forget(self, low: int, interval: int) -> None:
        """Let go of rows that nobody can meet from a moment on, but not of those since an interval."""
        while self.chunks and self.chunks[0][2] < low and self.chunks[0][0] < interval:
            self.chunks.popleft()

    def alive(self, low: int) -> pa.Table:
        """The rows that may be met at some moment or later."""
        rows = self.table()
        return rows.filter(pa.array(self.bound.until(self.stream, rows) >= low)) if rows.num_rows else rows

    def since(self, interval: int) -> pa.Table:
        """The rows from an interval on."""
        found = [rows for at, rows, _ in self.chunks if at >= interval]
        return pa.concat_tables(found) if found else empty_table(self.schema)

    def intervals(self, interval: int) -> int:
        """How many intervals from one on have brought rows."""
        return sum(at >= interval for at, *_ in self.chunks)

    @property
    def nbytes(self) -> int:
        """The bytes of all rows."""
        return sum(rows.nbytes for _, rows, _ in self.chunks)

    def table(self) -> pa.Table:
        """All rows."""
        return (
            pa.concat_tables([c[1] for c in self.chunks]).combine_chunks() if self.chunks else empty_table(self.schema)
        )

    def load(self, rows: pa.Table) -> None:
        """Go on from the rows that `table` gave."""
        interval = self.bound.interval_of(rows[TIME].to_numpy())
        start = 0
        for end in (np.flatnonzero(np.diff(interval, append=np.iinfo(np.int64).max)) + 1).tolist():
            self.add(int(interval[start]), rows.slice(start, end - start))
            start = end
