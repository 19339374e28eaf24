"""PROB: shed the row whose key is least likely to arrive on the other streams."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

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

    >>> import pyarrow as pa, windrow as wr
    >>> left, right = pa.table({"k": [7, 7, 1, 2, 3, 7]}), pa.table({"k": [7, 7, 4, 5, 6, 7]})
    >>> streams = [wr.Stream("left", window=8), wr.Stream("right", window=8)]
    >>> engine = wr.Engine(wr.Query(streams=streams, on="k", memory=2, policy="prob"))
    >>> engine.push({"left": left, "right": right}).num_rows  # of 9 exact matches; the 7s stay: they come often
    7
    """

    name: ClassVar[str] = "prob"
    paper: ClassVar[str] = "Das, Gehrke, Riedewald: Semantic Approximation of Data Stream Joins, 4.2.1"
    rule: ClassVar[str] = "prob"
    needs_statistics: ClassVar[bool] = True

    statistics: Statistic = field(default_factory=Running)
