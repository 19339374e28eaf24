"""From declared constraints to what a shard releases by: edges of the join graph, evidence for each, covers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from windrow.engine.equality import Directory
from windrow.engine.ranges import IN_ORDER, Number, Numbers
from windrow.errors import KeyTypeError, SpecError
from windrow.kernels import layout as at
from windrow.kernels.layout import NONE, STEPS
from windrow.spec import Duration, Query
from windrow.spec.constraints import Adherence, Clustered, Constraint, Integrity, Ordered, Unique
from windrow.spec.graph import Graph, join_graph
from windrow.state.coding import TimeDomain, as_word, common_number_type, duration_in_units
from windrow.state.release import Release

Column = tuple[int, str]


@dataclass
class Releasing:
    """The constraints of a query over streams of given schemas, while they are planned."""

    query: Query
    constraints: tuple[Constraint, ...]
    directories: list[Directory]
    numbers: Numbers
    domain: TimeDomain
    graph: Graph = field(init=False)

    def __post_init__(self) -> None:
        self.graph = join_graph(self.query, self.constraints)

    def plan(self) -> Release:
        """The lines that kernels read."""
        streams = range(len(self.query.streams))
        ordered = [c for c in self.constraints if isinstance(c, Ordered)]
        edges: list[np.ndarray] = []
        evidence: list[np.ndarray] = []
        starts, befores = list[int](), [list[int]() for _ in streams]
        for stream in streams:
            starts.append(len(edges))
            for other in self.graph.neighbours(stream):
                found = self._evidence(stream, other, ordered, befores[stream])
                edges.append(self._edge(stream, other, len(evidence), len(found)))
                evidence += found
        starts.append(len(edges))
        children = [
            {int(e[at.Edge.other]) for e in edges if e[at.Edge.stream] == s and e[at.Edge.is_child]} for s in streams
        ]
        graph = Graph(self.graph.names, self.graph.pairs, tuple(tuple(sorted(c)) for c in children))
        covers, cover_starts = _covers(graph)
        width = max(map(len, befores))
        return Release(
            edges=_lines(edges, at.EDGE_SIZE),
            edge_starts=np.array(starts, np.int64),
            evidence=_lines(evidence, at.EVIDENCE_SIZE),
            covers=_lines(covers, at.COVER_SIZE),
            cover_starts=np.array(cover_starts, np.int64),
            ordered=_lines([self._ordered(c) for c in ordered], at.ORDERED_SIZE),
            befores=np.array([b + [NONE] * (width - len(b)) for b in befores], np.int64).reshape(len(befores), width),
            remembers=tuple(
                any(e[at.Edge.stream] == s and e[at.Edge.is_parent] and not e[at.Edge.is_exempt] for e in edges)
                for s in streams
            ),
            is_leaf=tuple(not found for found in children),
            is_judged=tuple(
                any(e[at.Edge.is_child] or e[at.Edge.after_evidence] > e[at.Edge.first_evidence] for e in of_stream)
                for of_stream in ([e for e in edges if e[at.Edge.stream] == s] for s in streams)
            ),
            turns=tuple(sorted(streams, key=lambda s: len(graph.reach(s)))),
            clusters_in_time=any(e[at.Evidence.kind] == at.BY_CLUSTER and e[at.Evidence.in_time] for e in evidence),
        )

    # -- edges ---------------------------------------------------------------------------------------------------------

    def _edge(self, stream: int, other: int, first: int, count: int) -> np.ndarray:
        line = np.zeros(at.EDGE_SIZE, np.int64)
        d = self._directory(stream, other)
        line[at.Edge.stream], line[at.Edge.other], line[at.Edge.directory] = stream, other, d
        line[at.Edge.link] = NONE if d < 0 else self._link(stream, d)
        line[at.Edge.plain] = self._is_plain(stream, other)
        line[at.Edge.is_child] = d >= 0 and self._is_unique(other, d)
        line[at.Edge.is_parent] = d >= 0 and self._is_unique(stream, d)
        line[at.Edge.is_exempt] = self._is_exempt(other, stream)
        line[at.Edge.first_evidence], line[at.Edge.after_evidence] = first, first + count
        return line

    def _shared(self, stream: int, other: int) -> list[int]:
        """The directories of a pair of streams; those that only constraints read come last."""
        return [d for d, found in enumerate(self.directories) if {stream, other} <= found.columns.keys()]

    def _directory(self, stream: int, other: int) -> int:
        """Where the partners of a stream's rows are found: where the other is unique, if there is such a place."""
        shared = [d for d in self._shared(stream, other) if self.directories[d].probed]
        for first in (other, stream):
            for d in shared:
                if self._is_unique(first, d):
                    return d
        return shared[0] if shared else NONE

    def _is_unique(self, stream: int, d: int) -> bool:
        """Whether a key of a directory has at most one row of a stream, ever."""
        columns, name = set(self.directories[d].columns[stream]), self.query.names[stream]
        return any(isinstance(c, Unique) and c.stream == name and set(c.columns) <= columns for c in self.constraints)

    def _is_plain(self, stream: int, other: int) -> bool:
        """Whether one directory holds all that is compared between two streams."""
        shared = [d for d in self._shared(stream, other) if self.directories[d].probed]
        ranges = any(
            {int(p[at.Predicate.left]), int(p[at.Predicate.right])} == {stream, other} for p in self.numbers.preds
        )
        return len(shared) == 1 and not ranges

    def _is_exempt(self, parent: int, child: int) -> bool:
        """Whether a row of a parent stream finds out by itself that its child does not come."""
        names = self.query.names[parent], self.query.names[child]
        own = {column for _, column in self.graph.pairs[parent, child]}
        integrity = any(isinstance(c, Integrity) and c.streams == names for c in self.constraints)
        return integrity or any(
            isinstance(c, Ordered) and c.stream == names[1] and c.column in own for c in self.constraints
        )

    def _link(self, stream: int, d: int) -> int:
        return sum(stream in directory.columns for directory in self.directories[:d])

    # -- evidence ------------------------------------------------------------------------------------------------------

    def _evidence(self, stream: int, other: int, ordered: list[Ordered], befores: list[int]) -> list[np.ndarray]:
        """What can show that no more partners of a stream's rows come from another."""
        found, names = [], self.query.names
        pairs = {theirs: own for own, theirs in self.graph.pairs[stream, other]}
        for c in self.constraints:
            if isinstance(c, Integrity) and c.streams == (names[stream], names[other]):
                which = 0
                if not isinstance(c.k, Duration):
                    which = len(befores)
                    befores.append(other)
                found.append(self._line(at.BY_INTEGRITY, c.k, which))
            elif isinstance(c, Ordered) and c.stream == names[other] and c.column in pairs:
                column = self._number(stream, pairs[c.column])
                found.append(self._line(at.BY_ORDER, c.k, ordered.index(c), column))
            elif isinstance(c, Clustered) and c.stream == names[other] and set(c.columns) <= pairs.keys():
                found.append(self._line(at.BY_CLUSTER, c.k, self._clustered(stream, other, c)))
        return found

    def _line(self, kind: int, k: Adherence, which: int, column: int = 0) -> np.ndarray:
        line = np.zeros(at.EVIDENCE_SIZE, np.int64)
        line[at.Evidence.kind], line[at.Evidence.which], line[at.Evidence.column] = kind, which, column
        line[at.Evidence.in_time], line[at.Evidence.k] = isinstance(k, Duration), self._k(k)
        return line

    def _k(self, k: Adherence) -> int:
        if not isinstance(k, Duration):
            return min(k, at.HIGH)
        return as_word(math.floor(duration_in_units(k.amount, k.unit, self.domain, "the k of a constraint")))

    def _clustered(self, stream: int, other: int, constraint: Clustered) -> int:
        """The directory whose keys are the values of clustered columns."""
        for d in self._shared(stream, other):
            if set(self.directories[d].columns[other]) == set(constraint.columns):
                return d
        raise AssertionError("every clustered column has a directory")

    def _number(self, stream: int, column: str) -> int:
        for k, number in enumerate(self.numbers.columns[stream]):
            if number.column == column and number.domain == IN_ORDER:
                return k
        raise AssertionError("every ordered column has its numbers")

    def _ordered(self, constraint: Ordered) -> np.ndarray:
        line, stream = np.zeros(at.ORDERED_SIZE, np.int64), self.query.names.index(constraint.stream)
        k = self._k(constraint.k)
        line[at.Ordered.stream], line[at.Ordered.column] = stream, self._number(stream, constraint.column)
        line[at.Ordered.in_time], line[at.Ordered.k] = isinstance(constraint.k, Duration), k
        line[at.Ordered.stride] = max(1, -(-k // (STEPS - 2))) if k >= 0 else at.HIGH
        line[[at.Ordered.low, at.Ordered.top, at.Ordered.top_time]] = at.LOW
        return line


def _covers(graph: Graph) -> tuple[list[np.ndarray], list[int]]:
    """The covers of each stream, as far as edges whose partners are found in one place tell; and where they begin."""
    lines, starts = list[np.ndarray](), list[int]()
    for stream in range(len(graph.names)):
        starts.append(len(lines))
        near = graph.neighbours(stream)
        for cover in graph.covers_beside(stream):
            line = np.zeros(at.COVER_SIZE, np.int64)
            line[at.Cover.edges] = sum(1 << near.index(n) for n in cover.neighbours)
            line[at.Cover.own] = cover.own
            lines.append(line)
    return lines, [*starts, len(lines)]


def _lines(lines: list[np.ndarray], width: int) -> np.ndarray:
    return np.array(lines, np.int64).reshape(-1, width)


def add_directories(directories: list[Directory], query: Query, constraints: tuple[Constraint, ...]) -> list[Directory]:
    """The directories of a query, and one more for clustered columns that are only a part of a key."""
    found, graph = list(directories), join_graph(query, constraints)
    for c in constraints:
        if not isinstance(c, Clustered):
            continue
        other = query.names.index(c.stream)
        for stream in graph.neighbours(other):
            pairs = {theirs: own for own, theirs in graph.pairs[stream, other]}
            if not set(c.columns) <= pairs.keys():
                continue
            known = any({stream, other} <= d.columns.keys() and set(d.columns[other]) == set(c.columns) for d in found)
            if not known:
                found.append(_part(directories, stream, other, c.columns, pairs))
    return found


def _part(
    directories: list[Directory], stream: int, other: int, columns: tuple[str, ...], pairs: dict[str, str]
) -> Directory:
    """A directory of some of the columns in which two streams are equal, of the types in which they are compared."""
    types: list[pa.DataType] = []
    for column in columns:
        for d in directories:
            if {stream, other} <= d.columns.keys() and column in d.columns[other]:
                types.append(d.types[d.columns[other].index(column)])
                break
    own = tuple(pairs[column] for column in columns)
    return Directory({stream: own, other: columns}, tuple(types), probed=False)


def add_numbers(
    numbers: Numbers, query: Query, constraints: tuple[Constraint, ...], schemas: dict[str, pa.Schema]
) -> None:
    """Numbers of the columns that are ordered, and of those that are compared with them."""
    graph = join_graph(query, constraints)
    for c in constraints:
        if not isinstance(c, Ordered):
            continue
        other = query.names.index(c.stream)
        for stream in graph.neighbours(other):
            for own, theirs in graph.pairs[stream, other]:
                if theirs == c.column:
                    refs = f"{query.names[stream]}.{own}", f"{c.stream}.{c.column}"
                    _add(numbers, (stream, own), (other, theirs), refs, schemas, c)


def _add(
    numbers: Numbers, one: Column, other: Column, refs: tuple[str, str], schemas: dict[str, pa.Schema], c: Ordered
) -> None:
    types = [schemas[ref.partition(".")[0]].field(ref.partition(".")[2]).type for ref in refs]
    try:
        domain, type_ = common_number_type(types, refs)
    except KeyTypeError as error:
        raise SpecError(
            f"{c}: only numbers and times are ordered, and {refs[1]} is {types[1]}: leave this constraint out"
        ) from error
    for stream, column in (one, other):
        numbers.add_ordered(stream, Number(column, type_, IN_ORDER, counts_as=domain))
