"""Hypothesis strategies for whole joins: a query, its schemas, and batches of rows for it.

Hypothesis chooses the query and a few knobs (sizes, number of keys, share of nulls, disorder); a generator
seeded by hypothesis fills in the rows. So a failure shrinks to a small query and short streams, quickly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from inspect import signature
from itertools import combinations, pairwise
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from windrow import policies, statistics
from windrow.policies import Policy
from windrow.spec import Band, Compare, Distance, Equal, Filter, Query, Stream, Window

NAMES = ("a", "b", "c", "d")
FIRST_DAY = datetime(2024, 2, 28, 23, 59, 50)
LARGEST = 2**63 - 1


@dataclass(frozen=True, repr=False)
class Case:
    """A query, the schemas of its streams, and the rows that each push brings."""

    query: Query
    schemas: dict[str, pa.Schema]
    batches: list[dict[str, list[dict[str, Any]]]]

    def __repr__(self) -> str:
        """The case on a few lines, for failures; rows are given without the names of their columns."""
        types = {name: [str(field.type) for field in schema] for name, schema in self.schemas.items()}
        rows = [{n: [(*row.values(),) for row in part] for n, part in batch.items()} for batch in self.batches]
        return f"\n{self.query.to_json()}\ntypes: {types}\n" + "\n".join(f"push: {batch}" for batch in rows)

    @cached_property
    def tables(self) -> list[dict[str, pa.Table]]:
        """The batches as Arrow tables; a stream without rows is left out of every other batch."""
        return [self._tables(batch, k) for k, batch in enumerate(self.batches)]

    def _tables(self, batch: dict[str, list[dict[str, Any]]], k: int) -> dict[str, pa.Table]:
        return {
            name: pa.Table.from_pylist(rows, schema=self.schemas[name]) for name, rows in batch.items() if rows or k % 2
        }

    def with_query(self, **changes: Any) -> Case:
        """The same rows under a changed query."""
        return replace(self, query=self.query.with_(**changes))

    def at_once(self) -> Case:
        """All rows in one push."""
        merged = {name: [row for batch in self.batches for row in batch[name]] for name in self.query.names}
        return replace(self, batches=[merged])


# ------------------------------------------------------------------------------------------- values


def _floats(random: Random, keys: int) -> float:
    return random.choice([math.nan, -0.0, 0.0, *(k / 2 for k in range(1, keys))])


def _moments(random: Random, keys: int) -> datetime:
    return FIRST_DAY + timedelta(seconds=random.randrange(keys))


@dataclass(frozen=True)
class Kind:
    """A kind of key: the Arrow types it may have on a stream, and how to draw a value."""

    types: tuple[pa.DataType, ...]
    value: Callable[[Random, int], Any]


KEY_KINDS = {
    "int": Kind((pa.int64(), pa.int32(), pa.uint8()), lambda r, n: r.randrange(n)),
    "string": Kind(
        (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())),
        lambda r, n: "é" * r.randrange(n),
    ),
    "bool": Kind((pa.bool_(),), lambda r, n: r.random() < 0.5),
    "float": Kind((pa.float64(), pa.float32()), _floats),
    "mixed": Kind((pa.int64(), pa.float64()), lambda r, n: r.randrange(n)),
    "date": Kind((pa.date32(), pa.date64()), lambda r, n: date(2024, 2, 28) + timedelta(days=r.randrange(n))),
    "timestamp": Kind((pa.timestamp("us"), pa.timestamp("ms"), pa.timestamp("ns")), _moments),
    "decimal": Kind((pa.decimal128(9, 2), pa.decimal128(20, 3)), lambda r, n: Decimal(r.randrange(n)) / 4),
    "binary": Kind((pa.binary(), pa.large_binary()), lambda r, n: bytes(r.randrange(n))),
    "large": Kind((pa.int64(),), lambda r, n: r.choice([LARGEST, -LARGEST - 1, -1, 0]) // (1 + r.randrange(n) // 2)),
}

NUMBER_KINDS = {
    "int": Kind((pa.int64(), pa.int16()), lambda r, n: r.randrange(-3, 4 * n)),
    "float": Kind(
        (pa.float64(), pa.float32()),
        lambda r, n: r.choice([math.nan, -0.0, *(k / 2 for k in range(-2, 4 * n))]),
    ),
    "wide": Kind((pa.int64(),), lambda r, n: r.choice([LARGEST, -LARGEST - 1, LARGEST - 2, 0, r.randrange(9)])),
    "endless": Kind((pa.float64(),), lambda r, n: r.choice([math.inf, -math.inf, math.nan, 0.0, r.randrange(9) / 2])),
    "date": KEY_KINDS["date"],
    "timestamp": KEY_KINDS["timestamp"],
}


# ------------------------------------------------------------------------------------------ queries


@dataclass(frozen=True)
class TimeKind:
    """A kind of event time: types, how a number of steps is written as a value, a duration, a landmark."""

    types: tuple[pa.DataType, ...]
    value: Callable[[int], Any]
    length: Callable[[int], Any]
    landmark: Callable[[int], Any]


TIME_KINDS = {
    "int": TimeKind((pa.int64(), pa.int32()), lambda n: n - 3, lambda n: n, lambda n: n - 3),
    "timestamp": TimeKind(
        (pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("ms")),
        lambda n: FIRST_DAY + timedelta(seconds=n),
        lambda n: f"{n} s",
        lambda n: (FIRST_DAY + timedelta(seconds=n)).isoformat(),
    ),
    "zoned": TimeKind(
        (pa.timestamp("us", tz="UTC"), pa.timestamp("ms", tz="Asia/Tokyo")),
        lambda n: (FIRST_DAY + timedelta(milliseconds=500 * n)).replace(tzinfo=UTC),
        lambda n: f"{500 * n} ms",
        lambda n: (FIRST_DAY + timedelta(milliseconds=500 * n)).isoformat() + ("" if n % 2 else "+00:00"),
    ),
    "date": TimeKind(
        (pa.date32(), pa.date64()),
        lambda n: date(2024, 2, 25) + timedelta(days=n),
        lambda n: timedelta(days=n),
        lambda n: (date(2024, 2, 25) + timedelta(days=n)).isoformat(),
    ),
    "none": TimeKind((), lambda n: n, lambda n: n, lambda n: n),
}

CLOSED = st.sampled_from(["right", "left", "both", "neither"])


@st.composite
def windows(draw: st.DrawFn, times: TimeKind, kinds: Sequence[str], span: int = 12) -> Window:
    """A window of one of the kinds, over streams that are about `span` steps long."""
    kind = draw(st.sampled_from(kinds))
    if kind == "time":
        return Window.time(times.length(draw(st.integers(1, 8))), draw(CLOSED))
    if kind == "rows":
        return Window.rows(draw(st.integers(1, 9)))
    if kind == "landmark":
        return Window.landmark(times.landmark(draw(st.integers(0, span // 2))))
    return Window.unbounded()


def _predicates(draw: st.DrawFn, one: str, other: str, numbers: str, plain: bool) -> list[Any]:
    """One to three predicates between two streams."""
    key, second = Equal(f"{one}.k", f"{other}.k"), Equal(f"{one}.k2", f"{other}.k2")
    if plain:
        return [key]
    compared = Compare(f"{one}.x", draw(st.sampled_from(["<", "<=", ">", ">=", "!="])), f"{other}.x")
    width = draw(st.integers(0, 3))
    timed = {"date": f"{width} days", "timestamp": f"{width} s"}
    band = Band(f"{one}.x", f"{other}.x", timed.get(numbers, width))
    point = Distance((f"{one}.y", f"{one}.z"), (f"{other}.y", f"{other}.z"), draw(st.sampled_from([0, 1.5, 3])))
    line = Distance((f"{one}.y",), (f"{other}.z",), 1)
    crossed = Equal(f"{one}.k2", f"{other}.z2")
    choices = [[key], [key, second], [second], [crossed], [key, band], [key, compared], [band], [compared]]
    choices += [[point], [line, key], [band, compared], [key, second, band]]
    return draw(st.sampled_from(choices))


FILTERS = [
    Filter("v", ">", 2),
    Filter("v", "<=", 6),
    Filter("v", "!=", 3),
    Filter("v", "=", 4),
    Filter("v", "in", [1, 2, 3, 4]),
    Filter("v", "not in", [0, 5]),
    Filter("v", "is null"),
    Filter("v", "is not null"),
    Filter("label", ">=", "b"),
    Filter("label", "in", ["a", "c"]),
]


_WHERE = [*[()] * 24, *((condition,) for condition in FILTERS), (FILTERS[0], FILTERS[8])]
"""Filters of a stream; most have none."""


def statistics_of() -> list[Any]:
    """Every statistic, in small forms that change within a few rows."""
    made = {
        statistics.Running: [statistics.Running()],
        statistics.Decayed: [statistics.Decayed(half_life=5)],
        statistics.Sketch: [
            statistics.Sketch(width=8, depth=2),
            statistics.Sketch(width=16, depth=2, half_life=7),
        ],
    }
    return [statistic for kind in statistics.ALL for statistic in made.get(kind, [kind()])]


DEFAULT: type[Policy] = type(policies.resolve(signature(Query).parameters["policy"].default))
"""The policy of whoever names none."""

KINDS: tuple[type[Policy], ...] = (DEFAULT, *(policy for policy in policies.ALL if policy is not DEFAULT))
"""Every policy, the default one first; a new one is found by itself."""

POLICY_NAMES = [policy.name for policy in KINDS]


def configurations() -> list[Policy]:
    """Every policy with every statistic that it can decide by, the default one first."""
    found: list[Policy] = []
    for policy in KINDS:
        if policy.needs_statistics:
            found += [policy(statistics=statistic) for statistic in statistics_of()]  # type: ignore[call-arg]
        else:
            found.append(policy())
    return [*found, policies.GreedyDual(initial=0.5, method=2)]  # in which every row has a credit of its own


def of_kind(kind: type[Policy], honest: bool = False) -> st.SearchStrategy[Policy]:
    """A policy of a kind with any statistic, where that is not the subject; an honest one is shown no future."""
    found = [policy for policy in configurations() if type(policy) is kind]
    return st.sampled_from([policy for policy in found if not (honest and "oracle" in label(policy))])


def label(policy: Policy) -> str:
    """A policy's name in a test's id."""
    statistic = getattr(policy, "statistics", None)
    half = "-fading" if getattr(statistic, "half_life", None) and statistic.name == "sketch" else ""
    if isinstance(policy, policies.GreedyDual) and policy.method != 1:
        return f"{policy.name}-{policy.method}"
    return policy.name if statistic is None else f"{policy.name}-{statistic.name}{half}"


ANY_WINDOW = ("time", "rows", "landmark", "unbounded")


@st.composite
def cases(
    draw: st.DrawFn,
    streams: Sequence[int] = (2, 3, 4),
    timely: bool = False,
    kinds: Sequence[str] = ANY_WINDOW,
    plain: bool = False,
    time_kinds: Sequence[str] = tuple(TIME_KINDS),
    order: Sequence[str] = ("time", "arrival"),
    named: bool = False,
    rows: int | None = None,
) -> Case:
    """A join with its rows.

    `timely` streams are in order of time and cut at instants; others are out of order within their lateness
    and cut anywhere. A `plain` query has one equality between neighbours and no filters. A `named` one has several
    joins. `rows` is how many a long stream has.
    """
    count = draw(st.sampled_from(streams))
    names = NAMES[:count]
    time_kind = draw(st.sampled_from(time_kinds))
    times = TIME_KINDS[time_kind]
    chosen_order = draw(st.sampled_from(order))
    parts = [draw(_stream(name, time_kind, kinds, chosen_order, timely, plain)) for name in names]
    keys, numbers = draw(st.sampled_from(sorted(KEY_KINDS))), draw(st.sampled_from(sorted(NUMBER_KINDS)))
    query = Query(
        streams=parts,
        on=_joins(draw, names, numbers, plain) if named else _graph(draw, names, numbers, plain),
        select=_selection(draw, names),
        order=chosen_order,
        probe_order=None if named else _probe_order(draw, names),
        seed=draw(st.integers(0, 3)),
    )
    random = Random(draw(st.integers(0, 10**6)))
    schemas = {name: _schema(random, times, KEY_KINDS[keys], NUMBER_KINDS[numbers]) for name in names}
    maker = _Rows(
        random,
        times,
        KEY_KINDS[keys],
        NUMBER_KINDS[numbers],
        draw(st.integers(1, {2: 5, 3: 3, 4: 2}[count])),
        draw(st.booleans()),
    )
    most = rows or {2: 40, 3: 16, 4: 10}[count]
    # Short streams come first, where a search for the smallest failure ends; long ones come more often.
    sizes = [draw(st.sampled_from([2, *[most] * 8, most // 2, most // 3, 1, 0])) for _ in names]
    span = draw(st.sampled_from([6, 1, 20, 12]))
    made = {name: maker.rows(size, span) for name, size in zip(names, sizes, strict=True)}
    pushes = draw(st.integers(1, 4))
    if timely:
        cuts = sorted(random.randrange(span + 1) for _ in range(pushes - 1))
        return Case(query, schemas, cut_at_instants(made, times, cuts))
    disorder = {s.name: s.lateness.amount for s in parts}
    scale = {"int": 1, "none": 1, "timestamp": 10**9, "zoned": 5 * 10**8, "date": 86_400 * 10**9}[time_kind]
    arriving = {name: maker.arrival(rows, disorder[name] // scale) for name, rows in made.items()}
    return Case(query, schemas, cut_anywhere(random, arriving, times, pushes))


@st.composite
def _stream(
    draw: st.DrawFn, name: str, time_kind: str, kinds: Sequence[str], order: str, timely: bool, plain: bool
) -> Stream:
    times = TIME_KINDS[time_kind]
    window = draw(windows(times, kinds))
    late = 0 if timely or time_kind == "none" else draw(st.integers(0, 4))
    if window.kind == "rows" and order == "time":
        late = 0
    where = () if plain else draw(st.sampled_from(_WHERE))
    column = None if time_kind == "none" else "t"
    return Stream(name, column, window, times.length(late) if late else 0, where)


def _graph(draw: st.DrawFn, names: Sequence[str], numbers: str, plain: bool) -> Any:
    """A tree over the streams, and sometimes one predicate more, which closes a cycle."""
    if plain and draw(st.booleans()):
        return "k"
    on: list[Any] = []
    for k in range(1, len(names)):
        on += _predicates(draw, names[draw(st.integers(0, k - 1))], names[k], numbers, plain)
    if len(names) > 2 and draw(st.booleans()):
        one, other = draw(st.sampled_from(list(combinations(names, 2))))
        on += [p for p in _predicates(draw, one, other, numbers, plain) if p not in on]
        on = draw(st.permutations(on))  # which equality comes first decides through which one a stream is reached
    return on


def _joins(draw: st.DrawFn, names: Sequence[str], numbers: str, plain: bool) -> dict[str, Any]:
    """One to four joins of some of the streams each, and of all of them together; attributes may be the same."""
    sets = st.sets(st.sampled_from(names), min_size=2).map(sorted)
    chosen = draw(st.lists(sets, min_size=1, max_size=3))
    if left := [name for name in names if not any(name in some for some in chosen)]:
        chosen.append(left if len(left) > 1 else [*left, next(name for name in names if name not in left)])
    found = {}
    for k, some in enumerate(chosen):
        on = _graph(draw, some, numbers, plain)
        found[f"join {k}"] = [Equal(f"{a}.k", f"{b}.k") for a, b in pairwise(some)] if on == "k" else on
    return found


def _selection(draw: st.DrawFn, names: Sequence[str]) -> list[tuple[str, str]]:
    chosen = [(f"{name}.id", f"{name}_id") for name in names]
    extra = draw(st.lists(st.sampled_from(["k", "x", "label", "nested"]), unique=True, max_size=2))
    return chosen + [(f"{name}.{column}", f"{name}_{column}") for name in names for column in extra]


def _probe_order(draw: st.DrawFn, names: Sequence[str]) -> dict[str, list[str]] | None:
    if len(names) == 2 or draw(st.booleans()):
        return None
    return {name: draw(st.permutations([other for other in names if other != name])) for name in names}


# --------------------------------------------------------------------------------------------- rows


def _schema(random: Random, times: TimeKind, keys: Kind, numbers: Kind) -> pa.Schema:
    return pa.schema(
        [
            ("id", pa.int64()),
            ("t", random.choice(times.types or (pa.int64(),))),
            ("k", random.choice(keys.types)),
            ("k2", random.choice([pa.int64(), pa.int16()])),
            ("z2", pa.int32()),
            ("x", random.choice(numbers.types)),
            ("y", pa.float64()),
            ("z", random.choice([pa.float64(), pa.int32()])),
            ("v", pa.int64()),
            ("label", pa.string()),
            ("nested", pa.list_(pa.int8())),
        ]
    )


@dataclass(frozen=True)
class _Rows:
    """A maker of rows."""

    random: Random
    times: TimeKind
    keys: Kind
    numbers: Kind
    spread: int
    nulls: bool

    def rows(self, size: int, span: int) -> list[dict[str, Any]]:
        """Rows in order of time, `t` a number of steps."""
        steps = sorted(self.random.randrange(span) for _ in range(size))
        return [self._row(k, step) for k, step in enumerate(steps)]

    def _row(self, k: int, step: int) -> dict[str, Any]:
        random = self.random
        row = {
            "k": self.keys.value(random, self.spread),
            "k2": random.randrange(self.spread + 1),
            "z2": random.randrange(self.spread + 1),
            "x": self.numbers.value(random, self.spread),
            "y": random.randrange(-4, 5) / 2,
            "z": random.randrange(4),
            "v": random.randrange(8),
            "label": random.choice("abc"),
            "nested": [k % 3] * random.randrange(3),
        }
        if self.nulls:
            row = {name: None if random.random() < 0.06 else value for name, value in row.items()}
        return {"id": k, "t": step, **row}

    def arrival(self, rows: list[dict[str, Any]], disorder: int) -> list[dict[str, Any]]:
        """The rows in an order in which none is more than `disorder` steps behind one before it."""
        return sorted(rows, key=lambda row: row["t"] + self.random.uniform(0, disorder))


def cut_anywhere(
    random: Random, streams: dict[str, list[dict[str, Any]]], times: TimeKind, pushes: int
) -> list[dict[str, list[dict[str, Any]]]]:
    """The streams in so many batches, each stream cut where chance will have it."""
    batches: list[dict[str, list[dict[str, Any]]]] = [{} for _ in range(pushes)]
    for name, rows in streams.items():
        ends = [0, *sorted(random.randint(0, len(rows)) for _ in range(pushes - 1)), len(rows)]
        for batch, start, end in zip(batches, ends, ends[1:], strict=False):
            batch[name] = [_timed(row, times) for row in rows[start:end]]
    return batches


def cut_at_instants(
    streams: dict[str, list[dict[str, Any]]], times: TimeKind, cuts: Iterable[int]
) -> list[dict[str, list[dict[str, Any]]]]:
    """The streams in batches that end just before the given steps."""
    batches = []
    start = -math.inf
    for end in [*cuts, math.inf]:
        batches.append(
            {
                name: [_timed(row, times) for k, row in enumerate(rows) if start <= _step(row, k, times) < end]
                for name, rows in streams.items()
            }
        )
        start = end
    return batches


def tick_by_tick(case: Case) -> Case:
    """The same rows, in order of time, with one push per instant."""
    stream = case.query.streams[0]
    steps: dict[Any, dict[str, list[dict[str, Any]]]] = {}
    for name in case.query.names:
        rows = [row for batch in case.batches for row in batch[name]]
        for k, row in enumerate(rows):
            instant = k if stream.time is None else row[stream.time]
            steps.setdefault(instant, {n: [] for n in case.query.names})[name].append(row)
    return replace(case, batches=[steps[instant] for instant in sorted(steps)])


def _step(row: dict[str, Any], number: int, times: TimeKind) -> int:
    return row["t"] if times.types else number


def _timed(row: dict[str, Any], times: TimeKind) -> dict[str, Any]:
    return {**row, "t": times.value(row["t"])}
