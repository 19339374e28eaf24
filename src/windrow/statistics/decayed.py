"""Decayed: key frequencies in which old arrivals count less and less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from windrow.record import whole
from windrow.statistics.statistic import Statistic


@dataclass(frozen=True)
class Decayed(Statistic):
    """The frequency of each key with weights that halve every `half_life` arrivals.

    Right for streams that drift: what was popular long ago fades. A short half-life follows faster and is
    noisier; as a rule, choose it near the number of arrivals in one window.

    Parameters:
        half_life: after this many arrivals, counted over all streams of the query, a row weighs one half.
    """

    name: ClassVar[str] = "decayed"
    honest: ClassVar[bool] = True

    half_life: int = 10_000

    def __post_init__(self) -> None:
        self._set(half_life=whole(self.half_life, "Decayed: half_life, a number of arrivals,", least=1))
