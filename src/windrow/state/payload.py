"""Payloads: the residents' columns, in Arrow, gathered only for matches.

A stream's payload is a list of chunks; a row is addressed by its position in their concatenation. Rows that leave
memory stay where they are until their chunk is merged or too much is dead. Chunks shrink geometrically towards the
newest, so that there are O(log n) of them and each row is copied O(log n) times:

    [ 9,000 rows ][ 3,000 ][ 900 ][ 200 ]  <- a push appends here

After `tidy` at most a fifth of what is stored is dead, in rows (or 1,024 rows) and in bytes (or 64 kB, less in small
budgets): payload is charged with a quarter on top.
"""

import numpy as np
import pyarrow as pa

from windrow.kernels.rows import live_rows, repoint
from windrow.state.columns import empty_table

DEAD_SHARE = 0.2  # of all stored rows; 1 / (1 - 0.2) = 1.25
SPARE_ROWS = 1024  # dead rows that are not worth a copy, if they are small
SPARE_BYTES = 1 << 16


class Payload:
    """The payload of one stream's residents."""

    def __init__(self, stream: int, schema: pa.Schema) -> None:
        self.stream = stream
        self.schema = schema
        self.chunks: list[tuple[pa.Table, np.ndarray]] = []  # columns, and the slot of each row

    @property
    def rows(self) -> int:
        """Rows stored, dead ones included."""
        return sum(len(owners) for _, owners in self.chunks)

    def table(self, batch: pa.Table | None = None) -> pa.Table:
        """All stored rows in their order, then a batch."""
        tables = [columns for columns, _ in self.chunks]
        if batch is not None:
            tables.append(batch)
        return pa.concat_tables(tables) if tables else empty_table(self.schema)

    def admit(self, block: np.ndarray, batch: pa.Table, chosen: np.ndarray, slots: np.ndarray) -> None:
        """Store the chosen rows of a batch, which sit in the given slots."""
        if len(chosen) == 0:
            return
        first = self.rows
        self.chunks.append((taken(batch, chosen), slots))
        repoint(block, slots, first)
        while len(self.chunks) > 1 and len(self.chunks[-2][1]) < 2 * len(self.chunks[-1][1]):
            self._merge(block, len(self.chunks) - 2)

    def hold(self, table: pa.Table, first: int, rows: int) -> None:
        """Take over the payload of so many residents, which sit in slots from `first` on."""
        self.chunks = [(table, np.arange(first, first + rows))] if rows else []

    @property
    def nbytes(self) -> int:
        """Bytes stored, dead rows and the slots of rows included."""
        return sum(int(columns.nbytes) + int(owners.nbytes) for columns, owners in self.chunks)

    def tidy(self, block: np.ndarray, residents: int, live_bytes: int, spare_bytes: int = SPARE_BYTES) -> None:
        """Copy everything together when too much is dead, in rows or in bytes."""
        dead = self.rows - residents
        many = dead > max(DEAD_SHARE * self.rows, SPARE_ROWS)
        live_bytes += 8 * residents
        if many or (dead > 0 and self.nbytes > live_bytes / (1 - DEAD_SHARE) + spare_bytes):
            self._merge(block, 0)

    def _merge(self, block: np.ndarray, start: int) -> None:
        """Replace the chunks from a place on by one with their live rows."""
        first = sum(len(owners) for _, owners in self.chunks[:start])
        owners = np.concatenate([owners for _, owners in self.chunks[start:]])
        alive = live_rows(block, owners, self.stream, first)
        merged = pa.concat_tables([columns for columns, _ in self.chunks[start:]])
        del self.chunks[start:]
        if len(alive):
            self.chunks.append((taken(merged, alive), owners[alive]))
            repoint(block, owners[alive], first)


def taken(table: pa.Table, rows: np.ndarray) -> pa.Table:
    """A copy of some rows, in one piece, that holds on to nothing else."""
    if table.num_columns == 0:
        return table
    absent = rows < 0  # a resident without payload has nulls
    return table.take(pa.array(rows, mask=absent if absent.any() else None)).combine_chunks()
