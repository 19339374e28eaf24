"""GreedyDual-Join: shed the row that has earned the least credit by matching."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from windrow.errors import SpecError
from windrow.policies.policy import Policy
from windrow.record import number

INITIALS = ("tuned", "zero", "top")
METHODS = (1, 2, 3, "none", "top")


@dataclass(frozen=True)
class GreedyDual(Policy):
    """GDJ sheds the row with the least credit: rows earn it by matching, and start from a percentile of it.

    Why: a row that has matched lately tends to match again, popular or not, so credits follow both what is popular for
    long and what is popular just now. Nothing is assumed about the streams and nothing is counted but matches that
    were found. When it fails: on near-uniform streams, or where partners come in no clusters, frequencies tell more
    than a few matches (PROB); and a newcomer's trial costs memory that a sure row could have used.

    Needs no statistics. Rows of equal credit leave in the order of their arrival.

    Parameters:
        initial: the share of residents whose credit a newcomer's is not to pass, 0 (the least credit) to 1 (the
            highest). "tuned": found while the join runs, by trying its neighbours and counting matches. "zero": no
            credit at all (not with methods 2 and 3). "top": more than anybody (methods "none" and "top" only).
        method: what a match adds. 1: one. 2: the row's rank among all credits, the lowest 1; all credits fall by one
            per arrival. 3: one; all credits fall so that their sum stays. "none": nothing. "top": the credit becomes
            the highest of all. What takes the same from all residents changes nobody's rank, so 3 sheds as 1 does.

    FIFO is `GreedyDual("top", "none")`, LRU `GreedyDual("top", "top")`, LFU `GreedyDual("zero", 1)`.

    >>> import pyarrow as pa, windrow as wr
    >>> left, right = pa.table({"k": [7, 1, 2, 3, 4, 5]}), pa.table({"k": [0, 7, 0, 7, 0, 7]})
    >>> streams = [wr.Stream("left", window=8), wr.Stream("right", window=8)]
    >>> memory, policies = wr.Memory(4, split=True), ["fifo", wr.policies.GreedyDual(initial=0.5)]
    >>> engines = [wr.Engine(wr.Query(streams=streams, on="k", memory=memory, policy=p)) for p in policies]
    >>> [engine.push({"left": left, "right": right}).num_rows for engine in engines]  # the 7 earns its place
    [1, 3]
    """

    name: ClassVar[str] = "gdj"
    paper: ClassVar[str] = "the paper on GreedyDual-Join (GDJ), adaptive buffers for window joins, 4.1"
    rule: ClassVar[str] = "greedy_dual"
    needs_statistics: ClassVar[bool] = False

    initial: float | str = 0.95
    method: int | str = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.initial, str):
            if self.initial not in INITIALS:
                raise SpecError(f"initial must be a share from 0 to 1 or one of {INITIALS}, got {self.initial!r}")
        elif number(self.initial, "initial") > 1:
            raise SpecError(f"initial is a share of the residents, from 0 to 1: got {self.initial!r}")
        else:
            self._set(initial=float(self.initial))
        if isinstance(self.method, bool) or self.method not in METHODS:
            raise SpecError(f"method must be one of {METHODS}, got {self.method!r}")
        if self.initial == "top" and self.method not in ("none", "top"):
            raise SpecError("initial 'top' goes with the methods 'none' and 'top': give a share, such as 1.0")
        if self.initial == "zero" and self.method in (2, 3):
            raise SpecError("initial 'zero' means nothing while credits fall (methods 2 and 3): give a share, as 0.0")
