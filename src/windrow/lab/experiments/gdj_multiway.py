"""GDJ-multiway: what becomes of the policies as more streams are joined."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Mean, Measure, Row, mean
from windrow.lab.gdj_joins import (
    BUFFER,
    DAY,
    GDJ,
    ITSELF,
    KEYS,
    OTHERS,
    PAPER,
    PARTS,
    QUICK_ROWS,
    ROWS,
    SKEW,
    TUNED,
    Join,
    chosen,
    recall_panels,
    tables,
)
from windrow.lab.generators import locality_stream
from windrow.lab.pictures import Panel
from windrow.lab.real_pairs import stations
from windrow.lab.verdict import Check, above, at_least, every, tell

FOUR = "4 days, generated"
STATIONS = "stations"
MOST = 5
WINDOW = 100
LENGTHS = {DAY: ROWS[DAY], FOUR: 4 * ROWS[DAY]}
LINES = {**TUNED, **{line: OTHERS[line] for line in ("PROB", "RAND")}}  # AGE is for two streams


def sweep(conditions: Conditions) -> list[Point]:
    """Two to five streams."""
    real = [STATIONS] if conditions.data is not None else []
    sets = [DAY] if conditions.quick else [DAY, FOUR, *real]
    numbers = (2, 3) if conditions.quick else range(2, MOST + 1)
    return [{"streams": name, "n": n} for name in sets for n in numbers]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Recall of every line at a fifth of the memory; the first streams stay the same as more are added."""
    yield _join(point["streams"], point["n"], seed, conditions).recalls(BUFFER, seed, LINES)


def _join(name: str, n: int, seed: int, conditions: Conditions) -> Join:
    if name == STATIONS and conditions.data is not None:
        return Join(tables(_between(stations(conditions.data, n), seed)), WINDOW)
    rows = QUICK_ROWS if conditions.quick else LENGTHS[name]
    drawn = (locality_stream(rows, KEYS, SKEW, SKEW, seed=MOST * seed + i, ranking=seed) for i in range(n))
    return Join(tables(drawn), WINDOW)


def _between(streams: list[pa.Table], part: int) -> Iterator[pa.Table]:
    """One of several equal parts of the time of all streams."""
    end = 1 + max(int(table["t"][-1].as_py()) for table in streams)
    bounds = [end * (part % PARTS + i) // PARTS for i in (0, 1)]
    for table in streams:
        start, after = table["t"].to_numpy().searchsorted(bounds)
        yield table.slice(int(start), int(after - start))


def judge(found: Figures) -> list[Check]:
    """GDJ before PROB and RAND at every number of streams, and its recall falls by the least."""
    found = chosen(found)
    cells = list(found.cells("streams", "n"))
    return [
        at_least("GDJ gives more than PROB, in points of recall", cells, _more(GDJ, "PROB"), 0.0),
        at_least("GDJ gives more than RAND, in points of recall", cells, _more(GDJ, "RAND"), 0.0),
        _kept(found, "PROB"),
        _kept(found, "RAND"),
        tell("what a GDJ that tunes itself gives more than PROB", cells, _more(ITSELF, "PROB")),
    ]


def _more(top: str, bottom: str) -> Measure:
    """A difference and not a ratio: with many streams a policy can be left with next to nothing."""
    return lambda row: float(row[top] - row[bottom])


def _kept(found: Figures, other: str) -> Check:
    """What is left of the recall of two streams with the most streams, against another policy's."""
    truths, told = [], []
    most = max(found.distinct("n"))
    for name, part in found.cells("streams"):
        mine, theirs, more = _left(part, most, other)
        truths.append(above(more, 0.0))
        told.append(f"{mine:.1%} against {theirs:.1%} ({name})")
    claim = f"from 2 streams to {most}, GDJ keeps more of its recall than {other}"
    return Check(claim, every(truths), ", ".join(told))


def _left(part: Figures, most: int, other: str) -> tuple[Mean, Mean, Mean]:
    shares = []
    for _, runs in part.cells("seed"):
        ends = [runs.where(n=n).rows[0] for n in (2, most)]
        shares.append([ends[1][line] / max(ends[0][line], 1e-9) for line in (GDJ, other)])
    mine, theirs = zip(*shares, strict=True)
    return mean(mine), mean(theirs), mean([one - two for one, two in shares])


def draw(found: Figures) -> list[Panel]:
    """Recall over the number of streams."""
    return recall_panels(chosen(found), "n", "streams joined")


def _source(conditions: Conditions) -> str:
    told = "generated streams with locality"
    return told if conditions.data is None else f"{told}; hourly dewpoint at five stations in Beijing, 2013 to 2017"


EXPERIMENT = Experiment(
    id="gdj-multiway",
    paper=PAPER,
    place="fig 7, streams",
    claim="GDJ gives the most and degrades least with 2 to 5 streams joined on one key",
    setting="2 to 5 streams, w = 100, buffer 20 %, 100 keys ranked alike, skew and shape 0.75, 1,440 and 5,760 rows a "
    "stream; six parts of the real streams; GDJ with the best of four initial credits per set",
    sweep=sweep, measure=measure, judge=judge, draw=draw, source=_source, seeds=PARTS, real=True,
)  # fmt: skip
