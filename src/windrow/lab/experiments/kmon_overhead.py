"""kmon-overhead: what judging rows costs in time."""

from __future__ import annotations

from collections.abc import Iterator

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.experiments import kmon_ca, kmon_oac, kmon_oap, kmon_rids
from windrow.lab.figures import Figures, Measure, Row
from windrow.lab.kmon_joins import KS, PAPER, SWJ, smaller
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check, at_most, tell

ALGORITHMS = {"RIDS": kmon_rids.SERIES, "CA": kmon_ca.SERIES, "OAP": kmon_oap.SERIES, "OAC": kmon_oac.SERIES}
LIMITS = {"RIDS": 1.64, "CA": 1.25, "OAP": 1.25, "OAC": 1.25}  # of SWJ's time; table 1: 1.64, 1.17, 1.08, 1.22
SEEDS = 5
MINE = "constrained"


def sweep(conditions: Conditions) -> list[Point]:
    """Every algorithm at every k."""
    steps = KS[:2] if conditions.quick else KS
    return [{"algorithm": name, "k": smaller(conditions, k)} for name in ALGORITHMS for k in steps]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Microseconds per row with and without constraints, in turn: giving out matches, and counting them."""
    series = ALGORITHMS[point["algorithm"]]
    join = series.made(point["k"], seed, conditions)
    lines = [(SWJ, ()), (MINE, series.constraints(point["k"]))]
    found: dict[str, float] = {}
    for kind, count_only in (("", False), (" counting", True)):
        for line, constraints in lines if seed % 2 else lines[::-1]:
            found[line + kind] = 1e6 * join.seconds(constraints, count_only)
    yield found


def judge(found: Figures) -> list[Check]:
    """Each algorithm within its bound; and how fast that is."""
    checks = []
    for name, limit in LIMITS.items():
        cells = list(found.where(algorithm=name).cells("k"))
        claim = f"{name} takes at most {limit} times SWJ's time per row"
        checks.append(at_most(claim, cells, over_swj(""), limit, ".2f"))
    cells = list(found.cells("algorithm", "k"))
    return [
        *checks,
        tell("times SWJ's where matches are counted and not given out", cells, over_swj(" counting"), ".2f"),
        tell("million rows per second", cells, lambda row: 1 / row[MINE], ".2f"),
        tell("million rows per second, counting", cells, lambda row: 1 / row[f"{MINE} counting"], ".2f"),
    ]


def over_swj(kind: str) -> Measure:
    """Time with constraints over that of SWJ."""
    return lambda row: float(row[MINE + kind]) / float(row[SWJ + kind])


def draw(found: Figures) -> list[Panel]:
    """Times over SWJ's."""
    return [
        Panel(title, "k", "times SWJ's time per row", {
            name: part.curve("k", over_swj(kind)) for name, part in found.cells("algorithm")
        })
        for title, kind in (("matches are given out", ""), ("matches are counted", " counting"))
    ]  # fmt: skip


EXPERIMENT = Experiment(
    id="kmon-overhead",
    paper=PAPER,
    place="table 1",
    claim="CA, OAP and OAC take at most 1.25 times SWJ's time per row, RIDS at most 1.64 times",
    setting="the joins of kmon-rids, kmon-ca, kmon-oap and kmon-oac, processor time of the second half of 1,200,000 "
    "rows, in slices of 20,000, both lines in turn",
    sweep=sweep, measure=measure, judge=judge, draw=draw, seeds=SEEDS,
)  # fmt: skip
