"""Time to plan: four streams exhaustively, eight exactly, twenty greedily, for each shape of join graph.

    python benchmarks/sites_planning.py [--rounds 3]

Random streams as in the semijoin paper's table 2, each at a site of its own, by the corrected model.
"""

import argparse
import time
from random import Random

import numpy as np
from harness import note, save, show

from windrow.lab.sites_joins import Net, drawn, edges_of, planned

CASES = ((4, "exhaustive"), (8, "exact"), (20, "greedy"))
SHAPES = ("star", "chain", "cycle", "full")


def seconds(streams: int, planner: str, shape: str, rounds: int) -> float:
    """The median over so many queries."""
    taken = []
    for k in range(rounds):
        drawn_ = drawn(Random(f"{shape} {k}"), streams)
        edges = edges_of(shape, list(drawn_))
        begun = time.perf_counter()
        planned(drawn_, edges, Net(), planner, "corrected")
        taken.append(time.perf_counter() - begun)
    return float(np.median(taken))


def main() -> None:
    """Print a line for each number of streams."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", type=int, nargs="+", default=[n for n, _ in CASES])
    args = parser.parse_args()
    cases = [case for case in CASES if case[0] in args.streams]
    found = {f"{n} {p}": {shape: seconds(n, p, shape, args.rounds) for shape in SHAPES} for n, p in cases}
    show("seconds to plan", ["", *SHAPES], [[name, *line.values()] for name, line in found.items()])
    note(str(save("sites_planning", found)))


if __name__ == "__main__":
    main()
