"""From declared constraints to what a shard releases by: edges of the join graph, evidence for each, covers."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.equality import Directory
from windrow.engine.ranges import IN_ORDER, Number, Numbers
from windrow.errors import KeyTypeError, SpecError
from windrow.kernels import layout as at
from windrow.kernels.layout import NONE
from windrow.spec import Duration, Query
from windrow.spec.constraints import Adherence, Clustered, Constraint, Integrity, Monitored, Ordered, Unique
from windrow.spec.graph import Graph, join_graph, useful
from windrow.state.coding import TimeDomain, as_word, common_number_type, duration_in_units
from windrow.state.release import Release, covers_of

Column = tuple[int, str]


@dataclass
class Releasing:
    """The constraints of a query over streams of given schemas, while they are planned."""

    query: Query
    constraints: tuple[Constraint, ...]
    directories: list[Directory]
    numbers: Numbers
    domain: TimeDomain
    monitored: Monitored | None = None
    graph: Graph = field(init=False)
    befores: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.graph = join_graph(self.query, self.constraints)
        self.befores = [[] for _ in self.query.streams]
        order = {Unique: 0, Integrity: 1, Clustered: 2, Ordered: 3}
        self.constraints = tuple(sorted(self.constraints, key=lambda c: (order[type(c)], self._place(c))))

    def plan(self) -> Release:
        """The lines that kernels read."""
        streams = range(len(self.query.streams))
        promises = [self._promise(c) for c in self.constraints]
        edges, evidence = list[np.ndarray](), list[np.ndarray]()
        starts = list[int]()
        for stream in streams:
            starts.append(len(edges))
            for other in self.graph.neighbours(stream):
                found = self._evidence(stream, other)
                edges.append(self._edge(stream, other, len(evidence), len(found)))
                evidence += found
        lines = _lines(edges, at.EDGE_SIZE)
        used = [bool(line[at.Promise.is_used]) for line in promises]
        covers, cover_starts = covers_of(self.query.names, lines, used)
        width = max(map(len, self.befores))
        befores = [b + [NONE] * (width - len(b)) for b in self.befores]
        mine = [lines[lines[:, at.Edge.stream] == s] for s in streams]
        releasing = self.monitored is None or self.monitored.release
        return Release(
            promises=_lines(promises, at.PROMISE_SIZE),
            watched=_lines([self._watched(s, link) for s in streams for link in range(self._links())], at.WATCHED_SIZE),
            edges=lines,
            edge_starts=np.array([*starts, len(edges)], np.int64),
            evidence=_lines(evidence, at.EVIDENCE_SIZE),
            covers=covers,
            cover_starts=cover_starts,
            ordered=_lines([self._ordered(c) for c in self._kind(Ordered)], at.ORDERED_SIZE),
            befores=np.array(befores, np.int64).reshape(len(befores), width),
            remembers=tuple(
                releasing and bool(((m[:, at.Edge.parent] >= 0) & (m[:, at.Edge.is_exempt] == 0)).any()) for m in mine
            ),
            is_leaf=tuple(bool((m[:, at.Edge.child] < 0).all()) for m in mine),
            is_judged=tuple(
                bool(((m[:, at.Edge.child] >= 0) | _has_evidence(m)).any()) and self._is_found(s)
                for s, m in enumerate(mine)
            ),
            turns=_turns(self.graph),
            clusters_in_time=any(isinstance(c.k, Duration) for c in self._kind(Clustered)),
            texts=_texts(self.constraints),
            monitored=self.monitored,
            spares=self._spares(),
        )

    def _spares(self) -> float:
        """The share of rows that are not released: as monitors say, or for declared constraints the query."""
        if self.monitored is None:
            return self.query.spares
        return self.monitored.sample if self.monitored.release else 0.0

    def _kind(self, kind: type[Constraint]) -> list[Any]:
        return [c for c in self.constraints if isinstance(c, kind)]

    def _place(self, constraint: Constraint) -> tuple[int, int]:
        """Promises of one child and directory stand together."""
        if not isinstance(constraint, Integrity):
            return 0, 0
        parent, child = map(self.query.names.index, constraint.streams)
        return child, self._directory(parent, child)

    # -- promises ------------------------------------------------------------------------------------------------------

    def _promise(self, constraint: Constraint) -> np.ndarray:
        line = np.zeros(at.PROMISE_SIZE, np.int64)
        kinds = {Unique: at.BY_UNIQUE, Integrity: at.BY_INTEGRITY, Clustered: at.BY_CLUSTER, Ordered: at.BY_ORDER}
        line[at.Promise.kind] = kinds[type(constraint)]
        line[at.Promise.stream] = self.query.names.index(constraint.streams[0])
        line[at.Promise.is_used] = self.monitored is None
        k = getattr(constraint, "k", 0)
        line[at.Promise.in_time], line[at.Promise.k] = isinstance(k, Duration), self._k(k)
        line[at.Promise.plain] = True
        if isinstance(constraint, Integrity):
            parent, child = map(self.query.names.index, constraint.streams)
            line[at.Promise.other], line[at.Promise.plain] = child, self._is_plain(parent, child)
            if not isinstance(k, Duration):
                line[at.Promise.place] = len(self.befores[parent])
                self.befores[parent].append(child)
        elif isinstance(constraint, Ordered):
            line[at.Promise.place] = self._kind(Ordered).index(constraint)
        return line

    def _k(self, k: Adherence) -> int:
        if not isinstance(k, Duration):
            return min(k, at.HIGH)
        return as_word(math.floor(duration_in_units(k.amount, k.unit, self.domain, "the k of a constraint")))

    def _links(self) -> int:
        return max(sum(s in d.columns for d in self.directories) for s in range(len(self.query.streams)))

    def _watched(self, stream: int, link: int) -> np.ndarray:
        line = np.zeros(at.WATCHED_SIZE, np.int64)
        line[[at.Watched.unique, at.Watched.clustered]] = NONE
        mine = [d for d, found in enumerate(self.directories) if stream in found.columns]
        if link >= len(mine):
            return line
        columns, name = set(self.directories[mine[link]].columns[stream]), self.query.names[stream]
        integrity = []
        for k, c in enumerate(self.constraints):
            if isinstance(c, Unique) and c.stream == name and set(c.columns) <= columns:
                if line[at.Watched.unique] < 0 or set(c.columns) == columns:
                    line[at.Watched.unique] = k
            elif isinstance(c, Clustered) and c.stream == name and set(c.columns) == columns:
                line[at.Watched.clustered] = k
            elif isinstance(c, Integrity) and c.child == name and self._place(c) == (stream, mine[link]):
                integrity.append(k)
        if integrity:
            line[at.Watched.first_integrity], line[at.Watched.after_integrity] = integrity[0], integrity[-1] + 1
        return line

    # -- edges ---------------------------------------------------------------------------------------------------------

    def _edge(self, stream: int, other: int, first: int, count: int) -> np.ndarray:
        line = np.zeros(at.EDGE_SIZE, np.int64)
        d = self._directory(stream, other)
        line[at.Edge.stream], line[at.Edge.other], line[at.Edge.directory] = stream, other, d
        line[at.Edge.link] = NONE if d < 0 else self._link(stream, d)
        line[at.Edge.plain] = self._is_plain(stream, other)
        line[at.Edge.child], line[at.Edge.parent] = self._unique(other, d), self._unique(stream, d)
        line[at.Edge.is_exempt] = self.monitored is None and self._is_exempt(other, stream)
        line[at.Edge.first_evidence], line[at.Edge.after_evidence] = first, first + count
        return line

    def _shared(self, stream: int, other: int) -> list[int]:
        """The directories of a pair of streams; those that only constraints read come last."""
        return [d for d, found in enumerate(self.directories) if {stream, other} <= found.columns.keys()]

    def _directory(self, stream: int, other: int) -> int:
        """Where the partners of a stream's rows are found: where one of the two is unique, if there is such a place."""
        shared = [d for d in self._shared(stream, other) if self.directories[d].probed]
        for first in sorted((stream, other)):
            for d in shared:
                if self._unique(first, d) >= 0:
                    return d
        return shared[0] if shared else NONE

    def _unique(self, stream: int, d: int) -> int:
        """The promise that a key of a directory has at most one row of a stream, ever, or NONE."""
        if d < 0:
            return NONE
        columns, name = set(self.directories[d].columns[stream]), self.query.names[stream]
        for k, c in enumerate(self.constraints):
            if isinstance(c, Unique) and c.stream == name and set(c.columns) <= columns:
                return k
        return NONE

    def _is_plain(self, stream: int, other: int) -> bool:
        """Whether one directory holds all that is compared between two streams."""
        shared = [d for d in self._shared(stream, other) if self.directories[d].probed]
        sides = [{int(p[at.Predicate.left]), int(p[at.Predicate.right])} for p in self.numbers.preds]
        return len(shared) == 1 and {stream, other} not in sides

    def _is_found(self, stream: int) -> bool:
        """Whether rows of a stream that were released would be found again, if they are to be: by a key from each
        stream that it is compared with."""
        if self.query.demotes is None:
            return True
        sides = [(int(p[at.Predicate.left]), int(p[at.Predicate.right])) for p in self.numbers.preds]
        return all(self._shared(*pair) for pair in sides if stream in pair)

    def _is_exempt(self, parent: int, child: int) -> bool:
        """Whether a row of a parent stream finds out by itself that its child does not come."""
        names = self.query.names[parent], self.query.names[child]
        own = {column for _, column in self.graph.pairs[parent, child]}
        ordered = any(c.stream == names[1] and c.column in own for c in self._kind(Ordered))
        return ordered or any(c.streams == names for c in self._kind(Integrity))

    def _link(self, stream: int, d: int) -> int:
        return sum(stream in directory.columns for directory in self.directories[:d])

    # -- evidence ------------------------------------------------------------------------------------------------------

    def _evidence(self, stream: int, other: int) -> list[np.ndarray]:
        """What can show that no more partners of a stream's rows come from another."""
        found, names = [], self.query.names
        pairs = {theirs: own for own, theirs in self.graph.pairs[stream, other]}
        for k, c in enumerate(self.constraints):
            if isinstance(c, Integrity) and c.streams == (names[stream], names[other]):
                found.append(_evidence_line(k, self._before(c)))
            elif isinstance(c, Ordered) and c.stream == names[other] and c.column in pairs:
                found.append(_evidence_line(k, self._kind(Ordered).index(c), self._number(stream, pairs[c.column])))
            elif isinstance(c, Clustered) and c.stream == names[other] and set(c.columns) <= pairs.keys():
                found.append(_evidence_line(k, self._clustered(stream, other, c)))
        return found

    def _before(self, constraint: Integrity) -> int:
        """The word of a parent's slot that counts for this promise: promises were numbered in the same order."""
        if isinstance(constraint.k, Duration):
            return 0
        mine = [c for c in self._kind(Integrity) if c.parent == constraint.parent and not isinstance(c.k, Duration)]
        return mine.index(constraint)

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
        line[at.Ordered.promise] = self.constraints.index(constraint)
        line[at.Ordered.stream], line[at.Ordered.column] = stream, self._number(stream, constraint.column)
        line[[at.Ordered.low, at.Ordered.top, at.Ordered.top_time, at.Ordered.forgotten]] = at.LOW
        return line


def _texts(constraints: tuple[Constraint, ...]) -> tuple[str, ...]:
    """Constraints without their k, which may change, but with its kind where it is a time; those that differ in k alone
    with it."""
    found = [_text(constraint) for constraint in constraints]
    return tuple(t if found.count(t) == 1 else str(c) for t, c in zip(found, constraints, strict=True))


def _text(constraint: Constraint) -> str:
    text, _, k = str(constraint).partition(" within ")
    return f"{text}, in time" if k and not k.endswith(" rows") else text


def _evidence_line(promise: int, which: int, column: int = 0) -> np.ndarray:
    line = np.zeros(at.EVIDENCE_SIZE, np.int64)
    line[at.Evidence.promise], line[at.Evidence.which], line[at.Evidence.column] = promise, which, column
    return line


def _has_evidence(edges: np.ndarray) -> np.ndarray:
    return edges[:, at.Edge.after_evidence] > edges[:, at.Edge.first_evidence]


def _turns(graph: Graph) -> tuple[int, ...]:
    """Streams in the order in which they are judged: children before their parents."""
    return tuple(sorted(range(len(graph.names)), key=lambda s: len(graph.reach(s))))


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


def candidates(query: Query, schemas: dict[str, pa.Schema], directories: list[Directory]) -> tuple[Constraint, ...]:
    """The constraints that are watched: those that could help, on whole keys and on columns that have an order."""
    found, numbers = list[Constraint](), Numbers([[] for _ in query.streams])
    for c in useful(query):
        if isinstance(c, (Unique, Clustered)):
            stream = query.names.index(c.stream)
            if any(set(d.columns.get(stream, ())) == set(c.columns) for d in directories):
                found.append(c)
        elif not isinstance(c, Ordered):
            found.append(c)
        else:
            more = Numbers([list(columns) for columns in numbers.columns])
            with suppress(SpecError):  # texts, or numbers of types that are not put in order together
                add_numbers(more, query, (c,), schemas)
                numbers = more
                found.append(c)
    return tuple(found)
