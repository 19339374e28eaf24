"""CSV and JSON lines: types are guessed from the rows, and texts that are ISO times become times.

Times are timestamp[us], in UTC if they carry an offset; times with more than six decimals stay timestamp[ns].
An empty CSV field is null; an empty field in quotes is the empty text, and "NA" or "null" are texts.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, json

from windrow.errors import InputError
from windrow.files.names import Format, reported
from windrow.files.source import Source

GUESS_BYTES = 4 * 2**20
"""How much of a text file types are guessed from, and the longest row when it is read whole."""

BLOCK_BYTES = 2**20
"""How much of a text file is read at a time, and the longest row, in batches. Arrow holds some 40 of them."""

_HEAD_BYTES = 65_536


def has_text(path: Path, form: Format) -> bool:
    """Whether the file has any rows or a header; its first bytes must look like text of its format."""
    with reported(path, "reading"):
        head = _head(path, form)
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(b"PAR1"):
        raise InputError(f"{path}: this is a Parquet file; give it the ending .parquet")
    if head.startswith(b"\x1f\x8b"):
        raise InputError(f"{path}: this is compressed with gzip; give it the ending .gz")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or 4 * head.count(b"\0") > len(head):  # UTF-16, or no text at all
        raise InputError(f"{path}: this is not UTF-8 text; convert it to {form.kind} in UTF-8")
    if form.kind == "JSON lines" and b"\0" in head:
        line = head[: head.index(b"\0")].count(b"\n") + 1
        raise InputError(f"{path}: line {line} has a NUL byte, which JSON does not know; write it as \\u0000")
    if form.kind == "JSON lines" and text and not text.startswith(b"{"):
        start = text[:8].decode(errors="replace")[:1]
        raise InputError(f"{path}: this is not JSON lines, one object per line; it starts with {start!r}")
    return bool(text)


def _head(path: Path, form: Format) -> bytes:
    with pa.input_stream(str(path), compression="gzip" if form.gzip else None) as file:
        return bytes(file.read(_HEAD_BYTES))


class CsvSource(Source):
    """A CSV or TSV file with a header line."""

    def __init__(self, path: Path, types: dict[str, pa.DataType], form: Format) -> None:
        super().__init__(path, types)
        self._form = form

    @property
    def rows(self) -> int | None:
        """Not known before the file is read."""
        return None

    def _options(
        self, types: dict[str, pa.DataType], names: list[str] | None = None, block: int | None = None
    ) -> dict[str, Any]:
        head = _head(self.path, self._form)
        # Arrow takes a header without a line end for no header at all.
        lone_header = len(head) < _HEAD_BYTES and b"\n" not in head and b"\r" not in head
        return {
            "input_file": pa.BufferReader(head + b"\n") if lone_header else str(self.path),
            "read_options": csv.ReadOptions(block_size=block or GUESS_BYTES),
            "parse_options": csv.ParseOptions(delimiter=self._form.delimiter, newlines_in_values=True),
            "convert_options": csv.ConvertOptions(
                column_types=types,
                include_columns=names,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        }

    def _schema(self) -> pa.Schema:
        with csv.open_csv(**self._options(self.types)) as reader:
            schema = reader.schema
            first = next(iter(reader), None)
        head = pa.Table.from_batches([] if first is None else [first], schema=schema)
        for field in head.schema:
            if pa.types.is_binary(field.type) and field.name not in self.types:
                raise InputError(f"{self.path}: column {field.name!r} is not UTF-8 text; convert the file to UTF-8")
        return _with_times(head, self.types).schema

    def _whole(self, names: list[str]) -> pa.Table:
        return _with_times(csv.read_csv(**self._options(self.types, names)), self.types)

    def _stream(self, rows: int, target: pa.Schema) -> Iterator[pa.RecordBatch]:
        types = {field.name: field.type for field in target}
        with csv.open_csv(**self._options(types, target.names, BLOCK_BYTES)) as reader:
            yield from reader


class JsonSource(Source):
    """A file of JSON lines. Its columns are those that appear in the first 4 MB; later ones are left out."""

    @property
    def rows(self) -> int | None:
        """Not known before the file is read."""
        return None

    @cached_property
    def _guessed(self) -> pa.Schema:
        """What Arrow takes the columns for, by the first rows."""
        with json.open_json(str(self.path), **_json_options(None, GUESS_BYTES)) as reader:
            return reader.schema

    def _schema(self) -> pa.Schema:
        with json.open_json(str(self.path), **_json_options(self._readable(), GUESS_BYTES)) as reader:
            head = pa.Table.from_batches([next(iter(reader))]).select(self._guessed.names)
        return _with_times(head, self.types).schema

    def _whole(self, names: list[str]) -> pa.Table:
        options = _json_options(self._readable(), GUESS_BYTES)
        return _with_times(json.read_json(str(self.path), **options).select(names), self.types)

    def _stream(self, rows: int, target: pa.Schema) -> Iterator[pa.RecordBatch]:
        types = pa.schema([(field.name, self._read_type(field.name, field.type)) for field in target])
        with json.open_json(str(self.path), **_json_options(types, BLOCK_BYTES, "ignore")) as reader:
            yield from reader

    def _readable(self) -> pa.Schema:
        """The columns whose type is not left to Arrow: those with a given type, and times."""
        wanted = {field.name: field.type for field in self._guessed if pa.types.is_timestamp(field.type)}
        wanted |= {name: kind for name, kind in self.types.items() if name in self._guessed.names}
        return pa.schema([(name, self._read_type(name, kind)) for name, kind in wanted.items()])

    def _read_type(self, name: str, wanted: pa.DataType) -> pa.DataType:
        """What to read a column as that is to become `wanted`.

        Times are read as text, because Arrow's own reading drops their offset; and a number must be read as
        one whatever it is to become.
        """
        guess = self._guessed.field(name).type
        if pa.types.is_temporal(wanted) or pa.types.is_string(wanted) or pa.types.is_large_string(wanted):
            stands_as_text = pa.types.is_string(guess) or pa.types.is_timestamp(guess) or pa.types.is_null(guess)
            return pa.string() if stands_as_text else guess
        return wanted


def _json_options(types: pa.Schema | None, block: int, unexpected: str = "infer") -> dict[str, Any]:
    return {
        "read_options": json.ReadOptions(block_size=block),
        "parse_options": json.ParseOptions(explicit_schema=types, unexpected_field_behavior=unexpected),
    }


# ---------------------------------------------------------------------------------------------- times


def _with_times(table: pa.Table, leave: Container[str]) -> pa.Table:
    """The table with every time as timestamp[us], except in the columns `leave`."""
    for i, field in enumerate(table.schema):
        if field.name not in leave:
            kind = _time_type(table.column(i))
            if kind is not None and kind != field.type:
                table = table.set_column(i, field.name, table.column(i).cast(kind))
    return table


def _time_type(column: pa.ChunkedArray) -> pa.DataType | None:
    """The type of the times in a column of times or of text: the first that holds them all, or none."""
    if pa.types.is_timestamp(column.type):
        zones = [column.type.tz]
    elif pa.types.is_string(column.type) and _looks_like_time(column):
        zones = [None, "UTC"]
    else:
        return None
    for kind in (pa.timestamp(unit, zone) for unit in ("us", "ns") for zone in zones):
        try:
            column.cast(kind)
        except pa.ArrowInvalid:
            continue
        return kind
    return None


def _looks_like_time(column: pa.ChunkedArray) -> bool:
    """Whether the first text in the column starts with a date: a cheap look before the column is tried."""
    first = pc.index(pc.is_valid(column), True).as_py()
    return first >= 0 and re.match(r"\d{4}-\d\d-\d\d([T ]|$)", column[first].as_py()) is not None
