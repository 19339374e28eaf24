"""PROB: shed the row whose key is least likely to arrive on the other streams."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from windrow.kernels import rules
from windrow.policies.policy import Policy
from windrow.statistics import Running, Statistic


@dataclass(frozen=True)
class Prob(Policy):
    """PROB sheds the row whose key has the lowest arrival probability on its partner stream.

    Why: that row is expected to give the fewest matches per unit of time that it is kept. On streams with
    moderate to strong skew this comes close to the best possible schedule, and it works with any window, an
    unbounded one included. When it fails: on near-uniform streams it is no better than RAND; with a wrong
    estimate, as after a sudden drift, it keeps yesterday's keys; and it keeps a row of a popular key that
    is about to expire rather than a fresh one of a slightly less popular key (LIFE's concern).

    Needs statistics of every stream. Rows of equal key have equal priority; the oldest of them goes first.

    Parameters:
        statistics: the estimate of arrival probabilities.
    """

    name: ClassVar[str] = "prob"
    paper: ClassVar[str] = "Das, Gehrke, Riedewald: Semantic Approximation of Data Stream Joins, 4.2.1"
    rule: ClassVar[int] = rules.PROB
    needs_statistics: ClassVar[bool] = True

    statistics: Statistic = field(default_factory=Running)
