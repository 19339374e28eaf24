"""Probe orders: in which order an arriving row visits the other streams, and through which access.

Chosen greedily from running selectivities: next comes the stream, reachable by a key or a range from what is bound,
that has let the fewest candidates through per visit so far; streams that can only be scanned come last.

A stream has one route for each join that it takes part in. Route `join * streams + stream` belongs to that join and
stream; those of streams that a join does not join are empty.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels.layout import (
    HASH,
    INDEX_STRIDE,
    NONE,
    RANGE,
    SCAN,
)
from windrow.state.plan import Plan


@dataclass(frozen=True, eq=False)
class Route:
    """Probe orders of all streams in all joins."""

    order: np.ndarray  # [route, depth]: the stream visited, or NONE behind the last
    access: np.ndarray  # [route, depth, 3]: kind, which, the stream that binds it
    checks: np.ndarray  # [route, depth, predicates + 1]: predicates to test, ended by NONE


def access_to(plan: Plan, stream: int, bound: list[int], join: int) -> tuple[int, int, int]:
    """The best access to a stream of a join given the bound ones: (kind, which, binder)."""
    for d in plan.classes[stream]:
        for binder in bound:
            if d >= 0 and d in plan.classes[binder] and plan.join_of_directory(int(d)) == join:
                return HASH, int(d), binder
    indexed = plan.indexed()
    narrow = sorted(
        range(len(plan.preds)), key=lambda k: plan.preds[k, at.Predicate.kind] not in (at.P_BAND, at.P_DISTANCE)
    )
    for k in narrow:
        p = plan.preds[k]
        if p[at.Predicate.kind] in (at.P_EQUAL, at.P_NE) or plan.join_of_predicate(k) != join:
            continue
        for mine, theirs, column in (
            (at.Predicate.left, at.Predicate.right, at.Predicate.left_col),
            (at.Predicate.right, at.Predicate.left, at.Predicate.right_col),
        ):
            if p[mine] == stream and p[theirs] in bound:
                which = indexed.index((stream, int(p[column])))
                return RANGE, which * INDEX_STRIDE + k, int(p[theirs])
    return SCAN, 0, bound[0]


def closing(plan: Plan, stream: int, bound: list[int], access: tuple[int, int, int], join: int) -> list[int]:
    """The predicates of a join between a stream and the bound ones that its access does not already guarantee."""
    found = []
    for k, p in enumerate(plan.preds):
        if plan.join_of_predicate(k) != join:
            continue
        if {int(p[at.Predicate.left]), int(p[at.Predicate.right])} - {stream} <= set(bound) and stream in (
            p[at.Predicate.left],
            p[at.Predicate.right],
        ):
            served = access[0] == HASH and p[at.Predicate.kind] == at.P_EQUAL and p[at.Predicate.left_col] == access[1]
            if not served:
                found.append(k)
    return found


def choose_order(plan: Plan, line: int, tally: np.ndarray) -> list[int]:
    """The probe order of a route, from what visits have let through so far."""
    if plan.probe_order is not None:
        return list(plan.probe_order[line])
    join, me = divmod(line, plan.streams)
    order: list[int] = []
    rest = [s for s in plan.members[join] if s != me] if me in plan.members[join] else []
    while rest:
        bound = [me, *order]

        def worth(stream: int, bound: list[int] = bound) -> tuple[int, float, int]:
            kind = access_to(plan, stream, bound, join)[0]
            visits, passed = tally[line, stream]
            return (kind == SCAN, passed / visits if visits else 1.0, stream)

        order.append(min(rest, key=worth))
        rest.remove(order[-1])
    return order


@lru_cache(maxsize=64)
def first_route(plan: Plan) -> Route:
    """The probe orders of a plan before any row has come; they are not to be written to."""
    return route(plan, np.zeros((plan.routes, plan.streams, 2), np.int64))


def route(plan: Plan, tally: np.ndarray) -> Route:
    """A probe order for every stream in every join, from what visits have let through so far."""
    n, m, routes = plan.streams, len(plan.preds), plan.routes
    order = np.full((routes, n - 1), NONE, np.int64)
    access = np.zeros((routes, n - 1, at.ACCESS_SIZE), np.int64)
    checks = np.full((routes, n - 1, m + 1), NONE, np.int64)
    for line in range(routes):
        join, me = divmod(line, n)
        visited = choose_order(plan, line, tally)
        order[line, : len(visited)] = visited
        for depth, stream in enumerate(visited):
            bound = [me, *visited[:depth]]
            way = access_to(plan, stream, bound, join)
            access[line, depth] = way
            tests = closing(plan, stream, bound, way, join)
            checks[line, depth, : len(tests)] = tests
    return Route(order, access, checks)
