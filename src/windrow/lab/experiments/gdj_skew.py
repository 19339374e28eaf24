"""GDJ-skew: where frequencies tell more than credits, and where less."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row
from windrow.lab.gdj_joins import (
    BUFFER,
    DAY,
    GDJ,
    ITSELF,
    KEYS,
    LONG,
    PAPER,
    QUICK_ROWS,
    QUICK_WINDOW,
    ROWS,
    WINDOWS,
    Join,
    ahead,
    chosen,
    generated,
    recall_panels,
)
from windrow.lab.generators import zipf_pair
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Cells, Check

PLAIN = "14 days, without locality"
SKEWS = (0.1, 0.3, 0.5, 0.75, 1.0, 1.25, 1.5)
NEAR_UNIFORM, SKEWED = 0.3, 1.0  # up to the one, and from the other on


def sweep(conditions: Conditions) -> list[Point]:
    """All skews, in a short and a long run, and in a long one whose rows come in no clusters."""
    skews = (0.1, 1.5) if conditions.quick else SKEWS
    return [{"streams": s, "z": z} for s in ((DAY, PLAIN) if conditions.quick else (DAY, LONG, PLAIN)) for z in skews]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Recall of every line at a fifth of the memory."""
    if point["streams"] == PLAIN:
        rows, window = (QUICK_ROWS, QUICK_WINDOW) if conditions.quick else (ROWS[LONG], WINDOWS[LONG])
        left, right = zipf_pair(rows, KEYS, point["z"], point["z"], "correlated", seed)
        join = Join({"left": left, "right": right}, window)
    else:
        join = generated(point["streams"], seed, conditions, skew=point["z"])
    yield join.recalls(BUFFER, seed)


def judge(found: Figures) -> list[Check]:
    """PROB before GDJ where keys are nearly equal, GDJ before PROB where they are not."""
    found = chosen(found)
    near = Figures([row for row in found.rows if row["streams"] != PLAIN])
    flat, steep = _ends(near)
    plain = _ends(found.where(streams=PLAIN))
    asides = [
        ahead("without locality, PROB gives more than GDJ up to z = 0.3", plain[0], "PROB", GDJ),
        ahead("without locality, GDJ gives more than PROB from z = 1 on", plain[1], GDJ, "PROB"),
        ahead("a GDJ that tunes itself gives more than PROB from z = 1 on", steep, ITSELF, "PROB"),
    ]
    why = f"rows of a key crowd together at every z here, which tells GDJ what frequencies do not; {asides[0].claim}: "
    return [
        replace(ahead("PROB gives more than GDJ up to z = 0.3", flat, "PROB", GDJ), why=why + asides[0].found),
        ahead("GDJ gives more than PROB from z = 1 on", steep, GDJ, "PROB"),
        *(replace(check, aside=True) for check in asides),
    ]


def _ends(found: Figures) -> list[Cells]:
    """The cells that are near uniform, and those that are skewed."""
    return [
        [cell for z in found.distinct("z") if wanted(z) for cell in found.where(z=z).cells("streams", "z")]
        for wanted in (lambda z: z <= NEAR_UNIFORM, lambda z: z >= SKEWED)
    ]


def draw(found: Figures) -> list[Panel]:
    """Recall over the skew."""
    return recall_panels(chosen(found), "z", "Zipf parameter z of both streams")


EXPERIMENT = Experiment(
    id="gdj-skew",
    paper=PAPER,
    place="fig 8",
    claim="PROB wins when keys are near uniform, GDJ when they are skewed",
    setting="z = 0.1 to 1.5 in both streams, one attribute, 100 keys, shape 0.75, buffer 20 %, 1,440 rows a stream "
    "with w = 100 and 20,160 with w = 400, the latter also with independent rows; "
    "GDJ with the best of four initial credits per length",
    sweep=sweep, measure=measure, judge=judge, draw=draw, seeds=10,
)  # fmt: skip
