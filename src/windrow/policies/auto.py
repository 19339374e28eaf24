"""AUTO: shed the row whose partners come least often, counted in the way that matches most on these streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from windrow.policies.policy import Policy


@dataclass(frozen=True)
class Auto(Policy):
    """AUTO sheds by arrival frequencies as PROB does, and finds out while it runs how to count arrivals.

    Why: on some streams what came often comes often again, on others what came just now, on most both tell something;
    and where a key that comes on one stream is about to come on the other, arrivals of all streams tell more than the
    partner's alone. Which of these holds cannot be known beforehand and may change. So forks of the join, each counting
    in another way, run beside it for a while, over a sample of the rows where memory is large, and the join goes by
    the one that matches most. Where keys are all but unique counts say the opposite: a row whose partner has come
    counts most, and will meet nobody. So it learns, from two streams with a common key, how many partners still come
    for rows that have had none, one, or some, at which age, and goes by that as long as it contradicts the counts, in
    memory of any size. When it fails: on streams of a few windows, before it has found out, or where a handful
    of bursts makes most of the matches, so that the past says nothing. In a budget in bytes nothing is tried where the
    streams have no one key in common: it then counts all arrivals and recent ones.

    Rows under keys of their own cost more bytes than with RAND or FIFO: where nothing tells them apart, it holds fewer.

    Needs no statistics to be named: it keeps its own, of the past alone. One part in 32 of a budget in bytes is for its
    forks; below about 5 MB nothing is tried, nor set aside.

    >>> import pyarrow as pa, windrow as wr
    >>> left, right = pa.table({"k": [7, 7, 1, 2, 3, 7]}), pa.table({"k": [7, 7, 4, 5, 6, 7]})
    >>> streams = [wr.Stream("left", window=8), wr.Stream("right", window=8)]
    >>> engine = wr.Engine(wr.Query(streams=streams, on="k", memory=2, policy="auto"))
    >>> engine.push({"left": left, "right": right}).num_rows  # begins as PROB: of 9 matches the 7s give 7
    7
    """

    name: ClassVar[str] = "auto"
    paper: ClassVar[str] = "windrow's own, from PROB: Das, Gehrke, Riedewald, 4.2.1"
    rule: ClassVar[str] = "auto"
    needs_statistics: ClassVar[bool] = False
