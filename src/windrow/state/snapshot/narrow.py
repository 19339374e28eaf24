"""Narrow columns: arrays of 64-bit numbers in as few bytes as hold them, and back, exactly.

Integers are written as their distance from the least one, in the narrowest unsigned type that holds the largest
distance; a column that rises is written as its steps. Floats that are whole numbers are written as integers. All
columns of a shard go into one Arrow table, a row each:

    name      form   rows   first        least   data
    0.time    s1     3      1700000000   5       00 07        -> 1700000000, 1700000005, 1700000017
    0.cost    i1     3      0            136     00 00 00     -> 136, 136, 136

A number takes a byte at least, even where all are equal (the table is packed afterwards): so no column is longer than
the bytes at hand can account for.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from windrow.errors import SnapshotError

SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("form", pa.string()),
        ("rows", pa.int64()),
        ("first", pa.int64()),
        ("least", pa.int64()),
        ("data", pa.large_binary()),
    ]
)
_WIDTHS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_FORMS = {"f8", *(f"{kind}{width}" for kind in "iwsv" for width in _WIDTHS)}

Columns = Mapping[str, np.ndarray]
Line = tuple[str, str, int, int, int, bytes]


def table_of(columns: Columns, rising: frozenset[str] = frozenset()) -> pa.Table:
    """The columns as an Arrow table; those named by the last part of their names as rising are written as steps."""
    lines = [_line(name, column, name.rpartition(".")[2] in rising) for name, column in sorted(columns.items())]
    parts = zip(*lines, strict=True) if lines else [[]] * len(SCHEMA)
    return pa.table([pa.array(list(part), f.type) for part, f in zip(parts, SCHEMA, strict=True)], schema=SCHEMA)


def columns_of(table: pa.Table) -> dict[str, np.ndarray]:
    """The columns of a table that `table_of` made, writable; int64, or float64 where they were."""
    if not table.schema.equals(SCHEMA):
        raise SnapshotError.impossible("its columns are not columns of a shard")
    if any(column.null_count for column in table.columns):
        raise SnapshotError.impossible("something is missing in its columns")
    parts = [column.to_pylist() for column in table.columns[:-1]]
    data = table["data"].combine_chunks()
    found = {}
    for k, (name, form, rows, first, least) in enumerate(zip(*parts, strict=True)):
        found[name] = _column(name, form, rows, first, least, data[k].as_buffer())
    if len(found) < table.num_rows:
        raise SnapshotError.impossible("it has a column twice")
    return found


def _line(name: str, column: np.ndarray, rises: bool) -> Line:
    if column.dtype == np.float64:
        whole = _whole(column)
        if whole is None:
            return name, "f8", len(column), 0, 0, column.tobytes()
        return name, *_integers(whole, rises, "w")
    return name, *_integers(column, rises, "i")


def _whole(column: np.ndarray) -> np.ndarray | None:
    """Floats as integers, if they are all whole numbers (and no negative zeros)."""
    if len(column) and not abs(column[0]) < 2.0**53:
        return None
    with np.errstate(invalid="ignore"):
        whole = column.astype(np.int64)
    return whole if np.array_equal(whole.astype(np.float64).view(np.int64), column.view(np.int64)) else None


def _integers(column: np.ndarray, rises: bool, form: str) -> tuple[str, int, int, int, bytes]:
    """Form, rows, first, least and data of a column of integers; differences are taken modulo 2**64."""
    rows, first = len(column), 0
    if rises and rows > 1:
        first, column, form = int(column[0]), np.diff(column), {"i": "s", "w": "v"}[form]
    if len(column) == 0:
        return f"{form}1", rows, first, 0, b""
    least, most = int(column.min()), int(column.max())
    width = next(w for w in _WIDTHS if most - least < 1 << 8 * w)
    apart = column.view(np.uint64) - np.uint64(least % 2**64)
    return f"{form}{width}", rows, first, least, apart.astype(_WIDTHS[width]).tobytes()


def _column(name: str, form: str, rows: int, first: int, least: int, data: pa.Buffer) -> np.ndarray:
    steps = form[:1] in ("s", "v")
    stored = rows - 1 if steps else rows  # steps have a first number
    if form not in _FORMS or stored < 0 or data.size != stored * int(form[1:]):
        raise SnapshotError.impossible(f"its column {name!r} does not have the form it says")
    if form == "f8":
        return np.frombuffer(data, np.float64).copy()
    words = np.frombuffer(data, _WIDTHS[int(form[1:])]).astype(np.uint64)
    if least:
        words += np.uint64(least % 2**64)
    if steps:
        words = np.concatenate([np.array([first % 2**64], np.uint64), words])
        np.cumsum(words, out=words)
    found = words.view(np.int64)
    return found.astype(np.float64) if form[:1] in ("w", "v") else found
