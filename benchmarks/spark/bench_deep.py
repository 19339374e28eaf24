"""A short trigger over a long window: 20,000 rows a micro-batch, and from 20,000 to 8,000,000 rows in the window.

The joins are those of bench_spark.py, over the same kind of files; the streams are faster, so that the window holds
more. windrow runs exact and capped (memory for half of the rows), with its state as deltas (RocksDB store, changelog
checkpointing) or, if asked for, as whole snapshots (HDFS-backed store); Spark's own join with either store. Exact joins
must give the same matches in every micro-batch. What counts is the time of a micro-batch against that of the same
contestant over the smallest window, and against Spark's own join over the same window.

Beside it stands what a micro-batch writes to the checkpoint, files that have gone since included, over the bytes of its
packed rows, and what all Python workers hold (proportional set size); `--batches 200 --rows 200000` shows what a long
run leaves in the folder and in memory.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench_spark import session
from contestants import CONTESTANTS, Contestant, Run, run
from harness import note, save, show
from pyspark.sql import DataFrame
from stream_files import FILL, WINDOW, Streams, write_streams

import windrow as wr
from windrow.spark.store import ROCKSDB

BATCH = 20_000
ROW_BYTES = 24  # of a packed row: time, key, amount
SIZES = (20_000, 200_000, 2_000_000, 8_000_000)
TARGETS = {2_000_000: 1.3, 8_000_000: 1.5}  # times the time over the smallest window, at most
EXACT = ("windrow", "windrow, HDFS store", "spark, HDFS store", "spark, RocksDB store")
CAPPED = "windrow, capped"


def contestant(name: str, rows: int) -> Contestant:
    """A contestant by its name; the capped one has memory for half of the rows that the window holds."""
    if name != CAPPED:
        return CONTESTANTS[name]

    def capped(left: DataFrame, right: DataFrame) -> DataFrame:
        return wr.join(left, right, on="key", time="ts", within=f"{WINDOW} seconds", memory=rows // 2)

    return Contestant(capped, ROCKSDB)


def measure(spark: Any, rows: int, names: list[str], batches: int, rounds: int) -> dict[str, list[Run]]:
    """All contestants over a window of so many rows, in turn."""
    found: dict[str, list[Run]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        streams = write_streams(Path(folder) / "streams", BATCH, batches, max(1, rows // 2 // FILL))
        for turn in range(rounds):
            for name in names:
                note(f"  {rows:,} rows in the window, round {turn + 1}/{rounds} {name}")
                found[name].append(run(spark, contestant(name, rows), streams, Path(folder)))
    answers = [r.answers for name in names if name in EXACT for r in found[name]]
    assert all(answer == answers[0] for answer in answers), "different matches"
    check(found, streams)
    note("")
    return found


def check(found: dict[str, list[Run]], streams: Streams) -> None:
    """The window held what it should, and the capped join what it may."""
    for name, runs in found.items():
        held = runs[-1].counters.get("resident_rows")
        if held is not None and name != CAPPED:
            assert held >= 2 * WINDOW * streams.rate, (name, held)
        if name == CAPPED:
            assert 0 < held <= WINDOW * streams.rate * 2, held


def line(rows: int, name: str, runs: list[Run]) -> dict[str, Any]:
    """The figures of a contestant."""
    seconds = [s for r in runs for s in r.seconds]
    last = runs[-1]
    filled = len(last.written) - len(last.seconds) - 1
    steady = (last.written[-1] - last.written[max(filled, 0)]) / len(last.seconds)
    return {
        "rows": rows, "contestant": name, "median": statistics.median(seconds), "seconds": seconds,
        "mean": statistics.fmean(seconds), "core": statistics.median([c for r in runs for c in r.core]),
        "parts": last.parts[-1], "written_over_packed": steady / (BATCH * ROW_BYTES),
        "folder_bytes": last.folder_bytes, "warm": last.counters.get("warm"),
        "resident_bytes": last.counters.get("resident_bytes"), "workers": last.workers,
    }  # fmt: skip


def report(lines: list[dict[str, Any]]) -> None:
    smallest = {each["contestant"]: each["median"] for each in reversed(lines)}
    shown = []
    for each in lines:
        own = [o["median"] for o in lines if o["rows"] == each["rows"] and o["contestant"].startswith("spark")]
        faster = min(own) / each["median"] if own else ""
        ratio = each["median"] / smallest[each["contestant"]]
        times = each["median"], each["mean"], ratio, faster, each["core"]
        bytes_ = each["written_over_packed"], each["folder_bytes"] / 1e6, max(each["workers"]) / 1e6
        shown.append((f"{each['rows']:,}", each["contestant"], *times, *bytes_))
    header = ("rows in the window", "contestant", "seconds", "mean", "x smallest", "times faster", "core seconds")
    show(f"{BATCH:,} rows a micro-batch", (*header, "written / packed", "folder MB", "workers MB"), shown)
    for each in lines:
        target = TARGETS.get(each["rows"])
        if target is not None and each["contestant"].startswith("windrow"):
            ratio = each["median"] / smallest[each["contestant"]]
            print(f"  {each['contestant']}, {each['rows']:,} rows: {ratio:.2f} times (target: at most {target:g})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=list(SIZES), help="in the window")
    parser.add_argument("--only", nargs="*", default=["windrow", CAPPED, *EXACT[2:]], help="contestants")
    parser.add_argument("--batches", type=int, default=8, help="micro-batches that count, per turn")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--name", default="spark_deep", help="of the file with the figures")
    args = parser.parse_args()
    spark = session(2)
    lines: list[dict[str, Any]] = []
    measure(spark, SIZES[0], args.only, 2, 1)  # starts what is needed, and does not count
    for rows in args.rows:
        found = measure(spark, rows, args.only, args.batches, args.rounds)
        lines += [line(rows, name, runs) for name, runs in found.items()]
        save(args.name, {"batch_rows": BATCH, "lines": lines})
    spark.stop()
    report(lines)


if __name__ == "__main__":
    main()
