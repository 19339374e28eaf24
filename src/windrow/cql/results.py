"""What a query text gave: a stream of rows, or a relation that changes over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine import Metrics
from windrow.errors import InputError
from windrow.maintained.relation import FOREVER, Ints, Relation, Timed, at_instant
from windrow.spec import Query
from windrow.state.coding_times import TimeDomain, ticks_of

AT, SINCE, UNTIL, CHANGE = "at", "since", "until", "change"


@dataclass(frozen=True)
class CqlResult:
    """The result of `Cql.run`.

    `kind` is "stream" for a text that selects Istream or Dstream: `table` then has a row for each, with the time "at"
    of it. Otherwise it is "relation", and `table` has a row for every row that was ever in the relation, with the time
    "since" it is in, and "until" which, null if it never leaves: the answer for every instant at once.
    """

    kind: str
    table: pa.Table
    joins: tuple[tuple[Query, Metrics], ...]
    """The joins that were run, from the inside out, with what each cost."""
    _data: Relation | Timed
    _domain: TimeDomain
    _newest: int
    late: Mapping[str, int] = field(default_factory=dict)
    """Rows of each stream that came later than `lateness` allows, and were left out."""

    @property
    def metrics(self) -> Metrics | None:
        """What the outermost join cost; None if nothing was joined."""
        return self.joins[-1][1] if self.joins else None

    @property
    def time_unit(self) -> str:
        """What times, and distances in time of constraints, are counted in: "s", "ms", "us", "ns", or "steps"."""
        return self._domain.unit

    @property
    def values(self) -> pa.Table:
        """The output columns alone."""
        return self._data.table

    def at(self, moment: Any) -> pa.Table:
        """The relation at a moment: a datetime, or a number where times are numbers."""
        if isinstance(self._data, Timed):
            raise InputError("a stream has no rows at a moment: select without Istream to get the relation")
        return at_instant(self._data, ticks_of(moment, self._domain, "at"))

    @property
    def last(self) -> pa.Table:
        """The relation when the last row has come."""
        if isinstance(self._data, Timed):
            raise InputError("a stream has no last state: select without Istream to get the relation")
        return at_instant(self._data, self._newest)

    @property
    def changes(self) -> pa.Table:
        """Insertions and deletions in order of time: "at", "change" (1 or -1), and the output columns."""
        if isinstance(self._data, Timed):
            raise InputError("a stream has insertions only: its table is what came")
        data = self._data.seen()
        leaving = np.flatnonzero(data.until < FOREVER)
        rows = np.concatenate([np.arange(len(data.since)), leaving])
        at = np.concatenate([data.since, data.until[leaving]])
        change = np.repeat(np.array([1, -1], np.int64), [len(data.since), len(leaving)])
        order = np.lexsort((change, at))  # what leaves at an instant goes before what comes
        table = data.table.take(pa.array(rows[order]))
        return with_columns(table, {AT: moments(at[order], self._domain), CHANGE: pa.array(change[order])})


def result_of(
    data: Relation | Timed,
    domain: TimeDomain,
    newest: int,
    joins: list[tuple[Query, Metrics]],
    late: Mapping[str, int],
) -> CqlResult:
    """The result, with times as the tables had them; `newest` is the time of the last row that came."""
    if isinstance(data, Timed):
        table = with_columns(data.table, {AT: moments(data.at, domain)})
        return CqlResult("stream", table, tuple(joins), data, domain, newest, late)
    shown = data.seen()
    order = np.argsort(shown.since, kind="stable")
    shown = shown.take(order)
    table = with_columns(shown.table, {SINCE: moments(shown.since, domain), UNTIL: moments(shown.until, domain)})
    return CqlResult("relation", table, tuple(joins), shown, domain, newest, late)


def moments(ticks: Ints, domain: TimeDomain) -> Any:
    """Ticks as the times they stand for; null for those that never come."""
    return pa.array(ticks, mask=ticks >= FOREVER).cast(domain.arrow_type)


def with_columns(table: pa.Table, columns: dict[str, Any]) -> pa.Table:
    """The table behind columns of time."""
    for name in columns:
        if name in table.column_names:
            raise InputError(
                f"an output column is called {name!r}, as the time that stands beside it: rename it with As"
            )
    return pa.table([*columns.values(), *table.columns], names=[*columns, *table.column_names])
