"""GDJ-attributes: two streams joined on more and more of their attributes, by as many joins in one memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row, mean
from windrow.lab.gdj_joins import (
    BUFFER,
    CREDITS_BY_ROW,
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
    WINDOWS,
    Join,
    ahead,
    chosen,
    over,
    recall_panels,
)
from windrow.lab.generators import locality_stream
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check, above, every, tell
from windrow.policies import GreedyDual

SKEWS = (0.5, 0.75, 1.0, 1.25, 1.5)  # of the left stream's attributes; the right stream's keys are uniform
MOST = len(SKEWS)
ALIKE = "14 days, one skew"
BESIDE = {line: OTHERS[line] for line in ("PROB", "RAND", "FIFO")}  # AGE is for one join
LINES = {**CREDITS_BY_ROW, ITSELF: GreedyDual("tuned"), **BESIDE}


def sweep(conditions: Conditions) -> list[Point]:
    """One to five attributes, in a short and a long run, and in a long one whose attributes all have one skew."""
    numbers = (1, 2) if conditions.quick else range(1, MOST + 1)
    sets = (DAY, ALIKE) if conditions.quick else (DAY, LONG, ALIKE)
    return [{"streams": name, "n": n} for name in sets for n in numbers]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Recall of every line, over all joins together, at a fifth of the memory."""
    yield _join(point["streams"], point["n"], seed, conditions).recalls(BUFFER, seed, LINES)


def _join(streams: str, n: int, seed: int, conditions: Conditions) -> Join:
    """Two streams and a join on each of their attributes; the first attributes stay the same as more are added."""
    length = LONG if streams == ALIKE else streams
    rows, window = (QUICK_ROWS, QUICK_WINDOW) if conditions.quick else (ROWS[length], WINDOWS[length])
    skews = ((SKEW,) * MOST if streams == ALIKE else SKEWS)[:n]
    sides = {"left": _stream(rows, skews, 2 * seed, seed), "right": _stream(rows, (0.0,) * n, 2 * seed + 1, seed)}
    return Join(sides, window, {f"x{k}": f"x{k}" for k in range(1, n + 1)})


def _stream(rows: int, skews: Sequence[float], seed: int, ranking: int) -> pa.Table:
    """One side: its attributes come and go in clusters, each by itself."""
    found: dict[str, pa.ChunkedArray] = {}
    for k, skew in enumerate(skews):
        drawn = locality_stream(rows, KEYS, skew, SKEW, seed=MOST * seed + k, ranking=MOST * ranking + k)
        found |= {"t": drawn["t"], f"x{k + 1}": drawn["k"]}
    return pa.table(found)


def judge(found: Figures) -> list[Check]:
    """GDJ before PROB and RAND with every number of attributes, and further before them with more."""
    found = chosen(found, credits=CREDITS_BY_ROW)
    alike = found.where(streams=ALIKE)
    found = Figures([row for row in found.rows if row["streams"] != ALIKE])
    cells = list(found.cells("streams", "n"))
    beside = replace(_gains(alike, "PROB"), claim="where all attributes have one skew, GDJ gains on PROB")
    why = "the attributes that are added are more skewed, which tells PROB more, and clusters of attributes that come "
    why += f"by themselves average out; {beside.claim}: {beside.found}"
    asides = [
        ahead("GDJ gives more than FIFO", cells, GDJ, "FIFO"),
        ahead("PROB gives more than RAND", cells, "PROB", "RAND"),
        ahead("a GDJ that tunes itself gives more than PROB", cells, ITSELF, "PROB"),
        beside,
    ]
    return [
        ahead("GDJ gives more than PROB", cells, GDJ, "PROB"),
        ahead("GDJ gives more than RAND", cells, GDJ, "RAND"),
        replace(_gains(found, "PROB"), why=why),
        _gains(found, "RAND"),
        *(replace(check, aside=True) for check in asides),
        tell("the recall of GDJ", cells, GDJ),
        tell("the initial credit that gave the most", list(found.cells("streams")), "initial", ".3g"),
    ]


def _gains(found: Figures, other: str) -> Check:
    """What GDJ gives over another policy, with all attributes against one."""
    truths, told = [], []
    first, last = min(found.distinct("n")), max(found.distinct("n"))
    for name, part in found.cells("streams"):
        runs = [part.where(seed=seed) for seed in part.distinct("seed")]
        ends = [[run.mean(over(GDJ, other), n=n).value for run in runs] for n in (first, last)]
        truths.append(above(mean([b - a for a, b in zip(*ends, strict=True)]), 0.0))
        told.append(f"{mean(ends[0]):.2f} to {mean(ends[1]):.2f} times ({name})")
    return Check(f"from {first} attribute to {last}, GDJ gains on {other}", every(truths), ", ".join(told))


def draw(found: Figures) -> list[Panel]:
    """Recall over the number of attributes."""
    return recall_panels(chosen(found, credits=CREDITS_BY_ROW), "n", "attributes, each joined by itself")


EXPERIMENT = Experiment(
    id="gdj-attributes",
    paper=PAPER,
    place="fig 7, attributes",
    claim="GDJ gives the most with 1 to 5 attributes joined, and gains on the others with their number",
    setting="two streams, a join on each of 1 to 5 attributes of 100 keys, left skewed by 0.5 to 1.5, right uniform, "
    "shape 0.75, buffer 20 %, 1,440 rows a stream with w = 100 and 20,160 with w = 400, the latter also with a skew of "
    "0.75 for all; "
    "GDJ with the best of five initial credits per length",
    sweep=sweep, measure=measure, judge=judge, draw=draw, seeds=10,
)  # fmt: skip
