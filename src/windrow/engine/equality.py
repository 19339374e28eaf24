"""Directories: which columns share one, because predicates make them equal.

Equalities that hang together form a class with one column per stream (a common key of n streams is one class).
Classes over the same streams are joined into one composite key. Columns are only put together when that does not
change a comparison: each class has one type to which all its columns are cast, and it is the type of each single
comparison. Each join has directories of its own.
"""

from dataclasses import dataclass
from itertools import combinations

import pyarrow as pa

from windrow.spec import Equal, Query, split_reference
from windrow.state.coding import common_key_type, exact_codes

Column = tuple[int, str]


@dataclass(frozen=True)
class Directory:
    """One directory: the key columns of each of its streams, and the types to which they are cast."""

    columns: dict[int, tuple[str, ...]]
    types: tuple[pa.DataType, ...]
    join: int = 0
    probed: bool = True  # whether matches are found there; else only constraints read it

    @property
    def exact(self) -> bool:
        """Whether equal codes mean equal keys, so that matches need no second look."""
        return exact_codes(self.types)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The streams whose keys are compared: every pair, for any of them may be visited before the others."""
        return list(combinations(sorted(self.columns), 2))


def directories(query: Query, schemas: dict[str, pa.Schema]) -> list[Directory]:
    """The directories of a query over streams of given schemas."""
    found: list[Directory] = []
    for join, named in enumerate(query.joins):
        classes: list[tuple[dict[int, str], pa.DataType]] = []
        for predicate in named.on:
            if isinstance(predicate, Equal):
                _place(classes, predicate, query, schemas)
        found += _merged(classes, join)
    return found


def _merged(classes: list[tuple[dict[int, str], pa.DataType]], join: int) -> list[Directory]:
    """The directories of a join: classes over the same streams make one."""
    merged: list[Directory] = []
    for columns, type_ in classes:
        for k, other in enumerate(merged):
            if set(other.columns) == set(columns):
                both = {s: (*other.columns[s], columns[s]) for s in columns}
                merged[k] = Directory(both, (*other.types, type_), join)
                break
        else:
            merged.append(Directory({s: (c,) for s, c in columns.items()}, (type_,), join))
    return merged


def _place(
    classes: list[tuple[dict[int, str], pa.DataType]], predicate: Equal, query: Query, schemas: dict[str, pa.Schema]
) -> None:
    """Add an equality to the class it belongs to, or open a new one."""
    sides = [split_reference(side) for side in (predicate.left, predicate.right)]
    columns = {query.names.index(stream): column for stream, column in sides}
    type_ = common_key_type(
        [schemas[stream].field(column).type for stream, column in sides], [predicate.left, predicate.right]
    )
    for k, (known, known_type) in enumerate(classes):
        shared = set(known.items()) & set(columns.items())
        clash = any(s in known and known[s] != c for s, c in columns.items())
        if shared and not clash and known_type == type_:
            classes[k] = ({**known, **columns}, type_)
            return
    classes.append((columns, type_))
