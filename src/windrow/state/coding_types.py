"""Types: what Arrow columns are cast to before they are compared, and which cannot be compared.

Equality follows Spark (ANSI mode, its default) for the same types, without Spark's loss of digits where Arrow
has a type that holds both sides exactly:

| columns | compared as |
|---|---|
| integers | int64; uint64 if all are unsigned; decimal128(20, 0) if uint64 meets a signed integer |
| floats, and floats with integers or decimals | float64, integers and decimals rounded to the nearest |
| decimals, and decimals with integers | a decimal that holds all their digits |
| dates | date32 |
| timestamps, all with a time zone or all without | instants in the finest unit, whatever the zone |
| times of day; durations | the finest unit |
| strings; binaries | their bytes |
| booleans | bool |

A dictionary column counts as the type of its values, and a column of type null is comparable with every other
(it never matches). Anything else is a `KeyTypeError`: windrow does not guess whether "7" is 7.
"""

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa

from windrow.errors import KeyTypeError

Domain = Literal["int", "float"]

UNITS = ("s", "ms", "us", "ns")
"""The units of time from coarse to fine."""

_FAMILIES = (
    ("null", pa.types.is_null),
    ("bool", pa.types.is_boolean),
    ("integer", pa.types.is_integer),
    ("float", pa.types.is_floating),
    ("decimal", pa.types.is_decimal),
    ("date", pa.types.is_date),
    ("timestamp", pa.types.is_timestamp),
    ("time", pa.types.is_time),
    ("duration", pa.types.is_duration),
    ("string", lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t)),
    ("binary", lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t)),
    ("binary", lambda t: pa.types.is_binary_view(t) or pa.types.is_fixed_size_binary(t)),
)
_NUMBERS = {"integer", "float", "decimal"}
_EXACT = {"null", "bool", "integer", "float", "date", "timestamp", "time", "duration"}


def value_type(type_: pa.DataType) -> pa.DataType:
    """The type of a column's values: that of the dictionary's values for a dictionary."""
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def family(type_: pa.DataType) -> str | None:
    """The kind of a type ("integer", "string", …) within which types compare; None for no such kind."""
    if isinstance(type_, pa.BaseExtensionType):
        return None
    return next((name for name, holds in _FAMILIES if holds(type_)), None)


def exact_codes(types: Sequence[pa.DataType]) -> bool:
    """Whether equal codes prove equal keys, for columns of these common types; else codes are hashes."""
    return len(types) == 1 and family(value_type(types[0])) in _EXACT


def common_key_type(types: Sequence[pa.DataType], where: Sequence[str]) -> pa.DataType:
    """The type to which all columns of one equality are cast; `where` names each column in errors."""
    shared, known = _shared_family(types, where, "join key")
    if shared == "integer":
        return _integers(known)
    if shared == "decimal":
        return _decimals(known, types, where)
    if shared == "timestamp":
        return _timestamps(known, types, where)
    if shared == "string":
        return pa.string() if all(pa.types.is_string(t) for t in known) else pa.large_string()
    if shared == "binary":
        return pa.binary() if all(pa.types.is_binary(t) for t in known) else pa.large_binary()
    return _plain(shared, known)


def common_number_type(types: Sequence[pa.DataType], where: Sequence[str]) -> tuple[Domain, pa.DataType]:
    """How columns of a comparison, band or distance count, "int" or "float", and the type to cast to.

    Integers count as int64, or as uint64 if one is and all are unsigned; where a uint64 meets a signed column, a value
    beyond int64 counts as none. Decimals without fraction digits and with at most 18 digits count as int64, all others
    as the nearest float64, so a band over decimals is exact only up to float rounding. Dates count in days; timestamps,
    durations and times of day in their finest unit.
    """
    shared, known = _shared_family(types, where, "compared column")
    if shared in ("bool", "string", "binary"):
        raise KeyTypeError(
            f"{_listed(types, where)}: comparisons (<, <=, >, >=, !=), bands and distances work on numbers, "
            f"dates, times and durations, not on {shared} columns; cast them to a number, or compare with "
            "Equal"
        )
    if shared == "decimal":
        shared = "integer" if all(_is_whole(t) for t in known) else "float"
    if shared == "integer" and _integers(known) == pa.uint64():
        return "int", pa.uint64()
    if shared in ("integer", "null"):
        return "int", pa.int64()
    if shared == "timestamp":
        return "int", _timestamps(known, types, where)
    return ("float" if shared == "float" else "int"), _plain(shared, known)


def finest(types: Sequence[pa.DataType]) -> str:
    """The finest unit of time among the types."""
    return max((t.unit for t in types), key=UNITS.index)


def _shared_family(types: Sequence[pa.DataType], where: Sequence[str], role: str) -> tuple[str, list[pa.DataType]]:
    """The family of all the types, and the types without those that say nothing (null)."""
    plain = [value_type(t) for t in types]
    for type_, name in zip(plain, where, strict=True):
        if family(type_) is None:
            raise KeyTypeError(
                f"{name} has type {type_}, which cannot be a {role}: cast it to a number, string, binary, "
                "bool, date or time, or use one of its fields as a column of its own"
            )
    known = [t for t in plain if not pa.types.is_null(t)]
    families = {str(family(t)) for t in known}
    if len(families) > 1 and not families <= _NUMBERS:
        raise KeyTypeError(f"{_listed(types, where)} cannot be compared: cast one to the type of the other")
    for mixed in ("float", "decimal"):
        if mixed in families:
            return mixed, known
    return (families.pop() if families else "null"), known


def _listed(types: Sequence[pa.DataType], where: Sequence[str]) -> str:
    return " and ".join(f"{name} ({type_})" for name, type_ in zip(where, types, strict=True))


def _plain(shared: str, known: Sequence[pa.DataType]) -> pa.DataType:
    """The common type of families in which nothing can go wrong."""
    if shared == "time":
        return pa.time64("ns" if finest(known) == "ns" else "us")
    if shared == "duration":
        return pa.duration(finest(known))
    return {"null": pa.null(), "bool": pa.bool_(), "float": pa.float64(), "date": pa.date32()}[shared]


def _integers(known: Sequence[pa.DataType]) -> pa.DataType:
    if not any(pa.types.is_uint64(t) for t in known):
        return pa.int64()
    return pa.uint64() if all(pa.types.is_unsigned_integer(t) for t in known) else pa.decimal128(20, 0)


def _decimals(known: Sequence[pa.DataType], types: Sequence[pa.DataType], where: Sequence[str]) -> pa.DataType:
    """The narrowest of Arrow's decimals with all digits of every type, before the point and after it."""
    scale = max(0, *(_digits(t)[1] for t in known))
    precision = max(1, max(_digits(t)[0] for t in known) + scale)
    if precision > 76:
        raise KeyTypeError(
            f"{_listed(types, where)} cannot be compared exactly: that takes decimals of {precision} digits "
            "and Arrow has 76 at most; cast one to fewer digits"
        )
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def _digits(type_: pa.DataType) -> tuple[int, int]:
    """The most digits of a number before the point and after it."""
    if pa.types.is_decimal(type_):
        return max(0, type_.precision - type_.scale), type_.scale
    if type_.bit_width == 64:
        return (20 if pa.types.is_uint64(type_) else 19), 0
    return {8: 3, 16: 5, 32: 10}[type_.bit_width], 0


def _is_whole(type_: pa.DataType) -> bool:
    """Whether every value of a number type is an integer that (but for uint64) fits int64."""
    return pa.types.is_integer(type_) or (type_.scale == 0 and type_.precision <= 18)


def _timestamps(known: Sequence[pa.DataType], types: Sequence[pa.DataType], where: Sequence[str]) -> pa.DataType:
    zoned = {t.tz is not None for t in known}
    if len(zoned) > 1:
        raise KeyTypeError(
            f"{_listed(types, where)} cannot be compared: one has a time zone and the other has none; cast "
            "the one without (pyarrow.compute.assume_timezone; on Spark cast to timestamp) or drop the zone of the "
            "other (local_timestamp; on Spark cast to timestamp_ntz)"
        )
    zones = {t.tz for t in known}
    return pa.timestamp(finest(known), tz=zones.pop() if len(zones) == 1 else "UTC")
