"""GDJ-window: whether the order of the policies holds for every window."""

from __future__ import annotations

from collections.abc import Iterator

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row
from windrow.lab.gdj_joins import (
    BUFFER,
    PAPER,
    PARTS,
    chosen,
    join_of,
    judge_local,
    names,
    nature,
    recall_panels,
    source,
)
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check

SIZES = (50, 100, 200, 400, 800)


def sweep(conditions: Conditions) -> list[Point]:
    """All windows on all streams."""
    sizes = (20, 80) if conditions.quick else SIZES
    return [{"streams": name, "w": w} for name in names(conditions) for w in sizes]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Recall of every line at a fifth of the memory, and how local the streams are."""
    join = join_of(point["streams"], seed, conditions, point["w"])
    yield {**join.recalls(BUFFER, seed), **nature(point["streams"], seed, conditions)}


def judge(found: Figures) -> list[Check]:
    """The order of the policies at every window."""
    return judge_local(found, "w")


def draw(found: Figures) -> list[Panel]:
    """Recall over the window."""
    return recall_panels(chosen(found), "w", "window, steps", log_x=True)


EXPERIMENT = Experiment(
    id="gdj-window",
    paper=PAPER,
    place="fig 5, windows",
    claim="the order GDJ > PROB > AGE, RAND holds for all windows at a 20 % buffer",
    setting="w = 50 to 800 steps (minutes; seconds in web), buffer 20 %, 100 keys, skew and shape 0.75, 1,440 and "
    "20,160 rows a stream; six parts of each real pair; GDJ with the best of four initial credits per pair",
    sweep=sweep, measure=measure, judge=judge, draw=draw, source=source, seeds=PARTS, real=True,
)  # fmt: skip
