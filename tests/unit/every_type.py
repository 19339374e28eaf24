"""One Arrow column of four rows for every type, for tests that must work with all of them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

ROWS = 4


def runs(values: Any, ends: list[int]) -> Any:
    """A run-end encoded array."""
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), values)


def extension(type_: Any, storage: Any) -> Any:
    """An array of an extension type."""
    return pa.ExtensionArray.from_storage(type_, storage)


_TEXTS = pa.array(["a", None, "ccc", "d" * 20])
_ENCODED = runs(pa.array([1, None]), [2, 4])
_EACH = pa.array([0, 1, 2, 3, 4], pa.int32())
_CODES = pa.array([0, 1, 0, 1], pa.int8())
_LISTS = [[1], None, [2, 3], []]
_SPARSE = pa.UnionArray.from_sparse(_CODES, [pa.array([1, 2, 3, 4]), _TEXTS])
_DENSE = pa.UnionArray.from_dense(_CODES, pa.array([0, 0, 1, 1], pa.int32()), [pa.array([1, 2]), _TEXTS.slice(0, 2)])
_FLAGS = extension(pa.bool8(), pa.array([1, 0, 1, None], pa.int8()))
_OVERLAPPING = pa.ListViewArray.from_arrays(
    pa.array([2, 0, 1, 0], pa.int32()), pa.array([1, 2, 2, 0], pa.int32()), _TEXTS.cast(pa.string_view()),
    mask=pa.array([False, False, True, False]),
)  # fmt: skip

COLUMNS: dict[str, Any] = {
    "null": pa.nulls(ROWS),
    "bool": pa.array([True, None, False, True]),
    "float16": pa.array(np.arange(ROWS, dtype=np.float16)),
    "decimal32": pa.array([Decimal("1.5")] * ROWS, pa.decimal32(5, 2)),
    "decimal64": pa.array([Decimal("1.5")] * ROWS, pa.decimal64(12, 2)),
    "decimal128": pa.array([Decimal("1.5")] * ROWS, pa.decimal128(38, 2)),
    "decimal256": pa.array([Decimal("1.5")] * ROWS, pa.decimal256(50, 2)),
    "date32": pa.array([1] * ROWS, pa.date32()),
    "date64": pa.array([86_400_000] * ROWS, pa.date64()),
    "timestamp": pa.array([2**63 - 1] * ROWS, pa.timestamp("ns", "UTC")),
    "time32": pa.array([1] * ROWS, pa.time32("s")),
    "time64": pa.array([1] * ROWS, pa.time64("ns")),
    "duration": pa.array([1] * ROWS, pa.duration("ns")),
    "interval": pa.array([pa.MonthDayNano([1, 2, 3])] * ROWS, pa.month_day_nano_interval()),
    "string": _TEXTS,
    "large string": _TEXTS.cast(pa.large_string()),
    "binary": _TEXTS.cast(pa.binary()),
    "fixed binary": pa.array([b"abc"] * ROWS, pa.binary(3)),
    "string view": _TEXTS.cast(pa.string_view()),
    "binary view": _TEXTS.cast(pa.binary()).cast(pa.binary_view()),
    "list": pa.array(_LISTS),
    "list view": pa.array(_LISTS, pa.list_view(pa.int64())),
    "large list view": pa.array(_LISTS, pa.large_list_view(pa.int64())),
    "overlapping list view": _OVERLAPPING,
    "fixed list": pa.array([[1, 2], None, [3, 4], [5, 6]], pa.list_(pa.int64(), 2)),
    "struct": pa.array([{"x": 1}, None, {"x": None}, {"x": 4}]),
    "empty struct": pa.array([{}] * ROWS, pa.struct([])),
    "map": pa.array([[("a", 1)], None, [], [("b", 2), ("c", 3)]], pa.map_(pa.string(), pa.int64())),
    "dictionary": _TEXTS.dictionary_encode(),
    "dictionary of lists": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None]), pa.array([[1], [2, 3]])),
    "runs": _ENCODED,
    "runs of text": runs(_TEXTS.slice(0, 2), [1, 4]),
    "runs, sliced": runs(pa.array([9, 8, 7]), [3, 5, 8]).slice(2, 4),
    "runs of lists": runs(pa.array([[1], [2, 3]]), [1, 4]),
    "runs of structs": runs(pa.array([{"x": 1}, {"x": None}]), [1, 4]),
    "runs of a dictionary": runs(pa.array(["a", "b"]).dictionary_encode(), [1, 4]),
    "runs of nulls": runs(pa.nulls(1), [4]),
    "struct of runs": pa.StructArray.from_arrays([_ENCODED], names=["r"]),
    "struct of runs, sliced": pa.StructArray.from_arrays(
        [runs(pa.array([9, 8, 7]), [3, 5, 8])], names=["r"], mask=pa.array([False, True] * 4)
    ).slice(2, 4),
    "list of runs": pa.ListArray.from_arrays(_EACH, _ENCODED),
    "list of runs, sliced": pa.ListArray.from_arrays(
        pa.array([0, 1, 1, 2, 3, 4]), _ENCODED, mask=pa.array([False, True, False, False, False])
    ).slice(1, 4),
    "large list of runs": pa.LargeListArray.from_arrays(_EACH.cast(pa.int64()), _ENCODED),
    "fixed list of runs": pa.FixedSizeListArray.from_arrays(_ENCODED, 1),
    "map of runs": pa.MapArray.from_arrays(_EACH, pa.array(list("abcd")), _ENCODED),
    "list of string views": pa.ListArray.from_arrays(_EACH, _TEXTS.cast(pa.string_view())),
    "struct of a dictionary": pa.StructArray.from_arrays([_TEXTS.dictionary_encode()], names=["r"]),
    "sparse union": _SPARSE,
    "dense union": _DENSE,
    "union of encodings": pa.UnionArray.from_sparse(_CODES, [_ENCODED, _TEXTS.dictionary_encode()]),
    "dense union of encodings": pa.UnionArray.from_dense(_CODES, _EACH[:4], [_ENCODED, _TEXTS.dictionary_encode()]),
    "struct of a union": pa.StructArray.from_arrays([_SPARSE], names=["r"]),
    "list of a union": pa.ListArray.from_arrays(_EACH, _DENSE),
    "extension": _FLAGS,
    "list of an extension": pa.ListArray.from_arrays(_EACH, _FLAGS),
    "tensor": extension(pa.fixed_shape_tensor(pa.int32(), [2]), pa.array([[1, 2]] * ROWS, pa.list_(pa.int32(), 2))),
}
