"""Clicks and orders of a shop, joined by Spark as their files arrive, in a budget that is too small; then repaired.

    python examples/clickstream.py

The shop delivers a file of clicks and one of orders at a time, and some orders come two deliveries late. Each delivery
starts the streaming join, which goes on from its checkpoint where it stopped. It keeps to its memory, says what that
costs, and puts every row that it loses into an archive. In the end a batch job finds the matches that are missing:
together they are the exact join, match by match.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import windrow as wr
from windrow.lab.generators import bursty_pair

ROWS = 12_000
FILES = 5
COLUMNS = "ts timestamp_ntz, user_id long, amount double, page string"
JOIN = {
    "on": "user_id",
    "time": "ts",
    "within": "10 minutes",
    "lateness": "30 seconds",
    "select": {"user": "left.user_id", "clicked": "left.ts", "page": "left.page", "paid": "right.amount"},
}


def main() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers' Python is this one
    with TemporaryDirectory() as name:
        folder = Path(name)
        spark = session()
        for delivered in deliveries(folder):
            now = join(spark, folder)
            print(f"delivery {delivered}: {line(now)}", flush=True)
        print(f"{now['late']} orders came too late", flush=True)
        repair(spark, folder)
        spark.stop()


def session() -> SparkSession:
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def deliveries(folder: Path) -> Iterator[int]:
    """A shop: a file of each kind at a time. One order in a hundred is held up, and comes with a later file."""
    clicks, orders = bursty_pair(rows=ROWS, keys=5_000, skew=0.8, seed=1)
    start, end = (orders["ts"][k].value for k in (0, -1))
    when = {"clicks": in_file(clicks, start, end), "orders": in_file(orders, start, end)}
    held_up = np.random.default_rng(1).random(ROWS) < 0.01
    when["orders"][held_up] = np.minimum(when["orders"][held_up] + 2, FILES - 1)
    for k in range(FILES):
        for kind, table in (("clicks", clicks), ("orders", orders)):
            (folder / kind).mkdir(exist_ok=True)
            pq.write_table(table.filter(pa.array(when[kind] == k)), folder / kind / f"{k}.parquet")
        yield k + 1


def in_file(table: pa.Table, start: int, end: int) -> np.ndarray:
    """The number of each row's file, by its time."""
    times = np.asarray(table["ts"].cast(pa.int64()))
    return np.clip((times - start) * FILES // (end - start + 1), 0, FILES - 1)


def join(spark: SparkSession, folder: Path) -> dict:
    """Join what has arrived since the last time; the counters since the first."""
    clicks, orders = (spark.readStream.schema(COLUMNS).parquet(str(folder / kind)) for kind in ("clicks", "orders"))
    matches = wr.join(clicks, orders, **JOIN, memory="300 kB", archive=str(folder / "archive"))
    sink = matches.writeStream.format("parquet").option("path", str(folder / "matches"))
    query = sink.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()  # raises what went wrong
    return wr.spark.metrics(query).to_dict()


def line(now: dict) -> str:
    recall = "not known"
    if now["recall"] is not None:
        low, high = now["recall_interval"]
        recall = f"{now['recall']:.1%} ({low:.1%} to {high:.1%})"
    return (
        f"{now['arrived']:6,} rows, {now['matched']:7,} matches, {now['shed']:6,} rows shed, "
        f"{now['resident_bytes']:7,} bytes held, recall {recall}"
    )


def repair(spark: SparkSession, folder: Path) -> None:
    """Find what is missing, and compare with the exact join."""
    clicks, orders = (spark.read.schema(COLUMNS).parquet(str(folder / kind)) for kind in ("clicks", "orders"))
    found = spark.read.parquet(str(folder / "matches"))
    missing = wr.repair(str(folder / "archive"), clicks, orders).cache()
    exact = wr.join(clicks, orders, **JOIN).cache()
    together = found.unionByName(missing)
    print(f"{found.count():,} matches were put out, the repair finds {missing.count():,}, exact are {exact.count():,}")
    different = together.exceptAll(exact).count() + exact.exceptAll(together).count()
    if different:
        sys.exit(f"output and repair differ from the exact join in {different} rows")
    print("output + repair = exact, every match as often as it should be there")


if __name__ == "__main__":
    main()
