"""Truncated joins of Arrow tables, in this process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.errors import SpecError
from windrow.feed import engine_for, run
from windrow.kernels.offline import truncated
from windrow.spec import Query
from windrow.state.coding import row_bytes
from windrow.static.choice import Budget, Method, choose
from windrow.static.keys import KeyColumns, labels
from windrow.static.result import Bytes, Cut, Truncated

COUNT_BYTES = 8
Ints = NDArray[np.int64]


def truncate_tables(
    query: Query, tables: dict[str, pa.Table], keys: KeyColumns, budget: Budget, method: Method
) -> Truncated:
    """The truncated join of two tables."""
    sides = list(tables.values())
    label, count = labels([key_of(t, c) for t, c in zip(sides, keys.columns, strict=True)], keys.types)
    m, n = (np.bincount(one[one >= 0], minlength=count) for one in label)
    nulls = (int((label[0] < 0).sum()), int((label[1] < 0).sum()))
    choice = choose(m, n, nulls, budget, method)
    masks = [
        kept_rows(label[0], choice.kept.a, choice.null_left),
        kept_rows(label[1], choice.kept.b, choice.null_right),
    ]
    parts = [table.filter(pa.array(mask)) for table, mask in zip(sides, masks, strict=True)]
    names = dict(zip(tables, parts, strict=True))
    return Truncated.of(
        parts,
        kept=[int(mask.sum()) for mask in masks],
        rows=[table.num_rows for table in sides],
        choice=choice.kept,
        cut=_cuts(sides, keys, label, choice.kept),
        size=_bytes(sides, keys, label, masks),
        join=lambda: joined(query, names),
    )


def key_of(table: pa.Table, columns: tuple[str, ...]) -> list[pa.ChunkedArray]:
    """The key columns of a table."""
    return [table.column(column) for column in columns]


def kept_rows(label: Ints, kept: Ints, nulls: int) -> NDArray[np.bool_]:
    """Which rows are kept: the first ones of each key in the table's order, and so many of those without a key."""
    mask = truncated.allotted(label, np.ones(len(label), np.int64), kept.astype(np.int64)) > 0
    mask[np.flatnonzero(label < 0)[:nulls]] = True
    return mask


def joined(query: Query, tables: dict[str, pa.Table]) -> pa.Table:
    """The exact join of tables, by the engine."""
    engine = engine_for(query, tables, recall=False)
    return pa.concat_tables(run(engine, tables))


def _first(label: Ints) -> tuple[Ints, Ints]:
    """The labels that a side has, and the first row of each."""
    found, first = np.unique(label, return_index=True)
    return found[found >= 0], first[found >= 0]


def _cuts(sides: list[pa.Table], keys: KeyColumns, label: list[Ints], kept: Any) -> tuple[Cut, ...]:
    found = []
    for at in kept.cut:
        row = int(np.argmax(label[0] == at))
        key = tuple(column[row].as_py() for column in key_of(sides[0], keys.columns[0]))
        found.append(Cut(key, int(kept.m[at]), int(kept.a[at]), int(kept.n[at]), int(kept.b[at])))
    return tuple(found)


def _bytes(sides: list[pa.Table], keys: KeyColumns, label: list[Ints], masks: list[NDArray[np.bool_]]) -> Bytes:
    histograms = requests = rows = everything = 0
    for table, columns, one, mask in zip(sides, keys.columns, label, masks, strict=True):
        weight = row_bytes(table, table.column_names)
        everything += int(weight.sum())
        rows += int(weight[mask].sum())
        found, first = _first(one)
        entry = row_bytes(table.select(list(columns)).take(pa.array(first)), columns) + COUNT_BYTES
        asked = np.isin(found, np.unique(one[mask]))
        histograms += int(entry.sum())
        requests += int(entry[asked].sum())
    return Bytes(histograms, requests, rows, everything)


def check_tables(tables: dict[str, pa.Table]) -> None:
    """Tables have columns to join."""
    for name, table in tables.items():
        if not table.column_names:
            raise SpecError(f"relation {name!r} has no columns")
