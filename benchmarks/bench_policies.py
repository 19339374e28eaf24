"""Count-only arrivals per second and core: every policy and statistic against a bare counting loop.

engine   push of Arrow batches: preparing (coding, ordering, packing) and the kernel
kernel   Shard.advance on records packed beforehand
floor    floor.py on the same codes: hash lookup, append, expire
"""

import argparse
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from floor import count_matches
from harness import Contestant, Timing, check_counters, core, race, save, show

import windrow as wr
from windrow import policies, statistics
from windrow.engine.prepare import Packed, rows_of, tables
from windrow.kernels import layout as at
from windrow.lab.generators import zipf_pair
from windrow.policies import Policy
from windrow.spec import pair_query
from windrow.state.shard import Shard

TARGET = 10.0  # million arrivals per second and core
SHARE = 0.2  # of what the exact join holds
SLICE = 1 << 16  # rows of each stream in a push

# every policy with its defaults, and the default policy with every other statistic
POLICIES: dict[str, Policy] = {
    **{policy.name: policy() for policy in policies.ALL},
    **{f"prob, {s.name}": policies.Prob(s()) for s in statistics.ALL if s is not type(policies.Prob().statistics)},
}


@dataclass(frozen=True)
class Setting:
    """Two streams with one row each per step, a window of some steps, and Zipf(1) keys."""

    name: str
    steps: int
    window: int
    keys: int


SETTINGS = (
    Setting("papers: window 1,000 rows a stream, 50 keys", 250_000, 1_000, 50),
    Setting("large: window 100,000 rows a stream, 100,000 keys", 400_000, 100_000, 100_000),
)


@dataclass
class Case:
    """A query with its input in the two forms that are timed."""

    query: wr.Query
    oracle: dict[str, pa.Table] | None
    batches: list[dict[str, pa.Table]]

    def engine(self) -> wr.Engine:
        """A fresh engine."""
        schemas = {name: table.schema for name, table in self.batches[0].items()}
        return wr.Engine(self.query, schemas, count_only=True, recall=False, oracle=self.oracle)

    def shard(self) -> Shard:
        """A fresh shard of such an engine."""
        return self.engine().bound()[1]

    def records(self) -> list[np.ndarray]:
        """The input as the records that kernels take; the same for every policy."""
        binding = self.engine().bound()[0]
        found = []
        for batch in self.batches:
            rows = [rows_of(binding, s, t) for s, t in enumerate(tables(binding, batch))]
            found += [records for _, records in Packed(binding, rows, [0, 0]).pieces(len)]
        return found


def push_all(batches: list[dict[str, pa.Table]], engine: wr.Engine) -> wr.Metrics:
    for batch in batches:
        engine.push(batch)
    return engine.metrics


def advance_all(pieces: list[np.ndarray], shard: Shard) -> int:
    for records in pieces:
        for _ in shard.advance(records):
            pass
    return shard.matched


def cases(setting: Setting, rows: dict[str, pa.Table]) -> dict[str, Case]:
    exact = pair_query("k", "t", setting.window)
    batches = [{side: t.slice(k, SLICE) for side, t in rows.items()} for k in range(0, setting.steps, SLICE)]
    found = {"exact": Case(exact, None, batches)}
    limit = int(SHARE * 2 * setting.window)
    for kind, split in (("shared", None), ("split", True)):
        for name, policy in POLICIES.items():
            query = exact.with_(memory=wr.Memory(limit, split=split), policy=policy)
            found[f"{name}, {kind}"] = Case(query, rows if "oracle" in name else None, batches)
    return found


def run_floor(setting: Setting, pieces: list[np.ndarray]) -> Contestant:
    """The counting loop on the same codes in the same order."""
    words = at.R_CODES + 1
    columns = [np.concatenate([p[k::words] for p in pieces]) for k in (at.R_STREAM, at.R_TIME, at.R_CODES)]
    ring = 1 << (setting.window + 1).bit_length()
    table = 1 << (2 * setting.keys).bit_length()
    return Contestant(lambda _: count_matches(*columns, setting.window, table, ring))


def check(setting: Setting, timings: dict[str, Timing], found: dict[str, Case]) -> None:
    """The same matches from engine, kernel and floor; no policy beyond the exact join or its memory."""
    exact = timings["floor"].result
    assert timings["engine: exact"].result.matched == exact > 0
    for name, case in found.items():
        metrics = timings[f"engine: {name}"].result
        check_counters(metrics)
        assert metrics.arrived == 2 * setting.steps
        assert metrics.matched == timings[f"kernel: {name}"].result, f"{name}: engine and kernel differ"
        if case.query.memory is not None:
            assert case.query.memory.rows is not None
            assert metrics.peak_rows <= case.query.memory.rows and 0 < metrics.matched < exact
            assert metrics.shed > 0


def measure(setting: Setting, rounds: int, only: str) -> list[dict[str, Any]]:
    rows = dict(zip(("left", "right"), zipf_pair(setting.steps, setting.keys, seed=1), strict=True))
    found = {name: case for name, case in cases(setting, rows).items() if name == "exact" or only in name}
    pieces = found["exact"].records()
    contestants = {"floor": run_floor(setting, pieces)}
    for name, case in found.items():
        contestants[f"engine: {name}"] = Contestant(partial(push_all, case.batches), case.engine)
        contestants[f"kernel: {name}"] = Contestant(partial(advance_all, pieces), case.shard)
    timings = race(contestants, rounds, core)
    check(setting, timings, found)
    millions, floor = 2 * setting.steps / 1e6, timings["floor"]
    lines = [_line(name, timings, millions) for name in found]
    show(
        f"{setting.name}; memory {SHARE:.0%}; {2 * setting.steps:,} arrivals; floor {millions / floor.median:.1f} M/s",
        ("policy", "engine M/s", "of floor", "kernel M/s", "of floor", "noise", "recall", "10 M/s"),
        [
            (i["policy"], i["engine"], i["engine_of_floor"], i["kernel"], i["kernel_of_floor"], f"{i['noise']:.0%}",
             i["matched"] / floor.result, "yes" if i["engine"] >= TARGET else "no")
            for i in lines
        ],
    )  # fmt: skip
    first = max(timings, key=lambda name: timings[name].first)
    print(f"  compiling or loading kernels: {timings[first].first - timings[first].median:.1f} s, once ({first})")
    return [{"setting": setting.name, "floor": millions / floor.median, **line} for line in lines]


def _line(name: str, timings: dict[str, Timing], millions: float) -> dict[str, Any]:
    engine, kernel, floor = (timings[n] for n in (f"engine: {name}", f"kernel: {name}", "floor"))
    return {
        "policy": name,
        "engine": millions / engine.median,
        "engine_of_floor": floor.median / engine.median,
        "kernel": millions / kernel.median,
        "kernel_of_floor": floor.median / kernel.median,
        "noise": max(engine.spread, kernel.spread),
        "matched": engine.result.matched,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="policies whose name holds this text")
    args = parser.parse_args()
    lines = [line for setting in SETTINGS for line in measure(setting, args.rounds, args.only)]
    slowest = min(lines, key=lambda line: line["engine"])
    print(
        f"\nslowest: {slowest['policy']} in {slowest['setting']!r}: {slowest['engine']:.1f} M/s (target {TARGET:.0f})"
    )
    save("policies", {"target": TARGET, "lines": lines})


if __name__ == "__main__":
    main()
