"""Can catch: a pair of types compared in the wrong type, refused though it compares, or let through."""

import pyarrow as pa
import pytest

from windrow.errors import KeyTypeError
from windrow.state.coding import common_key_type, common_number_type, exact_codes

TIMESTAMP_S, TIMESTAMP_US = pa.timestamp("s"), pa.timestamp("us")
UTC, BERLIN = pa.timestamp("ms", tz="UTC"), pa.timestamp("s", tz="Europe/Berlin")


def key(*types):
    return common_key_type(types, [f"stream{i}.k" for i in range(len(types))])


def number(*types):
    return common_number_type(types, [f"stream{i}.v" for i in range(len(types))])


@pytest.mark.parametrize(
    ("types", "common"),
    [
        ([pa.int8(), pa.int64()], pa.int64()),
        ([pa.int32()], pa.int64()),
        ([pa.uint8(), pa.uint32()], pa.int64()),
        ([pa.uint64(), pa.uint8()], pa.uint64()),
        ([pa.uint64(), pa.int8()], pa.decimal128(20, 0)),
        ([pa.float16(), pa.float32()], pa.float64()),
        ([pa.int64(), pa.float32()], pa.float64()),
        ([pa.int64(), pa.decimal128(5, 2), pa.float32()], pa.float64()),
        ([pa.decimal128(5, 2)], pa.decimal128(5, 2)),
        ([pa.decimal128(5, 2), pa.decimal128(10, 4)], pa.decimal128(10, 4)),
        ([pa.decimal128(9, 2), pa.decimal128(10, 4)], pa.decimal128(11, 4)),
        ([pa.decimal128(38, 10), pa.decimal128(38, 0)], pa.decimal256(48, 10)),
        ([pa.decimal128(5, -3), pa.decimal128(3, 1)], pa.decimal128(9, 1)),
        ([pa.decimal128(5, 2), pa.int8()], pa.decimal128(5, 2)),
        ([pa.decimal128(5, 2), pa.int64()], pa.decimal128(21, 2)),
        ([pa.decimal128(5, 2), pa.uint64()], pa.decimal128(22, 2)),
        ([pa.bool_(), pa.bool_()], pa.bool_()),
        ([pa.date32(), pa.date64()], pa.date32()),
        ([TIMESTAMP_S, TIMESTAMP_US], TIMESTAMP_US),
        ([UTC, BERLIN], UTC),
        ([BERLIN, BERLIN], BERLIN),
        ([pa.time32("s"), pa.time32("ms")], pa.time64("us")),
        ([pa.time32("s"), pa.time64("ns")], pa.time64("ns")),
        ([pa.duration("s"), pa.duration("ms")], pa.duration("ms")),
        ([pa.string(), pa.string()], pa.string()),
        ([pa.string(), pa.large_string()], pa.large_string()),
        ([pa.string(), pa.string_view()], pa.large_string()),
        ([pa.binary()], pa.binary()),
        ([pa.binary(), pa.binary(4)], pa.large_binary()),
        ([pa.binary_view(), pa.large_binary()], pa.large_binary()),
        ([pa.dictionary(pa.int8(), pa.string()), pa.string()], pa.string()),
        ([pa.dictionary(pa.int8(), pa.int16()), pa.int64()], pa.int64()),
        ([pa.null(), pa.string()], pa.string()),
        ([pa.null(), pa.null()], pa.null()),
    ],
    ids=str,
)
def test_the_common_type_of_keys(types, common):
    assert key(*types) == common
    assert key(*reversed(types)) == common


@pytest.mark.parametrize(
    "types",
    [
        (pa.string(), pa.int64()),
        (pa.string(), pa.binary()),
        (pa.bool_(), pa.int8()),
        (pa.date32(), TIMESTAMP_US),
        (TIMESTAMP_US, pa.int64()),
        (TIMESTAMP_US, UTC),
        (pa.time32("s"), pa.duration("s")),
        (pa.dictionary(pa.int8(), pa.string()), pa.int64()),
        (pa.decimal256(76, 0), pa.decimal256(76, 1)),
    ],
    ids=str,
)
def test_types_that_do_not_compare_are_named_with_their_columns(types):
    with pytest.raises(KeyTypeError) as error:
        key(*types)
    for part in ("stream0.k", "stream1.k", str(types[0]), str(types[1]), "cast"):
        assert part in str(error.value)


@pytest.mark.parametrize(
    "type_",
    [
        pa.list_(pa.int8()),
        pa.struct([("a", pa.int8())]),
        pa.map_(pa.int8(), pa.int8()),
        pa.month_day_nano_interval(),
        pa.run_end_encoded(pa.int32(), pa.int64()),
        pa.dictionary(pa.int8(), pa.list_(pa.int8())),
        pa.uuid(),
    ],
    ids=str,
)
def test_types_that_never_compare_are_refused(type_):
    for common in (key, number):
        with pytest.raises(KeyTypeError, match=r"stream1\.[kv] has type .* cast it"):
            common(pa.int64(), type_)


def test_only_single_columns_of_64_bit_values_have_exact_codes():
    numbers, times = [pa.int64(), pa.uint64(), pa.bool_(), pa.float64()], [pa.date32(), UTC, pa.time64("us")]
    assert all(exact_codes([type_]) for type_ in [*numbers, *times, pa.duration("s")])
    assert not any(exact_codes([t]) for t in [pa.string(), pa.large_binary(), pa.decimal128(5, 0)])
    assert not exact_codes([pa.int64(), pa.int64()])


@pytest.mark.parametrize(
    ("types", "domain", "common"),
    [
        ([pa.int8(), pa.uint64()], "int", pa.int64()),
        ([pa.int8(), pa.float32()], "float", pa.float64()),
        ([pa.decimal128(18, 0), pa.int32()], "int", pa.int64()),
        ([pa.decimal128(19, 0), pa.int32()], "float", pa.float64()),
        ([pa.decimal128(5, 2), pa.decimal128(5, 2)], "float", pa.float64()),
        ([pa.decimal128(5, -2)], "float", pa.float64()),
        ([pa.date32(), pa.date64()], "int", pa.date32()),
        ([TIMESTAMP_S, TIMESTAMP_US], "int", TIMESTAMP_US),
        ([UTC, BERLIN], "int", UTC),
        ([pa.duration("s"), pa.duration("ns")], "int", pa.duration("ns")),
        ([pa.time32("s"), pa.time32("s")], "int", pa.time64("us")),
        ([pa.null(), pa.float32()], "float", pa.float64()),
        ([pa.null()], "int", pa.int64()),
    ],
    ids=str,
)
def test_the_common_type_of_numbers(types, domain, common):
    assert number(*types) == (domain, common)


@pytest.mark.parametrize(
    "types",
    [(pa.bool_(), pa.bool_()), (pa.string(), pa.string()), (pa.int64(), TIMESTAMP_S), (TIMESTAMP_S, UTC)],
    ids=str,
)
def test_what_is_no_number_is_refused(types):
    with pytest.raises(KeyTypeError, match=r"stream0\.v .*stream1\.v"):
        number(*types)
