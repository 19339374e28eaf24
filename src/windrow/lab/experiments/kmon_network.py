"""kmon-network: packets on three links, the paper's first example."""

from __future__ import annotations

from collections.abc import Iterator

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row
from windrow.lab.kmon_joins import PAPER, SWJ, Join, same, share
from windrow.lab.pictures import Panel
from windrow.lab.traffic import network_links
from windrow.lab.verdict import Check, at_most, tell
from windrow.spec import Constraint, Integrity, Query, Stream, Unique

MINUTES = 10
SECONDS = 1_200
RATES = (1_000.0, 10_000.0, 1_000.0)
LATENCY = "500 ms"
ORDERS = 0.01  # of SWJ's bytes: two orders of magnitude
RESULT_BYTES = 16  # a value and when it leaves, which a sum over the window keeps for each match
MINE = "k-Mon"

ONE_ONE = tuple(Unique(link, "pid") for link in "CBO")
CONSTRAINTS: tuple[Constraint, ...] = (
    *ONE_ONE,
    Integrity("C", "B", LATENCY),
    Integrity("B", "O", LATENCY),
    Integrity("B", "C", 0),
    Integrity("O", "B", 0),
)
LINES: dict[str, tuple[Constraint, ...]] = {SWJ: (), "one-one": ONE_ONE, MINE: CONSTRAINTS}


def sweep(conditions: Conditions) -> list[Point]:
    """The paper's rates."""
    return [{"rows per second": sum(RATES)}]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """What is held without constraints, with one-one joins alone, and with the latencies of the links."""
    part = 60 if conditions.quick else 1
    tables = network_links(SECONDS / part, RATES, seed=seed)
    window = f"{60 * MINUTES // part} seconds"
    streams = [Stream(name, "ts", window) for name in tables]
    query = Query(streams=streams, on=["C.pid = B.pid", "B.pid = O.pid"], select=[("C.size", "size")], patience="0 s")
    join = Join(query, tables)
    found = {line: join.held(constraints) for line, constraints in LINES.items()}
    row = {key: value for line, one in found.items() for key, value in one.figures(line).items()}
    in_window = found[SWJ].metrics.matched * 60 * MINUTES / SECONDS
    yield {"part": "figures", **row, "results bytes": RESULT_BYTES * in_window}
    for line, one in found.items():
        for taken, size, rows in one.moments:
            yield {"part": "curve", "line": line, "taken": taken, "bytes": size, "rows": rows}


def judge(found: Figures) -> list[Check]:
    """Two orders of magnitude."""
    cells = list(found.where(part="figures").cells("part"))
    return [
        at_most("the join holds at most a hundredth of SWJ's bytes", cells, share(MINE), ORDERS, ".3%"),
        at_most(
            "with what a sum over ten minutes keeps of each match, too", cells,
            lambda row: (row[f"{MINE} bytes"] + row["results bytes"]) / row[f"{SWJ} bytes"], ORDERS, ".3%",
        ),
        same(cells, MINE, "one-one"),
        tell("peak bytes over SWJ's peak", cells, share(MINE, "peak bytes"), ".3%"),
        tell("megabytes of SWJ (the paper: 72, in rows of 10 bytes)", cells, lambda r: r[f"{SWJ} bytes"] / 1e6, ",.0f"),
        tell("rows of SWJ", cells, f"{SWJ} rows", ",.0f"),
        tell("megabytes with constraints (the paper: 0.18, matched rows alone)", cells,
             lambda row: (row[f"{MINE} bytes"] + row["results bytes"]) / 1e6, ".2f"),
        tell("rows with constraints", cells, f"{MINE} rows", ",.0f"),
        tell("bytes with one-one joins alone over SWJ's", cells, share("one-one")),
    ]  # fmt: skip


def draw(found: Figures) -> list[Panel]:
    """Memory over the rows that were taken."""
    curves = found.where(part="curve")
    lines = {line: curves.curve("taken", lambda row: row["bytes"] / 1e6, line=line) for line in LINES}
    return [Panel("three links", "rows taken", "megabytes held", lines, log_y=True)]


EXPERIMENT = Experiment(
    id="kmon-network",
    paper=PAPER,
    place="section 1.1",
    claim="three links, 10-minute windows: constraints take memory down by two orders of magnitude",
    setting="20 minutes of 1,000, 10,000 and 1,000 packets per second on C, B, O; 10 % of a link go on to the next "
    "after at most 0.5 s; one-one joins, RIDS(0.5 s) onward and RIDS(0) backward",
    sweep=sweep, measure=measure, judge=judge, draw=draw, seeds=1,
)  # fmt: skip
