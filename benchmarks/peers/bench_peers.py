"""windrow, embedded and on Spark, against Flink's and Pathway's interval joins: from the same files to counted matches.

2 x 1,000,000 rows in CSV files, 1.9 million matches. Every contestant runs in a process of its own, in which the first
turn does not count (it compiles, loads or starts something); contestants take turns. Peers are tried with one worker
and with one per core, and compared at what is better for them. Beside the clock stand seconds of a core, of the process
and all that it has started, which a busy machine changes less.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

sys.path.insert(0, str(Path(__file__).parents[1]))
from environments import NotHere, environment
from harness import note, save, show

ROWS, KEYS, SECONDS, WINDOW_MS = 1_000_000, 100_000, 1_000, 100_000
TARGETS = {"flink": 20.0, "pathway": 10.0}  # times the embedded join's time, at least
HERE = Path(__file__).parent


@dataclass
class Contestant:
    """A script, the Python that runs it, and how many workers it is given."""

    script: str
    python: Path
    workers: int
    turns: list[dict[str, Any]] = field(default_factory=list)
    failure: str = ""

    def run(self, files: dict[str, Path]) -> None:
        """One process: a turn that does not count and one that does."""
        bound = str(WINDOW_MS - 1)  # windrow's window is open, the peers' intervals are closed
        command = [self.python, HERE / self.script, files["left"], files["right"], bound, self.workers, 2]
        surroundings = {**os.environ, "PATHWAY_THREADS": str(self.workers), "PYSPARK_PYTHON": str(self.python)}
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=surroundings)
        if done.returncode:
            self.failure = (done.stderr or done.stdout).strip()[-800:]
            return
        self.turns.append(json.loads(done.stdout.strip().splitlines()[-1])[-1])

    def median(self, what: str) -> float:
        return statistics.median(turn[what] for turn in self.turns)


def write_files(folder: Path, rows: int) -> dict[str, Path]:
    """Two streams in time order, with a header and, for Flink, without."""
    rng, found = np.random.default_rng(2003), {}
    for side in ("left", "right"):
        columns = {
            "ts": np.sort(rng.integers(0, SECONDS * 1_000, rows)),
            "key": rng.integers(0, KEYS * rows // ROWS, rows),
            "amount": rng.integers(0, 100_000, rows) / 100,
        }
        found[side] = folder / f"{side}.csv"
        pyarrow.csv.write_csv(pa.table(columns), found[side])
        bare = pyarrow.csv.WriteOptions(include_header=False)
        pyarrow.csv.write_csv(pa.table(columns), folder / f"{side}.bare.csv", bare)
    return found


def contestants(only: str) -> tuple[dict[str, Contestant], dict[str, str]]:
    """All that can be run here, and why others cannot."""
    cores = os.cpu_count() or 1
    mine = Path(sys.executable)
    found = {
        "windrow": Contestant("windrow_join.py", mine, 1),
        "windrow on Spark": Contestant("windrow_spark_join.py", mine, cores),
    }
    missing = {}
    for peer, package in (("flink", "apache-flink"), ("pathway", "pathway")):
        try:
            python = environment(package)
        except NotHere as error:
            missing[peer] = str(error)
            continue
        for workers in sorted({1, cores}):
            found[f"{peer}, {workers} worker{'s' if workers > 1 else ''}"] = Contestant(
                f"{peer}_join.py", python, workers
            )
    return {name: c for name, c in found.items() if only in name or name == "windrow"}, missing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--only", default="", help="contestants whose name holds this text, beside windrow")
    args = parser.parse_args()
    racing, missing = contestants(args.only)
    with tempfile.TemporaryDirectory() as folder:
        files = write_files(Path(folder), args.rows)
        for number in range(args.rounds):
            for name, contestant in racing.items():
                note(f"  round {number + 1}/{args.rounds} {name}")
                if not contestant.failure:
                    contestant.run(files)
    note("")
    missing |= {name: c.failure for name, c in racing.items() if c.failure}
    report({name: c for name, c in racing.items() if not c.failure}, missing, args.rows)


def report(ran: dict[str, Contestant], missing: dict[str, str], rows: int) -> None:
    counts = {name: c.turns[-1]["matches"] for name, c in ran.items()}
    assert len(set(counts.values())) == 1, f"contestants give different matches: {counts}"
    matches = counts["windrow"]
    base = {what: ran["windrow"].median(what) for what in ("seconds", "core")}
    lines = []
    for name, c in ran.items():
        spread = (max(t["seconds"] for t in c.turns) - min(t["seconds"] for t in c.turns)) / 2 / c.median("seconds")
        seconds, core = c.median("seconds"), c.median("core")
        lines.append((name, seconds, seconds / base["seconds"], f"{spread:.0%}", core, core / base["core"]))
    show(
        f"2 x {rows:,} rows, CSV to {matches:,} counted matches; median of {len(ran['windrow'].turns)}",
        ("contestant", "seconds", "x windrow", "noise", "core seconds", "x windrow"),
        lines,
    )
    ratios = {}
    for peer, target in TARGETS.items():
        times = [c.median("seconds") for name, c in ran.items() if name.startswith(peer)]
        if times:
            ratios[peer] = min(times) / base["seconds"]
            print(f"  {peer} takes {ratios[peer]:.1f} times windrow's time (target: at least {target:g})")
    for name, reason in missing.items():
        print(f"  {name} did not run: {reason}")
    figures = {name: c.turns for name, c in ran.items()}
    save(
        "peers",
        {"rows": rows, "matches": matches, "ratios": ratios, "targets": TARGETS, "turns": figures, "missing": missing},
    )


if __name__ == "__main__":
    main()
