"""Joins that the lab counts: policies through the engine, the exact join, and the optimum beside them.

Streams are tables with time "t" in whole steps and key "k". The engine counts and produces nothing; policies that read
statistics are fed the frequencies of the whole streams (`Oracle`), as in the papers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from windrow.engine import Engine, Metrics
from windrow.feed import feed
from windrow.offline import Optimum, optimum
from windrow.policies import Policy, resolve
from windrow.spec import Memory, Query, pair_query

Tables = Mapping[str, pa.Table]


def counting(query: Query, tables: Tables) -> Engine:
    """An engine that counts matches, and knows the whole streams if its policy asks an oracle."""
    schemas = {name: table.schema for name, table in tables.items()}
    honest = getattr(getattr(query.policy, "statistics", None), "honest", True)
    oracle = None if honest or query.memory is None else tables
    return Engine(query, schemas, count_only=True, recall=False, oracle=oracle)


def count(query: Query, tables: Tables) -> Metrics:
    """The metrics of a join that counts its matches and does not produce them."""
    engine = counting(query, tables)
    for rows in feed(engine, tables):
        engine.take(rows)
    return engine.metrics


def told(policy: str | Policy) -> Policy:
    """A policy by its name, with the frequencies of the whole streams if it reads any; a configured one stays so."""
    if isinstance(policy, Policy):
        return policy
    found = resolve(policy)
    return found.with_(statistics="oracle") if found.needs_statistics else found


@dataclass(frozen=True)
class Pair:
    """Two streams, their window in steps, and the step from which matches count."""

    left: pa.Table
    right: pa.Table
    window: int
    warm_up: int = 0

    @property
    def tables(self) -> Tables:
        """The streams by name."""
        return {"left": self.left, "right": self.right}

    def exact(self) -> int:
        """Matches of the exact join after the warm-up."""
        return self._matched(self._query())

    def matched(self, policy: str | Policy, memory: int, split: bool = True, seed: int = 0) -> int:
        """Matches under a policy after the warm-up, with so many rows of memory, half for each stream or one pool."""
        return self._matched(self._limited(policy, memory, split, seed))

    def optimum(self, memory: int, split: bool = True, method: Literal["auto", "exact", "bracket"] = "auto") -> Optimum:
        """The most matches after the warm-up that any schedule can give."""
        limit = Memory(memory, split=split)
        return optimum(
            self.left, self.right, on="k", time="t", within=self.window, memory=limit, warm_up=self.warm_up,
            method=method,
        )  # fmt: skip

    def shares(self, policy: str | Policy, memory: int, every: int, seed: int = 0) -> Iterator[tuple[int, float]]:
        """The left stream's part of the residents under a shared memory: (step, share) after every so many steps."""
        engine = counting(self._limited(policy, memory, False, seed), self.tables)
        for end in range(every, self._steps + 1, every):
            engine.push(self._part(end - every, end))
            held = engine.metrics.streams
            yield end, held["left"].resident_rows / max(1, engine.metrics.resident_rows)

    def _query(self) -> Query:
        # Rows are pushed in time order: no stream needs to be waited for.
        return pair_query("k", time="t", within=self.window, patience=0)

    def _limited(self, policy: str | Policy, memory: int, split: bool, seed: int) -> Query:
        return self._query().with_(memory=Memory(memory, split=split), policy=told(policy), seed=seed)

    def _matched(self, query: Query) -> int:
        engine = counting(query, self.tables)
        engine.push(self._part(0, self.warm_up))
        before = engine.metrics.matched
        engine.push(self._part(self.warm_up, self._steps))
        return engine.metrics.matched - before

    @property
    def _steps(self) -> int:
        """The step after the last."""
        return 1 + max(int(table["t"][-1].as_py()) for table in self.tables.values())

    def _part(self, start: int, end: int) -> dict[str, pa.Table]:
        """The rows from one step to before another."""
        parts = {}
        for name, table in self.tables.items():
            first, after = np.searchsorted(table["t"].to_numpy(), [start, end])
            parts[name] = table.slice(int(first), int(after - first))
        return parts
