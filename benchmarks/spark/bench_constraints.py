"""Releasing by constraints on Spark, against windrow without them and against Spark's own stream-stream join.

    pair      requests and responses: an id comes once on each side, 95 % of the requests are answered within a second,
              windows of one hour; unique on both sides, declared and found by watching
    network   packets on three links, 10 % of a link go on to the next within half a second, windows of ten minutes: the
              first query of the k-constraints paper, against Spark's own join of three streams

All contestants run in one session over the same files, in turn, and give the same matches in every micro-batch, as a
multiset, which is asserted. State is what the store says of the version in use (RocksDB: of its files); beside it
stand what is written to the checkpoint's state per micro-batch, all files of the checkpoint at the end, and what
windrow's engines hold in the workers. windrow keeps deltas in RocksDB, and whole snapshots in the HDFS-backed store.
Only micro-batches count that find the windows full.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench_spark import Line, session
from contestants import HDFS, ROCKSDB, Contestant, run
from harness import note, save, show
from stream_files import LATENESS, SIDES, Streams, write_parts

import windrow as wr
from windrow.engine.metrics import Metrics, added_up
from windrow.lab.traffic import START, network_links, unique_pair

HOUR, MINUTES = 3_600, 10
NEAR = 0.95
LINKS = ("C", "B", "O")
LATENCY = "500 ms"
RATES = (1, 10, 1)  # of the links, to each other
SWJ, SPARK, SPARK_ROCKSDB = "windrow, no constraints", "spark, HDFS store", "spark, RocksDB store"
FILLING = 2  # micro-batches: the second is the first that sees a watermark

Parts = Mapping[str, Sequence[pa.Table]]


# -- requests and responses --------------------------------------------------------------------------------------------


def pair_parts(rows: int, batches: int) -> Parts:
    """`rows` requests an hour: one part that fills the window, then a tenth of an hour each."""
    fill, step = rows * (HOUR + 2 * LATENESS) // HOUR, rows // 10
    count = fill + step * (batches + FILLING)
    left, right = unique_pair(count, seconds=count * HOUR / rows, near=NEAR, seed=1)
    cuts = [0, fill, *(fill + step * (k + 1) for k in range(batches + FILLING - 1))]
    found = {}
    for side, table, share in (("left", left, 1.0), ("right", right, NEAR)):
        events = pa.table({"ts": _moments(table), "key": table["id"], "amount": table["amount"].cast(pa.float64())})
        places = [round(share * cut) for cut in cuts]
        found[side] = [events.slice(a, b - a) for a, b in pairwise(places)]
    return found


def _moments(table: pa.Table) -> pa.Array:
    return pa.array(table["ts"].to_numpy().astype("datetime64[us]"), pa.timestamp("us", tz="UTC"))


def pair_windrow(constraints: Any, left: DataFrame, right: DataFrame) -> DataFrame:
    return wr.join(left, right, on="key", time="ts", within=f"{HOUR} seconds", constraints=constraints)


def pair_spark(left: DataFrame, right: DataFrame) -> DataFrame:
    a, b = (
        frame.select(*(F.col(name).alias(f"{side}_{name}") for name in ("key", "ts", "amount")))
        for side, frame in zip(SIDES, (left, right), strict=True)
    )
    width = f"interval {HOUR} seconds"
    near = F.expr(f"left_key = right_key and right_ts > left_ts - {width} and right_ts < left_ts + {width}")
    return a.join(b, near).withColumnRenamed("left_key", "key").drop("right_key")


UNIQUE = (wr.Unique("left", "key"), wr.Unique("right", "key"))
PAIR = {
    SWJ: Contestant(partial(pair_windrow, None), ROCKSDB),
    "windrow, unique": Contestant(partial(pair_windrow, UNIQUE), ROCKSDB),
    "windrow, auto": Contestant(partial(pair_windrow, "auto"), ROCKSDB),
    "windrow, unique, HDFS store": Contestant(partial(pair_windrow, UNIQUE), HDFS),
    SPARK: Contestant(pair_spark, HDFS),
    SPARK_ROCKSDB: Contestant(pair_spark, ROCKSDB),
}


# -- three links of a network ------------------------------------------------------------------------------------------


def network_parts(rate: int, batches: int, window: int = MINUTES) -> Parts:
    """`rate` packets a second on C and on O, ten times as many on B: a window and a minute at once, then minutes."""
    minutes = window + 1 + batches + FILLING - 1
    tables = network_links(60 * minutes, tuple(float(rate * share) for share in RATES), seed=1)  # type: ignore[arg-type]
    ends = [60 * (window + 1 + k) for k in range(batches + FILLING - 1)] + [60 * minutes + 10]
    found = {}
    for link, table in tables.items():
        seconds = (table["ts"].to_numpy() - START) / np.timedelta64(1, "s")
        places = [0, *np.searchsorted(seconds, ends)]
        packets = pa.table({"ts": _moments(table), "pid": table["pid"], "size": table["size"]})
        found[link] = [packets.slice(a, b - a) for a, b in pairwise(places)]
    return found


def network_windrow(constraints: Any, *links: DataFrame) -> DataFrame:
    streams = [wr.Stream(link, "ts", f"{MINUTES} minutes") for link in LINKS]
    select = {f"{name}_{link}": f"{link}.{name}" for link in LINKS for name in ("ts", "size")} | {"pid": "C.pid"}
    query = wr.Query(
        streams=streams, on=["C.pid = B.pid", "B.pid = O.pid"], select=select, constraints=constraints
    )  # fmt: skip
    return query.on_spark(dict(zip(LINKS, links, strict=True)))


def network_spark(*links: DataFrame) -> DataFrame:
    c, b, o = (
        frame.select(*(F.col(name).alias(f"{name}_{link}") for name in ("ts", "pid", "size")))
        for link, frame in zip(LINKS, links, strict=True)
    )
    first = c.join(b, F.expr(f"pid_C = pid_B and {_near('C', 'B')}"))
    first = first.withColumn("ts_C", F.expr("ts_C + interval 0 seconds"))  # Spark takes one event time from a join on
    both = first.join(o, F.expr(f"pid_B = pid_O and {_near('B', 'O')} and {_near('C', 'O')}"))
    return both.withColumnRenamed("pid_C", "pid").drop("pid_B", "pid_O")


def _near(one: str, other: str) -> str:
    width = f"interval {MINUTES} minutes"
    return f"ts_{other} > ts_{one} - {width} and ts_{other} < ts_{one} + {width}"


ONE_ONE = tuple(wr.Unique(link, "pid") for link in LINKS)
LATENCIES = (
    wr.Integrity("C", "B", LATENCY),
    wr.Integrity("B", "O", LATENCY),
    wr.Integrity("B", "C", 0),
    wr.Integrity("O", "B", 0),
)
NETWORK = {
    SWJ: Contestant(partial(network_windrow, None), ROCKSDB),
    "windrow, constraints": Contestant(partial(network_windrow, (*ONE_ONE, *LATENCIES)), ROCKSDB),
    "windrow, auto": Contestant(partial(network_windrow, "auto"), ROCKSDB),
    "windrow, constraints, HDFS store": Contestant(partial(network_windrow, (*ONE_ONE, *LATENCIES)), HDFS),
    SPARK: Contestant(network_spark, HDFS),
    SPARK_ROCKSDB: Contestant(network_spark, ROCKSDB),
}


# -- running -----------------------------------------------------------------------------------------------------------

PARTS = {"pair": (PAIR, pair_parts, "ts timestamp, key long, amount double", 100_000),
         "network": (NETWORK, network_parts, "ts timestamp, pid long, size long", 50)}  # fmt: skip


def race(streams: Streams, contestants: Mapping[str, Contestant], rounds: int, spark: Any) -> dict[str, Line]:
    """Contestants in turn; the first turn of each does not count."""
    lines = {name: Line() for name in contestants}
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(-1, rounds):
            for name, contestant in contestants.items():
                note(f"  round {turn + 1}/{rounds} {name}")
                found = run(spark, contestant, streams, Path(scratch))
                if turn >= 0 or rounds == 0:
                    lines[name].runs.append(found)
    note("")
    answers = {name: [r.answers for r in line.runs] for name, line in lines.items()}
    first = next(iter(answers.values()))[0]
    assert all(found == first for turns in answers.values() for found in turns), f"different matches: {answers}"
    return lines


def report(title: str, lines: Mapping[str, Line], streams: Streams) -> dict[str, Any]:
    """Times and bytes, each over that of windrow without constraints and of Spark's own join."""
    figures = {name: _figures(line, streams) for name, line in lines.items()}
    matches = sum(count for count, _ in next(iter(lines.values())).runs[0].answers) / streams.batches
    table = []
    for name, mine in figures.items():
        over = [
            f"{mine[what] / figures[base][what]:.2%}" if base in figures and figures[base][what] else ""
            for what, base in (("state_bytes", SPARK), ("state_bytes", SWJ))
        ]
        times = [
            f"{mine['seconds'] / figures[base]['seconds']:.2f}" if base in figures else "" for base in (SPARK, SWJ)
        ]
        resident = "" if mine["resident_bytes"] is None else mine["resident_bytes"] / 1e6
        table.append((name, mine["seconds"], *times, mine["core_seconds"], mine["state_bytes"] / 1e6, *over,
                      mine["written_bytes"] / 1e6, mine["checkpoint_bytes"] / 1e6, resident, mine["rows"]))  # fmt: skip
    runs = len(next(iter(lines.values())).seconds)
    show(
        f"{title}: {matches:,.0f} matches a micro-batch, the same for all; median of {runs}",
        ("contestant", "seconds", "x spark", "x without", "core seconds", "state MB", "of spark's", "of without",
         "MB written a batch", "checkpoint MB", "resident MB", "rows held"),
        table,
    )  # fmt: skip
    return figures


def _figures(line: Line, streams: Streams) -> dict[str, Any]:
    last = line.runs[-1]
    shards = [Metrics.from_dict(shard) for shard in last.counters.get("shards", {}).values()]
    constraints = {text: asdict(known) for text, known in added_up(shards).constraints.items()} if shards else {}
    return {
        "seconds": statistics.median(line.seconds), "noise": line.spread, "core_seconds": statistics.median(line.core),
        "state_bytes": last.state["bytes"], "cached_bytes": last.state["cached_bytes"], "rows": line.resident_rows,
        "written_bytes": last.written_bytes / (streams.filling + streams.batches),
        "checkpoint_bytes": last.folder_bytes,
        "resident_bytes": last.counters.get("resident_bytes"), "peak_bytes": last.counters.get("peak_bytes"),
        "released": last.counters.get("released"), "constraints": constraints,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="*", default=list(PARTS), choices=PARTS)
    parser.add_argument("--rows", type=int, help="requests an hour (100,000), or packets a second on C (50)")
    parser.add_argument("--batches", type=int, default=3, help="micro-batches that count, per turn")
    parser.add_argument("--rounds", type=int, default=2, help="that count; with 0 the first turn does")
    parser.add_argument("--only", nargs="*", help="contestants")
    args = parser.parse_args()
    spark, figures = session(2), {}
    for part in args.part:
        contestants, made, schema, rows = PARTS[part]
        chosen = {name: one for name, one in contestants.items() if not args.only or name in args.only}
        with tempfile.TemporaryDirectory() as folder:
            streams = write_parts(Path(folder), made(args.rows or rows, args.batches), FILLING, schema)
            figures[part] = report(part, race(streams, chosen, args.rounds, spark), streams)
        save("spark-constraints", {"rows": args.rows, **figures})
    spark.stop()


if __name__ == "__main__":
    main()
