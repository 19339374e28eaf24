"""2 x 1,000,000 rows from Parquet files to an Arrow table: the exact join against DuckDB, shedding against the exact.

Both read the same files and give the same rows; DuckDB runs with all cores and, as a second line, with one, as
windrow does. Times are wall time and hold everything from opening the files to the last match.
"""

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import Contestant, Timing, check_counters, race, save, show

import windrow as wr

ROWS, KEYS, SECONDS, WINDOW = 1_000_000, 100_000, 1_000, 100
EXPECTED = ROWS * ROWS / KEYS * (2 * WINDOW * SECONDS - WINDOW**2) / SECONDS**2
DUCKDB_RATIO = 2.0  # target: at most this many times DuckDB's time
SHED_RATIO = 0.5  # target: at least this share of the exact join's rows per second
SHARE = 0.2

SQL = f"""
    select l.key, l.ts as left_ts, l.amount as left_amount, r.ts as right_ts, r.amount as right_amount
    from read_parquet('{{left}}') l join read_parquet('{{right}}') r on l.key = r.key
     and r.ts - l.ts < interval {WINDOW} second and l.ts - r.ts < interval {WINDOW} second
"""

Files = dict[str, Path]


def write_files(folder: Path, text_keys: bool) -> Files:
    """Two streams in time order: time, key, amount."""
    rng, found = np.random.default_rng(2003), {}
    for side in ("left", "right"):
        ts = np.sort(rng.integers(0, SECONDS * 1_000_000, ROWS))
        keys = pa.array(rng.integers(0, KEYS, ROWS))
        if text_keys:
            keys = pa.array([f"user-{k:06}" for k in range(KEYS)]).take(keys)
        amount = rng.integers(0, 100_000, ROWS) / 100
        table = pa.table({"ts": pa.array(ts, pa.timestamp("us")), "key": keys, "amount": amount})
        found[side] = folder / f"{side}-{'text' if text_keys else 'int'}.parquet"
        pq.write_table(table, found[side])
    return found


def with_duckdb(files: Files, threads: int | None, _: Any = None) -> pa.Table:
    config = {"threads": threads} if threads else {}
    with duckdb.connect(config=config) as connection:
        return connection.sql(SQL.format(**files)).to_arrow_table()


def with_windrow(files: Files, options: dict[str, Any], _: Any = None) -> wr.Result:
    left, right = (pq.read_table(files[side]) for side in ("left", "right"))
    return wr.join(left, right, on="key", time="ts", within=f"{WINDOW} seconds", **options)


def fingerprint(table: pa.Table) -> tuple[int, int]:
    """How many rows, and the sum of their hashes: equal for equal multisets, whatever the order."""
    sql = "select count(*), sum(hash(key, left_ts, left_amount, right_ts, right_amount)::hugeint) from matches"
    with duckdb.connect() as connection:
        connection.register("matches", table)
        ((count, total),) = connection.sql(sql).fetchall()
    return int(count), int(total)


def exact_against_duckdb(files: Files, kind: str, rounds: int) -> dict[str, Any]:
    contestants = {
        "duckdb": Contestant(partial(with_duckdb, files, None)),
        "duckdb, one thread": Contestant(partial(with_duckdb, files, 1)),
        "windrow, exact": Contestant(partial(with_windrow, files, {})),
    }
    timings = race(contestants, rounds)
    ours, theirs = timings["windrow, exact"].result.table, timings["duckdb"].result
    assert abs(theirs.num_rows / EXPECTED - 1) < 0.01, theirs.num_rows
    assert fingerprint(ours) == fingerprint(theirs), "windrow and DuckDB give different matches"
    base = timings["duckdb"].median
    show(
        f"exact, {kind} keys: 2 x {ROWS:,} rows, {theirs.num_rows:,} matches, Parquet to Arrow; median of {rounds}",
        ("contestant", "seconds", "x duckdb", "noise", "first turn"),
        [(n, t.median, t.median / base, f"{t.spread:.0%}", t.first) for n, t in timings.items()],
    )
    ratio = timings["windrow, exact"].median / base
    print(f"  windrow takes {ratio:.2f} times DuckDB's time (target: at most {DUCKDB_RATIO:g}); matches are equal")
    return {"keys": kind, "matches": theirs.num_rows, "ratio": ratio, "target": DUCKDB_RATIO, **_figures(timings, base)}


def policies_against_exact(files: Files, rounds: int, only: str) -> dict[str, Any]:
    exact = with_windrow(files, {})
    limit = int(SHARE * exact.metrics.peak_rows)
    contestants = {"exact": Contestant(partial(with_windrow, files, {}))}
    for policy in (p.name for p in wr.policies.ALL if only in p.name):
        for recall in (True, False):
            options = {"memory": limit, "policy": policy, "recall": recall}
            name = f"{policy}, recall {'on' if recall else 'off'}"
            contestants[name] = Contestant(partial(with_windrow, files, options))
    options = {"memory": f"{SHARE:.0%}", "policy": "prob"}
    contestants[f"prob, recall on, memory='{SHARE:.0%}'"] = Contestant(partial(with_windrow, files, options))
    timings = race(contestants, rounds)
    base = timings["exact"].median
    lines = []
    for name, timing in timings.items():
        metrics = timing.result.metrics
        check_counters(metrics)
        assert timing.result.table.num_rows == metrics.matched
        if name == "exact":
            assert metrics.matched == exact.metrics.matched
        else:
            assert metrics.peak_rows <= limit + 1 and metrics.matched < exact.metrics.matched and metrics.shed
        true_recall = metrics.matched / exact.metrics.matched
        if metrics.recall is not None:
            assert abs(metrics.recall - true_recall) < 0.05, (name, metrics.recall, true_recall)
        ratio = base / timing.median
        met = "yes" if ratio >= SHED_RATIO else "no"
        lines.append((name, 2 * ROWS / timing.median / 1e6, ratio, met, f"{timing.spread:.0%}", true_recall))
    show(
        f"policies at {SHARE:.0%} memory ({limit:,} rows), int keys, Parquet to Arrow (median of {rounds})",
        ("policy", "M rows/s", "of exact", f">= {SHED_RATIO}", "noise", "recall"),
        lines,
    )
    return {"limit_rows": limit, "target": SHED_RATIO, **_figures(timings, base)}


def _figures(timings: dict[str, Timing], base: float) -> dict[str, Any]:
    lines = {
        name: {"seconds": t.median, "turns": t.turns, "first": t.first, "of_baseline": t.median / base}
        for name, t in timings.items()
    }
    return {"timings": lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="policies whose name holds this text")
    args = parser.parse_args()
    parts: dict[str, Callable[[Path], dict[str, Any]]] = {
        "exact_int": lambda f: exact_against_duckdb(write_files(f, False), "int", args.rounds),
        "exact_text": lambda f: exact_against_duckdb(write_files(f, True), "text", args.rounds),
        "policies": lambda f: policies_against_exact(write_files(f, False), args.rounds, args.only),
    }
    with tempfile.TemporaryDirectory() as folder:
        save("join", {name: part(Path(folder)) for name, part in parts.items()})


if __name__ == "__main__":
    main()
