"""Sizes: how many bytes of payload each row brings, which is what a row costs the budget besides its slot.

A row's size is what its values take in Arrow's layout: fixed widths, one validity bit for every value that
can be null, one offset for every value of variable length, and that value's own bytes; summed in bits over
all columns and nested values, then rounded up to bytes once per row. It does not depend on chunks, slices or
the other rows:

- a dictionary value counts as if it stood in the row itself;
- a view counts 16 bytes, and its bytes on top if they do not fit inside it (more than 12);
- a value of a run-end encoded column counts as if it were repeated;
- children of a null struct count (Arrow stores them), items of a null list and bytes of a null string do not;
- unions, the one type without a layout per row, count the average of their chunk.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.state import columns as cols

Bits = int | NDArray[np.int64]
"""Bits per row: one number where all rows have the same."""

_VALIDITY = 1
_VIEW_INLINE = 12
_types = pa.types


def row_bytes(batch: Any, columns: Sequence[str]) -> NDArray[np.int64]:
    """The payload bytes of each row of a table or record batch, over the named columns."""
    bits = np.zeros(batch.num_rows, dtype=np.int64)
    for name in columns:
        for rows, chunk in cols.chunks(batch.column(name)):
            bits[rows] += _bits(chunk)
    return (bits + 7) >> 3


def depends_on_batch(type_: Any) -> bool:
    """Whether a row's size depends on the rows around it: there is a union in its type."""
    if _types.is_union(type_):
        return True
    if isinstance(type_, pa.BaseExtensionType):
        return depends_on_batch(type_.storage_type)
    if _types.is_dictionary(type_) or _types.is_run_end_encoded(type_):
        return depends_on_batch(type_.value_type)
    return any(depends_on_batch(type_.field(k).type) for k in range(type_.num_fields))


def _bits(chunk: Any) -> Bits:
    type_ = chunk.type
    if _types.is_null(type_):
        return 0
    if isinstance(type_, pa.BaseExtensionType):
        return _bits(chunk.storage)
    if _types.is_dictionary(type_):
        return _dictionary(chunk)
    if _types.is_run_end_encoded(type_):
        return _bits(pc.run_end_decode(chunk))
    if _types.is_struct(type_):
        return sum((_bits(chunk.field(i)) for i in range(type_.num_fields)), start=_VALIDITY)
    if _types.is_union(type_):
        return -(-8 * chunk.nbytes // max(1, len(chunk)))
    variable = _variable(chunk)
    return _VALIDITY + (type_.bit_width if variable is None else variable)


def _variable(chunk: Any) -> Bits | None:
    """Bits of values of variable length without their validity; None for a type of fixed width."""
    type_ = chunk.type
    if _types.is_string(type_) or _types.is_binary(type_):
        return 32 + 8 * _not_null(chunk, np.diff(_offsets(chunk, np.int32)))
    if _types.is_large_string(type_) or _types.is_large_binary(type_):
        return 64 + 8 * _not_null(chunk, np.diff(_offsets(chunk, np.int64)))
    if _types.is_string_view(type_) or _types.is_binary_view(type_):
        lengths = cols.fixed(chunk, np.int32, 4)[::4]
        return 128 + 8 * _not_null(chunk, np.where(lengths > _VIEW_INLINE, lengths, 0))
    if _types.is_list(type_) or _types.is_map(type_):
        return 32 + _list(chunk, _offsets(chunk, np.int32))
    if _types.is_large_list(type_):
        return 64 + _list(chunk, _offsets(chunk, np.int64))
    if _types.is_list_view(type_) or _types.is_large_list_view(type_):
        return _list_view(chunk)
    if _types.is_fixed_size_list(type_):
        return _fixed_size_list(chunk)
    return None


def _offsets(chunk: Any, item: Any) -> NDArray[np.int64]:
    """The offsets of a chunk's rows, one more than rows."""
    if len(chunk) == 0:
        return np.zeros(1, dtype=np.int64)
    start = chunk.offset * np.dtype(item).itemsize
    offsets = np.frombuffer(chunk.buffers()[1], dtype=item, count=len(chunk) + 1, offset=start)
    return offsets.astype(np.int64, copy=False)


def _not_null(chunk: Any, values: NDArray[Any]) -> NDArray[np.int64]:
    """The values, with 0 for null rows: what lies under a null is not carried along."""
    values = values.astype(np.int64, copy=False)
    valid = cols.chunk_validity(chunk)
    return values if valid is None else np.where(valid, values, 0)


def _ranges(items: Any, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bits of the items in each range [start, end)."""
    if len(starts) == 0:
        return np.zeros(0, dtype=np.int64)
    low, high = int(starts.min()), int(ends.max())
    bits = _bits(items.slice(low, high - low))
    if isinstance(bits, int):
        return (ends - starts) * bits
    before = np.concatenate(([0], np.cumsum(bits)))
    return before[ends - low] - before[starts - low]


def _list(chunk: Any, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    return _not_null(chunk, _ranges(chunk.values, offsets[:-1], offsets[1:]))


def _list_view(chunk: Any) -> NDArray[np.int64]:
    item = np.int64 if _types.is_large_list_view(chunk.type) else np.int32
    starts = _not_null(chunk, chunk.offsets.to_numpy())
    sizes = _not_null(chunk, chunk.sizes.to_numpy())
    return 16 * np.dtype(item).itemsize + _not_null(chunk, _ranges(chunk.values, starts, starts + sizes))


def _fixed_size_list(chunk: Any) -> Bits:
    size = chunk.type.list_size
    bits = _bits(chunk.values.slice(chunk.offset * size, len(chunk) * size))
    return size * bits if isinstance(bits, int) else bits.reshape(len(chunk), size).sum(axis=1)


def _dictionary(chunk: Any) -> Bits:
    """Bits of the values that a dictionary column stands for."""
    bits = _bits(chunk.dictionary)
    if isinstance(bits, int):
        return bits
    # A null index takes the place after the last value, where the bits of a null value are.
    null = _bits(pa.nulls(1, chunk.type.value_type))
    indices = chunk.indices.cast(pa.int64()).fill_null(len(bits)).to_numpy()
    return np.append(bits, null)[indices]
