"""GDJ-domain: whether the order of the policies holds for every number of keys."""

from __future__ import annotations

from collections.abc import Iterator

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row
from windrow.lab.gdj_joins import BUFFER, DAY, GDJ, LONG, PAPER, chosen, generated, order, recall_panels
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check, below, every

DOMAINS = (25, 50, 100, 200, 400)


def sweep(conditions: Conditions) -> list[Point]:
    """All domains, in a short and a long run."""
    domains = (10, 40) if conditions.quick else DOMAINS
    return [{"streams": s, "keys": keys} for s in ((DAY,) if conditions.quick else (DAY, LONG)) for keys in domains]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Recall of every line at a fifth of the memory."""
    yield generated(point["streams"], seed, conditions, keys=point["keys"]).recalls(BUFFER, seed)


def judge(found: Figures) -> list[Check]:
    """The order of the policies, and less recall on more keys."""
    found = chosen(found)
    return [*order(list(found.cells("streams", "keys"))), _falling(found)]


def _falling(found: Figures) -> Check:
    """From the fewest keys to the most; RAND's recall is the buffer's share whatever the keys."""
    few, many = min(found.distinct("keys")), max(found.distinct("keys"))
    truths, told = [], []
    for name, part in found.cells("streams"):
        for line in (GDJ, "PROB"):
            step = part.step(line, {"keys": few}, {"keys": many})
            truths.append(below(step, 0.0))
            told.append(f"{line} {100 * step.value:+.1f} points ({name})")
    return Check(f"GDJ and PROB keep less on {many} keys than on {few}", every(truths), ", ".join(told))


def draw(found: Figures) -> list[Panel]:
    """Recall over the number of keys."""
    return recall_panels(chosen(found), "keys", "keys", log_x=True)


EXPERIMENT = Experiment(
    id="gdj-domain",
    paper=PAPER,
    place="fig 5, domains",
    claim="the order GDJ > PROB > AGE, RAND holds for all domains at a 20 % buffer; all fall as keys become more",
    setting="25 to 400 keys, buffer 20 %, skew and shape 0.75, 1,440 rows a stream with w = 100 and 20,160 with w = 400"
    "; GDJ with the best of four initial credits per length",
    sweep=sweep, measure=measure, judge=judge, draw=draw, seeds=10,
)  # fmt: skip
