"""Numbers: the columns of comparisons, bands and distances as int64 codes.

Two domains. In "int" a code is the value itself (for times and dates: the count of their unit; for uint64 the value
less 2^63, so that codes have the order and the distances of their values). In "float" a code holds the bits of a
float64, and whoever computes with it views it as one. `ordered_codes` makes codes of either domain comparable as
integers.
"""

from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.errors import KeyTypeError, SpecError
from windrow.state import columns as cols
from windrow.state.coding_types import Domain, family

NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
"""Nanoseconds in each unit of time."""

_DAY_NS = 86_400 * NANOSECONDS["s"]
_MAX = np.int64(2**63 - 1)
_MIN = np.int64(-(2**63))


def number_codes(
    column: Any, arrow_type: pa.DataType, domain: Domain, where: str = ""
) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """One code per row, and which rows have a value (None: all); the code of a null is 0.

    `arrow_type` and `domain` come from `common_number_type`; the column is cast here. The codes may be a
    read-only view of the column's memory.
    """
    if (domain == "float") != pa.types.is_float64(arrow_type):
        raise ValueError(f"numbers of type {arrow_type} are not in the domain {domain!r}")
    column = cols.cast(column, arrow_type, where, KeyTypeError)
    codes, valid = cols.int64s(column), cols.validity(column)
    if pa.types.is_uint64(arrow_type):
        codes = codes ^ _MIN
    return (codes if valid is None else np.where(valid, codes, 0)), valid


def ordered_codes(codes: NDArray[np.int64], domain: Domain) -> NDArray[np.int64]:
    """The codes as integers in the order of their values: Spark's, where -0.0 is 0.0 and NaN the largest."""
    if domain == "int":
        return codes
    floats = codes.view(np.float64) + 0.0  # adding 0.0 turns -0.0 into 0.0 and leaves the rest
    ordered = floats.view(np.int64)
    # Negative floats have their sign bit set and grow towards zero bits: flip all but the sign.
    ordered = np.where(ordered < 0, ordered ^ _MAX, ordered)
    ordered[np.isnan(floats)] = _MAX
    return ordered


def width_in_units(amount: int | float, unit: Literal["ns", "steps"], arrow_type: pa.DataType, where: str) -> Fraction:
    """A band's width in the units in which columns of this type count.

    The amount of a duration is in nanoseconds ("ns"); a plain number has unit "steps".
    """
    kind = family(arrow_type)
    if kind in ("integer", "float"):
        if unit == "ns":
            raise SpecError(f"{where}: the columns are numbers, so the width is a number, not a duration")
        return Fraction(amount)
    if unit == "steps":
        raise SpecError(f"{where}: the columns are {arrow_type}, so the width is a duration such as '10 minutes'")
    return Fraction(amount) / (_DAY_NS if kind == "date" else NANOSECONDS[arrow_type.unit])
