"""AGE: shed by how long rows pay, whatever their keys."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from windrow.errors import SpecError
from windrow.policies.policy import Policy
from windrow.record import number


@dataclass(frozen=True)
class Age(Policy):
    """AGE keeps each row for as long as matches per time held are most, and then sheds it.

    A stream's age curve says how many matches a row finds at each age; k_opt is the age up to which their mean is
    largest. The oldest row beyond k_opt goes; while there is none, the newcomer does. Where the memory holds rows for
    longer than k_opt that is FIFO; where it does not, some rows are kept for k_opt and the rest not at all (staggered).

    Why: in auctions and the like all rows live through the same curve, and to hold fewer rows for the right time
    gives more than to hold all of them too briefly. When it fails: when rows differ, by key or otherwise, and when
    curves have minima, for what lies behind one is not seen. Where a window has no end AGE is FIFO.

    Needs no statistics: it learns the curve of each stream from matches found.

    Parameters:
        curve: the matches to expect of a row in equal parts of its window, youngest first; estimated if not given.

    >>> import pyarrow as pa, windrow as wr
    >>> left, right = pa.table({"k": [1, 2, 3, 4, 5, 6]}), pa.table({"k": [0, 0, 0, 1, 0, 3]})
    >>> streams = [wr.Stream("left", window=4), wr.Stream("right", window=4)]
    >>> memory = wr.Memory(2, split=True)
    >>> policies = ["fifo", wr.policies.Age(curve=(0, 0, 0, 1))]
    >>> engines = [wr.Engine(wr.Query(streams=streams, on="k", memory=memory, policy=p)) for p in policies]
    >>> [engine.push({"left": left, "right": right}).num_rows for engine in engines]  # matches come three steps later
    [0, 1]
    """

    name: ClassVar[str] = "age"
    paper: ClassVar[str] = "a model that the paper on GreedyDual-Join (GDJ), adaptive buffers, compares with, 3.2"
    rule: ClassVar[str] = "age"
    needs_statistics: ClassVar[bool] = False

    curve: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.curve is None:
            return
        given: object = self.curve
        if not isinstance(given, (list, tuple)) or not given:
            raise SpecError(f"curve must be numbers, the matches in equal parts of the window, got {given!r}")
        self._set(curve=tuple(float(number(value, "a value of curve")) for value in self.curve))

    @property
    def best_age(self) -> float | None:
        """k_opt of the given curve as a share of the window, of equals the longest; None where it is estimated."""
        if self.curve is None:
            return None
        means = [total / (k + 1) for k, total in enumerate(accumulate(self.curve))]
        return (max(range(len(means)), key=lambda k: (means[k], k)) + 1) / len(means)
