"""Can catch: times in the wrong unit or zone, kinds mixed, nulls that pass, landmarks off by one."""

import datetime as dt
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.arrow_columns import as_dictionary, columns_of

from windrow.errors import SpecError, TimeError
from windrow.spec import Window
from windrow.state.coding import TimeDomain, duration_in_units, moment, time_domain, times

MICROSECONDS = TimeDomain("timestamp", "us")
SECONDS = TimeDomain("timestamp", "s")
UTC_SECONDS = TimeDomain("timestamp", "s", "UTC")
INTEGER = TimeDomain("integer", "steps")
RANK = TimeDomain("rank", "steps")
HOUR_NS = 3600 * 10**9


def domain_of(*types):
    return time_domain(types, [f"stream{i}.t" for i in range(len(types))])


@pytest.mark.parametrize(
    ("types", "domain"),
    [
        ([pa.timestamp("s"), pa.timestamp("us")], MICROSECONDS),
        ([pa.timestamp("s", tz="UTC"), pa.timestamp("ns", tz="UTC")], TimeDomain("timestamp", "ns", "UTC")),
        ([pa.timestamp("s", tz="Asia/Tokyo")] * 2, TimeDomain("timestamp", "s", "Asia/Tokyo")),
        ([pa.timestamp("s", tz="Asia/Tokyo"), pa.timestamp("s", tz="+01:00")], UTC_SECONDS),
        ([pa.date32(), pa.date64()], TimeDomain("date", "us")),
        ([pa.int8(), pa.uint64()], INTEGER),
        ([pa.dictionary(pa.int8(), pa.int64()), pa.int64()], INTEGER),
        ([None, None], RANK),
    ],
    ids=str,
)
def test_the_common_scale(types, domain):
    assert domain_of(*types) == domain
    assert domain_of(*reversed(types)) == domain


@pytest.mark.parametrize(
    "types",
    [
        (pa.timestamp("s"), pa.int64()),
        (pa.timestamp("s"), pa.date32()),
        (pa.timestamp("s"), pa.timestamp("s", tz="UTC")),
        (pa.int64(), pa.date32()),
    ],
    ids=str,
)
def test_a_mix_is_an_error_that_says_which(types):
    with pytest.raises(TimeError) as error:
        domain_of(*types)
    assert f"stream0.t is {types[0]}" in str(error.value)
    assert f"stream1.t is {types[1]}" in str(error.value)


def test_a_stream_without_time_beside_one_with_it():
    with pytest.raises(TimeError, match=r"stream0\.t is int64, right has no time column"):
        time_domain([pa.int64(), None], ["stream0.t", "right"])


@pytest.mark.parametrize(
    "type_", [pa.float64(), pa.string(), pa.duration("s"), pa.time32("s"), pa.bool_(), pa.null()], ids=str
)
def test_other_types_are_no_times(type_):
    with pytest.raises(TimeError, match=r"stream1\.t has type .*cast it to a timestamp"):
        domain_of(pa.timestamp("s"), type_)


@given(st.data(), st.lists(st.integers(-(2**31), 2**31), max_size=12))
def test_timestamps_count_in_the_domains_unit(data, values):
    column = data.draw(columns_of(values, pa.timestamp("s")))
    got, valid = times(column, MICROSECONDS, "left.t")
    assert valid is None
    assert got.dtype == np.int64
    assert got.tolist() == [v * 10**6 for v in values]
    assert times(column, SECONDS, "left.t")[0].tolist() == values


@given(st.data(), st.lists(st.dates(dt.date(1900, 1, 1), dt.date(2200, 1, 1)), max_size=12))
def test_dates_count_microseconds(data, values):
    expected = [(v - dt.date(1970, 1, 1)) // dt.timedelta(microseconds=1) for v in values]
    for type_ in (pa.date32(), pa.date64()):
        column = data.draw(columns_of(values, type_))
        assert times(column, TimeDomain("date", "us"), "left.t")[0].tolist() == expected


@given(st.data(), st.lists(st.integers(0, 127), max_size=12))
def test_integers_stay_what_they_are(data, values):
    for type_ in (pa.int8(), pa.int64(), pa.uint64()):
        assert times(data.draw(columns_of(values, type_)), INTEGER, "left.t")[0].tolist() == values
        assert times(data.draw(as_dictionary(values, type_)), INTEGER, "left.t")[0].tolist() == values


def test_zones_are_one_scale():
    noon = dt.datetime(2024, 5, 31, 12, tzinfo=dt.UTC)
    for zone in ("UTC", "Asia/Tokyo", "+05:30"):
        column = pa.array([noon], pa.timestamp("ms", tz=zone))
        assert times(column, UTC_SECONDS, "left.t")[0].tolist() == [int(noon.timestamp())]


def timed(column, domain):
    found, valid = times(column, domain, "left.t")
    return [int(t) if ok else None for t, ok in zip(found, valid, strict=True)]


def test_a_null_is_no_time():
    column = pa.chunked_array([[None, 1], [2, None]], pa.timestamp("s"))
    assert timed(column, SECONDS) == [None, 1, 2, None]
    hidden = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1]), pa.array([5, None]))
    assert timed(hidden, INTEGER) == [5, None, None]


def test_a_time_that_does_not_fit_its_unit_is_none():
    assert timed(pa.array([2**63, 7, None], pa.uint64()), INTEGER) == [None, 7, None]
    assert timed(pa.array([2**40, 7, -(2**40)], pa.timestamp("s")), TimeDomain("timestamp", "ns")) == [
        None,
        7 * 10**9,
        None,
    ]
    assert timed(pa.array([2**31 - 1, 0], pa.date32()), TimeDomain("date", "us")) == [None, 0]
    ends = [2**63 - 1, -(2**63) + 1]
    assert timed(pa.array([*ends, -(2**63), None]), INTEGER) == [*ends, None, None]  # the least is none, as NaT is


def test_durations_in_units():
    assert duration_in_units(HOUR_NS, "ns", SECONDS, "window") == 3600
    assert duration_in_units(250_000_000, "ns", SECONDS, "window") == Fraction(1, 4)
    assert duration_in_units(HOUR_NS, "ns", TimeDomain("date", "us"), "window") == 3600 * 10**6
    assert duration_in_units(7, "steps", INTEGER, "window") == 7
    assert duration_in_units(7, "steps", RANK, "window") == 7
    assert duration_in_units(0, "steps", SECONDS, "lateness") == 0
    assert duration_in_units(0, "ns", INTEGER, "lateness") == 0


def test_durations_of_the_other_kind_are_refused():
    with pytest.raises(SpecError, match="window of left: times are integers"):
        duration_in_units(HOUR_NS, "ns", INTEGER, "window of left")
    with pytest.raises(SpecError, match="window of left: times are row numbers"):
        duration_in_units(HOUR_NS, "ns", RANK, "window of left")
    with pytest.raises(SpecError, match="times are timestamps, so 7 needs a unit, as in '7 seconds'"):
        duration_in_units(7, "steps", SECONDS, "window of left")


@pytest.mark.parametrize(
    ("text", "domain", "expected"),
    [
        ("1970-01-02", SECONDS, 86_400),
        ("1970-01-01T00:00:01", MICROSECONDS, 10**6),
        ("1970-01-01 00:00:01.5", MICROSECONDS, 1_500_000),
        ("1970-01-01T00:00:01.000001", TimeDomain("timestamp", "ns"), 10**9 + 1000),
        ("1970-01-01T00:00:01.000001", SECONDS, 2),  # the first whole second that is not before it
        ("1969-12-31T23:59:58.5", SECONDS, -1),
        ("1970-01-02", TimeDomain("date", "us"), 86_400 * 10**6),
        ("1970-01-01T00:00:00Z", TimeDomain("timestamp", "s", "Asia/Tokyo"), 0),
        ("1970-01-01T01:00:00+01:00", TimeDomain("timestamp", "s", "UTC"), 0),
        ("1970-01-01T09:00:00", TimeDomain("timestamp", "s", "Asia/Tokyo"), 9 * 3600),  # without an offset: UTC
        ("1970-01-01T02:00:00.25", TimeDomain("timestamp", "ms", "+02:00"), 2 * 3_600_000 + 250),
        ("2024-07-01", TimeDomain("timestamp", "s", "Europe/Berlin"), 1719792000),
        (5, INTEGER, 5),
        (5, RANK, 5),
    ],
)
def test_moments(text, domain, expected):
    assert moment(Window.landmark(text), domain) == expected


@pytest.mark.parametrize(
    ("since", "domain", "message"),
    [
        ("1970-01-01T00:00:00Z", SECONDS, "leave the offset out"),
        (5, SECONDS, "write an ISO text"),
        ("1970-01-01", INTEGER, "write an integer"),
    ],
)
def test_moments_that_are_none(since, domain, message):
    with pytest.raises(SpecError, match=rf"landmark of left: .*{message}"):
        moment(Window.landmark(since), domain, "landmark of left")
