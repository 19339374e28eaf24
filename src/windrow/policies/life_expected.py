"""LIFE-EXPECTED: LIFE with the time a row can expect to stay in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from windrow.policies.policy import Policy
from windrow.statistics import Running, Statistic


@dataclass(frozen=True)
class LifeExpected(Policy):
    """LIFE-EXPECTED sheds the row with the lowest product of arrival probability and expected time in memory.

    Why: LIFE counts on the whole remaining window although most rows are shed sooner. Here the time left is
    cut to what residents live to see under the present pressure, so fresh rows of rare keys lose their
    undue advantage, while rows about to expire are still discounted. When it fails: it relies on two
    estimates, so errors in either hurt it more than they hurt PROB; without pressure on memory it is LIFE.

    Needs statistics of every stream.

    Parameters:
        statistics: the estimate of arrival probabilities.

    >>> import pyarrow as pa, windrow as wr
    >>> left, right = pa.table({"k": [7, 7, 1, 2, 3, 7]}), pa.table({"k": [7, 7, 4, 5, 6, 7]})
    >>> streams = [wr.Stream("left", window=8), wr.Stream("right", window=8)]
    >>> engine = wr.Engine(wr.Query(streams=streams, on="k", memory=2, policy="life-expected"))
    >>> engine.push({"left": left, "right": right}).num_rows  # of 9 exact matches; the 7s stay
    7
    """

    name: ClassVar[str] = "life-expected"
    paper: ClassVar[str] = "Das, Gehrke, Riedewald: Semantic Approximation of Data Stream Joins, 4.2.2"
    rule: ClassVar[str] = "life_expected"
    needs_statistics: ClassVar[bool] = True

    statistics: Statistic = field(default_factory=Running)
