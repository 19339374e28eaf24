"""2 x 1,000,000 rows joined by one engine, and cut into shards with a thread each: rows per second, the same matches.

Tables lie in memory; times are wall time of the whole call, and turns alternate in one process. On a machine that is
busy the figures say little: what it gave to so many threads just then is measured, too, and told.
"""

import argparse
import hashlib
import os
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq
from bench_join import WINDOW, fingerprint, write_files
from harness import Contestant, check_counters, race, save, show, wall

import windrow as wr

TARGET = 1.6  # times the rows per second of one engine, in two threads
NOISE, TIMES = bytes(1 << 26), 5


def joined(tables: list[Any], options: dict[str, Any], _: Any = None) -> wr.Result:
    return wr.join(*tables, on="key", time="ts", within=f"{WINDOW} seconds", **options)


def cores(threads: int) -> float:
    """How many cores the machine gives to so many threads just now: what they get done, over what one gets done."""

    def timed(count: int) -> float:
        workers = [threading.Thread(target=hashlib.sha256, args=(NOISE,)) for _ in range(count)]
        started = wall()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return wall() - started

    return threads * median(timed(1) for _ in range(TIMES)) / median(timed(threads) for _ in range(TIMES))


def one_against_many(
    tables: list[Any], title: str, shards: int, rounds: int, options: dict[str, Any]
) -> dict[str, Any]:
    contestants = {
        "one engine": Contestant(partial(joined, tables, options)),
        f"{shards} shards": Contestant(partial(joined, tables, {**options, "shards": shards})),
    }
    timings = race(contestants, rounds)
    one, many = timings.values()
    check_counters(one.result.metrics)
    check_counters(many.result.metrics)
    exact = "memory" not in options
    if exact:
        assert fingerprint(one.result.table) == fingerprint(many.result.table), "shards give other matches"
    rows = sum(table.num_rows for table in tables)
    ratio = one.median / many.median
    show(
        f"{title}: {one.result.metrics.matched:,} matches; median of {rounds}",
        ("contestant", "M rows/s", "x one", "noise", "matches"),
        [
            (n, rows / t.median / 1e6, one.median / t.median, f"{t.spread:.0%}", t.result.metrics.matched)
            for n, t in timings.items()
        ],
    )
    return {"ratio": ratio, "seconds": {name: t.turns for name, t in timings.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--only", default="", help="parts whose name holds this text")
    args = parser.parse_args()
    found: dict[str, Any] = {"target": TARGET, "shards": args.shards, "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as folder:
        files = {text: write_files(Path(folder), text) for text in (False, True)}
        sides = {text: [pq.read_table(path) for path in files[text].values()] for text in files}
        run: Callable[..., dict[str, Any]] = partial(one_against_many, shards=args.shards, rounds=args.rounds)
        parts = {
            "exact, int keys": partial(run, sides[False], options={}),
            "exact, text keys": partial(run, sides[True], options={}),
            "prob at 40,000 rows": partial(run, sides[False], options={"memory": 40_000, "policy": "prob"}),
        }
        for title, part in parts.items():
            if args.only in title:
                found[title] = part(title=title)
                found[title]["machine"] = cores(args.shards)
                print(
                    f"  {found[title]['ratio']:.2f} times one engine's rate (target: {TARGET} with two shards); "
                    f"the machine gave {found[title]['machine']:.2f} cores to {args.shards} threads"
                )
    save("shards", found)


if __name__ == "__main__":
    main()
