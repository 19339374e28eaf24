"""Sites, one way, window: a longer window takes longer to probe."""

from __future__ import annotations

from collections.abc import Sequence

from windrow.lab.figures import Figures
from windrow.lab.sites_joins import Sweep, changes
from windrow.lab.verdict import Check, at_least
from windrow.sites.programs import PROGRAMS

GROWS = 1.0


def judge(found: Figures) -> Sequence[Check]:
    """Everything grows."""
    cells = changes(found, "window", tuple(PROGRAMS))
    return [at_least("all programs take longer with a longer window", cells, "factor", GROWS, ".2f")]


EXPERIMENT = Sweep(
    "sites-one-way-window", "fig 7 d", "All programs take longer as the window of S2 grows",
    "window", (1.0, 2.0, 3.0, 4.0, 5.0), "s", judge,
).experiment()  # fmt: skip
