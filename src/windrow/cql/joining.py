"""The join of a block as a query of the engine.

Windows of streams are the engine's own: a range is a time window with both ends, `Rows` a window in rows. Whatever has
no such window (a block's result, a partitioned window) comes as rows that say until when they are in: rows meet if each
is still in when the other comes, which is a comparison, and the engine keeps them as long as the longest of them stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from windrow.cql.naming import Block
from windrow.cql.syntax import Column, Expression, Literal, Operation, Source, WindowText
from windrow.errors import CqlError, SpecError
from windrow.spec import Compare, Duration, Equal, Filter, Output, Predicate, Query, Stream, Window

SINCE, UNTIL, KEEP = "(since)", "(until)", "(holds)"
"""Columns that the join adds to each source: its row's first and last instant, and whether conditions on it hold."""

_TURNED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Part:
    """One source of a join as a stream of the engine, filters aside."""

    stream: Stream
    by_until: bool = False
    """Whether rows leave when they say so, instead of by the window."""

    @property
    def alias(self) -> str:
        """The name of the source."""
        return self.stream.name


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


def join_query(block: Block, parts: Sequence[Part], select: Sequence[Output] | None = None, **options: Any) -> Query:
    """The query whose matches are the rows of the block: with the columns that are asked for, or with all that the rest
    of the block reads, and the first and last instant of their rows."""
    streams = [part.stream.with_(where=_where(block, part.alias)) for part in parts]
    on: list[Predicate] = [_predicate(join) for join in block.joins]
    for part in parts:
        others = [other for other in parts if other is not part]
        if part.by_until:
            on += [Compare(f"{other.alias}.{SINCE}", "<", f"{part.alias}.{UNTIL}") for other in others]
    if select is None:
        names = [f"{p.alias}.{name}" for p in parts for name in (*block.needed(p.alias), SINCE, UNTIL)]
        select = [Output(name, name) for name in names]
    try:
        return Query(streams=streams, on=on, select=select, **options)
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
