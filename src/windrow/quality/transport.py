"""The two assignment problems behind the distance-based measures, on OR-tools' min-cost flow.

Costs are distances, rounded to whole multiples of a tiny part of the largest one because the solver counts in
integers. The work that is reported is added up from the true distances along the plan that it found: it
exceeds the true least by at most one such part (1 / 2**40 of the largest distance, if counts are moderate)
per unit moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from windrow.errors import InputError, MissingDependency, WindrowError

MAX_PAIRS = 1_000_000
"""The most pairs of rows whose distance is worked out: the solver keeps an arc for each."""

_FINEST = 2**40
_ROOM = 2**60  # costs times units moved, and costs times nodes (which the solver multiplies), stay below this

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Cover:
    """A set of edges that touches every node on both sides: its total weight and its number of edges."""

    weight: float
    edges: int


def distances(left: Floats, right: Floats, what: str) -> Floats:
    """The Euclidean distance between every row of `left` and every row of `right`."""
    if len(left) * len(right) > MAX_PAIRS:
        raise InputError(
            f"{what} of {len(left):,} against {len(right):,} rows would need {len(left) * len(right):,} "
            f"distances, and the limit is {MAX_PAIRS:,}: compare a sample of the rows"
        )
    square = np.zeros((len(left), len(right)))
    for one, two in zip(left.T, right.T, strict=True):
        square += np.subtract.outer(one, two) ** 2  # coordinates are small enough for squares, see distance.py
    return np.sqrt(square)


def least_work(cost: Floats, supply: Ints, room: Ints, what: str) -> float:
    """The least work that moves `supply` (one per row of `cost`) into `room` (one per column, no less)."""
    resolution = min(_FINEST, _ROOM // max(int(supply.sum()), sum(cost.shape) + 2))
    plan = _transport(_whole(cost, resolution), supply, room, what)
    return float((plan * cost).sum())


def least_cover(cost: Floats, what: str) -> Cover:
    """The cheapest edge cover of the complete bipartite graph of `cost`, with the fewest edges among equals.

    Let each node take its cheapest edge. An edge (u, v) that serves both ends saves the cheapest edges of u
    and v and costs its own weight, so the cheapest cover shares edges along the matching that saves most.
    """
    rows, columns = cost.shape
    nodes = rows + columns + 2
    # Weights in steps larger than any number of edges, plus one for the edge itself: fewest edges break ties.
    ordered = _whole(cost, min(_FINEST, _ROOM // nodes**2)) * nodes + 1
    own = ordered.min(axis=1)[:, None], ordered.min(axis=0)[None, :]
    saving = np.maximum(own[0] + own[1] - ordered, 0)
    alone = np.zeros((rows, 1), np.int64)  # the way out for a row that shares no edge
    units = np.ones(rows, np.int64)
    plan = _transport(np.hstack([-saving, alone]), units, np.append(np.ones(columns, np.int64), rows), what)
    shared = (plan[:, :-1] > 0) & (saving > 0)
    lone_rows, lone_columns = ~shared.any(axis=1), ~shared.any(axis=0)
    weight = cost[shared].sum() + cost.min(axis=1)[lone_rows].sum() + cost.min(axis=0)[lone_columns].sum()
    return Cover(float(weight), int(shared.sum() + lone_rows.sum() + lone_columns.sum()))


def _whole(cost: Floats, resolution: int) -> Ints:
    largest = cost.max(initial=0.0)
    return np.rint(cost * (resolution / largest if largest > 0 else 0.0)).astype(np.int64)


def _transport(cost: Ints, supply: Ints, room: Ints, what: str) -> Ints:
    """The units that go from each row to each column of `cost` in the cheapest plan."""
    flow = _solver(what)
    rows, columns = cost.shape
    sink = rows + columns
    tails = np.repeat(np.arange(rows), columns)
    heads = rows + np.tile(np.arange(columns), rows)
    most = np.minimum.outer(supply, room).reshape(-1)
    arcs = flow.add_arcs_with_capacity_and_unit_cost(tails, heads, most, cost.reshape(-1))
    flow.add_arcs_with_capacity_and_unit_cost(
        rows + np.arange(columns), np.full(columns, sink), room, np.zeros(columns, np.int64)
    )
    flow.set_nodes_supplies(np.arange(rows), supply)
    flow.set_node_supply(sink, -int(supply.sum()))
    status = flow.solve()
    if status != flow.OPTIMAL:
        raise WindrowError(f"{what}: the min-cost flow solver gave up ({status})")
    return np.asarray(flow.flows(arcs), dtype=np.int64).reshape(rows, columns)


def _solver(what: str) -> Any:
    try:
        from ortools.graph.python import min_cost_flow
    except ImportError:
        raise MissingDependency.of("ortools", what) from None
    return min_cost_flow.SimpleMinCostFlow()
