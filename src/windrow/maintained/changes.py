"""Changes: what comes into a relation, and what leaves it, in one span of time.

Parts of a query hand changes to each other, span after span, in order of time. A row has a number of its own for as
long as it is in. Who takes changes sees each row come once, and leave at most once:

    came     rows with the first instant at which they are in and, if they leave in the same span, the first at which
             they are not any more
    left     rows that came in an earlier span, with the instant at which they left

What leaves comes with its values, so that nobody downstream has to remember them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.maintained.relation import FOREVER, Ints, Relation, Timed, streamed

BEFORE = -(1 << 62)
"""An instant before all others."""

NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Span:
    """The instants behind `start`, up to and with `end`."""

    start: int
    end: int


@dataclass(frozen=True)
class Changes:
    """What came and what left in a span; `until` is FOREVER of what has come and is still in."""

    came: pa.Table
    since: Ints
    until: Ints
    ids: Ints
    left: pa.Table
    at: Ints
    left_ids: Ints

    def with_tables(self, change: Callable[[pa.Table], pa.Table]) -> Changes:
        """The same changes of rows that are made from these."""
        return replace(self, came=change(self.came), left=change(self.left))

    def where(self, holds: Callable[[pa.Table], NDArray[np.bool_]]) -> Changes:
        """The changes of the rows for which a condition holds."""
        return self.picked(holds(self.came), holds(self.left))

    def picked(self, came: NDArray[np.bool_], left: NDArray[np.bool_]) -> Changes:
        """Some of the rows that came and that left."""
        found = self
        if not came.all():
            k = np.flatnonzero(came)
            rows = self.came.take(pa.array(k))
            found = replace(found, came=rows, since=self.since[k], until=self.until[k], ids=self.ids[k])
        if not left.all():
            k = np.flatnonzero(left)
            found = replace(found, left=self.left.take(pa.array(k)), at=self.at[k], left_ids=self.left_ids[k])
        return found

    def seen(self) -> Changes:
        """Without rows that are in at no instant."""
        return self.picked(self.since < self.until, np.ones(len(self.at), np.bool_))

    def ends(self) -> tuple[Ints, Ints]:
        """The numbers of the rows that left in this span, whenever they came, in their order, and when."""
        brief = np.flatnonzero(self.until < FOREVER)
        ids, at = np.concatenate([self.left_ids, self.ids[brief]]), np.concatenate([self.at, self.until[brief]])
        order = np.argsort(ids, kind="stable")
        return ids[order], at[order]

    def streamed(self, emit: str) -> Timed:
        """The rows that entered ("istream") or left ("dstream") at each instant of the span."""
        before = np.full(len(self.at), BEFORE)
        table = pa.concat_tables([self.came, self.left])
        found = streamed(
            Relation(table, np.concatenate([self.since, before]), np.concatenate([self.until, self.at])), emit
        )
        here = np.flatnonzero(found.at > BEFORE)
        return found if len(here) == len(found.at) else Timed(found.table.take(pa.array(here)), found.at[here])


def arrivals(stream: Timed) -> Changes:
    """The rows of a stream, of which none leaves."""
    count = len(stream.at)
    none = stream.table.slice(0, 0)
    return Changes(stream.table, stream.at, np.full(count, FOREVER), np.arange(count), none, NOTHING, NOTHING)
