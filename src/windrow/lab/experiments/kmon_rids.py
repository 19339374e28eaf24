"""kmon-rids: memory under referential integrity."""

from __future__ import annotations

from windrow.lab.constrained import Edge
from windrow.lab.experiment import Experiment
from windrow.lab.figures import Figures
from windrow.lab.kmon_joins import MULTIPLICITY, PAPER, SEEDS, SWJ, Join, Series, star
from windrow.lab.verdict import Check
from windrow.spec import Integrity, Unique

MANY_ONE = (Unique("S2", "A"), Unique("S3", "B"))
FAR_BELOW = 0.5  # of SWJ's bytes


def _join(k: int, seed: int, rows: int, window: int) -> Join:
    return star([Edge(distance=k), Edge(distance=k)], seed, rows, window)


SERIES = Series(
    "RIDS", _join, lambda k: (*MANY_ONE, Integrity("S1", "S2", k), Integrity("S1", "S3", k)), MANY_ONE,
)  # fmt: skip


def judge(found: Figures) -> list[Check]:
    """At most half of SWJ's bytes, growing with k."""
    return SERIES.judge(found, FAR_BELOW, _why)


def _why(figures: Figures) -> str:
    """RIDS frees S1 and the children that fail; the children that pass stay for their window in both joins."""
    least, most = (pick(figures.distinct("k")) for pick in (min, max))
    mine, all_rows = (figures.mean(f"{line} rows", k=least) for line in (SERIES.name, SWJ))
    return (
        f"RIDS releases no child that passes its filter: at k = {least:,} these are {mine:,.0f} of SWJ's "
        f"{all_rows:,.0f} rows, and a key is charged for each, where SWJ has one for {1 + MULTIPLICITY} rows; at "
        f"k = {most:,} a row of S1 may wait for {most:,} children, while {MULTIPLICITY * most:,} rows of S1 come, more "
        "than its window"
    )


EXPERIMENT = Experiment(
    id="kmon-rids",
    paper=PAPER,
    place="fig 4",
    claim="RIDS(k) holds far less than SWJ, and more as k grows",
    setting="graph (a), k = 0 to 20,000 on both joins, windows of 50,000 rows, multiplicity 5, filters on S2 and S3 "
    "pass 50 %, distances even in 0 to k, 1,200,000 rows; steady state is the mean over the second half",
    sweep=SERIES.sweep, measure=SERIES.measure, judge=judge, draw=SERIES.draw, seeds=SEEDS,
)  # fmt: skip
