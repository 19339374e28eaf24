"""Sketch: approximate key frequencies in fixed space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from windrow.record import whole
from windrow.statistics.statistic import Statistic

_MOST_WIDTH = 2**28
_MOST_DEPTH = 64


@dataclass(frozen=True)
class Sketch(Statistic):
    """The frequency of each key from a count-min sketch: `depth` rows of `width` counters per stream.

    Right when there are too many keys for a counter each: the space is fixed, whatever the streams bring.
    Keys that share all their counters are overestimated, by more than `e / width` of all arrivals only with
    probability `exp(-depth)`; so frequent keys are told apart well and rare ones are blurred.

    Parameters:
        width: counters per row.
        depth: rows, each with its own hash function; an estimate is the least of them.
        half_life: as in `Decayed`, or None to count all arrivals the same.

    Reference: Cormode, Muthukrishnan, An improved data stream summary: the count-min sketch and its
    applications, Journal of Algorithms 55(1), 2005.
    """

    name: ClassVar[str] = "sketch"
    honest: ClassVar[bool] = True

    width: int = 4096
    depth: int = 4
    half_life: int | None = None

    def __post_init__(self) -> None:
        self._set(
            width=whole(self.width, "Sketch: width", least=1, most=_MOST_WIDTH),
            depth=whole(self.depth, "Sketch: depth", least=1, most=_MOST_DEPTH),
        )
        if self.half_life is not None:
            self._set(half_life=whole(self.half_life, "Sketch: half_life, a number of arrivals,", least=1))
