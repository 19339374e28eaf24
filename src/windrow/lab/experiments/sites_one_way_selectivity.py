"""Sites, one way, selectivity: semijoins pay where few rows match."""

from __future__ import annotations

from collections.abc import Sequence

from windrow.lab.figures import Figures
from windrow.lab.sites_joins import Sweep, changes
from windrow.lab.verdict import Check, at_least, at_most, inside

EQUAL = 0.1  # the factor of S1
RISES, FALLS, FLAT = 1.2, 0.9, (0.9, 1.1)


def judge(found: Figures) -> Sequence[Check]:
    """Semijoins at the source rise until both factors are equal, those at the destination fall, simple joins stay."""
    to_equal, beyond = {"end": EQUAL}, {"begin": EQUAL}
    source, simple = ("SM-S1", "SM-S2"), ("SP-S", "SP-D")
    return [
        at_least(
            "SM-S1 and SM-S2 rise until f2 = f1", changes(found, "factor", source, **to_equal), "factor", RISES, ".2f"
        ),
        inside("and stay from there on", changes(found, "factor", source, **beyond), "factor", *FLAT, ".2f"),
        at_most("SM-D1 and SM-D2 fall", changes(found, "factor", ("SM-D1", "SM-D2")), "factor", FALLS, ".2f"),
        inside("SP-S and SP-D stay", changes(found, "factor", simple), "factor", *FLAT, ".2f"),
    ]


EXPERIMENT = Sweep(
    "sites-one-way-selectivity", "fig 7 c",
    "With f2, semijoins at the source rise until f2 = f1, at the destination they fall",
    "factor", (0.02, 0.04, 0.06, 0.08, 0.1, 0.125, 0.2), "", judge,
).experiment()  # fmt: skip
