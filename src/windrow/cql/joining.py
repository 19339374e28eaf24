"""The join of a block as a query of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windrow.cql.naming import Block
from windrow.cql.syntax import Column, Expression, Literal, Operation, Source, WindowText, walk
from windrow.errors import CqlError, SpecError
from windrow.maintained.joins import ROW, SINCE
from windrow.spec import Compare, Duration, Equal, Filter, Output, Predicate, Query, Stream, Window

KEEP = "(holds)"
"""The column that is added to a source whose conditions are no filters of the engine: whether they hold."""

_TURNED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def is_plain(source: Source) -> bool:
    """Whether the engine has the source's window: that of a stream, and not a partitioned one."""
    return isinstance(source.what, str) and (source.window is None or source.window.kind != "partition")


def plain_window(window: WindowText | None, timed: bool = True) -> Window:
    """The window of a stream as the engine has it. Without one a stream is kept for ever."""
    if window is None or window.kind == "unbounded":
        return Window.unbounded()
    if window.kind == "rows":
        return Window.rows(window.rows or 1)
    if window.kind == "now":  # the shortest window there is holds the instant alone
        return Window.time(Duration(1, "ns" if timed else "steps"))
    assert window.length is not None
    return Window.time(window.length, closed="both")


def join_query(
    block: Block, streams: Sequence[Stream], select: Sequence[Output] | None = None, **options: Any
) -> Query:
    """The query whose matches are the rows of the block: with the columns that are asked for, or with all that the rest
    of the block reads, and of each row its first instant and its number."""
    parts = [stream.with_(where=_where(block, stream.name)) for stream in streams]
    on: list[Predicate] = [_predicate(join) for join in block.joins]
    if select is None:
        names = [f"{s.name}.{name}" for s in streams for name in (*block.needed(s.name), SINCE, ROW)]
        select = [Output(name, name) for name in names]
    try:
        return Query(streams=parts, on=on, select=select, **options)
    except SpecError as error:
        place = block.select.place
        raise CqlError.at(block.text, place.line, place.column, str(error)) from None


def _predicate(join: Operation) -> Predicate:
    left, right = map(str, join.operands)
    return Equal(left, right) if join.op == "=" else Compare(left, join.op, right)


def _where(block: Block, alias: str) -> list[Filter]:
    conditions = block.filters.get(alias, [])
    simple = [found for condition in conditions if (found := simple_filter(condition)) is not None]
    return simple + ([Filter(KEEP, "=", True)] if len(simple) < len(conditions) else [])


def other_conditions(block: Block, alias: str) -> list[Expression]:
    """Conditions on a source that are no filters of the engine: they are computed before the join."""
    return [condition for condition in block.filters.get(alias, []) if simple_filter(condition) is None]


def simple_filter(condition: Expression) -> Filter | None:
    """A condition as a filter of the engine: a column compared with a constant, or with null."""
    if not isinstance(condition, Operation):
        return None
    if condition.op == "not" and isinstance(condition.operands[0], Operation):
        inner = condition.operands[0]
        if inner.op == "is null" and isinstance(inner.operands[0], Column):
            return Filter(inner.operands[0].name, "is not null")
        return None
    first = condition.operands[0]
    if condition.op == "is null":
        return Filter(first.name, "is null") if isinstance(first, Column) else None
    if condition.op not in _TURNED:
        return None
    left, right = condition.operands
    if isinstance(left, Literal):
        left, right = right, left
        op = _TURNED[condition.op]
    else:
        op = condition.op
    if isinstance(left, Column) and isinstance(right, Literal) and right.value is not None:
        return Filter(left.name, op, right.value)
    return None


def columns_in(expression: Expression) -> list[Column]:
    """All columns of an expression."""
    return [part for part in walk(expression) if isinstance(part, Column)]
