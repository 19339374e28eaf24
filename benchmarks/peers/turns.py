"""What every contestant's process does: a join several times over, timed from opening the files to the count.

usage: <contestant>.py <left.csv> <right.csv> <bound in ms> <workers> <turns>

Prints one line of JSON as its last: for every turn the seconds, the seconds of a core (of this process and all that it
has started), and the matches. Files have a header, times in ms, and rows match whose times lie at most the bound apart.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from core_seconds import CoreSeconds

Join = Callable[[str, str, int, int], int]


def main(join: Join) -> None:
    """Run a join as often as asked for."""
    left, right, bound, workers, turns = sys.argv[1:]
    done = []
    for _ in range(int(turns)):
        clock, started = CoreSeconds(), time.perf_counter()
        matches = join(left, right, int(bound), int(workers))
        done.append({"seconds": time.perf_counter() - started, "core": clock.read(), "matches": matches})
    print(json.dumps(done), flush=True)
