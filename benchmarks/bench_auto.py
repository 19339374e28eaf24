"""Matches of the policy auto against the best fixed policy that sees only the past, on streams it was not tuned on.

Streams of few keys, where a handful of them has most rows, and of many; steady, drifting, ranked anew, in bursts; and
of keys that come once, or all but, with partners some parts of a window apart. Each has one row per stream and step and
a window of WINDOW steps, or in time if rows come in bursts. For every stream and memory: the ratio of auto's matches to
those of the best fixed policy, which is only known afterwards, and how long auto took beside PROB, in core seconds.
With --data the pairs of real streams of the lab's experiment, in a longer window.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from harness import check_counters, core, note, save, show

import windrow as wr
from windrow.lab.data import steps
from windrow.lab.generators import START, bursty_pair, locality_pair, zipf_pair
from windrow.lab.real_pairs import GENERATED, by_rows
from windrow.policies import Age, Auto, Fifo, GreedyDual, Life, Policy, Prob, Rand
from windrow.state.auto.trials import FORKS
from windrow.statistics import Decayed

WINDOW, BATCH = 20_000, 20_000
FEW, MANY, ONCE = "few", "many", "once"
Pair = tuple[pa.Table, pa.Table]

FIXED: dict[str, Policy] = {
    "RAND": Rand(), "FIFO": Fifo(), "PROB": Prob(), "LIFE": Life(), "AGE": Age(), "GDJ tuned": GreedyDual("tuned"),
    "PROB 300": Prob(Decayed(300)), "PROB 2000": Prob(Decayed(2_000)), "LIFE 2000": Life(Decayed(2_000)),
}  # fmt: skip


def _zipf(keys: int, skew: float) -> np.ndarray:
    chance = np.arange(1, keys + 1) ** -skew
    return chance / chance.sum()


def drifting(rows: int, keys: int, skew: float, period: int, seed: int) -> Pair:
    """Zipf popularity that moves on by one key every some steps."""
    rng = np.random.default_rng(seed)
    name = rng.permutation(keys)
    moved = np.arange(rows) // period
    left, right = (steps(name[(rng.choice(keys, rows, p=_zipf(keys, skew)) + moved) % keys]) for _ in "lr")
    return left, right


def ranked_anew(rows: int, keys: int, skew: float, period: int, lag: int, seed: int) -> Pair:
    """Zipf popularity that is ranked anew every some steps; on the right stream some steps later."""
    rng = np.random.default_rng(seed)
    ranks = np.array([rng.permutation(keys) for _ in range(rows // period + 1)])
    spell = [np.maximum(np.arange(rows) - behind, 0) // period for behind in (0, lag)]
    left, right = (steps(ranks[s, rng.choice(keys, rows, p=_zipf(keys, skew))]) for s in spell)
    return left, right


def in_bursts(rows: int, keys: int, skew: float, seed: int) -> Pair:
    """Clicks and orders with rush hours, in seconds; as many of them as rows."""
    found = []
    for table in bursty_pair(rows, keys, skew, seconds=float(rows), seed=seed):
        seconds = (table["ts"].to_numpy() - START) // np.timedelta64(1, "s")
        found.append(pa.table({"t": seconds.astype(np.int64), "k": table["user_id"]}))
    return found[0], found[1]


def _in_order(rows: int, time: np.ndarray, key: np.ndarray) -> pa.Table:
    """Rows by time, those inside of the streams."""
    inside = np.flatnonzero((time >= 0) & (time < rows))
    inside = inside[np.argsort(time[inside], kind="stable")]
    return pa.table({"t": time[inside].astype(np.int64), "k": key[inside].astype(np.int64)})


def paired(
    rows: int, early: float, late: float, seed: int, most: int = 1, either: bool = False, share: float = 1.0,
    popular: int = 0,
) -> Pair:  # fmt: skip
    """Keys of one row on the left, of which a share has up to so many on the right: some parts of a window later, or
    earlier where either may be first. And so many rows of 50 popular keys."""
    rng = np.random.default_rng(seed)
    time = np.sort(rng.integers(0, rows, rows))
    keys = np.repeat(np.arange(rows), rng.integers(1, most + 1, rows) * (rng.random(rows) < share))
    apart = rng.uniform(early, late, len(keys)) * WINDOW
    other = time[keys] + (np.where(rng.random(len(keys)) < 0.5, -apart, apart) if either else apart)
    noise = [(rng.integers(0, rows, popular), -1 - rng.choice(50, popular, p=_zipf(50, 1.0))) for _ in "lr"]
    sides = zip(((time, np.arange(rows)), (other, keys)), noise, strict=True)
    left, right = (_in_order(rows, np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])) for a, b in sides)
    return left, right


def referring(rows: int, early: float, late: float, skew: float, seed: int) -> Pair:
    """Ten rows on the right for one on the left, some parts of a window later (earlier if below 0)."""
    rng = np.random.default_rng(seed)
    time, chance = rng.integers(-WINDOW, rows + WINDOW, rows // 10), rng.permutation(_zipf(rows // 10, skew))
    keys = rng.choice(rows // 10, rows, p=chance)
    other = time[keys] + rng.uniform(early, late, rows) * WINDOW
    return _in_order(rows, time, np.arange(rows // 10)), _in_order(rows, other, keys)


STREAMS: dict[str, tuple[str, Callable[[int, int], Pair]]] = {
    "Zipf(1), 20 keys": (FEW, lambda n, s: zipf_pair(n, 20, seed=s)),
    "Zipf(1), 100 keys, alike": (FEW, lambda n, s: zipf_pair(n, 100, correlation="correlated", seed=s)),
    "uniform, 50 keys": (FEW, lambda n, s: zipf_pair(n, 50, 0.0, 0.0, seed=s)),
    "clusters, 10 keys": (FEW, lambda n, s: locality_pair(n, 10, 0.5, 1.2, seed=s)),
    "clusters, 30 keys": (FEW, lambda n, s: locality_pair(n, 30, seed=s)),
    "clusters, 100 keys, dense": (FEW, lambda n, s: locality_pair(n, 100, 1.0, 0.5, seed=s)),
    "clusters, 200 keys, unlike": (FEW, lambda n, s: locality_pair(n, 200, correlation="uncorrelated", seed=s)),
    "drifting slowly, 50 keys": (FEW, lambda n, s: drifting(n, 50, 1.0, 10_000, s)),
    "drifting fast, 50 keys": (FEW, lambda n, s: drifting(n, 50, 1.0, 500, s)),
    "ranked anew, 100 keys": (FEW, lambda n, s: ranked_anew(n, 100, 1.0, 15_000, 0, s)),
    "ranked anew with a lag, 40 keys": (FEW, lambda n, s: ranked_anew(n, 40, 1.2, 8_000, 6_000, s)),
    "bursts, 20 keys": (FEW, lambda n, s: in_bursts(n, 20, 0.5, s)),
    "bursts, 100 keys": (FEW, lambda n, s: in_bursts(n, 100, 1.0, s)),
    "clusters, 5,000 keys": (MANY, lambda n, s: locality_pair(n, 5_000, seed=s)),
    "clusters, 20,000 keys": (MANY, lambda n, s: locality_pair(n, 20_000, 1.0, 0.5, seed=s)),
    "drifting, 20,000 keys": (MANY, lambda n, s: drifting(n, 20_000, 1.0, 5, s)),
    "ranked anew, 30,000 keys": (MANY, lambda n, s: ranked_anew(n, 30_000, 1.0, 15_000, 0, s)),
    "bursts, 20,000 keys": (MANY, lambda n, s: in_bursts(n, 20_000, 0.6, s)),
    "Zipf(0.8), 20,000 keys, alike": (MANY, lambda n, s: zipf_pair(n, 20_000, 0.8, 0.8, "correlated", seed=s)),
    "Zipf(1), 100,000 keys": (MANY, lambda n, s: zipf_pair(n, 100_000, seed=s)),
    "one to one, late": (ONCE, lambda n, s: paired(n, 0.125, 1.0, s)),
    "one to one, any time": (ONCE, lambda n, s: paired(n, 0.0, 1.0, s)),
    "one to one, at once": (ONCE, lambda n, s: paired(n, 0.0, 0.02, s)),
    "one to one, after a while": (ONCE, lambda n, s: paired(n, 0.4, 0.5, s)),
    "one to one, either first": (ONCE, lambda n, s: paired(n, 0.05, 0.9, s, either=True)),
    "one to one, a tenth has one": (ONCE, lambda n, s: paired(n, 0.1, 1.0, s, share=0.1)),
    "one to three": (ONCE, lambda n, s: paired(n, 0.0, 1.0, s, most=3)),
    "one to three, either first": (ONCE, lambda n, s: paired(n, 0.0, 1.0, s, most=3, either=True)),
    "one to one, and popular keys": (ONCE, lambda n, s: paired(n, 0.125, 1.0, s, popular=n // 20)),
    "many to one, the one first": (ONCE, lambda n, s: referring(n, 0.0, 1.0, 0.0, s)),
    "many to one, the one first, skewed": (ONCE, lambda n, s: referring(n, 0.0, 1.0, 0.8, s)),
    "many to one, the one last": (ONCE, lambda n, s: referring(n, -1.0, 0.0, 0.0, s)),
    "many to one, anywhere": (ONCE, lambda n, s: referring(n, -0.9, 0.9, 0.0, s)),
}  # fmt: skip


def streams(args: argparse.Namespace) -> Iterator[tuple[str, str, int, Pair]]:
    """Kind, name, seed and rows of all streams that are asked for."""
    for seed in args.seeds:
        for name, (kind, make) in STREAMS.items():
            if args.only in f"{kind}: {name}":
                yield kind, name, seed, make(args.rows, seed)
    if args.data is not None:
        for name, found in by_rows(args.data).items():
            if name != GENERATED and args.only in f"real: {name}":
                yield "real", name, 0, (found.left.slice(0, args.rows), found.right.slice(0, args.rows))


def run(pair: Pair, window: int, memory: Any, policy: Policy) -> tuple[wr.Engine, float]:
    """An engine that has counted the matches of a pair, and the core seconds that it took."""
    query = wr.Query(streams=[wr.Stream("left", "t", window), wr.Stream("right", "t", window)], on="k")
    query = query.with_(memory=memory, policy=policy) if memory is not None else query
    engine, started = wr.Engine(query, count_only=True, recall=False), core()
    last = max(int(table["t"][-1].as_py()) for table in pair)
    ends = np.arange(0, last + 1 + BATCH, BATCH)
    cuts = [np.searchsorted(table["t"].to_numpy(), ends) for table in pair]
    for k in range(len(ends) - 1):
        batch = {n: t.slice(c[k], c[k + 1] - c[k]) for n, t, c in zip(("left", "right"), pair, cuts, strict=True)}
        engine.push(batch)
        shard = engine.bound()[1]
        forks = shard.allocated_bytes - shard.words.nbytes
        assert memory is None or forks <= shard.plan.fork_bytes * FORKS, f"forks take {forks:,} bytes"
    return engine, core() - started


def measure(kind: str, pair: Pair, window: int, memory: int | str) -> dict[str, Any]:
    """Recall of auto and of every fixed policy."""
    exact = run(pair, window, None, Prob())[0].metrics.matched
    found, seconds = {}, {}
    for name, policy in {"auto": Auto(), **FIXED}.items():
        engine, seconds[name] = run(pair, window, memory, policy)
        check_counters(engine.metrics)
        least = 0 if kind == ONCE and name != "auto" else 1  # where keys come once, counts may find nothing
        assert least <= engine.metrics.matched <= exact, name
        found[name] = engine.metrics.matched / exact
    best = max(FIXED, key=lambda name: found[name])
    return {
        "best": best, "ratio": found["auto"] / found[best], "recall": found, "exact": exact,
        "time": seconds["auto"] / seconds["PROB"],
    }  # fmt: skip


def _cells(line: dict[str, Any]) -> list[str]:
    """What a table says of recall."""
    recall, best = line["recall"], line["best"]
    numbers = [f"{n:.3f}" for n in (line["ratio"], recall["auto"], recall[best])]
    return [*numbers, best, *(f"{recall[n]:.3f}" for n in ("RAND", "PROB", "GDJ tuned"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="of each stream")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--memory", nargs="+", default=["10000"], help="rows, or bytes such as '2 MB'")
    parser.add_argument("--window", type=int, default=WINDOW)
    parser.add_argument("--only", default="", help="streams whose kind and name hold this text")
    parser.add_argument("--data", type=Path, help="a directory with real data")
    parser.add_argument("--save", default="auto", help="name of the file of results")
    args = parser.parse_args()
    run(zipf_pair(1_000, 20), 100, 50, Auto())  # compile
    lines = []
    for kind, name, seed, pair in streams(args):
        for memory in args.memory:
            note(f"  {name}, seed {seed}, memory {memory}")
            line = measure(kind, pair, args.window, int(memory) if memory.isdigit() else memory)
            lines.append({"kind": kind, "streams": name, "seed": seed, "memory": memory, **line})
    show(
        f"auto over the best fixed policy; {args.rows:,} rows a stream, window {args.window:,}",
        ("streams", "seed", "memory", "auto/best", "auto", "best", "", "RAND", "PROB", "GDJ", "time/PROB"),
        [(i["streams"], i["seed"], i["memory"], *_cells(i), i["time"]) for i in lines],
    )
    for kind in sorted({i["kind"] for i in lines}):
        ratios = [i["ratio"] for i in lines if i["kind"] == kind]
        print(f"  {kind}: mean {np.mean(ratios):.3f}, least {min(ratios):.3f}, most {max(ratios):.3f} of {len(ratios)}")
    save(args.save, {"lines": lines})


if __name__ == "__main__":
    main()
