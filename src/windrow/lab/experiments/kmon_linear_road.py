"""kmon-linear-road: four of the Linear Road queries, as texts that run batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from time import process_time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from windrow.cql import Cql
from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row
from windrow.lab.kmon_joins import PAPER, SWJ, same, share
from windrow.lab.linear_road import car_reports
from windrow.lab.pictures import Panel
from windrow.lab.road_queries import ROAD_CONSTRAINTS, ROAD_QUERIES
from windrow.lab.verdict import Check, at_most, tell
from windrow.spec import Constraint

ROADS = (2_000, 5_850, 58_300)  # cars at once: 34,000, 100,000 and a million in three hours
QUICK = 1_000
JUDGED = 5_850  # the claim is judged by the roads with so many cars at once or more
SECONDS, QUICK_SECONDS = 10_800, 300  # a run of the benchmark takes three hours
ACCIDENTS = 0.0002
NEARLY_AN_ORDER = 0.2  # of SWJ's bytes; table 3 has 0.09 to 0.13
MINE = "k-Mon"
TABLE_3 = {"CurCarSeg": (0.09, 0.65), "AccSeg": (0.13, 0.99), "CarExitStr": (0.10, 0.49), "NegTollStr": (0.13, 0.62)}


@dataclass
class Ran:
    """One run of a query: bytes and rows of its own join, bytes of everything, what came out, and the time of a row."""

    bytes: int = 0
    rows: int = 0
    all: int = 0
    matched: int = 0
    microseconds: float = 0.0
    moments: list[tuple[int, int]] = field(default_factory=list)


def ran(text: str, constraints: Sequence[Constraint], reports: Sequence[pa.Table]) -> Ran:
    """Run a query over the reports, a table for each half minute."""
    running, found, taken = Cql(text).start(time="ts", constraints=list(constraints) or None), Ran(), 0
    for table in reports:
        begun = process_time()
        found.matched += running.push({"CarStr": table}).num_rows
        found.microseconds += 1e6 * (process_time() - begun)
        taken += table.num_rows
        metrics = running.metrics
        found.moments.append((taken, metrics.joins[-1][1].resident_bytes))
    own = metrics.joins[-1][1]
    found.bytes, found.rows, found.all = own.peak_bytes, own.peak_rows, metrics.peak_bytes
    found.microseconds /= taken
    return found


@lru_cache(maxsize=1)
def reports_of(cars: int, seconds: int, seed: int) -> tuple[pa.Table, ...]:
    """The reports of so many cars, which all four queries read."""
    return tuple(car_reports(cars, seconds, ACCIDENTS, seed))


def sweep(conditions: Conditions) -> list[Point]:
    """The four queries, on roads of three sizes."""
    sizes = (QUICK,) if conditions.quick else ROADS
    return [{"cars": cars, "query": name} for cars in sizes for name in TABLE_3]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """What is held, and time per report, with and without constraints."""
    name, cars = point["query"], point["cars"]
    reports = reports_of(cars, QUICK_SECONDS if conditions.quick else SECONDS, seed)
    lines: dict[str, tuple[Constraint, ...]] = {SWJ: (), MINE: ROAD_CONSTRAINTS[name]}
    runs = {line: ran(ROAD_QUERIES[name], constraints, reports) for line, constraints in lines.items()}
    row: dict[str, Any] = {"part": "figures", "ever": 1 + max(pc.max(table["cid"]).as_py() for table in reports)}
    for line, one in runs.items():
        row |= {f"{line} bytes": one.bytes, f"{line} rows": one.rows, f"{line} all": one.all}
        row |= {f"{line} matched": one.matched, f"{line} time": one.microseconds}
    yield row
    for line, one in runs.items():
        for taken, size in one.moments:
            yield {"part": "curve", "line": line, "taken": taken, "bytes": size}


def judge(found: Figures) -> list[Check]:
    """Nearly an order of magnitude less memory, in less time."""
    figures = found.where(part="figures")
    both = list(figures.cells("query", "cars"))
    judged = [cars for cars in figures.distinct("cars") if cars >= JUDGED] or figures.distinct("cars")
    cells = [cell for cars in judged for cell in figures.where(cars=cars).cells("query", "cars")]
    claim = "memory of the join is less than SWJ's by nearly an order of magnitude: at most 20 % of its bytes"
    return [
        replace(at_most(claim, cells, share(MINE), NEARLY_AN_ORDER), why=_why(figures)),
        at_most("a report takes at most the time that it takes SWJ", cells, share(MINE, "time"), 1.0, ".2f"),
        same(both, MINE),
        *(_beside(part) for _, part in both),
        tell("of SWJ's bytes with all that the query holds", cells, share(MINE, "all"), ".3f"),
        tell("million reports per second", cells, lambda row: 1 / row[f"{MINE} time"], ".2f"),
    ]


def _beside(part: Figures) -> Check:
    name, cars = part.rows[0]["query"], part.rows[0]["cars"]
    memory, time = TABLE_3[name]
    told = f"{part.mean(share(MINE)):.3f} and {part.mean(share(MINE, 'time')):.2f}"
    rows = f"{part.mean(f'{MINE} rows'):,.0f} of {part.mean(f'{SWJ} rows'):,.0f} rows"
    ever = f"{cars:,} of {part.mean('ever'):,.0f} cars"
    claim = f"{name}, {ever}, of SWJ's memory and time (the paper: {memory} and {time})"
    return Check(claim, None, f"{told}, {rows}", aside=True)


def _why(figures: Figures) -> str:
    part = figures.where(query="CurCarSeg", cars=max(figures.distinct("cars")))
    return (
        "that CurCarSeg is many-one frees LastRep, which holds every car that ever was, and CurActiveCars, a row for "
        f"each car on the road, stays: {part.mean(f'{MINE} rows'):,.0f} of {part.mean(f'{SWJ} rows'):,.0f} rows. So "
        "its share is that of the cars on the road at once, and follows from how long cars stay and the run takes"
    )


def draw(found: Figures) -> list[Panel]:
    """Memory over the reports that were taken, a panel for each query."""
    return [
        Panel(name, "reports taken", "megabytes held by the join", {
            line: part.curve("taken", _megabytes, line=line) for line in part.distinct("line")
        }, log_y=True)
        for name, part in found.where(part="curve", cars=max(found.distinct("cars"))).cells("query")
    ]  # fmt: skip


def _megabytes(row: Row) -> float:
    return max(1e-6, float(row["bytes"]) / 1e6)


EXPERIMENT = Experiment(
    id="kmon-linear-road",
    paper=PAPER,
    place="table 3",
    claim="four joins of Linear Road take nearly an order of magnitude less memory than SWJ, and less time",
    setting="100,000 and 1,000,000 cars (5,850 and 58,300 at once) that report every 30 s for three hours, by which "
    "the claim is judged, and 34,000 cars (2,000 at once), told beside them; a car stays about ten minutes and "
    "another takes its place; the texts of lab/road_queries.py run batch by batch, a batch for each half minute; "
    "AccSeg is the paper's own text, the others are written from what it says of them, with joins by cid; many-"
    "one joins, and RIDS but for CurCarSeg; time of the processor, one run each",
    sweep=sweep, measure=measure, judge=judge, draw=draw, seeds=1,
)  # fmt: skip
