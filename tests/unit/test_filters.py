"""Catches: filters that compare floats otherwise than the predicates, and Spark, do."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import filter_holds

from windrow.engine.filters import passes
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
