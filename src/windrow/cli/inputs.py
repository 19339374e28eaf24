"""The files of a command: how they are read, and what columns an empty one would have had."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from windrow.cli.bad_times import refuse_bad_times
from windrow.errors import InputError, SpecError, alternatives
from windrow.files import Source, open_table
from windrow.spec import Equal

if TYPE_CHECKING:
    from windrow.spec import Query

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
SEPARATORS = ";\t|"  # that a CSV file may have instead of commas


@dataclass(frozen=True)
class Input:
    """One file: which of its columns the join reads, and as what."""

    source: Source
    columns: list[str] | None = None
    hint: pa.Schema | None = None
    time: str | None = None
    utc: bool = False  # whether times are in UTC if they do not say so

    @property
    def zoned(self) -> str | None:
        """The time column, if its times are in UTC whether they say so or not."""
        return self.time if self.utc else None

    @property
    def as_stored(self) -> bool:
        """Whether the columns have the types that the file gives them."""
        return not self.source.types and self.zoned is None

    def table(self) -> pa.Table:
        """All rows."""
        table = self.source.table(self.columns, self.hint)
        refuse_bad_times(self.source.path, table, self.time)
        return in_utc(table, self.zoned)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, batch by batch."""
        for batch in self.source.batches(columns=self.columns, columns_hint=self.hint):
            yield in_utc(batch, self.zoned)


def in_utc(rows: Rows, column: str | None) -> Rows:
    """The same rows, with the times of a column in UTC if they do not say where they are."""
    if column is None or column not in rows.schema.names:
        return rows
    at, kind = rows.schema.get_field_index(column), rows.schema.field(column).type
    if not pa.types.is_timestamp(kind) or kind.tz is not None:
        return rows
    return rows.cast(rows.schema.set(at, pa.field(column, pa.timestamp(kind.unit, "UTC"))))


def by_stream(texts: Iterable[str] | None, option: str, names: Iterable[str]) -> dict[str, str]:
    """What an option says of each stream: VALUE, of all that are not named, or NAME=VALUE.

    >>> by_stream([";", "right=|"], "--separator", ["left", "right"])
    {'left': ';', 'right': '|'}
    """
    known, own, common = list(names), {}, []
    for text in texts or ():
        name, sign, value = text.partition("=")
        if not sign or text == sign:  # which may also be what parts columns
            common.append(text)
        elif not (name and value):
            raise SpecError(f"{option} takes a value for all streams, or NAME=VALUE for one, got {text!r}")
        elif name not in known:
            raise SpecError(f"{option} {text}: there is no stream {name!r}{alternatives(name, known, 'streams')}")
        elif name in own:
            raise SpecError(f"{option} names the stream {name!r} twice")
        else:
            own[name] = value
    if len(common) > 1:
        raise SpecError(f"{option} is given twice for all streams: {common[0]!r} and {common[1]!r}; write NAME=VALUE")
    return (dict.fromkeys(known, common[0]) if common else {}) | own


def open_inputs(
    paths: Mapping[str, Path],
    query: Query,
    text: Iterable[str] = (),
    separator: Iterable[str] | None = None,
    utc: bool = False,
    warn: Callable[[str], None] = lambda line: None,
) -> dict[str, Input]:
    """Open both files.

    Columns named in `text` are read as text, times without a zone are in UTC if `utc` says so. A file of no bytes has
    the columns that the query names, and is warned of: what should have written it may have failed.
    """
    sources = open_sources(paths, text, separator)
    found = {}
    for side, source in sources.items():
        (other,) = (s for name, s in sources.items() if name != side)
        empty = not source.schema.names
        if empty:
            warn(f"{source.path} has no bytes, not even a header: it is joined as a file without rows")
        columns = None if query.select is None and not empty else _named(query, side)
        found[side] = Input(source, columns, _hint(query, side, other.schema), query.stream(side).time, utc)
    return found


def open_sources(
    paths: Mapping[str, Path], text: Iterable[str] | None = None, separator: Iterable[str] | None = None
) -> dict[str, Source]:
    """Files by the names of their streams, with some columns as text, and what parts the columns of CSV."""
    marks = by_stream(separator, "--separator", paths)
    sources = {name: open_table(path, separator=marks.get(name)) for name, path in paths.items()}
    known = {name: source.schema.names for name, source in sources.items()}
    _refuse_joined({paths[name]: (name, columns) for name, columns in known.items() if name not in marks})
    for column in text or ():
        if all(known.values()) and not any(column in columns for columns in known.values()):
            raise SpecError(f"--text: {'neither' if len(known) == 2 else 'no'} file has a column {column!r}")
    for name, columns in known.items():
        if mine := {column: "string" for column in text or () if column in columns}:
            sources[name] = open_table(paths[name], mine, marks.get(name))
    return sources


def _refuse_joined(files: Mapping[Path, tuple[str, list[str]]]) -> None:
    """Refuse files whose header is one name, with something in it that may part columns."""
    found = {
        path: (name, columns[0], mark)
        for path, (name, columns) in files.items()
        if len(columns) == 1 and (mark := next((m for m in SEPARATORS if m in columns[0]), None))
    }
    for path, (name, header, mark) in found.items():
        said = f"{name}=" if len({other for _, _, other in found.values()}) > 1 or len(found) < len(files) else ""
        raise InputError(f"{path}: {header!r} is one column; say --separator {said}'{mark}' if that parts columns here")


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
