"""The slow, obvious twin of releasing by constraints (docs/decisions/0030): what is resident, why, and what is emitted.

`run(query, constraints, arrivals)` takes one row after the other, in one order over all streams. Matches come from
the rows that are still held, by nested loops: a row released too early shows as a missing match. After every arrival
the rules of release are applied to all residents, again and again until nothing changes.

`run(..., remembers=True)` never forgets that a unique partner has come, even if nobody who saw it is held any more:
the most that the rules can release. An engine that has just collected holds at least what that run holds, and at most
what `run` holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Any

from tests import reference
from tests.reference import Taken

from windrow.spec import Duration, Equal, Query, split_reference
from windrow.spec.constraints import Clustered, Constraint, Integrity, Ordered, Unique

YES, NO, UNKNOWN = "yes", "no", "unknown"

Arrival = tuple[str, dict[str, Any]]
"""The stream of a row, and the row."""


# ------------------------------------------------------------------------------------------ what a run gives


@dataclass(frozen=True)
class Step:
    """What one arrival did. Rows are named by their place in the order of all arrivals."""

    matches: tuple[tuple[Taken, ...], ...]
    resident: dict[int, str]
    """The rows held after it, each with its status."""
    released: dict[int, str]
    """The rows released by it, each with the rule."""
    expired: frozenset[int]
    ignored: bool
    """The arriving row was not even stored: it can never match, and nobody needs to know that it came."""


@dataclass(frozen=True)
class Outcome:
    """All steps of a run."""

    query: Query
    rows: tuple[Taken, ...]
    steps: tuple[Step, ...]

    @property
    def matches(self) -> Counter[tuple[int, ...]]:
        """All matches, each as the places of its rows in the order of the query's streams."""
        return Counter(tuple(row.place for row in match) for step in self.steps for match in step.matches)

    def emitted(self, step: int = -1) -> list[tuple[tuple[Any, ...], ...]]:
        """The matches of one step, each as the values of its rows."""
        return sorted(tuple(_values(row) for row in match) for match in self.steps[step].matches)

    def synopsis(self, stream: str, step: int = -1) -> dict[str, list[tuple[Any, ...]]]:
        """The residents of a stream after a step, by status; a status that no row has is left out."""
        found: dict[str, list[tuple[Any, ...]]] = {}
        for place, status in self.steps[step].resident.items():
            row = self.rows[place]
            if self.query.names[row.stream] == stream:
                found.setdefault(status, []).append(_values(row))
        return {status: sorted(rows) for status, rows in found.items()}


def _values(row: Taken) -> tuple[Any, ...]:
    return tuple(row.row.values())


# -------------------------------------------------------------------------------------------- the join graph


class Graph:
    """Which streams are neighbours, which edges are many-one, what reaches what, and what covers."""

    def __init__(self, query: Query, constraints: Sequence[Constraint]) -> None:
        self.query = query
        self.count = len(query.streams)
        self.constraints = tuple(constraints)
        self.pairs: dict[tuple[int, int], list[tuple[str, str]]] = {}
        for predicate in query.on:
            a, b = (query.names.index(name) for name in predicate.streams)
            for one, other in ((a, b), (b, a)):
                self.pairs.setdefault((one, other), [])
            if isinstance(predicate, Equal):
                left, right = split_reference(predicate.left)[1], split_reference(predicate.right)[1]
                self.pairs[a, b].append((left, right))
                self.pairs[b, a].append((right, left))
        self.neighbours = [[n for n in range(self.count) if (s, n) in self.pairs] for s in range(self.count)]
        self.reach = [self._reach(s) for s in range(self.count)]
        self.covers = [self._covers(s) for s in range(self.count)]

    def about(self, kind: type, stream: int) -> list[Any]:
        """The constraints of a kind on a stream."""
        name = self.query.names[stream]
        return [c for c in self.constraints if isinstance(c, kind) and c.streams == (name,)]

    def integrity(self, parent: int, child: int) -> list[Integrity]:
        names = self.query.names[parent], self.query.names[child]
        return [c for c in self.constraints if isinstance(c, Integrity) and c.streams == names]

    def many_one(self, parent: int, child: int) -> bool:
        """Whether a row of `parent` has at most one partner in `child`, ever."""
        own = {column for _, column in self.pairs.get((parent, child), [])}
        return any(set(unique.columns) <= own for unique in self.about(Unique, child))

    def parents(self, stream: int) -> list[int]:
        return [n for n in self.neighbours[stream] if self.many_one(n, stream)]

    def children(self, stream: int) -> list[int]:
        return [n for n in self.neighbours[stream] if self.many_one(stream, n)]

    def exempt(self, parent: int, child: int) -> bool:
        """Whether a row of `parent` finds out by itself that its child does not come (RIDS, OAC)."""
        own = {column for _, column in self.pairs[parent, child]}
        ordered = any(constraint.column in own for constraint in self.about(Ordered, child))
        return ordered or bool(self.integrity(parent, child))

    def _reach(self, stream: int) -> set[int]:
        found, waiting = {stream}, [stream]
        while waiting:
            for child in self.children(waiting.pop()):
                if child not in found:
                    found.add(child)
                    waiting.append(child)
        return found

    def _covers(self, stream: int) -> list[tuple[tuple[int, ...], bool]]:
        """Sets of neighbours that reach the whole graph, and whether they need the stream itself for it."""
        near = self.neighbours[stream]
        everything = set(range(self.count))
        found = []
        for group in chain.from_iterable(combinations(near, size) for size in range(len(near) + 1)):
            reached = set().union(*(self.reach[n] for n in group))
            if reached == everything:
                found.append((group, False))
            elif reached | self.reach[stream] == everything:
                found.append((group, True))
        return found


# ------------------------------------------------------------------------------------------------- the rules


@dataclass(eq=False)
class Resident:
    """A row that is held."""

    taken: Taken
    before: tuple[int, ...]
    """How many rows of each stream had arrived before it."""
    status: str = UNKNOWN
    why: str = ""
    seen: set[int] = field(default_factory=set)
    """The streams whose only partner of this row has arrived."""

    @property
    def stream(self) -> int:
        return self.taken.stream


class Twin:
    """One run."""

    def __init__(
        self, query: Query, constraints: Sequence[Constraint], rows: Sequence[Taken], remembers: bool = False
    ) -> None:
        self.query = query
        self.graph = Graph(query, constraints)
        self.remembers = remembers
        self.counts = reference.counts_before(query, rows)
        self.arrived: list[list[Taken]] = [[] for _ in query.streams]
        self.residents: list[Resident] = []
        self.known: dict[tuple[int, int], bool] = {}

    def take(self, row: Taken) -> Step:
        new = Resident(row, tuple(len(rows) for rows in self.arrived))
        self.arrived[row.stream].append(row)
        self._meet(new)
        matches: tuple[tuple[Taken, ...], ...] = ()
        if row.ignored:
            new.status, new.why = NO, "filtered"
        else:
            matches = self._probe(new)
        self.residents.append(new)
        expired = self._expire()
        released = self._settle()
        ignored = row.ignored and released.pop(row.place, None) is not None
        resident = {r.taken.place: r.status for r in self.residents}
        return Step(matches, resident, released, expired, ignored)

    def _meet(self, new: Resident) -> None:
        """Unique partners that have arrived are known to be the only ones."""
        for n in self.graph.neighbours[new.stream]:
            for other in self._partners(new, n):
                if self.graph.many_one(n, new.stream):
                    other.seen.add(new.stream)
                if self.graph.many_one(new.stream, n):
                    new.seen.add(n)

    def _probe(self, new: Resident) -> tuple[tuple[Taken, ...], ...]:
        """The matches of an arriving row with the rows that are held; rows of a match are Yes."""
        live = [r for r in self.residents if r.status != NO]
        sides = [[new] if s == new.stream else [r for r in live if r.stream == s] for s in range(self.graph.count)]
        found: list[tuple[Taken, ...]] = []

        def extend(chosen: tuple[Resident, ...]) -> None:
            if len(chosen) == len(sides):
                found.append(tuple(r.taken for r in chosen))
                for r in chosen:
                    r.status = YES
                return
            for row in sides[len(chosen)]:
                if all(self._fits(one, row) for one in chosen):
                    extend((*chosen, row))

        extend(())
        return tuple(found)

    def _fits(self, one: Resident, other: Resident) -> bool:
        a, b = one.taken, other.taken
        return self._joins(a, b) and reference.window_holds(self.query, a, b, self.counts)

    def _joins(self, one: Taken, other: Taken) -> bool:
        """Whether all predicates between two rows hold; windows and filters are not looked at."""
        pair = one.place, other.place
        if pair not in self.known:
            self.known[pair] = all(reference.predicate_holds(p, self.query, one, other) for p in self.query.on)
        return self.known[pair]

    def _partners(self, row: Resident, n: int) -> list[Resident]:
        return [r for r in self.residents if r.stream == n and self._joins(row.taken, r.taken)]

    def _watermark(self) -> float:
        """No row that is still to come has an earlier time."""
        lags = zip(self.arrived, self.query.streams, strict=True)
        return min(max((r.time for r in rows), default=-float("inf")) - s.lateness.amount for rows, s in lags)

    def _expire(self) -> frozenset[int]:
        watermark = self._watermark()
        gone = [
            r
            for r in self.residents
            if not reference.still_open(self.query.streams[r.stream], r.taken, watermark, len(self.arrived[r.stream]))
        ]
        self.residents = [r for r in self.residents if r not in gone]
        return frozenset(r.taken.place for r in gone)

    def _settle(self) -> dict[int, str]:
        """Apply all rules until nothing changes; the rows that leave, and why."""
        released: dict[int, str] = {}
        changed = True
        while changed:
            changed = False
            for row in list(self.residents):
                if row.status != NO and (why := self._useless(row)):
                    row.status, row.why, changed = NO, why, True
                if row.status == UNKNOWN and self._children_yes(row):
                    row.status, changed = YES, True
                if row.status == NO and not self._wanted(row):
                    self.residents.remove(row)
                    released[row.taken.place], changed = row.why, True
        return released

    def _children_yes(self, row: Resident) -> bool:
        """Every child of the row is here, and so is all below it. Rows on a cycle become Yes by a match alone."""
        children = self.graph.children(row.stream)
        return all(any(c.status == YES for c in self._partners(row, n)) for n in children)

    def _useless(self, row: Resident) -> str:
        """Why no match from now on contains the row; an empty text if that is not known."""
        graph = self.graph
        for n in graph.neighbours[row.stream]:
            if self._closed(row, n) and all(r.status == NO for r in self._partners(row, n)):
                return f"dead by {self.query.names[n]}"
        for group, with_own in graph.covers[row.stream]:
            if with_own and row.status != YES:
                continue
            if all(self._closed(row, n) and all(r.status != UNKNOWN for r in self._partners(row, n)) for n in group):
                return "complete"
        return ""

    def _wanted(self, row: Resident) -> bool:
        """Whether a row that cannot match is still to tell a parent that comes later."""
        parents = self.graph.parents(row.stream)
        return any(not self.graph.exempt(n, row.stream) and not self._closed(row, n) for n in parents)

    # ------------------------------------------------------------------------------------- who comes no more

    def _closed(self, row: Resident, n: int) -> bool:
        """Whether no row of stream `n` that is still to come can join with the row."""
        pairs = self.graph.pairs[row.stream, n]
        if n in row.seen or any(row.taken.row[own] is None for own, _ in pairs):
            return True
        if self.remembers and self.graph.many_one(row.stream, n):
            if any(self._joins(row.taken, other) for other in self.arrived[n]):
                return True
        if any(self._past(row, n, constraint.k) for constraint in self.graph.integrity(row.stream, n)):
            return True
        own = {column: row.taken.row[mine] for mine, column in pairs}
        ordered = (c for c in self.graph.about(Ordered, n) if c.column in own)
        if any(self._passed(n, c, own[c.column]) for c in ordered):
            return True
        clustered = (c for c in self.graph.about(Clustered, n) if set(c.columns) <= set(own))
        return any(self._left_behind(n, c, tuple(own[column] for column in c.columns)) for c in clustered)

    def _past(self, row: Resident, n: int, k: Any) -> bool:
        if isinstance(k, Duration):
            return self._watermark() > row.taken.time + k.amount
        return len(self.arrived[n]) - row.before[n] >= k

    def _passed(self, n: int, constraint: Ordered, value: Any) -> bool:
        """Whether an ordered column has left a value behind for good."""
        rows, k = self.arrived[n], constraint.k
        if isinstance(k, Duration):
            rows = [r for r in rows if r.time + k.amount < self._watermark()]
        else:
            rows = rows[: max(0, len(rows) - k)]
        return any(r.row[constraint.column] is not None and r.row[constraint.column] > value for r in rows)

    def _left_behind(self, n: int, constraint: Clustered, value: tuple[Any, ...]) -> bool:
        """Whether the cluster of a value is over."""
        values = [tuple(r.row[column] for column in constraint.columns) for r in self.arrived[n]]
        if value not in values:
            return False
        if isinstance(constraint.k, Duration):
            earliest = min(r.time for r, v in zip(self.arrived[n], values, strict=True) if v == value)
            return self._watermark() > earliest + constraint.k.amount
        return sum(v != value for v in values[values.index(value) :]) > constraint.k


def run(
    query: Query, constraints: Sequence[Constraint], arrivals: Iterable[Arrival], remembers: bool = False
) -> Outcome:
    """All steps of a join that releases by declared constraints."""
    rows = taken(query, arrivals)
    twin = Twin(query, constraints, rows, remembers)
    return Outcome(query, tuple(rows), tuple(twin.take(row) for row in rows))


def taken(query: Query, arrivals: Iterable[Arrival]) -> list[Taken]:
    """The arrivals as rows that an engine takes one by one."""
    return reference.taken_rows(query, [{stream: [row]} for stream, row in arrivals])


RUNS: dict[str, Callable[..., Outcome]] = {"twin": run}
"""Whatever implements `run`, by name: golden tests and properties are for all of them."""
