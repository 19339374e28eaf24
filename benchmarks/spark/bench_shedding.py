"""Policies on Spark: how much longer a micro-batch takes with each than with PROB, in the same memory.

The streams, the session and what counts are those of bench_spark.py. Each policy sheds something else, so matches are
not compared; that all of them shed is asserted.
"""

import argparse
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench_spark import RATE, Line, session
from contestants import WINDOW, Contestant, run
from harness import note, save, show
from stream_files import write_streams

import windrow as wr

BASELINE, OURS, TARGET = "prob", "auto", 1.3  # target: at most so many times PROB's time


def shedding(policy: str, memory: str, left: DataFrame, right: DataFrame) -> DataFrame:
    return wr.join(left, right, on="key", time="ts", within=f"{WINDOW} seconds", memory=memory, policy=policy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="of a micro-batch, both streams together")
    parser.add_argument("--batches", type=int, default=4, help="micro-batches that count, per turn")
    parser.add_argument("--memory", default="4 MB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[BASELINE, OURS], help="policies")
    args = parser.parse_args()
    spark, lines = session(2), {policy: Line() for policy in args.only}
    with tempfile.TemporaryDirectory() as folder:
        streams = write_streams(Path(folder) / "streams", args.rows, args.batches, RATE)
        for turn in range(-1, args.rounds):
            for policy, line in lines.items():
                note(f"  round {turn + 1}/{args.rounds} {policy}")
                contestant = Contestant(partial(shedding, policy, args.memory))
                found = run(spark, contestant, streams, Path(folder) / "scratch")
                assert found.counters["shed"] > 0, policy
                if turn >= 0:
                    line.runs.append(found)
    note("")
    spark.stop()
    seconds, core = ({p: statistics.median(getattr(line, w)) for p, line in lines.items()} for w in ("seconds", "core"))
    times = {policy: seconds[policy] / seconds.get(BASELINE, seconds[policy]) for policy in lines}
    show(
        f"{args.rows:,} rows a micro-batch, {args.memory}; median of {args.batches * args.rounds}",
        ("policy", "seconds", f"x {BASELINE}", "noise", "core seconds"),
        [(p, seconds[p], times[p], f"{line.spread:.0%}", core[p]) for p, line in lines.items()],
    )
    if BASELINE in lines and OURS in lines:
        print(f"  {OURS} takes {times[OURS]:.2f} times {BASELINE}'s time (target: at most {TARGET:g})")
    save("shedding", {"memory": args.memory, "rows": args.rows, "seconds": seconds, "core_seconds": core})


if __name__ == "__main__":
    main()
