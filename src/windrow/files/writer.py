"""Writer: an output file that is there as a whole or not at all.

Rows go to a hidden file beside the target, which takes the target's name when all is written and is removed
when anything fails. An existing file is replaced at that moment, unless it is one of the inputs.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from windrow.errors import InputError, UnknownColumn
from windrow.files.json_lines import json_lines
from windrow.files.names import AnyPath, Format, distinct, format_of, reported

ROW_GROUP_ROWS = 131_072
"""Rows of a Parquet row group: small writes are gathered until there are as many."""


def open_writer(path: AnyPath, schema: pa.Schema, inputs: Iterable[AnyPath] = ()) -> Writer:
    """A context manager that writes tables of `schema` to a file whose name says the format.

    What cannot work is refused here, before any work is done: an unknown ending, a missing directory, a type
    that CSV cannot hold, and a target that is one of `inputs` or lies in one.
    """
    path = Path(path)
    form = format_of(path)
    distinct(schema.names, path)
    if form.kind in ("CSV", "TSV"):
        _refuse_nested(path, schema)
    with reported(path, "writing"):
        target = path.resolve()
        if target.exists() and not target.is_file():
            raise InputError(f"{path}: this is not a file that can be replaced")
        if not target.parent.is_dir():
            raise InputError(f"{path}: the directory {path.parent} does not exist; make it first")
        for given in inputs:
            _refuse_input(path, target, Path(given))
    return _KINDS[form.kind](path, target, schema, form)


def _refuse_input(path: Path, target: Path, given: Path) -> None:
    same = target.exists() and given.exists() and target.samefile(given)
    if same or given.resolve() == target:
        raise InputError(f"{path}: this is an input too, and would be lost; write to another file")
    if given.is_dir() and given.resolve() in target.parents:
        raise InputError(f"{path}: this lies in the input directory {given}; write to another one")


def _refuse_nested(path: Path, schema: pa.Schema) -> None:
    for field in schema:
        if pa.types.is_nested(field.type):
            raise InputError(
                f"{path}: column {field.name!r} is {field.type}, which does not fit into this format; "
                "write .parquet or .jsonl"
            )


class Writer(ABC):
    """An output file while it is written. `rows` counts what was given to `write`."""

    def __init__(self, path: Path, target: Path, schema: pa.Schema, form: Format) -> None:
        self.path = path
        self.schema = schema
        self.rows = 0
        self._target = target
        self._form = form
        self._file: Any = None
        self._out: Any = None
        self._hidden = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")

    def __enter__(self) -> Writer:
        with reported(self.path, "writing"):
            try:
                self._file = pa.OSFile(str(self._hidden), "wb")
                self._out = pa.CompressedOutputStream(self._file, "gzip") if self._form.gzip else self._file
                self._start()
            except BaseException:
                self._drop()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                with reported(self.path, "writing"):
                    self._flush()
                    self._end()
                    self._close()
                    self._hidden.replace(self._target)
        finally:
            if self._hidden.exists():
                with suppress(OSError, pa.ArrowException):  # the error that led here is the one to show
                    self._end()
                self._drop()

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Add rows. Columns may stand in any order, and their types must fit those of the schema."""
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        for name in self.schema.names:
            if name not in table.column_names:
                raise UnknownColumn.of(name, table.column_names, f"{self.path}: the table to write")
        with reported(self.path, "writing"):
            table = table.select(self.schema.names)
            self._add(table if table.schema.equals(self.schema) else table.cast(self.schema))
        self.rows += table.num_rows

    def _close(self) -> None:
        for file in (self._out, self._file):
            if file is not None:
                file.close()

    def _drop(self) -> None:
        with suppress(OSError, pa.ArrowException):
            self._close()
        self._hidden.unlink(missing_ok=True)

    # ------------------------------------------------------------------------ what each format does

    @abstractmethod
    def _start(self) -> None:
        """Begin, with the output open."""

    @abstractmethod
    def _add(self, table: pa.Table) -> None:
        """Write rows of exactly the schema, or hold them back."""

    @abstractmethod
    def _flush(self) -> None:
        """Write what is held back."""

    @abstractmethod
    def _end(self) -> None:
        """Let go of the output, which is closed after it. May be called twice."""


class _ParquetWriter(Writer):
    def _start(self) -> None:
        self._parquet = pq.ParquetWriter(self._out, self.schema)
        self._held: list[pa.Table] = []
        self._held_rows = 0

    def _add(self, table: pa.Table) -> None:
        self._held.append(table)
        self._held_rows += table.num_rows
        if self._held_rows >= ROW_GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._held_rows:
            self._parquet.write_table(pa.concat_tables(self._held), row_group_size=ROW_GROUP_ROWS)
        self._held, self._held_rows = [], 0

    def _end(self) -> None:
        self._parquet.close()


class _CsvWriter(Writer):
    def _start(self) -> None:
        options = csv.WriteOptions(delimiter=self._form.delimiter)
        self._csv = csv.CSVWriter(self._out, self.schema, write_options=options)

    def _add(self, table: pa.Table) -> None:
        self._csv.write_table(table)

    def _flush(self) -> None:
        """Nothing is held back."""

    def _end(self) -> None:
        self._csv.close()


class _JsonWriter(Writer):
    def _start(self) -> None:
        """JSON lines have no header."""

    def _add(self, table: pa.Table) -> None:
        for text in json_lines(table):
            self._out.write(text)

    def _flush(self) -> None:
        """Nothing is held back."""

    def _end(self) -> None:
        """Text has no end mark."""


_KINDS: dict[str, type[Writer]] = {
    "Parquet": _ParquetWriter,
    "CSV": _CsvWriter,
    "TSV": _CsvWriter,
    "JSON lines": _JsonWriter,
}
