"""Hypothesis strategies for releasing by constraints: a query over a random graph, rows in one order, constraints
they keep.

Edges make trees, DAGs and cycles of two to four streams, many-one by `Unique` in any direction or in none. Rows are
drawn, and those that would break a declared `Unique` left out; every other constraint is declared with the k that the
rows have, or with a little more. So whatever is declared holds, as sharply as it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Any

from hypothesis import strategies as st
from tests.kmon_measure import measure
from tests.kmon_twin import Arrival, Graph, taken

from windrow.spec import Compare, Duration, Equal, Filter, Predicate, Query, Stream, Window
from windrow.spec.constraints import Clustered, Constraint, Integrity, Ordered, Unique

NAMES = ("a", "b", "c", "d")


@dataclass(frozen=True, repr=False)
class Case:
    """A query, what is promised about its streams, and rows that keep it."""

    query: Query
    constraints: tuple[Constraint, ...]
    arrivals: tuple[Arrival, ...]

    def __repr__(self) -> str:
        on = ", ".join(map(str, self.query.on))
        streams = [f"{s.name}[{s.window}; {', '.join(map(str, s.where))}]" for s in self.query.streams]
        rows = "\n".join(f"  {name} {row}" for name, row in self.arrivals)
        return f"\n{' '.join(streams)} on {on}\nwith {', '.join(map(str, self.constraints))}\n{rows}"


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A case of two to four streams."""
    count = draw(st.integers(2, 4), label="streams")
    return case_of(Random(draw(st.integers(0, 2**32), label="seed")), count)


@st.composite
def broken_cases(draw: st.DrawFn) -> Case:
    """A case of two to four streams whose rows break what is promised about them, or may: keys that are declared unique
    come again, and every k is at most what the rows have."""
    count = draw(st.integers(2, 4), label="streams")
    return broken_case_of(Random(draw(st.integers(0, 2**32), label="seed")), count)


def broken_case_of(random: Random, count: int, most_rows: int = 26) -> Case:
    query, edges = _query(random, count)
    uniques = _uniques(random, query, edges)
    arrivals = _arrivals(random, query, uniques if random.random() < 0.2 else (), random.randint(6, most_rows))
    constraints = [_understated(random, c) for c in _distances(random, query, uniques, arrivals)]
    return Case(query, (*uniques, *constraints), tuple(arrivals))


def _understated(random: Random, constraint: Any) -> Constraint:
    """A constraint with a smaller k."""
    if isinstance(constraint.k, Duration):
        return constraint.with_(k=Duration(random.randint(0, constraint.k.amount), "steps"))
    return constraint.with_(k=random.randint(0, constraint.k))


def case_of(random: Random, count: int, most_rows: int = 26) -> Case:
    query, edges = _query(random, count)
    uniques = _uniques(random, query, edges)
    arrivals = _arrivals(random, query, uniques, random.randint(6, most_rows))
    return Case(query, (*uniques, *_distances(random, query, uniques, arrivals)), tuple(arrivals))


def _query(random: Random, count: int) -> tuple[Query, list[tuple[int, int]]]:
    names = NAMES[:count]
    edges = [(random.randrange(k), k) for k in range(1, count)]
    edges += [pair for pair in combinations(range(count), 2) if pair not in edges and random.random() < 0.35]
    shared = random.random() < 0.3  # all on one key, as joins of many streams often are
    on: list[Predicate] = []
    for number, (a, b) in enumerate(edges):
        column = "k" if shared else f"e{number}"
        on.append(Equal(f"{names[a]}.{column}", f"{names[b]}.{column}"))
        if random.random() < 0.2:
            on.append(Equal(f"{names[a]}.g", f"{names[b]}.g"))
        if random.random() < 0.1:
            on.append(Compare(f"{names[a]}.f", "<=", f"{names[b]}.f"))
    streams = [Stream(name, "t", _window(random), where=_where(random)) for name in names]
    return Query(streams=streams, on=on, order="arrival"), edges


def _window(random: Random) -> Window:
    kind = random.choice(["unbounded", "unbounded", "rows", "time"])
    if kind == "rows":
        return Window.rows(random.randint(1, 8))
    if kind == "time":
        return Window.time(random.randint(1, 25), closed=random.choice(["right", "both"]))
    return Window.unbounded()


def _where(random: Random) -> list[Filter]:
    return [Filter("f", "<", random.randint(3, 8))] if random.random() < 0.5 else []


def _joined_columns(query: Query, name: str) -> list[tuple[str, ...]]:
    """For each edge of a stream, its columns that must be equal."""
    by_other: dict[str, list[str]] = {}
    for predicate in query.on:
        if isinstance(predicate, Equal) and name in predicate.streams:
            other = next(stream for stream in predicate.streams if stream != name)
            by_other.setdefault(other, []).append(predicate.left.partition(".")[2])
    return [tuple(columns) for columns in by_other.values()]


def _uniques(random: Random, query: Query, edges: Sequence[tuple[int, int]]) -> list[Unique]:
    found = {
        Unique(name, columns): None
        for name in query.names
        for columns in _joined_columns(query, name)
        if random.random() < 0.6
    }
    return list(found)


def _arrivals(random: Random, query: Query, uniques: Sequence[Unique], count: int) -> list[Arrival]:
    """Rows in an order that may be near that of a column, with the streams one behind the other."""
    domain = random.randint(1, 7)
    columns = sorted({column for name in query.names for group in _joined_columns(query, name) for column in group})
    near = random.choice([None, *columns])
    noise, lag, nulls = random.choice([0, 1, 3]), random.choice([0, 0, 2, 5]), random.choice([0.0, 0.0, 0.1])
    waiting = []
    for stream, name in enumerate(query.names):
        for k in range(count):
            row = {
                c: None if random.random() < nulls else random.randrange(2 if c == "g" else domain + 2) for c in columns
            }
            row |= {"f": random.randrange(10), "id": k}
            place = k if near is None or row[near] is None else row[near] * count / (domain + 2)
            waiting.append((place + noise * random.random() + lag * stream, name, row))
    waiting.sort(key=lambda entry: entry[0])
    kept: list[Arrival] = []
    time, seen = 0, set()
    for _, name, row in waiting:
        keys = {(u, tuple(row[c] for c in u.columns)) for u in uniques if u.stream == name}
        keys = {(u, key) for u, key in keys if None not in key}
        if keys & seen or random.random() < 0.3:
            continue
        seen |= keys
        time += random.choice([0, 0, 1, 3])
        kept.append((name, {"t": time, **row}))
    return kept[: count * 2]


def _distances(
    random: Random, query: Query, uniques: Sequence[Unique], arrivals: Sequence[Arrival]
) -> list[Constraint]:
    """Constraints of all other kinds, with the k that the rows have or a little more."""
    graph, rows = Graph(query, uniques), taken(query, arrivals)
    drawn: list[Constraint] = []
    wanted = random.random()
    for s, name in enumerate(query.names):
        drawn += [Integrity(name, query.names[n]) for n in graph.neighbours[s]]
        groups = _joined_columns(query, name)
        drawn += [Ordered(name, column) for column in {c: None for group in groups for c in group}]
        drawn += [Clustered(name, group) for group in dict.fromkeys(groups)]
        drawn += [Clustered(name, group[:1]) for group in dict.fromkeys(groups) if len(group) > 1]
    chosen = [c for c in dict.fromkeys(drawn) if random.random() < wanted]
    return [_declared(random, query, rows, constraint) for constraint in chosen]


def _declared(random: Random, query: Query, rows: Any, constraint: Constraint) -> Constraint:
    in_time = random.random() < 0.3
    k = max(0, measure(query, rows, constraint, in_time)) + random.choice([0, 0, 1])
    return constraint.with_(k=Duration(k, "steps") if in_time else k)
