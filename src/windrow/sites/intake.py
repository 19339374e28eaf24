"""Intake: rows of a stream at its own site become batches of intervals, in wire form.

Filters, missing keys and projection come first, so nothing that can never match is shipped. Rows of an interval that
has ended are late. Within an interval rows stand in order of (time, arrival).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.intake import as_table
from windrow.engine.prepare import rows_of, tables
from windrow.errors import InputError
from windrow.sites.bound import NUMBER, TIME, UNTIL, Bound
from windrow.state.columns import empty_table

KEEP = "@keep"


class Intake:
    """The rows of one stream that wait for their interval to end."""

    def __init__(self, bound: Bound, stream: str) -> None:
        self.bound, self.stream = bound, stream
        self.place = bound.place(stream)
        self.schema = bound.rows_schema((stream,))
        self.columns = [f for f in self.schema if f.name not in (TIME, NUMBER, UNTIL)]
        fields = [pa.field(TIME, pa.int64()), pa.field(KEEP, pa.bool_()), *self.columns]
        self.pending = empty_table(pa.schema(fields))
        self.next = 0  # the interval that ends next
        self.taken = 0  # rows that have a number in the stream
        self.counters: dict[str, int] = {"arrived": 0, "late": 0, "ignored": 0}

    def feed(self, data: Any) -> None:
        """Take rows, in any order."""
        table = tables(self.bound.binding, {self.stream: as_table(data, self.stream)})[self.place]
        rows = rows_of(self.bound.binding, self.place, table, self.counters["arrived"])
        timely = rows.counted & (rows.time >= self.bound.start(self.next))
        self.counters["arrived"] += table.num_rows
        self.counters["late"] += int((rows.counted & ~timely).sum())
        self.counters["ignored"] += int((~rows.counted).sum() + (timely & ~rows.keep).sum())
        own = [table[field.name.partition(".")[2]] for field in self.columns]
        columns = [pa.array(rows.time), pa.array(rows.keep), *own]
        fed = pa.Table.from_arrays(columns, schema=self.pending.schema)
        self.pending = pa.concat_tables([self.pending, fed if timely.all() else fed.filter(pa.array(timely))])

    def close(self, interval: int) -> tuple[pa.Table, pa.Table]:
        """An interval has ended: its rows, and the times of all its rows, also of those that can never match."""
        if interval != self.next:
            raise InputError(f"stream {self.stream!r}: interval {self.next} ends next, not {interval}")
        self.next += 1
        time = self.pending[TIME].to_numpy()
        mine = time < self.bound.start(self.next)
        if not mine.any():
            return empty_table(self.schema), pa.table({TIME: pa.array([], pa.int64())})
        count = int(mine.sum())
        if mine[:count].all() and (time[1:count] >= time[: count - 1]).all():  # as most streams come
            rows, self.pending = self.pending.slice(0, count), self.pending.slice(count)
        else:
            where = np.flatnonzero(mine)
            where = where[np.argsort(time[where], kind="stable")]
            rows = self.pending.take(pa.array(where))
            self.pending = self.pending.filter(pa.array(~mine)).combine_chunks()
        keep = rows[KEEP]
        clock = rows.select([TIME])
        if NUMBER in self.schema.names:
            rows = rows.append_column(NUMBER, pa.array(self.taken + np.arange(rows.num_rows)))
        self.taken += rows.num_rows
        kept = rows if pa.compute.all(keep).as_py() else rows.filter(keep)
        if UNTIL in self.schema.names:
            kept = kept.append_column(UNTIL, pa.array(self.bound.until(self.stream, kept)))
        return kept.select(self.schema.names), clock

    def state(self) -> tuple[dict[str, Any], pa.Table]:
        """What is waiting, and the counters."""
        return {"next": self.next, "taken": self.taken, "counters": self.counters}, self.pending

    def load(self, numbers: Mapping[str, Any], pending: pa.Table) -> None:
        """Go on from a state."""
        self.next, self.taken, self.counters = numbers["next"], numbers["taken"], dict(numbers["counters"])
        self.pending = pending
