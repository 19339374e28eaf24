"""Sites, one way, interval: fewer messages, less latency in the sum."""

from __future__ import annotations

from collections.abc import Sequence

from windrow.lab.figures import Figures
from windrow.lab.sites_joins import Sweep, changes
from windrow.lab.verdict import Check, at_most
from windrow.sites.programs import PROGRAMS

FALLS = 1.0


def judge(found: Figures) -> Sequence[Check]:
    """Everything falls."""
    cells = changes(found, "interval", tuple(PROGRAMS))
    return [at_most("all programs take less time with longer intervals", cells, "factor", FALLS, ".2f")]


EXPERIMENT = Sweep(
    "sites-one-way-interval", "fig 7 g", "Time falls as the interval grows: fewer shipments, less latency",
    "interval", (50, 100, 200, 300, 400, 500), "ms", judge,
).experiment()  # fmt: skip
