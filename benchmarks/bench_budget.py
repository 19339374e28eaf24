"""Bytes really allocated over the budget, for every policy: blocks with their reserve, trials, payload, recall.

Each figure is the most after any push of a run in which far more rows come than the budget holds, in pushes of 200 rows
and of 50,000. The promise is a quarter above the budget and 16 kB; the program fails where it does not hold.

    python benchmarks/bench_budget.py [--largest 64]
"""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow as pa
from harness import save

import windrow as wr

KB = 1024
BUDGETS = (64 * KB, 256 * KB, 1024 * KB, 8 * 1024 * KB, 64 * 1024 * KB)
PUSHES = (200, 50_000)


def rows(seed: int, count: int, keys: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    texts = pa.array(["x" * int(n) for n in rng.integers(0, 40, 1_000)]).take(pa.array(rng.integers(0, 1_000, count)))
    return pa.table({"t": np.arange(count), "k": (keys * rng.random(count) ** 3).astype(np.int64), "s": texts})


def most_allocated(policy: str, budget: int, push: int) -> int:
    count = max(budget // 100, 4_000)
    tables = {name: rows(seed, count, count // 4) for seed, name in enumerate("ab")}
    streams = [wr.Stream(name, "t", wr.Window.time(count)) for name in tables]
    query = wr.Query(streams=streams, on="k", memory=f"{budget} B", policy=policy)
    engine, most = wr.Engine(query, {name: table.schema for name, table in tables.items()}), 0
    step = push if push > 1_000 else max(push, count // 400)  # at most 400 pushes
    for start in range(0, count, step):
        engine.push({name: table.slice(start, step) for name, table in tables.items()})
        most = max(most, engine.allocated_bytes)
    assert engine.metrics.shed > 0, "the budget was never full"
    return most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=64, help="the largest budget, in MB")
    largest = parser.parse_args().largest
    budgets = [budget for budget in BUDGETS if budget <= largest * 1024 * KB]
    print("policy".ljust(14), *(f"{budget // KB:,} kB".rjust(19) for budget in budgets))
    found = []
    for policy in sorted((policy.name for policy in wr.policies.ALL), key=lambda name: name != "auto"):
        shares = []
        for budget in budgets:
            for push in PUSHES:
                size = most_allocated(policy, budget, push)
                assert size <= budget + budget // 4 + 16 * KB, (policy, budget, push, size)
                shares.append(size / budget)
                found.append({"policy": policy, "budget": budget, "push": push, "share": round(size / budget, 3)})
        print(policy.ljust(14), *(f"{share:9.2f}" for share in shares), flush=True)
    save("bench_budget", {"allocated": found})


if __name__ == "__main__":
    main()
