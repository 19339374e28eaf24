"""Relations that change over time, as tables of rows with the time for which each is in the relation.

A row is in from `since` to just before `until`, in ticks of the query's time; `FOREVER` for one that stays. The
relation at an instant is the multiset of rows that are in then. A window makes a relation of a stream (windows.py), and
`streamed` a stream of a relation. All of it sorts or counts whole arrays: O(n log n), no row by row.

      window of 3          since      until
      a at 1               1          5        in at 1, 2, 3, 4: both ends of a range belong to it
      b at 2               2          6
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.errors import KeyTypeError

FOREVER = 1 << 62
"""The end of rows that never leave."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Timed:
    """A stream: rows with the instant of each, in order of it."""

    table: pa.Table
    at: Ints


@dataclass(frozen=True)
class Relation:
    """Rows, with the first instant at which each is in the relation, and the first at which it is not any more."""

    table: pa.Table
    since: Ints
    until: Ints

    def where(self, mask: NDArray[np.bool_]) -> Relation:
        """The rows for which the mask holds."""
        if mask.all():
            return self
        return self.take(np.flatnonzero(mask))

    def take(self, rows: Ints) -> Relation:
        """The rows of these numbers."""
        return Relation(self.table.take(pa.array(rows)), self.since[rows], self.until[rows])

    def seen(self) -> Relation:
        """Without rows that are in at no instant."""
        return self.where(self.since < self.until)


def until_pushed_out(at: Ints, numbers: Ints, rows: int) -> Ints:
    """When the row that is `rows` behind in the same part comes."""
    order = np.argsort(numbers, kind="stable")
    until = np.full(len(at), FOREVER)
    if rows < len(at):
        mine, later = order[:-rows], order[rows:]
        same = numbers[mine] == numbers[later]
        until[mine[same]] = at[later[same]]
    return until


def row_numbers(columns: Sequence[Any]) -> Ints:
    """The same number for rows with the same values in all columns; null is a value here, and NaN is one, too; 0 and -0
    are equal."""
    numbers = None
    for column in columns:
        flat = pa.chunked_array(column).combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if pa.types.is_floating(flat.type):
            wide = pa.float32() if pa.types.is_float16(flat.type) else flat.type
            flat = pc.add(flat.cast(wide), pa.scalar(0, wide))
        try:
            encoded = flat.dictionary_encode(null_encoding="encode")
        except pa.ArrowNotImplementedError:
            raise KeyTypeError(f"values that are {flat.type} cannot be compared: leave them out, or cast") from None
        own = np.asarray(encoded.indices).astype(np.int64)
        if numbers is None:
            numbers = own
        else:
            both = numbers * (len(encoded.dictionary) + 1) + own
            numbers = np.unique(both, return_inverse=True)[1].astype(np.int64)
    return np.zeros(0, np.int64) if numbers is None else numbers


def stacked(tables: Sequence[pa.Table], name: str) -> pa.ChunkedArray:
    """A column of several tables, one below the other."""
    kind = tables[0].schema.field(name).type
    return pa.chunked_array([chunk for table in tables for chunk in table[name].chunks], type=kind)


def spells(numbers: Ints, since: Ints, until: Ints) -> tuple[Ints, Ints, Ints]:
    """For each number, the spells during which at least one of its rows is in: (a row of it, since, until)."""
    order = np.lexsort((since, numbers))
    number, start, end = numbers[order], since[order], until[order]
    if not len(order):
        return order, start, end
    first = np.diff(number, prepend=number[0] - 1) != 0
    reach = _running_max(end, first)
    before = np.concatenate(([0], reach[:-1]))
    begins = first | (start > before)
    at = np.flatnonzero(begins)
    ends = reach[np.append(at[1:], len(order)) - 1]
    return order[at], start[at], ends


def _running_max(values: Ints, first: NDArray[np.bool_]) -> Ints:
    """The largest value so far since the last row that is `first`."""
    ranks = np.unique(values, return_inverse=True)
    group = np.cumsum(first)
    lifted = ranks[1].astype(np.int64) + group * (len(ranks[0]) + 1)
    return ranks[0][np.maximum.accumulate(lifted) - group * (len(ranks[0]) + 1)]


def streamed(relation: Relation, emit: str) -> Timed:
    """The rows that enter the relation at each instant ("istream"), or leave it ("dstream").

    A row that leaves in the instant in which an equal one enters has neither entered nor left.
    """
    kept = relation.seen()
    leaving = np.flatnonzero(kept.until < FOREVER)
    rows = np.concatenate([np.arange(len(kept.since)), leaving])
    at = np.concatenate([kept.since, kept.until[leaving]])
    change = np.concatenate([np.ones(len(kept.since), np.int64), -np.ones(len(leaving), np.int64)])
    numbers = _numbers_of(kept.table)[rows]
    order = np.lexsort((rows, numbers, at))
    begins = np.flatnonzero((np.diff(at[order], prepend=-1) != 0) | (np.diff(numbers[order], prepend=-1) != 0))
    net = np.add.reduceat(change[order], begins) if len(order) else change
    times = np.maximum(net if emit == "istream" else -net, 0)
    chosen = np.repeat(order[begins], times)
    return Timed(kept.table.take(pa.array(rows[chosen])), at[chosen])


def _numbers_of(table: pa.Table) -> Ints:
    if not table.num_columns:
        return np.zeros(table.num_rows, np.int64)
    return row_numbers(table.columns)


def at_instant(relation: Relation, tick: int) -> pa.Table:
    """The rows that are in at an instant."""
    return relation.where((relation.since <= tick) & (tick < relation.until)).table
