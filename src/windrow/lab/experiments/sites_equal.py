"""Sites, equal streams: where all streams are alike, there is nothing for a planner to choose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row
from windrow.lab.pictures import Panel
from windrow.lab.sites_joins import PAPER, TABLE_2, Net, One, edges_of, executed, planned
from windrow.lab.verdict import Check, inside

DEFAULT = One(row_bytes=500, factor=0.06, rate=100, window=1.2)
SECONDS = 1.0
MODEL, EXECUTED = (1 - 1e-9, 1 + 1e-9), (0.9, 1.1)


def sweep(conditions: Conditions) -> list[Point]:
    """Each parameter over the values of table 2, the others as in figure 9."""
    points = [{"parameter": name, "value": value} for name, values in TABLE_2.items() for value in values]
    return points[::7] if conditions.quick else points


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Both plans in the model, and executed."""
    one, net = replace(DEFAULT, **{point["parameter"]: point["value"]}), Net()
    streams = {f"s{k}": one for k in range(4)}
    edges = edges_of("chain", list(streams))
    plans = {name: planned(streams, edges, net, name, "paper") for name in ("greedy", "exhaustive")}
    runs = {name: executed(found, streams, net, SECONDS, seed).execution for name, found in plans.items()}
    yield {**runs, "model": plans["greedy"].cost / plans["exhaustive"].cost}


def judge(found: Figures) -> Sequence[Check]:
    """The same cost, and the same time but for a few percent."""
    cells = list(found.cells("parameter", "value"))
    return [
        inside("both plans cost the same in the model", cells, "model", *MODEL, ".3f"),
        inside(
            "and take the same time, to 10 %", cells, lambda row: row["greedy"] / row["exhaustive"], *EXECUTED, ".3f"
        ),
    ]


def draw(found: Figures) -> list[Panel]:
    """Executed time over each parameter."""
    return [
        Panel(
            name,
            name,
            "s per s of arrivals",
            {plan: found.curve("value", plan, parameter=name) for plan in ("greedy", "exhaustive")},
        )
        for name in found.distinct("parameter")
    ]


EXPERIMENT = Experiment(
    id="sites-equal",
    paper=PAPER,
    place="fig 9",
    claim="With the same parameters at every site, greedy plans are the best ones",
    setting="4 streams in a chain, 500-byte rows, 100 rows/s, f = 0.06, window 1.2 s, each varied as in table 2; "
    "25 ms, 1,024 kbit/s, interval 100 ms, 1 s of arrivals",
    sweep=sweep, measure=measure, judge=judge, draw=draw, seeds=3,
)  # fmt: skip
