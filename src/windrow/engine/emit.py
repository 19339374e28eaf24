"""Emitting: payload rows of matches become output rows."""

from itertools import pairwise

import numpy as np
import pyarrow as pa

from windrow.engine.bind import Binding
from windrow.state.coding import cast_keys, keys_equal
from windrow.state.columns import empty_table, gathered


def schema(binding: Binding, join: int = 0) -> pa.Schema:
    """The columns of a join's output."""
    names, outputs = binding.query.names, binding.results[join]
    return pa.schema([binding.schemas[names[o.stream]].field(o.column).with_name(o.name) for o in outputs])


GATHERED = 1 << 16  # matches whose rows are gathered together: enough to be quick, and few enough for the cache


class Found:
    """The matches of a push: one table, or one for each of the joins that have names."""

    def __init__(self, binding: Binding, payloads: list[pa.Table]) -> None:
        self.binding, self.payloads = binding, payloads
        self._guests: list[list[pa.Table]] = [[] for _ in payloads]  # payload of rows that came back for a moment
        self._rows = [table.num_rows for table in payloads]
        self.pieces: list[list[pa.Table]] = [[] for _ in binding.results]
        self.false = np.zeros(len(binding.results), np.int64)  # candidates of colliding codes, by join
        self._waiting: list[np.ndarray] = []
        self._count = 0

    def house(self, stream: int, table: pa.Table) -> int:
        """Let rows of a stream be among those that matches are gathered from; the first of their numbers."""
        first = self._rows[stream]
        self._guests[stream].append(table)
        self._rows[stream] += table.num_rows
        return first

    def add(self, found: np.ndarray) -> None:
        """Take a piece: payload rows [stream, match] and, of several joins, a last line with the join of each match."""
        self._waiting.append(found)
        self._count += found.shape[1]
        if self._count >= GATHERED:
            self._gather()

    def _gather(self) -> None:
        """Gather the rows of the matches that wait for it."""
        found = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting, axis=1)
        self._waiting, self._count = [], 0
        both = zip(self.payloads, self._guests, strict=True)
        payloads = [pa.concat_tables([table, *guests]) if guests else table for table, guests in both]
        several = len(self.pieces) > 1
        for join, pieces in enumerate(self.pieces):
            mine = found[:-1, found[-1] == join] if several else found
            if mine.shape[1]:
                pieces.append(matches(self.binding, payloads, mine, join))
                self.false[join] += mine.shape[1] - pieces[-1].num_rows

    def tables(self) -> pa.Table | dict[str, pa.Table]:
        """All matches."""
        if self._waiting:
            self._gather()
        whole = [
            pa.concat_tables(pieces) if pieces else empty_table(schema(self.binding, join))
            for join, pieces in enumerate(self.pieces)
        ]
        if not self.binding.query.named:
            return whole[0]
        return {named.name: table for named, table in zip(self.binding.query.joins, whole, strict=True)}


def matches(binding: Binding, payloads: list[pa.Table], found: np.ndarray, join: int = 0) -> pa.Table:
    """Output rows of a join's matches, given as payload rows [stream, match]; those of colliding codes are left out."""
    outputs = binding.results[join]
    true = _verified(binding, payloads, found, join)
    index = found if true is None else [rows[true] for rows in found]
    columns: dict[tuple[int, str], pa.ChunkedArray] = {}
    for output in outputs:
        where = (output.stream, output.column)
        if where not in columns:
            columns[where] = gathered(payloads[output.stream][output.column], index[output.stream])
    arrays = [columns[o.stream, o.column] for o in outputs]
    return pa.Table.from_arrays(arrays, schema=schema(binding, join))


def verified(binding: Binding, payloads: list[pa.Table], found: np.ndarray) -> np.ndarray:
    """Which matches, given as `Found.add` takes them, have truly equal keys; no other column is gathered."""
    true = np.ones(found.shape[1], np.bool_)
    several = len(binding.results) > 1
    for join in range(len(binding.results)):
        mine = np.flatnonzero(found[-1] == join) if several else np.arange(found.shape[1])
        equal = _verified(binding, payloads, (found[:-1] if several else found)[:, mine], join)
        if equal is not None:
            true[mine] = equal
    return true


def _verified(binding: Binding, payloads: list[pa.Table], found: np.ndarray, join: int) -> np.ndarray | None:
    """Which matches have truly equal keys, or None if all have: hashed keys are compared in full."""
    true: np.ndarray | None = None
    for directory in binding.directories:
        if not directory.probed:
            continue
        if directory.exact or directory.join != join:
            continue
        sides = {
            s: cast_keys([gathered(payloads[s][c], found[s]) for c in columns], directory.types)
            for s, columns in directory.columns.items()
        }
        for left, right in pairwise(sorted(sides)):
            equal = keys_equal(sides[left], sides[right])
            true = equal if true is None else true & equal
    return None if true is None or bool(true.all()) else true
