"""Equalities: which columns of a query are equal in every match, so that a stream may be joined by any of them.

Where "a.k = b.k" and "b.k = c.k" hold, rows of c can meet rows of a by "c.k = a.k". That is so if all the columns have
one type (values that are cast need not be equal to each other) and no stream has two columns among them.
"""

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from windrow.spec import Equal, Query, split_reference

TypeOf = Callable[[str], pa.DataType]


def classes(query: Query, type_of: TypeOf | None = None) -> list[list[str]]:
    """Columns that are equal in every match, of one type if types are known, one of a stream; in order of the query."""
    found: list[list[str]] = []
    for predicate in query.predicates:
        if isinstance(predicate, Equal):
            touched = [group for group in found if predicate.left in group or predicate.right in group]
            rest = [group for group in found if group not in touched]
            merged = {predicate.left, predicate.right, *(column for group in touched for column in group)}
            found = [*rest, sorted(merged, key=lambda c: (query.names.index(split_reference(c)[0]), c))]
    return [group for group in found if _safe(group, type_of)]


def _safe(group: list[str], type_of: TypeOf | None) -> bool:
    streams = [split_reference(column)[0] for column in group]
    alike = type_of is None or len({type_of(column) for column in group}) == 1
    return alike and len(set(streams)) == len(streams)


def by_stream(group: Sequence[str]) -> dict[str, str]:
    """The columns of a class, each by its stream."""
    return {split_reference(column)[0]: column for column in group}


class Connections:
    """Which streams of a query can be joined with which, and which of them by an equality."""

    def __init__(self, query: Query) -> None:
        self.any: dict[str, set[str]] = {name: set() for name in query.names}
        self.equal: dict[str, set[str]] = {name: set() for name in query.names}
        groups = [[split_reference(column)[0] for column in group] for group in classes(query)]
        for streams in [*groups, *(p.streams for p in query.predicates if isinstance(p, Equal))]:
            _join(self.equal, streams)
        for streams in [*groups, *(p.streams for p in query.predicates)]:
            _join(self.any, streams)

    def of(self, stream: str, done: Iterable[str]) -> tuple[bool, bool]:
        """Whether a stream can be joined with some others, and whether by an equality."""
        return not self.any[stream].isdisjoint(done), not self.equal[stream].isdisjoint(done)


def _join(found: dict[str, set[str]], streams: Iterable[str]) -> None:
    together = set(streams)
    for stream in together:
        found[stream] |= together - {stream}
