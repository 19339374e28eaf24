"""Interleaved streams that keep k-constraints: chosen join, clustering and scrambling distances, changing over time.

Graphs are those of the k-constraints paper's figure 3. Time "t" is a row's place among the rows of all streams, "f" a
number from 0 to 99 for filters of any selectivity. A distance is drawn evenly from 0 to its limit; where rows that are
moved push others beyond their limit, they are moved less, until every one of them is kept: what is asked for holds
exactly, and is nearly reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.analysis.adherence import clustering_distances, join_distances, scrambling_distances
from windrow.errors import SpecError
from windrow.record import number, whole

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

Knob = float | Sequence[tuple[float, float]]
"""A limit: one for the whole stream, or points (share of the stream, limit) with straight lines between them."""

COLUMNS = "ABCDEFGH"


@dataclass(frozen=True)
class Edge:
    """A many-one join from a parent stream to a child stream.

    Parameters:
        multiplicity: how many parent rows a child row has, on average.
        distance: the limit of join distances, from a parent row to its child (RIDS).
        clustered: the limit of clustering distances of the parent's key (CA).
        scrambled: the limit of scrambling distances of the parent's key (OAP).
        child_scrambled: the limit of scrambling distances of the child's key (OAC).
        dangling: the share of children that never come.
    """

    multiplicity: int = 5
    distance: Knob = 0
    clustered: Knob | None = None
    scrambled: Knob | None = None
    child_scrambled: Knob | None = None
    dangling: float = 0.0

    def __post_init__(self) -> None:
        whole(self.multiplicity, "multiplicity", least=1)
        if not 0 <= number(self.dangling, "dangling") < 1:
            raise SpecError(f"dangling is a share of the children, from 0 to below 1, got {self.dangling}")
        if self.clustered is not None and self.scrambled is not None:
            raise SpecError("a parent's key is either clustered or scrambled: give one of the two")
        if self.scrambled is not None and self.child_scrambled is not None:
            raise SpecError("scrambled and child_scrambled order one key in two ways: give one of the two")
        for knob in (self.distance, self.clustered, self.scrambled, self.child_scrambled):
            if knob is not None:
                limits(knob, 1)


def limits(knob: Knob, count: int) -> Floats:
    """The limit for each of `count` rows."""
    if isinstance(knob, (int, float)):
        return np.full(count, float(number(knob, "a limit")))
    points = [(float(share), float(number(limit, "a limit"))) for share, limit in knob]
    if not points or [share for share, _ in points] != sorted(share for share, _ in points):
        raise SpecError(f"limits over time are points (share of the stream, limit) in ascending order, got {knob!r}")
    shares, values = zip(*points, strict=True)
    return np.interp((np.arange(count) + 0.5) / max(count, 1), shares, values)


def star_streams(rows: int, edges: Sequence[Edge], seed: int = 0) -> dict[str, pa.Table]:
    """S1 with a child S2, S3, ... for each edge (figure 3 (a), or (c) for one): keys A, B, ... on both sides.

    `rows` counts the rows of all streams together.

    >>> tables = star_streams(700, [Edge(distance=10), Edge(multiplicity=5)], seed=1)
    >>> {name: (table.num_rows, table.column_names) for name, table in tables.items()}
    {'S1': (500, ['t', 'A', 'B', 'f']), 'S2': (100, ['t', 'A', 'f']), 'S3': (100, ['t', 'B', 'f'])}
    """
    rng = np.random.Generator(np.random.PCG64(whole(seed, "seed")))
    share = 1 + sum((1 - edge.dangling) / edge.multiplicity for edge in edges)
    count = int(whole(rows, "rows") / share)
    keys, moments = {}, {"S1": np.arange(count, dtype=np.float64)}
    children = {}
    for place, edge in enumerate(edges):
        column, name = COLUMNS[place], f"S{place + 2}"
        keys[column], child, moments[name] = _joined(count, edge, rng)
        children[name] = {column: child}
    return _interleaved({"S1": keys, **children}, moments, rng)


def fan_streams(rows: int, edges: Sequence[Edge], seed: int = 0) -> dict[str, pa.Table]:
    """Parents S1, S2, ... of one child, the last stream (figure 3 (b)): key A on all.

    Clustering and scrambling distances are those of each edge. A child comes before its parents: join distances are 0.

    >>> tables = fan_streams(1100, [Edge(clustered=20), Edge(clustered=20)], seed=1)
    >>> {name: table.num_rows for name, table in tables.items()}
    {'S1': 500, 'S2': 500, 'S3': 100}
    """
    rng = np.random.Generator(np.random.PCG64(whole(seed, "seed")))
    if any(edge.multiplicity != edges[0].multiplicity for edge in edges):
        raise SpecError("parents of one child have one multiplicity here: the child's rows are those of all of them")
    parents = len(edges)
    children = int(whole(rows, "rows") / (parents * edges[0].multiplicity + 1))
    count = children * edges[0].multiplicity
    label = _labels(children, rng, ordered=any(edge.scrambled is not None for edge in edges))
    columns, moments = {}, {}
    first = np.full(children, np.inf)
    for place, edge in enumerate(edges):
        sequence = _sequence(count, edge, rng)
        first = np.minimum(first, _first_places(sequence, children))
        columns[f"S{place + 1}"] = {"A": label[sequence]}
        moments[f"S{place + 1}"] = np.arange(count, dtype=np.float64)
    name = f"S{parents + 1}"
    order = np.argsort(first, kind="stable")
    return _interleaved({**columns, name: {"A": label[order]}}, {**moments, name: first[order] - 0.5}, rng)


def _joined(count: int, edge: Edge, rng: np.random.Generator) -> tuple[Ints, Ints, Floats]:
    """The parent's keys in order of arrival, the child's, and when each child comes, in places of parent rows."""
    children = max(1, count // edge.multiplicity)
    if edge.clustered is None and edge.scrambled is None:
        arrival = _by_distance(count, children, edge, rng)
        moments: Floats = np.arange(children, dtype=np.float64) * edge.multiplicity - 0.5
        order = np.arange(children)
    else:
        arrival = np.minimum(_sequence(count, edge, rng), children - 1)
        moments, order = _children_of(arrival, children, edge, rng)
    comes = rng.random(children) >= edge.dangling
    label = _labels(children, rng, ordered=edge.scrambled is not None)
    if edge.child_scrambled is not None:
        label = np.empty(children, np.int64)
        label[order] = _scrambled_labels(comes, edge, rng)
    kept = np.flatnonzero(comes[label[order]])
    return label[arrival], label[order[kept]], moments[kept]


def _scrambled_labels(comes: NDArray[np.bool_], edge: Edge, rng: np.random.Generator) -> Ints:
    """Keys of children in the order in which they come; those that never come are neither counted nor compared."""
    assert edge.child_scrambled is not None

    def measure(keys: Ints) -> Ints:
        behind, there = np.zeros(len(keys), np.int64), comes[keys]
        behind[there] = scrambling_distances(keys[there])
        return behind

    limit = limits(edge.child_scrambled, len(comes))
    return _moved(np.arange(len(comes)), limit, measure, rng, stretch=1 / (1 - edge.dangling))


def _by_distance(count: int, children: int, edge: Edge, rng: np.random.Generator) -> Ints:
    """For each parent row the number of its child in the child's order, at an even distance from 0 to the limit."""
    before = np.arange(count) // edge.multiplicity + 1
    distance = np.floor(rng.random(count) * (limits(edge.distance, count) + 1)).astype(np.int64)
    wanted = before + distance - 1
    return np.where(wanted < children, wanted, np.minimum(before, children) - 1)


def _sequence(count: int, edge: Edge, rng: np.random.Generator) -> Ints:
    """Numbers of children in the order of the parent's rows: in order, but for one late row of each."""
    base = np.arange(count) // edge.multiplicity
    knob = edge.clustered if edge.clustered is not None else edge.scrambled
    limit = limits(0 if knob is None else knob, count)
    if edge.clustered is not None:
        return _moved(base, limit, _spread, rng)
    return _moved(base, limit, scrambling_distances, rng)


def _spread(keys: Ints) -> Ints:
    """The clustering distance of each row's key."""
    return clustering_distances(keys)[np.unique(keys, return_inverse=True)[1]]


def _moved(
    base: Ints, limit: Floats, measure: Callable[[Ints], Ints], rng: np.random.Generator, stretch: float = 1.0
) -> Ints:
    """`base` with the last row of every number moved back by an even share of its limit, so that no limit is passed."""
    last = np.flatnonzero(np.diff(base, append=-1))
    step = np.floor(rng.random(len(last)) * (limit[last] + 1) * stretch)
    place = np.arange(len(base), dtype=np.float64)
    while True:
        place[last] = last + np.where(step > 0, step + 0.5, 0.0)
        order = np.argsort(place, kind="stable")
        behind = np.zeros(len(base))
        behind[order] = measure(base[order])
        over = np.zeros(int(base[-1]) + 1 if len(base) else 1)
        np.maximum.at(over, base, behind - limit)
        bad = over[base[last]] > 0
        if not bad.any():
            return base[order]
        if step[bad].any():
            step[bad] = np.maximum(step[bad] - np.maximum(over[base[last]][bad], 1.0), 0.0)
        else:  # pushed by others alone
            step = np.floor(step * 0.9)


def _children_of(arrival: Ints, children: int, edge: Edge, rng: np.random.Generator) -> tuple[Floats, Ints]:
    """When each child comes, and their order: before its first parent row, or up to the limit of children after it."""
    first = _first_places(arrival, children)
    limit = limits(edge.distance, children)
    late = np.floor(rng.random(children) * (limit + 1))
    while True:
        moment = first - 0.5 + late * edge.multiplicity
        order = np.argsort(moment, kind="stable")
        rank = np.empty(children, np.int64)
        rank[order] = np.arange(children)
        before = np.searchsorted(moment[order], np.arange(len(arrival)))
        behind = join_distances(rank[arrival], before, np.arange(children))
        over = np.zeros(children)
        np.maximum.at(over, arrival, behind - limit[arrival])
        bad = over > 0
        if not bad.any():
            return moment[order], order
        if late[bad].any():
            late[bad] = np.maximum(late[bad] - over[bad], 0.0)
        else:
            late = np.floor(late * 0.9)


def _first_places(sequence: Ints, count: int) -> Floats:
    first = np.full(count, float(len(sequence)))
    np.minimum.at(first, sequence, np.arange(len(sequence), dtype=np.float64))
    return first


def _labels(count: int, rng: np.random.Generator, ordered: bool) -> Ints:
    """The key of each child: in its order, or in none, so that no other constraint holds by accident."""
    return np.arange(count, dtype=np.int64) if ordered else rng.permutation(count).astype(np.int64)


def _interleaved(
    columns: Mapping[str, Mapping[str, Ints]], moments: Mapping[str, Floats], rng: np.random.Generator
) -> dict[str, pa.Table]:
    """Tables of all streams, with the place of each row among all."""
    names = list(columns)
    sizes = [len(moments[name]) for name in names]
    place = np.empty(sum(sizes), np.int64)
    place[np.argsort(np.concatenate([moments[name] for name in names]), kind="stable")] = np.arange(sum(sizes))
    parts = np.split(place, np.cumsum(sizes)[:-1])
    return {
        name: pa.table({"t": part, **columns[name], "f": rng.integers(0, 100, len(part))})
        for name, part in zip(names, parts, strict=True)
    }
