"""Rows that wait: what has come of each stream behind the instant up to which all streams are known.

An instant is over when every stream has brought a row behind it (by more than its lateness), or when a watermark says
so. Rows of instants that are over are given on, in order of time and, within an instant, of arrival.
"""

from __future__ import annotations

from collections.abc import Mapping
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


class Waiting:
    """The rows of all streams that wait for their instant to be over."""

    def __init__(self, setting: Setting, schemas: Mapping[str, pa.Schema], lateness: int) -> None:
        self.setting, self.schemas, self.lateness = setting, dict(schemas), lateness
        self.rows = {name: Timed(empty_table(s), np.zeros(0, np.int64)) for name, s in schemas.items()}
        self.newest = dict.fromkeys(schemas, BEFORE)
        self.counts = {name: Counts() for name in schemas}
        self.over = BEFORE
        """All instants up to this one are over."""

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that wait."""
        return sum(rows.table.nbytes + rows.at.nbytes for rows in self.rows.values())

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
            old = self.rows[name]
            new = pa.concat_tables([old.table, table.take(pa.array(on_time))])
            self.rows[name] = Timed(new, np.concatenate([old.at, at[on_time]]))

    def reach(self, mark: int | None) -> int:
        """The last instant that is over by now, if no row before the mark will come."""
        least = min(self.newest.values())
        known = least if self.setting.domain.kind == "rank" else least - self.lateness - 1
        return max(self.over, known, BEFORE if mark is None else mark - 1)

    def until(self, end: int) -> tuple[dict[str, Timed], dict[str, Any]]:
        """The rows of all instants up to one, which are over now; and of streams with signs, which are deletions."""
        found, deletes = {}, {}
        for name, rows in self.rows.items():
            ready = rows.at <= end
            mine = np.flatnonzero(ready)
            mine = mine[np.argsort(rows.at[mine], kind="stable")]
            found[name] = Timed(rows.table.take(pa.array(mine)), rows.at[mine])
            rest = np.flatnonzero(~ready)
            self.rows[name] = Timed(rows.table.take(pa.array(rest)), rows.at[rest])
            if name in self.setting.signs:
                sign = self.setting.signs[name]
                deletes[name] = negative(found[name].table[sign], f"{name}.{sign}")
        self.over = max(self.over, end)
        return found, deletes
