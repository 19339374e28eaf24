"""Crash: a driver that is killed with SIGKILL again and again, and a run that is not: same output, same archive.

Two streams of files are joined above their budget, into Parquet files (Spark's exactly-once sink), with a checkpoint
and an archive. One run is left alone. Another is killed at random moments, driver, JVM and all, and started again from
its checkpoint until it has come to the end. In the end both must have written the same rows (as multisets), and the
same rows to the same files of the archive; and what each has written and what `repair` finds must be the exact join.

With `--constraints unique` or `auto` keys come once on each side, most of them on both, and rows are released by that,
declared or found by watching. What is found may be wrong for a moment: then the exact join may have 1 % more rows.

Kills fall while a micro-batch is planned and not yet committed: reading, joining, writing, committing. Not between
batches: there Spark's file source has noted a file for a batch that is not planned yet, and after a kill takes it and
the next one as one batch. Other micro-batches shed other rows, so that both runs could not be compared byte by byte.

The session is tuned, so states are deltas (docs/spark.md); with --whole they are whole snapshots.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import note, save, show, wall

import windrow as wr

FIRST_MTIME = 1_700_000_000
PAIRED = 0.7  # of the keys that come once come on both sides
CONSTRAINTS = {
    "none": None,
    "unique": (wr.Unique("left", "k"), wr.Unique("right", "k")),
    "auto": wr.Monitored(reaction=200),  # of a shard's arrivals
}
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.task.maxFailures": "30",  # a task may lose its executor more than four times
    "spark.network.timeout": "600s",  # who was killed is known at once; who is slow on a busy machine is not dead
    "spark.sql.shuffle.partitions": "2",
}


def write_streams(root: Path, files: int, rows: int, seed: int, once: bool) -> None:
    """Both streams as files that are there from the start, so that every run cuts them into the same micro-batches."""
    rng = np.random.default_rng(seed)
    for side in ("left", "right"):
        (root / side).mkdir(parents=True)
        for k in range(files):
            arrived = np.arange(k * rows, (k + 1) * rows)
            behind = rng.integers(0, rows // 4, rows)
            behind[rng.random(rows) < 0.01] += 3 * rows  # too late
            seconds = np.maximum(arrived - behind, 0)
            table = pa.table(
                {
                    "id": arrived,
                    "ts": pa.array(seconds * 1_000_000, pa.timestamp("us", tz="UTC")),
                    "k": keys_once(side, arrived, seed) if once else (500 * rng.random(rows) ** 2).astype(np.int64),
                    "text": pa.array([f"{side} {i % 97}" for i in arrived]),
                }
            )
            path = root / side / f"{k:04}.parquet"
            pq.write_table(table, path)
            os.utime(path, (FIRST_MTIME + k, FIRST_MTIME + k))


def keys_once(side: str, arrived: np.ndarray, seed: int) -> np.ndarray:
    """Keys that come once on a side: those of a share of the rows on both, the others on one alone."""
    spread = np.random.default_rng([seed, 7]).random(int(arrived[-1]) + 1)[arrived]  # the same on both sides
    return np.where(spread < PAIRED, 3 * arrived, 3 * arrived + (1 if side == "left" else 2))


def drive(streams: Path, out: Path, args: argparse.Namespace) -> None:
    """The driver: the join from files to files, from wherever its checkpoint is to the end."""
    from pyspark.sql import SparkSession

    rows = args.rows
    builder = SparkSession.builder.master(args.master).appName("windrow crash")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if not args.whole:
        wr.spark.tune(spark)
    schema = spark.read.parquet(str(streams / "left")).schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    left, right = (source.parquet(str(streams / side)) for side in ("left", "right"))
    matches = wr.join(
        left, right, on="k", time="ts", within=f"{rows // 4} seconds", lateness=f"{rows // 3} seconds",
        memory=rows // 3, shards=3, archive=str(out / "archive"), constraints=CONSTRAINTS[args.constraints],
    )  # fmt: skip
    writer = matches.writeStream.format("parquet").option("checkpointLocation", str(out / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(out / "rows"))
    query.awaitTermination()
    (out / "metrics.json").write_text(wr.spark.metrics(query).to_json())
    # Read by Spark, which knows the files that count from those of attempts that were killed.
    found = spark.read.parquet(str(out / "rows"))
    pq.write_table(found.toArrow(), out / "result.parquet")
    histories = [spark.read.parquet(str(streams / side)) for side in ("left", "right")]
    missed = wr.repair(str(out / "archive"), *histories)
    pq.write_table(found.unionByName(missed).toArrow(), out / "repaired.parquet")
    exact = wr.join(*histories, on="k", time="ts", within=f"{rows // 4} seconds")
    pq.write_table(exact.toArrow(), out / "exact.parquet")
    spark.stop()


def started(
    streams: Path, out: Path, rows: int, master: str = "local[2]", whole: bool = False, constraints: str = "none"
) -> subprocess.Popen[bytes]:
    """A driver in a process group of its own, with its JVM."""
    path = [str(Path(wr.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    env.setdefault("PYSPARK_PYTHON", sys.executable)
    program = [sys.executable, __file__, "--drive", str(streams), str(out), "--rows", str(rows), "--master", master]
    program += ["--whole"] if whole else []
    program += ["--constraints", constraints]
    with (out / "driver.log").open("ab") as log:
        return subprocess.Popen(program, env=env, stdout=log, stderr=log, start_new_session=True)


def finished(driver: subprocess.Popen[bytes], out: Path) -> None:
    if driver.wait() != 0:
        sys.exit(f"the driver failed:\n{(out / 'driver.log').read_text()[-4000:]}")


def noted(out: Path, log: str) -> int:
    """Micro-batches that Spark has planned ("offsets") or committed ("commits")."""
    folder = out / "checkpoint" / log
    return sum(name.isdigit() for name in os.listdir(folder)) if folder.exists() else 0


def batch_seconds(out: Path) -> float:
    """How long a micro-batch took, from commit to commit: without starting Spark, or compiling."""
    folder = out / "checkpoint" / "commits"
    times = sorted(file.stat().st_mtime for file in folder.iterdir() if file.name.isdigit())
    return (times[-1] - times[0]) / (len(times) - 1)


def kill_at(driver: subprocess.Popen[bytes], out: Path, batch: int, more: float) -> dict[str, Any]:
    """Kill a driver a little after a number of micro-batches has been committed, in a batch; says where it was."""
    wait_until(lambda: noted(out, "commits") >= batch, driver, out)
    time.sleep(more)
    wait_until(lambda: noted(out, "offsets") > noted(out, "commits"), driver, out)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    return {"committed": noted(out, "commits"), "begun": noted(out, "offsets"), "seconds_after_commit": more}


def wait_until(there: Callable[[], bool], driver: subprocess.Popen[bytes], out: Path) -> None:
    """Look again and again until something is there; the driver must not end before."""
    while not there():
        if driver.poll() is not None:
            sys.exit(f"the driver ended before it was killed:\n{(out / 'driver.log').read_text()[-4000:]}")
        time.sleep(0.005)


def disturbed(streams: Path, out: Path, args: argparse.Namespace, longest: float) -> list[dict[str, Any]]:
    """Kill the driver at random moments, each in its own part of the streams, then let it come to the end."""
    chance = random.Random(args.seed)
    kills = []
    for k in range(args.kills):
        note(f"  kill {k + 1}/{args.kills}")
        low, high = (1 + (args.files - 2) * j // args.kills for j in (k, k + 1))
        driver = started(streams, out, args.rows, whole=args.whole, constraints=args.constraints)
        kills.append(kill_at(driver, out, chance.randrange(low, high), chance.random() * longest))
    note("  to the end")
    finished(started(streams, out, args.rows, whole=args.whole, constraints=args.constraints), out)
    return kills


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()


def archive_of(out: Path) -> dict[str, pa.Table]:
    """The rows of every file of an archive."""
    files = sorted((out / "archive").glob("*/[!.]*.parquet"))
    return {str(file.relative_to(out)): in_order(pq.read_table(file)) for file in files}


def counters_of(out: Path) -> dict[str, Any]:
    """What the query said of itself at its end, but how its engines came to be there."""
    found: dict[str, Any] = json.loads((out / "metrics.json").read_text())
    for counters in (found, *found["shards"].values()):
        counters.pop("warm", None)
    return found


def planned(out: Path) -> list[list[str]]:
    """What each micro-batch took from the sources."""
    folder = out / "checkpoint" / "offsets"
    batches = sorted((name for name in os.listdir(folder) if name.isdigit()), key=int)
    return [(folder / name).read_text().splitlines()[2:] for name in batches]


def compared(alone: Path, killed: Path, constraints: str = "none") -> dict[str, Any]:
    """Both runs have given the same; how much that was."""
    for out in (alone, killed):
        exact, repaired = (in_order(pq.read_table(out / f"{name}.parquet")) for name in ("exact", "repaired"))
        if constraints == "auto":
            some = Counter(map(str, repaired.to_pylist())) <= Counter(map(str, exact.to_pylist()))
            assert some and repaired.num_rows >= 0.99 * exact.num_rows, f"{out.name}: {repaired.num_rows} rows"
        else:
            assert exact.equals(repaired), f"{out.name}: {repaired.num_rows} rows, and the join has {exact.num_rows}"
    released = [json.loads((out / "metrics.json").read_text())["released"] for out in (alone, killed)]
    assert released[0] == released[1] and (released[0] > 0) == (constraints != "none"), released
    if planned(alone) != planned(killed):
        sys.exit("after a kill Spark has planned other micro-batches, so both runs may differ: run again")
    results = [in_order(pq.read_table(out / "result.parquet")) for out in (alone, killed)]
    assert results[0].equals(results[1]), f"the output differs: {results[0].num_rows} and {results[1].num_rows} rows"
    archives = [archive_of(out) for out in (alone, killed)]
    assert archives[0].keys() == archives[1].keys(), archives[0].keys() ^ archives[1].keys()
    for name, table in archives[0].items():
        assert table.equals(archives[1][name]), f"{name} differs"
    whys = pa.concat_tables([table.select(["windrow_why"]) for table in archives[0].values()])
    counts = {line["values"]: line["counts"] for line in whys["windrow_why"].value_counts().to_pylist()}
    assert counts.get("shed", 0) > 0 and counts.get("late", 0) > 0, f"nothing was lost: {counts}"
    counters = [counters_of(out) for out in (alone, killed)]
    assert counters[0] == counters[1], f"the counters differ: {counters}"
    written = [len(list((out / "rows").glob("*.parquet"))) for out in (alone, killed)]
    return {
        "matches": results[0].num_rows,
        "with_repair": repaired.num_rows,
        "exact": exact.num_rows,
        "released": released[0],
        "archive_files": len(archives[0]),
        **{f"archived_{why}": n for why, n in sorted(counts.items())},
        "output_files_alone": written[0],
        "output_files_killed": written[1],
        "unfinished_archive_files": len(list((killed / "archive").glob("*/.*.tmp"))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=24, help="of each stream; one of each is a micro-batch")
    parser.add_argument("--rows", type=int, default=1_000, help="in a file")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--constraints", choices=CONSTRAINTS, default="none")
    parser.add_argument("--whole", action="store_true", help="states as whole snapshots")
    parser.add_argument("--master", default="local[2]", help=argparse.SUPPRESS)
    parser.add_argument("--drive", nargs=2, metavar=("STREAMS", "OUT"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.drive:
        drive(Path(args.drive[0]), Path(args.drive[1]), args)
        return
    root = Path(tempfile.mkdtemp(prefix="windrow-crash-"))
    try:
        write_streams(root / "streams", args.files, args.rows, args.seed, once=args.constraints != "none")
        alone, killed = root / "alone", root / "killed"
        alone.mkdir()
        killed.mkdir()
        note("  undisturbed")
        begun = wall()
        finished(started(root / "streams", alone, args.rows, whole=args.whole, constraints=args.constraints), alone)
        seconds = wall() - begun
        kills = disturbed(root / "streams", killed, args, batch_seconds(alone))
        figures = {"rows": 2 * args.files * args.rows, "batches": noted(alone, "commits")}
        figures |= compared(alone, killed, args.constraints)
        figures |= {"seconds_alone": seconds, "seconds_killed": wall() - begun - seconds}
    finally:
        shutil.rmtree(root, ignore_errors=True)
    note("")
    show(f"{len(kills)} times killed: same output, same archive", ("figure", "value"), figures.items())
    show(
        "killed when so many micro-batches were",
        ("kill", "committed", "begun", "seconds later"),
        [(str(k + 1), *kill.values()) for k, kill in enumerate(kills)],
    )
    name = "crash" if args.constraints == "none" else f"crash-{args.constraints}"
    save(name, {**figures, "seed": args.seed, "kills": kills})


if __name__ == "__main__":
    main()
