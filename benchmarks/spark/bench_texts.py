"""Query texts on Spark that run as one task: the time of a micro-batch, and what its state costs.

Packets on three links, about 20,000 in a micro-batch of one minute; the sum over the first query of the k-constraints
paper, with windows of one minute and of ten. The baseline is the same join as a text that is cut into
shards: it selects Istream of its columns, keeps no aggregate, and writes deltas. All run in one session over the same
files, in turn. The text gives the same rows with both stores, and as many as embedded, which is asserted; there stand
the parts of which its micro-batch is made: restore, push, snapshot.
"""

import argparse
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench_constraints import FILLING, LINKS, network_parts
from bench_spark import session
from contestants import HDFS, ROCKSDB, Contestant, Run, run
from harness import note, save, show
from stream_files import LATENESS, Streams, write_parts

import windrow as wr

SUM = "Select sum(C.size) as bytes, count(*) as packets From {0} Where C.pid = B.pid and B.pid = O.pid"
MATCHES = "Select Istream(C.pid, C.size) From {0} Where C.pid = B.pid and B.pid = O.pid"
SHARDED = "in shards, Istream, RocksDB"
RATE = 28  # packets a second on C and on O; ten times as many on B


def text(select: str, minutes: int) -> Any:
    """A text with windows of so many minutes."""
    return wr.cql(select.format(", ".join(f"{link} [Range {minutes} minutes]" for link in LINKS)))


def frame(select: str, minutes: int, *links: Any) -> Any:
    return text(select, minutes).on_spark(dict(zip(LINKS, links, strict=True)))


def contestants(minutes: int) -> dict[str, Contestant]:
    return {
        SHARDED: Contestant(partial(frame, MATCHES, minutes), ROCKSDB),
        "one task, sum, HDFS": Contestant(partial(frame, SUM, minutes), HDFS),
        "one task, sum, RocksDB": Contestant(partial(frame, SUM, minutes), ROCKSDB),
    }


def embedded(streams: Streams, minutes: int) -> dict[str, Any]:
    """The parts of a micro-batch in this process: medians of seconds, and the bytes of the last state."""
    query, options = text(SUM, minutes), {"time": "ts", "lateness": f"{LATENESS} seconds"}
    files = {link: sorted(Path(streams.path(link)).iterdir()) for link in LINKS}
    times: dict[str, list[float]] = {"restore": [], "push": [], "snapshot": []}
    data, rows = b"", []
    for k in range(len(files["C"])):
        batch = {link: pq.read_table(files[link][k]) for link in LINKS}
        clock = [time.perf_counter()]
        running = query.restore(data, **options) if data else query.start(**options)
        clock.append(time.perf_counter())
        rows.append(running.push(batch).num_rows)
        clock.append(time.perf_counter())
        data = running.snapshot()
        clock.append(time.perf_counter())
        for n, name in enumerate(times):
            times[name].append(clock[n + 1] - clock[n])
    parts = {name: statistics.median(mine[FILLING:]) for name, mine in times.items()}
    return {**parts, "bytes": len(data), "rows": rows[FILLING:]}


def figures(runs: list[Run], streams: Streams) -> dict[str, Any]:
    last = runs[-1]
    return {
        "seconds": statistics.median(second for one in runs for second in one.seconds),
        "written_bytes": last.written_bytes / (streams.filling + streams.batches),
        "checkpoint_bytes": last.folder_bytes,
        "resident_bytes": last.counters["resident_bytes"],
    }


def measured(spark: Any, minutes: int, batches: int, rounds: int) -> dict[str, Any]:
    """All contestants with windows of so many minutes."""
    with tempfile.TemporaryDirectory() as folder:
        schema = "ts timestamp, pid long, size long"
        streams = write_parts(Path(folder) / "streams", network_parts(RATE, batches, minutes), FILLING, schema)
        chosen = contestants(minutes)
        runs: dict[str, list[Run]] = {name: [] for name in chosen}
        for turn in range(-1, rounds):
            for name, contestant in chosen.items():
                note(f"  {minutes} minutes, round {turn + 1}/{rounds} {name}")
                found = run(spark, contestant, streams, Path(folder))
                runs[name] += [found] if turn >= 0 else []
        note("")
        parts = embedded(streams, minutes)
    sums = [one.answers for name, mine in runs.items() if name != SHARDED for one in mine]
    assert all(answers == sums[0] for answers in sums), f"different rows: {sums}"
    told = [count for count, _ in sums[0]]
    assert told == parts["rows"], f"other rows than embedded: {told} and {parts['rows']}"
    lines = {name: figures(mine, streams) for name, mine in runs.items()}
    table = [
        (name, mine["seconds"], mine["seconds"] / lines[SHARDED]["seconds"], mine["written_bytes"] / 1e6,
         mine["checkpoint_bytes"] / 1e6, mine["resident_bytes"] / 1e6)
        for name, mine in lines.items()
    ]  # fmt: skip
    heads = ("contestant", "seconds", "x in shards", "MB written a batch", "checkpoint MB", "resident MB")
    show(f"windows of {minutes} minutes, {statistics.median(told):,.0f} changes a micro-batch", heads, table)
    spent = ", ".join(f"{name} {parts[name]:.3f} s" for name in ("restore", "push", "snapshot"))
    print(f"  embedded: {spent}; the state is {parts['bytes'] / 1e6:.1f} MB")
    return {"lines": lines, "embedded": parts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, nargs="*", default=[1, 10], help="lengths of the windows")
    parser.add_argument("--batches", type=int, default=4, help="micro-batches that count, per turn")
    parser.add_argument("--rounds", type=int, default=2, help="that count")
    args = parser.parse_args()
    spark = session(2)
    save("spark-texts", {m: measured(spark, m, args.batches, args.rounds) for m in args.minutes})
    spark.stop()


if __name__ == "__main__":
    main()
