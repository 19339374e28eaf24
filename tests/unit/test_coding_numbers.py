"""Can catch: numbers that change value or order on their way into codes, and widths in the wrong unit."""

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.arrow_columns import columns_of

import windrow as wr
from windrow.errors import SpecError
from windrow.state.coding import number_codes, ordered_codes, width_in_units

int64s = st.integers(-(2**63), 2**63 - 1)


def listed(column, type_, domain):
    codes, valid = number_codes(column, type_, domain)
    assert codes.dtype == np.int64
    values = codes if domain == "int" else codes.view(np.float64)
    known = np.ones(len(codes), dtype=bool) if valid is None else valid
    assert not codes[~known].any()
    return [v if k else None for v, k in zip(values.tolist(), known.tolist(), strict=True)]


@given(st.data(), st.lists(st.none() | int64s, max_size=12))
def test_integers_are_their_own_codes(data, values):
    assert listed(data.draw(columns_of(values, pa.int64())), pa.int64(), "int") == values


@given(st.data(), st.lists(st.none() | st.floats(width=32, allow_nan=False), max_size=12))
def test_floats_keep_their_bits(data, values):
    assert listed(data.draw(columns_of(values, pa.float32())), pa.float64(), "float") == values


@given(st.data(), st.lists(st.none() | st.dates(dt.date(1900, 1, 1), dt.date(2200, 1, 1)), max_size=12))
def test_dates_count_days(data, values):
    expected = [None if v is None else (v - dt.date(1970, 1, 1)).days for v in values]
    for type_ in (pa.date32(), pa.date64()):
        assert listed(data.draw(columns_of(values, type_)), pa.date32(), "int") == expected


def test_other_types_count_in_the_common_unit():
    seconds = pa.array([3, None], pa.duration("s"))
    assert listed(seconds, pa.duration("ms"), "int") == [3000, None]
    assert listed(pa.array([3, None], pa.time32("s")), pa.time64("us"), "int") == [3_000_000, None]
    assert listed(pa.array([3, None], pa.timestamp("s")), pa.timestamp("ns"), "int") == [3 * 10**9, None]
    assert listed(pa.array([Decimal(7), None], pa.decimal128(18, 0)), pa.int64(), "int") == [7, None]
    assert listed(pa.array([Decimal("0.1"), None], pa.decimal128(9, 1)), pa.float64(), "float") == [0.1, None]
    assert listed(pa.array([7, None], pa.int8()), pa.float64(), "float") == [7.0, None]
    assert listed(pa.nulls(2), pa.int64(), "int") == [None, None]
    assert listed(pa.array([7, None]).dictionary_encode(), pa.int64(), "int") == [7, None]


def test_a_uint64_beyond_int64_is_no_number():
    codes, valid = number_codes(pa.array([2**63, 2**63 - 1, None, 0], pa.uint64()), pa.int64(), "int", "left.v")
    assert valid.tolist() == [False, True, False, True]
    assert codes.tolist() == [0, 2**63 - 1, 0, 0]


def test_numbers_that_are_all_uint64_keep_their_order_and_distances():
    values = [0, 1, 2**63 - 1, 2**63, 2**63 + 5, 2**64 - 1]
    codes, valid = number_codes(pa.array([*values, None], pa.uint64()), pa.uint64(), "int", "left.v")
    assert valid.tolist() == [True] * 6 + [False]
    assert [code + 2**63 for code in codes.tolist()[:6]] == values
    streams = [wr.Stream("a", "t", 9), wr.Stream("b", "t", 9)]
    rows = pa.table({"t": [1, 1], "x": pa.array([2**63 - 1, 2**63 + 1], pa.uint64())})
    less = wr.Compare("a.x", "<", "b.x")
    for on, expected in ((wr.Band("a.x", "b.x", 2), 4), (wr.Band("a.x", "b.x", 1), 2), (less, 1)):
        engine = wr.Engine(wr.Query(streams=streams, on=[on]))
        assert engine.push({"a": rows, "b": rows}).num_rows == expected


def test_domain_and_type_belong_together():
    with pytest.raises(ValueError, match="domain"):
        number_codes(pa.array([1]), pa.int64(), "float")


def spark_key(value):
    """Python's sort key for Spark's order of floats."""
    return (1, 0.0) if math.isnan(value) else (0, value + 0.0)


SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan]


@given(st.lists(st.floats() | st.sampled_from(SPECIAL), max_size=12))
def test_ordered_codes_of_floats_are_in_sparks_order(values):
    codes = ordered_codes(np.array(values, dtype=np.float64).view(np.int64), "float")
    assert codes.dtype == np.int64
    for i, a in enumerate(values):
        for j, b in enumerate(values):
            assert (codes[i] < codes[j]) == (spark_key(a) < spark_key(b))
            assert (codes[i] == codes[j]) == (spark_key(a) == spark_key(b))


@given(st.lists(int64s))
def test_ordered_codes_of_integers_are_the_integers(values):
    assert ordered_codes(np.array(values, dtype=np.int64), "int").tolist() == values


def test_ordered_codes_leave_their_argument_alone():
    bits = np.array([-0.0, math.nan]).view(np.int64)
    before = bits.copy()
    bits.setflags(write=False)
    ordered_codes(bits, "float")
    assert (bits == before).all()


def test_widths_are_numbers_for_numbers_and_durations_for_times():
    hour = 3600 * 10**9
    assert width_in_units(5, "steps", pa.int64(), "band") == 5
    assert width_in_units(0.5, "steps", pa.float64(), "band") == Fraction(1, 2)
    assert width_in_units(36 * hour, "ns", pa.date32(), "band") == Fraction(3, 2)
    assert width_in_units(hour, "ns", pa.timestamp("ms"), "band") == 3_600_000
    assert width_in_units(1, "ns", pa.duration("us"), "band") == Fraction(1, 1000)
    with pytest.raises(SpecError, match="band: the columns are numbers"):
        width_in_units(hour, "ns", pa.int64(), "band")
    with pytest.raises(SpecError, match=r"band: .*duration such as '10 minutes'"):
        width_in_units(5, "steps", pa.timestamp("ms"), "band")
