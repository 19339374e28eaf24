"""Clicks and orders of a shop, joined by Spark while their files arrive, in a budget that is too small; then repaired.

    python examples/clickstream.py

A thread writes a file of clicks and a file of orders every second, and some orders reach their file minutes late. The
streaming join keeps to its memory, says while it runs what that costs, and puts every row that it loses into an
archive. In the end a batch job finds the matches that are missing: together they are the exact join, match by match.
"""

import os
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

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
        for kind in ("clicks", "orders"):
            (folder / kind).mkdir()
        spark = session()
        shop = threading.Thread(target=write_files, args=(folder,))
        shop.start()
        follow(spark, folder)
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


def write_files(folder: Path) -> None:
    """A shop: a file of each kind every second. One order in a hundred is held up, and comes with a later file."""
    clicks, orders = bursty_pair(rows=ROWS, keys=5_000, skew=0.8, seed=1)
    start, end = (orders["ts"][k].value for k in (0, -1))
    when = {"clicks": in_file(clicks, start, end), "orders": in_file(orders, start, end)}
    held_up = np.random.default_rng(1).random(ROWS) < 0.01
    when["orders"][held_up] = np.minimum(when["orders"][held_up] + 2, FILES - 1)
    for k in range(FILES):
        for kind, table in (("clicks", clicks), ("orders", orders)):
            hidden, seen = folder / kind / f".{k}.tmp", folder / kind / f"{k}.parquet"
            pq.write_table(table.filter(pa.array(when[kind] == k)), hidden)
            hidden.rename(seen)
        threading.Event().wait(1.0)


def in_file(table: pa.Table, start: int, end: int) -> np.ndarray:
    """The number of each row's file, by its time."""
    times = np.asarray(table["ts"].cast(pa.int64()))
    return np.clip((times - start) * FILES // (end - start + 1), 0, FILES - 1)


def follow(spark: SparkSession, folder: Path) -> None:
    """Join while files arrive, and tell how it goes."""
    clicks, orders = (arriving(spark, folder / kind) for kind in ("clicks", "orders"))
    matches = wr.join(clicks, orders, **JOIN, memory="300 kB", archive=str(folder / "archive"))
    sink = matches.writeStream.format("parquet").option("path", str(folder / "matches"))
    query = sink.option("checkpointLocation", str(folder / "checkpoint")).trigger(processingTime="0 seconds").start()
    metrics = wr.spark.metrics(query)
    told, now = 0, metrics.to_dict()
    while now["arrived"] < 2 * ROWS:
        query.awaitTermination(1)  # raises what went wrong
        now = metrics.to_dict()
        if now["arrived"] > told:
            told = now["arrived"]
            print(line(now), flush=True)
    query.processAllAvailable()
    query.stop()
    print(f"{metrics.to_dict()['late']} orders came too late", flush=True)


def arriving(spark: SparkSession, folder: Path) -> DataFrame:
    """A folder as a stream: a file of each kind per micro-batch."""
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder))


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
