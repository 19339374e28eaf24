"""Trials: candidates for a join's policy, tried by the engine on the first rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from windrow.analysis.pairs import Pair
from windrow.policies import ALL, Fifo, Policy, Prob, Rand
from windrow.statistics import Decayed

MEMORY_SHARE = 0.2  # of the rows that the exact join holds at its peak
ARRIVALS = 200_000  # tried at least, if there are as many
WINDOWS = 20  # and at least so many times what comes during a window
PARTS = (1, 4, 16, 64)  # half-lives: one so-manieth of what comes during a window


@dataclass(frozen=True)
class Trial:
    """One candidate: its policy, and the share of the exact matches that it kept."""

    label: str
    policy: Policy
    matched: int
    recall: float


@dataclass(frozen=True)
class Trials:
    """All candidates under equal conditions, the simpler ones first."""

    arrivals: int
    memory: int  # rows
    exact: int
    all: tuple[Trial, ...]

    @property
    def winner(self) -> Trial | None:
        """The candidate that kept most; the simpler one of equals. None where nothing matches."""
        return max(self.all, key=lambda trial: trial.matched, default=None)

    def kept(self, label: str) -> float:
        """The recall of a candidate."""
        return next(trial.recall for trial in self.all if trial.label == label)


def candidates(arrivals: int) -> dict[str, Policy]:
    """Policies by what they are called, simpler ones first; half-lives are parts of what comes during a window."""
    found: dict[str, Policy] = {"fifo": Fifo(), "rand": Rand(), "prob, running": Prob()}
    for half_life in sorted({max(1, arrivals // part) for part in PARTS}, reverse=True):
        found[f"prob, decayed, half-life {half_life:,}"] = Prob(statistics=Decayed(half_life))
    found |= {policy.name: policy() for policy in ALL if policy.name == "gdj"}
    return found


def trials(pair: Pair, seed: int) -> Trials:
    """Every candidate on the first rows of a pair."""
    head = pair.head(max(ARRIVALS, WINDOWS * pair.arrivals))
    tables = head.tables()
    exact = head.count(tables)
    arrivals = head.left.rows + head.right.rows
    memory = max(2, math.ceil(MEMORY_SHARE * exact.peak_rows))
    if not exact.matched:
        return Trials(arrivals, memory, 0, ())
    tried = []
    for label, policy in candidates(pair.arrivals).items():
        matched = head.count(tables, policy, memory, seed).matched
        tried.append(Trial(label, policy, matched, matched / exact.matched))
    return Trials(arrivals, memory, exact.matched, tuple(tried))
