"""Uniform: where no key is worth more than another, no online policy can do better than chance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check, inside, tell
from windrow.lab.zipf_joins import ONLINE, PAPER, by_chance, matches, output, peak, ratio, shares, zipf_join

LINES = ("EXACT", "OPT", "PROB", ONLINE, "LIFE", "RAND")
ALIKE = (0.95, 1.05)


def sweep(conditions: Conditions) -> list[Point]:
    """All budgets."""
    return [{"share": share} for share in shares(conditions)]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Matches of every line."""
    pair = zipf_join(conditions, seed, (0.0, 0.0))
    yield {**matches(pair, point["share"], seed, LINES), "peak": peak(pair)}


def judge(found: Figures) -> list[Check]:
    """PROB and LIFE as RAND."""
    cells = list(found.cells("M"))
    prob, life = (
        inside(f"{line} gives what RAND gives, to 5 %", cells, ratio(line, "RAND"), *ALIKE) for line in ("PROB", "LIFE")
    )
    future = tell("what knowing the future gains over RAND, as a share of EXACT", cells, _gain)
    return [replace(prob, why=by_chance(cells)), life, future]


def _gain(row: Row) -> float:
    return float(row["OPT"] - row["RAND"]) / row["EXACT"]


def draw(found: Figures) -> list[Panel]:
    """Matches over memory."""
    return [output("w = 400, both uniform", found, LINES)]


EXPERIMENT = Experiment(
    id="uniform",
    paper=PAPER,
    place="fig 9",
    claim="On uniform streams all online policies are alike",
    setting="5,600 rows a stream, 50 keys, both uniform, w = 400, M = 0.1 to 1.5 w split evenly, warm-up 2w, oracle",
    sweep=sweep, measure=measure, judge=judge, draw=draw,
)  # fmt: skip
