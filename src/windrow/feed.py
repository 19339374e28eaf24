"""Feeding whole tables to an engine: in event-time order, in slices that end between instants.

Where a lateness is declared, the order of the rows in the tables is their order of arrival and is kept; slices then
follow the latest time seen so far. Without one the tables are sorted first, so that nothing can be late.

A push brings all rows up to one moment from every table, so what comes later is later than that moment, but for the
lateness. A table that has ended, or is silent for a while, is therefore never waited for.
"""

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from windrow.engine import Engine, ShardedEngine
from windrow.errors import UnknownColumn
from windrow.spec import Memory, Query
from windrow.state.coding import time_domain, times

SLICE_ROWS = 1 << 18
LATE_SLICE_ROWS = 1 << 10  # the watermark moves between pushes, so lateness is judged in small ones


def feed(query: Query, tables: Mapping[str, pa.Table], rows: int = SLICE_ROWS) -> Iterator[dict[str, pa.Table]]:
    """Successive pushes of about `rows` rows that together hold all rows of the tables."""
    if _keeps_order(query):
        rows = min(rows, LATE_SLICE_ROWS)
    if any(stream.time is None for stream in query.streams):
        progress = {name: np.arange(table.num_rows) for name, table in tables.items()}
        ordered = dict(tables)
    else:
        ordered, progress = _in_order(query, tables)
    total = sum(map(len, progress.values()))
    if total <= rows:
        yield ordered
        return
    yield from _slices(ordered, progress, rows)


def _keeps_order(query: Query) -> bool:
    """Whether the order of the rows in the tables is their order of arrival."""
    return query.order == "arrival" or any(stream.lateness.amount > 0 for stream in query.streams)


def _in_order(query: Query, tables: Mapping[str, pa.Table]) -> tuple[dict[str, pa.Table], dict[str, np.ndarray]]:
    """The tables as they are to be taken, and for each row how far time has come."""
    columns = {s.name: s.time for s in query.streams}
    for name, column in columns.items():
        if column not in tables[name].column_names:
            raise UnknownColumn.of(str(column), tables[name].column_names, f"time: stream {name!r}")
    refs = [f"{name}.{column}" for name, column in columns.items()]
    domain = time_domain([tables[n].schema.field(c).type for n, c in columns.items()], refs)
    keeps_order = _keeps_order(query)
    ordered, progress = {}, {}
    for (name, column), ref in zip(columns.items(), refs, strict=True):
        time, _ = times(tables[name][column], domain, ref)  # rows without a time come first: they are only counted
        ordered[name] = tables[name]
        if keeps_order:
            time = np.maximum.accumulate(time) if len(time) else time
        elif len(time) and bool((time[1:] < time[:-1]).any()):
            order = np.argsort(time, kind="stable")
            ordered[name], time = tables[name].take(pa.array(order)), time[order]
        progress[name] = time
    return ordered, progress


def _slices(
    tables: Mapping[str, pa.Table], progress: Mapping[str, np.ndarray], rows: int
) -> Iterator[dict[str, pa.Table]]:
    together = np.sort(np.concatenate(list(progress.values())), kind="stable")
    starts = dict.fromkeys(tables, 0)
    for cut in np.unique(np.append(together[rows - 1 :: rows], together[-1])):
        ends = {name: int(np.searchsorted(time, cut, side="right")) for name, time in progress.items()}
        yield {name: table.slice(starts[name], ends[name] - starts[name]) for name, table in tables.items()}
        starts = ends


def exact_rows(query: Query, tables: Mapping[str, pa.Table]) -> list[int]:
    """Rows that the exact join holds at its peak, by shard: what a share of memory is a share of."""
    engine = Engine(query.with_(memory=None), {n: t.schema for n, t in tables.items()}, count_only=True)
    for batches in feed(query, tables):
        engine.push(batches)
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
    engine: Engine, tables: Mapping[str, pa.Table], progress: Callable[[int], None] | None = None
) -> Iterator[pa.Table]:
    """Push whole tables through an engine; yields the matches, slice by slice."""
    for batches in feed(engine.query, tables):
        matches = engine.push(batches)
        if matches is not None:
            yield matches
        if progress is not None:
            progress(sum(batch.num_rows for batch in batches.values()))
