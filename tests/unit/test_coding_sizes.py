"""Can catch: a payload counted too low or too high, or differently when cut into other chunks and slices."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.arrow_columns import as_dictionary, columns_of

from windrow.state.coding import row_bytes

LIST, MAP = pa.list_(pa.string()), pa.map_(pa.string(), pa.int16())
STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.list_(pa.bool_()))])
texts = st.none() | st.text(max_size=20)
nested = st.none() | st.lists(texts, max_size=3)
pairs = st.lists(st.integers(0, 9), min_size=2, max_size=2)
flags = st.none() | st.lists(st.none() | st.booleans(), max_size=9)
structs = st.none() | st.fixed_dictionaries({"a": st.none() | st.integers(0, 9), "b": texts, "c": flags})

CASES = {
    "null": (pa.null(), st.none()),
    "bool": (pa.bool_(), st.none() | st.booleans()),
    "int16": (pa.int16(), st.none() | st.integers(0, 99)),
    "timestamp": (pa.timestamp("us"), st.none() | st.integers(0, 99)),
    "decimal128": (pa.decimal128(5, 0), st.none() | st.integers(0, 99)),
    "decimal256": (pa.decimal256(5, 0), st.none() | st.integers(0, 99)),
    "fixed_size_binary": (pa.binary(3), st.none() | st.binary(min_size=3, max_size=3)),
    "string": (pa.string(), texts),
    "large_string": (pa.large_string(), texts),
    "string_view": (pa.string_view(), texts),
    "binary": (pa.binary(), st.none() | st.binary(max_size=20)),
    "large_binary": (pa.large_binary(), st.none() | st.binary(max_size=20)),
    "list": (LIST, st.none() | st.lists(texts, max_size=3)),
    "large_list": (pa.large_list(pa.int8()), st.none() | st.lists(st.integers(0, 9), max_size=3)),
    "list of lists": (pa.list_(LIST), st.none() | st.lists(nested, max_size=3)),
    "list_view": (pa.list_view(pa.string()), st.none() | st.lists(texts, max_size=3)),
    "large_list_view": (pa.large_list_view(pa.int8()), st.none() | st.lists(st.integers(0, 9), max_size=3)),
    "fixed_size_list": (pa.list_(pa.int16(), 2), st.none() | pairs),
    "fixed_size_list of texts": (
        pa.list_(pa.string(), 2),
        st.none() | st.lists(texts, min_size=2, max_size=2),
    ),
    "map": (MAP, st.none() | st.dictionaries(st.text(max_size=5), st.integers(0, 9), max_size=3)),
    "struct": (STRUCT, structs),
}


def bits_of(value, type_):
    """The slow, obvious twin: bits of one Python value in Arrow's layout of a type, value by value."""
    t = pa.types
    if t.is_null(type_):
        return 0
    if t.is_string(type_) or t.is_binary(type_):
        return 1 + 32 + 8 * length(value)
    if t.is_large_string(type_) or t.is_large_binary(type_):
        return 1 + 64 + 8 * length(value)
    if t.is_string_view(type_):
        return 1 + 128 + 8 * (length(value) if length(value) > 12 else 0)
    if t.is_struct(type_):
        fields = value or {}
        return 1 + sum(bits_of(fields.get(f.name), f.type) for f in type_)
    if t.is_map(type_):
        pairs = (value or {}).items()
        return 1 + 32 + sum(1 + bits_of(k, type_.key_type) + bits_of(v, type_.item_type) for k, v in pairs)
    if t.is_fixed_size_list(type_):
        return 1 + sum(bits_of(v, type_.value_type) for v in value or [None] * type_.list_size)
    if t.is_nested(type_):
        heads = {"list": 32, "large_list": 64, "list_view": 64, "large_list_view": 128}
        return 1 + heads[str(type_).split("<")[0]] + sum(bits_of(v, type_.value_type) for v in value or [])
    return 1 + type_.bit_width


def length(value):
    return len(value.encode() if isinstance(value, str) else value or b"")


def arrow_values(values, type_):
    """Arrow takes a map as a list of pairs."""
    return [list(v.items()) if isinstance(v, dict) and pa.types.is_map(type_) else v for v in values]


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
def test_a_rows_bytes_are_those_of_its_values(name, data):
    type_, values = CASES[name]
    held = data.draw(st.lists(values, max_size=8))
    column = data.draw(columns_of(arrow_values(held, type_), type_))
    expected = [math.ceil(bits_of(value, type_) / 8) for value in held]
    got = row_bytes(pa.table({"x": column}), ["x"])
    assert got.dtype == np.int64
    assert got.tolist() == expected


@given(st.data(), st.sampled_from([(pa.string(), texts), (pa.int16(), st.none() | st.integers(0, 9))]))
def test_a_dictionary_value_counts_as_if_it_stood_in_the_row(data, case):
    type_, values = case
    held = data.draw(st.lists(values, max_size=8))
    column = data.draw(as_dictionary(held, type_))
    got = row_bytes(pa.table({"x": column}), ["x"])
    assert got.tolist() == [math.ceil(bits_of(value, type_) / 8) for value in held]


def test_bits_of_all_columns_are_rounded_up_once():
    table = pa.table({"a": [True, None], "b": [False, True], "c": ["", "xyz"], "d": [1, 2]})
    # 2 bits for each bool; 33 and 33 + 24 for the string.
    assert row_bytes(table, ["a", "b", "c"]).tolist() == [5, 8]
    assert row_bytes(table.to_batches()[0], ["a"]).tolist() == [1, 1]
    assert row_bytes(table, []).tolist() == [0, 0]


def test_a_run_end_encoded_value_counts_as_if_it_were_repeated():
    column = pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "bcd"])
    assert row_bytes(pa.table({"x": column.slice(1)}), ["x"]).tolist() == [6, 8]


def test_an_extension_counts_as_its_storage():
    column = pa.array([b"0123456789abcdef"] * 2, pa.uuid())
    assert row_bytes(pa.table({"x": column}), ["x"]).tolist() == [17, 17]


def test_a_union_counts_the_average():
    column = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
    assert row_bytes(pa.table({"x": column}), ["x"]).tolist() == [column.nbytes // 2] * 2


def test_what_lies_under_a_null_is_not_carried_along():
    under = pa.ListArray.from_arrays(pa.array([0, 2, 3]), pa.array([1, 2, 3]), mask=pa.array([True, False]))
    assert row_bytes(pa.table({"x": under}), ["x"]).tolist() == [5, 13]


def test_the_sum_is_what_arrow_allocates():
    n = 10_000
    table = pa.table({"i": pa.array(range(n)), "s": pa.array([str(i) * 3 for i in range(n)])})
    with_validity = table.nbytes + 2 * n / 8
    assert abs(row_bytes(table, ["i", "s"]).sum() - with_validity) < n  # one byte a row for rounding
    assert pc.sum(pc.binary_length(table["s"])).as_py() < row_bytes(table, ["s"]).sum()
