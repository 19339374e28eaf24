"""Sites, one way, latency: every message takes it."""

from __future__ import annotations

from collections.abc import Sequence

from windrow.lab.figures import Figures
from windrow.lab.sites_joins import Sweep, changes
from windrow.lab.verdict import Check, at_least
from windrow.sites.programs import PROGRAMS

GROWS = 1.05


def judge(found: Figures) -> Sequence[Check]:
    """Everything grows."""
    cells = changes(found, "latency", tuple(PROGRAMS))
    return [at_least("all programs take longer with more latency", cells, "factor", GROWS, ".2f")]


EXPERIMENT = Sweep(
    "sites-one-way-latency", "fig 7 e", "All programs take longer as latency grows",
    "latency", (5, 15, 25, 35, 45), "ms", judge,
).experiment()  # fmt: skip
