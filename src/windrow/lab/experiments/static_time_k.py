"""Static time over k: what the optimal and the greedy truncation cost as more rows are kept."""

from __future__ import annotations

from collections.abc import Iterator

from windrow.lab.components import COMPONENTS, METHODS, components, prepare, seconds, size
from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Mean, Row, growth
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check, between, inside, tell
from windrow.lab.zipf_joins import PAPER, ratio

SKEW = 0.5
KEPT = (1_000, 2_000, 5_000, 10_000)  # a decade around the paper's k; its text does not say how far its axis goes
BEYOND = (20_000,)

FLAT = 0.1  # the power of k with which time may grow, either way
ORDERS = (10**2.5, 10**4.5)  # three to four orders of magnitude, rounded to whole ones


def sweep(conditions: Conditions) -> list[Point]:
    """All numbers of rows kept."""
    return [{"k": size(k, conditions), "beyond": k in BEYOND} for k in KEPT + BEYOND]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Seconds of every method."""
    prepare()
    counts = components(conditions, seed, SKEW, COMPONENTS, "uncorrelated")
    yield {line: seconds(method, counts, point["k"]) for line, method in METHODS.items()}


def judge(found: Figures) -> list[Check]:
    """ADG flat, and far below the dynamic programme."""
    cells, beyond = (list(found.where(beyond=b).cells("k")) for b in (False, True))
    powers = {line: growth(found, "k", line) for line in METHODS}
    return [
        Check(
            "ADG's time does not depend on k (it grows with less than the 0.1th power)",
            between(powers["ADG"], -FLAT, FLAT), _told(powers["ADG"]),
        ),
        inside(
            "ADG is three to four orders of magnitude below the dynamic programme (times)",
            cells, ratio("OPTDP", "ADG"), *ORDERS, form=",.0f",
        ),
        Check("with what power of k the dynamic programme's time grows", None, _told(powers["OPTDP"]), aside=True),
        tell("how many times ADG is below it where far more is kept", beyond, ratio("OPTDP", "ADG"), ",.0f"),
        tell("the fast optimum's time over ADG's", cells, ratio("fast optimum", "ADG"), ",.1f"),
    ]  # fmt: skip


def _told(power: Mean) -> str:
    return f"{power.value:.2f} ({power.low:.2f} to {power.high:.2f})"


def draw(found: Figures) -> list[Panel]:
    """Seconds over k."""
    curves = {line: found.curve("k", line) for line in METHODS}
    return [Panel("time", "rows kept, k", "processor seconds", curves, log_x=True, log_y=True)]


EXPERIMENT = Experiment(
    id="static-time-k",
    paper=PAPER,
    place="fig 5",
    claim="ADG's time does not depend on k, and is three to four orders of magnitude below the dynamic programme's",
    setting="two relations of 50,000 rows, 1,000 components, z = 0.5, k = 1,000 to 10,000 and beyond; processor time",
    sweep=sweep, measure=measure, judge=judge, draw=draw,
    source=lambda conditions: "generated relations",
    seeds=10,
)  # fmt: skip
