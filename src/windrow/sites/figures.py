"""Figures: what a plan's cost depends on: rates, sizes of rows, and which share of rows has partners.

Given (with the paper's assumption: keys uniform, the smaller domain inside the larger one), or measured from samples of
the streams. For rows of one stream that meet the window of another:

    share      of arriving rows whose key is in the window                                             f12
    pairs      how many partners an arriving row has
    asked      of the window's rows, the share whose key some later arriving row has                   f21
    around     the same for arriving rows that come within a window before or after
    fresh      of the window's rows, the share that brings a key which is not in the window
    few        distinct keys of a batch of arriving rows, for each of its rows

Semijoins see intervals: all but `pairs` are of keys in the window at some time of the arriving row's interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.bind import bind
from windrow.engine.engine import Engine
from windrow.engine.intake import as_table, plain_schemas
from windrow.engine.prepare import rows_of, tables
from windrow.errors import SpecError
from windrow.sites.bound import NEVER, NUMBER, TIME, Bound
from windrow.sites.sizes import Sizes
from windrow.sites.values import codes_of
from windrow.spec import Query

FIRST, MANY = 5_000, 1_000_000  # rows of each sample whose matches are looked at, and matches that are too many


@dataclass(frozen=True)
class Meeting:
    """How rows of one stream meet the window of another."""

    share: float
    pairs: float
    asked: float
    around: float
    fresh: float
    few: float

    def scaled(self, arriving: float, window: float) -> Meeting:
        """The same keys, with so many times the arriving rows and the rows in the window."""
        return Meeting(
            share=1 - (1 - self.share) ** window, pairs=self.pairs * window,
            asked=1 - (1 - self.asked) ** arriving, around=1 - (1 - self.around) ** arriving,
            fresh=self.fresh**window, few=self.few**arriving,
        )  # fmt: skip


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
    busy: dict[str, float] = field(default_factory=dict)  # the share of intervals that bring rows
    sizes: dict[str, Sizes] = field(default_factory=dict)  # of streams whose samples are not here
    matches: pa.Table | None = None  # some matches: they repeat rows, and pack better than those

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
            if a != b and by_equality(bound, a, b):
                meetings[a, b] = _measured(bound, a, b, rows[a], rows[b])
    window = {name: window_rows(bound, name, table) for name, table in rows.items()}
    widths = {c: t[c].nbytes / max(t.num_rows, 1) for t in rows.values() for c in t.column_names if c[0] != "@"}
    rates = {name: table.num_rows / span for name, table in rows.items()}
    intervals = max(span / (bound.tau * unit_seconds), 1.0)
    busy = {n: min(1.0, len(np.unique(bound.interval_of(t[TIME].to_numpy()))) / intervals) for n, t in rows.items()}
    matches = _matches(bound, {name: as_table(samples[name], name) for name in bound.query.names}, meetings)
    return Figures(bound.tau * unit_seconds, rates, window, widths, meetings, {}, rows, busy, matches=matches)


def _matches(
    bound: Bound, samples: Mapping[str, pa.Table], meetings: Mapping[tuple[str, str], Meeting]
) -> pa.Table | None:
    """Matches of the first rows of the samples, with wire names; None where there might be too many."""
    most = [max((m.pairs for (_, to), m in meetings.items() if to == name), default=1.0) for name in bound.query.names]
    if FIRST * prod(max(pairs, 1.0) for pairs in most) > MANY:
        return None
    query = bound.binding.query.with_(select=[(column, column) for column in bound.columns(bound.query.names)])
    first = {}
    for name, table in samples.items():
        time = bound.query.stream(name).time
        first[name] = (table if time is None else table.sort_by(time)).slice(0, FIRST)
    return Engine(query, {name: table.schema for name, table in first.items()}).push(first).slice(0, FIRST)


def earliest(query: Query, samples: Mapping[str, Any]) -> int:
    """The earliest time of all samples, in units of the query's times."""
    given = {name: as_table(samples[name], name) for name in query.names}
    binding = bind(
        query.with_(memory=None, policy="fifo"), plain_schemas({n: t.schema for n, t in given.items()}, query.names)
    )
    found = []
    for place, table in enumerate(tables(binding, given)):
        rows = rows_of(binding, place, table)
        found += [int(rows.time[rows.counted].min())] if rows.counted.any() else []
    return min(found, default=0)


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


def by_equality(bound: Bound, a: str, b: str) -> bool:
    """Whether rows of one stream can meet the window of another by equal keys."""
    try:
        return bool(bound.keys(b, (a,)).mine)
    except SpecError:
        return False


class _Moments:
    """A window's rows on the scale of its moments: when they begin and end to be in it, and when others ask."""

    def __init__(self, bound: Bound, stream: str, rows: pa.Table) -> None:
        self.bound, self.time = bound, rows[TIME].to_numpy()
        self.number = None if bound.lives[stream].rows is None else rows[NUMBER].to_numpy()
        self.begin = self.time if self.number is None else self.number
        self.until = bound.until(stream, rows)

    def at(self, time: np.ndarray) -> np.ndarray:
        """The moments of times: as they are, or how many rows of the stream came before them."""
        if self.number is None:
            return time
        return np.append(self.number, self.number[-1:] + 1)[np.searchsorted(self.time, time, side="right")]

    def ends(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first and the last moment of the intervals of times."""
        first = self.bound.origin + self.bound.interval_of(time) * self.bound.tau
        return self.at(first), self.at(first + self.bound.tau - 1)


def _measured(bound: Bound, a: str, b: str, arriving: pa.Table, window: pa.Table) -> Meeting:
    keys = bound.keys(b, (a,))
    ours, theirs = codes_of(window, keys.mine, keys.types), codes_of(arriving, keys.theirs, keys.types)
    return meeting_of(bound, b, arriving[TIME].to_numpy(), theirs, window, ours)


def meeting_of(
    bound: Bound, stream: str, time: np.ndarray, theirs: np.ndarray, window: pa.Table, ours: np.ndarray
) -> Meeting:
    """Count partners by code, and keys by code and interval.

    Of arriving rows times and codes are given, of the window its rows (times, and numbers where it is in rows) and
    their codes.
    """
    if not len(ours) or not len(theirs):
        return Meeting(0.0, 0.0, 0.0, 0.0, 1.0, 1.0)
    scale = _Moments(bound, stream, window)
    begin, until, now = scale.begin, scale.until, scale.at(time)
    low, high = scale.ends(time)
    begun, ended = _Ranks(ours, begin), _Ranks(ours, until)
    alive = begun.until(theirs, now) - ended.before(theirs, now)
    known = begun.until(theirs, high) - ended.before(theirs, low)
    asks, asked = _Ranks(theirs, low), _Ranks(theirs, high)
    met = asks.until(ours, until) - asked.before(ours, begin)
    reach = np.minimum(until - begin, NEVER // 2)
    near = asks.until(ours, until) - asked.before(ours, begin - reach)
    return Meeting(
        float((known > 0).mean()), float(alive.mean()), float((met > 0).mean()), float((near > 0).mean()),
        _fresh(bound, scale, ours, begun, ended), _distinct(bound, time, theirs) / len(theirs),
    )  # fmt: skip


def _fresh(bound: Bound, scale: _Moments, ours: np.ndarray, begun: _Ranks, ended: _Ranks) -> float:
    """The share of rows that open an entry: first of their key in an interval, and none in the window before it."""
    first, _ = scale.ends(scale.time)
    earlier, _ = scale.ends(scale.time - bound.tau)
    new = begun.before(ours, first) - ended.before(ours, earlier) <= 0
    return _distinct(bound, scale.time[new], ours[new]) / len(ours)


def _distinct(bound: Bound, time: np.ndarray, codes: np.ndarray) -> int:
    """How many different keys there are, summed over intervals."""
    return int(np.unique(np.stack([bound.interval_of(time), codes.view(np.int64)]), axis=1).shape[1])


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


def window_rows(bound: Bound, name: str, rows: pa.Table) -> float:
    """How many rows are in the window, on average over the rows' own times."""
    life = bound.lives[name]
    if life.rows is not None:
        return float(min(life.rows, rows.num_rows))
    time = rows[TIME].to_numpy()
    if life.reach is None or not len(time):
        return len(time) / 2
    return float(np.mean(np.arange(len(time)) - np.searchsorted(time, time - life.reach))) + 1
