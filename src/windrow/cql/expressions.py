"""The values of an expression for all rows of a table at once, by Arrow's own functions.

Nulls go as in SQL: an operation with a null gives null, and a condition that is null does not hold. A division is one
of real numbers, and by zero it gives null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.cql.syntax import Aggregate, Column, Expression, Literal, Operation
from windrow.errors import CqlError

Names = Callable[[Column | Aggregate], str]
"""The name of a column, or of an aggregate that has been computed, in the table."""

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked, "neg": pc.negate_checked,
    "=": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
    "not": pc.invert, "is null": pc.is_null,
}  # fmt: skip


def evaluate(expression: Expression, table: pa.Table, names: Names, text: str) -> Any:
    """The column that an expression gives; `text` is the query's, for errors."""
    found = _value(expression, table, names, text)
    return pa.repeat(found, table.num_rows) if isinstance(found, pa.Scalar) else found


def holds(condition: Expression, table: pa.Table, names: Names, text: str) -> NDArray[np.bool_]:
    """For which rows a condition holds."""
    found = evaluate(condition, table, names, text)
    if not pa.types.is_boolean(found.type):
        place = condition.place
        raise CqlError.at(text, place.line, place.column, f"{condition} is no condition: its values are {found.type}")
    return np.asarray(found.fill_null(False)).astype(np.bool_)


def _value(expression: Expression, table: pa.Table, names: Names, text: str) -> Any:
    if isinstance(expression, Literal):
        return pa.scalar(expression.value)
    if isinstance(expression, (Column, Aggregate)):
        return table[names(expression)]
    values = [_value(operand, table, names, text) for operand in expression.operands]
    try:
        return _computed(expression, values)
    except (pa.ArrowException, TypeError, ValueError) as error:
        place = expression.place
        reason = str(error).splitlines()[0]
        raise CqlError.at(text, place.line, place.column, f"cannot compute {expression}: {reason}") from None


def _computed(expression: Operation, values: list[Any]) -> Any:
    op = expression.op
    if op in ("and", "or"):
        combine = pc.and_kleene if op == "and" else pc.or_kleene
        found = values[0]
        for value in values[1:]:
            found = combine(found, value)
        return found
    if op == "/":
        return _divided(*values)
    if op == "%":
        return _remainder(*values)
    if op in ("=", "!=", "<", "<=", ">", ">="):
        values = _comparable(*values)
    return _FUNCTIONS[op](*values)


def _comparable(left: Any, right: Any) -> list[Any]:
    """A text beside a moment is one, too."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, pa.Scalar) and pa.types.is_string(one.type) and pa.types.is_temporal(other.type):
            moment = one.cast(pa.timestamp("us")).cast(other.type)
            return [moment, right] if one is left else [left, moment]
    return [left, right]


def _divided(left: Any, right: Any) -> Any:
    divisor = pc.cast(right, pa.float64())
    none = pa.scalar(None, pa.float64())
    return pc.divide(pc.cast(left, pa.float64()), pc.if_else(pc.equal(divisor, 0.0), none, divisor))


def _remainder(left: Any, right: Any) -> Any:
    """What is left of a division of whole numbers, with the sign of what is divided."""
    none = pa.scalar(None, pa.int64())
    one, other = pc.cast(left, pa.int64()), pc.cast(right, pa.int64())
    divisor = pc.if_else(pc.equal(other, 0), none, other)
    return pc.subtract(one, pc.multiply(pc.divide(one, divisor), divisor))
