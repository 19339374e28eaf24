"""Sites, one way, bandwidth: what a semijoin saves matters less on a wide link."""

from __future__ import annotations

from collections.abc import Sequence

from windrow.lab.figures import Figures
from windrow.lab.sites_joins import Sweep, changes
from windrow.lab.verdict import Check, at_least, at_most
from windrow.sites.programs import PROGRAMS

FALLS = 0.75
SIMPLE_AND_SEMI = (("SM-S1", "SP-S"), ("SM-D2", "SP-D"))


def judge(found: Figures) -> Sequence[Check]:
    """Everything falls, and semijoins lose ground."""
    cells = changes(found, "bandwidth", tuple(PROGRAMS))
    relative = Figures(
        [{**row, **{semi: row[semi] / row[simple] for semi, simple in SIMPLE_AND_SEMI}} for row in found.rows]
    )
    lost = changes(relative, "bandwidth", [semi for semi, _ in SIMPLE_AND_SEMI])
    return [
        at_most("all programs take less time with more bandwidth", cells, "factor", FALLS, ".2f"),
        at_least("semijoins lose ground against simple joins", lost, "factor", 1.0, ".2f"),
    ]


EXPERIMENT = Sweep(
    "sites-one-way-bandwidth", "fig 7 f", "Time falls with bandwidth, and semijoins gradually lose their advantage",
    "bandwidth", (256, 512, 1024, 2048, 4096), "kbit/s", judge, log_x=True,
).experiment()  # fmt: skip
