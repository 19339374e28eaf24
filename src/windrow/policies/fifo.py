"""FIFO: shed the oldest row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from windrow.kernels import rules
from windrow.policies.policy import Policy


@dataclass(frozen=True)
class Fifo(Policy):
    """FIFO sheds the resident that has been in memory longest, and so acts as a shorter window.

    Why: it is predictable, the cheapest of all, and right when partners arrive soon after each other. When it
    fails: when partners arrive long after each other, since no match further apart than the memory reaches is
    ever found, however popular its key.

    Needs no statistics.
    """

    name: ClassVar[str] = "fifo"
    paper: ClassVar[str] = "a basic buffer in the paper on GreedyDual-Join (GDJ), adaptive buffers for window joins"
    rule: ClassVar[int] = rules.FIFO
    needs_statistics: ClassVar[bool] = False
