"""Intake: whatever a user hands over becomes an Arrow table of plain columns, or one clear error.

Dictionaries, views and run-end encodings are decoded: a resident must not hold on to values of rows that have left,
and what is charged must be what is held.
"""

from typing import Any

import pyarrow as pa

from windrow.errors import DuplicateColumn, InputError


def as_table(data: Any, stream: str) -> pa.Table:
    """A table of plain columns from Arrow data of any kind: a table, a batch, or what speaks Arrow (pandas, Polars)."""
    table = _arrow(data, stream)
    names = table.column_names
    if twice := [name for name in names if names.count(name) > 1]:
        raise DuplicateColumn(f"stream {stream!r} has two columns called {twice[0]!r}: rename one of them")
    schema = plain_schema(table.schema)
    if schema.equals(table.schema):
        return table
    try:
        return pa.table([_decoded(c) for c in table.columns], names=names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"stream {stream!r}: a column cannot be decoded: {error}") from error


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column without its dictionary; values become plain first, for Arrow cannot take from views."""
    if not pa.types.is_dictionary(column.type):
        return column
    values = plain_type(column.type.value_type)
    chunks = [chunk.dictionary.cast(values).take(chunk.indices) for chunk in column.chunks]
    return pa.chunked_array(chunks, values)


def _arrow(data: Any, stream: str) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if type(data).__name__ == "LazyFrame":
        raise InputError(f"stream {stream!r} is a lazy frame: collect() it first")
    try:
        table = pa.table(data)
    except (TypeError, ValueError, pa.ArrowException) as error:
        kind = type(data).__name__
        raise InputError(f"stream {stream!r}: cannot be taken as an Arrow table (got {kind}): {error}") from error
    return table.drop_columns([c for c in table.column_names if c.startswith("__index_level_")])


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with every column of a plain type, nullable and without metadata: batches differ in those freely."""
    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type without dictionaries, views and run-end encodings, and with every field nullable, at any depth."""
    t = pa.types
    if t.is_dictionary(type_) or t.is_run_end_encoded(type_):
        return plain_type(type_.value_type)
    if t.is_string_view(type_):
        return pa.large_string()
    if t.is_binary_view(type_):
        return pa.large_binary()
    if t.is_struct(type_):
        return pa.struct([pa.field(field.name, plain_type(field.type)) for field in type_])
    if t.is_map(type_):
        return pa.map_(plain_type(type_.key_type), plain_type(type_.item_type))
    if t.is_list(type_):
        return pa.list_(plain_type(type_.value_type))
    if t.is_large_list(type_):
        return pa.large_list(plain_type(type_.value_type))
    if t.is_fixed_size_list(type_):
        return pa.list_(plain_type(type_.value_type), type_.list_size)
    return type_
