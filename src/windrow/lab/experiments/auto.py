"""AUTO against every fixed policy that sees only the past, on all streams."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from windrow.lab.data import Streams, steps
from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Measure, Row
from windrow.lab.generators import locality_pair, zipf_pair
from windrow.lab.joins import Pair
from windrow.lab.pictures import Panel
from windrow.lab.real_pairs import GENERATED, by_rows
from windrow.lab.verdict import Cells, Check, above, every
from windrow.policies import Age, Auto, Fifo, GreedyDual, Life, LifeExpected, Policy, Prob, Rand
from windrow.statistics import Decayed

WINDOW, ROWS, KEYS, PARTS = 1_000, 60_000, 500, 3
SHARES = (0.05, 0.2, 0.5)
HALF_LIVES = (8, 32, 64, 125, 250, 500, 2_000, 8_000)  # arrivals; a window has 2,000
ZIPF, LOCAL, CHANGING = "Zipf(1), generated", "locality, generated", "stationary, then bursty"
ENOUGH = 0.98

FIXED: dict[str, Policy] = {
    "RAND": Rand(), "FIFO": Fifo(), "PROB": Prob(), "LIFE": Life(), "LIFE-EXPECTED": LifeExpected(), "AGE": Age(),
    **{f"PROB {n}": Prob(Decayed(n)) for n in HALF_LIVES},
    **{f"LIFE {n}": Life(Decayed(n)) for n in (64, 250, 2_000)},
    **{f"GDJ {share:g}": GreedyDual(share) for share in (0.0, 0.25, 0.5, 0.8, 0.95, 0.998)},
    "GDJ tuned": GreedyDual("tuned"),
}  # fmt: skip


def sweep(conditions: Conditions) -> list[Point]:
    """All budgets, shared and split, on all streams."""
    real = [name for name in by_rows(conditions.data) if name != GENERATED] if not conditions.quick else []
    names, shares = [ZIPF, LOCAL, CHANGING, *real], SHARES[1:2] if conditions.quick else SHARES
    return [{"streams": n, "memory": m, "share": s} for n in names for m in ("shared", "split") for s in shares]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Recall of AUTO and of every fixed policy."""
    pair = _pair(point["streams"], seed, conditions)
    rows, split = round(2 * pair.window * point["share"]), point["memory"] == "split"
    exact = pair.exact()
    found = {line: pair.matched(policy, rows, split, seed) for line, policy in {"AUTO": Auto(), **FIXED}.items()}
    yield {"EXACT": exact, **{line: value / max(1, exact) for line, value in found.items()}}


def _pair(name: str, seed: int, conditions: Conditions) -> Pair:
    rows, window = (2_000, 100) if conditions.quick else (ROWS, WINDOW)
    if name in (ZIPF, LOCAL, CHANGING):
        return Pair(*_generated(name, seed, rows), window)
    streams = by_rows(conditions.data)[name]
    return Pair(*_part(streams, seed, rows), window)


def _generated(name: str, seed: int, rows: int) -> tuple[pa.Table, pa.Table]:
    stationary = zipf_pair(rows, KEYS, seed=seed)
    if name == ZIPF:
        return stationary
    if name == LOCAL:
        return locality_pair(rows, KEYS, seed=seed)
    bursty = locality_pair(rows // 2, KEYS, 0.1, seed=seed)
    halves = [[side["k"].to_numpy()[: rows // 2] for side in pair] for pair in (stationary, bursty)]
    left, right = (steps(np.concatenate(keys)) for keys in zip(*halves, strict=True))
    return left, right


def _part(streams: Streams, seed: int, rows: int) -> tuple[pa.Table, pa.Table]:
    """One of the parts of long streams; short ones are taken whole every time."""
    whole = streams.left.num_rows
    if whole < PARTS * rows // 2:
        return streams.left, streams.right
    size = min(rows, whole // PARTS)
    start = seed % PARTS * (whole // PARTS)
    left, right = (steps(side["k"].to_numpy()[start : start + size]) for side in (streams.left, streams.right))
    return left, right


def best(part: Figures) -> str:
    """The fixed policy that gives the most in a cell, in hindsight."""
    return max(FIXED, key=lambda line: part.mean(line).value)


def judge(found: Figures) -> list[Check]:
    """AUTO over the best fixed policy, cell by cell."""
    cells = list(found.cells("streams", "memory", "share"))
    over = [(label, part.mean(_over(best(part))), best(part)) for label, part in cells]
    truths = [above(mean, ENOUGH) for _, mean, _ in over]
    short = sorted((mean.value, f"{mean.value:.2f} of {line} ({label})") for label, mean, line in over)
    short = [(value, text) for value, text in short if value < ENOUGH]
    more = sum(mean.low > 1.0 for _, mean, _ in over)
    middle = float(np.median([mean.value for _, mean, _ in over]))
    told = f"{sum(t is True for t in truths)} of {len(over)} cells surely, median {middle:.1%}"
    changing = [(label, mean) for label, mean, _ in over if CHANGING in label]
    low, high = min(mean.value for _, mean in changing), max(mean.value for _, mean in changing)
    return [
        Check("AUTO gives at least 98 % of the best fixed policy in every cell", every(truths), told,
              why="below: " + "; ".join(text for _, text in short) if short else ""),
        Check("it gives more than the best fixed policy somewhere", more > 0, f"surely in {more} of {len(over)} cells, "
              f"{max(mean.value for _, mean, _ in over):.2f} times at most"),
        Check("where behaviour changes in the middle it gives more than every fixed policy",
              every(above(mean, 1.0) for _, mean in changing), f"{low:.1%} to {high:.1%} of the best fixed one"),
        _everywhere(cells),
        Check("the best fixed policies are many", None, ", ".join(sorted({line for _, _, line in over})), aside=True),
    ]  # fmt: skip


def _everywhere(cells: Cells) -> Check:
    """An aside: the policies by what each gives of the best fixed one, over all cells."""
    tops = [(part, part.mean(best(part)).value) for _, part in cells]
    given = {line: [part.mean(line).value / max(top, 1e-9) for part, top in tops] for line in ("AUTO", *FIXED)}
    first = sorted(given, key=lambda line: -float(np.mean(given[line])))[:4]
    told = ", ".join(f"{line} {np.mean(given[line]):.1%} (least {min(given[line]):.0%})" for line in first)
    return Check("of the best fixed policy of each cell, in the mean over all", None, told, aside=True)


def _over(line: str) -> Measure:
    return lambda row: float(row["AUTO"]) / max(float(row[line]), 1e-9)


def draw(found: Figures) -> list[Panel]:
    """Recall over memory in one pool: AUTO, PROB and the best fixed policy of each budget, where these differ."""
    panels = []
    for name, part in found.where(memory="shared").cells("streams"):
        shares = sorted({float(row["share"]) for row in part.rows})
        cells = [(share, part.where(share=share)) for share in shares]
        lines = {"best fixed": [(share, cell.mean(best(cell))) for share, cell in cells]}
        lines |= {line: [(share, cell.mean(line)) for share, cell in cells] for line in ("AUTO", "PROB")}
        if max(cell.mean(best(cell)).value - cell.mean("PROB").value for _, cell in cells) < 0.01:
            continue
        panels.append(Panel(name, "memory, share of the exact join's", "share of the exact join", lines, percent=True))
    return panels


def source(conditions: Conditions) -> str:
    """What the streams are."""
    real = [one.source for name, one in by_rows(conditions.data).items() if name != GENERATED]
    return "; ".join(["generated streams", *real])


EXPERIMENT = Experiment(
    id="auto",
    paper="windrow's own: the default policy",
    place="table 1",
    claim="AUTO gives at least 98 % of the best fixed policy that sees only the past on every stream, on some more",
    setting=f"window 1,000 rows a stream, memory 5, 20 and 50 %; {len(FIXED)} fixed policies; at most 60,000 rows; "
    "three parts of each long real pair, short ones whole; three draws of generated ones",
    sweep=sweep, measure=measure, judge=judge, draw=draw, source=source, seeds=PARTS, real=True,
)  # fmt: skip
