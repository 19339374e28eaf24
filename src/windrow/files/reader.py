"""Opening a file for reading: which source it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from windrow.errors import SpecError
from windrow.files.names import AnyPath, format_of, reported
from windrow.files.parquet import ParquetSource, data_files
from windrow.files.source import Source
from windrow.files.text import CsvSource, JsonSource, has_text


def open_table(
    path: AnyPath, types: Mapping[str, pa.DataType | str] | None = None, separator: str | None = None
) -> Source:
    """Open a file, or a directory of Parquet files, for reading.

    `types` gives the types of some columns instead of what the file or its first rows say, as Arrow types or
    their names: `types={"code": "string"}` keeps the leading zeros of codes in a CSV file. `separator` is what stands
    between two columns of a CSV file, if that is no comma.
    """
    path = Path(path)
    given = {name: _data_type(kind, name) for name, kind in (types or {}).items()}
    with reported(path, "reading"):
        is_directory, size = path.is_dir(), path.stat().st_size
    if is_directory:
        files = data_files(path)
        return ParquetSource(path, given, files) if files else Source(path, given)
    form = replace(format_of(path), separator=_separator(separator))
    if size == 0 or (form.kind != "Parquet" and not has_text(path, form)):
        return Source(path, given)
    if form.kind == "Parquet":
        return ParquetSource(path, given, [path])
    return JsonSource(path, given) if form.kind == "JSON lines" else CsvSource(path, given, form)


def _separator(separator: str | None) -> str:
    if separator is None:
        return ","
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n':
        raise SpecError(f"separator must be one character, and no quote or line end, got {separator!r}")
    return separator


def _data_type(kind: pa.DataType | str, name: str) -> pa.DataType:
    if isinstance(kind, pa.DataType):
        return kind
    try:
        return pa.type_for_alias(kind)
    except (ValueError, TypeError):
        raise SpecError(f"types[{name!r}] is {kind!r}, which names no Arrow type; for example: 'int64'") from None
