"""Streams as the analysis takes them: keys as small numbers, in the order in which rows come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.bind import bind
from windrow.engine.intake import as_table, plain_schema
from windrow.engine.prepare import rows_of, tables
from windrow.errors import InputError, SpecError
from windrow.spec import Equal, Query

LEAST_ROWS = 20


@dataclass(frozen=True)
class Coded:
    """One stream: the number of each row's key, and when the row comes, counted in arrivals over all streams.

    Rows without a key or a time are not among them: `left_out` says how many there were. Streams that are coded
    together number the same `keys` keys.
    """

    name: str
    ids: np.ndarray
    clock: np.ndarray
    keys: int
    left_out: int

    @property
    def rows(self) -> int:
        """How many rows have a key."""
        return len(self.ids)

    def table(self, ids: np.ndarray | None = None) -> pa.Table:
        """The stream as the engine takes it, with its own keys or others: time "t" in arrivals, key "k"."""
        return pa.table({"t": self.clock, "k": self.ids if ids is None else ids})


def coded(query: Query, given: Mapping[str, Any]) -> list[Coded]:
    """The streams of a query of equalities, or the first of them if that alone is given."""
    query.refuse_names("the analysis")
    query.refuse_deletions("the analysis knows insertions only")
    if not all(isinstance(predicate, Equal) for predicate in query.predicates):
        raise SpecError("on: popularity and locality are of keys, so only equalities can be analysed")
    first = next(iter(given))
    known = {name: as_table(data, name) for name, data in given.items()}
    whole = {name: known.get(name, known[first]) for name in query.names}
    binding = bind(query, {name: plain_schema(table.schema) for name, table in whole.items()})
    arrays = tables(binding, whole)
    found = [rows_of(binding, s, arrays[s]) for s, name in enumerate(query.names) if name in known]
    keep = [np.flatnonzero(rows.keep) for rows in found]
    for name, rows in zip(known, keep, strict=True):
        _check_rows(name, len(rows), known[name].num_rows)
    sizes = [len(rows) for rows in keep]
    stream = np.repeat(np.arange(len(sizes)), sizes)
    time = np.concatenate([rows.time[k] for rows, k in zip(found, keep, strict=True)])
    codes, ids = np.unique(_codes([r.codes for r in found], keep), return_inverse=True)
    order = np.argsort(time, kind="stable")  # streams stand one after the other: at equal times the first comes first
    result = []
    for s, (name, rows) in enumerate(zip(known, keep, strict=True)):
        mine = np.flatnonzero(stream[order] == s)
        left_out = known[name].num_rows - len(rows)
        result.append(Coded(name, ids[order[mine]].astype(np.int64), mine.astype(np.int64), len(codes), left_out))
        if len(np.unique(result[-1].ids)) == 1:
            raise InputError(f"stream {name!r}: all {len(rows):,} rows have the same key: there is nothing to analyse")
    return result


def _check_rows(name: str, rows: int, all_rows: int) -> None:
    if rows < LEAST_ROWS:
        missing = f" ({all_rows - rows:,} more have no key or no time)" if all_rows > rows else ""
        raise InputError(
            f"stream {name!r}: {rows} rows with a key{missing} are too few to analyse: give at least {LEAST_ROWS}"
        )


def _codes(codes: list[list[np.ndarray]], keep: list[np.ndarray]) -> np.ndarray:
    """One code per kept row. Equalities of one pair of streams are one key (engine/equality.py)."""
    (first, *others) = zip(*codes, strict=True)
    assert not others, "a query of two streams has one directory"
    return np.concatenate([code[rows] for code, rows in zip(first, keep, strict=True)])
