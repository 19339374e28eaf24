"""Source: a file that can be read whole or batch by batch, always in file order.

An empty file is an empty result and no error. A text file of no bytes has not even columns, and one with only
a header has columns of no known type; then `columns_hint`, usually the schema of the stream on the other side
of a join, says what they would have been.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from windrow.errors import UnknownColumn
from windrow.files.names import distinct, reported
from windrow.record import whole

BATCH_ROWS = 65_536


class Source:
    """An opened file: its schema, all of it as a table, its rows in batches. This class is the empty file."""

    def __init__(self, path: Path, types: dict[str, pa.DataType]) -> None:
        self.path = path
        self.types = types

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns and their types: null for a column without values, no columns for a file of no bytes.

        Types in text files are guessed from the first rows (4 MB); `table` looks at all of them.
        """
        with reported(self.path, "reading"):
            schema = self._schema()
        distinct(schema.names, self.path)
        for name in self.types:
            if schema.names and name not in schema.names:
                raise UnknownColumn.of(name, schema.names, str(self.path))
        return pa.schema([pa.field(field.name, self.types.get(field.name, field.type)) for field in schema])

    @property
    def rows(self) -> int | None:
        """The number of rows, if the file says so without being read."""
        return 0

    def table(self, columns: Sequence[str] | None = None, columns_hint: pa.Schema | None = None) -> pa.Table:
        """The whole file, or only `columns` of it, in the order asked for.

        `columns_hint` gives the types of columns that have none (see the module), and the columns themselves
        if the file has none; without it such columns are text.
        """
        names = self._names(columns, columns_hint)
        with reported(self.path, "reading"):
            table = (self if self.schema.names else Source(self.path, self.types))._whole(names).select(names)
            return _fit(table, self._target(table.schema, columns_hint))

    def batches(
        self,
        rows: int = BATCH_ROWS,
        columns: Sequence[str] | None = None,
        columns_hint: pa.Schema | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The file in batches of `rows` rows (the last has what is left), in memory for a few of them.

        An empty file gives one batch of no rows, so that the caller always learns the columns.
        """
        rows = whole(rows, "rows", least=1)
        names = self._names(columns, columns_hint)
        known = self.schema if len(self.schema) else pa.schema([(name, pa.null()) for name in names])
        target = self._target(pa.schema([known.field(name) for name in names]), columns_hint)
        return self._batches(rows, target)

    def _batches(self, rows: int, target: pa.Schema) -> Iterator[pa.RecordBatch]:
        with reported(self.path, "reading"):
            none = True
            stream = self._stream(rows, target) if self.schema.names else ()
            fitted = (_fit(batch.select(target.names), target) for batch in stream)
            for batch in _regroup(fitted, rows):
                none = False
                yield batch
            if none:
                yield pa.RecordBatch.from_pylist([], schema=target)

    def _names(self, columns: Sequence[str] | None, hint: pa.Schema | None) -> list[str]:
        """The columns to deliver. A file without any has all that are asked for."""
        columns = [columns] if isinstance(columns, str) else columns
        known = self.schema.names
        if not known:
            return list(columns if columns is not None else (hint.names if hint is not None else ()))
        for name in columns or ():
            if name not in known:
                raise UnknownColumn.of(name, known, str(self.path))
        return list(known if columns is None else dict.fromkeys(columns))

    def _target(self, schema: pa.Schema, hint: pa.Schema | None) -> pa.Schema:
        """The schema to deliver: given types first, and a type for every column that has none."""

        def kind(field: pa.Field) -> pa.DataType:
            if field.name in self.types:
                return self.types[field.name]
            if not pa.types.is_null(field.type):
                return field.type
            return hint.field(field.name).type if hint is not None and field.name in hint.names else pa.string()

        return pa.schema([pa.field(field.name, kind(field)) for field in schema])

    # ------------------------------------------------------------------------ what each format does

    def _schema(self) -> pa.Schema:
        """The columns; null where no type is known."""
        return pa.schema([])

    def _whole(self, names: list[str]) -> pa.Table:
        """At least the columns `names`, all rows."""
        return pa.table({name: pa.nulls(0) for name in names})

    def _stream(self, rows: int, target: pa.Schema) -> Iterable[pa.RecordBatch]:
        """At least the columns of `target`, in batches of any size; `rows` is what the caller will want."""
        return ()


def _fit(rows: pa.Table | pa.RecordBatch, target: pa.Schema) -> pa.Table | pa.RecordBatch:
    """The same columns in the types of `target`."""
    return rows if rows.schema.equals(target) else rows.cast(target)


def _regroup(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of `rows` each; the last has what is left."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        start = 0
        while count + batch.num_rows - start >= rows:
            take = rows - count
            held.append(batch.slice(start, take))
            yield pa.concat_batches(held)
            held, count, start = [], 0, start + take
        if start < batch.num_rows:
            held.append(batch.slice(start))
            count += batch.num_rows - start
    if held:
        yield pa.concat_batches(held)
