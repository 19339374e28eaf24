"""The matches of the exact join, as events of the rows that would have to be held for them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windrow.engine import Engine
from windrow.errors import InputError, SpecError
from windrow.feed import CodedTables, feed

if TYPE_CHECKING:
    from windrow.engine.prepare import Rows
    from windrow.offline.instance import Question
    from windrow.spec import Query
MOST_MATCHES = 20_000_000  # some GB: a match takes about 200 bytes until the flow is solved
COUNTED_ROWS = 1 << 14  # rows counted between two looks at the number of matches


@dataclass(frozen=True)
class Events:
    """For each match, one event for each of its rows that came before its last row, in order of row and instant.

    A match of two streams has one event at most. One of more streams has several, and is gained only if all of its rows
    are there; each event then stands for a share of it (see many.py).
    """

    row: np.ndarray
    instant: np.ndarray
    match: np.ndarray
    worth: np.ndarray  # of each match

    @property
    def shares(self) -> np.ndarray:
        """Of how many events the match of each event consists."""
        return np.bincount(self.match, minlength=len(self.worth))[self.match]

    def gained(self, until: np.ndarray) -> float:
        """Worth of the matches whose rows are all there."""
        missing = np.bincount(self.match[self.instant > until[self.row]], minlength=len(self.worth))
        waits = np.bincount(self.match, minlength=len(self.worth)) > 0
        return float(self.worth[waits & (missing == 0)].sum())


def events_of(
    rows: np.ndarray, worth: np.ndarray, instant: np.ndarray, last: np.ndarray, counted_from: int
) -> tuple[Events, float]:
    """The events of matches given as [stream, match] of rows, and the worth of those whose rows all come together.

    A match of which a window has let a row go by then is none.
    """
    when = instant[rows]
    done = when.max(axis=0, initial=0)
    counted = np.where(done >= counted_from, worth, 0.0)
    waits = when < done
    alive = (~waits | (done <= last[rows])).all(axis=0)
    together = alive & ~waits.any(axis=0)
    stream, match = np.nonzero(waits & alive)
    row, ends = rows[stream, match], done[match]
    order = np.lexsort((match, ends, row))
    return Events(row[order], ends[order], match[order], counted), float(counted[together].sum())


def matches_of(question: Question, given: Mapping[str, pa.Table]) -> np.ndarray:
    """All matches of the exact join, [stream, match] as positions; with windows that change, of the largest."""
    query = question.query
    names = query.names
    row = unused("windrow_row", given)
    numbered = CodedTables({n: t.append_column(row, pa.array(np.arange(t.num_rows))) for n, t in given.items()})
    wide = query.with_(memory=None, select={n: f"{n}.{row}" for n in names}, value=None)
    for name, changes in (question.window_changes or {}).items():
        for _, window in changes:
            sizes = [wide.stream(name).window, wide.with_window(name, window).stream(name).window]
            wide = wide.with_window(name, max(sizes, key=_size))
    _check_number(wide, numbered)
    engine = Engine(wide, {n: t.schema for n, t in numbered.items()})
    found = [engine.take(rows) for rows in feed(engine, numbered)]
    return np.stack([np.concatenate([t[n].to_numpy() for t in found if t is not None]) for n in names])


def _check_number(query: Query, tables: Mapping[str, pa.Table]) -> None:
    """Refuse a join of too many matches; they are counted, without being held, where there could be so many."""
    if math.prod(table.num_rows for table in tables.values()) <= MOST_MATCHES:
        return
    engine = Engine(query, {n: t.schema for n, t in tables.items()}, count_only=True, recall=False)
    for rows in feed(engine, tables, COUNTED_ROWS):
        engine.take(rows)
        if engine.metrics.matched > MOST_MATCHES:
            raise SpecError(
                f"the exact join has more than {MOST_MATCHES:,} matches, each of which the optimum holds in memory: "
                "give fewer rows or smaller windows; equality joins of two streams in time windows, without value "
                "and lifetimes, have no such limit"
            )


def _size(window: Any) -> tuple[float, bool]:
    amount = getattr(window.size, "amount", window.size if window.size is not None else np.inf)
    return float(amount), window.holds_far


def unused(name: str, tables: Mapping[str, pa.Table]) -> str:
    """A column name that none of the tables has."""
    while any(name in table.column_names for table in tables.values()):
        name += "_"
    return name


def worth_of(question: Question, given: Mapping[str, pa.Table], matches: np.ndarray, rows: list[Rows]) -> np.ndarray:
    """What each match is worth."""
    if question.value is not None:
        sides = {n: given[n].take(pa.array(p)) for n, p in zip(question.query.names, matches, strict=True)}
        columns = {f"{n}.{c}": t[c] for n, t in sides.items() for c in t.column_names}
        try:
            found = np.asarray(question.value(pa.table(columns)), np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"value must give one finite number for every pair: {error}") from error
        if found.shape != (matches.shape[1],) or not np.isfinite(found).all():
            raise InputError("value must give one finite number for every pair")
        return found
    if question.query.value is not None:
        parts = np.stack([r.gain[m] for r, m in zip(rows, matches, strict=True)])
        return parts.sum(axis=0) if question.query.value.combine == "sum" else parts.prod(axis=0)
    return np.ones(matches.shape[1])
