"""The oracle's table: frequencies over whole streams, counted before the join starts. Not honest, and says so."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pyarrow as pa

from windrow.engine.bind import Binding
from windrow.engine.prepare import Rows, rows_of
from windrow.errors import SpecError
from windrow.kernels import layout as at
from windrow.kernels.statistics.counts import MOST_GAIN
from windrow.spec import Query
from windrow.state.parts import view
from windrow.state.plan import Plan
from windrow.state.shard import Shard
from windrow.statistics import Oracle


def check_oracle(query: Query, whole: Mapping[str, pa.Table]) -> None:
    """Refuse a policy that asks an oracle without the whole streams, where memory is capped."""
    if query.memory is not None and isinstance(getattr(query.policy, "statistics", None), Oracle) and not whole:
        raise SpecError(
            f"policy {query.policy.name!r} with the statistic 'oracle' needs oracle= with the whole streams"
        )


def oracle_for(old: Plan, binding: Binding, whole: Mapping[str, pa.Table]) -> Callable[[Shard], None] | None:
    """What writes the oracle's table into a shard of another plan; None where there is none, or it moves along."""
    if binding.plan.learning.kind != at.STAT_ORACLE or old.learning.kind == at.STAT_ORACLE:
        return None
    if not whole:
        raise SpecError(
            f"policy {binding.query.policy.name!r} with the statistic 'oracle' needs oracle= with the whole streams, "
            "and a snapshot of an engine without a cap does not hold them: start anew"
        )
    return partial(oracle_table, binding, whole)


def oracle_table(binding: Binding, whole: Mapping[str, pa.Table], shard: Shard) -> None:
    """Count every key (and every number) of the whole streams and write the table into a fresh shard."""
    missing = [name for name in binding.query.names if name not in whole]
    if missing:
        raise SpecError(f"oracle= lacks the stream {missing[0]!r}: give every stream whole")
    streams = binding.plan.streams
    rows = [rows_of(binding, s, whole[n].select(binding.schemas[n].names)) for s, n in enumerate(binding.query.names)]
    for row in rows:  # as arrivals are counted
        row.gain = np.clip(row.gain, -MOST_GAIN, MOST_GAIN)
    lines, starts = [], [0]
    for d in range(binding.plan.directories):
        table = _counts(binding, rows, d)
        lines.append(table)
        starts.append(starts[-1] + len(table))
    shard.grow(shard.capacity, oracle_rows=starts[-1])
    view(shard.words, at.Head.oracle_start_at, 1, binding.plan.directories + 1)[0] = starts
    if starts[-1]:
        view(shard.words, at.Head.oracle_at, starts[-1], 1 + 2 * streams)[:] = np.concatenate(lines)
    _write_means(shard, lines, streams)
    joins = binding.plan.joins
    for s, column in binding.plan.histograms():
        keep = rows[s].kept_in(None if joins is None else int(joins.numbers[s, column]))
        shard.preload(s, column, rows[s].numbers[column][keep], rows[s].gain[keep] if len(rows[s].gain) else None)


def _counts(binding: Binding, rows: list[Rows], d: int) -> np.ndarray:
    """One directory's lines: code, counts by stream, worths by stream; sorted by code."""
    streams = binding.plan.streams
    per_stream = []
    for s in range(streams):
        link = binding.plan.positions()[s, d]
        keep = rows[s].kept_in(None if binding.plan.joins is None else binding.directories[d].join)
        codes = rows[s].codes[link][keep] if link >= 0 else np.zeros(0, np.int64)
        gain = rows[s].gain[keep] if len(rows[s].gain) and link >= 0 else None
        per_stream.append((codes, gain))
    known = np.unique(np.concatenate([codes for codes, _ in per_stream]))
    table = np.zeros((len(known), 1 + 2 * streams), np.int64)
    table[:, 0] = known
    floats = table.view(np.float64)
    for s, (codes, gain) in enumerate(per_stream):
        place = np.searchsorted(known, codes)
        floats[:, 1 + s] = np.bincount(place, minlength=len(known))
        worth = np.bincount(place, weights=gain, minlength=len(known)) if gain is not None else floats[:, 1 + s]
        floats[:, 1 + streams + s] = worth
    return table


def _write_means(shard: Shard, lines: list[np.ndarray], streams: int) -> None:
    """The frequency that the usual arrival of each stream meets, by which scores are compared."""
    means = view(shard.words, at.Head.means_at, len(lines), streams * 2).view(np.float64)
    for d, table in enumerate(lines):
        counts = table.view(np.float64)[:, 1 : 1 + streams]
        total = np.maximum(counts.sum(axis=0), 1.0)
        means[d, 0::2] = total
        means[d, 1::2] = (counts**2).sum(axis=0) / total
