"""JSON lines from Arrow: one object per row, put together column by column.

Numbers, truth values, texts and times are written by Arrow's kernels; only texts that need escapes, and
columns of bytes or nested values, go through Python value by value. JSON has no word for some values: NaN and
the infinities become null, times become ISO texts (in UTC with a Z if they have a zone), bytes become base64,
and durations become whole numbers of the column's unit.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

CHUNK_ROWS = 16_384  # bounds the text held at once, and keeps it far below Arrow's 2 GB for one array


def json_lines(table: pa.Table) -> Iterator[bytes]:
    """The rows as JSON text, some thousand lines at a time."""
    if table.num_columns == 0:
        yield b"{}\n" * table.num_rows
        return
    for start in range(0, table.num_rows, CHUNK_ROWS):
        (chunk,) = table.slice(start, CHUNK_ROWS).combine_chunks().to_batches()
        parts: list[Any] = ["{"]
        for i, name in enumerate(table.column_names):
            parts += [
                ("," if i else "") + json.dumps(name, ensure_ascii=False) + ":",
                _texts(chunk.column(i)),
            ]
        yield _bytes(_join(*parts, "}\n"))


def _bytes(texts: pa.Array) -> bytes:
    """All texts of a column in one: they stand one after the other in its buffer already."""
    ends = np.frombuffer(texts.buffers()[1], np.int64)
    return bytes(memoryview(texts.buffers()[2])[ends[texts.offset] : ends[texts.offset + len(texts)]])


def _join(*parts: Any) -> pa.Array:
    """The parts of each row in one text: columns of text, and texts that are the same in every row."""
    texts = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*texts, pa.scalar("", pa.large_string()))


def _texts(column: pa.Array) -> pa.Array:
    """The JSON text of each value."""
    return pc.fill_null(_text_or_null(column), "null")


def _text_or_null(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _text_or_null(column.cast(kind.value_type))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        return _quoted(column.cast(pa.large_string()))
    if pa.types.is_floating(kind):
        column = column.cast(pa.float32()) if pa.types.is_float16(kind) else column
        return pc.if_else(pc.is_finite(column), column, None).cast(pa.large_string())
    if pa.types.is_duration(kind):
        return column.cast(pa.int64()).cast(pa.large_string())
    if pa.types.is_timestamp(kind):
        return _join('"', _iso(column), '"')
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return _join('"', column.cast(pa.large_string()), '"')
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return column.cast(pa.large_string())
    texts = [None if value is None else _dumps(value) for value in column.to_pylist()]
    return pa.array(texts, pa.large_string())


def _iso(column: pa.Array) -> pa.Array:
    if column.type.tz is not None:
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    return pc.replace_substring(column.cast(pa.large_string()), " ", "T", max_replacements=1)


def _quoted(column: pa.Array) -> pa.Array:
    """Texts in quotes. Few need escapes: those are written by Python, the others only get their quotes."""
    quoted = _join('"', column, '"')
    special = pc.match_substring_regex(column, r'["\\\x00-\x1f]')
    if not pc.any(special).as_py():
        return quoted
    escaped = [_dumps(value) for value in column.filter(special).to_pylist()]
    return pc.replace_with_mask(quoted, pc.fill_null(special, False), pa.array(escaped, pa.large_string()))


def _dumps(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """A value in terms that JSON has."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value if isinstance(value, (str, int, float, type(None))) else str(value)
