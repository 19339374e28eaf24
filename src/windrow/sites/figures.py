"""Figures: what a plan's cost depends on: rates, sizes of rows, and which share of rows has partners.

Given (with the paper's assumption: keys uniform, the smaller domain inside the larger one), or measured from samples of
the streams. For rows of one stream that meet the window of another:

    share      of arriving rows that have a partner in the window                                      f12
    pairs      how many partners an arriving row has
    asked      of the window's rows, the share that some later arriving row asks for                   f21
    around     of the window's rows, the share whose key some arriving row has within a window, before or after
    fresh      of the window's rows, the share whose key is not in the window when they come
    few        distinct keys of a batch of arriving rows, for each of its rows
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.intake import as_table
from windrow.engine.prepare import rows_of, tables
from windrow.errors import SpecError
from windrow.sites.bound import NEVER, NUMBER, TIME, Bound
from windrow.sites.values import codes_of
from windrow.spec import Query


@dataclass(frozen=True)
class Meeting:
    """How rows of one stream meet the window of another."""

    share: float
    pairs: float
    asked: float
    around: float
    fresh: float
    few: float


@dataclass
class Figures:
    """What is known of the streams of a query, for intervals of `tau` seconds."""

    tau: float
    rates: dict[str, float]  # rows of a second that can match
    window: dict[str, float]  # rows in the window
    widths: dict[str, float]  # bytes of a column, by reference
    meetings: dict[tuple[str, str], Meeting]  # arriving stream, stream of the window
    distinct: dict[str, float] = field(default_factory=dict)  # keys, for the paper's model
    samples: dict[str, pa.Table] = field(default_factory=dict)  # in wire form, in order of time

    def meeting(self, streams: Iterable[str], stream: str) -> Meeting:
        """How joined rows meet a window by the keys of some of their streams, taken as independent of each other."""
        known = [self.meetings[name, stream] for name in streams if (name, stream) in self.meetings]
        if not known:
            raise SpecError(f"nothing is known of how {', '.join(streams)} meet {stream!r}")
        if len(known) == 1:
            return known[0]
        rows = max(self.window[stream], 1e-9)
        pairs = rows * prod(m.pairs / rows for m in known)
        return Meeting(
            share=min(pairs, prod(m.share for m in known)), pairs=pairs, asked=prod(m.asked for m in known),
            around=prod(m.around for m in known), fresh=max(m.fresh for m in known), few=max(m.few for m in known),
        )  # fmt: skip


def expected_distinct(rows: float, domain: float) -> float:
    """How many different keys so many rows have, if all keys of a domain are alike."""
    return domain * -np.expm1(rows * np.log1p(-1 / domain)) if domain > 1 else min(rows, 1.0)


def given(
    query: Query,
    tau: float,
    *,
    rates: Mapping[str, float],
    distinct: Mapping[str, float],
    seconds: Mapping[str, float],
    widths: Mapping[str, float],
) -> Figures:
    """Figures from the paper's parameters: `seconds` are the lengths of windows, `widths` bytes of columns."""
    window = {name: rates[name] * seconds[name] for name in query.names}
    meetings = {}
    for a in query.names:
        for b in query.names:
            if a != b:
                meetings[a, b] = _uniform(rates[a], rates[b], distinct[a], distinct[b], window[b], seconds[b], tau)
    return Figures(tau, dict(rates), window, dict(widths), meetings, dict(distinct))


def _uniform(r1: float, r2: float, d1: float, d2: float, w2: float, seconds: float, tau: float) -> Meeting:
    inside, outside = min(1.0, d2 / d1), min(1.0, d1 / d2)
    asking = r1 * seconds
    return Meeting(
        share=inside * expected_distinct(w2, d2) / d2,
        pairs=w2 / max(d1, d2),
        asked=outside * expected_distinct(asking, d1) / d1,
        around=outside * expected_distinct(2 * asking, d1) / d1,
        fresh=1.0 - expected_distinct(w2, d2) / d2,
        few=expected_distinct(r1 * tau, d1) / max(r1 * tau, 1e-9),
    )


def measured(bound: Bound, samples: Mapping[str, Any], unit_seconds: float) -> Figures:
    """Figures from samples of all streams over the same time."""
    rows = {name: wire_rows(bound, name, as_table(samples[name], name)) for name in bound.query.names}
    starts = [t[TIME][0].as_py() for t in rows.values() if t.num_rows]
    ends = [t[TIME][-1].as_py() for t in rows.values() if t.num_rows]
    span = (max(ends, default=0) - min(starts, default=0) + 1) * unit_seconds
    meetings = {}
    for a in bound.query.names:
        for b in bound.query.names:
            if a != b and _equal(bound, a, b):
                meetings[a, b] = _measured(bound, a, b, rows[a], rows[b])
    window = {name: _window_rows(bound, name, table) for name, table in rows.items()}
    widths = {c: t[c].nbytes / max(t.num_rows, 1) for t in rows.values() for c in t.column_names if c[0] != "@"}
    rates = {name: table.num_rows / span for name, table in rows.items()}
    return Figures(bound.tau * unit_seconds, rates, window, widths, meetings, {}, rows)


def wire_rows(bound: Bound, name: str, table: pa.Table) -> pa.Table:
    """A table in wire form, in order of time, without rows that can never match."""
    plain = tables(bound.binding, {name: table})[bound.place(name)]
    rows = rows_of(bound.binding, bound.place(name), plain)
    order = np.flatnonzero(rows.counted)
    order = order[np.argsort(rows.time[order], kind="stable")]
    numbers = np.arange(len(order))[rows.keep[order]]
    order = order[rows.keep[order]]
    schema = bound.rows_schema((name,))
    made = {TIME: pa.array(rows.time[order]), NUMBER: pa.array(numbers)}
    taken = plain.take(pa.array(order))
    columns = [
        made[c] if c in made else taken[c.partition(".")[2]] if c[0] != "@" else made[TIME] for c in schema.names
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _equal(bound: Bound, a: str, b: str) -> bool:
    try:
        return bool(bound.keys(b, (a,)).mine)
    except SpecError:
        return False


def _moments(bound: Bound, stream: str, rows: pa.Table, asking: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of a window's rows their times and last moments, and of asking rows their moments, all on one scale."""
    until = bound.until(stream, rows)
    if bound.lives[stream].rows is None:
        return rows[TIME].to_numpy(), until, asking[TIME].to_numpy()
    count = np.searchsorted(rows[TIME].to_numpy(), asking[TIME].to_numpy(), side="right")
    number = np.append(rows[NUMBER].to_numpy(), NEVER)
    return rows[NUMBER].to_numpy(), until, number[count]


def _measured(bound: Bound, a: str, b: str, arriving: pa.Table, window: pa.Table) -> Meeting:
    """Count partners by code: the k-th asking row of a key sees those window rows of the key that are alive."""
    keys = bound.keys(b, (a,))
    ours, theirs = codes_of(window, keys.mine, keys.types), codes_of(arriving, keys.theirs, keys.types)
    if not len(ours) or not len(theirs):
        return Meeting(0.0, 0.0, 0.0, 0.0, 1.0, 1.0)
    begin, until, now = _moments(bound, b, window, arriving)
    alive = _Ranks(ours, begin).until(theirs, now) - _Ranks(ours, until).before(theirs, now)
    later = _Ranks(theirs, now)
    met = later.until(ours, until) - later.before(ours, begin)
    reach = until - begin
    near = later.until(ours, until) - later.before(ours, begin - np.minimum(reach, NEVER // 2))
    own = _Ranks(ours, begin)
    held = own.before(ours, begin) - _Ranks(ours, until).before(ours, begin)
    intervals = bound.interval_of(arriving[TIME].to_numpy())
    pairs = np.unique(np.stack([intervals, theirs.view(np.int64)]), axis=1).shape[1]
    return Meeting(
        float((alive > 0).mean()), float(alive.mean()), float((met > 0).mean()), float((near > 0).mean()),
        float((held <= 0).mean()), pairs / len(theirs),
    )  # fmt: skip


class _Ranks:
    """Rows of (code, moment), asked how many rows of a code come before a moment."""

    def __init__(self, codes: np.ndarray, moments: np.ndarray) -> None:
        self.codes, rank = np.unique(codes, return_inverse=True)
        self.moments, tick = np.unique(moments, return_inverse=True)
        self.sorted = np.sort(rank.astype(np.int64) * (len(self.moments) + 1) + tick)

    def _count(self, codes: np.ndarray, tick: np.ndarray) -> np.ndarray:
        place = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        first = place.astype(np.int64) * (len(self.moments) + 1)
        below = np.searchsorted(self.sorted, first)
        return np.where(self.codes[place] == codes, np.searchsorted(self.sorted, first + tick) - below, 0)

    def before(self, codes: np.ndarray, moments: np.ndarray) -> np.ndarray:
        """Rows of the same code whose moment is less."""
        return self._count(codes, np.searchsorted(self.moments, moments, side="left"))

    def until(self, codes: np.ndarray, moments: np.ndarray) -> np.ndarray:
        """Rows of the same code whose moment is not greater."""
        return self._count(codes, np.searchsorted(self.moments, moments, side="right"))


def _window_rows(bound: Bound, name: str, rows: pa.Table) -> float:
    """How many rows are in the window, on average over the rows' own times."""
    life = bound.lives[name]
    if life.rows is not None:
        return float(min(life.rows, rows.num_rows))
    time = rows[TIME].to_numpy()
    if life.reach is None or not len(time):
        return len(time) / 2
    return float(np.mean(np.arange(len(time)) - np.searchsorted(time, time - life.reach))) + 1
