"""Cold start: from a fresh process to the first matches, with kernels on disk and without.

    import   importing windrow; the baseline is importing numpy, numba and pyarrow alone
    push     the first push of a small batch: loading kernels (warm) or compiling them (cold)
    core     seconds of one core for the whole process, which a busy machine changes less than the wall clock

The pair driver takes two streams with one key; the n-stream driver takes three.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from harness import save, show

LIMIT = 2.0  # seconds, target for a warm start beyond the baseline

BASELINE = """
import time; started = time.perf_counter()
import numpy, numba, pyarrow, pyarrow.compute
print([time.perf_counter() - started, 0.0, time.process_time(), 1])
"""

START = """
import time; started = time.perf_counter()
import windrow as wr
imported = time.perf_counter()
import pyarrow as pa
names = {names}
query = wr.Query(streams=[wr.Stream(n, "t", 10) for n in names], on="k", memory=100, policy="prob")
matches = wr.Engine(query).push({{n: pa.table({{"t": [1, 2, 3], "k": [1, 2, 1]}}) for n in names}})
print([imported - started, time.perf_counter() - imported, time.process_time(), matches.num_rows])
"""

DRIVERS = {"pair": ("a", "b"), "n streams": ("a", "b", "c")}


BASE = "numpy, numba, pyarrow"
MATCHES = {"pair": 5, "n streams": 9}  # key 1 has 2 rows in each stream, key 2 has 1: 2**n + 1

Run = tuple[float, float, float]


def fresh_process(program: str, cache: str, expected: int) -> Run:
    """(seconds to import, from there to the first matches, seconds of a core) of a program in a process of its own."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    imported, pushed, core, matches = json.loads(done.stdout)
    assert matches == expected, (matches, expected)
    return imported, pushed, core


def starts(rounds: int, cold_rounds: int, folder: str) -> dict[str, list[Run]]:
    """All runs; a driver's warm ones load what its last cold one has left in its folder."""
    programs = {driver: START.format(names=names) for driver, names in DRIVERS.items()}
    runs: dict[str, list[Run]] = {BASE: []}
    caches = {}
    for driver, program in programs.items():
        for number in range(cold_rounds):
            caches[driver] = f"{folder}/{driver} {number}"
            runs.setdefault(f"{driver}, cold", []).append(fresh_process(program, caches[driver], MATCHES[driver]))
    for _ in range(rounds):
        runs[BASE].append(fresh_process(BASELINE, folder, 1))
        for driver, program in programs.items():
            runs.setdefault(f"{driver}, warm", []).append(fresh_process(program, caches[driver], MATCHES[driver]))
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="warm starts of each driver")
    parser.add_argument("--cold-rounds", type=int, default=1, help="starts that compile every kernel: a minute each")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = starts(args.rounds, args.cold_rounds, folder)
    medians = {name: [statistics.median(figures) for figures in zip(*r, strict=True)] for name, r in runs.items()}
    base = medians[BASE][0]
    lines: list[dict[str, Any]] = [
        {"start": name, "import": imported, "push": pushed, "core": core, "of_baseline": (imported + pushed) / base}
        for name, (imported, pushed, core) in medians.items()
    ]
    show(
        f"cold start in a fresh process (median of {args.rounds}, cold: of {args.cold_rounds})",
        ("start", "import s", "first push s", "x baseline", "s beyond it", "core s"),
        [
            (i["start"], i["import"], i["push"], i["of_baseline"], i["import"] + i["push"] - base, i["core"])
            for i in lines
        ],
    )
    worst = max(m[0] + m[1] for name, m in medians.items() if name.endswith("warm")) - base
    print(f"  a warm start takes {worst:.2f} s beyond importing {BASE} (target: under {LIMIT:g})")
    save("start", {"target_seconds": LIMIT, "warm_seconds_beyond": worst, "lines": lines})


if __name__ == "__main__":
    main()
