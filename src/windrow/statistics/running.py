"""Running: key frequencies of everything that has arrived so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from windrow.statistics.statistic import Statistic


@dataclass(frozen=True)
class Running(Statistic):
    """The frequency of each key among all rows that have arrived so far, each counted the same.

    Right for streams whose distribution stays as it is: the estimate only gets better. On a stream that
    drifts it clings to the past (see `Decayed`), and it keeps a counter for every key it ever saw (see
    `Sketch`).
    """

    name: ClassVar[str] = "running"
    honest: ClassVar[bool] = True
