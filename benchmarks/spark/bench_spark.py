"""windrow on Spark against Spark's own stream-stream join, in one session, over the same files.

Both join two streams by key within 100 seconds, from the same Parquet files to the same matches, which is asserted
micro-batch by micro-batch. The floor is a bare shuffle of the same rows. Contestants take turns; each turn is a query
from an empty state, of which only the micro-batches count that find the window full. Times are those that Spark
reports for a whole trigger: planning, the batch, and commits. Beside them stand seconds of a core, of the JVM and its
Python workers, which a busy machine changes less. The session is tuned (`wr.spark.tune`), for all contestants.

State is what Spark's store says of the version in use, per row in it. What windrow's engines hold in the workers, the
same rows again, is listed apart, and so is what goes to the checkpoint's files per micro-batch.
"""

import argparse
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1]))
from contestants import CONTESTANTS, Run, run
from harness import note, save, show
from stream_files import Streams, write_streams

import windrow as wr

BASELINE, OURS, FLOOR = "spark, HDFS store", "windrow", "shuffle only"
WHOLE = "windrow, HDFS store"
TARGETS = {20_000: 1.0, 200_000: 4.0, 2_000_000: 10.0}  # rows of a micro-batch: times faster than the baseline
STATE_TARGET = 10.0  # times fewer bytes
BATCHES = {20_000: 8, 200_000: 4, 2_000_000: 2}  # that count, per turn
RATE = 1_000  # rows a second, per stream


@dataclass
class Line:
    """All turns of a contestant."""

    runs: list[Run] = field(default_factory=list)

    @property
    def seconds(self) -> list[float]:
        return [s for r in self.runs for s in r.seconds]

    @property
    def core(self) -> list[float]:
        return [s for r in self.runs for s in r.core]

    @property
    def spread(self) -> float:
        return (max(self.seconds) - min(self.seconds)) / 2 / statistics.median(self.seconds)

    @property
    def resident_rows(self) -> int:
        last = self.runs[-1]
        return int(last.counters.get("resident_rows", last.state.get("rows", 0)))

    def state(self, what: str) -> float | None:
        """Bytes of the store per resident row."""
        return self.runs[-1].state[what] / self.resident_rows if self.resident_rows else None


def session(partitions: int) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("windrow-benchmark")
    options = {
        "spark.driver.memory": "6g", "spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": partitions, "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
    }  # fmt: skip
    for name, value in options.items():
        builder = builder.config(name, value)
    found = builder.getOrCreate()
    wr.spark.tune(found)
    return found


def race(spark: SparkSession, streams: Streams, names: list[str], rounds: int, warm_up: bool) -> dict[str, Line]:
    """Contestants in turn; in a first round that does not count they start what they need."""
    lines = {name: Line() for name in names}
    with tempfile.TemporaryDirectory() as scratch:
        for turn in range(-1 if warm_up else 0, rounds):
            for name in names:
                note(f"  {streams.batch_rows:,} rows, round {turn + 1}/{rounds} {name}")
                found = run(spark, CONTESTANTS[name], streams, Path(scratch))
                if turn >= 0:
                    lines[name].runs.append(found)
    note("")
    return lines


def check(lines: dict[str, Line], streams: Streams) -> int:
    """All joins give the same matches in every micro-batch, about as many as they should; how many they are."""
    answers = {name: [r.answers for r in line.runs] for name, line in lines.items() if name != FLOOR}
    first = next(iter(answers.values()))[0]
    assert all(found == first for turns in answers.values() for found in turns), f"different matches: {answers}"
    matches = sum(count for count, _ in first)
    expected = 0.2 * streams.batch_rows * streams.batches
    assert abs(matches / expected - 1) < 0.05, (matches, expected)
    return matches


def report(lines: dict[str, Line], streams: Streams, matches: int) -> dict[str, Any]:
    middle = {name: statistics.median(line.seconds) for name, line in lines.items()}
    core = {name: statistics.median(line.core) for name, line in lines.items()}
    rows = []
    for name, line in lines.items():
        ratio = [times[BASELINE] / times[name] if BASELINE in times else None for times in (middle, core)]
        floor = middle[name] / middle[FLOOR] if FLOOR in middle else None
        cells = (name, middle[name], ratio[0], floor, f"{line.spread:.0%}", core[name], ratio[1])
        rows.append(tuple("" if cell is None else cell for cell in cells))
    show(
        f"{streams.batch_rows:,} rows a micro-batch, {matches / streams.batches:,.0f} matches; "
        f"median of {len(next(iter(lines.values())).seconds)}",
        ("contestant", "seconds", "times faster", "x shuffle", "noise", "core seconds", "times fewer"),
        rows,
    )
    show(
        "state at the end",
        ("contestant", "resident rows", "bytes a row", "with cached versions", "in workers", "KB written a batch"),
        [_state_line(name, line, streams) for name, line in lines.items() if line.resident_rows],
    )
    return _verdict(lines, streams, middle, core)


def _state_line(name: str, line: Line, streams: Streams) -> tuple[object, ...]:
    last = line.runs[-1]
    held = last.counters.get("resident_bytes")
    workers = held / line.resident_rows if held is not None else ""
    written = last.written_bytes / (streams.filling + streams.batches) / 1000
    return name, line.resident_rows, line.state("bytes"), line.state("cached_bytes"), workers, written


def _verdict(
    lines: dict[str, Line], streams: Streams, middle: dict[str, float], core: dict[str, float]
) -> dict[str, Any]:
    figures: dict[str, Any] = {
        name: {
            "seconds": line.seconds, "median": middle[name], "core_seconds": line.core, "core_median": core[name],
            "state": line.runs[-1].state, "resident_rows": line.resident_rows, "parts": line.runs[-1].parts[-1],
            "written_bytes": line.runs[-1].written_bytes,
        }
        for name, line in lines.items()
    }  # fmt: skip
    found: dict[str, Any] = {"contestants": figures, "batches": streams.batches, "rate": streams.rate}
    if OURS in lines and BASELINE in lines:
        found["ratio"] = middle[BASELINE] / middle[OURS]
        target = TARGETS.get(streams.batch_rows)
        wanted = f" (target: at least {target:g})" if target else ""
        print(f"  windrow is {found['ratio']:.2f} times as fast as Spark's own join{wanted}; matches are equal")
        if WHOLE in lines:
            found["state_ratio"] = lines[BASELINE].state("bytes") / lines[WHOLE].state("bytes")
            told = f"{found['state_ratio']:.1f} times fewer bytes a row (target: at least {STATE_TARGET:g})"
            print(f"  its state takes {told}, measured in the same store")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=sorted(TARGETS), help="rows of a micro-batch")
    parser.add_argument("--only", nargs="*", default=list(CONTESTANTS), help="contestants")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, help="micro-batches that count, per turn")
    parser.add_argument("--rate", type=int, default=RATE, help="rows a second, per stream: how much a window holds")
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--name", default="spark", help="of the file with the figures")
    args = parser.parse_args()
    spark = session(args.partitions)
    figures = {}
    for number, rows in enumerate(args.sizes):
        with tempfile.TemporaryDirectory() as folder:
            batches = args.batches or BATCHES.get(rows, 4)
            streams = write_streams(Path(folder), rows, batches, args.rate)
            lines = race(spark, streams, args.only, args.rounds, warm_up=number == 0)
            figures[str(rows)] = report(lines, streams, check(lines, streams))
        save(args.name, {"partitions": args.partitions, **figures})
    spark.stop()


if __name__ == "__main__":
    main()
