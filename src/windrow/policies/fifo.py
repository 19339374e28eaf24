"""FIFO: shed the oldest row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from windrow.policies.policy import Policy


@dataclass(frozen=True)
class Fifo(Policy):
    """FIFO sheds the resident of the earliest event time, and so acts as a shorter window.

    Of equal times the one that arrived first goes. For rows in order that is the one that has been in memory longest.

    Why: it is predictable, the cheapest of all, and right when partners arrive soon after each other. When it
    fails: when partners arrive long after each other, since no match further apart than the memory reaches is
    ever found, however popular its key.

    Needs no statistics.

    >>> import pyarrow as pa, windrow as wr
    >>> left, right = pa.table({"k": [7, 7, 1, 2, 3, 7]}), pa.table({"k": [7, 7, 4, 5, 6, 7]})
    >>> streams = [wr.Stream("left", window=8), wr.Stream("right", window=8)]
    >>> engine = wr.Engine(wr.Query(streams=streams, on="k", memory=2, policy="fifo"))
    >>> engine.push({"left": left, "right": right}).num_rows  # of 9 exact matches; the 7s are the oldest and go
    5
    """

    name: ClassVar[str] = "fifo"
    paper: ClassVar[str] = "a basic buffer in the paper on GreedyDual-Join (GDJ), adaptive buffers for window joins"
    rule: ClassVar[str] = "fifo"
    needs_statistics: ClassVar[bool] = False
