"""Can catch: equal keys with other codes, other keys called equal, rows lost to slices, chunks or nulls."""

import datetime as dt
import math
import random
from decimal import Decimal, localcontext

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.arrow_columns import as_dictionary, columns_of

from windrow.state.coding import cast_keys, common_key_type, exact_codes, key_codes, keys_equal

NAN = math.nan
floats = st.floats(width=16) | st.sampled_from([0.0, -0.0, NAN, 1.0, 2.0])
small = st.integers(0, 100)
digits = st.decimals(0, 99, places=1, allow_nan=False)
days = st.dates(dt.date(1960, 1, 1), dt.date(2100, 1, 1))
moments = st.integers(-(2**28), 2**32).map(lambda s: dt.datetime(1970, 1, 1) + dt.timedelta(seconds=s))
clocks = st.times().map(lambda t: t.replace(microsecond=0))
spans = st.timedeltas(dt.timedelta(-9), dt.timedelta(9)).map(lambda t: dt.timedelta(seconds=t.days))
texts = st.text(max_size=20) | st.sampled_from(["a", "ab", "abcdefgh", "abcdefghi"])

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
DECIMALS = [pa.decimal128(3, 1), pa.decimal128(38, 5), pa.decimal256(50, 3), pa.decimal256(76, 25)]
if hasattr(pa, "decimal32"):
    DECIMALS += [pa.decimal32(5, 2), pa.decimal64(15, 3)]

# Types whose values compare with each other, and values that all of them hold.
COMPARABLE = {
    "integers": (INTEGERS, small),
    "integers and decimals": (INTEGERS + DECIMALS, st.integers(0, 99)),
    "decimals": (DECIMALS, digits),
    "integers and floats": ([*INTEGERS, pa.float32(), pa.float64(), pa.decimal128(5, 2)], small),
    "floats": ([pa.float16(), pa.float32(), pa.float64()], floats),
    "booleans": ([pa.bool_()], st.booleans()),
    "dates": ([pa.date32(), pa.date64()], days),
    "timestamps": ([pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")], moments),
    "times": ([pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")], clocks),
    "durations": ([pa.duration(unit) for unit in ("s", "ms", "us", "ns")], spans),
    "strings": ([pa.string(), pa.large_string(), pa.string_view()], texts),
    "binaries": ([pa.binary(), pa.large_binary(), pa.binary_view()], st.binary(max_size=20)),
    "fixed binaries": ([pa.binary(3), pa.binary(), pa.binary_view()], st.binary(min_size=3, max_size=3)),
}


def plain(value):
    """A value such that Python's equality of plain values is Spark's equality of keys; None for a null."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


@st.composite
def two_columns(draw, names=tuple(COMPARABLE)):
    """Two columns of comparable types, with the plain values of each and their common type."""
    types, values = COMPARABLE[draw(st.sampled_from(names))]
    # Few different values, the same on both sides: repeats and matches are the rule.
    pool = draw(st.lists(values, min_size=1, max_size=4))
    rows = st.lists(st.none() | st.sampled_from(pool), max_size=12)
    made = []
    for _ in range(2):
        type_, held = draw(st.sampled_from(types)), draw(rows)
        if draw(st.booleans()):
            column = draw(columns_of(held, type_))
        else:
            column = draw(as_dictionary(held, type_))
        made.append((column, [plain(v) for v in held]))
    (a, held_a), (b, held_b) = made
    return a, held_a, b, held_b, common_key_type([a.type, b.type], ["left.k", "right.k"])


def coded(columns, types, rows, **options):
    """Codes with None for rows without a key."""
    codes, valid = key_codes(columns, types, **options)
    assert codes.dtype == np.uint64
    assert len(codes) == rows
    assert valid is None or (valid.dtype == np.bool_ and not valid.all())
    known = [True] * rows if valid is None else valid.tolist()
    assert all(code == 0 for code, k in zip(codes.tolist(), known, strict=True) if not k)
    return [code if k else None for code, k in zip(codes.tolist(), known, strict=True)]


def assert_same_equality(codes_a, held_a, codes_b, held_b):
    assert [c is None for c in codes_a] == [v is None for v in held_a]
    for code_a, value_a in zip(codes_a, held_a, strict=True):
        for code_b, value_b in zip(codes_b, held_b, strict=True):
            if value_a is not None and value_b is not None:
                assert (code_a == code_b) == (value_a == value_b), (value_a, value_b)


@given(two_columns())
def test_codes_are_equal_where_values_are_in_whatever_types(case):
    a, held_a, b, held_b, type_ = case
    codes_a, codes_b = coded([a], [type_], len(held_a)), coded([b], [type_], len(held_b))
    assert_same_equality(codes_a, held_a, codes_b, held_b)
    assert_same_equality(codes_b, held_b, codes_a, held_a)


@given(two_columns(), two_columns())
def test_codes_of_two_columns_are_equal_where_both_values_are(first, second):
    rows_a, rows_b = (min(len(first[i]), len(second[i])) for i in (0, 2))
    types = [first[4], second[4]]
    codes_a = coded([first[0].slice(0, rows_a), second[0].slice(0, rows_a)], types, rows_a)
    codes_b = coded([first[2].slice(0, rows_b), second[2].slice(0, rows_b)], types, rows_b)
    held_a, held_b = (
        [None if None in pair else pair for pair in zip(first[i][:n], second[i][:n], strict=True)]
        for i, n in ((1, rows_a), (3, rows_b))
    )
    assert_same_equality(codes_a, held_a, codes_b, held_b)


@given(two_columns())
def test_keys_equal_is_equality_of_plain_values(case):
    a, held_a, b, held_b, type_ = case
    pairs = [(i, j) for i in range(len(held_a)) for j in range(len(held_b))]
    (left,), (right,) = cast_keys([a], [type_]), cast_keys([b], [type_])
    at_left = left.take(pa.array([i for i, _ in pairs], pa.int64()))
    at_right = right.take(pa.array([j for _, j in pairs], pa.int64()))
    equal = keys_equal([at_left], [at_right])
    assert equal.dtype == np.bool_
    assert equal.tolist() == [held_a[i] is not None and held_a[i] == held_b[j] for i, j in pairs]


@given(st.data(), st.sampled_from(["floats", "strings", "decimals", "integers"]))
def test_keys_equal_reads_chunks_and_slices(data, name):
    types, values = COMPARABLE[name]
    type_ = common_key_type(types, [str(t) for t in types])
    rows = data.draw(st.lists(st.tuples(st.none() | values, st.none() | values), max_size=12))
    (a,) = cast_keys([data.draw(columns_of([a for a, _ in rows], types[-1]))], [type_])
    (b,) = cast_keys([data.draw(columns_of([b for _, b in rows], types[0]))], [type_])
    expected = [x is not None and plain(x) == plain(y) for x, y in rows]
    assert keys_equal([a], [b]).tolist() == expected
    assert keys_equal([a, a], [b, a]).tolist() == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=50))
def test_exact_codes_never_collide(values):
    assert exact_codes([pa.int64()])
    assert len(set(coded([pa.array(values, pa.int64())], [pa.int64()], len(values)))) == len(values)


@pytest.mark.parametrize("entries", [["a", None, "b"], ["a", None, "b", "c", "d", "e", "f"]], ids=len)
def test_dictionaries_shorter_and_longer_than_their_chunk_give_the_codes_of_their_values(entries):
    column = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 2, 0], pa.int8()), pa.array(entries))
    for type_ in (pa.string(), pa.large_string()):
        codes = coded([column], [type_], 5)
        assert codes == coded([pa.array(["a", None, None, "b", "a"])], [type_], 5)
        assert [c is None for c in codes] == [False, True, True, False, False]


def test_nan_equals_nan_and_zero_equals_zero_and_null_equals_nothing():
    other_nan = np.array([0xFFF8000000000123], dtype=np.uint64).view(np.float64)[0]
    a = pa.array([NAN, NAN, 0.0, NAN, None, None, 1.0])
    b = pa.array([NAN, other_nan, -0.0, 1.0, None, NAN, NAN])
    expected = [True, True, True, False, False, False, False]
    assert keys_equal([a], [b]).tolist() == expected
    assert keys_equal([b], [a]).tolist() == expected
    codes_a, codes_b = coded([a], [pa.float64()], 7), coded([b], [pa.float64()], 7)
    assert [x is not None and x == y for x, y in zip(codes_a, codes_b, strict=True)] == expected


@pytest.mark.parametrize(("precision", "scale"), [(15, 2), (16, 2), (18, 6), (38, 10), (38, 0), (70, 30), (9, -2)])
def test_decimals_of_all_lengths_become_the_nearest_float(precision, scale):
    rng = random.Random(precision)
    signed = [rng.randrange(-(10**precision) + 1, 10**precision) for _ in range(5_000)]
    with localcontext(prec=100):
        values = [Decimal(v).scaleb(-scale) for v in signed]
    make = pa.decimal128 if precision <= 38 else pa.decimal256
    (got,) = cast_keys([pa.array(values, make(precision, scale))], [pa.float64()])
    assert got.to_pylist() == [float(v) for v in values]


def test_mask_makes_hashes_collide_but_not_exact_codes():
    strings, numbers = pa.array(["a", "b", "c", None]), pa.array([1, 2, 3, None])
    assert coded([strings], [pa.string()], 4, mask=0) == [0, 0, 0, None]
    assert coded([numbers, numbers], [pa.int64()] * 2, 4, mask=0) == [0, 0, 0, None]
    assert len(set(coded([numbers], [pa.int64()], 4, mask=0))) == 4


def test_the_extremes_of_a_type_keep_their_values():
    top = pa.array([2**64 - 1, 2**63], pa.uint64())
    low = pa.array([-1, -(2**63), 5], pa.int64())
    type_ = common_key_type([top.type, low.type], ["a", "b"])
    codes = coded([top], [type_], 2) + coded([low], [type_], 3)
    assert len(set(codes)) == 5
    five = coded([pa.array([5], pa.uint64())], [type_], 1)
    assert five == codes[4:]


def test_an_integer_too_long_for_a_float_is_rounded_as_spark_does():
    codes = coded([pa.array([2**53, 2**53 + 1])], [pa.float64()], 2)
    assert codes[0] == codes[1]


@given(st.lists(st.none() | st.integers(-(10**12) + 1, 10**12 - 1)))
def test_a_short_decimal_equals_the_float_nearest_to_it(values):
    held = [None if v is None else Decimal(v).scaleb(-2) for v in values]
    decimals = pa.array([None, *held], pa.decimal128(12, 2)).slice(1)
    (as_floats,) = cast_keys([decimals], [pa.float64()])
    assert as_floats.to_pylist() == [None if v is None else float(v) for v in held]


def test_zones_do_not_matter_instants_do():
    noon = dt.datetime(2024, 5, 31, 12, tzinfo=dt.UTC)
    utc = pa.array([noon], pa.timestamp("s", tz="UTC"))
    berlin = pa.array([noon], pa.timestamp("us", tz="Europe/Berlin"))
    type_ = common_key_type([utc.type, berlin.type], ["a", "b"])
    assert coded([utc], [type_], 1) == coded([berlin], [type_], 1)


def test_a_null_column_has_no_keys():
    nulls = pa.nulls(3)
    for type_ in (pa.null(), pa.string(), pa.int64(), pa.decimal128(5, 2)):
        assert coded([nulls], [type_], 3) == [None] * 3
        assert not keys_equal(cast_keys([nulls], [type_]), cast_keys([nulls], [type_])).any()


@pytest.mark.parametrize("type_", [pa.int64(), pa.string(), pa.bool_(), pa.float64(), pa.decimal128(5, 2)], ids=str)
def test_no_rows_no_codes(type_):
    for column in (pa.array([], type_), pa.chunked_array([], type_), pa.chunked_array([[], []], type_)):
        assert coded([column], [type_], 0) == []
        assert keys_equal([column], [column]).tolist() == []


@pytest.mark.parametrize(
    ("type_", "common", "values", "bad"),
    [
        (pa.timestamp("s"), pa.timestamp("ns"), [5, -5, 0], [2**40, -(2**40)]),
        (pa.duration("s"), pa.duration("ns"), [5, -5, 0], [2**40, -(2**40)]),
        (pa.date64(), pa.date32(), [0, 86_400_000, -86_400_000], [1, 86_399_999, -1]),
    ],
    ids=str,
)
def test_a_value_that_the_common_type_cannot_hold_is_no_key(type_, common, values, bad):
    column = pa.chunked_array([[*values, None], bad], pa.int64()).cast(type_)
    _, valid = key_codes([column], [common], where=["left.at"])
    assert valid.tolist() == [*[True] * len(values), False, *[False] * len(bad)]


def test_a_key_has_columns():
    with pytest.raises(ValueError, match="at least one column"):
        key_codes([], [])
    with pytest.raises(ValueError, match="at least one column"):
        keys_equal([], [])
