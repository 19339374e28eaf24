"""The offline optimum: against the literal graph of the paper on small streams, at the paper's size, and bracketed.

literal   one node per row and step of its life, as the paper draws it (its figure 3): O(w N) nodes
compact   what `windrow.optimum` builds: one node per step and per arrival of a partner

Both are solved by the same min-cost flow of ortools, and must agree. With `--data DIR` the bracket is run on two real
streams of about a million rows, read from that folder.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import Contestant, note, race, save, show
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

import windrow as wr
from windrow.lab.generators import zipf_pair

SHARES = (0.1, 0.25, 0.5, 1.0, 1.5)  # of the window
ROWS = 5_600
WINDOWS = (400, 800)
LITERAL_WINDOW = 50
GOAL_GAP, GOAL_SECONDS = 0.01, 600.0


def literal(left: np.ndarray, right: np.ndarray, window: int, memory: int, shared: bool) -> int:
    """The optimum by the paper's own graph: a node says that a row is in memory at a step."""
    rows = len(left)
    step = np.minimum(np.arange(window)[None, :] + np.arange(rows)[:, None], rows)  # [row, age]: the step; rows: ended
    node = np.arange(rows * window).reshape(rows, window)
    sides, per_side = (left, right), rows * window
    source, sink = 2 * per_side, 2 * per_side + 1
    tails, heads, gains = [], [], []

    def arcs(tail: np.ndarray, head: np.ndarray, gain: np.ndarray | int = 0) -> None:
        tails.append(np.broadcast_to(tail, head.shape).ravel())
        heads.append(head.ravel())
        gains.append(np.broadcast_to(np.asarray(gain), head.shape).ravel())

    for s, keys in enumerate(sides):
        mine, there = node + s * per_side, step < rows
        stays = there[:, :-1] & there[:, 1:]
        matched = keys[:, None] == sides[1 - s][np.minimum(step[:, 1:], rows - 1)]
        arcs(mine[:, :-1][stays], mine[:, 1:][stays], matched[stays].astype(np.int64))
        leaves = there.copy()
        leaves[:, 0] = False
        for other in (0, 1) if shared else (s,):  # replaced by a row that comes at this step
            arcs(mine[leaves], node[step[leaves], 0] + other * per_side)
        last = step == rows - 1
        arcs(mine[last], np.full(int(last.sum()), sink))
    firsts = [node[i, 0] + s * per_side for i in range(rows) for s in (0, 1)][:memory]
    arcs(np.full(len(firsts), source), np.array(firsts))
    flow = SimpleMinCostFlow()
    tail, head, gain = (np.concatenate(a) for a in (tails, heads, gains))
    flow.add_arcs_with_capacity_and_unit_cost(
        tail.astype(np.int32), head.astype(np.int32), np.ones(len(tail), np.int64), -gain
    )
    flow.set_node_supply(source, memory)
    flow.set_node_supply(sink, -memory)
    assert flow.solve() == flow.OPTIMAL
    return -flow.optimal_cost() + int((left == right).sum())


def streams(rows: int, window: int) -> dict[str, Any]:
    left, right = zipf_pair(rows=rows, keys=50, seed=7)
    return {"left": left, "right": right, "on": "k", "time": "t", "within": window}


def call(work: Callable[[], Any]) -> Callable[[Any], Any]:
    return lambda _: work()


def memory_of(rows: int, shared: bool) -> wr.Memory:
    return wr.Memory(rows) if shared else wr.Memory(rows, split=True)


def against_the_paper(rounds: int, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    found = []
    for rows in sizes:
        for shared in (False, True):
            arguments = streams(rows, LITERAL_WINDOW)
            keys = [arguments[side]["k"].to_numpy() for side in ("left", "right")]
            memory = memory_of(LITERAL_WINDOW, shared)
            paper = partial(literal, *keys, LITERAL_WINDOW, LITERAL_WINDOW, shared)
            ours = partial(wr.optimum, **arguments, memory=memory, method="exact")
            lines = race({"literal": Contestant(call(paper)), "compact": Contestant(call(ours))}, rounds)
            lines["compact"].result = int(lines["compact"].result.value)
            assert lines["literal"].result == lines["compact"].result, {n: t.result for n, t in lines.items()}
            seconds = {name: timing.median for name, timing in lines.items()}
            found.append({"rows": rows, "shared": shared, "value": lines["compact"].result, **seconds})
    show(
        f"optimum of streams with a window of {LITERAL_WINDOW} and as many places, equal values",
        ("rows", "memory", "matches", "literal s", "compact s", "times faster"),
        [
            (f["rows"], "shared" if f["shared"] else "split", f["value"], f["literal"], f["compact"],
             f["literal"] / f["compact"])
            for f in found
        ],
    )  # fmt: skip
    return found


def at_the_papers_size() -> list[dict[str, Any]]:
    found = []
    for window in WINDOWS:
        arguments = streams(ROWS, window)
        for share in SHARES:
            for shared in (False, True):
                rows = int(share * window)
                note(f"  window {window}, {rows} rows")
                start = time.perf_counter()
                best = wr.optimum(**arguments, memory=memory_of(rows, shared), warm_up=2 * window, method="exact")
                seconds = time.perf_counter() - start
                assert best.gap == 0
                found.append(
                    {"window": window, "share": share, "shared": shared, "seconds": seconds, "value": best.value,
                     "exact": best.exact}
                )  # fmt: skip
    note("")
    show(
        f"{ROWS:,} rows a stream",
        ("window", "memory / window", "pools", "seconds", "of exact"),
        [
            (f["window"], f["share"], "one" if f["shared"] else "two", f["seconds"], f["value"] / f["exact"])
            for f in found
        ],
    )  # fmt: skip
    return found


def halves(table: pa.Table, key: str, time_column: str) -> tuple[pa.Table, pa.Table]:
    """The earlier and the later half of a table as two streams, one row each per step."""
    ordered = table.select([key, time_column]).sort_by(time_column).drop_null()
    half = ordered.num_rows // 2
    return tuple(pa.table({"k": ordered[key].slice(s * half, half), "t": np.arange(half)}) for s in (0, 1))


REAL = {"us_flights_3m": ("origin", "ts"), "online_retail": ("stock_code", "ts")}


def on_real_streams(folder: Path, window: int) -> list[dict[str, Any]]:
    found = []
    for name, (key, when) in REAL.items():
        table = pa.concat_tables(pq.read_table(p) for p in sorted((folder / name).glob("*.parquet")))
        columns = {c.lower(): c for c in table.column_names}
        left, right = halves(table, columns[key.lower()], columns[when.lower()])
        for share in (0.5, 1.0):
            note(f"  {name}, {share} window")
            start = time.perf_counter()
            best = wr.optimum(
                left, right, on="k", time="t", within=window, memory=wr.Memory(int(share * window)), method="bracket"
            )
            seconds = time.perf_counter() - start
            found.append(
                {"stream": name, "rows": 2 * left.num_rows, "share": share, "seconds": seconds, "gap": best.gap,
                 "value": best.value, "bound": best.bound, "exact": best.exact}
            )  # fmt: skip
    note("")
    show(
        f"brackets, window {window:,} rows (goal: {GOAL_GAP:.0%} in {GOAL_SECONDS:.0f} s)",
        ("stream", "rows", "memory / window", "seconds", "gap", "at least", "at most", "exact"),
        [
            (f["stream"], f["rows"], f["share"], f["seconds"], f"{f['gap']:.3%}", f["value"], f["bound"], f["exact"])
            for f in found
        ],
    )  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="*", default=[200, 400, 800], help="rows of the literal graph")
    parser.add_argument("--data", type=Path, help="a folder with us_flights_3m and online_retail")
    parser.add_argument("--window", type=int, default=5_000, help="of the real streams")
    args = parser.parse_args()
    figures: dict[str, Any] = {
        "literal": against_the_paper(args.rounds, tuple(args.sizes)), "paper": at_the_papers_size()
    }  # fmt: skip
    if args.data is not None:
        figures["real"] = on_real_streams(args.data, args.window)
    save("optimum", figures)


if __name__ == "__main__":
    main()
