"""GDJ-initial: with how much credit a newcomer should start."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Mean, Row
from windrow.lab.gdj_joins import BUFFER, ITSELF, PAPER, PARTS, join_of, names, source
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check, Truth, above, every, tell
from windrow.policies import GreedyDual

INITIALS = (0.0, 0.25, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.99, 0.998)
RANGE = 0.8  # from here on, the paper found the best


def sweep(conditions: Conditions) -> list[Point]:
    """All initial credits on all streams."""
    initials = (0.25, 0.8, 0.95) if conditions.quick else INITIALS
    return [{"streams": name, "initial": initial} for name in names(conditions) for initial in initials]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Recall with one initial credit at a fifth of the memory; and of a GDJ that finds its own, which is the same."""
    lines = {"GDJ": GreedyDual(point["initial"]), ITSELF: GreedyDual("tuned")}
    yield join_of(point["streams"], seed, conditions).recalls(BUFFER, seed, lines)


def judge(found: Figures) -> list[Check]:
    """That the best is high, and not the same everywhere."""
    best = {name: _best(part) for name, part in found.cells("streams")}
    told = ", ".join(f"{name} {initial:g}" for name, initial in best.items())
    high = [_high(part) for _, part in found.cells("streams")]
    return [
        Check("the best initial percentile is 0.8 or more", every(above(gain, 0.0) for gain in high), told),
        Check("which one is best depends on the stream", _depends(found, best), _crossing(found, best)),
        tell(
            "what a GDJ that tunes itself gives of the best", [
                (name, part.where(initial=best[name])) for name, part in found.cells("streams")
            ], lambda row: row[ITSELF] / row["GDJ"],
        ),
    ]  # fmt: skip


def _best(part: Figures) -> float:
    return float(max(part.distinct("initial"), key=lambda initial: part.mean("GDJ", initial=initial).value))


def _gain(part: Figures, one: float, two: float) -> Mean:
    """How much more the first gives, seed by seed."""
    return part.step("GDJ", {"initial": two}, {"initial": one})


def _high(part: Figures) -> Mean:
    """The best of the paper's range against the best below it."""
    sides = [[i for i in part.distinct("initial") if (i >= RANGE) is side] for side in (True, False)]
    high, low = (max(side, key=lambda initial: part.mean("GDJ", initial=initial).value) for side in sides)
    return _gain(part, high, low)


def _depends(found: Figures, best: dict[str, float]) -> Truth:
    """Whether two sets of streams each lose by the other's best, beyond their intervals."""
    for one, two in combinations(best, 2):
        gains = [_gain(found.where(streams=name), best[name], best[other]) for name, other in ((one, two), (two, one))]
        if best[one] != best[two] and all(gain.low > 0 for gain in gains):
            return True
    return False if len(set(best.values())) == 1 else None


def _crossing(found: Figures, best: dict[str, float]) -> str:
    low, high = min(best, key=best.__getitem__), max(best, key=best.__getitem__)
    gains = [_gain(found.where(streams=name), best[name], best[other]) for name, other in ((low, high), (high, low))]
    return (
        f"{best[low]:g} instead of {best[high]:g} gains {100 * gains[0].value:.1f} points of recall in {low}, "
        f"and loses {100 * gains[1].value:.1f} in {high}"
    )


def draw(found: Figures) -> list[Panel]:
    """Recall over the initial credit."""
    return [
        Panel(
            name, "initial credit, percentile of the residents' credits", "share of the exact join",
            {line: part.curve("initial", line) for line in ("GDJ", ITSELF)}, percent=True,
        )
        for name, part in found.cells("streams")
    ]  # fmt: skip


EXPERIMENT = Experiment(
    id="gdj-initial",
    paper=PAPER,
    place="fig 3, initial credit",
    claim="the best initial percentile depends on the stream, and is 0.8 to more than 0.99",
    setting="initial credit from 0 to 0.998, method 1, buffer 20 %; 100 keys, skew and shape 0.75, 1,440 rows a stream "
    "with w = 100 and 20,160 with w = 400; six parts of each real pair, w = 400",
    sweep=sweep, measure=measure, judge=judge, draw=draw, source=source, seeds=PARTS, real=True,
)  # fmt: skip
