"""The slow, obvious meaning of a query text: the relation at every instant, by the definitions, row by row.

Only the syntax tree is shared with windrow. Times are small whole numbers, so that every instant can be looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product
from typing import Any

from windrow.cql.syntax import Aggregate, Column, Expression, Literal, Operation, Select, Source, WindowText, walk

Row = dict[str, Any]
Bag = list[Row]


class Naive:
    """A query over streams; a row of a stream has a time "t" and comes in the order in which it stands."""

    signed = False  # whether rows of streams can be deleted

    def __init__(self, tree: Select, streams: Mapping[str, Bag]) -> None:
        self.tree = tree
        self.streams = {name: sorted(enumerate(rows), key=lambda r: r[1]["t"]) for name, rows in streams.items()}

    def relation(self, tau: int) -> Counter[tuple[Any, ...]]:
        """The rows of the outermost block at an instant."""
        return _bag(self.block(self.tree, tau))

    def stream(self, tau: int) -> Counter[tuple[Any, ...]]:
        """The rows that the outermost block gives at an instant."""
        return _bag(self.emitted(self.tree, tau))

    # ------------------------------------------------------------------------------------------ blocks

    def block(self, select: Select, tau: int) -> Bag:
        """The relation that a block is at an instant, whether or not it goes on to make a stream of it."""
        matches = [match for match, _ in self.matches(select, tau)]
        grouped = bool(select.group) or any(
            isinstance(part, Aggregate)
            for value in [item.value for item in select.items if item.value]
            + ([select.having] if select.having else [])
            for part in walk(value)
        )
        if grouped:
            rows = self.groups(select, matches, tau)
        else:
            rows = [self.output(select, match) for match in matches]
        if select.distinct:
            rows = [dict(pairs) for pairs in dict.fromkeys(tuple(row.items()) for row in rows)]
        return rows

    def emitted(self, select: Select, tau: int) -> Bag:
        plain = all(isinstance(s.what, str) and not (s.window and s.window.kind == "partition") for s in select.sources)
        simple = not select.distinct and not select.group and not any(
            isinstance(part, Aggregate) for item in select.items if item.value for part in walk(item.value)
        )  # fmt: skip
        if plain and simple and select.emit == "istream" and not self.signed:
            before = {key for _, key in self.matches(select, tau - 1)}
            return [self.output(select, match) for match, key in self.matches(select, tau) if key not in before]
        now, then = self.block(select, tau), self.block(select, tau - 1)
        new, old = (now, then) if select.emit == "istream" else (then, now)
        left = Counter(tuple(row.items()) for row in new)
        left.subtract(tuple(row.items()) for row in old)
        return [dict(pairs) for pairs, count in left.items() for _ in range(count)]

    def matches(self, select: Select, tau: int) -> list[tuple[dict[str, Row], tuple[Any, ...]]]:
        """All combinations of one row of each source that meet Where, and who they are."""
        sources = [self.source(source, tau) for source in select.sources]
        found = []
        for rows in product(*sources):
            match = {source.alias: row for source, (row, _) in zip(select.sources, rows, strict=True)}
            if select.where is None or value(select.where, match) is True:
                found.append((match, tuple(who for _, who in rows)))
        return found

    def output(self, select: Select, match: dict[str, Row]) -> Row:
        row: Row = {}
        for item in select.items:
            if item.value is None:
                aliases = [item.of] if item.of else list(match)
                names = [name for alias in aliases for name in match[alias]]
                for alias in aliases:
                    row |= {
                        (name if names.count(name) == 1 else f"{alias}_{name}"): v for name, v in match[alias].items()
                    }
            else:
                row[self.name(item)] = value(item.value, match)
        return row

    @staticmethod
    def name(item: Any) -> str:
        return item.name or (item.value.name if isinstance(item.value, Column) else str(item.value))

    def groups(self, select: Select, matches: list[dict[str, Row]], tau: int) -> Bag:
        groups: dict[tuple[Any, ...], list[dict[str, Row]]] = {}
        for match in matches:
            groups.setdefault(tuple(value(column, match) for column in select.group), []).append(match)
        if not select.group and not groups and self.has_begun(select, tau):
            groups = {(): []}
        found = []
        for members in groups.values():
            if select.having is None or grouped_value(select.having, members) is True:
                found.append({self.name(item): grouped_value(item.value, members) for item in select.items})
        return found

    def has_begun(self, select: Select, tau: int) -> bool:
        """An aggregate without groups has a row from the first match on, even when none is left."""
        first = min((row["t"] for rows in self.streams.values() for _, row in rows), default=0)
        return any(self.matches(select, t) for t in range(first, tau + 1))

    # ----------------------------------------------------------------------------------------- windows

    def source(self, source: Source, tau: int) -> list[tuple[Row, Any]]:
        """What is in a source at an instant, each row with who it is."""
        if isinstance(source.what, str):
            rows = [(row["t"], row, who) for who, row in self.streams[source.what] if row["t"] <= tau]
        elif source.what.emit == "relation":
            return [(row, None) for row in self.block(source.what, tau)]
        else:
            first = min((row["t"] for rows in self.streams.values() for _, row in rows), default=0)
            rows = [(t, row, None) for t in range(first, tau + 1) for row in self.emitted(source.what, t)]
        return [(row, who) for _, row, who in self.window(source.window, rows, tau)]

    @staticmethod
    def window(window: WindowText | None, rows: list[Any], tau: int) -> list[Any]:
        if window is None or window.kind == "unbounded":
            return rows
        if window.kind == "now":
            return [entry for entry in rows if entry[0] == tau]
        if window.kind == "range":
            assert window.length is not None
            return [entry for entry in rows if entry[0] >= tau - window.length.amount]
        if window.kind == "rows":
            return rows[-(window.rows or 1) :]
        parts: dict[Any, list[Any]] = {}
        for entry in rows:
            parts.setdefault(tuple(entry[1][name] for name in window.by), []).append(entry)
        return [entry for part in parts.values() for entry in part[-(window.rows or 1) :]]


# --------------------------------------------------------------------------------------------- expressions


def value(expression: Expression, match: dict[str, Row]) -> Any:
    """The value of an expression for one match; None is null."""
    if isinstance(expression, Literal):
        return expression.value
    if isinstance(expression, Column):
        if expression.of is not None:
            return match[expression.of][expression.name]
        return next(row[expression.name] for row in match.values() if expression.name in row)
    assert isinstance(expression, Operation)
    return _apply(expression.op, [value(operand, match) for operand in expression.operands])


def grouped_value(expression: Any, members: list[dict[str, Row]]) -> Any:
    """The value of an expression for a group."""
    if isinstance(expression, Aggregate):
        return _aggregate(expression, members)
    if isinstance(expression, Operation):
        return _apply(expression.op, [grouped_value(operand, members) for operand in expression.operands])
    return value(expression, members[0] if members else {})


def _aggregate(aggregate: Aggregate, members: list[dict[str, Row]]) -> Any:
    if aggregate.operand is None:
        return len(members)
    values = [v for member in members if (v := value(aggregate.operand, member)) is not None]
    values = list(dict.fromkeys(values)) if aggregate.distinct else values
    if aggregate.function == "count":
        return len(values)
    if not values:
        return None
    return {"sum": sum, "min": min, "max": max, "avg": lambda v: sum(v) / len(v)}[aggregate.function](values)


def _apply(op: str, values: list[Any]) -> Any:
    if op == "and":
        return False if False in values else None if None in values else True
    if op == "or":
        return True if True in values else None if None in values else False
    if op == "is null":
        return values[0] is None
    if None in values:
        return None
    if op in ("/", "%") and values[1] == 0:
        return None
    return {
        "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
        "%": lambda a, b: int(a - b * int(a / b)), "=": lambda a, b: a == b, "!=": lambda a, b: a != b,
        "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
        "not": lambda a: not a, "neg": lambda a: -a,
    }[op](*values)  # fmt: skip


def _bag(rows: Bag) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in rows)
