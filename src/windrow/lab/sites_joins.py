"""Joins of streams at several sites: the streams, queries and plans that the experiments on semijoins share.

Rows have a key of 5 bytes and a payload that is not there: what is shipped is reckoned by the widths that a setting
names, so that a run says what its programs ship and not how well random bytes can be packed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check
from windrow.sites import Figures as Parameters
from windrow.sites import Link, Plan, Planned, Simulation, plan, simulate
from windrow.sites.figures import given
from windrow.sites.programs import PROGRAMS
from windrow.spec import Equal, Query, Stream

PAPER = "Distributed stream join query processing with semijoins"
SOURCE, DESTINATION = ("SP-S", "SM-S1", "SM-S2"), ("SP-D", "SM-D1", "SM-D2")
KEY_BYTES, TIME_BYTES = 5, 8


@dataclass(frozen=True)
class One:
    """A stream of a setting: bytes of a row, selectivity factor (1 / keys), rows and window in a second, in seconds."""

    row_bytes: float = 1250.0
    factor: float = 0.1
    rate: float = 300.0
    window: float = 3.0

    @property
    def keys(self) -> int:
        """How many different keys it has."""
        return max(1, round(1 / self.factor))


@dataclass(frozen=True)
class Net:
    """The system of a setting: latency in ms, bandwidth in kbit/s, interval and delay in ms."""

    latency: float = 25.0
    bandwidth: float = 1024.0
    interval: float = 100.0
    delay: float = 80.0

    @property
    def link(self) -> Link:
        """The link between any two sites."""
        return Link(f"{self.latency} ms", f"{self.bandwidth} kbit/s")


def query_of(streams: Mapping[str, One], edges: Sequence[tuple[str, str]]) -> Query:
    """The join of streams over some edges, each on a key of its own, so that a graph stays what it is."""
    made = [Stream(name, "t", f"{round(one.window * 1e6)} us") for name, one in streams.items()]
    on = [Equal(f"{a}.{key_of(a, b)}", f"{b}.{key_of(a, b)}") for a, b in edges]
    return Query(streams=made, on=on, select=[(f"{name}.rest", f"{name}_rest") for name in streams])


def key_of(a: str, b: str) -> str:
    """The column of an edge, in both its streams."""
    return f"k_{min(a, b)}_{max(a, b)}"


def keys_of(query: Query, name: str) -> list[str]:
    """The key columns of a stream."""
    mine = [c.partition(".")[2] for p in query.predicates for c in p.columns if c.partition(".")[0] == name]
    return list(dict.fromkeys(mine))


def schema_of(query: Query, name: str) -> pa.Schema:
    """The columns of a stream: its time, its keys, and the number of the row in place of all others."""
    keys = [(key, pa.int64()) for key in keys_of(query, name)]
    return pa.schema([("t", pa.timestamp("us")), *keys, ("rest", pa.int64())])


def tables_of(query: Query, streams: Mapping[str, One], seconds: float, seed: int) -> dict[str, pa.Table]:
    """Rows at a steady rate, keys uniform, the smaller domain inside the larger one."""
    found = {}
    for place, (name, one) in enumerate(streams.items()):
        random = np.random.default_rng([seed, place])
        rows = round(one.rate * seconds)
        time = (np.sort(random.random(rows)) * seconds * 1e6).astype(np.int64)
        keys = [pa.array(random.integers(0, one.keys, rows)) for _ in keys_of(query, name)]
        columns = [pa.array(time).cast(pa.timestamp("us")), *keys, pa.array(np.arange(rows))]
        found[name] = pa.Table.from_arrays(columns, schema=schema_of(query, name))
    return found


def widths_of(query: Query, streams: Mapping[str, One]) -> dict[str, float]:
    """Bytes of each column on the wire."""
    keys = {f"{name}.{key}": float(KEY_BYTES) for name in streams for key in keys_of(query, name)}
    taken = {name: KEY_BYTES * len(keys_of(query, name)) + TIME_BYTES for name in streams}
    return keys | {f"{name}.rest": max(one.row_bytes - taken[name], 0.0) for name, one in streams.items()}


def parameters(query: Query, streams: Mapping[str, One], net: Net) -> Parameters:
    """What the cost models are told."""
    each: Callable[[Callable[[One], float]], dict[str, float]] = lambda f: {n: f(one) for n, one in streams.items()}  # noqa: E731
    return given(
        query, net.interval / 1000, rates=each(lambda one: one.rate), distinct=each(lambda one: one.keys),
        seconds=each(lambda one: one.window), widths=widths_of(query, streams),
    )  # fmt: skip


def planned(
    streams: Mapping[str, One], edges: Sequence[tuple[str, str]], net: Net, planner: Any, model: Any
) -> Planned:
    """The plan of a planner; every stream has a site of its own."""
    query = query_of(streams, edges)
    return plan(
        query, {n: n.upper() for n in streams}, net.link, figures=parameters(query, streams, net),
        schemas={n: schema_of(query, n) for n in streams}, interval=f"{net.interval} ms", delay=f"{net.delay} ms",
        planner=planner, model=model,
    )  # fmt: skip


def executed(found: Plan | Planned, streams: Mapping[str, One], net: Net, seconds: float, seed: int) -> Simulation:
    """A plan, run over generated streams."""
    query = found.plan.query if isinstance(found, Planned) else found.query
    tables = tables_of(query, streams, seconds, seed)
    return simulate(found, tables, net.link, seed=seed, widths=widths_of(query, streams))


def edges_of(shape: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """The edges of a topology."""
    if shape == "star":
        return [(names[0], name) for name in names[1:]]
    if shape == "full":
        return [(a, b) for k, b in enumerate(names) for a in names[:k]]
    chain = list(pairwise(names))
    return [*chain, (names[-1], names[0])] if shape == "cycle" else chain


TABLE_2: dict[str, tuple[float, ...]] = {
    "row_bytes": (50, 250, 500, 750, 1000),
    "factor": (0.02, 0.04, 0.06, 0.08, 0.1),
    "rate": (10, 50, 100, 150, 200),
    "window": (0.4, 0.8, 1.2, 1.6, 2.0),
}
"""The values that the paper draws parameters from; 10 to 200 attributes of 5 bytes are 50 to 1,000 bytes."""


def drawn(random: Random, count: int) -> dict[str, One]:
    """Streams with parameters from table 2."""
    return {f"s{k}": One(**{name: random.choice(values) for name, values in TABLE_2.items()}) for k in range(count)}


# -- figure 7: one edge, six programs -------------------------------------------------------------------------------

SECONDS, QUICK_SECONDS = 6.0, 1.0


def one_way(first: One, second: One, net: Net, program: str, seconds: float, seed: int) -> Simulation:
    """The one-way join from the first stream to the second by a program."""
    streams = {"s1": first, "s2": second}
    sequences = {"s1": [("s2", program)], "s2": [("s1", program)]}
    found = Plan(query_of(streams, [("s1", "s2")]), {"s1": "N1", "s2": "N2"}, sequences, f"{net.interval} ms",
                 f"{net.delay} ms")  # fmt: skip
    tables = tables_of(found.query, streams, seconds, seed)
    return simulate(found, tables, net.link, seed=seed, widths=widths_of(found.query, streams), heads=("s1",))


@dataclass(frozen=True)
class Sweep:
    """One part of figure 7: which parameter of the second stream, or of the network, takes which values."""

    id: str
    place: str
    claim: str
    of: str  # a field of One, or of Net
    values: tuple[float, ...]
    unit: str
    judge: Callable[[Figures], Sequence[Check]]
    log_x: bool = False

    def experiment(self) -> Experiment:
        """It as an experiment."""
        return Experiment(
            id=self.id, paper=PAPER, place=self.place, claim=self.claim,
            setting="S1 -> S2, 1,250-byte rows, selectivity 0.1, 300 rows/s, window 3 s, 25 ms, 1,024 kbit/s, "
            f"interval 100 ms; {self.of} of {'S2' if hasattr(One(), self.of) else 'the network'} from "
            f"{self.values[0]:g} to {self.values[-1]:g} {self.unit}; {SECONDS:g} s of arrivals, "
            "seconds under way and at work for each of them",
            sweep=self._sweep, measure=self._measure, judge=self.judge, draw=self._draw, seeds=3,
        )  # fmt: skip

    def _sweep(self, conditions: Conditions) -> list[Point]:
        usual = getattr(One(), self.of, None) or getattr(Net(), self.of)
        few = tuple(dict.fromkeys((self.values[0], usual, self.values[-1])))
        return [{self.of: value} for value in (few if conditions.quick else self.values)]

    def _measure(self, point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
        second, net = One(), Net()
        if hasattr(second, self.of):
            second = replace(second, **point)
        else:
            net = replace(net, **point)
        row: dict[str, float] = {}
        for name in PROGRAMS:
            ran = one_way(One(), second, net, name, QUICK_SECONDS if conditions.quick else SECONDS, seed)
            sent = sum(traffic.messages - traffic.empty for traffic in ran.links.values())
            row |= {
                name: ran.execution,
                f"{name} bytes": ran.bytes / ran.seconds,
                f"{name} messages": sent / ran.seconds,
            }
        yield row

    def _draw(self, found: Figures) -> list[Panel]:
        label = f"{self.of} ({self.unit})"
        parts = (
            ("", "time", "s per s of arrivals"),
            (" bytes", "bytes", "bytes/s"),
            (" messages", "messages", "messages/s"),
        )
        return [
            Panel(what, label, y, {name: found.curve(self.of, name + suffix) for name in PROGRAMS}, self.log_x)
            for suffix, what, y in parts
        ]


def ratio(one: str, other: str) -> Callable[[Row], float]:
    """One column over another, in each row."""
    return lambda row: float(row[one]) / float(row[other])


def change(found: Figures, of: str, name: str, begin: float, end: float) -> Figures:
    """By which factor a column changes between two values of a parameter, seed by seed."""
    first = {row["seed"]: row[name] for row in found.where(**{of: begin}).rows}
    last = {row["seed"]: row[name] for row in found.where(**{of: end}).rows}
    return Figures([{"seed": seed, "factor": last[seed] / first[seed]} for seed in first])


def changes(
    found: Figures, of: str, names: Sequence[str], begin: Any = None, end: Any = None
) -> list[tuple[str, Figures]]:
    """The same for several columns, by name; from the first value to the last one, if none is told."""
    values = found.distinct(of)
    begin, end = values[0] if begin is None else begin, values[-1] if end is None else end
    return [(name, change(found, of, name, begin, end)) for name in names]
