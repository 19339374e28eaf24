"""GDJ-methods: whether it matters what a match adds to a row's credit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row
from windrow.lab.gdj_joins import PAPER, PARTS, join_of, names, over, source
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check, always, inside
from windrow.policies import GreedyDual

INITIAL = 0.95
SHARES = (0.05, 0.2, 0.5)
ALIKE = (0.95, 1.05)
LINES = {f"method {method}": GreedyDual(INITIAL, method) for method in (1, 2, 3)}


def sweep(conditions: Conditions) -> list[Point]:
    """Three buffers on all streams."""
    return [{"streams": name, "buffer": share} for name in names(conditions) for share in SHARES]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Recall of every method."""
    yield join_of(point["streams"], seed, conditions).recalls(point["buffer"], seed, LINES)


def judge(found: Figures) -> list[Check]:
    """Method 2 as method 1, and method 3 too, as it must."""
    cells = list(found.cells("streams", "buffer"))
    ratio = over("method 2", "method 1")
    alike = inside("method 2 gives what method 1 gives, to 5 %", cells, ratio, *ALIKE)
    claim = "method 3 gives what method 1 gives: its decrement moves no rank"
    same = always(claim, cells, over("method 3", "method 1"), 1.0)
    return [replace(alike, why=_where(found)), replace(same, aside=True)]


def _where(found: Figures) -> str:
    told = sorted((part.mean(over("method 2", "method 1")).value, name) for name, part in found.cells("streams"))
    return "mean over buffers: " + ", ".join(f"{name} {ratio:.2f}" for ratio, name in told)


def draw(found: Figures) -> list[Panel]:
    """Recall over the buffer."""
    return [
        Panel(
            name, "buffer, share of what the exact join needs", "share of the exact join",
            {line: part.curve("buffer", line) for line in LINES}, percent=True,
        )
        for name, part in found.cells("streams")
    ]  # fmt: skip


EXPERIMENT = Experiment(
    id="gdj-methods",
    paper=PAPER,
    place="fig 3, methods",
    claim="methods 1 and 2 give alike",
    setting="methods 1 to 3 with initial credit 0.95, buffers of 5, 20 and 50 %; 100 keys, skew and shape 0.75, 1,440 "
    "rows a stream with w = 100 and 20,160 with w = 400; six parts of each real pair, w = 400",
    sweep=sweep, measure=measure, judge=judge, draw=draw, source=source, seeds=PARTS, real=True,
)  # fmt: skip
