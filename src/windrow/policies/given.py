"""GIVEN: shed in the order that a column of the streams says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from windrow.policies.policy import Policy
from windrow.record import name_text


@dataclass(frozen=True)
class Given(Policy):
    """GIVEN sheds the row with the lowest number in a column that every stream has.

    Why: whoever knows better than any estimate can say so, row by row. With the column that `Optimum.schedule` fills,
    the engine follows an optimal schedule and gives exactly the matches that were predicted. When it fails: it is as
    good as the numbers are; nulls, NaN and negative numbers count as 0. Rows that are about to leave their window get
    no special treatment here.

    Needs no statistics.

    Parameters:
        column: the column with the numbers.

    >>> import pyarrow as pa, windrow as wr
    >>> left, right = pa.table({"k": [7, 8, 1], "rank": [9, 1, 1]}), pa.table({"k": [4, 5, 7], "rank": [0, 0, 0]})
    >>> streams = [wr.Stream("left", window=8), wr.Stream("right", window=8)]
    >>> engine = wr.Engine(wr.Query(streams=streams, on="k", memory=1, policy=wr.policies.Given("rank")))
    >>> engine.push({"left": left, "right": right}).num_rows  # the first 7 has stayed
    1
    """

    name: ClassVar[str] = "given"
    paper: ClassVar[str] = "Das, Gehrke, Riedewald: Semantic Approximation of Data Stream Joins, 4.1 (its schedules)"
    rule: ClassVar[str] = "given"
    needs_statistics: ClassVar[bool] = False

    column: str = "priority"

    def __post_init__(self) -> None:
        super().__post_init__()
        name_text(self.column, "the column of policy 'given'")
