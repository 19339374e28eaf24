"""Rows that wait: what has come of each stream behind the instant up to which all streams are known.

An instant is over when every stream has brought a row behind it (by more than its lateness), or when a watermark says
so. Rows of instants that are over are given on, in order of time and, within an instant, of arrival.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.cql.blocks import Setting
from windrow.engine.prepare import negative
from windrow.errors import InputError
from windrow.maintained.changes import BEFORE
from windrow.maintained.relation import FOREVER, Ints, Timed
from windrow.state.coding_times import times
from windrow.state.columns import empty_table


@dataclass
class Counts:
    """Rows of a stream: how many came, came too late, had no time."""

    arrived: int = 0
    late: int = 0
    ignored: int = 0


def instants(table: pa.Table, name: str, setting: Setting, first: int = 0) -> tuple[Ints, Ints]:
    """The instants of rows of a stream, which are numbered on from the first where they have no times; and which rows
    have one."""
    clock = setting.times[name]
    if clock is None:
        return first + np.arange(table.num_rows), np.arange(table.num_rows)
    at, known = times(table[clock], setting.domain, f"{name}.{clock}")
    rows = np.arange(len(at)) if known is None else np.flatnonzero(known)
    if len(rows) and (at[rows].min() <= BEFORE or at[rows].max() >= FOREVER):
        raise InputError(
            f"{name}.{clock}: a time is 2^62 {setting.domain.unit} or more away from 0, where query texts know no "
            "times: leave such rows out, or cast the column to a coarser unit"
        )
    return at, rows


@dataclass
class Piece:
    """Rows in order of time and, within an instant, of arrival; those before the first are gone."""

    rows: Timed
    first: int = 0

    def __len__(self) -> int:
        return len(self.rows.at) - self.first

    @property
    def left(self) -> Timed:
        """The rows that are there."""
        return Timed(self.rows.table.slice(self.first), self.rows.at[self.first :])

    def until(self, end: int) -> Timed:
        """The rows up to an instant, which are gone now. What they took is free when half of the piece is gone."""
        first, self.first = self.first, max(self.first, int(np.searchsorted(self.rows.at, end, "right")))
        found = Timed(self.rows.table.slice(first, self.first - first), self.rows.at[first : self.first])
        if 2 * self.first > len(self.rows.at):
            self.rows, self.first = _in_order(self.left), 0
        return found


class Line:
    """The rows of one stream that wait: pieces, the later the shorter, so that a row is copied a few times in all.

    >>> line = Line(pa.schema({"v": pa.int64()}))
    >>> line.add(Timed(pa.table({"v": [1, 2, 3]}), np.array([7, 5, 9])))
    >>> line.until(7).table["v"].to_pylist(), len(line)
    ([2, 1], 1)
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._none = Timed(empty_table(schema), np.zeros(0, np.int64))
        self._pieces: list[Piece] = []

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that wait, and of rows that are gone and not yet free."""
        return sum(int(piece.rows.table.nbytes) + piece.rows.at.nbytes for piece in self._pieces)

    def add(self, rows: Timed) -> None:
        """Take rows, in any order."""
        if not len(rows.at):
            return
        self._pieces.append(Piece(_in_order(rows)))
        while len(self._pieces) > 1 and len(self._pieces[-2]) < 2 * len(self._pieces[-1]):
            self._pieces[-2:] = [Piece(_together([piece.left for piece in self._pieces[-2:]]))]

    def until(self, end: int) -> Timed:
        """The rows up to an instant, which wait no longer."""
        found = [piece.until(end) for piece in self._pieces]
        self._pieces = [piece for piece in self._pieces if len(piece)]
        return _together([self._none, *found])

    def all(self) -> Timed:
        """The rows that wait, in order."""
        return _together([self._none, *(piece.left for piece in self._pieces)])


def _together(rows: Sequence[Timed]) -> Timed:
    """Rows of several pieces, older ones first, in one."""
    return _in_order(Timed(pa.concat_tables([r.table for r in rows]), np.concatenate([r.at for r in rows])))


def _in_order(rows: Timed) -> Timed:
    """The rows in order of time, copied."""
    order = np.argsort(rows.at, kind="stable")
    return Timed(rows.table.take(pa.array(order)), rows.at[order])


class Waiting:
    """The rows of all streams that wait for their instant to be over."""

    def __init__(self, setting: Setting, schemas: Mapping[str, pa.Schema], lateness: int) -> None:
        self.setting, self.schemas, self.lateness = setting, dict(schemas), lateness
        self.rows = {name: Line(schema) for name, schema in schemas.items()}
        self.newest = dict.fromkeys(schemas, BEFORE)
        self.counts = {name: Counts() for name in schemas}
        self.over = BEFORE
        """All instants up to this one are over."""

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that wait."""
        return sum(line.nbytes for line in self.rows.values())

    def timed(self, name: str, table: pa.Table) -> tuple[Ints, Ints]:
        """The instants of rows, and which rows have one; nothing changes."""
        return instants(table, name, self.setting, self.counts[name].arrived)

    def add(self, name: str, table: pa.Table, at: Ints, rows: Ints) -> None:
        """Take rows of a stream, as `timed` has found them."""
        counts = self.counts[name]
        on_time = rows[at[rows] > self.over]
        counts.arrived += table.num_rows
        counts.ignored += table.num_rows - len(rows)
        counts.late += len(rows) - len(on_time)
        if len(on_time):
            self.newest[name] = max(self.newest[name], int(at[on_time].max()))
            self.rows[name].add(Timed(table.take(pa.array(on_time)), at[on_time]))

    def reach(self, mark: int | None) -> int:
        """The last instant that is over by now, if no row before the mark will come."""
        least = min(self.newest.values())
        known = least if self.setting.domain.kind == "rank" else least - self.lateness - 1
        return max(self.over, known, BEFORE if mark is None else mark - 1)

    def until(self, end: int) -> tuple[dict[str, Timed], dict[str, Any]]:
        """The rows of all instants up to one, which are over now; and of streams with signs, which are deletions."""
        found, deletes = {}, {}
        for name, line in self.rows.items():
            found[name] = line.until(end)
            if name in self.setting.signs:
                sign = self.setting.signs[name]
                deletes[name] = negative(found[name].table[sign], f"{name}.{sign}")
        self.over = max(self.over, end)
        return found, deletes
