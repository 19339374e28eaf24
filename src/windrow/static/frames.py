"""Truncated joins on Spark: Spark counts keys and picks rows, the choice is made on the driver from the counts alone.

Two small jobs collect the histograms (key, rows, bytes). What is kept goes back as a list of keys, or of the keys
that are dropped if that is shorter, against which each relation is filtered by a semi or anti join. Of a key that is
kept in part, Spark takes the rows whose contents hash lowest (then the smallest), so the same rows are kept however
often, and in whatever order, they are computed; rows that are equal in all columns that can be ordered are alike, but
for columns of maps and variants.

The relations are read once for the histograms, and again by whoever uses `left`, `right` or the join: cache() what is
dear to compute, and what is not the same when computed twice. Works with classic sessions and with Spark Connect.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.engine.outputs import outputs
from windrow.errors import SpecError
from windrow.kernels.offline import truncated
from windrow.spark.frames import (
    arrow_schema,
    by_place,
    check_frames,
    is_case_sensitive,
    refuse_collated,
    refuse_twins,
)
from windrow.spec import Query
from windrow.state.coding import key_codes, row_bytes
from windrow.static.choice import Budget, Method, choose
from windrow.static.keys import KeyColumns, key_columns, labels
from windrow.static.result import Bytes, Cut, Truncated
from windrow.static.tables import COUNT_BYTES

Ints = NDArray[np.int64]

ROWS, WEIGHT = "rows", "bytes"
BROADCAST = 1_000_000  # keys; a longer list is shuffled like any other relation
OFFSET_BYTES = 4


@dataclass(frozen=True)
class Histogram:
    """One relation's keys (columns k0, k1, ... in an order that depends on them alone), their rows, and their bytes."""

    keys: pa.Table
    rows: Ints
    weight: Ints
    null_rows: int
    null_weight: int

    @property
    def entry_bytes(self) -> Ints:
        """What each entry takes to send."""
        found: Ints = row_bytes(self.keys, self.keys.column_names) + COUNT_BYTES
        return found


def truncate_frames(query: Query, frames: dict[str, Any], budget: Budget, method: Method) -> Truncated:
    """The truncated join of two DataFrames."""
    check_frames(query.names, frames)
    for name, frame in frames.items():
        if frame.isStreaming:
            raise SpecError(f"relation {name!r} is a stream, which has no end: windrow.join joins streams")
    schemas = {name: arrow_schema(frame, name) for name, frame in frames.items()}
    keys = key_columns(query, schemas)
    for k, (name, frame) in enumerate(frames.items()):
        refuse_collated(frame, name, keys.columns[k])
    given = list(frames.values())
    sides = [by_place(frame, frame.columns) for frame in given]
    by = [[f"c{frame.columns.index(column)}" for column in keys.columns[k]] for k, frame in enumerate(given)]
    both = [histogram(frame, by[k], keys.types) for k, frame in enumerate(sides)]
    label, count = labels([h.keys.columns for h in both], keys.types)
    m, n = (np.bincount(one, h.rows, count).astype(np.int64) for one, h in zip(label, both, strict=True))
    choice = choose(m, n, (both[0].null_rows, both[1].null_rows), budget, method)
    wanted = [
        truncated.allotted(one, h.rows, kept)
        for one, h, kept in zip(label, both, (choice.kept.a, choice.kept.b), strict=True)
    ]
    nulls = (choice.null_left, choice.null_right)
    cut = [_truncated(frame, by[k], both[k], wanted[k], nulls[k]) for k, frame in enumerate(sides)]
    parts = [frame.toDF(*whole.columns) for frame, whole in zip(cut, given, strict=True)]
    names = outputs(query, schemas, query.joins[0])
    return Truncated.of(
        parts,
        kept=[int(one.sum()) + extra for one, extra in zip(wanted, nulls, strict=True)],
        rows=[int(h.rows.sum()) + h.null_rows for h in both],
        choice=choice.kept,
        cut=_cuts(both[0], label[0], choice.kept),
        size=_bytes(both, wanted, nulls),
        join=lambda: _joined(parts, keys, names),
    )


# ------------------------------------------------------------------------------------------ histograms


def histogram(frame: Any, keys: list[str], types: tuple[pa.DataType, ...]) -> Histogram:
    """The rows per key of a relation, counted by Spark."""
    from pyspark.sql import functions as F

    columns = [F.col(column) for column in keys]
    known = reduce(lambda a, b: a & b, [column.isNotNull() for column in columns])
    # All rows without a key are one group, whatever their other columns.
    named = [F.when(known, column).alias(f"k{i}") for i, column in enumerate(columns)]
    fixed, variable = _row_size(frame)
    counted = frame.select(*named, variable.alias(WEIGHT)).groupBy(*(f"k{i}" for i in range(len(columns))))
    found = counted.agg(F.count(F.lit(1)).alias(ROWS), F.sum(WEIGHT).alias(WEIGHT)).toArrow()
    rows = found[ROWS].to_numpy().astype(np.int64)
    weight = found[WEIGHT].to_numpy().astype(np.int64) + fixed * rows
    only_keys = found.drop_columns([ROWS, WEIGHT])
    codes, valid = key_codes(only_keys.columns, types)
    null = np.zeros(len(rows), np.bool_) if valid is None else ~valid
    order = np.argsort(codes, kind="stable")  # Spark gives groups in any order
    order = order[~null[order]]
    return Histogram(
        only_keys.take(pa.array(order)), rows[order], weight[order], int(rows[null].sum()), int(weight[null].sum())
    )


def _row_size(frame: Any) -> tuple[int, Any]:
    """What a row takes: bytes that all rows take, and an expression for the others. Nested values count as JSON."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    widths = {"boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "float": 4, "date": 4}
    fixed, variable = 0, F.lit(0).cast("long")
    for field in frame.schema.fields:
        column = F.col(field.name)
        if isinstance(field.dataType, (T.StringType, T.BinaryType)):
            size = F.octet_length(column)
        elif isinstance(field.dataType, (T.StructType, T.ArrayType, T.MapType)):
            size = F.octet_length(F.to_json(column))
        else:
            decimal = isinstance(field.dataType, T.DecimalType)
            fixed += 16 if decimal else widths.get(field.dataType.simpleString(), 8)
            continue
        fixed += OFFSET_BYTES
        variable = variable + F.coalesce(size, F.lit(0)).cast("long")
    return fixed, variable


# ------------------------------------------------------------------------------------------ rows


def _truncated(frame: Any, columns: list[str], counts: Histogram, wanted: Ints, nulls: int) -> Any:
    """The rows of a relation that are kept."""
    from pyspark.sql import functions as F

    whole, part = wanted == counts.rows, (wanted > 0) & (wanted < counts.rows)
    known = reduce(lambda a, b: a & b, [F.col(column).isNotNull() for column in columns])
    pieces = []
    if whole.all():
        pieces.append(frame.where(known))
    elif 2 * int(whole.sum()) <= len(whole):
        if whole.any():
            pieces.append(_matching(frame, columns, counts.keys.filter(pa.array(whole)), "left_semi"))
    else:
        rest = counts.keys.filter(pa.array(~whole))
        pieces.append(_matching(frame.where(known), columns, rest, "left_anti"))
    for k in np.flatnonzero(part):
        of_key = _matching(frame, columns, counts.keys.slice(int(k), 1), "left_semi")
        pieces.append(_lowest(of_key, int(wanted[k])))
    if nulls:
        without = frame.where(~known)
        pieces.append(without if nulls == counts.null_rows else _lowest(without, nulls))
    return reduce(lambda a, b: a.unionAll(b), pieces) if pieces else frame.where(F.lit(False))


def _matching(frame: Any, columns: list[str], keys: pa.Table, how: str) -> Any:
    """The rows of a frame with, or without, one of the keys."""
    from pyspark.sql import functions as F

    types = {field.name: field.dataType for field in frame.schema.fields}
    names = [f"key_{i}" for i in range(len(columns))]
    listed = frame.sparkSession.createDataFrame(keys.rename_columns(names))
    pairs = list(zip(names, columns, strict=True))
    listed = listed.select(*(F.col(name).cast(types[column]).alias(name) for name, column in pairs))
    if keys.num_rows <= BROADCAST:
        listed = F.broadcast(listed)
    same = reduce(lambda a, b: a & b, [F.col(column) == F.col(name) for name, column in pairs])
    return frame.join(listed, same, how)


def _lowest(frame: Any, rows: int) -> Any:
    """So many rows of a frame, chosen by their contents."""
    from pyspark.sql import functions as F

    ordered = [F.col(f.name) for f in frame.schema.fields if _orderable(f.dataType)]
    return frame.orderBy(F.xxhash64(*ordered), *ordered).limit(rows) if ordered else frame.limit(rows)


def _orderable(type_: Any) -> bool:
    from pyspark.sql import types as T

    if isinstance(type_, T.StructType):
        return all(_orderable(field.dataType) for field in type_.fields)
    if isinstance(type_, T.ArrayType):
        return _orderable(type_.elementType)
    return not isinstance(type_, (T.MapType, T.VariantType))


def _joined(parts: list[Any], keys: KeyColumns, names: Any) -> Any:
    """Spark's own join of the truncated relations, with columns named as by `windrow.join`."""
    from pyspark.sql import functions as F

    called = [o.name for o in names]
    refuse_twins(called, "the join", "rename one of them before", is_case_sensitive(parts[0]))
    renamed = []
    for side, frame in enumerate(parts):  # by position, so that a relation can be joined with itself
        renamed.append(frame.toDF(*(f"c{side}_{i}" for i in range(len(frame.columns)))))
    at = [{column: f"c{side}_{i}" for i, column in enumerate(frame.columns)} for side, frame in enumerate(parts)]
    pairs = zip(*keys.columns, strict=True)
    same = reduce(lambda a, b: a & b, [F.col(at[0][a]) == F.col(at[1][b]) for a, b in pairs])
    return renamed[0].join(renamed[1], same).select(*(F.col(at[o.stream][o.column]).alias(o.name) for o in names))


# ------------------------------------------------------------------------------------------ report


def _cuts(left: Histogram, label: Ints, kept: Any) -> tuple[Cut, ...]:
    found = []
    for at in kept.cut:
        row = int(np.argmax(label == at))
        key = tuple(column[row].as_py() for column in left.keys.columns)
        found.append(Cut(key, int(kept.m[at]), int(kept.a[at]), int(kept.n[at]), int(kept.b[at])))
    return tuple(found)


def _bytes(both: list[Histogram], wanted: list[Ints], nulls: tuple[int, int]) -> Bytes:
    """What travels; of keys that are kept in part, rows count with their mean size."""
    histograms = requests = rows = everything = 0
    for counts, taken, extra in zip(both, wanted, nulls, strict=True):
        entry = counts.entry_bytes
        histograms += int(entry.sum())
        requests += int(entry[taken > 0].sum())
        everything += int(counts.weight.sum()) + counts.null_weight
        rows += int((counts.weight * (taken / np.maximum(counts.rows, 1))).sum())
        rows += counts.null_weight * extra // max(counts.null_rows, 1)
    return Bytes(histograms, requests, rows, everything)
