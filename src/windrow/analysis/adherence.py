"""How closely whole streams keep constraints: the smallest k of each, by the definitions of docs/decisions/0030.

The three distances are functions over arrays in the order in which rows are taken; `adherence` measures every
constraint that could release rows of a query. All of it sorts, so a stream of n rows costs O(n log n).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.engine.bind import bind
from windrow.engine.intake import as_table, plain_schema
from windrow.errors import SpecError
from windrow.spec import Clustered, Constraint, Duration, Integrity, Ordered, Query, Unique, join_graph, useful
from windrow.state.coding_keys import cast_keys
from windrow.state.coding_times import TimeDomain, times
from windrow.state.coding_types import common_key_type

Ints = NDArray[np.int64]

NONE = -1  # the number of a key with a null in it


def join_distances(parents: Ints, before: Ints, children: Ints) -> Ints:
    """For each parent row, the rows of the child up to its last partner that came after it; 0 if none did.

    Keys are numbers, `NONE` for none. `before` says how many rows of the child came before each parent row.

    >>> join_distances(np.array([7, 8, 9]), np.array([0, 1, 1]), np.array([8, 7]))
    array([2, 0, 0])
    """
    last = _last_place(children, int(max(parents.max(initial=NONE), children.max(initial=NONE))) + 1)
    found = np.where(parents >= 0, last[np.maximum(parents, 0)], NONE)
    return np.maximum(found + 1 - before, 0)


def clustering_distances(keys: Ints) -> Ints:
    """For each number that occurs, in ascending order, the rows with others between its first and its last row.

    >>> clustering_distances(np.array([5, 3, 5, 9]))
    array([0, 1, 0])
    """
    order = np.argsort(keys, kind="stable")
    numbers, first, count = np.unique(keys[order], return_index=True, return_counts=True)
    if len(numbers) and numbers[0] == NONE:
        first, count = first[1:], count[1:]
    span = order[first + count - 1] - order[first] + 1
    return np.asarray(span - count)


def scrambling_distances(values: Ints, known: NDArray[np.bool_] | None = None) -> Ints:
    """For each row, how many rows after the first larger value it comes; 0 if none before is larger, or it has none.

    >>> scrambling_distances(np.array([7, 5, 10, 6]))
    array([0, 1, 0, 3])
    """
    if known is not None:
        values = np.where(known, values, np.iinfo(np.int64).min)
    highest = np.maximum.accumulate(values) if len(values) else values
    larger = np.searchsorted(highest, values, side="right")
    found = np.maximum(np.arange(len(values)) - larger, 0)
    return found if known is None else np.where(known, found, 0)


@dataclass(frozen=True)
class Adherence:
    """A constraint, whether the streams keep it with any k, and the smallest: in rows, and in event time."""

    constraint: Constraint
    holds: bool
    rows: int | None
    time: Duration | None

    def __str__(self) -> str:
        if self.rows is None:
            return str(self.constraint) if self.holds else f"not: {self.constraint}"
        return str(self.constraint.with_(k=self.rows)) + ("" if self.time is None else f", or {self.time}")


def adherence(
    query: Query, tables: Mapping[str, Any], constraints: Iterable[Constraint] | None = None
) -> list[Adherence]:
    """What whole tables keep of each constraint that could release rows of the query, or of those that are given.

    Integrity is measured over rows whose columns of all equalities between the two streams are equal; other
    predicates between them could only make it smaller. Rows without a time are not among the rows. In event time it is
    measured where rows are taken in order of time.
    """
    query.refuse_names("measuring constraints")
    query.refuse_deletions("constraints are measured on insertions only")
    wanted = useful(query) if constraints is None else list(constraints)
    streams = _Streams(query.with_(constraints=None, on_violation="lose"), tables)
    return [streams.measure(constraint) for constraint in wanted]


class _Streams:
    """All rows of a query, in the order in which an engine takes them."""

    def __init__(self, query: Query, tables: Mapping[str, Any]) -> None:
        given = {name: as_table(tables[name], name) for name in query.names if name in tables}
        if missing := [name for name in query.names if name not in given]:
            raise SpecError(f"there is no table for the stream {missing[0]!r}")
        self.query = query
        binding = bind(query, {name: plain_schema(table.schema) for name, table in given.items()})
        self.domain: TimeDomain = binding.domain
        self.graph = join_graph(query)
        self.tables: list[pa.Table] = []
        self.times: list[Ints] = []
        for stream in query.streams:
            self._add(given[stream.name], stream.time, stream.name)
        self.places = _places(self.times)

    def _add(self, table: pa.Table, time: str | None, name: str) -> None:
        if time is None:
            self.tables.append(table)
            self.times.append(np.arange(table.num_rows, dtype=np.int64))
            return
        found, timed = times(table[time], self.domain, f"{name}.{time}")
        chosen = np.arange(len(found)) if timed is None else np.flatnonzero(timed)
        clock = found[chosen]
        by = clock if self.query.order == "time" else np.maximum.accumulate(clock)
        order = np.argsort(by, kind="stable")
        self.tables.append(table.take(pa.array(chosen[order])))
        self.times.append(clock[order] if self.query.order == "time" else by[order])

    def measure(self, constraint: Constraint) -> Adherence:
        if isinstance(constraint, Integrity):
            return self._integrity(constraint)
        stream = self.query.names.index(constraint.streams[0])
        time = self.times[stream]
        if isinstance(constraint, Ordered):
            values, known = _ranks(self.tables[stream][constraint.column])
            behind = scrambling_distances(values, known)
            rows = np.flatnonzero(behind)
            apart = time[rows] - time[rows - behind[rows]]
            return self._found(constraint, behind, apart)
        assert isinstance(constraint, (Unique, Clustered))
        (keys,) = _numbered([[self.tables[stream][c] for c in constraint.columns]])
        if isinstance(constraint, Unique):
            real = keys[keys >= 0]
            return Adherence(constraint, len(np.unique(real)) == len(real), None, None)
        return self._found(constraint, clustering_distances(keys), _spans(keys, time))

    def _integrity(self, constraint: Integrity) -> Adherence:
        p, c = (self.query.names.index(name) for name in constraint.streams)
        pairs = self.graph.pairs[p, c]
        if not pairs:
            raise SpecError(f"{constraint}: {constraint.parent!r} and {constraint.child!r} are joined by no equality")
        parents, children = self._keys(p, c, pairs)
        before = np.searchsorted(self.places[c], self.places[p])
        behind = join_distances(parents, before, children)
        late = np.flatnonzero(behind)
        partner = before[late] + behind[late] - 1
        return self._found(constraint, behind, self.times[c][partner] - self.times[p][late])

    def _keys(self, p: int, c: int, pairs: tuple[tuple[str, str], ...]) -> list[Ints]:
        mine = [self.tables[p][own] for own, _ in pairs]
        theirs = [self.tables[c][other] for _, other in pairs]
        where = [f"{self.query.names[p]}.{own}" for own, _ in pairs]
        types = [common_key_type([a.type, b.type], [w, w]) for a, b, w in zip(mine, theirs, where, strict=True)]
        return _numbered([cast_keys(mine, types, where), cast_keys(theirs, types, where)])

    def _found(self, constraint: Constraint, rows: Ints, spans: Ints) -> Adherence:
        unit = self.domain.unit
        factor = {"s": 10**9, "ms": 10**6, "us": 10**3}.get(unit, 1)
        longest = max(0, int(spans.max(initial=0))) * factor
        by_time = self.domain.kind != "rank" and self.query.order == "time"
        time = Duration(longest, "steps" if unit == "steps" else "ns") if by_time else None
        return Adherence(constraint, True, int(rows.max(initial=0)), time)


def _places(clocks: list[Ints]) -> list[Ints]:
    """The place of each row among all rows: by time, then stream, then position."""
    sizes = np.cumsum([0, *map(len, clocks)])
    order = np.argsort(np.concatenate(clocks), kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return [place[start:end] for start, end in pairwise(sizes)]


def _numbered(groups: list[list[Any]]) -> list[Ints]:
    """Keys of one or several columns as small numbers, the same for the same values in all groups."""
    sizes = np.cumsum([0, *(len(group[0]) for group in groups)])
    codes = np.zeros(sizes[-1], np.int64)
    valid = np.ones(sizes[-1], np.bool_)
    for columns in zip(*groups, strict=True):
        chunks = [chunk for column in columns for chunk in pa.chunked_array(column).chunks]
        encoded = pa.chunked_array(chunks, columns[0].type).combine_chunks().dictionary_encode()
        indices = encoded.indices
        valid &= np.asarray(indices.is_valid())
        own = np.asarray(indices.fill_null(0)).astype(np.int64)
        codes = np.unique(codes * (len(encoded.dictionary) + 1) + own, return_inverse=True)[1].astype(np.int64)
    codes[~valid] = NONE
    return [codes[start:end] for start, end in pairwise(sizes)]


def _ranks(column: Any) -> tuple[Ints, NDArray[np.bool_]]:
    """Values as numbers in the same order, and which rows have one."""
    flat = pa.chunked_array(column).combine_chunks()
    return np.asarray(pc.rank(flat, tiebreaker="dense")).astype(np.int64), np.asarray(flat.is_valid())


def _last_place(keys: Ints, count: int) -> Ints:
    last = np.full(max(count, 1), NONE, np.int64)
    rows = np.flatnonzero(keys >= 0)
    last[keys[rows]] = rows  # of rows with one key, the last is written last
    return last


def _spans(keys: Ints, time: Ints) -> Ints:
    """For each key, the largest difference in time between one of its rows and an earlier one."""
    order = np.argsort(keys, kind="stable")
    order = order[keys[order] >= 0]
    if not len(order):
        return np.zeros(0, np.int64)
    # Rows are taken in order of time, so the last row of a key is the latest and the first the earliest.
    starts = np.flatnonzero(np.diff(keys[order], prepend=NONE))
    ends = np.append(starts[1:], len(order)) - 1
    return np.asarray(time[order[ends]] - time[order[starts]])
