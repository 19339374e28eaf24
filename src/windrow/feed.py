"""Feeding whole tables to an engine: in event-time order, in slices that end between instants.

    code all rows once -> put them in order -> cut -> take slice by slice

Where a lateness is declared, the order of the rows in the tables is their order of arrival and is kept; slices then
follow the latest time seen so far. Without one the rows are sorted first, so that nothing can be late.

A slice brings all rows up to one moment from every table, so what comes later is later than that moment, but for the
lateness. A table that has ended, or is silent for a while, is therefore never waited for.

Where matches are handed on slice by slice, a pace keeps those of one slice few, however many partners rows have.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine import Engine, ShardedEngine
from windrow.engine.bind import Binding
from windrow.engine.prepare import Rows
from windrow.spec import Memory, Query
from windrow.state.sizes import depends_on_batch

SLICE_ROWS = 1 << 18
LATE_SLICE_ROWS = 1 << 10  # the watermark moves between slices, so lateness is judged in small ones
FIRST_ROWS = 1 << 12  # of the first slice of a pace, whose matches nobody can foresee
LEAST_ROWS = 1 << 8
MOST_BYTES = 1 << 26  # of matches in a slice of a pace, about


class Pace:
    """How many rows the next slice takes, as the matches of the one before suggest."""

    rows = FIRST_ROWS

    def took(self, rows: int, found: pa.Table) -> None:
        """A slice of so many rows has found these matches: the next one is at most four times as large."""
        fitting = rows * MOST_BYTES // max(1, found.nbytes)
        self.rows = max(LEAST_ROWS, min(fitting, 4 * rows, SLICE_ROWS))


class CodedTables(dict[str, pa.Table]):
    """Whole tables by stream, whose rows are coded and put in order when an engine first takes them.

    Engines of one query that differ in memory or policy then take the same codes: one that counts what a share of
    memory is, and the one that joins.
    """

    _rows: list[Rows] | None = None
    _coded_for: Any = None

    def rows(self, engine: Engine) -> list[Rows]:
        """Each stream's rows in the order in which they are taken, coded, with what they cost this engine."""
        binding = engine.bound()[0]
        what = _what_is_coded(engine)
        if self._rows is None or self._coded_for != what:
            self._rows, self._coded_for = [_in_order(binding.query, r) for r in engine.coded(self)[0]], what
            return self._rows
        return [r.charged(binding, s) for s, r in enumerate(self._rows)]


def _what_is_coded(engine: Engine) -> tuple[Any, ...]:
    """All that codes and the order of rows depend on."""
    binding = engine.bound()[0]
    streams = [(stream.name, stream.time, stream.where) for stream in binding.query.streams]
    ranks = [s.arrived for s in engine.metrics.streams.values()] if binding.domain.kind == "rank" else []
    keys = binding.directories, binding.numbers, binding.code_mask
    return streams, ranks, binding.domain, keys, _keeps_order(binding.query)


def _keeps_order(query: Query) -> bool:
    """Whether the order of the rows in the tables is their order of arrival."""
    untimed = any(stream.time is None for stream in query.streams)
    return untimed or query.order == "arrival" or any(stream.lateness.amount > 0 for stream in query.streams)


def _in_order(query: Query, rows: Rows) -> Rows:
    """The rows as they are to be taken; those without a time come first: they are only counted."""
    if _keeps_order(query) or not bool((rows.time[1:] < rows.time[:-1]).any()):
        return rows
    return rows.part(np.argsort(rows.time, kind="stable"))


def _laid_out(binding: Binding, stream: int, rows: Rows) -> Rows:
    """The rows with their payload in their order: matches are gathered sooner from what lies together."""
    if rows.place is None or not binding.keeps_payload:
        return rows
    return replace(rows, table=rows.table.select(binding.payload[stream]).take(pa.array(rows.place)), place=None)


def feed(
    engine: Engine, tables: Mapping[str, pa.Table], rows: int = SLICE_ROWS, *, pace: Pace | None = None
) -> Iterator[list[Rows]]:
    """Successive slices of about `rows` rows that together hold all rows of the tables, for `Engine.take`.

    With a pace they have about as many as that says when they are made, but for joins with a budget whose rows cost
    what they cost on average in their slice: of those other slices would shed other rows.
    """
    binding = engine.bound()[0]
    query = binding.query
    if any(stream.lateness.amount > 0 for stream in query.streams) or query.order == "arrival":
        rows = min(rows, LATE_SLICE_ROWS)
    coded = (tables if isinstance(tables, CodedTables) else CodedTables(tables)).rows(engine)
    whole = [_laid_out(binding, s, r) for s, r in enumerate(coded)]
    averaged = [any(depends_on_batch(field.type) for field in binding.payload_schema(s)) for s in range(len(whole))]
    if rows < SLICE_ROWS or (any(averaged) and query.memory is not None):
        pace = None
    if sum(len(r.time) for r in whole) <= (rows if pace is None else pace.rows):
        slices: Iterator[list[Rows]] = iter([whole])
    else:
        cuts = _cuts([_progress(binding, r) for r in whole], rows, pace)
        slices = ([r.between(*cut) for r, cut in zip(whole, each, strict=True)] for each in cuts)
    for each in slices:
        yield [r.charged(binding, s) if averaged[s] else r for s, r in enumerate(each)]


def _progress(binding: Binding, rows: Rows) -> np.ndarray:
    """For each row, how far time has come."""
    if binding.domain.kind == "rank":
        return np.arange(len(rows.time))
    return np.maximum.accumulate(rows.time) if _keeps_order(binding.query) and len(rows.time) else rows.time


def _cuts(progress: list[np.ndarray], rows: int, pace: Pace | None) -> Iterator[list[tuple[int, int]]]:
    """Where slices of about so many rows, or as many as a pace says, start and end in each stream."""
    step = rows if pace is None else LEAST_ROWS
    together = np.sort(np.concatenate(progress), kind="stable")
    moments = np.unique(np.append(together[step - 1 :: step], together[-1]))
    ends = [np.searchsorted(time, moments, side="right") for time in progress]
    passed = np.sum(ends, axis=0)  # rows up to each moment: where times are coarse, many share one
    starts, k = [0] * len(progress), -1
    while k < len(moments) - 1:
        k += 1
        if pace is not None:
            k = max(k, int(np.searchsorted(passed, sum(starts) + pace.rows, side="right")) - 1)
        here = [int(end[k]) for end in ends]
        yield list(zip(starts, here, strict=True))
        starts = here


def exact_rows(query: Query, tables: Mapping[str, pa.Table]) -> list[int]:
    """Rows that the exact join holds at its peak, by shard: what a share of memory is a share of."""
    engine = Engine(query.with_(memory=None), {n: t.schema for n, t in tables.items()}, count_only=True)
    for rows in feed(engine, tables):
        engine.take(rows)
    return [part.metrics.peak_rows for part in (engine.engines if isinstance(engine, ShardedEngine) else [engine])]


def engine_for(query: Query, tables: Mapping[str, pa.Table], recall: bool = True) -> Engine:
    """An engine for whole tables: shares of memory become rows, and oracles get what they need to know."""
    query = query.with_(patience=0)  # `feed` takes the tables in step: no stream needs to be waited for
    parts = _parts(query, tables)
    if parts is not None:
        query = query.with_(memory=parts[0].with_(rows=sum(part.rows or 0 for part in parts)))
    schemas = {name: table.schema for name, table in tables.items()}
    needs_oracle = getattr(getattr(query.policy, "statistics", None), "honest", True) is False
    oracle = tables if needs_oracle and query.memory else None
    if parts is not None and len(parts) > 1:
        return ShardedEngine(query, schemas, recall=recall, oracle=oracle, memories=parts)
    return Engine(query, schemas, recall=recall, oracle=oracle)


def _parts(query: Query, tables: Mapping[str, pa.Table]) -> list[Memory] | None:
    """Of memory that is a share, the rows that it is in each shard: of what this one's exact join needs."""
    if query.memory is None or query.memory.share is None:
        return None
    most = [max(1, math.ceil(query.memory.share * rows)) for rows in exact_rows(query, tables)]
    return [query.memory.with_(rows=max(rows, len(query.streams))) for rows in most]


def run(
    engine: Engine,
    tables: Mapping[str, pa.Table],
    progress: Callable[[int], None] | None = None,
    pace: Pace | None = None,
) -> Iterator[pa.Table]:
    """Push whole tables through an engine; yields the matches, slice by slice.

    With a pace the matches of a slice stay few, for those who hand them on and hold no others.
    """
    for rows in feed(engine, tables, pace=pace):
        matches = engine.take(rows)
        if pace is not None and matches is not None:
            pace.took(sum(len(r.time) for r in rows), matches)
        if matches is not None:
            yield matches
        if progress is not None:
            progress(sum(len(r.time) for r in rows))
