"""kmon-oac: memory under ordered arrival of the child."""

from __future__ import annotations

from windrow.lab.constrained import Edge
from windrow.lab.experiment import Experiment
from windrow.lab.figures import Figures
from windrow.lab.kmon_joins import MULTIPLICITY, PAPER, SEEDS, Join, Series, star
from windrow.lab.verdict import Check
from windrow.spec import Ordered, Unique

MANY_ONE = (Unique("S2", "A"),)
FAR_BELOW = 0.5  # of SWJ's bytes


def _join(k: int, seed: int, rows: int, window: int) -> Join:
    return star([Edge(child_scrambled=k)], seed, rows, window)


SERIES = Series("OAC", _join, lambda k: (*MANY_ONE, Ordered("S2", "A", k)), MANY_ONE)


def judge(found: Figures) -> list[Check]:
    """At most half of SWJ's bytes, growing with k."""
    return SERIES.judge(found, FAR_BELOW, _why)


def _why(figures: Figures) -> str:
    """Children that pass stay; what waits of S1 grows with k."""
    least, most = (pick(figures.distinct("k")) for pick in (min, max))
    some, more, all_rows = (
        figures.mean(f"{line} rows", k=k) for line, k in (("OAC", least), ("OAC", most), ("SWJ", most))
    )
    return (
        f"OAC releases no child that passes its filter, which leaves {some:,.0f} of SWJ's {all_rows:,.0f} rows at "
        f"k = {least:,}; at k = {most:,}, {more:,.0f} rows, because rows of S1 whose child failed wait until the order "
        f"has passed them, while {MULTIPLICITY * most:,} rows of S1 come"
    )


EXPERIMENT = Experiment(
    id="kmon-oac",
    paper=PAPER,
    place="fig 20",
    claim="OAC(k) holds far less than SWJ, and more as k grows",
    setting="graph (c), k = 0 to 20,000 on S2.A, windows of 50,000 rows, multiplicity 5, the filter on S2 passes 50 %, "
    "distances even in 0 to k, 1,200,000 rows; steady state is the mean over the second half",
    sweep=SERIES.sweep, measure=SERIES.measure, judge=judge, draw=SERIES.draw, seeds=SEEDS,
)  # fmt: skip
