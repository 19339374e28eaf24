"""Releasing by constraints against the same join without them (SWJ): memory held, and time, in one run.

    unique   requests and responses, one partner each, 95 % of them within a second; windows of one hour
    kinds    RIDS, CA, OAP and OAC as in the k-constraints paper, at several k
    ways     three and four streams without a common key: the rate of SWJ itself, and of many-one joins
    broken   unique keys of which a share comes twice: what is lost, or what it costs to find released rows on disk
    long     ten million rows in windows without end, where constraints bound memory (--long)

Time is that of one core, with matches given out; memory is what the engine charges. Every line has SWJ's answer.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from harness import Contestant, check_counters, core, race, save, show

import windrow as wr
from windrow.lab.constrained import Edge
from windrow.lab.experiments import kmon_ca, kmon_oac, kmon_oap, kmon_rids
from windrow.lab.kmon_joins import Constraints, Held, Join, star
from windrow.lab.traffic import unique_pair

WINDOW, ROWS = 50_000, 600_000
KINDS = {"RIDS": kmon_rids.SERIES, "CA": kmon_ca.SERIES, "OAP": kmon_oap.SERIES, "OAC": kmon_oac.SERIES}
LIMITS = {"RIDS": 1.64, "CA": 1.25, "OAP": 1.25, "OAC": 1.25}  # targets: times SWJ's time
STEPS = (0, 1_000, 5_000, 10_000, 20_000)
BROKEN = (0.0, 0.001, 0.01)
UNIQUE_SHARE = 0.06  # target: at most this share of SWJ's bytes
RATE = 1e6  # target: rows per second and core
FLAT = 1.5  # target: the most that is held in the last half over the most in the first


def run(join: Join, constraints: Constraints, _: Any = None) -> Held:
    return join.held(constraints)


def against_swj(join: Join, lines: dict[str, Constraints], rounds: int) -> dict[str, dict[str, float]]:
    """Time per row, and bytes and rows held, of each line; SWJ is one of them."""
    timings = race({name: Contestant(partial(run, join, line)) for name, line in lines.items()}, rounds, core)
    found = {}
    base = timings["SWJ"].result
    for name, timing in timings.items():
        check_counters(timing.result.metrics)
        assert timing.result.metrics.matched == base.metrics.matched, f"{name} gives other matches than SWJ"
        size, rows = timing.result.steady
        taken = timing.result.moments[-1][0]
        found[name] = {
            "us_per_row": 1e6 * timing.median / taken, "noise": timing.spread, "bytes": size, "rows": rows,
            "peak_bytes": timing.result.metrics.peak_bytes, "matched": timing.result.metrics.matched,
            "time": timing.median / timings["SWJ"].median, "memory": size / base.steady[0],
        }  # fmt: skip
    return found


def print_lines(title: str, found: dict[str, dict[str, float]]) -> None:
    show(
        title,
        ("line", "us a row", "M rows/s", "x SWJ time", "noise", "bytes held", "of SWJ's", "peak bytes"),
        [
            (n, f["us_per_row"], 1 / f["us_per_row"], f["time"], f"{f['noise']:.0%}", int(f["bytes"]),
             f"{f['memory']:.2%}", int(f["peak_bytes"]))
            for n, f in found.items()
        ],
    )  # fmt: skip


def unique(rounds: int) -> dict[str, Any]:
    left, right = unique_pair(1_000_000, seconds=7_200)
    streams = [wr.Stream(name, "ts", "1 hour") for name in ("requests", "responses")]
    join = Join(wr.Query(streams=streams, on="id"), {"requests": left, "responses": right})
    both = (wr.Unique("requests", "id"), wr.Unique("responses", "id"))
    lines: dict[str, Constraints] = {
        "SWJ": (), "unique": both, "unique, within 2 s": (*both, wr.Integrity("requests", "responses", "2 s"))
    }  # fmt: skip
    found = against_swj(join, lines, rounds)
    print_lines(f"unique on both sides, one hour, partner within a second for 95 % (median of {rounds})", found)
    print(f"  target: at most {UNIQUE_SHARE:.0%} of SWJ's bytes, less than its time")
    return {"target": UNIQUE_SHARE, **found}


def kinds(rounds: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind, series in KINDS.items():
        for k in STEPS:
            join = series.join(k, 0, ROWS, WINDOW)
            one = against_swj(join, {"SWJ": (), kind: series.constraints(k)}, rounds)
            found[f"{kind}({k:,})"] = one[kind] | {"swj_us_per_row": one["SWJ"]["us_per_row"], "target": LIMITS[kind]}
    print_lines(f"windows of {WINDOW:,} rows, {ROWS:,} rows (median of {rounds})", found)
    print("  targets: " + ", ".join(f"{kind} {limit} times SWJ's time" for kind, limit in LIMITS.items()))
    return found


def ways(rounds: int) -> dict[str, Any]:
    """S1 with two and three children, each on a key of its own."""
    found = {}
    for children in (2, 3):
        join = star([Edge(distance=100)] * children, 0, ROWS, WINDOW)
        names = [f"S{k + 2}" for k in range(children)]
        unique = tuple(wr.Unique(name, "ABC"[k]) for k, name in enumerate(names))
        rids = (*unique, *(wr.Integrity("S1", name, 100) for name in names))
        one = against_swj(join, {"SWJ": (), "many-one": unique, "RIDS(100)": rids}, rounds)
        print_lines(f"{children + 1} streams without a common key (median of {rounds})", one)
        found[f"{children + 1} streams"] = one
    print(f"  target: at least {RATE / 1e6:g} M rows/s")
    return found


def broken(rounds: int) -> dict[str, Any]:
    """Responses of which a share comes a second time, one to sixty seconds later, although they are declared unique."""
    found: dict[str, Any] = {}
    for share in BROKEN:
        left, right = unique_pair(500_000, seconds=7_200)
        rng = np.random.Generator(np.random.PCG64(7))
        twice = right.take(pa.array(np.flatnonzero(rng.random(right.num_rows) < share)))
        late = twice["ts"].to_numpy() + rng.integers(1_000_000, 60_000_000, twice.num_rows).astype("timedelta64[us]")
        right = pa.concat_tables([right, twice.set_column(0, right.schema.field("ts"), pa.array(late))]).sort_by("ts")
        streams = [wr.Stream(name, "ts", "1 hour") for name in ("requests", "responses")]
        both = (wr.Unique("requests", "id"), wr.Unique("responses", "id"))
        query, tables = wr.Query(streams=streams, on="id"), {"requests": left, "responses": right}
        lines = {
            "SWJ": Join(query, tables),
            "lose": Join(query.with_(constraints=both), tables),
            "demote": Join(query.with_(constraints=both, on_violation="demote"), tables),
        }
        races = {name: Contestant(partial(run, join, () if name == "SWJ" else both)) for name, join in lines.items()}
        timings = race(races, rounds, core)
        base = timings["SWJ"]
        for name, timing in timings.items():
            check_counters(timing.result.metrics)
            metrics = timing.result.metrics
            found[f"{name}, {share:.1%} twice"] = {
                "time": timing.median / base.median, "memory": timing.result.steady[0] / base.result.steady[0],
                "us_per_row": 1e6 * timing.median / timing.result.moments[-1][0],
                "missing": base.result.metrics.matched - metrics.matched,
                "found": sum(line.found for line in metrics.demoted.values()),
                "disk": sum(line.disk_bytes for line in metrics.demoted.values()),
            }  # fmt: skip
        assert timings["demote"].result.metrics.matched == base.result.metrics.matched
    show(
        f"unique on both sides, one hour, and a share of the responses twice (median of {rounds})",
        ("line", "us a row", "x SWJ time", "of SWJ's bytes", "missing", "came back", "disk"),
        [
            (n, f["us_per_row"], f["time"], f"{f['memory']:.2%}", f["missing"], f["found"], f["disk"])
            for n, f in found.items()
        ],
    )
    return found


def long(rounds: int) -> dict[str, Any]:
    """Ten million rows without windows: the most held in the first and in the last half of a run."""
    found = {}
    cases: dict[str, tuple[Join, Constraints]] = {
        "RIDS(1,000) and CA(1,000)": _endless(), "OAP(1,000)": _series(kmon_oap.SERIES),
        "CA(1,000)": _series(kmon_ca.SERIES),
    }  # fmt: skip
    for name, (join, constraints) in cases.items():
        one = race({name: Contestant(partial(run, join, constraints))}, 1, core)[name]
        sizes = [size for _, size, _ in one.result.moments]
        half = len(sizes) // 2
        first, last = max(sizes[half // 2 : half]), max(sizes[half:])
        taken = one.result.moments[-1][0]
        found[name] = {"rows": taken, "first": first, "last": last, "ratio": last / first, "s": one.median}
    show(
        "windows without end: the most bytes held in the second quarter, and in the last half",
        ("line", "rows", "second quarter", "last half", "ratio", "M rows/s"),
        [(n, f["rows"], f["first"], f["last"], f["ratio"], f["rows"] / f["s"] / 1e6) for n, f in found.items()],
    )
    print(f"  target: at most {FLAT:g} times")
    return found


LONG_ROWS, LONG_K = 10_000_000, 1_000


def _endless() -> tuple[Join, Constraints]:
    """Graph (c): rows wait for their child at most k of its rows, and the child for its parents' cluster."""
    join = star([Edge(distance=LONG_K, clustered=LONG_K)], 0, LONG_ROWS, None)
    return join, (wr.Unique("S2", "A"), wr.Integrity("S1", "S2", LONG_K), wr.Clustered("S1", "A", LONG_K))


def _series(series: Any) -> tuple[Join, Constraints]:
    join = series.join(LONG_K, 0, LONG_ROWS, WINDOW)
    endless = [stream.with_(window=wr.Window.unbounded()) for stream in join.query.streams]
    return Join(join.query.with_(streams=endless), join.tables, join.rows), series.constraints(LONG_K)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="parts whose name holds this text")
    parser.add_argument("--long", action="store_true", help="ten million rows in windows without end, too")
    args = parser.parse_args()
    parts: dict[str, Callable[[int], dict[str, Any]]] = {
        "unique": unique, "kinds": kinds, "ways": ways, "broken": broken
    }  # fmt: skip
    if args.long:
        parts["long"] = long
    save("release", {name: part(args.rounds) for name, part in parts.items() if args.only in name})


if __name__ == "__main__":
    main()
