"""The two files of a join: how they are read, and what columns an empty one would have had."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from windrow.errors import InputError, SpecError
from windrow.files import Source, open_table
from windrow.spec import Equal

if TYPE_CHECKING:
    from windrow.spec import Query

_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
SEPARATORS = ";\t|"  # that a CSV file may have instead of commas


@dataclass(frozen=True)
class Input:
    """One file: which of its columns the join reads, and as what."""

    source: Source
    columns: list[str] | None = None
    hint: pa.Schema | None = None
    zoned: str | None = None  # the time column, if its times are in UTC whether they say so or not

    @property
    def as_stored(self) -> bool:
        """Whether the columns have the types that the file gives them."""
        return not self.source.types and self.zoned is None

    def table(self) -> pa.Table:
        """All rows."""
        table = self.source.table(self.columns, self.hint)
        return table.cast(self._schema(table.schema))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, batch by batch."""
        for batch in self.source.batches(columns=self.columns, columns_hint=self.hint):
            yield batch.cast(self._schema(batch.schema))

    def _schema(self, schema: pa.Schema) -> pa.Schema:
        if self.zoned is None or self.zoned not in schema.names:
            return schema
        at, kind = schema.get_field_index(self.zoned), schema.field(self.zoned).type
        if not pa.types.is_timestamp(kind) or kind.tz is not None:
            return schema
        return schema.set(at, pa.field(self.zoned, pa.timestamp(kind.unit, "UTC")))


def open_inputs(
    paths: Mapping[str, Path],
    query: Query,
    text: Iterable[str] = (),
    separator: str | None = None,
    utc: bool = False,
    warn: Callable[[str], None] = lambda line: None,
) -> dict[str, Input]:
    """Open both files.

    Columns named in `text` are read as text, times without a zone are in UTC if `utc` says so. A file of no bytes has
    the columns that the query names, and is warned of: what should have written it may have failed.
    """
    sources = _opened(paths, list(text), separator)
    found = {}
    for side, source in sources.items():
        (other,) = (s for name, s in sources.items() if name != side)
        empty = not source.schema.names
        if empty:
            warn(f"{source.path} has no bytes, not even a header: it is joined as a file without rows")
        columns = None if query.select is None and not empty else _named(query, side)
        zoned = query.stream(side).time if utc else None
        found[side] = Input(source, columns, _hint(query, side, other.schema), zoned)
    return found


def _opened(paths: Mapping[str, Path], text: list[str], separator: str | None) -> dict[str, Source]:
    sources = {side: open_table(path, separator=separator) for side, path in paths.items()}
    known = {side: source.schema.names for side, source in sources.items()}
    for side, names in known.items():
        if separator is None and len(names) == 1 and (marks := [m for m in SEPARATORS if m in names[0]]):
            raise InputError(
                f"{paths[side]}: {names[0]!r} is one column; say --separator '{marks[0]}' if that parts columns here"
            )
    for column in text:
        if all(known.values()) and not any(column in names for names in known.values()):
            raise SpecError(f"--text: neither file has a column {column!r}")
    for side, names in known.items():
        if mine := [column for column in text if column in names]:
            sources[side] = open_table(paths[side], dict.fromkeys(mine, "string"), separator)
    return sources


def _named(query: Query, side: str) -> list[str]:
    """The columns of one side that the query names."""
    stream = query.stream(side)
    references = [ref for predicate in query.predicates for ref in predicate.columns]
    references += [output.column for output in query.select or ()]
    promised = query.constraints if isinstance(query.constraints, tuple) else ()
    references += [f"{name}.{column}" for constraint in promised for name, column in constraint.columns_of]
    own = [ref.removeprefix(f"{side}.") for ref in references if ref.startswith(f"{side}.")]
    times = [stream.time] if stream.time else []
    return list(dict.fromkeys([*times, *own, *(filter_.column for filter_ in stream.where)]))


def _hint(query: Query, side: str, other: pa.Schema) -> pa.Schema:
    """What the columns of an empty file would have been: as on the other side, or as the query needs them."""
    partners = _partners(query, side)
    types = {partners.get(f.name, f.name): f.type for f in other if not pa.types.is_null(f.type)}
    stream = query.stream(side)
    if stream.time:
        steps = any(getattr(s.window.size, "unit", "ns") == "steps" for s in query.streams)
        types.setdefault(stream.time, pa.int64() if steps else pa.timestamp("us"))
    for filter_ in stream.where:
        value = filter_.value[0] if isinstance(filter_.value, tuple) else filter_.value
        types.setdefault(filter_.column, _TYPES.get(type(value), pa.string()))
    for column in _named(query, side):
        types.setdefault(column, pa.float64() if column in _measured(query, side) else pa.string())
    return pa.schema(list(types.items()))


def _partners(query: Query, side: str) -> dict[str, str]:
    """Columns of the other side, and what they meet on this one: times and keys."""
    mine = query.stream(side)
    theirs = next(stream for stream in query.streams if stream.name != side)
    found = {theirs.time: mine.time} if mine.time and theirs.time else {}
    for predicate in query.predicates:
        if isinstance(predicate, Equal):
            a, b = (ref.partition(".")[2] for ref in predicate.columns)
            found |= {b: a} if predicate.streams[0] == side else {a: b}
    return found


def _measured(query: Query, side: str) -> set[str]:
    """Columns that are compared by size, and so are numbers."""
    references = [ref for p in query.predicates if not isinstance(p, Equal) for ref in p.columns]
    return {ref.partition(".")[2] for ref in references if ref.startswith(f"{side}.")}
