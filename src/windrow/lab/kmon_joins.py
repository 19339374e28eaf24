"""Joins of the k-constraints paper, with and without constraints: what they hold while they run, and its judgement.

Streams are those of figure 3: (a) S1 -> S2, S1 -> S3; (b) S1 -> S3, S2 -> S3; (c) S1 -> S2. Children have a filter that
half of the rows pass. Rows are given out as three columns of 8 bytes. SWJ, the sliding-window join, is the same query
without constraints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine import Engine, Metrics
from windrow.lab.constrained import Edge, fan_streams, star_streams
from windrow.lab.experiment import Conditions, Point
from windrow.lab.figures import Figures, Mean, Measure, Row
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Cells, Check, Truth, at_most, below, every, tell
from windrow.spec import Constraint, Filter, Monitored, Query, Stream, Window

PAPER = "k-Mon, k-constraints in continuous queries"
KS = (0, 1_000, 5_000, 10_000, 20_000)
WINDOW = 50_000
ROWS = 1_200_000
SMALLER = 100  # times, in a quick run
SEEDS = 3
SLICES = 60
MORE = 1.2  # times the rows that are taken are generated: streams go on where a run ends
MULTIPLICITY = 5
PASS = 50  # percent of the children pass their filter

SWJ, MANY_ONE = "SWJ", "many-one"

Tables = Mapping[str, pa.Table]
Constraints = Sequence[Constraint] | Monitored


@dataclass(frozen=True)
class Held:
    """What a join held at some moments, and its counters at the end."""

    moments: Sequence[tuple[int, int, int]]
    """Rows taken, bytes and rows held."""
    metrics: Metrics

    @property
    def steady(self) -> tuple[float, float]:
        """Bytes and rows, in the mean over the second half."""
        late = self.moments[len(self.moments) // 2 :]
        return sum(m[1] for m in late) / len(late), sum(m[2] for m in late) / len(late)

    def figures(self, line: str) -> dict[str, Any]:
        """The columns of one line."""
        size, rows = self.steady
        return {
            f"{line} bytes": size, f"{line} rows": rows, f"{line} peak bytes": self.metrics.peak_bytes,
            f"{line} peak rows": self.metrics.peak_rows, f"{line} matched": self.metrics.matched,
            f"{line} released": self.metrics.released,
        }  # fmt: skip


@dataclass(frozen=True)
class Join:
    """A query without constraints, and its streams in order of time; `rows` of them are taken, all if that is None."""

    query: Query
    tables: Tables
    rows: int | None = None

    def engine(self, constraints: Constraints = (), count_only: bool = False) -> Engine:
        """An engine with these constraints."""
        schemas = {name: table.schema for name, table in self.tables.items()}
        given = constraints if isinstance(constraints, Monitored) else tuple(constraints) or None
        query = self.query.with_(constraints=given)
        return Engine(query, schemas, recall=False, count_only=count_only)

    def slices(self, count: int = SLICES) -> Iterator[dict[str, pa.Table]]:
        """All rows in parts of about the same number, each up to a moment of all streams."""
        times = {stream.name: self.tables[stream.name][stream.time].to_numpy() for stream in self.query.streams}
        every_one = np.sort(np.concatenate(list(times.values())))
        taken = len(every_one) if self.rows is None else min(self.rows, len(every_one))
        cuts = every_one[np.linspace(0, taken - 1, count + 1).astype(int)[1:]]
        ends = {name: [0, *np.searchsorted(mine, cuts, side="right")] for name, mine in times.items()}
        for k in range(count):
            yield {
                name: table.slice(ends[name][k], ends[name][k + 1] - ends[name][k])
                for name, table in self.tables.items()
            }

    def seconds(self, constraints: Constraints = (), count_only: bool = False) -> float:
        """Processor time per row over the second half, when the windows are full."""
        engine, parts = self.engine(constraints, count_only), list(self.slices())
        half = len(parts) // 2
        for part in parts[:half]:
            engine.push(part)
        begin = process_time()
        for part in parts[half:]:
            engine.push(part)
        rows = sum(table.num_rows for part in parts[half:] for table in part.values())
        return (process_time() - begin) / max(1, rows)

    def held(self, constraints: Constraints = (), count_only: bool = False) -> Held:
        """Run it, and look at its memory after every slice."""
        engine, moments, taken = self.engine(constraints, count_only), [], 0
        for part in self.slices():
            engine.push(part)
            taken += sum(table.num_rows for table in part.values())
            now = engine.metrics
            moments.append((taken, now.resident_bytes, now.resident_rows))
        return Held(moments, engine.metrics)


def streams_query(
    tables: Tables, on: Sequence[str], children: Sequence[str], window: int | None, passing: int = PASS
) -> Query:
    """A query over generated streams: windows in rows, a filter on each child, three columns of every stream."""
    streams, select = [], []
    for name, table in tables.items():
        where = [Filter("f", "<", passing)] if name in children else []
        extent = Window.unbounded() if window is None else Window.rows(window)
        streams.append(Stream(name, "t", extent, where=where))
        select += [(f"{name}.{column}", f"{name}_{column}") for column in table.column_names[:3]]
    return Query(streams=streams, on=list(on), select=select, order="arrival")


def star(edges: Sequence[Edge], seed: int, rows: int = ROWS, window: int | None = WINDOW, passing: int = PASS) -> Join:
    """Graph (a), or (c) for one edge."""
    tables = star_streams(int(rows * MORE), edges, seed)
    children = [name for name in tables if name != "S1"]
    on = [f"S1.{tables[name].column_names[1]} = {name}.{tables[name].column_names[1]}" for name in children]
    return Join(streams_query(tables, on, children, window, passing), tables, rows)


def fan(edges: Sequence[Edge], seed: int, rows: int = ROWS, window: int | None = WINDOW, passing: int = PASS) -> Join:
    """Graph (b)."""
    tables = fan_streams(int(rows * MORE), edges, seed)
    *parents, child = tables
    on = [f"{name}.A = {child}.A" for name in parents]
    return Join(streams_query(tables, on, [child], window, passing), tables, rows)


def smaller(conditions: Conditions, count: int) -> int:
    """A number of rows, or a hundredth of it in a quick run."""
    return count // SMALLER if conditions.quick else count


# ---------------------------------------------------------------------------------- memory over k, figures 4, 6, 8, 20


@dataclass(frozen=True)
class Series:
    """A figure that shows memory for several k: the join of each, its constraints, and the many-one joins alone."""

    name: str
    join: Callable[[int, int, int, int], Join]  # k, seed, rows, window
    constraints: Callable[[int], Constraints]
    many_one: Constraints

    def sweep(self, conditions: Conditions) -> list[Point]:
        """Every k."""
        return [{"k": smaller(conditions, k)} for k in (KS[:3] if conditions.quick else KS)]

    def made(self, k: int, seed: int, conditions: Conditions) -> Join:
        """The join whose streams keep k exactly."""
        return self.join(k, seed, smaller(conditions, ROWS), smaller(conditions, WINDOW))

    def measure(self, point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
        """What is held under the constraints, under the many-one joins alone, and without any."""
        join = self.made(point["k"], seed, conditions)
        lines = {SWJ: (), MANY_ONE: self.many_one, self.name: self.constraints(point["k"])}
        found = {line: join.held(constraints) for line, constraints in lines.items()}
        yield {"part": "figures", **{k: v for line, one in found.items() for k, v in one.figures(line).items()}}
        for line, one in found.items():
            for taken, size, rows in one.moments:
                yield {"part": "curve", "line": line, "taken": taken, "bytes": size, "rows": rows}

    def judge(self, found: Figures, far: float, why: Callable[[Figures], str]) -> list[Check]:
        """Far below SWJ at every k, growing with k, and the same answer; `why` tells what else is held."""
        figures = found.where(part="figures")
        cells = list(figures.cells("k"))
        claim = f"memory is far below SWJ's at every k: at most {far:.0%} of its bytes"
        low = at_most(claim, cells, share(self.name), far)
        return [
            Check(low.claim, low.holds, low.found, why="" if low.holds else why(figures)),
            rising(figures, self.name),
            same(cells, self.name),
            tell("peak bytes over SWJ's peak", cells, share(self.name, "peak bytes")),
            tell("rows over SWJ's", cells, share(self.name, "rows")),
            tell("bytes with many-one joins alone over SWJ's", cells, share(MANY_ONE)),
            tell("bytes, thousands", cells, lambda row: row[f"{self.name} bytes"] / 1e3, ",.0f"),
        ]

    def draw(self, found: Figures) -> list[Panel]:
        """Memory over the rows that were taken, and the share of SWJ's over k."""
        curves = found.where(part="curve")
        largest = curves.where(k=max(curves.distinct("k")))
        lines = {line: largest.curve("taken", megabytes, line=line) for line in (SWJ, MANY_ONE)}
        for k in curves.distinct("k"):
            lines[f"{self.name}({k:,})"] = curves.curve("taken", megabytes, k=k, line=self.name)
        figures = found.where(part="figures")
        shares = {line: figures.curve("k", share(line)) for line in (MANY_ONE, self.name)}
        return [
            Panel("while it runs", "rows taken", "megabytes held", lines, log_y=True),
            Panel("steady state", "k", "of SWJ's bytes", shares, percent=True),
        ]


def megabytes(row: Row) -> float:
    """Bytes of a moment."""
    return float(row["bytes"]) / 1e6


def share(line: str, what: str = "bytes", of: str = SWJ) -> Measure:
    """What a line holds, over another's."""
    return lambda row: float(row[f"{line} {what}"]) / max(1.0, float(row[f"{of} {what}"]))


def same(cells: Cells, *lines: str) -> Check:
    """A check that lines give as many matches as SWJ in every run."""
    rows = [row for _, part in cells for row in part.rows]
    off = max(abs(row[f"{line} matched"] - row[f"{SWJ} matched"]) for row in rows for line in lines)
    least = min(row[f"{SWJ} matched"] for row in rows)
    return Check("the answer is SWJ's", off == 0, f"at most {off:,} matches off, of at least {least:,} in every run")


def rising(figures: Figures, line: str) -> Check:
    """A check that memory grows with k."""
    steps = figures.distinct("k")
    truths: list[Truth] = []
    for before, after in pairwise(steps):
        truths.append(_negative(figures.step(f"{line} bytes", {"k": before}, {"k": after})))
    told = ", ".join(f"{figures.mean(share(line), k=k):.1%}" for k in steps)
    return Check("memory grows with k", every(truths), f"{told} of SWJ at k = {', '.join(f'{k:,}' for k in steps)}")


def _negative(step: Mean) -> Truth:
    """Whether a step goes up: its opposite is below 0."""
    return below(Mean(-step.value, -step.high, -step.low), 0.0)
