"""Catches: filters that compare floats otherwise than the predicates, and Spark, do; constants that do not fit the type
of a column; errors of Arrow that come out as they are."""

from __future__ import annotations

import math
from datetime import time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import filter_holds
from tests.unit.every_type import COLUMNS

from windrow.engine.filters import passes
from windrow.engine.intake import as_table
from windrow.errors import InputError, SpecError
from windrow.spec import Filter

FLOATS = st.sampled_from([math.nan, -math.nan, math.inf, -math.inf, -0.0, 0.0, 0.1, 5.0, -5.0, 2.0**53])
VALUES = st.sampled_from([-0.0, 0.0, 0.1, 5.0, 5, 0, -5, float(2**53)])
COMPARISONS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
FILTERS = st.builds(Filter, st.just("v"), COMPARISONS, VALUES) | st.builds(
    Filter, st.just("v"), st.sampled_from(["in", "not in"]), st.lists(VALUES, min_size=1, max_size=3)
)


@given(FILTERS, st.lists(st.none() | FLOATS, max_size=12), st.sampled_from([pa.float64(), pa.float32()]))
def test_floats_compare_as_in_spark(filter_, values, type_):
    column = pa.chunked_array([pa.array(values[:5], type_), pa.array(values[5:], type_)])
    expected = [filter_holds(filter_, {"v": value}) for value in column.to_pylist()]
    assert passes(filter_, column, "a").tolist() == expected


def test_large_integers_compare_with_fractions():
    column = pa.chunked_array([[2**62, -(2**62), 3, None]])
    assert passes(Filter("v", ">", 2.5), column, "a").tolist() == [True, False, True, False]
    assert passes(Filter("v", "=", 3.0), column, "a").dtype == np.bool_


FAR = [2**63, -(2**63) - 1, 2**64, 2**70, -(10**300)]
WHOLE = st.sampled_from([0, 1, -5, 127, 128, 255, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, *FAR])
INTEGERS = {
    pa.int8(): [0, 1, -5, 127, None],
    pa.int64(): [0, 1, 2**53 + 1, 2**63 - 1, -(2**63), None],
    pa.uint64(): [0, 1, 2**64 - 1, None],
    pa.decimal32(7, 2): [Decimal("0"), Decimal("1"), Decimal("-5.25"), None],
    pa.decimal64(15, 0): [Decimal(1), Decimal(2**31), None],
    pa.decimal128(38, 2): [Decimal("1"), Decimal(2**63), None],
    pa.decimal256(60, 2): [Decimal("1"), Decimal(2**70), None],
}


@given(COMPARISONS, WHOLE, st.lists(WHOLE, min_size=1, max_size=3), st.sampled_from(sorted(INTEGERS, key=str)))
def test_whole_numbers_of_any_size_compare_exactly(op, value, several, type_):
    """An integer that the column's type cannot hold is still larger, or less, than all that it can."""
    column = pa.chunked_array([pa.array(INTEGERS[type_], type_)])
    filters = [Filter("v", op, value), Filter("v", "in", several), Filter("v", "not in", several)]
    for filter_ in filters:
        expected = [filter_holds(filter_, {"v": cell}) for cell in INTEGERS[type_]]
        assert passes(filter_, column, "a").tolist() == expected, (filter_, type_)


def test_decimals_compare_with_whole_numbers_and_fractions():
    column = pa.chunked_array([pa.array([Decimal("1"), Decimal("2.5"), None], pa.decimal128(9, 2))])
    assert passes(Filter("v", "in", [1, 2]), column, "a").tolist() == [True, False, False]
    assert passes(Filter("v", "in", [1, 2.5]), column, "a").tolist() == [True, True, False]
    assert passes(Filter("v", ">", 2.4), column, "a").tolist() == [False, True, False]
    assert passes(Filter("v", "=", "2.5"), column, "a").tolist() == [False, True, False]


@pytest.mark.parametrize("type_", [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")], ids=str)
def test_times_of_day_compare_with_texts(type_):
    column = pa.chunked_array([pa.array([time(0, 0), time(12, 30), time(23, 59, 59), None], type_)])
    assert passes(Filter("v", "in", ["12:30:00", "23:59:59.5"]), column, "a").tolist() == [False, True, False, False]
    assert passes(Filter("v", "=", "12:30"), column, "a").tolist() == [False, True, False, False]
    assert passes(Filter("v", ">=", "12:30:00.5"), column, "a").tolist() == [False, False, True, False]


VALUES_OF_ALL_KINDS = [1, 2**70, 1.5, 1e308, True, "1", "x", "2024-01-01", "2024-01-01T00:00:00Z", "12:30:00"]


@pytest.mark.parametrize("name", COLUMNS)
def test_a_value_fits_a_column_for_all_operators_or_for_none(name):
    """`=` and `in` agree on every column type, and what does not fit is an InputError."""
    column = as_table(pa.table({"v": COLUMNS[name]}), "a")["v"]
    for value in VALUES_OF_ALL_KINDS:
        answers = []
        for filter_ in (Filter("v", "=", value), Filter("v", "in", [value])):
            try:
                answers.append(passes(filter_, column, "a").tolist())
            except InputError as error:
                assert f"does not fit the column's type {column.type}" in str(error)
                answers.append(None)
        assert answers[0] == answers[1], value


def test_null_columns_pass_nothing_but_is_null():
    column = pa.chunked_array([pa.nulls(2)])
    assert passes(Filter("v", "=", 1), column, "a").tolist() == [False, False]
    assert passes(Filter("v", "not in", ["x"]), column, "a").tolist() == [False, False]
    assert passes(Filter("v", "is null"), column, "a").tolist() == [True, True]


@pytest.mark.parametrize("value", [10**400, -(10**400), math.inf, math.nan])
def test_constants_that_no_float_can_hold_are_refused(value):
    with pytest.raises(SpecError, match="needs a finite number that a float can hold"):
        Filter("v", "<", value)
