"""Static time over c: what the optimal and the greedy truncation cost as components become more."""

from __future__ import annotations

from collections.abc import Iterator

from windrow.lab.components import KEEP, METHODS, components, prepare, seconds, size
from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row, growth
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check, inside, tell
from windrow.lab.zipf_joins import PAPER, ratio

SKEW = 0.5
COUNTS = (500, 1_000, 2_000, 5_000, 10_000)

ORDERS = (10**2.5, 10**4.5)  # three to four orders of magnitude, rounded to whole ones


def sweep(conditions: Conditions) -> list[Point]:
    """All numbers of components."""
    return [{"c": c} for c in COUNTS]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Seconds of every method."""
    prepare()
    counts = components(conditions, seed, SKEW, point["c"], "uncorrelated")
    yield {line: seconds(method, counts, size(KEEP, conditions)) for line, method in METHODS.items()}


def judge(found: Figures) -> list[Check]:
    """ADG far below the dynamic programme, whatever c."""
    cells = list(found.cells("c"))
    powers = {line: growth(found, "c", line) for line in METHODS}
    return [
        inside(
            "ADG is three to four orders of magnitude below the dynamic programme (times)",
            cells, ratio("OPTDP", "ADG"), *ORDERS, form=",.0f",
        ),
        *(Check(f"with what power of c the time of {line} grows", None, f"{power.value:.2f}", aside=True)
          for line, power in powers.items()),
        tell("the fast optimum's time over ADG's", cells, ratio("fast optimum", "ADG"), ",.1f"),
    ]  # fmt: skip


def draw(found: Figures) -> list[Panel]:
    """Seconds over c."""
    curves = {line: found.curve("c", line) for line in METHODS}
    return [Panel("time", "components, c", "processor seconds", curves, log_x=True, log_y=True)]


EXPERIMENT = Experiment(
    id="static-time-c",
    paper=PAPER,
    place="fig 6",
    claim="ADG stays three to four orders of magnitude below the dynamic programme, whatever c",
    setting="two relations of 50,000 rows, 5,000 rows kept, z = 0.5, c = 500 to 10,000; processor time",
    sweep=sweep, measure=measure, judge=judge, draw=draw,
    source=lambda conditions: "generated relations",
)  # fmt: skip
