"""What the experiments on GreedyDual-Join share: streams, lines, one measurement, and the choice of an initial credit.

As in section 5 of its paper: time windows, memory as a share of what the exact join holds at the mean rate, given to
the streams in proportion to their rates, matches counted from the first row on, statistics of the past only. The
generated streams are the paper's: 100 keys, skew 0.75, a row each per minute of a day; a longer run is beside it, since
a day is short for anything that learns. Seeds are draws of generated streams and successive parts of real ones.

The paper does not tell its window; and its AGE knew the best age of every single row beforehand, while this one learns
an age curve for each stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pyarrow as pa

from windrow.analysis.coded import coded
from windrow.analysis.locality import locality
from windrow.analysis.pairs import clustering, pair_of
from windrow.lab.data import Streams
from windrow.lab.experiment import Conditions
from windrow.lab.figures import Figures, Mean, Measure, Row
from windrow.lab.generators import locality_pair
from windrow.lab.joins import Tables, count
from windrow.lab.pictures import Panel
from windrow.lab.real_pairs import GENERATED, pairs
from windrow.lab.verdict import Cells, Check, above, every, tell
from windrow.policies import Age, Fifo, GreedyDual, Policy, Prob, Rand
from windrow.spec import Memory, Query, Stream

PAPER = "GreedyDual-Join (GDJ), adaptive buffers for window joins"
DAY, LONG = "a day, generated", "14 days, generated"
ROWS = {DAY: 1_440, LONG: 20_160}
WINDOWS = {DAY: 100, LONG: 400}
KEYS, SKEW = 100, 0.75
BUFFER = 0.2

REAL_WINDOW = 400
REAL_ROWS = 20_000  # at most, in each of the parts of a real stream
PARTS = 6  # and as many seeds
QUICK_ROWS, QUICK_WINDOW = 300, 40

FAR_BELOW = 0.5  # of the permuted stream's median stack distance: a stream with locality

INITIALS = (0.5, 0.8, 0.95, 0.998)
GDJ, ITSELF = "GDJ", "GDJ by itself"
CREDITS: dict[str, Policy] = {f"GDJ {initial:g}": GreedyDual(initial) for initial in INITIALS}
# of several joins each row has a credit of its own, and percentiles do not lag: lower ones may be the best
CREDITS_BY_ROW: dict[str, Policy] = {"GDJ 0.2": GreedyDual(0.2), **CREDITS}
TUNED: dict[str, Policy] = {**CREDITS, ITSELF: GreedyDual("tuned")}
OTHERS: dict[str, Policy] = {"PROB": Prob(), "AGE": Age(), "RAND": Rand(), "FIFO": Fifo()}
LINES: dict[str, Policy] = {**TUNED, **OTHERS}
SHOWN = (GDJ, ITSELF, *OTHERS)


@dataclass(frozen=True)
class Join:
    """Streams by name, one window in steps for all of them, and what they are joined on: "k", or joins by name."""

    tables: Tables
    window: int
    on: Any = "k"

    @property
    def query(self) -> Query:
        """The exact join; rows are fed in time order, so no stream needs to be waited for."""
        streams = [Stream(name, "t", self.window) for name in self.tables]
        return Query(streams=streams, on=self.on, patience=0)

    def need(self) -> dict[str, float]:
        """The rows of each stream that a window holds at the stream's mean rate."""
        first = min(int(table["t"][0].as_py()) for table in self.tables.values())
        last = max(int(table["t"][-1].as_py()) for table in self.tables.values())
        return {name: self.window * t.num_rows / (last - first + 1) for name, t in self.tables.items()}

    def exact(self) -> int:
        """Matches of the exact join."""
        return count(self.query, self.tables).matched

    def limited(self, policy: Policy, share: float, seed: int = 0, unified: bool = False) -> Query:
        """The join with a share of the memory that the exact one needs: by rate, or all streams in one pool."""
        need = self.need()
        rows = max(len(need), round(share * sum(need.values())))
        return self.query.with_(memory=Memory(rows, split=None if unified else need), policy=policy, seed=seed)

    def matched(self, policy: Policy, share: float, seed: int = 0, unified: bool = False) -> int:
        """Matches of such a join."""
        return count(self.limited(policy, share, seed, unified), self.tables).matched

    def recalls(self, share: float, seed: int, lines: Mapping[str, Policy] = LINES) -> dict[str, float]:
        """What each line gives, as a share of the exact join."""
        exact = self.exact()
        found = {line: self.matched(policy, share, seed) / max(1, exact) for line, policy in lines.items()}
        return {"EXACT": exact, **found}


def generated(
    streams: str, seed: int, conditions: Conditions, keys: int = KEYS, skew: float = SKEW, window: int | None = None
) -> Join:
    """The generated streams of one length."""
    rows = QUICK_ROWS if conditions.quick else ROWS[streams]
    left, right = locality_pair(rows, keys, skew, seed=seed)
    return Join({"left": left, "right": right}, window or (QUICK_WINDOW if conditions.quick else WINDOWS[streams]))


def real(name: str, part: int, conditions: Conditions, window: int | None = None) -> Join:
    """One part of a real pair: of so many, from one moment to another on both streams."""
    found = _part(pairs(conditions.data)[name], part, QUICK_ROWS if conditions.quick else REAL_ROWS)
    return Join(found, window or (QUICK_WINDOW if conditions.quick else REAL_WINDOW))


def _part(streams: Streams, part: int, most: int) -> Tables:
    rows = min(most, streams.left.num_rows // PARTS)
    left = streams.left.slice(part % PARTS * rows, rows)
    times = streams.right["t"].to_numpy()
    start, end = times.searchsorted([left["t"][0].as_py(), left["t"][-1].as_py() + 1])
    return {"left": left, "right": streams.right.slice(int(start), int(end - start))}


def join_of(streams: str, seed: int, conditions: Conditions, window: int | None = None) -> Join:
    """The join of that name, generated or real."""
    if streams in ROWS:
        return generated(streams, seed, conditions, window=window)
    return real(streams, seed, conditions, window)


def names(conditions: Conditions) -> list[str]:
    """The streams: generated ones, and all real ones that there are."""
    if conditions.quick:
        return [DAY]
    return [DAY, LONG, *(name for name in pairs(conditions.data) if name != GENERATED)]


def source(conditions: Conditions) -> str:
    """What the streams are."""
    told = [one.source for name, one in pairs(conditions.data).items() if name != GENERATED]
    return "; ".join(["generated streams with locality", *told])


@cache
def nature(streams: str, seed: int, conditions: Conditions) -> dict[str, float]:
    """How local streams are: the median stack distance over the permuted stream's, and how far matches cluster.

    J is the number of matches in the window over that after permuting each stream's keys.
    """
    join = join_of(streams, seed, conditions)
    left, right = coded(join.query, join.tables)
    stack = locality(left, right, join.window, seed).stack
    assert stack.found is not None and stack.permuted is not None
    depth = (stack.found.median + 1) / (stack.permuted.median + 1)
    return {"depth": depth, "J": clustering(pair_of([left, right], join.window), seed).j or 1.0}


# --------------------------------------------------------------------------------------------------- figures


def local(found: Figures) -> tuple[Figures, Figures]:
    """The streams with locality, generated with it or by the bound of the experiment `locality`, and the rest."""
    near = {name for name, part in found.cells("streams") if name in ROWS or part.mean("depth").value <= FAR_BELOW}
    inside, beyond = ([row for row in found.rows if (row["streams"] in near) is side] for side in (True, False))
    return Figures(inside), Figures(beyond)


def nature_of(found: Figures) -> str:
    """What GDJ gives of PROB on each set of streams, beside how local it is."""
    told = sorted((part.mean(over(GDJ, "PROB")).value, name, part) for name, part in found.cells("streams"))
    return "GDJ / PROB, beside J, how far matches cluster: " + ", ".join(
        f"{name} {ratio:.2f} at J = {part.mean('J').value:.2f}" for ratio, name, part in told
    )


def chosen(found: Figures, by: str = "streams", credits: Iterable[str] = CREDITS) -> Figures:
    """The figures with a line GDJ: its initial credit is, for each set of streams, the one that gave the most there.

    That is hindsight, and what the paper has done: one percentile for each data set, found by trying.
    """
    rows: list[Row] = []
    for _, part in found.cells(by):
        best = max(credits, key=lambda line: part.mean(line).value)
        rows += [{**row, GDJ: row[best], "initial": float(best.removeprefix("GDJ "))} for row in part.rows]
    return Figures(rows)


def over(top: str, bottom: str) -> Measure:
    """One line over another, run by run."""
    return lambda row: float(row[top]) / max(float(row[bottom]), 1e-9)


def ahead(claim: str, cells: Cells, top: str, bottom: str) -> Check:
    """A check that one line gives at least what another gives in every cell, told with the cells where it does not."""
    truths = [(label, above(part.mean(over(top, bottom)), 1.0), part.mean(over(top, bottom))) for label, part in cells]
    won = sum(truth is True for _, truth, _ in truths)
    lost = sum(truth is False for _, truth, _ in truths)
    low, high = (pick(truths, key=lambda found: found[2].value) for pick in (min, max))
    told = f"more in {won}, less in {lost} of {len(truths)}; {low[2]:.2f} ({low[0]}) to {high[2]:.2f} ({high[0]}) times"
    return Check(claim, every(truth for _, truth, _ in truths), told)


def order(cells: Cells) -> list[Check]:
    """The paper's order: GDJ > PROB > AGE, RAND; and what GDJ gives when it finds its initial credit by itself."""
    beside = ahead("a GDJ that tunes itself gives more than PROB", cells, ITSELF, "PROB")
    return [
        ahead("GDJ gives more than PROB", cells, GDJ, "PROB"),
        ahead("PROB gives more than AGE", cells, "PROB", "AGE"),
        ahead("PROB gives more than RAND", cells, "PROB", "RAND"),
        replace(beside, aside=True),
    ]


def judge_local(found: Figures, *by: str) -> list[Check]:
    """The order on streams with locality, and beside it the rest."""
    found = chosen(found)
    near, far = local(found)
    first, *others = order(list(near.cells("streams", *by)))
    rest = list(far.cells("streams", *by))
    claim = "on streams without locality, GDJ gives more than PROB"
    beside = [replace(ahead(claim, rest, GDJ, "PROB"), aside=True)] if rest else []
    return [
        replace(first, why=nature_of(found)), *others, *beside,
        tell("the initial credit that gave the most", list(found.cells("streams")), "initial", ".3g"),
        tell("median stack distance over the permuted", list(found.cells("streams")), "depth", ".2f"),
    ]  # fmt: skip


def recall_panels(found: Figures, x: str, label: str, by: str = "streams", log_x: bool = False) -> list[Panel]:
    """Recall over a parameter, a panel for each set of streams."""
    return [
        Panel(name, label, "share of the exact join", _curves(part, x, SHOWN), percent=True, log_x=log_x)
        for name, part in found.cells(by)
    ]


def _curves(part: Figures, x: str, lines: Iterable[str]) -> dict[str, list[tuple[float, Mean]]]:
    return {line: part.curve(x, line) for line in lines if any(line in row for row in part.rows)}


def tables(streams: Iterable[pa.Table]) -> Tables:
    """Streams by their number."""
    return {f"s{i}": table for i, table in enumerate(streams)}
