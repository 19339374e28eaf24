"""Rows per second through two sites, each a process, on an unlimited link, against one engine on the same rows.

A site reads its file, notes rows in its journal, ships what can match, joins, and writes matches as files; the engine
is handed the same rows in the same intervals and writes nothing. One row in ten has a partner. The sites' time is from
the first row at either to the moment at which both are done; processes are started before, kernels are loaded in it.

Two ratios: by the clock, which needs two cores that nobody else uses, and by the seconds of a core that the busier site
took, threads and all, which is the rate of two sites that have a core each and always something to do.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from harness import note, save, show
from sites_places import Places, free_ports, one_engine, same, write_description, write_files

import windrow as wr

PLANS = {
    "SM-S1": {"a": [["b", "SM-S1"]], "b": [["a", "SM-D2"]]},
    "SM-D1": {"a": [["b", "SM-D1"]], "b": [["a", "SM-D1"]]},
    "SM-S2": {"a": [["b", "SM-S2"]], "b": [["a", "SM-D1"]]},
    "all shipped (SP-S)": {"a": [["b", "SP-S"]], "b": [["a", "SP-D"]]},
}


def tables(rows: int, seed: int) -> dict[str, pa.Table]:
    """Two streams of which one row in ten has a key that the other has, too."""
    rng, found = np.random.default_rng(seed), {}
    for k, name in enumerate("ab"):
        shared = rng.random(rows) < 0.1
        own = rng.integers(0, rows, rows) * 2 + k + 10 * rows
        keys = np.where(shared, rng.integers(0, rows // 100, rows), own)
        found[name] = pa.table({"t": np.arange(rows), "k": keys, "id": np.arange(rows), "value": rng.random(rows)})
    return found


def described(root: Path, rows: int, interval: int, sequences: Any) -> Path:
    one, other = free_ports(2)
    stream = {"time": "t", "window": rows // 10}
    return write_description(root / "sites.json", {
        "on": "k", "select": [["a.id", "a"], ["b.id", "b"], ["a.value", "x"], ["b.value", "y"]], "interval": interval,
        "streams": {n: {"site": s, "file": f"../{n}", **stream} for n, s in (("a", "A"), ("b", "B"))},
        "sites": {"A": {"address": f"127.0.0.1:{one}"}, "B": {"address": f"127.0.0.1:{other}"}},
        "plan": {"sequences": sequences},
    })  # fmt: skip


def sites_seconds(file: Path) -> tuple[float, dict[str, Any]]:
    """How long both sites were at work."""
    places = Places(file, ["A", "B"])
    for name in places.names:
        places.start(name)
    try:
        places.finish(600)
    finally:
        places.stop()
    stations = wr.sites.describe(file).stations.values()
    figures = {s.name: json.loads((s.folder / "figures.json").read_text()) for s in stations}
    began = min(f["first_row_at"] for f in figures.values())
    return max(f["done_at"] for f in figures.values()) - began, figures


def engine_seconds(query: wr.Query, streams: Mapping[str, pa.Table], interval: int) -> tuple[float, float]:
    """How long the engine was at work, by the clock and in seconds of a core."""
    rows = streams["a"].num_rows
    engine = wr.Engine(query, {name: table.schema for name, table in streams.items()})
    began, core = time.perf_counter(), time.process_time()
    for start in range(0, rows, interval):
        engine.push({name: table.slice(start, interval) for name, table in streams.items()})
    return time.perf_counter() - began, time.process_time() - core


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="of each stream")
    parser.add_argument("--interval", type=int, default=50_000, help="rows of each stream in an interval")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    lines, saved = [], {}
    with tempfile.TemporaryDirectory() as folder:
        streams = tables(args.rows, 1)
        write_files(Path(folder), streams)
        query, alone, expected = None, [], None
        for name, sequences in PLANS.items():
            taken, cores = [], []
            for k in range(args.rounds):
                note(f"  {name}, round {k + 1}")
                root = Path(folder) / f"{name.split()[0]}-{k}"
                root.mkdir()
                file = described(root, args.rows, args.interval, sequences)
                query = query or wr.sites.describe(file).query
                alone.append(engine_seconds(query, streams, args.interval))
                seconds, figures = sites_seconds(file)
                taken.append(seconds)
                cores.append(max(f["core_s"] for f in figures.values()))
            expected = one_engine(query, streams) if expected is None else expected
            if not same(wr.sites.results(file), expected):
                sys.exit(f"{name}: the sites gave other matches than the engine")
            sent = sum(link["bytes"] for f in figures.values() for link in f["links"].values())
            lines.append([name, float(np.median(taken)), float(np.median(cores)), sent / 1e6])
            saved[name] = {"seconds": taken, "bytes": sent, "core_seconds": cores}
        clock, core = (float(np.median(column)) for column in zip(*alone, strict=True))
        lines.insert(0, ["the engine alone", clock, core, 0.0])
        lines = [[name, 2 * args.rows / t, clock / t, core / c, t, c, mb] for name, t, c, mb in lines]
    header = ["", "rows/s", "by the clock", "by cores", "seconds", "core s of one", "MB shipped"]
    show("rows per second through two sites", header, lines)
    note(str(save("sites", {"rows": args.rows, "engine": alone, "plans": saved, "matches": expected.num_rows})))


if __name__ == "__main__":
    main()
