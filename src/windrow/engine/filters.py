"""Filters: which rows of a stream take part."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.errors import InputError
from windrow.spec import Filter

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
    if pa.types.is_floating(column.type) or (isinstance(filter_.value, float) and pa.types.is_integer(column.type)):
        column = pc.add(column.cast(pa.float64(), safe=False), 0.0)  # this turns -0.0 into 0.0
    if filter_.op in _COMPARE:
        verdict = _COMPARE[filter_.op](column, _scalar(filter_.value, column.type))
        if pa.types.is_floating(column.type) and filter_.op in (">", ">="):
            verdict = pc.or_(verdict, pc.is_nan(column))
        return verdict
    values = pa.array(list(filter_.value), from_pandas=False).cast(column.type)  # type: ignore[arg-type]
    if pa.types.is_floating(column.type):
        values = pc.add(values, 0.0)
    inside = pc.is_in(column, value_set=values)
    if filter_.op == "not in":
        inside = pc.invert(inside)
    return pc.and_(inside, column.is_valid())


def _scalar(value: Any, type_: pa.DataType) -> pa.Scalar:
    """A JSON value as a scalar that compares with a column: texts become dates and times where the column is one."""
    scalar = pa.scalar(value)
    if isinstance(value, str) and not pa.types.is_string(type_):
        return scalar.cast(type_)
    return scalar
