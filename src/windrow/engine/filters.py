"""Filters: which rows of a stream take part."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.errors import InputError
from windrow.spec import Filter
from windrow.state import columns as cols

_COMPARE = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def passes(filter_: Filter, column: Any, stream: str) -> np.ndarray:
    """For every row of a column, whether it passes; a comparison with null does not (SQL)."""
    if filter_.op == "is null":
        return np.asarray(column.is_null().to_numpy(), np.bool_)
    if filter_.op == "is not null":
        return np.asarray(column.is_valid().to_numpy(), np.bool_)
    try:
        verdict = _tested(filter_, column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InputError(
            f"stream {stream!r}: the filter {filter_} does not fit the column's type {column.type}: {error}"
        ) from error
    return np.asarray(pc.fill_null(verdict, False).to_numpy(), np.bool_)


def _tested(filter_: Filter, column: Any) -> Any:
    """The verdicts, null for null; floats compare as in Spark: -0.0 is 0.0, and NaN is the largest of all."""
    values = filter_.value if isinstance(filter_.value, tuple) else (filter_.value,)
    if _is_number(column.type) and any(isinstance(value, float) for value in values):
        column = cols.cast(column, pa.float64(), filter_.column, InputError)
    if pa.types.is_floating(column.type):
        column = pc.add(column.cast(pa.float64()), 0.0)  # this turns -0.0 into 0.0
    elif pa.types.is_decimal(column.type) and column.type.bit_width < 128:  # Arrow does not look for these in lists
        column = column.cast(pa.decimal128(column.type.precision, column.type.scale))
    elif pa.types.is_time(column.type):
        column = column.cast(pa.time64("ns"))
    elif pa.types.is_null(column.type):
        return column.cast(pa.bool_())
    if filter_.op in ("in", "not in"):
        inside = pc.is_in(column, value_set=_constants(values, column.type))
        return pc.and_(pc.invert(inside) if filter_.op == "not in" else inside, column.is_valid())
    (value,) = values
    if _is_beyond(value, column.type):
        always = filter_.op == "!=" or filter_.op.startswith("<" if value > 0 else ">")  # type: ignore[operator]
        return pc.and_(column.is_valid(), always)
    verdict = _COMPARE[filter_.op](column, _constants(values, column.type)[0])
    if pa.types.is_floating(column.type) and filter_.op in (">", ">="):
        verdict = pc.or_(verdict, pc.is_nan(column))
    return verdict


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _is_beyond(value: Any, kind: pa.DataType) -> bool:
    """Whether a whole number is larger, or further below zero, than any value of a column of whole numbers can be."""
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    if pa.types.is_integer(kind):
        bits = kind.bit_width - pa.types.is_signed_integer(kind)
        return not (-(2**bits) if pa.types.is_signed_integer(kind) else 0) <= value < 2**bits
    return pa.types.is_decimal(kind) and abs(value) >= 10 ** (kind.precision - kind.scale)


def _constants(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    """JSON values as an array of a column's type, without those that no value of it can equal.

    Texts become dates, times and numbers where the column is one; nothing else becomes what it is not.
    """
    parts = [pa.array([], kind)]
    for python in (bool, int, float, str):
        mine: list[Any] = [value for value in values if type(value) is python and not _is_beyond(value, kind)]
        if not mine:
            continue
        if python is str:
            parts.append(_from_texts([str(value) for value in mine], kind))
        elif pa.types.is_boolean(kind) if python is bool else _is_number(kind):
            parts.append(pa.array([_told(value, kind) for value in mine], kind))
        else:
            raise pa.ArrowTypeError(f"{mine[0]!r} is no such value")
    return pa.concat_arrays(parts)


def _from_texts(texts: list[str], kind: pa.DataType) -> pa.Array:
    """Texts as values of a type; Arrow reads times of day only behind a date."""
    if pa.types.is_time(kind):
        return pa.array([f"1970-01-01T{text}" for text in texts]).cast(pa.timestamp("ns")).cast(kind)
    return pa.array(texts).cast(kind)


def _told(value: Any, kind: pa.DataType) -> Any:
    """A number as Arrow takes it for a type."""
    return float(value) + 0.0 if pa.types.is_floating(kind) else Decimal(value) if pa.types.is_decimal(kind) else value
