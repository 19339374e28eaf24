"""Sites, one way, rate: who ships the rows of S2 pays for their number, who ships those of S1 does not."""

from __future__ import annotations

from collections.abc import Sequence

from windrow.lab.figures import Figures
from windrow.lab.sites_joins import DESTINATION, SOURCE, Sweep, changes, ratio
from windrow.lab.verdict import Check, at_least, at_most, inside

GROWS, FLAT = 1.5, (0.9, 1.1)


def judge(found: Figures) -> Sequence[Check]:
    """Growth at the source, none at the destination, and that they cross."""
    slow, fast = (found.where(rate=rate) for rate in (found.distinct("rate")[0], found.distinct("rate")[-1]))
    return [
        at_least("source programs grow with the rate of S2", changes(found, "rate", SOURCE), "factor", GROWS, ".2f"),
        inside("destination programs stay", changes(found, "rate", DESTINATION), "factor", *FLAT, ".2f"),
        at_most("with a slow S2, SP-S takes less than SP-D", [("slowest", slow)], ratio("SP-S", "SP-D"), 1.0, ".2f"),
        at_least("with a fast S2, SP-S takes more than SP-D", [("fastest", fast)], ratio("SP-S", "SP-D"), 1.0, ".2f"),
    ]


EXPERIMENT = Sweep(
    "sites-one-way-rate", "fig 7 b", "Source programs grow with the rate of S2, destination programs stay, they cross",
    "rate", (100, 150, 200, 250, 300, 350, 400, 450, 500), "rows/s", judge,
).experiment()  # fmt: skip
