"""GDJ-attributes: two streams joined on more and more of their attributes, by as many joins in one memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row, mean
from windrow.lab.gdj_joins import (
    BUFFER,
    DAY,
    GDJ,
    ITSELF,
    KEYS,
    LONG,
    OTHERS,
    PAPER,
    QUICK_ROWS,
    QUICK_WINDOW,
    ROWS,
    SKEW,
    TUNED,
    WINDOWS,
    Join,
    ahead,
    chosen,
    over,
    recall_panels,
)
from windrow.lab.generators import locality_stream
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check, above, every

SKEWS = (0.5, 0.75, 1.0, 1.25, 1.5)  # of the left stream's attributes; the right stream's keys are uniform
MOST = len(SKEWS)
LINES = {**TUNED, **{line: OTHERS[line] for line in ("PROB", "RAND", "FIFO")}}  # AGE is for one join


def sweep(conditions: Conditions) -> list[Point]:
    """One to five attributes, in a short and a long run."""
    numbers = (1, 2) if conditions.quick else range(1, MOST + 1)
    return [{"streams": s, "n": n} for s in ((DAY,) if conditions.quick else (DAY, LONG)) for n in numbers]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Recall of every line, over all joins together, at a fifth of the memory."""
    yield _join(point["streams"], point["n"], seed, conditions).recalls(BUFFER, seed, LINES)


def _join(streams: str, n: int, seed: int, conditions: Conditions) -> Join:
    """Two streams and a join on each of their attributes; the first attributes stay the same as more are added."""
    rows, window = (QUICK_ROWS, QUICK_WINDOW) if conditions.quick else (ROWS[streams], WINDOWS[streams])
    names = [f"x{k}" for k in range(1, n + 1)]
    tables = {side: _stream(rows, names, side == "left", seed) for side in ("left", "right")}
    return Join(tables, window, {name: name for name in names})


def _stream(rows: int, names: list[str], skewed: bool, seed: int) -> pa.Table:
    """One side: its attributes come and go in clusters, each by itself."""
    found = {}
    for k, name in enumerate(names):
        draw = 2 * (MOST * seed + k) + skewed
        drawn = locality_stream(rows, KEYS, SKEWS[k] if skewed else 0.0, SKEW, seed=draw, ranking=MOST * seed + k)
        found |= {"t": drawn["t"], name: drawn["k"]}
    return pa.table(found)


def judge(found: Figures) -> list[Check]:
    """GDJ before PROB and RAND with every number of attributes, and further before them with more."""
    found = chosen(found)
    cells = list(found.cells("streams", "n"))
    asides = [
        ahead("GDJ gives more than FIFO", cells, GDJ, "FIFO"),
        ahead("PROB gives more than RAND", cells, "PROB", "RAND"),
        ahead("a GDJ that tunes itself gives more than PROB", cells, ITSELF, "PROB"),
    ]
    return [
        ahead("GDJ gives more than PROB", cells, GDJ, "PROB"),
        ahead("GDJ gives more than RAND", cells, GDJ, "RAND"),
        _gains(found, "PROB"),
        _gains(found, "RAND"),
        *(replace(check, aside=True) for check in asides),
    ]


def _gains(found: Figures, other: str) -> Check:
    """What GDJ gives over another policy, with all attributes against one."""
    truths, told = [], []
    first, last = min(found.distinct("n")), max(found.distinct("n"))
    ratio = over(GDJ, other)
    for name, part in found.cells("streams"):
        ends = [[ratio(runs.where(n=n).rows[0]) for _, runs in part.cells("seed")] for n in (first, last)]
        truths.append(above(mean([b - a for a, b in zip(*ends, strict=True)]), 0.0))
        told.append(f"{mean(ends[0]):.2f} to {mean(ends[1]):.2f} times ({name})")
    return Check(f"from {first} attribute to {last}, GDJ gains on {other}", every(truths), ", ".join(told))


def draw(found: Figures) -> list[Panel]:
    """Recall over the number of attributes."""
    return recall_panels(chosen(found), "n", "attributes, each joined by itself")


EXPERIMENT = Experiment(
    id="gdj-attributes",
    paper=PAPER,
    place="fig 7, attributes",
    claim="GDJ gives the most with 1 to 5 attributes joined, and gains on the others with their number",
    setting="two streams, a join on each of 1 to 5 attributes of 100 keys, left skewed by 0.5 to 1.5, right uniform, "
    "shape 0.75, buffer 20 %, 1,440 rows a stream with w = 100 and 20,160 with w = 400; "
    "GDJ with the best of four initial credits per length",
    sweep=sweep, measure=measure, judge=judge, draw=draw, seeds=10,
)  # fmt: skip
