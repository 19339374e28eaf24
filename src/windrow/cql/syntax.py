"""The syntax tree of a query text. Every node knows its place, so that later errors can point at it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as Choice

from windrow.spec import Duration

AGGREGATES = ("sum", "count", "min", "max", "avg")


@dataclass(frozen=True)
class Place:
    """Where a node begins in the text: line and column count from 1."""

    line: int
    column: int


NOWHERE = Place(0, 0)


@dataclass(frozen=True)
class Column:
    """A column, with the stream or block it is of if that is said."""

    of: str | None
    name: str
    place: Place = NOWHERE

    def __str__(self) -> str:
        return self.name if self.of is None else f"{self.of}.{self.name}"


@dataclass(frozen=True)
class Literal:
    """A constant."""

    value: bool | int | float | str | None
    place: Place = NOWHERE

    def __str__(self) -> str:
        if self.value is None:
            return "null"
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return "'" + self.value.replace("'", "''") + "'" if isinstance(self.value, str) else str(self.value)


@dataclass(frozen=True)
class Operation:
    """Operands and what is done with them: + - * / %, = != < <= > >=, and, or, not, neg, is null.

    A chain, computed from left to right, is one operation with all its operands; if its operators differ, `op` has them
    all, as in "+ -" for a + b - c.
    """

    op: str
    operands: tuple[Expression, ...]
    place: Place = NOWHERE

    @property
    def between(self) -> list[str]:
        """The operators between the operands."""
        ops = self.op.split()
        return ops if len(ops) > 1 else ops * (len(self.operands) - 1)

    def __str__(self) -> str:
        parts = [f"({part})" if isinstance(part, Operation) else str(part) for part in self.operands]
        if self.op == "is null":
            return f"{parts[0]} is null"
        prefix = {"not": "not ", "neg": "-"}
        if self.op in prefix:
            return prefix[self.op] + parts[0]
        if self.op in ("and", "or"):
            return f" {self.op} ".join(parts)
        steps = [f" {op} {part}" for op, part in zip(self.between, parts[1:], strict=True)]
        return "(" * (len(steps) - 1) + parts[0] + ")".join(steps)


@dataclass(frozen=True)
class Aggregate:
    """One of sum, count, min, max, avg over the rows of a group; no operand is count(*)."""

    function: str
    operand: Expression | None
    distinct: bool
    place: Place = NOWHERE

    def __str__(self) -> str:
        inner = "*" if self.operand is None else str(self.operand)
        return f"{self.function}({'distinct ' if self.distinct else ''}{inner})"


Expression = Column | Literal | Operation | Aggregate


@dataclass(frozen=True)
class WindowText:
    """What stands in brackets behind a stream."""

    kind: Choice["range", "rows", "partition", "now", "unbounded"]
    length: Duration | None = None
    rows: int | None = None
    by: tuple[str, ...] = ()
    place: Place = NOWHERE

    def __str__(self) -> str:
        texts = {
            "range": f"Range {self.length}",
            "rows": f"Rows {self.rows}",
            "partition": f"Partition By {', '.join(self.by)} Rows {self.rows}",
            "now": "Now",
            "unbounded": "Range Unbounded",
        }
        return f"[{texts[self.kind]}]"


@dataclass(frozen=True)
class Source:
    """One thing that a block selects from: a stream of that name or a block, with a window and a name here."""

    what: str | Select
    window: WindowText | None
    alias: str
    place: Place = NOWHERE


@dataclass(frozen=True)
class Item:
    """One output column; None for an expression is `*`, or all columns of one source."""

    value: Expression | None
    name: str | None
    of: str | None = None
    place: Place = NOWHERE


@dataclass(frozen=True)
class Select:
    """One block: select, from, where, group by, having."""

    items: tuple[Item, ...]
    sources: tuple[Source, ...]
    where: Expression | None = None
    group: tuple[Column, ...] = ()
    having: Expression | None = None
    distinct: bool = False
    emit: Choice["relation", "istream", "dstream"] = "relation"
    place: Place = NOWHERE


def parts(expression: Expression) -> tuple[Expression, ...]:
    """What an expression is directly made of."""
    if isinstance(expression, Operation):
        return expression.operands
    if isinstance(expression, Aggregate) and expression.operand is not None:
        return (expression.operand,)
    return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything in it."""
    yield expression
    for part in parts(expression):
        yield from walk(part)


def conjuncts(expression: Expression | None) -> list[Expression]:
    """The conditions that must all hold."""
    if expression is None:
        return []
    if isinstance(expression, Operation) and expression.op == "and":
        return [part for operand in expression.operands for part in conjuncts(operand)]
    return [expression]
