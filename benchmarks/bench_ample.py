"""A budget that is never reached: what a capped join costs over the exact one, with recall told and without.

2 x 1,000,000 rows in memory, pushed in slices to engines with 1 GB, of which the residents need a small part. Nothing
is shed, so that everybody gives the same matches; what differs is what policies keep for a day that does not come.
"""

import argparse
import statistics
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from harness import Contestant, Timing, check_counters, core, race, save, show

import windrow as wr

ROWS, KEYS, SPAN, WINDOW, SLICE = 1_000_000, 100_000, 1_000_000, 100_000, 1 << 17
POLICIES = ("prob", "auto", "rand", "fifo")
RATIO = 1.05  # target: a capped join takes at most so many times what the exact one takes

Tables = dict[str, pa.Table]


def slices(rows: int) -> list[Tables]:
    """Two streams in time order, cut where both have come as far."""
    rng, tables = np.random.default_rng(2003), {}
    for side in ("left", "right"):
        ts, keys = np.sort(rng.integers(0, SPAN, rows)), rng.integers(0, KEYS, rows)
        tables[side] = pa.table({"ts": ts, "key": keys, "amount": rng.random(rows)})
    cuts = np.linspace(0, SPAN, 2 * rows // SLICE + 1).astype(int)
    ends = {side: np.searchsorted(table["ts"].to_numpy(), cuts) for side, table in tables.items()}
    return [
        {side: table.slice(ends[side][k], ends[side][k + 1] - ends[side][k]) for side, table in tables.items()}
        for k in range(len(cuts) - 1)
    ]


def joined(batches: list[Tables], options: dict[str, Any], recall: bool, count_only: bool, _: Any) -> tuple[int, Any]:
    streams = [wr.Stream(side, "ts", wr.Window.time(WINDOW)) for side in batches[0]]
    engine = wr.Engine(wr.Query(streams=streams, on="key", **options), recall=recall, count_only=count_only)
    found = 0
    for batch in batches:
        matches = engine.push(batch)
        found += 0 if matches is None else matches.num_rows
    return found, engine.metrics


def over(timing: Timing, other: Timing) -> float:
    """The median over rounds of what one takes in times of what another takes in the same round."""
    return statistics.median(mine / theirs for mine, theirs in zip(timing.turns, other.turns, strict=True))


def contest(batches: list[Tables], rounds: int, count_only: bool) -> dict[str, Timing]:
    contestants = {"exact": Contestant(partial(joined, batches, {}, True, count_only))}
    for policy in POLICIES:
        for recall in (True, False):
            run = partial(joined, batches, {"memory": "1 GB", "policy": policy}, recall, count_only)
            contestants[f"{policy}, recall {'on' if recall else 'off'}"] = Contestant(run)
    timings = race(contestants, rounds, core)
    exact = timings["exact"].result
    for name, timing in timings.items():
        found, metrics = timing.result
        check_counters(metrics)
        assert metrics.shed == 0 and metrics.matched == exact[1].matched and found == exact[0], name
        assert metrics.recall == 1.0, name
    return timings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of each stream")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    batches, figures = slices(arguments.rows), []
    for count_only in (False, True):
        timings = contest(batches, arguments.rounds, count_only)
        exact = timings["exact"]
        off = {name: timings[name.replace("recall on", "recall off")] for name in timings}
        show(
            f"{'counted' if count_only else 'emitted'}: 2 x {arguments.rows:,} rows, "
            f"{timings['exact'].result[1].matched:,} matches, 1 GB; median of {arguments.rounds}, seconds of one core",
            ("contestant", "seconds", "x exact", "x recall off", "noise"),
            [(n, t.median, over(t, exact), over(t, off[n]), f"{t.spread:.0%}") for n, t in timings.items()],
        )
        worst = max(over(t, exact) for t in timings.values())
        print(f"  at most {worst:.2f} times the exact join (target: {RATIO:g})")
        seconds = {name: timing.turns for name, timing in timings.items()}
        figures.append({"count_only": count_only, "worst": worst, "target": RATIO, "seconds": seconds})
    print(f"\nwritten: {save('ample', {'rows': arguments.rows, 'figures': figures})}")


if __name__ == "__main__":
    main()
