"""Soak: 100 million arrivals through a fixed budget. The process must stay as large as it was after the first tenth.

Two streams with a time, a key, an amount and a text. Keys are Zipf-distributed over a universe that moves: there
are always new ones and old ones stop coming, so statistics and key tables are under pressure too. After every push:
resident and peak bytes are inside the budget, and every row that arrived is accounted for. With --snapshot-every,
the engine is now and then replaced by its restored snapshot, after both have given the same output for the same
push.
"""

import argparse
from collections.abc import Iterator
from inspect import signature
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from harness import check_counters, core, note, save, show, wall

import windrow as wr
from windrow.engine.bind import RECALL_SHARE, STATISTICS_SHARE, TRIAL_SHARE
from windrow.spec import parse_bytes

POOL = 1 << 20  # rows of each stream's columns that are drawn once; a batch is a slice of them with new times and keys
UNIVERSE = 4_000_000  # keys that can come at one time
MOVE = UNIVERSE // 200  # and how many of them are replaced with every batch
DEFAULT = signature(wr.Query).parameters["policy"].default
FLAT = 1.05  # the most that the process may grow after the first tenth


class Source:
    """Batches without end, in bounded memory and little time."""

    def __init__(self, rows: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        pages = pa.array([f"/item/{i:05}?from=" + "x" * (i % 20) for i in range(10_000)])
        weights = np.cumsum(np.arange(1, UNIVERSE + 1) ** -0.4)
        self.rows, self.rng = rows, np.random.default_rng(seed + 1)
        self.keys, self.payload = [], []
        for _ in range(2):
            ranks = np.searchsorted(weights, rng.random(POOL) * weights[-1])
            self.keys.append((ranks * 7_919_113) % UNIVERSE)  # popular keys lie anywhere in the universe
            page = pages.take(pa.array(rng.integers(0, len(pages), POOL)))
            self.payload.append(pa.table({"amount": rng.random(POOL), "page": page}))

    def batches(self) -> Iterator[dict[str, pa.Table]]:
        """Successive pushes: `rows` rows of each stream, one of each per step."""
        number = 0
        while True:
            yield {side: self._table(s, number) for s, side in enumerate(("left", "right"))}
            number += 1

    def _table(self, s: int, number: int) -> pa.Table:
        start = int(self.rng.integers(0, POOL - self.rows))
        keys, low = self.keys[s][start : start + self.rows], number * MOVE
        keys = low + (keys - low) % UNIVERSE  # the universe is [low, low + UNIVERSE): most keys are as before
        t = np.arange(number * self.rows, (number + 1) * self.rows)
        payload = self.payload[s].slice(start, self.rows)
        return pa.table({"t": t, "k": keys, **{c: payload[c] for c in payload.column_names}})


def process_mb(what: str) -> float:
    """The process in memory, in MB: now (VmRSS), or the most it has been (VmHWM)."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(what)) / 1024


def forget_highest() -> None:
    """Start VmHWM anew, so that drawing the pool of rows does not hide what the engine needs."""
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")


def check(engine: wr.Engine, budget: int) -> wr.Metrics:
    """The budget holds and the counters add up."""
    metrics = engine.metrics
    assert metrics.resident_bytes <= budget, f"{metrics.resident_bytes:,} bytes are resident"
    assert metrics.peak_bytes <= budget, f"the peak is {metrics.peak_bytes:,} bytes"
    check_counters(metrics)
    return metrics


def restored(engine: wr.Engine, batch: dict[str, pa.Table]) -> tuple[wr.Engine, pa.Table]:
    """The engine from its own snapshot, after a push that both have answered alike, and the matches of that push."""
    other = wr.Engine.restore(engine.snapshot())
    matches, again = engine.push(batch), other.push(batch)
    assert matches.equals(again) and engine.snapshot() == other.snapshot(), "the restored engine went its own way"
    return other, matches


def soak(args: argparse.Namespace) -> dict[str, Any]:
    budget, pushes = parse_bytes(args.memory), max(10, args.rows // (2 * args.batch))
    window = wr.Window.time(args.window)
    streams = [wr.Stream(side, "t", window) for side in ("left", "right")]
    query = wr.Query(streams=streams, on="k", memory=args.memory, policy=args.policy, seed=args.seed)
    engine, source = wr.Engine(query), Source(args.batch, args.seed)
    compiling = wall()
    wr.Engine(query).push({name: table.slice(0, 100) for name, table in next(source.batches()).items()})
    compiling = wall() - compiling
    forget_highest()
    empty = process_mb("VmRSS")
    chance, snapshots = np.random.default_rng(args.seed), 0
    samples: list[dict[str, float]] = []
    begun, pushing, matched = wall(), 0.0, 0
    for number, batch in enumerate(islice(source.batches(), pushes)):
        note(f"  push {number + 1:,}/{pushes:,}")
        started = core()
        if args.snapshot_every and chance.random() < 1 / args.snapshot_every:
            engine, matches = restored(engine, batch)
            snapshots += 1
        else:
            matches = engine.push(batch)
        pushing += core() - started
        matched += matches.num_rows
        del matches
        metrics = check(engine, budget)
        assert metrics.matched == matched
        samples.append(
            {
                "arrived": metrics.arrived,
                "rss": process_mb("VmRSS"),
                "highest": process_mb("VmHWM"),
                "pushing": pushing,
                "bytes": metrics.resident_bytes,
                "recall": metrics.recall or 0.0,
            }
        )
    note("")
    figures = {"rss_mb_at_start": empty, **summary(samples, budget)}
    figures |= {"compiling_seconds": compiling, "seconds": wall() - begun}
    figures["core_seconds_of_pushing"] = pushing
    return figures | {"matched": matched, "shed": metrics.shed, "snapshots": snapshots, "samples": samples}


def summary(samples: list[dict[str, float]], budget: int) -> dict[str, Any]:
    tenth = len(samples) // 10
    first, last, before = samples[tenth - 1], samples[-1], samples[-tenth - 1]
    rest = samples[tenth:]
    early = samples[2 * tenth - 1]  # the second tenth: kernels are loaded and memory is full
    rates = [
        (b["arrived"] - a["arrived"]) / (b["pushing"] - a["pushing"]) / 1e6 for a, b in ((first, early), (before, last))
    ]
    return {
        "arrived": last["arrived"],
        "budget": budget,
        "most_resident_bytes": max(s["bytes"] for s in samples),
        "highest_mb_after_10": first["highest"],
        "highest_mb_after_100": last["highest"],
        "rss_max_mb_until_10": max(s["rss"] for s in samples[:tenth]),
        "rss_max_mb_after_10": max(s["rss"] for s in rest),
        "growth": last["highest"] / first["highest"],
        "rate_second_tenth": rates[0],
        "rate_last_tenth": rates[1],
        "recall": last["recall"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000, help="arrivals of both streams together")
    parser.add_argument("--batch", type=int, default=100_000, help="rows of each stream in a push")
    parser.add_argument("--memory", default="64 MB")
    parser.add_argument("--window", type=int, default=500_000, help="steps; a step brings one row of each stream")
    parser.add_argument("--policy", default=DEFAULT, choices=[p.name for p in wr.policies.ALL])
    parser.add_argument(
        "--snapshot-every", type=int, default=0, help="restore from a snapshot about every so many pushes"
    )
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    found = soak(args)
    show(
        f"{int(found['arrived']):,} arrivals through {args.memory}, policy {args.policy}, window {args.window:,} steps",
        ("figure", "value"),
        [(name, value) for name, value in found.items() if name != "samples"],
    )
    save(f"soak-{args.policy}", found)
    aside = 1 / STATISTICS_SHARE + 1 / RECALL_SHARE + (1 / TRIAL_SHARE if args.policy == "auto" else 0)
    room = (1 - aside) * found["budget"]  # for rows; the rest is for keys that came, recall, and the trials of `auto`
    assert found["shed"] > 0 and found["most_resident_bytes"] > 0.98 * room, "the budget was never full"
    assert args.snapshot_every or found["growth"] <= FLAT, f"the process grew by {found['growth'] - 1:.1%}"


if __name__ == "__main__":
    main()
