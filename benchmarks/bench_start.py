"""Cold start: from a fresh process to the first matches, with kernels on disk and without.

    import   importing windrow; the baseline is importing numpy, numba and pyarrow alone
    push     the first push of a small batch: loading kernels (warm) or compiling them (cold)

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
print([time.perf_counter() - started, 0.0, 1])
"""

START = """
import time; started = time.perf_counter()
import windrow as wr
imported = time.perf_counter()
import pyarrow as pa
names = {names}
query = wr.Query(streams=[wr.Stream(n, "t", 10) for n in names], on="k", memory=100, policy="prob")
matches = wr.Engine(query).push({{n: pa.table({{"t": [1, 2, 3], "k": [1, 2, 1]}}) for n in names}})
print([imported - started, time.perf_counter() - imported, matches.num_rows])
"""

DRIVERS = {"pair": ("a", "b"), "n streams": ("a", "b", "c")}


def fresh_process(program: str, cache: str) -> tuple[float, float, int]:
    """(seconds to import, seconds to the first matches, matches) of a program in a process of its own."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    imported, pushed, matches = json.loads(done.stdout)
    return imported, pushed, matches


def median(runs: list[tuple[float, float, int]]) -> tuple[float, float]:
    return statistics.median(r[0] for r in runs), statistics.median(r[1] for r in runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="warm starts of each driver")
    parser.add_argument(
        "--cold-rounds", type=int, default=1, help="starts that compile every kernel: about a minute each"
    )
    args = parser.parse_args()
    programs = {driver: START.format(names=names) for driver, names in DRIVERS.items()}
    expected = {"pair": 5, "n streams": 9}  # key 1: 2 rows a stream, key 2: 1 row; 2**n + 1
    runs: dict[str, list[tuple[float, float, int]]] = {"numpy, numba, pyarrow": []}
    for driver, program in programs.items():
        for _ in range(args.cold_rounds):
            with tempfile.TemporaryDirectory() as cache:
                runs.setdefault(f"{driver}, cold", []).append(fresh_process(program, cache))
    with tempfile.TemporaryDirectory() as cache:
        for program in programs.values():
            fresh_process(program, cache)
        for _ in range(args.rounds):
            runs["numpy, numba, pyarrow"].append(fresh_process(BASELINE, cache))
            for driver, program in programs.items():
                runs.setdefault(f"{driver}, warm", []).append(fresh_process(program, cache))
    for name, found in runs.items():
        wanted = next((n for driver, n in expected.items() if name.startswith(driver)), 1)
        assert all(matches == wanted for _, _, matches in found), (name, found)
    base = sum(median(runs["numpy, numba, pyarrow"]))
    lines: list[dict[str, Any]] = []
    for name, found in runs.items():
        imported, pushed = median(found)
        lines.append({"start": name, "import": imported, "push": pushed, "of_baseline": (imported + pushed) / base})
    show(
        f"cold start in a fresh process (median of {args.rounds}, cold: of {args.cold_rounds})",
        ("start", "import s", "first push s", "x baseline", "s beyond it"),
        [(i["start"], i["import"], i["push"], i["of_baseline"], i["import"] + i["push"] - base) for i in lines],
    )
    worst = max(sum(median(found)) for name, found in runs.items() if name.endswith("warm")) - base
    print(f"  a warm start takes {worst:.2f} s beyond importing numpy, numba and pyarrow (target: under {LIMIT:g})")
    save("start", {"target_seconds": LIMIT, "warm_seconds_beyond": worst, "lines": lines})


if __name__ == "__main__":
    main()
