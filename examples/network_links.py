"""Three links of a network, joined on Spark: which packets of the edge made which server busy.

    python examples/network_links.py

The edge sees packets of flows, the core sees where flows go, servers say how busy they are. Edge and core share the
flow, core and servers share the host, and no key is common to all three: windrow spreads the streams over a grid of
shards so that every match is found once. The same join in Spark's SQL, over the whole files, is the judge; then it runs
again in less memory.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import windrow as wr

ROWS = 6_000  # per stream
FILES = 3
SECONDS = 300
LINKS = {"edge": ("flow", "bytes"), "core": ("flow", "host"), "server": ("host", "load")}
VALUES = {"flow": 800, "host": 40, "bytes": 1_500, "load": 100}

QUERY = wr.Query(
    streams=[wr.Stream(link, time="ts", window=wr.Window.time("2 seconds")) for link in LINKS],
    on=[wr.Equal("edge.flow", "core.flow"), wr.Equal("core.host", "server.host")],
    select={"at": "edge.ts", "flow": "edge.flow", "host": "core.host", "bytes": "edge.bytes", "load": "server.load"},
)
SQL = """
    select edge.ts, edge.flow, core.host, edge.bytes, server.load
    from edge join core on edge.flow = core.flow join server on core.host = server.host
    where abs(timestampdiff(microsecond, edge.ts, core.ts)) < 2000000
      and abs(timestampdiff(microsecond, core.ts, server.ts)) < 2000000
      and abs(timestampdiff(microsecond, edge.ts, server.ts)) < 2000000
"""


def main() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers' Python is this one
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        spark = session()
        for link in LINKS:
            spark.read.parquet(str(folder / link)).createOrReplaceTempView(link)
        expected = spark.sql(SQL).count()
        print(f"Spark's SQL over the whole files: {expected:,} matches", flush=True)
        exact = run(spark, folder, QUERY, "exact")
        if exact != expected:
            sys.exit(f"windrow found {exact:,} matches instead of {expected:,}")
        run(spark, folder, QUERY.with_(memory=120, policy="prob"), "120 rows")
        spark.stop()


def session() -> SparkSession:
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", 4)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def write_files(folder: Path) -> None:
    """What the links have seen, in files of the same minutes."""
    rng = np.random.default_rng(7)
    for link, columns in LINKS.items():
        (folder / link).mkdir()
        times = np.sort(rng.integers(0, SECONDS * 10**6, ROWS))
        skewed = {name: (VALUES[name] * rng.random(ROWS) ** 2).astype(np.int64) for name in columns}
        table = pa.table({"ts": pa.array(times, pa.timestamp("us")), **skewed})
        cuts = np.searchsorted(times, [SECONDS * 10**6 * k // FILES for k in range(FILES + 1)])
        for k in range(FILES):
            path = folder / link / f"{k}.parquet"
            pq.write_table(table.slice(cuts[k], cuts[k + 1] - cuts[k]), path)
            os.utime(path, (k + 1, k + 1))  # Spark takes files in the order of their age


def run(spark: SparkSession, folder: Path, query: wr.Query, name: str) -> int:
    """The query over the links as streams; how many matches it gave."""
    links = {link: arriving(spark, folder / link) for link in LINKS}
    matches = query.on_spark(links, shards=4)
    sink = matches.writeStream.format("memory").queryName(name.replace(" ", "_"))
    running = sink.option("checkpointLocation", str(folder / name)).trigger(availableNow=True).start()
    running.awaitTermination()
    found = spark.table(name.replace(" ", "_")).count()
    now = wr.spark.metrics(running).to_dict()
    held = [shard["peak_rows"] for shard in now["shards"].values()]
    recall = "not known" if now["recall"] is None else f"{now['recall']:.1%}"
    print(f"windrow, {name}: {found:,} matches, recall {recall}, at most {max(held)} rows in one of {len(held)} shards")
    return found


def arriving(spark: SparkSession, folder: Path) -> DataFrame:
    """A folder as a stream: one file of each link per micro-batch."""
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


if __name__ == "__main__":
    main()
