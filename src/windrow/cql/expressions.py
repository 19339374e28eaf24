"""The values of an expression for all rows of a table at once, by Arrow's own functions.

Nulls go as in SQL: an operation with a null gives null, and a condition that is null does not hold. A division is one
of real numbers, and by zero it gives null. Floats compare as in Spark and in windrow's joins: NaN equals itself and is
larger than all numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
    "neg": pc.negate_checked, "not": pc.invert, "is null": pc.is_null,
}  # fmt: skip
_COMPARE: dict[str, Callable[..., Any]] = {
    "=": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
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
        return _constant(expression, text)
    if isinstance(expression, (Column, Aggregate)):
        return table[names(expression)]
    found = _value(expression.operands[0], table, names, text)
    if len(expression.operands) == 1:
        return _computed(expression, text, _FUNCTIONS[expression.op], found)
    for op, operand in zip(expression.between, expression.operands[1:], strict=True):
        found = _computed(expression, text, _BINARY[op], found, _value(operand, table, names, text))
    return found


def _computed(expression: Operation, text: str, function: Callable[..., Any], *values: Any) -> Any:
    try:
        return function(*values)
    except (pa.ArrowException, TypeError, ValueError) as error:
        place = expression.place
        reason = str(error).splitlines()[0]
        raise CqlError.at(text, place.line, place.column, f"cannot compute {expression}: {reason}") from None


def _constant(literal: Literal, text: str) -> Any:
    try:
        return pa.scalar(literal.value)
    except OverflowError:
        place = literal.place
        raise CqlError.at(text, place.line, place.column, f"{literal} does not fit 64 bits") from None


def _compared(op: str, left: Any, right: Any) -> Any:
    """The verdicts of a comparison, null where one side is; Arrow's own take NaN for a value beside all others."""
    left, right = _comparable(left, right)
    found = _COMPARE[op](left, right)
    if not (pa.types.is_floating(left.type) or pa.types.is_floating(right.type)):
        return found
    one, other = (pc.is_nan(side) if pa.types.is_floating(side.type) else pa.scalar(False) for side in (left, right))
    if op == "!=":
        return pc.and_(found, pc.invert(pc.and_(one, other)))
    turned = {
        "=": lambda: pc.and_(one, other),
        "<": lambda: pc.and_(other, pc.invert(one)),
        "<=": lambda: other,
        ">": lambda: pc.and_(one, pc.invert(other)),
        ">=": lambda: one,
    }
    return pc.or_(found, turned[op]())


def _comparable(left: Any, right: Any) -> list[Any]:
    """A text beside a moment is one, too; numbers with and without a sign are compared as decimals, which hold both."""
    kinds = left.type, right.type
    if pa.uint64() in kinds and any(pa.types.is_signed_integer(kind) for kind in kinds):
        return [side.cast(pa.decimal128(20, 0)) for side in (left, right)]
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


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked, "/": _divided, "%": _remainder,
    "and": pc.and_kleene, "or": pc.or_kleene, **{op: partial(_compared, op) for op in _COMPARE},
}  # fmt: skip
