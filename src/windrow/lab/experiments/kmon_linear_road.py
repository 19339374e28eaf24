"""kmon-linear-road: four joins of the Linear Road queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row
from windrow.lab.kmon_joins import PAPER, SWJ, same, share
from windrow.lab.pictures import Panel
from windrow.lab.road_joins import road_joins
from windrow.lab.verdict import Check, at_most, tell
from windrow.spec import Constraint, Unique

SIZES = {100_000: 300, 1_000_000: 120}  # cars, and for how many seconds they report
ACCIDENTS = 0.0002
NEARLY_AN_ORDER = 0.2  # of SWJ's bytes; table 3 has 0.09 to 0.13
TURNS = 3
MINE, ONE_ONE = "k-Mon", "one-one"
TABLE_3 = {"CurCarSeg": (0.09, 0.65), "AccSeg": (0.13, 0.99), "CarExitStr": (0.10, 0.49), "NegTollStr": (0.13, 0.62)}


def sweep(conditions: Conditions) -> list[Point]:
    """The four queries, at two sizes."""
    return [{"query": name, "cars": cars} for cars in ((1_000,) if conditions.quick else SIZES) for name in TABLE_3]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """What is held, and time per row, with and without constraints; one-one where the parent is unique, too."""
    cars = point["cars"]
    found = road_joins(cars, SIZES.get(cars, 120), ACCIDENTS, seed)[point["query"]]
    lines: dict[str, tuple[Constraint, ...]] = {SWJ: (), MINE: found.constraints}
    if point["query"] == "CurCarSeg":
        lines[ONE_ONE] = (*found.constraints, Unique("LastRep", ["cid", "report"]))
    held = {line: found.join.held(constraints) for line, constraints in lines.items()}
    times: dict[str, list[float]] = {line: [] for line in lines}
    for _ in range(TURNS):
        for line, constraints in lines.items():
            times[line].append(1e6 * found.join.seconds(constraints))
    row = {key: value for line, one in held.items() for key, value in one.figures(line).items()}
    yield {"part": "figures", **row, **{f"{line} time": median(own) for line, own in times.items()}}
    for line, one in held.items():
        for taken, size, rows in one.moments:
            yield {"part": "curve", "line": line, "taken": taken, "bytes": size, "rows": rows}


def judge(found: Figures) -> list[Check]:
    """Nearly an order of magnitude less memory, in less time."""
    figures = found.where(part="figures")
    cells = list(figures.cells("query", "cars"))
    claim = "memory is less than SWJ's by nearly an order of magnitude: at most 20 % of its bytes"

    one_one = list(figures.where(query="CurCarSeg").cells("cars"))
    return [
        replace(at_most(claim, cells, share(MINE), NEARLY_AN_ORDER), why=_why(figures)),
        at_most("a row takes at most the time that it takes SWJ", cells, share(MINE, "time"), 1.0, ".2f"),
        same(cells, MINE),
        *(_beside(part) for _, part in cells),
        tell("CurCarSeg as the one-one join that it is, of SWJ's bytes", one_one, share(ONE_ONE), ".3%"),
        tell("CurCarSeg as a one-one join, of SWJ's time", one_one, share(ONE_ONE, "time"), ".2f"),
        tell("million rows per second", cells, lambda row: 1 / row[f"{MINE} time"], ".2f"),
    ]


def _beside(part: Figures) -> Check:
    name, cars = part.rows[0]["query"], part.rows[0]["cars"]
    memory, time = TABLE_3[name]
    told = f"{part.mean(share(MINE)):.3f} and {part.mean(share(MINE, 'time')):.2f}"
    rows = f"{part.mean(f'{MINE} rows'):,.0f} of {part.mean(f'{SWJ} rows'):,.0f} rows"
    claim = f"{name}, {cars:,} cars, of SWJ's memory and time (the paper: {memory} and {time})"
    return Check(claim, None, f"{told}, {rows}", aside=True)


def _why(figures: Figures) -> str:
    part = figures.where(query="CurCarSeg", cars=min(figures.distinct("cars")))
    return (
        "that CurCarSeg is many-one frees LastRep, and CurActiveCars, a row for each car, stays: "
        f"{part.mean(f'{MINE} rows'):,.0f} of {part.mean(f'{SWJ} rows'):,.0f} rows. In the paper LastRep holds "
        "all cars that ever were, here only those that are active"
    )


def draw(found: Figures) -> list[Panel]:
    """Memory over the rows that were taken, a panel for each query."""
    return [
        Panel(name, "rows taken", "megabytes held", {
            line: part.curve("taken", _megabytes, line=line) for line in part.distinct("line")
        }, log_y=True)
        for name, part in found.where(part="curve", cars=min(found.distinct("cars"))).cells("query")
    ]  # fmt: skip


def _megabytes(row: Row) -> float:
    return max(1e-6, float(row["bytes"]) / 1e6)


EXPERIMENT = Experiment(
    id="kmon-linear-road",
    paper=PAPER,
    place="table 3",
    claim="four joins of Linear Road take nearly an order of magnitude less memory than SWJ, and less time",
    setting="100,000 cars that report every 30 s for 300 s, and 1,000,000 for 120 s; joins of insertions in windows "
    "of 30 s (lab/road_joins.py), many-one, and RIDS(1 s) but for CurCarSeg; medians of three turns",
    sweep=sweep, measure=measure, judge=judge, draw=draw, seeds=1,
)  # fmt: skip
