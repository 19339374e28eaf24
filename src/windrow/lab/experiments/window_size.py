"""Window size: how much PROB, LIFE and RAND keep of the best possible, for two windows and all budgets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row, span
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check, at_least, at_most, inside, tell
from windrow.lab.zipf_joins import PAPER, matches, output, ratio, shares, way, zipf_join

LINES = ("EXACT", "OPT", "PROB", "LIFE", "LIFE-EXPECTED", "RAND")
STREAMS = {"Zipf(1) x uniform": (1.0, 0.0), "Zipf(1) x Zipf(1)": (1.0, 1.0)}  # the article's, the report's

NEAR = 0.9  # of OPT
FAR = 0.5  # of the way from RAND to OPT
BARELY = 0.25  # the same
STRAIGHT = 0.02  # of EXACT, either way


def sweep(conditions: Conditions) -> list[Point]:
    """Two kinds of streams, two windows, all budgets."""
    parts = shares(conditions)
    return [{"streams": s, "w": w, "share": m} for s in STREAMS for w in (400, 800) for m in parts]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Matches of every line."""
    pair = zipf_join(conditions, seed, STREAMS[point["streams"]], window=point["w"])
    yield matches(pair, point["share"], seed, LINES)


def judge(found: Figures) -> list[Check]:
    """PROB near OPT and far above RAND, RAND straight, LIFE near RAND."""
    cells = list(found.cells("streams", "w", "M"))
    near = [
        at_least(f"{s}: PROB is near OPT (at least 90 % of it)", list(part.cells("w", "M")), ratio("PROB", "OPT"), NEAR)
        for s, part in found.cells("streams")
    ]
    life = at_most("LIFE is barely above RAND (at most a quarter of the way to OPT)", cells, way("LIFE"), BARELY)
    return [
        *near,
        at_least("PROB is far above RAND (more than half of the way to OPT)", cells, way("PROB"), FAR),
        inside(
            "RAND grows linearly with memory (RAND / EXACT is M / 2w, to 2 % of EXACT)",
            cells, lambda row: row["RAND"] / row["EXACT"] - row["share"] / 2, -STRAIGHT, STRAIGHT,
        ),
        replace(life, why=f"LIFE gives {span(cells, ratio('LIFE', 'PROB'))} of what PROB gives"),
        tell("LIFE with expected lifetime against LIFE", cells, ratio("LIFE-EXPECTED", "LIFE")),
        tell("LIFE with expected lifetime against PROB", cells, ratio("LIFE-EXPECTED", "PROB")),
    ]  # fmt: skip


def draw(found: Figures) -> list[Panel]:
    """A panel for each kind of streams and window."""
    return [output(label, part, LINES) for label, part in found.cells("streams", "w")]


EXPERIMENT = Experiment(
    id="window-size",
    paper=PAPER,
    place="figs 7, 8",
    claim="PROB is near OPT and far above RAND; RAND is linear in memory; LIFE is barely above RAND",
    setting="5,600 rows a stream, 50 keys, w = 400 and 800, M = 0.1 to 1.5 w split evenly, warm-up 2w, oracle",
    sweep=sweep, measure=measure, judge=judge, draw=draw,
)  # fmt: skip
