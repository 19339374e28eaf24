"""How closely given streams keep a constraint: the smallest k with which it holds, by its definition, pair by pair.

Distances are those of docs/decisions/0030: over all rows of the streams, whether or not they pass their filters or meet
inside their windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests import reference
from tests.reference import Taken

from windrow.spec import Query
from windrow.spec.constraints import Clustered, Constraint, Integrity, Ordered, Unique


def measure(query: Query, rows: Sequence[Taken], constraint: Constraint, in_time: bool = False) -> int:
    """The smallest k with which the constraint holds: a number of arrivals, or a length of event time."""
    if isinstance(constraint, Integrity):
        return _join_distance(query, rows, constraint, in_time)
    of_stream = [row for row in rows if query.names[row.stream] == constraint.streams[0]]
    if isinstance(constraint, Clustered):
        return _clustering_distance(of_stream, constraint.columns, in_time)
    assert isinstance(constraint, Ordered)
    return _scrambling_distance(of_stream, constraint.column, in_time)


def is_unique(query: Query, rows: Sequence[Taken], constraint: Unique) -> bool:
    of_stream = [row for row in rows if query.names[row.stream] == constraint.stream]
    keys = [key for row in of_stream if None not in (key := _key(row, constraint.columns))]
    return len(set(keys)) == len(keys)


def _join_distance(query: Query, rows: Sequence[Taken], constraint: Integrity, in_time: bool) -> int:
    """Rows of the child after the parent row, up to and including its partner; 0 if that came first."""
    parent, child = (query.names.index(name) for name in constraint.streams)
    longest = 0
    for p in (row for row in rows if row.stream == parent):
        after = [row for row in rows if row.stream == child and row.place > p.place]
        for count, c in enumerate(after, start=1):
            if all(reference.predicate_holds(predicate, query, p, c) for predicate in query.on):
                longest = max(longest, c.time - p.time if in_time else count)
    return longest


def _clustering_distance(rows: Sequence[Taken], columns: Sequence[str], in_time: bool) -> int:
    """Rows with other values between two with the same."""
    longest = 0
    for i, one in enumerate(rows):
        key, others = _key(one, columns), 0
        for other in rows[i + 1 :]:
            if _key(other, columns) != key:
                others += 1
            elif None not in key:
                longest = max(longest, other.time - one.time if in_time else others)
    return longest


def _scrambling_distance(rows: Sequence[Taken], column: str, in_time: bool) -> int:
    """Rows after a larger value, up to and including a smaller one."""
    longest = 0
    for i, one in enumerate(rows):
        for j, other in enumerate(rows[i + 1 :], start=i + 1):
            values = one.row[column], other.row[column]
            if None not in values and values[0] > values[1]:
                longest = max(longest, other.time - one.time if in_time else j - i)
    return longest


def _key(row: Taken, columns: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row.row[column] for column in columns)
