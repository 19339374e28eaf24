"""GDJ-buffer: what each policy keeps of a join of streams with locality, at every size of the buffer."""

from __future__ import annotations

from collections.abc import Iterator

from windrow.lab.experiment import Conditions, Experiment, Point
from windrow.lab.figures import Figures, Row
from windrow.lab.gdj_joins import PAPER, PARTS, chosen, join_of, judge_local, names, nature, recall_panels, source
from windrow.lab.pictures import Panel
from windrow.lab.verdict import Check

SHARES = (0.05, 0.1, 0.2, 0.4, 0.8)


def sweep(conditions: Conditions) -> list[Point]:
    """All buffers on all streams."""
    shares = (0.2, 0.5) if conditions.quick else SHARES
    return [{"streams": name, "buffer": share} for name in names(conditions) for share in shares]


def measure(point: Point, seed: int, conditions: Conditions) -> Iterator[Row]:
    """Recall of every line, and how local the streams are."""
    join = join_of(point["streams"], seed, conditions)
    yield {**join.recalls(point["buffer"], seed), **nature(point["streams"], seed, conditions)}


def judge(found: Figures) -> list[Check]:
    """The order of the policies at every buffer."""
    return judge_local(found, "buffer")


def draw(found: Figures) -> list[Panel]:
    """Recall over the buffer."""
    return recall_panels(chosen(found), "buffer", "buffer, share of what the exact join needs")


EXPERIMENT = Experiment(
    id="gdj-buffer",
    paper=PAPER,
    place="fig 4",
    claim="at every buffer size GDJ > PROB > AGE, RAND on streams with locality",
    setting="100 keys, skew and shape 0.75, 1,440 rows a stream with w = 100 and 20,160 with w = 400; six parts of "
    "each real pair, at most 20,000 rows, w = 400; buffers by rate; GDJ with the best of four initial credits per pair",
    sweep=sweep, measure=measure, judge=judge, draw=draw, source=source, seeds=PARTS, real=True,
)  # fmt: skip
