"""Random streams in folders of Parquet files, and how Spark reads and joins them.

Rows come out of order, but never by more than LATENESS; some come twice; keys and payload have nulls. One file of
each stream is empty, so that a micro-batch of one file per stream is empty too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

START = datetime(2024, 2, 28, 23, 55)
LATENESS = 20  # seconds
WITHIN = {"left": 45, "right": 30}  # seconds
FILES, ROWS = 6, 60  # of each stream, and rows per file; one row per second

UTC_STAMP = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", UTC_STAMP),
        ("number", pa.int32()),
        ("name", pa.string()),
        ("area", pa.int16()),
        ("price", pa.decimal128(12, 2)),
        ("day", pa.date32()),
        ("moment", UTC_STAMP),
        ("local", pa.timestamp("us")),
        ("ratio", pa.float64()),
        ("share", pa.float32()),
        ("flag", pa.bool_()),
        ("raw", pa.binary()),
        ("place", pa.struct([("x", pa.int32()), ("at", UTC_STAMP), ("inner", pa.struct([("y", pa.string())]))])),
        ("tags", pa.list_(pa.string())),
        ("marks", pa.map_(pa.string(), pa.list_(pa.float64()))),
        ("steps", pa.int64()),
    ]
)
KEYS = ("number", "name", "area", "price", "day", "moment", "local", "ratio", "share", "flag", "raw")
PAYLOAD = ("id", "ts", *KEYS, "place", "tags", "marks")


@dataclass(frozen=True)
class Folders:
    """The two streams: where their files are, and the rows that are in them."""

    paths: dict[str, Path]
    tables: dict[str, pa.Table]
    seed: int


def make_folders(root: Path, seed: int, late: bool = False) -> Folders:
    """Write both streams."""
    random = Random(seed)
    paths, tables = {}, {}
    for side in WITHIN:
        parts = [_part(random, side, k, late) for k in range(FILES)]
        parts[2] = parts[2].slice(0, 0)
        paths[side] = root / side
        write_files(paths[side], parts)
        tables[side] = pa.concat_tables(parts)
    return Folders(paths, tables, seed)


def write_files(folder: Path, parts: list[pa.Table]) -> None:
    """Files that a stream of files takes in this order."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, part in enumerate(parts):
        path = folder / f"part-{k:03}.parquet"
        pq.write_table(part, path)
        os.utime(path, (1_700_000_000 + k, 1_700_000_000 + k))


def _part(random: Random, side: str, k: int, late: bool) -> pa.Table:
    rows: list[dict[str, Any]] = []
    for n in range(k * ROWS, (k + 1) * ROWS):
        if rows and random.random() < 0.08:
            rows.append(dict(random.choice(rows[-8:])))  # the same row once more
            continue
        behind = 0.0 if random.random() < 0.3 else random.random() * (LATENESS - 8)
        if late and k and random.random() < 0.06:
            behind = LATENESS + 30 + random.random() * 120
        rows.append(_row(random, n, n - behind))
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _row(random: Random, n: int, seconds: float) -> dict[str, Any]:
    time = START + timedelta(seconds=round(seconds, 6))
    key = random.randrange(7)

    def maybe(value: Any) -> Any:
        return None if random.random() < 0.06 else value

    return {
        "id": n,
        "ts": time.replace(tzinfo=UTC),
        "number": maybe(random.randrange(-3, 5)),
        "name": maybe(random.choice(["", "ä", "b" * 40, "c", "日本"])),
        "area": maybe(random.randrange(3)),
        "price": maybe(Decimal(random.randrange(-2, 5)) / 4),
        "day": maybe(date(1969, 12, 30) + timedelta(days=random.randrange(6))),
        "moment": maybe((START + timedelta(microseconds=random.randrange(6))).replace(tzinfo=UTC)),
        "local": maybe(START + timedelta(days=random.randrange(6))),
        "ratio": maybe(random.choice([float("nan"), 0.0, -0.0, 1.5, float("inf"), -2.25])),
        "share": maybe(random.choice([float("nan"), 0.0, -0.0, 0.5, 0.25])),
        "flag": maybe(random.random() < 0.5),
        "raw": maybe(bytes(random.randrange(5))),
        "place": maybe({"x": maybe(key), "at": time.replace(tzinfo=UTC), "inner": maybe({"y": maybe("y" * key)})}),
        "tags": maybe([maybe("tag"), "x" * key][: key % 3]),
        "marks": maybe({f"m{j}": [float(j), float("nan")] for j in range(key % 3)}),
        "steps": n - int(random.random() * 10),
    }
