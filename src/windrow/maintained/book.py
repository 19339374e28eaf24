"""Books: rows that are in for now, found by when they leave or by whole numbers that they carry.

A book is a few chunks, each at least twice as long as the next. What is added makes a chunk of its own; short ones are
copied together, without what has left by then, so a row is copied O(log n) times, and there are O(log n) chunks to look
into. A chunk has its rows in the order in which they came, and for each way to find them an order of its own:

    rows      3 1 7 5       until when, and each key: sorted, with the places of the rows
    until     9 4 8 6  ->   4 6 8 9   at 1 3 2 0, of which the first `passed` are over

Cost: a look-up is a binary search in each chunk; bytes are those of the arrays, what has left included until its chunk
is copied, which is when half of it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.errors import SnapshotError
from windrow.maintained.relation import FOREVER, Ints
from windrow.state.columns import places_of
from windrow.state.snapshot import form

NUMBER, UNTIL = "(number)", "(until)"


@dataclass
class Chunk:
    """Rows that were added one after the other."""

    ids: Ints
    until: Ints
    keys: list[Ints]
    table: pa.Table
    alive: NDArray[np.bool_] = field(init=False)
    orders: list[Ints] = field(init=False)
    passed: int = 0
    dead: int = 0

    def __post_init__(self) -> None:
        self.alive = np.ones(len(self.ids), np.bool_)
        ends = bool((self.until < FOREVER).any())
        self.by_until = np.argsort(self.until, kind="stable") if ends else None
        self.orders = [np.argsort(key, kind="stable") for key in self.keys]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays and columns."""
        arrays = [self.ids, self.until, self.alive, *self.keys, *self.orders]
        own = sum(array.nbytes for array in arrays) + (0 if self.by_until is None else self.by_until.nbytes)
        return own + self.table.nbytes

    def due(self, end: int) -> Ints:
        """Places of rows that are to leave by then, each once."""
        if self.by_until is None:
            return np.zeros(0, np.int64)
        stop = int(np.searchsorted(self.until, end, side="right", sorter=self.by_until))
        found = self.by_until[self.passed : stop]
        self.passed = max(stop, self.passed)
        return found[self.alive[found]]

    def find(self, which: int, keys: Ints) -> tuple[Ints, Ints]:
        """Places of rows with one of these keys, and for each the place of its key."""
        rows, of = places_of(self.keys[which], self.orders[which], keys)
        there = self.alive[rows]
        return rows[there], of[there]

    def living(self) -> Chunk:
        """The rows that have not left, as a chunk of their own."""
        rows = np.flatnonzero(self.alive)
        return Chunk(self.ids[rows], self.until[rows], [k[rows] for k in self.keys], self.table.take(pa.array(rows)))


@dataclass(frozen=True)
class Found:
    """Rows of a book: in which chunk, at which place."""

    chunk: Ints
    row: Ints

    def __len__(self) -> int:
        return len(self.row)

    def picked(self, where: Any) -> Found:
        """Some of them."""
        return Found(self.chunk[where], self.row[where])


class Book:
    """Rows that are in, with numbers, ends that are known in advance, keys and columns."""

    def __init__(self, keys: int = 0) -> None:
        self.width = keys
        self.chunks: list[Chunk] = []

    def __len__(self) -> int:
        return sum(len(chunk) - chunk.dead for chunk in self.chunks)

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays and columns."""
        return sum(chunk.nbytes for chunk in self.chunks)

    def add(self, ids: Ints, table: pa.Table, until: Ints | None = None, keys: Sequence[Ints] = ()) -> None:
        """Add rows that are in from now on."""
        if not len(ids):
            return
        ends = np.full(len(ids), FOREVER) if until is None else until
        self.chunks.append(Chunk(ids, ends, list(keys), table.combine_chunks()))
        while len(self.chunks) > 1 and len(self.chunks[-2]) < 2 * len(self.chunks[-1]):
            last, before = self.chunks.pop().living(), self.chunks.pop().living()
            self.chunks.append(_together(before, last))

    def due(self, end: int) -> Found:
        """The rows that are to leave by then; it is asked once."""
        return _found([chunk.due(end) for chunk in self.chunks])

    def find(self, which: int, keys: Ints) -> tuple[Found, Ints]:
        """The rows with one of these keys, and for each the place of its key among them."""
        both = [chunk.find(which, keys) for chunk in self.chunks]
        of = np.concatenate([own for _, own in both]) if both else np.zeros(0, np.int64)
        return _found([rows for rows, _ in both]), of

    def all(self) -> Found:
        """All rows."""
        return _found([np.flatnonzero(chunk.alive) for chunk in self.chunks])

    def ids(self, found: Found) -> Ints:
        """The numbers of rows."""
        return self._gathered([chunk.ids for chunk in self.chunks], found)

    def until(self, found: Found) -> Ints:
        """When rows are to leave."""
        return self._gathered([chunk.until for chunk in self.chunks], found)

    def key(self, which: int, found: Found) -> Ints:
        """A key of rows."""
        return self._gathered([chunk.keys[which] for chunk in self.chunks], found)

    def _gathered(self, arrays: Sequence[Ints], found: Found) -> Ints:
        values = np.zeros(len(found), np.int64)
        for k, array in enumerate(arrays):
            here = np.flatnonzero(found.chunk == k)
            values[here] = array[found.row[here]]
        return values

    def take(self, found: Found, none: pa.Table) -> pa.Table:
        """The columns of rows, in the order in which they are given; `none` is a table of them without rows."""
        if not len(found):
            return none.slice(0, 0)
        order = np.argsort(found.chunk, kind="stable")
        parts = [
            chunk.table.take(pa.array(found.row[order][found.chunk[order] == k])) for k, chunk in enumerate(self.chunks)
        ]
        together = pa.concat_tables(parts)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return together if (order[1:] > order[:-1]).all() else together.take(pa.array(back))

    def drop(self, found: Found) -> None:
        """Let rows leave; each is given once."""
        for k in np.unique(found.chunk).tolist():
            chunk, rows = self.chunks[k], found.row[found.chunk == k]
            chunk.alive[rows] = False
            chunk.dead += len(rows)
        self.chunks = [
            chunk.living() if 2 * chunk.dead > len(chunk) else chunk for chunk in self.chunks if chunk.dead < len(chunk)
        ]

    def saved(self) -> pa.Buffer | None:
        """The rows as bytes; None if there are none."""
        if not self.chunks:
            return None
        living = [np.flatnonzero(chunk.alive) for chunk in self.chunks]  # whoever restores them puts them in order
        both = list(zip(self.chunks, living, strict=True))
        table = pa.concat_tables([chunk.table.take(pa.array(rows)) for chunk, rows in both]).combine_chunks()
        columns = {
            NUMBER: [chunk.ids[rows] for chunk, rows in both],
            UNTIL: [chunk.until[rows] for chunk, rows in both],
        }
        columns |= {_key(k): [chunk.keys[k][rows] for chunk, rows in both] for k in range(self.width)}
        for name, parts in columns.items():
            table = table.append_column(name, pa.array(np.concatenate(parts)))
        return form.table_bytes(table)

    def restore(self, part: pa.Buffer) -> None:
        """Take over the rows of `saved`."""
        table = form.table_of(part)
        names = [NUMBER, UNTIL, *(_key(k) for k in range(self.width))]
        if not set(names) <= set(table.column_names) or any(table[n].null_count for n in names):
            raise SnapshotError.impossible("rows that are held have other columns")
        ids, until, *keys = (np.array(table[name].to_numpy(), np.int64) for name in names)
        self.chunks = [Chunk(ids, until, keys, table.drop_columns(names).combine_chunks())] if len(ids) else []


def _key(which: int) -> str:
    return f"(key {which})"


def _found(rows: Sequence[Ints]) -> Found:
    if not rows:
        return Found(np.zeros(0, np.int64), np.zeros(0, np.int64))
    return Found(np.repeat(np.arange(len(rows)), [len(own) for own in rows]), np.concatenate(rows))


def _together(one: Chunk, other: Chunk) -> Chunk:
    keys = [np.concatenate(pair) for pair in zip(one.keys, other.keys, strict=True)]
    table = pa.concat_tables([one.table, other.table]).combine_chunks()
    return Chunk(np.concatenate([one.ids, other.ids]), np.concatenate([one.until, other.until]), keys, table)


Parts = Iterator[pa.Buffer]
