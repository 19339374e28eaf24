"""Bytes between sites with and without re-planning, on streams that change half-way.

    python benchmarks/sites_replan.py [--seconds 600] [--json FILE]

Two sites, a stream of wide rows at each, matches at A. In the first half the plan that is best for it runs; then rates
swap, or the sizes of their domains of keys, or which of both streams has partners, or nothing. `all` ships the better
stream whole all the time; `best` knows both halves before and changes plans between them: no council can do better but
by chance. Each run's matches are counted and compared, and bytes count surveys and decisions too.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr
from windrow.sites import Plan, Replan, plan, simulate

INTERVAL, WINDOW = 1_000, 10_000  # ms


Keys = tuple[int, int] | tuple[int, int, int]


def drawn(rng: np.random.Generator, keys: Keys, count: int) -> np.ndarray:
    """Keys between two numbers; with a third, one in twenty of them, and the others beyond it."""
    low, high, *beyond = keys
    found = rng.integers(low, high, count)
    if beyond:
        found = np.where(rng.random(count) < 0.05, found, beyond[0] + rng.integers(0, 1 << 40, count))
    return found


def stream(seed: int, seconds: int, rates: tuple[int, int], keys: tuple[Keys, Keys]) -> pa.Table:
    """Rows of 60 bytes: each half has its rate, and its keys."""
    rng = np.random.default_rng(seed)
    half, times, found = seconds * 500, [], []
    for k, rate in enumerate(rates):
        count = rate * seconds // 2
        times.append(np.sort(rng.integers(k * half, (k + 1) * half, count)))
        found.append(drawn(rng, keys[k], count))
    count = sum(map(len, times))
    return pa.table({"t": np.concatenate(times), "k": np.concatenate(found), "id": np.arange(count),
                     "wide": [rng.bytes(24).hex() for _ in range(count)]})  # fmt: skip


def cases(seconds: int) -> dict[str, dict[str, pa.Table]]:
    """Streams whose rates swap; of one rate, whose keys swap: in one case rows of both have as seldom partners after as
    before, in the other all rows of one stream and few of the other have them; and streams that stay as they are."""
    few, many, hot, rare = (0, 2_000), (0, 40_000), (0, 200), (0, 200, 1_000)
    return {
        "rates swap": {"a": stream(1, seconds, (4, 80), (many, many)), "b": stream(2, seconds, (80, 4), (many, many))},
        "keys swap": {"a": stream(1, seconds, (40, 40), (few, many)), "b": stream(2, seconds, (40, 40), (many, few))},
        "shares swap": {
            "a": stream(1, seconds, (40, 40), (hot, rare)),
            "b": stream(2, seconds, (40, 40), (rare, hot)),
        },
        "nothing changes": {
            "a": stream(1, seconds, (4, 4), (many, many)),
            "b": stream(2, seconds, (80, 80), (many, many)),
        },
    }


def measured(tables: dict[str, pa.Table], seconds: int) -> dict[str, Any]:
    """Bytes by way of planning."""
    query = wr.Query(
        streams=[wr.Stream("a", "t", WINDOW), wr.Stream("b", "t", WINDOW)], on="k",
        select=[(f"{s}.{c}", f"{s}_{c}") for s in "ab" for c in ("id", "wide")],
    )  # fmt: skip
    sites, how = {"a": "A", "b": "B"}, {"interval": INTERVAL, "step_seconds": 1e-3, "objective": "bytes", "origin": 0}
    first = {n: t.filter(pa.compute.less(t["t"], seconds * 500)) for n, t in tables.items()}
    second = {n: t.filter(pa.compute.greater_equal(t["t"], seconds * 500)) for n, t in tables.items()}
    planned, better = (plan(query, sites, samples=half, **how) for half in (first, second))
    runs = {"without": simulate(planned, tables, step_seconds=1e-3)}
    runs["with"] = simulate(planned, tables, step_seconds=1e-3, replan=Replan(20 * INTERVAL))
    half = seconds * 500 // INTERVAL
    runs["best"] = runs["without"]
    if better.plan.sequences != planned.plan.sequences:
        runs["best"] = simulate(planned, tables, step_seconds=1e-3, replan=[(half, better.plan)])
    whole = Plan(query, sites, {"a": [("b", "SP-D")], "b": [("a", "SP-S")]}, interval=INTERVAL)
    other = Plan(query, sites, {"a": [("b", "SP-S")], "b": [("a", "SP-D")]}, interval=INTERVAL)
    runs["all"] = min((simulate(p, tables, step_seconds=1e-3) for p in (whole, other)), key=lambda run: run.bytes)
    matches = {name: run.table.num_rows for name, run in runs.items()}
    assert len(set(matches.values())) == 1, matches
    told = sum(n for channel, n in runs["with"].channels.items() if channel.split()[0] in ("facts", "keys", "decision"))
    return {
        "matches": matches["with"], **{f"bytes {name}": run.bytes for name, run in runs.items()},
        "with / without": runs["with"].bytes / runs["without"].bytes, "surveys and decisions": told,
        "share of surveys": told / (runs["with"].bytes - told),
        "plans": [f"{p['begins']}: {p['why']}" for p in runs["with"].plans],
    }  # fmt: skip


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=600, help="of event time")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    given = parser.parse_args()
    found = {name: measured(tables, given.seconds) for name, tables in cases(given.seconds).items()}
    for name, figures in found.items():
        print(name)
        for what, value in figures.items():
            for line in value if isinstance(value, list) else [value]:
                print(f"  {what:22} {line:,.3f}" if isinstance(line, float) else f"  {what:22} {line}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
