"""Skew: how near PROB and RAND come to OPT as keys become more unequal, whatever the streams' correlation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row
from windrow.lab.generators import CORRELATIONS
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check, at_least, between, every, inside
from windrow.lab.zipf_joins import ONLINE, PAPER, by_chance, matches, peak, ratio, zipf_join

LINES = ("EXACT", "OPT", "PROB", ONLINE, "RAND")
SKEWS = (0.0, 0.5, 1.0, 1.5, 2.0)

MODERATE = 1.0  # from this z on, skew is moderate to high
CLAIMED = 0.96
ALIKE = 0.05


def sweep(conditions: Conditions) -> list[Point]:
    """All skews under every correlation."""
    skews = (0.0, 1.0, 2.0) if conditions.quick else SKEWS
    return [{"correlation": c, "z": z} for c in CORRELATIONS for z in skews]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Matches of every line with M = w."""
    pair = zipf_join(conditions, seed, (point["z"], point["z"]), point["correlation"])
    yield {**matches(pair, 1.0, seed, LINES), "peak": peak(pair)}


def judge(found: Figures) -> list[Check]:
    """PROB as RAND without skew, near OPT with it, and the same under every correlation."""
    flat = list(found.where(z=0.0).cells("correlation"))
    skewed = [cell for z in found.distinct("z") if z >= MODERATE for cell in found.where(z=z).cells("correlation", "z")]
    alike = inside("PROB gives what RAND gives at z = 0, to 5 %", flat, ratio("PROB", "RAND"), 1 - ALIKE, 1 + ALIKE)
    return [
        replace(alike, why=by_chance(flat)),
        at_least("PROB gives more than 96 % of OPT from z = 1 on", skewed, ratio("PROB", "OPT"), CLAIMED),
        _correlation(found),
        Check("from which z on PROB gives more than 96 % of OPT", None, _reached(found), aside=True),
    ]


def _correlation(found: Figures) -> Check:
    """Whether PROB / OPT is the same under every correlation at every skew."""
    steps = [
        (found.step(ratio("PROB", "OPT"), {"correlation": one, "z": z}, {"correlation": two, "z": z}), one, two, z)
        for z in found.distinct("z")
        for one, two in combinations(CORRELATIONS, 2)
    ]
    largest, one, two, z = max(steps, key=lambda step: abs(step[0].value))
    told = f"at most {100 * abs(largest.value):.1f} points apart ({one} and {two} at z = {z:g})"
    truth = every(between(step[0], -ALIKE, ALIKE) for step in steps)
    return Check("correlation does not matter: PROB / OPT differs by less than 5 points", truth, told)


def _reached(found: Figures) -> str:
    told = []
    for label, part in found.cells("correlation"):
        good = [z for z in part.distinct("z") if part.mean(ratio("PROB", "OPT"), z=z).value > CLAIMED]
        bad = [z for z in part.distinct("z") if z not in good]
        reached = [z for z in good if z > max(bad, default=-1.0)]
        told.append(f"{label} {f'z = {reached[0]:g}' if reached else 'none of these'}")
    return ", ".join(told)


def draw(found: Figures) -> list[Panel]:
    """The shares of OPT over the skew, a panel for each correlation."""
    return [
        Panel(
            label, "Zipf parameter z of both streams", "share of OPT",
            {line: part.curve("z", ratio(line, "OPT")) for line in ("PROB", "RAND")}, percent=True,
        )
        for label, part in found.cells("correlation")
    ]  # fmt: skip


EXPERIMENT = Experiment(
    id="skew",
    paper=PAPER,
    place="figs 10, 11",
    claim="PROB = RAND without skew, > 96 % of OPT at moderate to high skew; correlation does not matter",
    setting="5,600 rows a stream, 50 keys, w = M = 400 split evenly, z = 0 to 2 in both, warm-up 2w, oracle",
    sweep=sweep, measure=measure, judge=judge, draw=draw,
)  # fmt: skip
