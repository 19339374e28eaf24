"""Filter: a condition on one row, checked when it arrives."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from windrow.errors import SpecError
from windrow.record import Record, name_text, one_of

Scalar = None | bool | int | float | str

OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "in", "not in", "is null", "is not null")


@dataclass(frozen=True, init=False)
class Filter(Record):
    """A condition on one column of a stream. A row that does not meet it is ignored: it can never match.

    As in SQL, a null meets no condition but `is null`. Times are given as ISO 8601 texts.

    Parameters:
        column: the column's name, without its stream.
        op: one of = != < <= > >= in, not in, is null, is not null.
        value: a text, number or truth value; a list of them for `in` and `not in`; nothing for the null
            tests.
    """

    column: str
    op: str
    value: Scalar | tuple[Scalar, ...]

    def __init__(self, column: str, op: str, value: Scalar | Sequence[Scalar] = None) -> None:
        name_text(column, "the column of a filter")
        one_of(op, OPERATORS, f"the operator of the filter on {column!r}")
        self._set(column=column, op=op, value=_value(value, op, f"the filter {column} {op}"))

    @classmethod
    def of(cls, value: Filter | Sequence[Any]) -> Filter:
        """The filter that `value` stands for: itself, or a tuple (column, op, value)."""
        if isinstance(value, Filter):
            return value
        if isinstance(value, (tuple, list)) and 2 <= len(value) <= 3:
            return cls(*value)
        raise SpecError(f"a filter must be a Filter or a tuple such as ('price', '>', 10), got {value!r}")

    def __str__(self) -> str:
        return f"{self.column} {self.op}" + ("" if self.value is None else f" {self.value!r}")


def _value(value: Any, op: str, where: str) -> Scalar | tuple[Scalar, ...]:
    if op.startswith("is"):
        if value is not None:
            raise SpecError(f"{where} takes no value, got {value!r}")
        return None
    if op.endswith("in"):
        if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, set, frozenset)) or not value:
            raise SpecError(f"{where} needs a list of at least one value, got {value!r}")
        items = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        return tuple(_scalar(item, where) for item in items)
    return _scalar(value, where)


def _scalar(value: Any, where: str) -> Scalar:
    # numpy's scalars know their Python value.
    value = value.item() if hasattr(value, "item") and not isinstance(value, (list, tuple)) else value
    if value is None:
        raise SpecError(f"{where} compares with null, which is never true: use 'is null' or 'is not null'")
    if not isinstance(value, (bool, int, float, str)):
        raise SpecError(f"{where} needs a text, a number or a truth value, got {value!r}")
    if isinstance(value, (int, float)) and not abs(value) <= sys.float_info.max:  # also refuses NaN
        raise SpecError(f"{where} needs a finite number that a float can hold, got {str(value)[:80]}")
    return value
