"""What a query text does, in words: windows, conditions, join graph, covers, and constraints that could help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windrow.cql.joining import join_query, other_conditions, simple_filter
from windrow.cql.naming import Block, resolve
from windrow.cql.syntax import Column, Select, Source, WindowText
from windrow.spec import Graph, Query, Stream, Unique, join_graph, useful

Columns = Mapping[str, Sequence[str]] | None


def explained(select: Select, text: str, known: Columns) -> str:
    """All blocks, the outermost first."""
    return "\n".join(_Explainer(text, known).lines(select, "", "the query"))


def unbound(select: Select, text: str) -> Block:
    """A block of which no stream's columns are known."""
    return _Explainer(text, None).block(select)


class _Explainer:
    def __init__(self, text: str, known: Columns) -> None:
        self.text, self.known = text, known

    def block(self, select: Select) -> Block:
        """A block with its names resolved, as far as columns are known."""
        return resolve(select, {source.alias: self._columns(source) for source in select.sources}, self.text)

    def lines(self, select: Select, indent: str, name: str) -> list[str]:
        block = self.block(select)
        found = [f"{indent}{name}: {_kind(select)}"]
        inner = indent + "  "
        for source in select.sources:
            found += self._source(source, block, inner)
        found += [f"{inner}after the join: {condition}" for condition in block.rest]
        if len(select.sources) > 1:
            found += [inner + line for line in self._join(block)]
        if block.is_grouped:
            by = ", ".join(map(str, block.group))
            found.append(f"{inner}groups{' by ' + by if by else ''}: {', '.join(map(str, block.aggregates)) or 'none'}")
        if block.having is not None:
            found.append(f"{inner}having {block.having}")
        return found

    def _columns(self, source: Source) -> list[str] | None:
        if isinstance(source.what, str):
            return None if self.known is None else list(self.known.get(source.what, ())) or None
        block = self.block(source.what)
        return None if block.open else [name for name, _ in block.items]

    def _source(self, source: Source, block: Block, indent: str) -> list[str]:
        where = [str(found) for c in block.filters.get(source.alias, []) if (found := simple_filter(c))]
        where += [str(condition) for condition in other_conditions(block, source.alias)]
        ends = f", where {' and '.join(where)}" if where else ""
        if isinstance(source.what, str):
            called = "" if source.alias == source.what else f" as {source.alias}"
            window = source.window or WindowText("unbounded")
            return [f"{indent}stream {source.what}{called} {window}{ends}"]
        window_text = f" {source.window}" if source.window else ""
        inner = self.lines(source.what, indent, f"block {source.alias}{window_text}")
        inner[0] += ends
        return inner

    def _join(self, block: Block) -> list[str]:
        query = self._query(block)
        found = [f"joined by {' and '.join(map(str, block.joins))}"]
        momentary = _unique_at_each_moment(block)
        found += [
            f"{alias} has one row for each {', '.join(columns)} at any moment" for alias, columns in momentary.items()
        ]
        one = [Unique(alias, columns) for alias, columns in momentary.items() if _is_joined(query, alias, columns)]
        graph = join_graph(query, one)
        found += [
            f"many-one: {query.names[p]} -> {query.names[c]}"
            for p in range(len(query.names))
            for c in graph.children[p]
        ]
        found.append(f"covers: {_covers(graph)}")
        found.append(f"constraints that could release rows: {'; '.join(_promise(c) for c in useful(query))}")
        return found

    def _query(self, block: Block) -> Query:
        parts = [Stream(source.alias) for source in block.select.sources]
        return join_query(block, parts)


def _kind(select: Select) -> str:
    kinds = {"relation": "a relation", "istream": "a stream of what enters", "dstream": "a stream of what leaves"}
    return kinds[select.emit] + (", each row once" if select.distinct else "")


def _unique_at_each_moment(block: Block) -> dict[str, tuple[str, ...]]:
    """Sources that have one row for each value of some columns at any moment, because of how they are made."""
    found: dict[str, tuple[str, ...]] = {}
    for source in block.select.sources:
        if source.window is not None and source.window.kind == "partition" and source.window.rows == 1:
            found[source.alias] = source.window.by
        elif isinstance(source.what, Select) and source.what.emit == "relation":
            columns = _one_row_for_each(source.what)
            if columns:
                found[source.alias] = columns
    return found


def _one_row_for_each(select: Select) -> tuple[str, ...]:
    named = {str(item.value): item.name or item.value.name for item in select.items if isinstance(item.value, Column)}
    if select.distinct:
        whole = len(named) == len(select.items)
        return tuple(named.values()) if whole else ()
    if select.group and all(str(column) in named for column in select.group):
        return tuple(named[str(column)] for column in select.group)
    return ()


def _is_joined(query: Query, alias: str, columns: Sequence[str]) -> bool:
    graph = join_graph(query)
    stream = query.names.index(alias)
    edges = [{own for own, _ in graph.pairs[stream, other]} for other in graph.neighbours(stream)]
    return any(set(columns) <= edge for edge in edges)


def _covers(graph: Graph) -> str:
    return " or ".join("{" + ", ".join(graph.names[s] for s in cover) + "}" for cover in graph.minimal_covers())


def _promise(constraint: object) -> str:
    return str(constraint).removesuffix(" within 0 rows")
