"""kmon-oap: memory under ordered arrival of parents."""

from __future__ import annotations

from windrow.lab.constrained import Edge
from windrow.lab.experiment import Experiment
from windrow.lab.figures import Figures
from windrow.lab.kmon_joins import PAPER, SEEDS, Join, Series, fan
from windrow.lab.verdict import Check
from windrow.spec import Ordered, Unique

MANY_ONE = (Unique("S3", "A"),)
ORDER = 0.1  # of SWJ's bytes: an order of magnitude


def _join(k: int, seed: int, rows: int, window: int) -> Join:
    return fan([Edge(scrambled=k), Edge(scrambled=k)], seed, rows, window)


SERIES = Series("OAP", _join, lambda k: (*MANY_ONE, Ordered("S1", "A", k), Ordered("S2", "A", k)), MANY_ONE)


def judge(found: Figures) -> list[Check]:
    """A tenth of SWJ's bytes, an order of magnitude, growing with k."""
    return SERIES.judge(found, ORDER, _why)


def _why(figures: Figures) -> str:
    """What has to be held while a key may still come: its rows of both parents, and the child."""
    most = max(figures.distinct("k"))
    held, all_rows = figures.mean(f"{SERIES.name} rows", k=most), figures.mean("SWJ rows", k=most)
    return (
        "a child and its parents stay for the k rows by which a parent may be late, "
        f"here while up to {most:,} rows of each parent come, and its window is 50,000: {held:,.0f} rows are held of "
        f"SWJ's {all_rows:,.0f} at k = {most:,}"
    )


EXPERIMENT = Experiment(
    id="kmon-oap",
    paper=PAPER,
    place="fig 8",
    claim="OAP(k) on both parents holds less than SWJ by orders of magnitude, and more as k grows",
    setting="graph (b), k = 0 to 20,000 on S1.A and S2.A, streams also keep RIDS(0), unused; windows of 50,000 rows, "
    "multiplicity 5, the filter on S3 passes 50 %, distances even in 0 to k, 1,200,000 rows; steady state is the mean "
    "over the second half",
    sweep=SERIES.sweep, measure=SERIES.measure, judge=judge, draw=SERIES.draw, seeds=SEEDS,
)  # fmt: skip
