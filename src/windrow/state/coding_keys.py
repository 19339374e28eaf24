"""Keys: one 64-bit code per row for the key columns of an equality, and the proof that two keys are equal.

For one column of an integer, float, bool or time type the code is exact: a bijection of the value. For
strings, binaries, decimals and keys of several columns it is a hash, and whoever finds two equal codes asks
`keys_equal` before calling them a match.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.errors import KeyTypeError
from windrow.kernels import hashing
from windrow.state import columns as cols
from windrow.state.coding_types import exact_codes, family

Codes = NDArray[np.uint64]
Bools = NDArray[np.bool_]

_ALL_BITS = 2**64 - 1
_NULL = np.uint64(0xD6E8FEB86659FD93)  # the code of a null where it is a value: that of no short text or small number


def cast_keys(columns: Sequence[Any], types: Sequence[pa.DataType], where: Sequence[str] = ()) -> list[Any]:
    """The key columns in their common types, as `keys_equal` takes them."""
    names = where or [f"key column {i}" for i in range(len(types))]
    triples = zip(columns, types, names, strict=True)
    return [cols.cast(column, type_, name, KeyTypeError) for column, type_, name in triples]


def key_codes(
    columns: Sequence[Any], types: Sequence[pa.DataType], *, where: Sequence[str] = (), mask: int = _ALL_BITS
) -> tuple[Codes, Bools | None]:
    """One code per row of a key, and which rows have a key at all (None: all).

    `types` are the common types of the columns (`common_key_type`); the columns are cast to them here. A row
    with a null in any column has no key, and code 0. `mask` cuts codes that are hashes down to some of their
    bits: a seam for tests of what happens when hashes collide.
    """
    if not columns:
        raise ValueError("a key has at least one column")
    names = where or [f"key column {i}" for i in range(len(types))]
    codes, valid = _column_codes(columns[0], types[0], names[0])
    for column, type_, name in zip(columns[1:], types[1:], names[1:], strict=True):
        more, more_valid = _column_codes(column, type_, name)
        hashing.combine(codes, more)
        valid = cols.both(valid, more_valid)
    if valid is not None:
        codes[~valid] = 0
    if mask != _ALL_BITS and not exact_codes(types):
        codes &= np.uint64(mask)
    return codes, valid


def value_codes(columns: Sequence[Any], types: Sequence[pa.DataType], *, where: Sequence[str]) -> Codes:
    """One code per row for the values of its columns, where null is a value and equals null."""
    codes = np.zeros(len(columns[0]), dtype=np.uint64)
    for column, type_, name in zip(columns, types, where, strict=True):
        more, valid = _column_codes(column, type_, name)
        if valid is not None:
            more[~valid] = _NULL
        hashing.combine(codes, more)
    return codes


def keys_equal(a: Sequence[Any], b: Sequence[Any]) -> Bools:
    """For each row whether key a equals key b: all columns are, and none is null; NaN equals NaN.

    The columns of both sides are in their common types already (`cast_keys`).
    """
    equal: Bools | None = None
    for one, other in zip(a, b, strict=True):
        same = _column_equal(one, other)
        equal = same if equal is None else np.logical_and(equal, same, out=equal)
    if equal is None:
        raise ValueError("a key has at least one column")
    return equal


def _column_codes(column: Any, type_: pa.DataType, name: str) -> tuple[Codes, Bools | None]:
    codes = np.empty(len(column), dtype=np.uint64)
    if pa.types.is_dictionary(column.type):
        return _dictionary_codes(column, type_, name, codes)
    column = cols.cast(column, type_, name, KeyTypeError)
    for rows, chunk in cols.chunks(column):
        _write_codes(chunk, codes[rows])
    return codes, cols.validity(column)


def _dictionary_codes(column: Any, type_: pa.DataType, name: str, codes: Codes) -> tuple[Codes, Bools | None]:
    """Codes of a dictionary column: those of its values, looked up; a long dictionary is decoded."""
    valid = np.ones(len(column), dtype=np.bool_)
    for rows, chunk in cols.chunks(column):
        values = chunk.dictionary
        indices = None
        if len(values) > len(chunk):
            values = cols.decoded(chunk)
        else:
            # A null index looks up the code after the last, which belongs to no value.
            indices = chunk.indices.cast(pa.int64()).fill_null(len(values)).to_numpy()
        found, known = _column_codes(values, type_, name)
        known = np.ones(len(values), dtype=np.bool_) if known is None else known
        codes[rows] = found if indices is None else np.append(found, np.uint64(0))[indices]
        valid[rows] = known if indices is None else np.append(known, False)[indices]
    return codes, None if valid.all() else valid


def _write_codes(chunk: Any, out: Codes) -> None:
    """The codes of one chunk in its common type."""
    kind = family(chunk.type)
    if kind == "null":
        out[:] = 0
    elif kind == "bool":
        hashing.mix_words(_frozen(cols.bools(chunk).astype(np.uint64)), out)
    elif kind == "date":
        days = cols.fixed(chunk, np.int32).astype(np.int64)
        hashing.mix_words(_frozen(days.view(np.uint64)), out)
    elif kind == "float":
        hashing.mix_floats(cols.fixed(chunk, np.float64), cols.fixed(chunk, np.uint64), out)
    elif kind == "decimal":
        width = chunk.type.bit_width // 64
        hashing.hash_words(cols.fixed(chunk, np.uint64, width), width, out)
    elif kind in ("string", "binary"):
        _write_hashes(chunk, out)
    else:
        hashing.mix_words(cols.fixed(chunk, np.uint64), out)


def _write_hashes(chunk: Any, out: Codes) -> None:
    """The hashes of one chunk of strings or binaries with 32-bit or 64-bit offsets."""
    large = pa.types.is_large_string(chunk.type) or pa.types.is_large_binary(chunk.type)
    _, offsets, data = chunk.buffers()
    item = np.dtype(np.int64 if large else np.int32)
    ends = np.frombuffer(offsets, dtype=item, count=len(chunk) + 1, offset=chunk.offset * item.itemsize)
    empty = data is None or data.size == 0
    text = _frozen(np.zeros(0, dtype=np.uint8)) if empty else np.frombuffer(data, dtype=np.uint8)
    hashing.hash_bytes(text, ends, out)


def _frozen(values: NDArray[Any]) -> NDArray[Any]:
    """The values made read-only, as Arrow's memory is: a kernel is compiled once for each of the two."""
    values.setflags(write=False)
    return values


def _column_equal(one: Any, other: Any) -> Bools:
    kind = family(one.type)
    if kind == "null" or len(one) == 0:
        return np.zeros(len(one), dtype=np.bool_)
    if kind == "float":
        return _floats_equal(one, other)
    same = pc.equal(one, other)
    equal = np.empty(len(one), dtype=np.bool_)
    for rows, chunk in cols.chunks(same):
        equal[rows] = cols.bools(chunk)
    valid = cols.validity(same)
    return equal if valid is None else np.logical_and(equal, valid, out=equal)


def _floats_equal(one: Any, other: Any) -> Bools:
    a = cols.int64s(one).view(np.float64)
    b = cols.int64s(other).view(np.float64)
    equal = (a == b) | (np.isnan(a) & np.isnan(b))
    for side in (one, other):
        valid = cols.validity(side)
        if valid is not None:
            equal &= valid
    return equal
