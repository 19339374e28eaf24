"""What the benchmarks share: contestants in turn, medians, ratios to a named baseline, a table and a JSON file.

A contestant does its work once and returns what the benchmark will check. Contestants take turns, so that a busy
machine slows all of them alike; the first turn of each is kept apart, because it compiles or loads kernels.
"""

import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"

Clock = Callable[[], float]
wall: Clock = time.perf_counter
core: Clock = time.process_time
"""Seconds of one core, whatever else the machine does: right for work in one thread, wrong for work in several."""


@dataclass
class Timing:
    """One contestant's times in seconds, and what its last turn returned."""

    first: float = 0.0
    turns: list[float] = field(default_factory=list)
    result: Any = None

    @property
    def median(self) -> float:
        """The middle time, without the first turn."""
        return statistics.median(self.turns)

    @property
    def spread(self) -> float:
        """Half the range of the times over their median: differences inside it are noise."""
        return (max(self.turns) - min(self.turns)) / 2 / self.median


@dataclass(frozen=True)
class Contestant:
    """Work to be timed, on what `prepare` has made ready for this turn outside the time."""

    work: Callable[[Any], Any]
    prepare: Callable[[], Any] = lambda: None


def race(contestants: Mapping[str, Contestant], rounds: int, clock: Clock = wall) -> dict[str, Timing]:
    """Let contestants take turns; a first turn each that does not count, then `rounds` that do.

    Who follows whom changes from round to round, for what one leaves behind (memory, caches) may slow the next.
    """
    timings = {name: Timing() for name in contestants}
    for turn in range(-1, rounds):
        for name, contestant in random.Random(turn).sample(list(contestants.items()), len(contestants)):
            note(f"  round {turn + 1}/{rounds} {name}")
            timing = timings[name]
            timing.result = None  # what the last turn made is gone before the next one starts
            ready = contestant.prepare()
            started = clock()
            timing.result = contestant.work(ready)
            seconds = clock() - started
            if turn < 0:
                timing.first = seconds
            else:
                timing.turns.append(seconds)
    note("")
    return timings


def note(text: str) -> None:
    """Say where a long run is, if somebody is watching."""
    if sys.stderr.isatty():
        print(f"\r{text:60.60}\r", end="", file=sys.stderr, flush=True)


def show(title: str, header: Iterable[str], lines: Iterable[Iterable[object]]) -> None:
    """Print a table: the first column to the left, numbers to the right."""
    rows = [list(header), *([_text(cell) for cell in line] for line in lines)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    print(f"\n{title}")
    for row in rows:
        cells = [
            cell.ljust(w) if k == 0 else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        print("  " + "  ".join(cells).rstrip())


def _text(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:,.2f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def save(name: str, figures: Mapping[str, Any]) -> Path:
    """Write a benchmark's figures, with what they were measured on, to results/."""
    machine = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "at": time.strftime("%Y-%m-%dT%H:%M:%S"),
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine, **figures}, indent=1) + "\n")
    return path


def check_counters(metrics: Any) -> None:
    """Every row that arrived is somewhere, in every stream."""
    for name, s in metrics.streams.items():
        gone = s.late + s.ignored + s.expired + s.released + s.shed
        assert s.arrived == gone + s.resident_rows, f"stream {name!r}: counters do not add up: {s}"
