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
    if filter_.op in _COMPARE:
        return _COMPARE[filter_.op](column, _scalar(filter_.value, column.type))
    values = pa.array(list(filter_.value), from_pandas=False)  # type: ignore[arg-type]
    inside = pc.is_in(column, value_set=values.cast(column.type))
    if filter_.op == "not in":
        inside = pc.invert(inside)
    return pc.and_(inside, column.is_valid())


def _scalar(value: Any, type_: pa.DataType) -> pa.Scalar:
    """A JSON value as a scalar that compares with a column: texts become dates and times where the column is one."""
    scalar = pa.scalar(value)
    if isinstance(value, str) and not pa.types.is_string(type_):
        return scalar.cast(type_)
    return scalar
