"""Two streams in Parquet files, one file of each per micro-batch.

Each stream brings RATE rows a second in time order. The streams are the same whatever the size of the micro-batches,
so what lies in a window is too. The first files hold enough to fill the window (and Spark's state, which waits for
the watermark of the batch before), the files behind them one micro-batch each.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

WINDOW, LATENESS = 100, 5  # seconds
MATCHES_PER_ROW = 0.2
FILL = WINDOW + 2 * LATENESS  # seconds that the first micro-batch has to cover
SIDES = ("left", "right")
SCHEMA = "ts timestamp, key long, amount double"


@dataclass(frozen=True)
class Streams:
    """Where the files are, and what is in them."""

    folder: Path
    batch_rows: int | None  # of all streams together, where every micro-batch has as many
    batches: int  # behind the first ones
    filling: int  # micro-batches that fill the window
    rate: int  # rows a second, per stream
    sides: tuple[str, ...] = SIDES
    schema: str = SCHEMA

    @property
    def keys(self) -> int:
        """So many that a row has 2 * MATCHES_PER_ROW partners within its window, half of them behind it."""
        return round(WINDOW * self.rate / MATCHES_PER_ROW)

    def path(self, side: str) -> str:
        """The folder of a stream."""
        return str(self.folder / side)


def write_streams(folder: Path, batch_rows: int, batches: int, rate: int) -> Streams:
    """Write the files of both streams."""
    per_side = batch_rows // 2
    fill = max(per_side, FILL * rate)
    sizes = [fill] + [per_side] * (batches + 1)  # the second micro-batch is the first that sees a watermark
    streams = Streams(folder, batch_rows, batches, 2, rate)
    rng = np.random.default_rng(2003)
    for side in SIDES:
        (folder / side).mkdir(parents=True)
    start = 0
    for number, rows in enumerate(sizes):
        for side in SIDES:
            ticks = start + np.sort(rng.integers(0, rows * 1_000_000 // rate, rows))
            table = pa.table(
                {
                    "ts": pa.array(ticks, pa.timestamp("us", tz="UTC")),
                    "key": rng.integers(0, streams.keys, rows),
                    "amount": rng.integers(0, 100_000, rows) / 100,
                }
            )
            pq.write_table(table, folder / side / f"{number:03}.parquet")
        start += rows * 1_000_000 // rate
    return streams


def write_parts(folder: Path, parts: Mapping[str, Sequence[pa.Table]], filling: int, schema: str) -> Streams:
    """Write the files of any streams, each given in as many parts as there are micro-batches."""
    for side, tables in parts.items():
        (folder / side).mkdir(parents=True)
        for number, table in enumerate(tables):
            path = folder / side / f"{number:03}.parquet"
            pq.write_table(table, path)
            os.utime(path, (number + 1, number + 1))  # Spark takes files in the order of their age
    counts = {sum(tables[k].num_rows for tables in parts.values()) for k in range(filling, len(tables))}
    return Streams(
        folder, counts.pop() if len(counts) == 1 else None, len(tables) - filling, filling, 0, tuple(parts), schema
    )
