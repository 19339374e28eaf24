"""GDJ-sampling: rows dropped at random in front of the buffer, for a result whose keys spread like the exact one's.

Each drop probability gives a policy a point (distortion, output), and all of them a curve. Two policies are compared at
the same distortion, and not at the same probability:

    output |          .--- GDJ         at d: the most output that a curve has with a distortion of at most d,
           |      .-'    ._--- PROB    by straight lines between points
           |   .:'.--''                d:    at several places of the range of distortions that both curves have
           +------d---------> distortion

The unbiased sampler drops so much that memory never fills: policies have nothing to choose, and what distortion is left
is the noise of a small result. The paper's range ends before it, and so do the claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Literal

import numpy as np

from windrow.engine import Engine
from windrow.feed import run
from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Mean, Row
from windrow.lab.gdj_joins import (
    BUFFER,
    GDJ,
    ITSELF,
    LONG,
    PAPER,
    PARTS,
    SHOWN,
    TUNED,
    Join,
    ahead,
    chosen,
    join_of,
    local,
    names,
    nature,
    nature_of,
    over,
    source,
)
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check, below, every, tell
from windrow.policies import Fifo, Policy, Prob, Rand
from windrow.quality.distortion import distortion_of_counts
from windrow.spec import Query

UNBIASED: Literal["unbiased"] = "unbiased"
DROPS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, UNBIASED)
MEASURES = ("SSE", "KL")
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)  # of the way from the least to the largest distortion that both curves have
LINES: dict[str, Policy] = {**TUNED, "PROB": Prob(), "RAND": Rand(), "FIFO": Fifo()}


def sweep(conditions: Conditions) -> list[Point]:
    """All drop probabilities on all streams."""
    drops = (0.0, 0.4, UNBIASED) if conditions.quick else DROPS
    return [{"streams": name, "drop": drop} for name in names(conditions) for drop in drops]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Recall and distortion of every line at a fifth of the memory, and the share of rows that were dropped."""
    join = join_of(point["streams"], seed, conditions)
    exact = _exact(point["streams"], seed, conditions)
    row: dict[str, float] = {"EXACT": int(exact.sum())}
    for line, policy in LINES.items():
        query = join.limited(policy, BUFFER, seed).with_(sample=point["drop"])
        found, row["dropped"] = _by_key(query, join)
        spread = distortion_of_counts(found, exact)
        row |= {line: int(found.sum()) / max(1, row["EXACT"]), f"SSE {line}": spread.sse, f"KL {line}": spread.kl}
    yield {**row, **nature(point["streams"], seed, conditions)}


@cache
def _exact(streams: str, seed: int, conditions: Conditions) -> np.ndarray:
    join = join_of(streams, seed, conditions)
    return _by_key(join.query, join)[0]


def _by_key(query: Query, join: Join) -> tuple[np.ndarray, float]:
    """How many matches each key of the streams has, and the share of the rows that the sampler left out."""
    keys = np.unique(np.concatenate([table["k"].to_numpy() for table in join.tables.values()]))
    schemas = {name: table.schema for name, table in join.tables.items()}
    engine = Engine(query.with_(select=["left.k"]), schemas, recall=False)
    counts = np.zeros(len(keys), np.int64)
    for matches in run(engine, join.tables):
        counts += np.bincount(np.searchsorted(keys, matches["k"].to_numpy()), minlength=len(keys))
    return counts, engine.metrics.sampled / engine.metrics.arrived


# ------------------------------------------------------------------------------------------ equal distortion


def most_output(curve: Sequence[tuple[float, float]], limit: float) -> float:
    """The most output on a curve of points (distortion, output) that has no more than a distortion.

    Between neighbouring points the curve is a straight line.

    >>> most_output([(4.0, 100.0), (2.0, 60.0), (1.0, 10.0)], 3.0)
    80.0
    """
    reached = [output for distortion, output in curve if distortion <= limit]
    for (d, a), (e, b) in pairwise(curve):
        if min(d, e) < limit < max(d, e):
            reached.append(a + (b - a) * (limit - d) / (e - d))
    return max(reached)


def at_equal(found: Figures, measure: str, lines: Iterable[str]) -> Figures:
    """The output of some lines at the same distortions: rows by streams, seed and level."""
    rows: list[Row] = []
    for name in found.distinct("streams"):
        for seed in found.distinct("seed"):
            points = found.where(streams=name, seed=seed).rows
            curves = {line: [(row[f"{measure} {line}"], row[line]) for row in points] for line in lines}
            ends = [[pick(d for d, _ in curve) for curve in curves.values()] for pick in (min, max)]
            low = max(ends[0])  # every curve has a point up to here, and where they share no range, this one is left
            high = max(low, min(ends[1]))
            rows += [
                {"streams": name, "seed": seed, "J": points[0]["J"], measure: level} | {
                    line: most_output(curve, low + level * (high - low)) for line, curve in curves.items()
                }
                for level in LEVELS
            ]  # fmt: skip
    return Figures(rows)


def judge(found: Figures) -> list[Check]:
    """What dropping more does to GDJ and PROB, and which of them gives more at the same distortion."""
    found = _chosen(found)
    near, far = local(found)
    spread = [_falls(near, f"{measure} {{}}", f"less {measure}") for measure in MEASURES]
    asides = [_dominates(near, "SSE", ITSELF, "a GDJ that tunes itself")]
    if far.rows:
        asides += [
            *(_falls(far, f"{measure} {{}}", f"less {measure}, on streams without locality") for measure in MEASURES),
            *(_dominates(far, measure, GDJ, "on streams without locality GDJ") for measure in MEASURES),
        ]
    return [
        *(replace(check, why=_bias(near, measure)) for check, measure in zip(spread, MEASURES, strict=True)),
        _falls(near, "{}", "less output"),
        *(_dominates(near, measure, GDJ, GDJ) for measure in MEASURES),
        *(replace(check, aside=True) for check in asides),
        *_ends(found),
        tell("the initial credit that gave the most", list(found.cells("streams")), "initial", ".3g"),
        tell("median stack distance over the permuted", list(found.cells("streams")), "depth", ".2f"),
    ]


def _chosen(found: Figures) -> Figures:
    """The figures with GDJ's distortions beside its recall: all of one initial credit for each set of streams."""
    rows = []
    for row in chosen(found).rows:
        credit = f"GDJ {row['initial']:g}"
        rows.append({**row, **{f"{measure} {GDJ}": row[f"{measure} {credit}"] for measure in MEASURES}})
    return Figures(rows)


def _falls(found: Figures, column: str, what: str) -> Check:
    """From no dropping to the most of the paper's range, on every set of streams, for GDJ and PROB."""
    most = max(drop for drop in found.distinct("drop") if drop != UNBIASED)
    truths, ratios = [], []
    for name, part in found.cells("streams"):
        for line in (GDJ, "PROB"):
            at = column.format(line)
            truths.append(below(part.step(at, {"drop": 0.0}, {"drop": most}), 0.0))
            ratios.append((part.mean(at, drop=most).value / part.mean(at, drop=0.0).value, f"{line}, {name}"))
    (low, at_low), (high, at_high) = min(ratios), max(ratios)
    less, more = (sum(truth is side for truth in truths) for side in (True, False))
    told = f"less in {less}, more in {more} of {len(truths)}; {low:.2g} ({at_low}) to {high:.2g} ({at_high}) times"
    return Check(f"with {most:.0%} dropped instead of none, GDJ and PROB have {what}", every(truths), told)


def _bias(found: Figures, measure: str) -> str:
    """How much there was to lose: distortion without dropping against that of FIFO, which favours no key."""
    return f"GDJ's {measure} over FIFO's where nothing is dropped: " + ", ".join(
        f"{name} {part.mean(f'{measure} {GDJ}').value / part.mean(f'{measure} FIFO').value:,.1f}"
        for name, part in found.where(drop=0.0).cells("streams")
    )


def _dominates(found: Figures, measure: str, line: str, called: str) -> Check:
    equal = at_equal(found, measure, (line, "PROB"))
    claim = f"at equal {measure}, {called} gives more than PROB"
    check = ahead(claim, list(equal.cells("streams", measure)), line, "PROB")
    return replace(check, why=nature_of(equal)) if line == GDJ else check


def _ends(found: Figures) -> list[Check]:
    """What is told of both ends: the most output whatever its distortion, and no choice left to any policy."""
    free = list(found.where(drop=UNBIASED).cells("streams"))
    none = list(found.where(drop=0.0).cells("streams"))
    return [
        tell("GDJ's output over PROB's where nothing is dropped", none, over(GDJ, "PROB"), ".2f"),
        tell("its SSE over PROB's there", none, over(f"SSE {GDJ}", "SSE PROB"), ".2f"),
        tell("rows that the unbiased sampler drops", free, "dropped"),
        tell("GDJ's output over FIFO's behind it", free, over(GDJ, "FIFO"), ".3f"),
    ]


def draw(found: Figures) -> list[Panel]:
    """Output over distortion, a line for each policy, a point for each probability; KL of the longest run only."""
    found = _chosen(found)
    return [
        Panel(
            name, f"{measure} of the result's keys", "share of the exact join",
            {line: _curve(part, measure, line) for line in SHOWN if line in part.rows[0]}, percent=True,
        )
        for measure, sets in (("SSE", found), ("KL", found.where(streams=LONG)))
        for name, part in sets.cells("streams")
    ]  # fmt: skip


def _curve(part: Figures, measure: str, line: str) -> list[tuple[float, Mean]]:
    return [
        (part.mean(f"{measure} {line}", drop=drop).value, part.mean(line, drop=drop)) for drop in part.distinct("drop")
    ]


EXPERIMENT = Experiment(
    id="gdj-sampling",
    paper=PAPER,
    place="figs 9, 10",
    claim="with more dropping in front of the buffer there is less distortion and less output; at equal distortion GDJ "
    "gives more than PROB",
    setting="rows dropped with a probability of 0 to 80 % and with the unbiased one, buffer 20 %; distortion of the "
    "result's keys as SSE and KL; 100 keys, skew and shape 0.75, 1,440 rows a stream with w = 100 and 20,160 with "
    "w = 400; six parts of each real pair, w = 400; GDJ with the best of four initial credits per pair",
    sweep=sweep, measure=measure, judge=judge, draw=draw, source=source, seeds=PARTS, real=True,
)  # fmt: skip
