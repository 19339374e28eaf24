"""Intake: whatever a user hands over becomes an Arrow table of plain columns, or one clear error.

Dictionaries, views and run-end encodings are decoded: a resident must not hold on to values of rows that have left,
and what is charged must be what is held.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.errors import DuplicateColumn, InputError, SpecError, alternatives


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
        return pa.Table.from_arrays([_decoded(c) for c in table.columns], schema=schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"stream {stream!r}: a column cannot be decoded: {error}") from error


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column in its plain type."""
    return pa.chunked_array([_plain(chunk) for chunk in column.chunks], plain_type(column.type))


def _plain(array: Any) -> Any:
    """An array in its plain type. Arrow casts what is not encoded, and takes from what is plain: the rest is here."""
    kind, wanted = array.type, plain_type(array.type)
    t = pa.types
    if kind.equals(wanted):
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(array.storage)
    if t.is_dictionary(kind):
        return _plain(array.dictionary).take(array.indices)
    if t.is_run_end_encoded(kind):
        rows = np.arange(array.offset, array.offset + len(array))
        return _plain(array.values).take(pa.array(np.searchsorted(array.run_ends.to_numpy(), rows, side="right")))
    if not _encoded(kind) or t.is_string_view(kind) or t.is_binary_view(kind):
        return array.cast(wanted)
    if t.is_union(kind):
        return _plain_union(array)
    nulls = array.is_null() if array.null_count else None
    if t.is_struct(kind):
        children = [_plain(array.field(k)) for k in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=nulls)
    if t.is_fixed_size_list(kind):
        items = array.values.slice(array.offset * kind.list_size, len(array) * kind.list_size)
        return pa.FixedSizeListArray.from_arrays(_plain(items), type=wanted, mask=nulls)
    return _plain_list(array, wanted, nulls)


def _plain_union(array: Any) -> Any:
    """The same of a union; of a slice, its `type_codes` and `offsets` would be those of the whole."""
    kind, rows = array.type, len(array)
    children = [_plain(array.field(k)) for k in range(kind.num_fields)]
    names, buffers = [field.name for field in kind], array.buffers()
    codes = pa.array(np.frombuffer(buffers[1], np.int8, rows, array.offset))
    if kind.mode == "sparse":
        return pa.UnionArray.from_sparse(codes, children, names, kind.type_codes)
    places = pa.array(np.frombuffer(buffers[2], np.int32, rows, 4 * array.offset))
    return pa.UnionArray.from_dense(codes, places, children, names, kind.type_codes)


def _plain_list(array: Any, wanted: pa.DataType, nulls: Any) -> Any:
    """The same of a list, a map or a view of lists: their items are taken one by one, in order of the rows."""
    begins = array.offsets.to_numpy().astype(np.int64)
    if hasattr(array, "sizes"):  # a view, whose lists may overlap; Arrow's own cast to lists damages nulls
        sizes = array.sizes.to_numpy().astype(np.int64)
    else:
        begins, sizes = begins[:-1], np.diff(begins)
    if nulls is not None:
        sizes = np.where(nulls.to_numpy(zero_copy_only=False), 0, sizes)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    items = pa.array(np.repeat(begins - ends[:-1], sizes) + np.arange(ends[-1]))
    offsets = pa.array(ends, pa.int64() if pa.types.is_large_list(wanted) else pa.int32())
    if pa.types.is_map(wanted):
        both = (_plain(part).take(items) for part in (array.keys, array.items))
        return pa.MapArray.from_arrays(offsets, *both, type=wanted, mask=nulls)
    made = pa.ListArray if pa.types.is_list(wanted) else pa.LargeListArray
    return made.from_arrays(offsets, _plain(array.values).take(items), type=wanted, mask=nulls)


def _arrow(data: Any, stream: str) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if type(data).__name__ == "LazyFrame":
        raise InputError(f"stream {stream!r} is a lazy frame: collect() it first")
    if type(data).__module__.startswith("pyspark.pandas."):
        raise InputError(f"stream {stream!r} is of pandas on Spark: to_spark() joins it on Spark, to_pandas() here")
    try:
        table = pa.table(data)
    except (TypeError, ValueError, pa.ArrowException) as error:
        kind = type(data).__name__
        raise InputError(f"stream {stream!r}: cannot be taken as an Arrow table (got {kind}): {error}") from error
    return table.drop_columns([c for c in table.column_names if c.startswith("__index_level_")])


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with every column of a plain type, nullable and without metadata: batches differ in those freely."""
    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])


def plain_schemas(schemas: Mapping[str, pa.Schema], names: Sequence[str]) -> dict[str, pa.Schema]:
    """The plain schemas of streams, of which none may be missing."""
    if missing := [name for name in names if name not in schemas]:
        raise SpecError(
            f"the first push brings nothing for {missing[0]!r}: bring every stream (an empty table will do) "
            "or give schemas= to the engine"
        )
    return {name: plain_schema(schema) for name, schema in schemas.items()}


def check_batches(batches: Any, names: Sequence[str]) -> None:
    """Refuse what is no mapping from the names of streams."""
    if not isinstance(batches, Mapping):
        raise InputError(f"push takes a mapping from stream names to tables, got {type(batches).__name__}")
    for name in batches:
        if name not in names:
            known = alternatives(str(name), names, "streams")
            raise InputError(f"push: the query has no stream {str(name)[:80]!r}{known}")


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type without dictionaries, views and run-end encodings, and with every field nullable, at any depth.

    What a type of somebody else's (an extension) stores is left as it is, if it can be.
    """
    if type_.id in _PLAIN:
        return type_
    t = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        return plain_type(type_.storage_type) if _encoded(type_.storage_type) else type_
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
    if t.is_list(type_) or t.is_list_view(type_):
        return pa.list_(plain_type(type_.value_type))
    if t.is_large_list(type_) or t.is_large_list_view(type_):
        return pa.large_list(plain_type(type_.value_type))
    if t.is_fixed_size_list(type_):
        return pa.list_(plain_type(type_.value_type), type_.list_size)
    if t.is_union(type_) and _encoded(type_):
        children = [pa.field(field.name, plain_type(field.type)) for field in type_]
        return pa.union(children, type_.mode, type_.type_codes)
    return type_


_PLAIN = frozenset(  # what most columns are
    type_.id
    for type_ in (
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
        pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary(),
        pa.date32(), pa.date64(), pa.timestamp("us"), pa.time32("s"), pa.time64("us"), pa.duration("us"),
        pa.decimal128(1), pa.decimal256(1), pa.null(),
    )
)  # fmt: skip


def _encoded(type_: pa.DataType) -> bool:
    """Whether a type has a dictionary, a view or a run-end encoding in it, at any depth."""
    t = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        return _encoded(type_.storage_type)
    if t.is_dictionary(type_) or t.is_run_end_encoded(type_) or t.is_list_view(type_) or t.is_large_list_view(type_):
        return True
    if t.is_string_view(type_) or t.is_binary_view(type_):
        return True
    return any(_encoded(type_.field(k).type) for k in range(type_.num_fields))
