"""Two Arrow tables seen as multisets of rows: how often each distinct row stands in the one and in the other.

Rows are equal when all their columns are. Nulls equal nulls and NaN equals NaN, or a table would differ from
itself; -0.0 equals 0.0. Duplicates count. The counting is one Arrow `group_by` over both tables, so it is
exact (no hashes stand for rows) and free of Python per row; nested columns are first replaced by integer
codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.errors import DuplicateColumn, InputError, KeyTypeError, UnknownColumn

SIDES = ("approximate", "exact")


@dataclass(frozen=True)
class Tally:
    """The distinct rows of two tables: row i stands left[i] times in the first, right[i] times in the second.

    `first[i]` is the position of one such row in the two tables put one after the other.
    """

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    first: NDArray[np.int64]


def align(left: pa.Table, right: pa.Table, columns: Sequence[str] | None = None) -> tuple[pa.Table, pa.Table]:
    """Both tables with the same columns in the same order and of the same types.

    Without `columns` both must have the same ones, in any order. Types that differ only in width, unit or
    encoding (int32 and int64, text and dictionary-encoded text) meet at the wider one.
    """
    for table, side in zip((left, right), SIDES, strict=True):
        if not isinstance(table, pa.Table):
            raise InputError(f"the {side} rows must be a pyarrow.Table, got {type(table).__name__}")
        _refuse_duplicates(table, side)
    columns = [columns] if isinstance(columns, str) else columns
    names = list(dict.fromkeys(left.column_names if columns is None else columns))
    _require(left, names if columns is not None else right.column_names, SIDES[0])
    _require(right, names, SIDES[1])
    left, right = left.select(names), right.select(names)
    for i, name in enumerate(names):
        one, two = _meet(name, _plain(left[name]), _plain(right[name]))
        left, right = left.set_column(i, name, one), right.set_column(i, name, two)
    return left, right


def tally(left: pa.Table, right: pa.Table) -> Tally:
    """Count the distinct rows of two aligned tables."""
    rows, split = left.num_rows + right.num_rows, left.num_rows
    if rows == 0:
        none = np.zeros(0, np.int64)
        return Tally(none, none, none)
    if left.num_columns == 0:  # all rows without columns are the same row
        return Tally(np.array([split]), np.array([rows - split]), np.array([0]))
    position = np.arange(rows, dtype=np.int64)
    keys = [
        _groupable(pa.chunked_array([*one.chunks, *two.chunks], type=one.type))
        for one, two in zip(left.columns, right.columns, strict=True)
    ]
    names = [str(i) for i in range(len(keys))]
    both = pa.Table.from_arrays(
        [*keys, pa.array((position < split).astype(np.int64)), pa.array(position)],
        [*names, "left", "position"],
    )
    counted = both.group_by(names).aggregate([("left", "sum"), ("left", "count"), ("position", "min")])
    in_left = counted["left_sum"].to_numpy()
    return Tally(in_left, counted["left_count"].to_numpy() - in_left, counted["position_min"].to_numpy())


def _refuse_duplicates(table: pa.Table, side: str) -> None:
    seen: set[str] = set()
    for name in table.column_names:
        if name in seen:
            raise DuplicateColumn(f"the {side} table has two columns named {name!r}: rename one")
        seen.add(name)


def _require(table: pa.Table, names: Sequence[str], side: str) -> None:
    for name in names:
        if name not in table.column_names:
            raise UnknownColumn.of(name, table.column_names, f"the {side} table")


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without encodings that say nothing about its values."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(pa.chunked_array([chunk.storage for chunk in column.chunks], type=kind.storage_type))
    if pa.types.is_dictionary(kind):
        return _plain(column.cast(kind.value_type))
    if pa.types.is_run_end_encoded(kind):
        return _plain(pc.run_end_decode(column))
    if kind in _VIEWS:
        return column.cast(_VIEWS[kind])
    return column


_VIEWS: dict[Any, Any] = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def _meet(name: str, left: pa.ChunkedArray, right: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Both columns in one type that holds the values of either."""
    if left.type == right.type:
        return left, right
    try:
        schemas = [pa.schema([("column", side.type)]) for side in (left, right)]
        kind = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
        return left.cast(kind), right.cast(kind)
    except (pa.ArrowTypeError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise KeyTypeError(
            f"column {name!r} is {left.type} in the approximate table and {right.type} in the exact one, "
            "which do not compare: cast one of them"
        ) from None


# ------------------------------------------------------------------- values that Arrow can group by


def _groupable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in a form in which `group_by` finds exactly the equal values equal."""
    kind = column.type
    if pa.types.is_floating(kind):
        wide = column.cast(pa.float64())  # by value, not by bits: one NaN, and -0.0 + 0.0 is 0.0
        return pc.if_else(pc.is_nan(wide), float("nan"), pc.add(wide, 0.0))
    if pa.types.is_nested(kind):
        return pa.chunked_array([pa.array(_codes(column))])
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    return column


def _codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """One integer per value, equal exactly where the values are; -1 for null."""
    column = _plain(column)
    kind = column.type
    if not pa.types.is_nested(kind):
        encoded = _groupable(column).dictionary_encode()
    else:
        array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], kind)
        encoded = pa.chunked_array([_words(array)]).dictionary_encode()
    indices = [np.asarray(chunk.indices.fill_null(-1), dtype=np.int64) for chunk in encoded.chunks]
    return np.concatenate(indices) if indices else np.zeros(0, np.int64)


def _words(array: Any) -> pa.Array:
    """Each nested value as the bytes of the codes of its parts, null where the whole value is null."""
    kind = array.type
    if pa.types.is_struct(kind):
        parts = [_codes(pa.chunked_array([field])) for field in array.flatten()]
        words = np.column_stack(parts).reshape(-1) if parts else np.zeros(0, np.int64)
        lengths = np.full(len(array), len(parts), np.int64)
    elif pa.types.is_map(kind):
        return _words(array.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))))
    elif pa.types.is_union(kind):
        raise KeyTypeError(f"values of type {kind} cannot be compared: name the other columns")
    else:
        words = _codes(pa.chunked_array([pc.list_flatten(array)]))
        lengths = np.asarray(pc.list_value_length(array).fill_null(0), dtype=np.int64)
    ends = pa.py_buffer(8 * np.concatenate(([0], np.cumsum(lengths))))
    data = pa.py_buffer(np.ascontiguousarray(words))
    values = pa.Array.from_buffers(pa.large_binary(), len(array), [None, ends, data])
    return pc.if_else(array.is_valid(), values, None)
