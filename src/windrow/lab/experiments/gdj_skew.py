"""GDJ-skew: where frequencies tell more than credits, and where less."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row
from windrow.lab.gdj_joins import BUFFER, DAY, GDJ, ITSELF, LONG, PAPER, ahead, chosen, generated, recall_panels
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check

SKEWS = (0.1, 0.3, 0.5, 0.75, 1.0, 1.25, 1.5)
NEAR_UNIFORM, SKEWED = 0.3, 1.0  # up to the one, and from the other on


def sweep(conditions: Conditions) -> list[Point]:
    """All skews, in a short and a long run."""
    skews = (0.1, 1.5) if conditions.quick else SKEWS
    return [{"streams": s, "z": z} for s in ((DAY,) if conditions.quick else (DAY, LONG)) for z in skews]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Recall of every line at a fifth of the memory."""
    yield generated(point["streams"], seed, conditions, skew=point["z"]).recalls(BUFFER, seed)


def judge(found: Figures) -> list[Check]:
    """PROB before GDJ where keys are nearly equal, GDJ before PROB where they are not."""
    found = chosen(found)
    flat, steep = (
        [cell for z in found.distinct("z") if wanted(z) for cell in found.where(z=z).cells("streams", "z")]
        for wanted in (lambda z: z <= NEAR_UNIFORM, lambda z: z >= SKEWED)
    )
    beside = ahead("a GDJ that tunes itself gives more than PROB from z = 1 on", steep, ITSELF, "PROB")
    return [
        ahead("PROB gives more than GDJ up to z = 0.3", flat, "PROB", GDJ),
        ahead("GDJ gives more than PROB from z = 1 on", steep, GDJ, "PROB"),
        replace(beside, aside=True),
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
    "with w = 100 and 20,160 with w = 400; GDJ with the best of four initial credits per length",
    sweep=sweep, measure=measure, judge=judge, draw=draw, seeds=10,
)  # fmt: skip
