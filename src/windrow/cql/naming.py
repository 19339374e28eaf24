"""What the names in a block mean: which source each column is of, which conditions join, what the output is called.

Columns of streams are known when their tables are. Without tables (`explain`), a name that no other source has is taken
to be of the one stream that could have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from windrow.cql.syntax import Aggregate, Column, Expression, Item, Literal, Operation, Place, Select, conjuncts, walk
from windrow.errors import CqlError, alternatives

Known = Mapping[str, Sequence[str] | None]
"""The columns of each source, by its name in the block; None where they are not known."""


@dataclass(frozen=True)
class Block:
    """A block with all its names resolved: every column says which source it is of."""

    text: str
    select: Select
    known: Known
    items: tuple[tuple[str, Expression], ...] = ()
    """Output columns, named; a block that asks for all columns of a source that is not known has `open` set."""
    open: bool = False
    filters: dict[str, list[Expression]] = field(default_factory=dict)
    """Conditions on one source, by its name."""
    joins: tuple[Operation, ...] = ()
    """Comparisons of a column of one source with a column of another."""
    rest: tuple[Expression, ...] = ()
    """Conditions on several sources that are no such comparison: looked at after the join."""
    group: tuple[Column, ...] = ()
    having: Expression | None = None

    @property
    def aliases(self) -> tuple[str, ...]:
        """The names of the sources."""
        return tuple(self.known)

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """All aggregates of the output and of having, each once."""
        expressions = [value for _, value in self.items] + ([self.having] if self.having else [])
        found = [part for value in expressions for part in walk(value) if isinstance(part, Aggregate)]
        return tuple(dict.fromkeys(_without_places(aggregate) for aggregate in found))  # type: ignore[misc]

    @property
    def is_grouped(self) -> bool:
        """Whether its rows are groups."""
        return bool(self.group or self.aggregates)

    def needed(self, alias: str) -> list[str]:
        """The columns of a source that the output, the conditions after the join or the groups read."""
        expressions = [*(value for _, value in self.items), *self.rest, *self.group]
        expressions += [self.having] if self.having else []
        columns = [part for value in expressions for part in walk(value) if isinstance(part, Column)]
        return list(dict.fromkeys(column.name for column in columns if column.of == alias))

    def error(self, place: Place, what: str) -> CqlError:
        """An error that points at a place of the text."""
        return CqlError.at(self.text, place.line, place.column, what)


def resolve(select: Select, known: Known, text: str) -> Block:
    """The block of a select, given the columns of its sources."""
    return _Resolver(select, known, text).block()


class _Resolver:
    def __init__(self, select: Select, known: Known, text: str) -> None:
        self.select, self.known, self.text = select, known, text
        self.plain = Block(text, select, known)
        self.equated = self._equated()

    def block(self) -> Block:
        select = self.select
        items, is_open = self._items()
        group = tuple(self._expression(column) for column in select.group)
        having = None if select.having is None else self._expression(select.having)
        filters, joins, rest = self._conditions()
        block = Block(
            self.text, select, self.known, tuple(items), is_open, filters, tuple(joins), tuple(rest),
            group, having,  # type: ignore[arg-type]
        )  # fmt: skip
        self._check(block)
        return block

    # -------------------------------------------------------------------------------------- output

    def _items(self) -> tuple[list[tuple[str, Expression]], bool]:
        found: list[tuple[str, Expression, Place]] = []
        is_open = False
        for item in self.select.items:
            if item.value is not None:
                found.append((self._name(item), self._expression(item.value), item.place))
                continue
            columns = self._all(item)
            is_open |= columns is None
            found += [(name, value, item.place) for name, value in columns or []]
        names = [name for name, _, _ in found]
        for name, _, place in found:
            if names.count(name) > 1:
                raise self.plain.error(place, f"two output columns are called {name!r}: give one another name with As")
        return [(name, value) for name, value, _ in found], is_open

    def _name(self, item: Item) -> str:
        if item.name is not None:
            return item.name
        return item.value.name if isinstance(item.value, Column) else str(item.value)

    def _all(self, item: Item) -> list[tuple[str, Expression]] | None:
        """All columns of a source, or of all; those whose names several have are called after their source, too."""
        if item.of is not None and item.of not in self.known:
            raise self._unknown_source(item.of, item.place)
        wanted = [item.of] if item.of is not None else list(self.known)
        if any(self.known[alias] is None for alias in wanted):
            return None
        every = [(alias, name) for alias in wanted for name in self.known[alias] or ()]
        names = [name for _, name in every]
        return [
            (name if names.count(name) == 1 else f"{alias}_{name}", Column(alias, name, item.place))
            for alias, name in every
        ]

    # ----------------------------------------------------------------------------------- conditions

    def _conditions(self) -> tuple[dict[str, list[Expression]], list[Operation], list[Expression]]:
        filters: dict[str, list[Expression]] = {}
        joins: list[Operation] = []
        rest: list[Expression] = []
        for condition in conjuncts(self.select.where):
            resolved = self._expression(condition)
            if any(isinstance(part, Aggregate) for part in walk(resolved)):
                raise self.plain.error(condition.place, "an aggregate cannot stand in Where: put it into Having")
            sources = {part.of for part in walk(resolved) if isinstance(part, Column)}
            if len(sources) == 1:
                filters.setdefault(str(sources.pop()), []).append(resolved)
            elif _is_join(resolved):
                joins.append(resolved)  # type: ignore[arg-type]
            else:
                rest.append(resolved)
        return filters, joins, rest

    def _equated(self) -> list[set[tuple[str, str]]]:
        """Columns that Where asks to be equal, in sets; only those that say which source they are of."""
        sets: list[set[tuple[str, str]]] = []
        for condition in conjuncts(self.select.where):
            if not (isinstance(condition, Operation) and condition.op == "="):
                continue
            ends = {(part.of, part.name) for part in condition.operands if isinstance(part, Column) and part.of}
            if len(ends) == 2:
                touching = [group for group in sets if group & ends]
                sets = [group for group in sets if not group & ends] + [ends.union(*touching)]
        return sets

    # ---------------------------------------------------------------------------------------- names

    def _expression(self, expression: Expression) -> Expression:
        if isinstance(expression, Column):
            return self._column(expression)
        if isinstance(expression, Operation):
            return Operation(expression.op, tuple(map(self._expression, expression.operands)), expression.place)
        if isinstance(expression, Aggregate) and expression.operand is not None:
            if any(isinstance(part, Aggregate) for part in walk(expression.operand)):
                raise self.plain.error(
                    expression.place, f"{expression}: an aggregate of an aggregate needs a block of its own"
                )
            operand = self._expression(expression.operand)
            return Aggregate(expression.function, operand, expression.distinct, expression.place)
        return expression

    def _column(self, column: Column) -> Column:
        if column.of is not None:
            self._check_column(column)
            return column
        having = [alias for alias, names in self.known.items() if names is not None and column.name in names]
        open_ = [alias for alias, names in self.known.items() if names is None]
        if len(having) > 1 and not self._are_equated(having, column.name):
            choices = " or ".join(f"{alias}.{column.name}" for alias in having)
            raise self.plain.error(column.place, f"{column.name!r} is a column of several sources: write {choices}")
        if having:
            return Column(having[0], column.name, column.place)
        if len(open_) > 1:
            choices = " or ".join(f"{alias}.{column.name}" for alias in open_)
            raise self.plain.error(column.place, f"which source is {column.name!r} a column of? Write {choices}")
        if open_:
            return Column(open_[0], column.name, column.place)
        every = [name for names in self.known.values() for name in names or ()]
        near = alternatives(column.name, dict.fromkeys(every), "columns")
        raise self.plain.error(column.place, f"no source has a column {column.name!r}{near}")

    def _are_equated(self, aliases: Iterable[str], name: str) -> bool:
        wanted = {(alias, name) for alias in aliases}
        return any(wanted <= group for group in self.equated)

    def _check_column(self, column: Column) -> None:
        assert column.of is not None
        if column.of not in self.known:
            raise self._unknown_source(column.of, column.place)
        names = self.known[column.of]
        if names is not None and column.name not in names:
            near = alternatives(column.name, names, "columns")
            raise self.plain.error(column.place, f"{column.of!r} has no column {column.name!r}{near}")

    def _unknown_source(self, name: str, place: Place) -> CqlError:
        near = alternatives(name, self.known, "sources")
        return self.plain.error(place, f"From names no source {name!r}{near}")

    # --------------------------------------------------------------------------------------- checks

    def _check(self, block: Block) -> None:
        select = self.select
        if select.having is not None and not block.is_grouped:
            raise block.error(select.having.place, "Having is for groups: add Group By or an aggregate, or use Where")
        if block.is_grouped:
            if any(item.value is None for item in select.items):
                raise block.error(select.place, "a block with groups names its output columns: * has no meaning there")
            grouped = {(column.of, column.name) for column in block.group}
            checked = [*(value for _, value in block.items), *([block.having] if block.having else [])]
            for column in (column for value in checked for column in _bare(value)):
                if (column.of, column.name) not in grouped:
                    what = f"{column} is neither grouped by nor in an aggregate: add it to Group By, or aggregate it"
                    raise block.error(column.place, what)
        self._check_connected(block)

    def _check_connected(self, block: Block) -> None:
        """Every source is joined with the others."""
        aliases = list(self.known)
        reached, waiting = {aliases[0]}, list(block.joins)
        while step := [join for join in waiting if reached & _sources(join)]:
            reached = reached.union(*map(_sources, step))
            waiting = [join for join in waiting if join not in step]
        for source in self.select.sources:
            if source.alias not in reached:
                what = (
                    f"nothing in Where joins {source.alias!r} with {aliases[0]!r}: add a comparison of a column of "
                    f"each, such as {aliases[0]}.x = {source.alias}.x"
                )
                raise block.error(source.place, what)


def columns_read(
    selects: Iterable[Select], known: Mapping[str, Sequence[str]], always: Mapping[str, Iterable[str]]
) -> dict[str, list[str]]:
    """Of each stream the columns that a text could read, and some that are always needed: those whose name stands
    anywhere in one of its blocks, or all if one of them asks for all."""
    named: set[str] = set()
    for select in selects:
        if any(item.value is None for item in select.items):
            return {name: list(columns) for name, columns in known.items()}
        values = [*(item.value for item in select.items), select.where, *select.group, select.having]
        named |= {part.name for v in values if v is not None for part in walk(v) if isinstance(part, Column)}
        named |= {name for source in select.sources if source.window is not None for name in source.window.by}
    return {name: [c for c in columns if c in named or c in always[name]] for name, columns in known.items()}


def _is_join(condition: Expression) -> bool:
    """Whether a condition compares a column of one source with a column of another."""
    comparisons = ("=", "!=", "<", "<=", ">", ">=")
    if not (isinstance(condition, Operation) and condition.op in comparisons):
        return False
    return all(isinstance(operand, Column) for operand in condition.operands) and len(_sources(condition)) == 2


def _sources(condition: Expression) -> set[str]:
    return {str(part.of) for part in walk(condition) if isinstance(part, Column)}


def _bare(expression: Expression) -> list[Column]:
    """Columns that stand outside of aggregates."""
    if isinstance(expression, Column):
        return [expression]
    if isinstance(expression, Operation):
        return [column for operand in expression.operands for column in _bare(operand)]
    return []


def _without_places(expression: Expression) -> Expression:
    """The expression as one that stands nowhere, so that two that say the same are equal."""
    if isinstance(expression, Column):
        return Column(expression.of, expression.name)
    if isinstance(expression, Operation):
        return Operation(expression.op, tuple(map(_without_places, expression.operands)))
    if isinstance(expression, Aggregate):
        operand = None if expression.operand is None else _without_places(expression.operand)
        return Aggregate(expression.function, operand, expression.distinct)
    return Literal(expression.value)


def aggregate_name(aggregate: Aggregate) -> str:
    """How an aggregate's column is called inside a block."""
    return str(_without_places(aggregate))
