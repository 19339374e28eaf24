"""Oracle: key frequencies of the whole stream, known before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from windrow.statistics.statistic import Statistic


@dataclass(frozen=True)
class Oracle(Statistic):
    """The frequency of each key over a whole finite stream, counted before the join begins.

    This is what the experiments of the paper feed to PROB and LIFE. It looks into the future, so it is of use
    on recorded streams only, to separate the quality of a policy from the quality of its estimate.

    Reference: Das, Gehrke, Riedewald, Semantic Approximation of Data Stream Joins, section 5.2.
    """

    name: ClassVar[str] = "oracle"
    honest: ClassVar[bool] = False
