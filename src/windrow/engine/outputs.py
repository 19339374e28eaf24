"""Output columns: which columns a match has, and what they are called."""

from dataclasses import dataclass

import pyarrow as pa

from windrow.errors import DuplicateColumn, UnknownColumn
from windrow.spec import Equal, Query, split_reference
from windrow.spec.joins import NamedJoin


@dataclass(frozen=True)
class OutputColumn:
    """One output column and where it comes from."""

    name: str
    stream: int
    column: str


def outputs(query: Query, schemas: dict[str, pa.Schema], join: NamedJoin) -> tuple[OutputColumn, ...]:
    """The selected columns of a join; or all, with names that two streams share told apart by the stream's name."""
    streams = join.streams(query.names)
    if query.select is not None:
        chosen = []
        for entry in query.select:
            stream, column = split_reference(entry.column)
            if stream not in streams:
                continue
            if column not in schemas[stream].names:
                raise UnknownColumn.of(column, schemas[stream].names, f"select: stream {stream!r}")
            chosen.append(OutputColumn(entry.name, query.names.index(stream), column))
        return tuple(chosen)
    return _all_columns(query, schemas, streams, _keys_of_one_name(join, streams))


def _all_columns(
    query: Query, schemas: dict[str, pa.Schema], streams: tuple[str, ...], once: set[str]
) -> tuple[OutputColumn, ...]:
    """All columns of some streams; those of `once` are the same on all of them."""
    names = [name for stream in streams for name in schemas[stream].names]
    found: list[OutputColumn] = []
    for stream in streams:
        index = query.names.index(stream)
        for column in schemas[stream].names:
            if column in once:
                if all(o.name != column for o in found):
                    found.append(OutputColumn(column, index, column))
                continue
            name = column if names.count(column) == 1 else f"{stream}_{column}"
            found.append(OutputColumn(name, index, column))
    seen: set[str] = set()
    for output in found:
        if output.name in seen:
            raise DuplicateColumn(
                f"the output would have two columns called {output.name!r}: choose and name the columns with select="
            )
        seen.add(output.name)
    return tuple(found)


def _keys_of_one_name(join: NamedJoin, streams: tuple[str, ...]) -> set[str]:
    """Columns that every stream has under one name and that the predicates make equal on all of them."""
    reached: dict[str, list[set[str]]] = {}
    for predicate in join.on:
        if isinstance(predicate, Equal):
            (a, left), (b, right) = split_reference(predicate.left), split_reference(predicate.right)
            if left == right:
                groups = reached.setdefault(left, [])
                touched = [g for g in groups if g & {a, b}]
                reached[left] = [g for g in groups if g not in touched] + [{a, b}.union(*touched)]
    return {column for column, groups in reached.items() if groups == [set(streams)]}
