"""The join graph: which streams meet, which joins are many-one, what reaches what, and which streams cover the rest.

Streams are named by their number in the query. The words are those of docs/decisions/0030.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from windrow.spec.constraints import Clustered, Constraint, Integrity, Ordered, Unique
from windrow.spec.predicates import Equal
from windrow.spec.references import split_reference

if TYPE_CHECKING:
    from windrow.spec.query import Query

MOST_NEIGHBOURS = 12
"""Neighbours of a stream up to which all sets of them are tried for covers; beyond it sets of one, and of all."""

Edge = tuple[int, int]


@dataclass(frozen=True)
class Cover:
    """Neighbours of a stream that together reach every stream, if `own` with the help of the stream itself."""

    neighbours: tuple[int, ...]
    own: bool


@dataclass(frozen=True)
class Graph:
    """A query's join graph under declared constraints."""

    names: tuple[str, ...]
    pairs: dict[Edge, tuple[tuple[str, str], ...]]
    """For each edge, seen from both of its ends: the pairs of columns (own, other) that must be equal."""
    children: tuple[tuple[int, ...], ...]
    """For each stream, those in which its rows have at most one partner."""

    def neighbours(self, stream: int) -> tuple[int, ...]:
        """The streams that share a predicate with it."""
        return tuple(other for one, other in self.pairs if one == stream)

    def parents(self, stream: int) -> tuple[int, ...]:
        """The streams whose rows have at most one partner in it."""
        return tuple(other for other in self.neighbours(stream) if stream in self.children[other])

    def reach(self, stream: int) -> frozenset[int]:
        """The streams of which a row of this one determines one row at most: itself, its children, theirs."""
        found, waiting = {stream}, [stream]
        while waiting:
            new = [child for child in self.children[waiting.pop()] if child not in found]
            found.update(new)
            waiting += new
        return frozenset(found)

    def covers(self, streams: Iterable[int]) -> bool:
        """Whether these streams together reach all."""
        return len(frozenset().union(*(self.reach(stream) for stream in streams))) == len(self.names)

    def minimal_covers(self) -> list[tuple[int, ...]]:
        """The sets of streams that cover, and of which no part does; for graphs of up to twelve streams."""
        found: list[tuple[int, ...]] = []
        everything = range(len(self.names))
        for size in range(1, len(self.names) + 1):
            for group in combinations(everything, size):
                if not any(set(smaller) <= set(group) for smaller in found) and self.covers(group):
                    found.append(group)
            if len(self.names) > MOST_NEIGHBOURS and found:
                break
        return found

    def covers_beside(self, stream: int) -> list[Cover]:
        """The minimal sets of neighbours by which a row of `stream` can be found complete."""
        near = self.neighbours(stream)
        sizes = range(len(near) + 1) if len(near) <= MOST_NEIGHBOURS else (0, 1, len(near))
        found: list[Cover] = []
        for size in sizes:
            for group in combinations(near, size):
                for own, streams in ((False, group), (True, (*group, stream))):
                    known = any(set(c.neighbours) <= set(group) and (own or not c.own) for c in found)
                    if not known and self.covers(streams):
                        found.append(Cover(group, own))
        return found


def join_graph(query: Query, constraints: Iterable[Constraint] = ()) -> Graph:
    """The graph of a query with one join; what is declared unique makes joins many-one.

    >>> from windrow.spec import Query, Stream, Unique
    >>> query = Query(streams=[Stream("orders"), Stream("users"), Stream("shops")],
    ...               on=["orders.user = users.id", "orders.shop = shops.id"])
    >>> graph = join_graph(query, [Unique("users", "id"), Unique("shops", "id")])
    >>> graph.children, graph.minimal_covers(), graph.covers_beside(0)
    (((1, 2), (), ()), [(0,)], [Cover(neighbours=(), own=True)])
    """
    found: dict[Edge, list[tuple[str, str]]] = {}
    for predicate in query.predicates:
        a, b = (query.names.index(name) for name in predicate.streams)
        ends = found.setdefault((a, b), []), found.setdefault((b, a), [])
        if isinstance(predicate, Equal):
            own, other = split_reference(predicate.left)[1], split_reference(predicate.right)[1]
            ends[0].append((own, other))
            ends[1].append((other, own))
    pairs = {edge: tuple(columns) for edge, columns in sorted(found.items())}
    unique = [constraint for constraint in constraints if isinstance(constraint, Unique)]

    def many_one(parent: int, child: int) -> bool:
        own = {column for _, column in pairs[parent, child]}
        name = query.names[child]
        return any(constraint.stream == name and set(constraint.columns) <= own for constraint in unique)

    everything = range(len(query.names))
    children = tuple(tuple(t for t in everything if (s, t) in pairs and many_one(s, t)) for s in everything)
    return Graph(query.names, pairs, children)


def useful(query: Query) -> list[Constraint]:
    """Every constraint that could release rows of this query, each in its strict form, in the order of its streams.

    >>> from windrow.spec import Query, Stream
    >>> for constraint in useful(Query(streams=[Stream("a"), Stream("b")], on="k")):
    ...     print(constraint.kind, constraint.streams)
    unique ('a',)
    integrity ('a', 'b')
    ordered ('a',)
    clustered ('a',)
    unique ('b',)
    integrity ('b', 'a')
    ordered ('b',)
    clustered ('b',)
    """
    found: dict[Constraint, None] = {}
    graph = join_graph(query)
    for stream, name in enumerate(query.names):
        edges = {other: [own for own, _ in graph.pairs[stream, other]] for other in graph.neighbours(stream)}
        groups = [tuple(dict.fromkeys(columns)) for columns in edges.values() if columns]
        single = [column for columns in groups for column in columns]
        found |= {Unique(name, columns): None for columns in groups}
        found |= {Integrity(name, graph.names[other]): None for other in edges}
        found |= {Ordered(name, column): None for column in single}
        found |= {Clustered(name, column): None for column in single}
        found |= {Clustered(name, columns): None for columns in groups}
    return list(found)
