"""Sites, one way, row size: who ships the rows of S2 pays for their size, who ships those of S1 does not."""

from __future__ import annotations

from collections.abc import Sequence

from windrow.lab.figures import Figures
from windrow.lab.sites_joins import DESTINATION, SOURCE, Sweep, changes, ratio
from windrow.lab.verdict import Check, at_least, at_most, inside

GROWS, FLAT = 1.5, (0.9, 1.1)


def judge(found: Figures) -> Sequence[Check]:
    """Growth at the source, none at the destination, and that they cross."""
    small, large = (
        found.where(row_bytes=size) for size in (found.distinct("row_bytes")[0], found.distinct("row_bytes")[-1])
    )
    return [
        at_least(
            "source programs grow with the rows of S2", changes(found, "row_bytes", SOURCE), "factor", GROWS, ".2f"
        ),
        inside("destination programs stay", changes(found, "row_bytes", DESTINATION), "factor", *FLAT, ".2f"),
        at_most(
            "with small rows of S2, SP-S takes less than SP-D", [("smallest", small)], ratio("SP-S", "SP-D"), 1.0, ".2f"
        ),
        at_least(
            "with large rows of S2, SP-S takes more than SP-D", [("largest", large)], ratio("SP-S", "SP-D"), 1.0, ".2f"
        ),
    ]


EXPERIMENT = Sweep(
    "sites-one-way-rows", "fig 7 a", "Source programs grow with S2's rows, destination programs stay, they cross",
    "row_bytes", (250, 500, 750, 1000, 1250, 1500, 1750, 2000), "bytes", judge,
).experiment()  # fmt: skip
