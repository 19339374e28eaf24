"""Arrivals: rows of an own stream that wait for their interval to end, and when that is.

An interval has ended when the stream's clock has passed its end by the stream's lateness. The clock is the newest time
of its rows, or later: what whoever feeds it says (a heartbeat), the wall clock where the stream may be idle, what other
streams have come to where the query has a patience. When the stream itself has ended, it goes on as far as the others.
"""

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.errors import InputError, SpecError
from windrow.sites.bound import Bound
from windrow.sites.ground.description import Feed
from windrow.spec.durations import Duration
from windrow.state.coding import duration_in_units, times

MOST_AHEAD = 5_000_000  # intervals that a row may be ahead of its stream
PART_BYTES = 1800  # that rows of an interval take beside themselves, about, each time that some come
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


class Arrivals:
    """The rows of one stream, by interval."""

    def __init__(self, bound: Bound, stream: str, feed: Feed) -> None:
        self.bound, self.stream = bound, stream
        self.spec = bound.query.stream(stream)
        self.lateness = self._units(self.spec.lateness, "the lateness")
        self.patience = None
        if bound.query.patience is not None:
            self.patience = -(-self._units(bound.query.patience, "patience") // bound.tau)
        self.idle = None if feed.idle is None else self._units(feed.idle, "idle")
        if self.idle is not None and bound.unit not in _NANOSECONDS:
            raise SpecError(f"streams.{stream}: idle needs times that a wall clock has, and these are numbers")
        self.waiting: dict[int, list[pa.Table]] = {}
        self.next = 0  # the interval that ends next
        self.clock: int | None = None
        self.ended: int | None = None  # the interval at which it ended
        self.ending = False  # somebody has said that it ends
        self.position: Any = None  # where the feed has come to
        self.handed = -1  # the last batch that was handed over, where batches have numbers
        self.bytes = self.rows = 0
        self.coming = 0  # bytes that were handed over and that nobody has taken in yet
        self.heard = time.monotonic()

    def _units(self, duration: Duration, what: str) -> int:
        found = duration_in_units(duration.amount, duration.unit, self.bound.binding.domain, what)
        return int(-(-found.numerator // found.denominator))

    def feed(self, table: pa.Table | None, until: int | None = None) -> None:
        """Take rows, and the time that the stream has come to, if somebody knows."""
        self.heard = time.monotonic()
        if until is not None:
            self._pass(until)
        if table is None or not table.num_rows:
            return
        self.rows += table.num_rows
        domain = self.bound.binding.domain
        moments, timed = times(table[self.spec.time], domain, f"{self.stream}.{self.spec.time}")
        known = moments if timed is None else moments[timed]
        if len(known):
            self._pass(int(known.max()))
        interval = np.maximum(self.bound.interval_of(moments), self.next)
        if timed is not None:
            interval[~timed] = self.next
        self._cut(table, interval)

    def _cut(self, table: pa.Table, interval: np.ndarray) -> None:
        """Put rows where they are waited for."""
        if (np.diff(interval) < 0).any():
            order = np.argsort(interval, kind="stable")
            table, interval = table.take(pa.array(order)), interval[order]
        ends = np.flatnonzero(np.diff(interval, append=np.iinfo(np.int64).max)) + 1
        start = 0
        for end in ends.tolist():
            part = table.slice(start, end - start)
            self.waiting.setdefault(int(interval[start]), []).append(part)
            self.bytes += _taken([part])  # as `take` counts it: parts have more than the whole
            start = end

    def _pass(self, moment: int) -> None:
        self.clock = moment if self.clock is None else max(self.clock, moment)

    def check(self, table: pa.Table | None, until: int | None) -> None:
        """Refuse what cannot be taken, before anybody has noted it: rows, and the time up to which all have come."""
        if until is not None:
            self._check_near(until, f"the time {until:,}, up to which all its rows are said to have come,")
        if table is None:
            return
        moments, timed = times(table[self.spec.time], self.bound.binding.domain, f"{self.stream}.{self.spec.time}")
        known = moments if timed is None else moments[timed]
        if len(known):
            self._check_near(known.max(), "a row")

    def admit(self, rows: bool, batch: int | None) -> None:
        """Refuse rows that come after the end: nobody would join them. A batch that comes again is no such thing."""
        before = batch is not None and batch <= self.handed
        if rows and not before and (self.ending or self.ended is not None):
            raise InputError(f"stream {self.stream!r} has ended: rows that come after that cannot be joined any more")
        self.handed = self.handed if batch is None else max(batch, self.handed)

    def _check_near(self, moment: Any, what: str) -> None:
        come = self.bound.origin if self.clock is None else self.clock  # intervals may wait for others to end
        here, there = ((at - self.bound.origin) // self.bound.tau for at in (come, int(moment)))
        if (ahead := there - max(here, self.next)) > MOST_AHEAD:
            raise InputError(
                f"stream {self.stream!r}: {what} is {ahead:,} intervals ahead of the stream, each of which would have "
                "to be ended: give the plan an origin near the first rows, or a longer interval, or leave such rows out"
            )

    def went_to(self, position: Any) -> None:
        """Where the feed has come to."""
        self.position = position
        if isinstance(position, dict) and "batch" in position:
            self.handed = max(self.handed, position["batch"])

    def finish(self) -> None:
        """No more rows come."""
        if self.ended is None:
            self.ended = max(self.next, 1 + max(self.waiting, default=-1))

    def ready(self, seen: int, final: int | None) -> int:
        """Intervals below this one have ended. `seen`: where others have come to; `final`: where all streams end."""
        if self.ended is not None:
            return max(self.ended, seen) if final is None else final
        if self.idle is not None and time.monotonic() - self.heard > self.idle * self._unit_ns / 1e9:
            now = time.time_ns() // self._unit_ns - self.idle
            if self.clock is None:  # later it may be others who are behind, and the wall clock goes on meanwhile
                self._check_near(now, "it is silent, and the wall clock")
            self._pass(now)
        return max(self._passed, 0 if self.patience is None else seen - self.patience)

    @property
    def _passed(self) -> int:
        """The first interval that has not ended by the stream's own clock."""
        return 0 if self.clock is None else (self.clock - self.lateness - self.bound.origin) // self.bound.tau

    @property
    def starves(self) -> bool:
        """Whether its next interval ends only when more rows have come, so that these must be let in."""
        return self.ended is None and not self.coming and self._passed <= self.next

    def within(self, until: int, room: int) -> int:
        """The same interval, or the first one whose rows no longer fit into so many bytes; but one at least."""
        for interval in range(self.next, until):
            room -= _taken(self.waiting.get(interval, ()))
            if room < 0:
                return max(interval, self.next + 1)
        return until

    @property
    def _unit_ns(self) -> int:
        return _NANOSECONDS.get(self.bound.unit, 1)

    def take(self, interval: int) -> pa.Table | None:
        """The rows of the next interval, which has ended."""
        self.next = interval + 1
        found = self.waiting.pop(interval, None)
        if found is None:
            return None
        self.bytes -= _taken(found)
        return pa.concat_tables(found)

    def state(self) -> tuple[dict[str, Any], pa.Table | None]:
        """What waits, and how far the stream has come."""
        facts = {"next": self.next, "clock": self.clock, "ended": self.ended, "position": self.position}
        tables = [table for _, found in sorted(self.waiting.items()) for table in found]
        return facts | {"rows": self.rows}, pa.concat_tables(tables) if tables else None

    def load(self, facts: dict[str, Any], rows: pa.Table | None) -> None:
        """Go on from a state."""
        self.next, self.ended = facts["next"], facts["ended"]
        self.feed(rows)
        self.clock, self.rows = facts["clock"], facts["rows"]
        self.went_to(facts["position"])


def _taken(tables: Iterable[pa.Table]) -> int:
    """What rows that wait take in memory."""
    return sum(PART_BYTES + table.nbytes for table in tables)
