"""Forged snapshots: real ones, altered in one or a few places, whose checksum fits.

Bits are flipped in the file and inside of its parts; beyond that, what a part says is read, changed and written again:
numbers of columns (by one, to another row's, to 0, -1, the ends of their type, NaN, infinity), lengths, names, the
lines of the narrow table that say how a column is written, values and rows of payload, and every field of the header
and of the query inside of it.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.state.snapshot import form as snapshot
from windrow.state.snapshot import narrow

WHOLE = (
    0, 1, -1, 2, 3, 7, 255, 256, 2**31, 2**32, 2**40, 2**52, 2**53, 2**62, 2**62 - 1, -(2**62), 2**63 - 1, -(2**63),
)  # fmt: skip
FLOATS = (
    0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 5e-324, 1e100, 1e150, 1e300, 1.7e308, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
FIELDS: tuple[Any, ...] = (
    *WHOLE, *FLOATS, None, True, False, "", "0", "fifo", "prob", [], {}, [0], [[0]], 10**30, -(10**30), "a" * 300,
)  # fmt: skip
Alteration = Callable[[Random, bytes], bytes]


def altered(random: Random, data: bytes) -> tuple[str, bytes]:
    """A forged snapshot, and what was done to the real one."""
    header, parts = _read(data)
    if "queue" in header and random.random() < 0.5:
        what, parts[0] = altered(random, parts[0])
        return f"engine's {what}", snapshot.write(header, parts)
    chosen = [random.choice(ALTERATIONS)]
    while random.random() < 0.15:
        chosen.append(random.choice(ALTERATIONS))
    for alteration in chosen:
        data = alteration(random, data)
    return "+".join(alteration.__name__ for alteration in chosen), data


def resealed(data: bytes) -> bytes:
    """The same bytes with a checksum that fits."""
    return data[:-4] + struct.pack("<I", zlib.crc32(data[:-4]))


def _flipped(random: Random, data: bytes) -> bytes:
    if not data:
        return data
    place = random.randrange(8 * len(data))
    changed = bytearray(data)
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def flip_in_file(random: Random, data: bytes) -> bytes:
    """One bit anywhere."""
    return resealed(_flipped(random, data))


def flip_in_part(random: Random, data: bytes) -> bytes:
    """One bit, or a few bytes, of a part as it is before it is packed."""
    header, parts = _read(data)
    if not parts:
        return flip_in_file(random, data)
    k = _part(random, parts)
    plain = snapshot.unpacked(pa.py_buffer(parts[k])).to_pybytes() if _is_packed(parts[k]) else parts[k]
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        plain = _flipped(random, plain)
    if random.random() < 0.2 and plain:
        start = random.randrange(len(plain))
        plain = plain[:start] + random.randbytes(random.randrange(9)) + plain[start + random.randrange(9) :]
    parts[k] = packed(plain) if _is_packed(parts[k]) else plain
    return snapshot.write(header, parts)


def change_number(random: Random, data: bytes) -> bytes:
    """One number of one column, or several of them."""
    return _with_columns(random, data, _change_number)


def change_length(random: Random, data: bytes) -> bytes:
    """A column that is cut, longer, gone, renamed, there twice, or in the place of another."""
    return _with_columns(random, data, _change_length)


def change_line(random: Random, data: bytes) -> bytes:
    """What a column says of how it is written."""
    header, parts = _read(data)
    shards = [k for k, part in enumerate(parts) if _table(part) is not None and _table(part).schema == narrow.SCHEMA]
    if not shards:
        return flip_in_file(random, data)
    k = random.choice(shards)
    rows = _table(parts[k]).to_pylist()
    row = random.choice(rows)
    field = random.choice(("rows", "rows", "first", "least", "form", "name", "data"))
    old = row[field]
    if isinstance(old, int):
        row[field] = random.choice((old + 1, old - 1, 0, *WHOLE))
    elif isinstance(old, str):
        row[field] = random.choice(("i1", "s8", "w1", "v2", "f8", "x1", "i3", "", random.choice(rows)[field]))
    else:
        row[field] = random.choice((b"", old[:-1], old + b"\0", _flipped(random, old)))
    if not all(isinstance(row[f], bytes) or row[f] is None or _fits(row[f]) for f in row):
        return data
    if random.random() < 0.1:
        rows.append(dict(random.choice(rows)))
    parts[k] = snapshot.table_bytes(pa.Table.from_pylist(rows, schema=narrow.SCHEMA)).to_pybytes()
    return snapshot.write(header, parts)


def change_payload(random: Random, data: bytes) -> bytes:
    """A value, a row or the order of rows of a payload."""
    header, parts = _read(data)
    tables = [k for k, part in enumerate(parts) if _table(part) is not None and _table(part).schema != narrow.SCHEMA]
    if not tables:
        return change_number(random, data)
    k = random.choice(tables)
    table = _table(parts[k])
    rows = table.to_pylist()
    what = random.randrange(5)
    if not rows or what == 0:
        rows = rows[:-1] if random.random() < 0.5 else [*rows, dict.fromkeys(table.column_names)]
    elif what == 1:
        random.shuffle(rows)
    elif what == 2:
        random.choice(rows)[random.choice(table.column_names)] = None
    else:
        name = random.choice(table.column_names)
        values = [*(FLOATS if pa.types.is_floating(table.schema.field(name).type) else WHOLE), *(r[name] for r in rows)]
        random.choice(rows)[name] = random.choice(values)
    try:
        changed = pa.Table.from_pylist(rows, schema=table.schema)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return flip_in_part(random, data)
    parts[k] = snapshot.table_bytes(changed).to_pybytes()
    return snapshot.write(header, parts)


def change_header(random: Random, data: bytes) -> bytes:
    """A field of the header or of the query inside of it."""
    header, parts = _read(data)
    text = header.get("query")
    inside = json.loads(text) if isinstance(text, str) and random.random() < 0.6 else None
    _change_field(random, header if inside is None else inside)
    if inside is not None:
        header["query"] = json.dumps(inside)
    return snapshot.write(header, parts)


def change_parts(random: Random, data: bytes) -> bytes:
    """Parts that are gone, there twice, or in another order."""
    header, parts = _read(data)
    if parts:
        k = random.randrange(len(parts))
        what = random.randrange(3)
        if what == 0:
            del parts[k]
        elif what == 1:
            parts.insert(random.randrange(len(parts) + 1), parts[k])
        else:
            random.shuffle(parts)
    return snapshot.write(header, parts)


ALTERATIONS: tuple[Alteration, ...] = (  # some more often than others, of which hardly any is accepted
    flip_in_file, flip_in_part, change_length, change_line, change_parts,
    *(change_number,) * 4, *(change_payload,) * 2, *(change_header,) * 2,
)  # fmt: skip


# --------------------------------------------------------------------------------------------- reading


def _read(data: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Header and parts; nothing where an earlier alteration has left none."""
    try:
        snap = snapshot.read(data)
    except Exception:
        return {}, []
    return snap.header, [part.to_pybytes() for part in snap.parts]


def _part(random: Random, parts: list[bytes]) -> int:
    return random.randrange(len(parts))


def packed(plain: bytes) -> bytes:
    """A part of a snapshot that unpacks to these bytes."""
    return len(plain).to_bytes(8, "little") + pa.Codec(snapshot.CODEC).compress(plain, asbytes=True)


def _is_packed(part: bytes) -> bool:
    return _table(part) is not None


def _table(part: bytes) -> pa.Table | None:
    try:
        return snapshot.table_of(pa.py_buffer(part))
    except Exception:
        return None


def _fits(value: int | str) -> bool:
    return isinstance(value, str) or -(2**63) <= value < 2**63


def _with_columns(random: Random, data: bytes, change: Callable[[Random, dict[str, np.ndarray]], None]) -> bytes:
    """The snapshot with the columns of one of its shards changed."""
    header, parts = _read(data)
    shards = [k for k, part in enumerate(parts) if _table(part) is not None and _table(part).schema == narrow.SCHEMA]
    if not shards:
        return flip_in_file(random, data)
    k = random.choice(shards)
    try:
        columns = narrow.columns_of(_table(parts[k]))
    except Exception:  # an earlier alteration
        return flip_in_file(random, data)
    change(random, columns)
    parts[k] = snapshot.table_bytes(narrow.table_of(columns)).to_pybytes()
    return snapshot.write(header, parts)


def _chosen(random: Random, columns: dict[str, np.ndarray]) -> str:
    """The name of a column: forks have most of them, so those of the shard itself are drawn apart."""
    own = [name for name in columns if not name.startswith("fork")]
    return random.choice(own if random.random() < 0.7 and own else list(columns))


def _change_number(random: Random, columns: dict[str, np.ndarray]) -> None:
    name = _chosen(random, columns)
    column = columns[name].copy()
    if len(column) == 0:
        return
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        place = random.randrange(len(column))
        whole = column.dtype == np.int64
        pool = [*(WHOLE if whole else FLOATS), random.choice(column.tolist())]
        if random.random() < 0.4:
            step = random.choice((1, -1)) if whole else random.choice((1.0, -1.0, 0.25))
            with np.errstate(all="ignore"):
                column[place] = column[place] + column.dtype.type(step)
        elif whole and random.random() < 0.2:  # words of the head may be floats
            column[place] = np.float64(random.choice(FLOATS)).view(np.int64)
        else:
            column[place] = random.choice(pool)
    columns[name] = column


def _change_length(random: Random, columns: dict[str, np.ndarray]) -> None:
    name, other = _chosen(random, columns), _chosen(random, columns)
    column = columns[name]
    what = random.randrange(6)
    if what == 0:
        columns[name] = column[:-1]
    elif what == 1:
        columns[name] = np.append(column, column[-1:] if len(column) else column.dtype.type(0))
    elif what == 2:
        del columns[name]
    elif what == 3:
        columns[other + random.choice(("", "0", "x"))] = columns.pop(name)
    elif what == 4:
        columns[name], columns[other] = columns[other], column
    else:
        columns[name] = column[::-1].copy() if random.random() < 0.5 else column.astype(np.float64)


def _change_field(random: Random, tree: Any) -> None:
    """Change one place of a tree of JSON values."""
    while True:
        if not tree:
            return
        key = random.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
        below = tree[key]
        if isinstance(below, (dict, list)) and below and random.random() < 0.9:
            tree = below
            continue
        if random.random() < 0.1:
            del tree[key]
        elif isinstance(below, (int, float)) and not isinstance(below, bool) and random.random() < 0.5:
            tree[key] = below + random.choice((1, -1, 0.5))
        else:
            tree[key] = random.choice(FIELDS)
        return
