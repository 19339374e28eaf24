"""Where a column of times has a value that is none: file, line and value, for whoever has to correct it.

A text file's column becomes one of times only if all its values are; a single bad one leaves it text. What it was meant
to be is what most of its first values are.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from windrow.errors import TimeError

FIRST = 100  # values that say what the others were meant to be
KINDS = (pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.int64())


def refuse_bad_times(path: Path, table: pa.Table, column: str | None) -> None:
    """Refuse a file with a column of times that is text, because of a value that is no time."""
    if column is None or column not in table.schema.names or not pa.types.is_string(table.schema.field(column).type):
        return
    values = table[column]
    known = values.drop_null().slice(0, FIRST)
    kind = max(KINDS, key=lambda kind: sum(_reads(known.slice(i, 1), kind) for i in range(len(known))))
    if not len(known) or _reads(values, kind):  # it is text because someone has asked for that
        return
    row = _first_bad(values, kind)
    line = _line(path, table.num_rows, row)
    raise TimeError(
        f"{path}, {line}: column {column!r} has {values[row].as_py()!r}, which is no time: write "
        f"{'a whole number as the others' if kind == KINDS[-1] else 'times as 2024-05-31T12:00:00'}"
        f"{', with an offset as the others' if getattr(kind, 'tz', None) else ''}, or leave it empty"
    )


def _reads(values: pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Whether all values are of a kind."""
    try:
        values.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _first_bad(values: pa.ChunkedArray, kind: pa.DataType) -> int:
    """The first row that is not of a kind, of which there is one: halves are tried."""
    start, length = 0, len(values)
    while length > 1:
        half = length // 2
        if _reads(values.slice(start, half), kind):
            start, length = start + half, length - half
        else:
            length = half
    return start


def _line(path: Path, rows: int, row: int) -> str:
    """The line of a row, or its number where lines are not rows."""
    name = path.name.lower().removesuffix(".gz")
    if path.is_dir() or name.endswith((".parquet", ".pq")):
        return f"row {row + 1:,}"
    header = 1 if name.endswith((".csv", ".tsv")) else 0
    lines, ends = 0, True
    with pa.input_stream(str(path)) as file:
        while block := file.read(2**20):
            lines += block.count(b"\n")
            ends = block.endswith(b"\n")
    if lines + (not ends) != rows + header:  # values with line ends in them, or empty lines
        return f"row {row + 1:,}"
    return f"line {row + 1 + header:,}"
