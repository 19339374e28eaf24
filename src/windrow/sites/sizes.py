"""Sizes: what rows of a stream take on the wire, in few numbers, so that no rows need to travel to tell it.

A batch of an interval is packed whole, then every fourth row of it, every sixteenth, every sixty-fourth: chosen rows
lie apart, and pack less well. Of each, a column has what the batch is smaller without it; the rest is the frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np
import pyarrow as pa

from windrow.sites.bound import TIME
from windrow.sites.messages import body_bytes

POINTS, APART = 4, 4  # how many batches are packed, and how much further apart the rows of each lie
SIZES = pa.schema([pa.field("n", pa.int32())])


@dataclass(frozen=True)
class Sizes:
    """Bytes of batches, by their number of rows: of the frame, and what each column adds."""

    counts: np.ndarray  # rising
    frame: np.ndarray
    columns: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, rows: pa.Table, batch: float) -> Sizes:
        """Of rows in wire form, of which an interval brings so many."""
        found = [_point(rows, batch, APART**k) for k in reversed(range(POINTS))]
        names = _columns(rows.schema)
        columns = {name: np.array([point[2 + k] for point in found]) for k, name in enumerate(names)}
        return cls(np.array([p[0] for p in found]), np.array([p[1] for p in found]), columns)

    def size(self, columns: Iterable[str], rows: float, frame: bool = True) -> float:
        """The bytes of so many rows with some columns."""
        known = sum((self.columns[name] for name in columns if name in self.columns), np.zeros(len(self.counts)))
        beyond = max(1.0, rows / self.counts[-1])
        return float(np.interp(rows, self.counts, known) * beyond + frame * np.interp(rows, self.counts, self.frame))

    def table(self) -> pa.Table:
        """The numbers, as they travel."""
        lines = [self.counts, self.frame, *self.columns.values()]
        return pa.table({"n": pa.array(np.concatenate(lines).astype(np.int32))}, schema=SIZES)

    @classmethod
    def read(cls, numbers: np.ndarray, schema: pa.Schema) -> Sizes:
        """The sizes of a stream, of whose wire form the numbers are."""
        counts, frame, *columns = numbers.reshape(-1, POINTS)
        return cls(counts, frame, dict(zip(_columns(schema), columns, strict=True)))


def lines_of(schema: pa.Schema) -> int:
    """How many numbers tell the sizes of a stream."""
    return POINTS * (2 + len(_columns(schema)))


def _columns(schema: pa.Schema) -> list[str]:
    return [name for name in schema.names if name == TIME or name[0] != "@"]


def _point(rows: pa.Table, batch: float, apart: int) -> list[int]:
    """How many rows were packed, the bytes of their frame, and those of each column."""
    count = max(1, min(ceil(batch / apart), rows.num_rows))
    apart = max(1, min(apart, rows.num_rows // count))
    start = max(0, (rows.num_rows - count * apart) // 2)
    names = _columns(rows.schema)
    chosen = rows.select(names).take(pa.array(np.arange(start, start + count * apart, apart)[:count]))
    whole = body_bytes(chosen)
    columns = [max(0, whole - body_bytes(chosen.drop_columns([name]))) for name in names]
    return [count, max(0, whole - sum(columns)), *columns]
