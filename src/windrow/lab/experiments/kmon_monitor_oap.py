"""kmon-monitor-oap: how closely ordered arrival of parents is found while it changes."""

from __future__ import annotations

from windrow.lab.constrained import Edge
from windrow.lab.experiment import Experiment
from windrow.lab.kmon_joins import PAPER, SEEDS, fan
from windrow.lab.monitored import Tracking
from windrow.spec import Monitored, Ordered

TRACKING = Tracking(
    join=fan,
    edge=lambda k: Edge(scrambled=k),
    monitored=Monitored(margin=1.2, sample=0.01, reaction=1_000),
    watched=(Ordered("S1", "A", 0), Ordered("S2", "A", 0)),
    lost=0.023,
)

EXPERIMENT = Experiment(
    id="kmon-monitor-oap",
    paper=PAPER,
    place="fig 9",
    claim="the estimate follows k through flat, slow and quick changes; false negatives are near 0, "
    "and at most 2.3 % per block while k rises",
    setting="graph (b), k between 500 and 2,000 on S1.A and S2.A, c = 1.2, W = 1,000, windows of 50,000 rows, "
    "multiplicity 5, filters pass 50 %, 1,200,000 rows; false negatives per 4,000 rows. All constraints that could "
    "help are found by watching; p = 0.01 for those that sample",
    sweep=TRACKING.sweep, measure=TRACKING.measure, judge=TRACKING.judge, draw=TRACKING.draw, seeds=SEEDS,
)  # fmt: skip
