"""GDJ-unified: two joins in one memory, of which one is worth more than the other.

Both joins are joins by name of one query, so that credits and probabilities of all rows compare. In proportion to the
rates, each stream of each join has its own quarter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row
from windrow.lab.gdj_joins import (
    CREDITS_BY_ROW,
    DAY,
    GDJ,
    ITSELF,
    KEYS,
    LONG,
    OTHERS,
    PAPER,
    QUICK_ROWS,
    QUICK_WINDOW,
    ROWS,
    SKEW,
    WINDOWS,
    Join,
    ahead,
    chosen,
)
from windrow.lab.generators import locality_pair
from windrow.lab.joins import count
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check, inside, tell
from windrow.policies import GreedyDual

SHARES = (0.05, 0.1, 0.2, 0.4)
ALIKE = (0.95, 1.05)
LINES = {**CREDITS_BY_ROW, ITSELF: GreedyDual("tuned")}
PAIRS = {"direct": "correlated", "inverse": "anticorrelated"}


def sweep(conditions: Conditions) -> list[Point]:
    """All buffers, in a short and a long run."""
    shares = (0.1, 0.3) if conditions.quick else SHARES
    return [{"streams": s, "buffer": b} for s in ((DAY,) if conditions.quick else (DAY, LONG)) for b in shares]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Recall of both joins together, by rate and in one memory."""
    both = _both(point["streams"], seed, conditions)
    parts = count(both.query, both.tables).joins
    exact = sum(parts.values())
    share = point["buffer"]
    found = {line: both.matched(policy, share, seed, unified=True) for line, policy in LINES.items()}
    for line in ("PROB", "RAND"):
        found[f"{line}V"] = both.matched(OTHERS[line], share, seed, unified=True)
        found[line] = both.matched(OTHERS[line], share, seed)
    for line, policy in CREDITS_BY_ROW.items():
        found[f"PROP {line}"] = both.matched(policy, share, seed)
    told = {"EXACT": exact, "DC / IC": parts["direct"] / max(1, parts["inverse"])}
    yield {**told, **{line: value / max(1, exact) for line, value in found.items()}}


def _both(streams: str, seed: int, conditions: Conditions) -> Join:
    """A directly and an inversely correlated pair, each joined by itself."""
    rows, window = (QUICK_ROWS, QUICK_WINDOW) if conditions.quick else (ROWS[streams], WINDOWS[streams])
    tables: dict[str, pa.Table] = {}
    on = {}
    for i, (name, correlation) in enumerate(PAIRS.items()):
        left, right = locality_pair(rows, KEYS, SKEW, SKEW, correlation, 2 * seed + i)
        tables |= {f"{name}_left": left, f"{name}_right": right}
        on[name] = [f"{name}_left.k = {name}_right.k"]
    return Join(tables, window, on)


def judge(found: Figures) -> list[Check]:
    """Unified GDJ before PROB by rate; RAND as before."""
    found = _named(found)
    cells = list(found.cells("streams", "buffer"))
    alike = inside("RAND gives the same in one memory, to 5 %", cells, lambda row: row["RANDV"] / row["RAND"], *ALIKE)
    asides = [
        ahead("GDJ in one memory gives more than GDJ by rate", cells, GDJ, "GDJ by rate"),
        ahead("PROB in one memory gives more than PROB by rate", cells, "PROBV", "PROB"),
        ahead("GDJ in one memory gives more than PROB in one memory", cells, GDJ, "PROBV"),
        ahead("a GDJ that tunes itself gives more than PROB by rate", cells, ITSELF, "PROB"),
    ]
    worth = found.mean("DC / IC")
    return [
        ahead("GDJ in one memory gives more than PROB by rate", cells, GDJ, "PROB"),
        alike,
        *(replace(check, aside=True) for check in asides),
        tell("the initial credit that gave the most", list(found.cells("streams")), "initial", ".3g"),
        Check("exact matches of the correlated join over those of the inverse one", None, f"{worth:.1f}", aside=True),
    ]


def _named(found: Figures) -> Figures:
    """GDJ with the best initial credit of one memory, and the best by rate beside it."""
    rows: list[Row] = []
    for _, part in chosen(found, credits=CREDITS_BY_ROW).cells("streams"):
        best = max((f"PROP {line}" for line in CREDITS_BY_ROW), key=lambda line: part.mean(line).value)
        rows += [{**row, "GDJ by rate": row[best]} for row in part.rows]
    return Figures(rows)


def draw(found: Figures) -> list[Panel]:
    """Recall over memory; a V is one memory for both joins."""
    lines = {GDJ: "GDJV", "GDJ by rate": "GDJ", "PROBV": "PROBV", "PROB": "PROB", "RANDV": "RANDV", "RAND": "RAND"}
    return [
        Panel(
            f"{name}; V: one memory", "buffer, share of what the exact joins need", "share of the exact joins",
            {shown: part.curve("buffer", line) for line, shown in lines.items()}, percent=True,
        )
        for name, part in _named(found).cells("streams")
    ]  # fmt: skip


EXPERIMENT = Experiment(
    id="gdj-unified",
    paper=PAPER,
    place="fig 6",
    claim="two joins, one correlated, one inversely: GDJ in one memory > PROB in proportion to rates; RAND indifferent",
    setting="four streams, 100 keys, skew and shape 0.75, 1,440 rows a stream with w = 100 and 20,160 with w = 400, "
    "buffers of 5 to 40 %; GDJ with the best of five initial credits per length",
    sweep=sweep, measure=measure, judge=judge, draw=draw, seeds=16,
)  # fmt: skip
