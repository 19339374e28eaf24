"""Probe orders: in which order an arriving row visits the other streams, and through which access.

Chosen greedily from running selectivities: next comes the stream, reachable by a key or a range from what is bound,
that has let the fewest candidates through per visit so far; streams that can only be scanned come last.
"""

from dataclasses import dataclass

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels.layout import (
    HASH,
    INDEX_STRIDE,
    NONE,
    P_KIND,
    P_LEFT,
    P_LEFT_COL,
    P_RIGHT,
    P_RIGHT_COL,
    RANGE,
    SCAN,
)
from windrow.state.plan import Plan


@dataclass(frozen=True, eq=False)
class Route:
    """Probe orders of all streams."""

    order: np.ndarray  # [stream, depth]: the stream visited
    access: np.ndarray  # [stream, depth, 3]: kind, which, the stream that binds it
    checks: np.ndarray  # [stream, depth, predicates + 1]: predicates to test, ended by NONE


def access_to(plan: Plan, stream: int, bound: list[int]) -> tuple[int, int, int]:
    """The best access to a stream given the bound ones: (kind, which, binder)."""
    for d in plan.classes[stream]:
        for binder in bound:
            if d >= 0 and d in plan.classes[binder]:
                return HASH, int(d), binder
    indexed = plan.indexed()
    narrow = sorted(range(len(plan.preds)), key=lambda k: plan.preds[k, P_KIND] not in (at.P_BAND, at.P_DISTANCE))
    for k in narrow:
        p = plan.preds[k]
        if p[P_KIND] in (at.P_EQUAL, at.P_NE):
            continue
        for mine, theirs, column in ((P_LEFT, P_RIGHT, P_LEFT_COL), (P_RIGHT, P_LEFT, P_RIGHT_COL)):
            if p[mine] == stream and p[theirs] in bound:
                which = indexed.index((stream, int(p[column])))
                return RANGE, which * INDEX_STRIDE + k, int(p[theirs])
    return SCAN, 0, bound[0]


def closing(plan: Plan, stream: int, bound: list[int], access: tuple[int, int, int]) -> list[int]:
    """The predicates between a stream and the bound ones that its access does not already guarantee."""
    found = []
    for k, p in enumerate(plan.preds):
        if {int(p[P_LEFT]), int(p[P_RIGHT])} - {stream} <= set(bound) and stream in (p[P_LEFT], p[P_RIGHT]):
            served = access[0] == HASH and p[P_KIND] == at.P_EQUAL and p[P_LEFT_COL] == access[1]
            if not served:
                found.append(k)
    return found


def choose_order(plan: Plan, me: int, tally: np.ndarray) -> list[int]:
    """The probe order of a stream, from what visits have let through so far."""
    if plan.probe_order is not None:
        return list(plan.probe_order[me])
    order: list[int] = []
    rest = [s for s in range(plan.streams) if s != me]
    while rest:
        bound = [me, *order]

        def worth(stream: int, bound: list[int] = bound) -> tuple[int, float, int]:
            kind = access_to(plan, stream, bound)[0]
            visits, passed = tally[me, stream]
            return (kind == SCAN, passed / visits if visits else 1.0, stream)

        order.append(min(rest, key=worth))
        rest.remove(order[-1])
    return order


def route(plan: Plan, tally: np.ndarray | None = None) -> Route:
    """A probe order for every stream."""
    n, m = plan.streams, len(plan.preds)
    if tally is None:
        tally = np.zeros((n, n, 2), np.int64)
    order = np.zeros((n, n - 1), np.int64)
    access = np.zeros((n, n - 1, at.ACCESS_SIZE), np.int64)
    checks = np.full((n, n - 1, m + 1), NONE, np.int64)
    for me in range(n):
        order[me] = choose_order(plan, me, tally)
        for depth in range(n - 1):
            bound = [me, *(int(s) for s in order[me, :depth])]
            way = access_to(plan, int(order[me, depth]), bound)
            access[me, depth] = way
            tests = closing(plan, int(order[me, depth]), bound, way)
            checks[me, depth, : len(tests)] = tests
    return Route(order, access, checks)
