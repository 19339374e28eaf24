"""Columns: Arrow columns seen as numpy arrays, without a copy where the memory allows it.

A column here is a `pa.Array` or a `pa.ChunkedArray` with any chunks and any offsets. Functions that take one
chunk say so in their argument's name.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.errors import WindrowError

Bools = NDArray[np.bool_]


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table without rows. Arrow's own `empty_table` makes none with a union, or a list of an extension type."""
    return pa.Table.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def chunks(column: Any) -> Iterator[tuple[slice, Any]]:
    """The chunks of a column that hold rows, each with the rows that it covers."""
    start = 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        if len(chunk):
            yield slice(start, start + len(chunk)), chunk
        start += len(chunk)


FEW = 4  # rows of which there are so many times as many are few


def gathered(column: Any, rows: NDArray[np.int64]) -> Any:
    """Some rows of a column, in their order: chunk by chunk where they are few of many, for Arrow's own take joins all
    chunks to one before it picks a row."""
    if not isinstance(column, pa.ChunkedArray) or column.num_chunks < 2 or FEW * len(rows) > len(column):
        return column.take(pa.array(rows))
    if not _is_flat(column.type):
        return column.take(pa.array(rows))
    starts = np.cumsum([0, *(len(chunk) for chunk in column.chunks)])
    owner = np.searchsorted(starts, rows, side="right") - 1
    order = np.argsort(owner, kind="stable")
    ends = np.searchsorted(owner[order], np.arange(column.num_chunks), side="right")
    parts = [
        column.chunk(k).take(pa.array(rows[mine] - starts[k]))
        for k, mine in enumerate(np.split(order, ends[:-1]))
        if len(mine)
    ]
    back = np.empty(len(rows), np.int64)
    back[order] = np.arange(len(rows))
    return pa.chunked_array([pa.concat_arrays(parts).take(pa.array(back))] if parts else [], column.type)


def places_of(
    values: NDArray[np.int64], order: NDArray[np.int64], wanted: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the wanted values stand in an array that `order` sorts, and for each place which of them stands there.

    A binary search for each wanted value: nothing is copied that is not found.
    """
    first, last = (np.searchsorted(values, wanted, side, sorter=order) for side in ("left", "right"))
    counts = last - first
    which = np.repeat(np.arange(len(wanted)), counts)
    starts = np.repeat(first - (np.cumsum(counts) - counts), counts)
    return order[starts + np.arange(len(which))], which


def _is_flat(type_: Any) -> bool:
    """Whether values of a type lie in the column itself: neither nested nor encoded, nor in views."""
    plain = pa.types.is_primitive(type_) or pa.types.is_string(type_) or pa.types.is_binary(type_)
    return plain or pa.types.is_large_string(type_) or pa.types.is_large_binary(type_) or pa.types.is_decimal(type_)


def bits(buffer: Any, offset: int, length: int) -> Bools:
    """`length` bits of a buffer from bit `offset` on (least significant first, as Arrow packs them)."""
    first, skip = divmod(offset, 8)
    packed = np.frombuffer(buffer, dtype=np.uint8)[first : (offset + length + 7) // 8]
    return np.unpackbits(packed, count=skip + length, bitorder="little")[skip:].view(np.bool_)


def chunk_validity(chunk: Any) -> Bools | None:
    """Which rows of a chunk are not null; None where all are."""
    if chunk.null_count == 0:
        return None
    if chunk.null_count == len(chunk):
        return np.zeros(len(chunk), dtype=np.bool_)
    return bits(chunk.buffers()[0], chunk.offset, len(chunk))


def validity(column: Any) -> Bools | None:
    """Which rows of a column are not null; None where all are."""
    if column.null_count == 0:
        return None
    valid = np.ones(len(column), dtype=np.bool_)
    for rows, chunk in chunks(column):
        known = chunk_validity(chunk)
        if known is not None:
            valid[rows] = known
    return valid


def both(a: Bools | None, b: Bools | None) -> Bools | None:
    """Which rows are valid in both; None stands for all, as everywhere here."""
    if a is None or b is None:
        return b if a is None else a
    return np.logical_and(a, b)


def bools(chunk: Any) -> Bools:
    """The values of a chunk of booleans; those of null rows are unspecified."""
    if len(chunk) == 0 or chunk.buffers()[1] is None:
        return np.zeros(len(chunk), dtype=np.bool_)
    return bits(chunk.buffers()[1], chunk.offset, len(chunk))


def fixed(chunk: Any, dtype: Any, width: int = 1) -> NDArray[Any]:
    """The memory of a chunk of fixed-width values as `width` items of `dtype` per row, without a copy."""
    dtype = np.dtype(dtype)
    buffer = chunk.buffers()[1]
    if len(chunk) == 0 or buffer is None:
        return np.zeros(len(chunk) * width, dtype=dtype)
    start = chunk.offset * width * dtype.itemsize
    return np.frombuffer(buffer, dtype=dtype, count=len(chunk) * width, offset=start)


def int64s(column: Any) -> NDArray[np.int64]:
    """The 64-bit values (or 32-bit dates) of a column as int64; a view where the column is one chunk."""
    item = np.int32 if pa.types.is_date32(column.type) else np.int64
    parts = [fixed(chunk, item) for _, chunk in chunks(column)]
    if len(parts) == 1:
        return parts[0].astype(np.int64, copy=False)
    return np.concatenate(parts, dtype=np.int64) if parts else np.empty(0, dtype=np.int64)


def cast(column: Any, to: pa.DataType, where: str, error: type[WindrowError]) -> Any:
    """The column in another type; a value that does not fit becomes null: it equals nothing that the type can hold.

    To float64, values are rounded to the nearest float, as Spark does; no other cast changes a value. Where no value at
    all can be cast, `error` is raised, which names the column `where`.
    """
    if pa.types.is_dictionary(column.type):
        column = pa.chunked_array([decoded(c) for _, c in chunks(column)] or [pa.array([], to)])
    if column.type.equals(to):
        return column
    try:
        if pa.types.is_float64(to):
            return _to_float64(column)
        try:
            return column.cast(to)
        except pa.ArrowInvalid:
            return _what_fits(column, to)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        raise error(
            f"{where or 'a column'} of type {column.type} cannot be cast to {to}, the type in which it is compared "
            f"({problem}): cast it before the join"
        ) from problem


def _what_fits(column: Any, to: pa.DataType) -> Any:
    """The column in another type, null where a value does not come back the same, or with another sign."""
    cut = column.cast(to, safe=False)
    back = cut.cast(column.type, safe=False)
    fits = pc.and_(pc.equal(back, column), pc.equal(_negative(cut), _negative(column)))
    return pc.if_else(fits, cut, pa.scalar(None, to))


def _negative(column: Any) -> Any:
    """Which values lie below zero; days and instants count from 1970."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return pc.less(column, pa.scalar(0, column.type))


def decoded(chunk: Any) -> Any:
    """The values that a chunk of a dictionary column stands for."""
    values = chunk.dictionary
    # Arrow cannot pick rows from views, so these become plain first.
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())
    elif pa.types.is_binary_view(values.type):
        values = values.cast(pa.large_binary())
    return values.take(chunk.indices)


def _to_float64(column: Any) -> Any:
    if not pa.types.is_decimal(column.type):
        return column.cast(pa.float64(), safe=False)
    precision, scale = column.type.precision, column.type.scale
    if precision <= 15 and 0 <= scale <= 22:
        # Both numbers are floats without error, so the one division rounds to the nearest float.
        unscaled = column.cast(pa.decimal128(precision, scale))
        parts = [_divided(chunk, 10.0**scale) for _, chunk in chunks(unscaled)]
        return pa.chunked_array(parts, type=pa.float64())
    # Arrow's own cast from decimal to float64 is off by a bit in many cases; its parser of floats never is.
    return column.cast(pa.string()).cast(pa.float64())


def _divided(chunk: Any, divisor: float) -> Any:
    low_words = fixed(chunk, np.int64, 2)[::2]
    valid = chunk_validity(chunk)
    return pa.array(low_words / divisor, type=pa.float64(), mask=None if valid is None else ~valid)
