"""RAND: shed any row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from windrow.policies.policy import Policy


@dataclass(frozen=True)
class Rand(Policy):
    """RAND sheds a row chosen at random, each resident and the newcomer being equally likely (but see `Policy`).

    Why: it needs no knowledge at all, costs nothing, and what it keeps is an unbiased sample of the window,
    so it is the baseline that every other policy has to beat. When it fails: on skewed streams, where it
    spends most of the memory on keys that hardly ever arrive; its recall grows only in proportion to the
    memory. On uniform streams no online policy does better.

    Needs no statistics. The choice follows from the query's seed.

    >>> import pyarrow as pa, windrow as wr
    >>> left, right = pa.table({"k": [7, 7, 1, 2, 3, 7]}), pa.table({"k": [7, 7, 4, 5, 6, 7]})
    >>> streams = [wr.Stream("left", window=8), wr.Stream("right", window=8)]
    >>> engine = wr.Engine(wr.Query(streams=streams, on="k", memory=2, policy="rand"))
    >>> engine.push({"left": left, "right": right}).num_rows  # of 9 exact matches; chance kept no 7
    5
    """

    name: ClassVar[str] = "rand"
    paper: ClassVar[str] = "Das, Gehrke, Riedewald: Semantic Approximation of Data Stream Joins, 5.2"
    rule: ClassVar[str] = "rand"
    needs_statistics: ClassVar[bool] = False
