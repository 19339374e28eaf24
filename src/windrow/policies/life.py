"""LIFE: shed the row with the least arrival probability times remaining lifetime."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from windrow.policies.policy import Policy
from windrow.statistics import Running, Statistic


@dataclass(frozen=True)
class Life(Policy):
    """LIFE sheds the row with the lowest product of arrival probability and time left in its window.

    Why: the product is the number of matches the row would give if it stayed until it expires. When it
    fails: rows seldom stay that long when memory is short, so LIFE overrates fresh rows of rare keys; with
    large windows almost every newcomer gets in and pushes out better rows, and LIFE does little better than
    RAND. LIFE-EXPECTED corrects this. Where windows are unbounded nothing has a remaining lifetime: such
    queries are refused, as are those that mix windows in time and in rows.

    Needs statistics of every stream.

    Parameters:
        statistics: the estimate of arrival probabilities.

    >>> import pyarrow as pa, windrow as wr
    >>> left, right = pa.table({"k": [7, 7, 1, 2, 3, 7]}), pa.table({"k": [7, 7, 4, 5, 6, 7]})
    >>> streams = [wr.Stream("left", window=8), wr.Stream("right", window=8)]
    >>> engine = wr.Engine(wr.Query(streams=streams, on="k", memory=2, policy="life"))
    >>> engine.push({"left": left, "right": right}).num_rows  # of 9 exact matches; the 7s stay
    7
    """

    name: ClassVar[str] = "life"
    paper: ClassVar[str] = "Das, Gehrke, Riedewald: Semantic Approximation of Data Stream Joins, 4.2.2"
    rule: ClassVar[str] = "life"
    needs_statistics: ClassVar[bool] = True

    statistics: Statistic = field(default_factory=Running)
