"""Demo: what each policy keeps of a join of bursty, skewed streams, over a range of budgets.

The streams are clicks and orders of a shop (`generators.bursty_pair`): half of the rows come from users whose
popularity lasts, half from a crowd that changes with every rush hour. The exact join is run first; its
matches are what recall is measured against, and the most rows it ever held are what budgets are shares of.
Policies run with their defaults and see only the past.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from windrow import policies
from windrow.errors import SpecError
from windrow.lab.generators import bursty_pair
from windrow.lab.joins import Tables, count
from windrow.spec import Query, pair_query

POLICIES = tuple(policy.name for policy in policies.ALL)
SHARES = (5, 10, 20, 35, 50, 75, 100)
"""Budgets in percent of what the exact join holds at its peak."""

BASELINE = "rand"
DEFAULT = "auto"
TOLD = 20  # the share that the conclusion speaks of

KEYS = 5_000
SKEW = 0.8
BURST = 8.0
WINDOW = "10 minutes"
HEAD_ROWS = 32


@dataclass(frozen=True)
class Point:
    """One run: a policy at a budget."""

    policy: str
    share: int
    memory_rows: int
    matched: int
    shed: int
    recall: float


@dataclass(frozen=True)
class Outcome:
    """What is known so far: the exact join, and the runs that are done."""

    rows: int
    seed: int
    exact_matched: int
    exact_rows: int
    points: tuple[Point, ...] = field(default=())

    def budget(self, share: int) -> int:
        """So many percent of the exact join's peak, in rows."""
        return max(2, math.ceil(self.exact_rows * share / 100))

    def recall(self, policy: str, share: int) -> float | None:
        """The recall of a run; None if it is not done yet."""
        return next((p.recall for p in self.points if (p.policy, p.share) == (policy, share)), None)

    def curves(self) -> dict[str, list[tuple[float, float]]]:
        """For every policy (share of memory, recall), both between 0 and 1."""
        return {name: [(p.share / 100, p.recall) for p in self.points if p.policy == name] for name in POLICIES}

    def setting(self) -> str:
        """What was joined, in one line."""
        return (
            f"2 x {self.rows:,} rows, {KEYS:,} users, window {WINDOW}; the exact join: "
            f"{self.exact_matched:,} matches, at most {self.exact_rows:,} rows held"
        )

    def conclusion(self) -> str:
        """The outcome in one line, from the numbers."""
        told = {name: self.recall(name, TOLD) or 0.0 for name in POLICIES}
        best = max(told, key=lambda name: told[name])
        kept, base = told[best], BASELINE.upper()
        if best == BASELINE:
            return f"At {TOLD}% of the memory no policy keeps more matches than {base}: {kept:.0%}."
        line = (
            f"At {TOLD}% of the memory that the exact join needs, {best.upper()} keeps {kept:.0%} "
            f"of the matches and {base} {told[BASELINE]:.0%}"
        )
        enough = self._needed(BASELINE, kept)
        return f"{line}; {base} needs about {enough:.0%} to keep as many." if enough else f"{line}."

    def _needed(self, policy: str, recall: float) -> float | None:
        """The share of memory at which a policy's line reaches `recall`; None if it does not."""
        below = (0.0, 0.0)
        for share, reached in sorted(self.curves()[policy]):
            if reached >= recall:
                return below[0] + (share - below[0]) * (recall - below[1]) / (reached - below[1])
            below = (share, reached)
        return None

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {**asdict(self), "conclusion": self.conclusion()}


def streams(rows: int, seed: int) -> Tables:
    """The streams to join; only the columns that counting needs."""
    left, right = bursty_pair(rows, keys=KEYS, skew=SKEW, burst=BURST, seed=seed)
    return {"left": left.select(["ts", "user_id"]), "right": right.select(["ts", "user_id"])}


def warm_up(tables: Tables) -> None:
    """Run on the first rows only, so that every kernel is compiled."""
    heads = {name: table.slice(0, HEAD_ROWS) for name, table in tables.items()}
    count(_query(), heads)
    for policy in POLICIES:
        count(_query().with_(memory=4, policy=policy), heads)


def start(tables: Tables, rows: int, seed: int) -> Outcome:
    """The outcome before the first run: the exact join is counted."""
    exact = count(_query(), tables)
    if not exact.matched:
        raise SpecError(f"the exact join of {rows} rows a side has no matches: take more rows")
    return Outcome(rows, seed, exact.matched, exact.peak_rows)


def sweep(outcome: Outcome, tables: Tables) -> Iterator[Outcome]:
    """Run every policy at every budget; yields the outcome after each run."""
    for share in SHARES:
        for policy in POLICIES:
            budget = outcome.budget(share)
            metrics = count(_query().with_(memory=budget, policy=policy, seed=outcome.seed), tables)
            recall = metrics.matched / outcome.exact_matched
            point = Point(policy, share, budget, metrics.matched, metrics.shed, recall)
            outcome = replace(outcome, points=(*outcome.points, point))
            yield outcome


def told_query(outcome: Outcome) -> Query:
    """The run that the conclusion speaks of: the default policy at one budget."""
    return _query().with_(memory=outcome.budget(TOLD), policy=DEFAULT, seed=outcome.seed)


def _query() -> Query:
    # The tables are fed in time order: no stream needs to be waited for.
    return pair_query("user_id", time="ts", within=WINDOW, patience=0)
