"""Pairs: two streams that are joined, counted by the engine and by nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from windrow.analysis.coded import Coded
from windrow.engine import Engine, Metrics
from windrow.feed import feed
from windrow.policies import Policy
from windrow.spec import Window, pair_query

PERMUTATIONS = 3


@dataclass(frozen=True)
class Pair:
    """Two streams and the window of each, in rows.

    One stream alone is cut in two: its rows in odd places are joined with those in even ones.
    """

    left: Coded
    right: Coded
    window: int

    @property
    def arrivals(self) -> int:
        """Rows that come, over both streams, while a row of the faster one is in its window."""
        rows = self.left.rows + self.right.rows
        return max(1, round(self.window * rows / max(self.left.rows, self.right.rows)))

    def head(self, arrivals: int) -> Pair:
        """The rows that come first."""
        return replace(self, left=_head(self.left, arrivals), right=_head(self.right, arrivals))

    def tables(self, rng: np.random.Generator | None = None) -> dict[str, pa.Table]:
        """The streams as the engine takes them; with the keys of each permuted, if there is something to do it by."""
        sides = {"left": self.left, "right": self.right}
        return {name: s.table(rng.permutation(s.ids) if rng else None) for name, s in sides.items()}

    def count(
        self, tables: Mapping[str, pa.Table], policy: Policy | None = None, memory: int | None = None, seed: int = 0
    ) -> Metrics:
        """The metrics of the join, exact or under a policy with so many rows of memory."""
        query = pair_query("k", time="t", within=Window.rows(self.window), patience=0, seed=seed)
        if policy is not None:
            query = query.with_(policy=policy, memory=memory)
        schemas = {name: table.schema for name, table in tables.items()}
        engine = Engine(query, schemas, count_only=True, recall=False)
        for rows in feed(engine, tables):
            engine.take(rows)
        return engine.metrics


@dataclass(frozen=True)
class Clustering:
    """Matches within the window, against those after permuting the keys inside each stream.

    `j` is their ratio: above 1 the matches cluster in time, near 1 they come from popularity alone. `error` is its
    standard error over several permutations. None where permuted streams do not match.
    """

    matches: int
    permuted: float
    j: float | None
    error: float | None


def pair_of(streams: list[Coded], window: int) -> Pair:
    """The pair to be joined."""
    if len(streams) == 2:
        return Pair(streams[0], streams[1], window)
    (whole,) = streams
    left, right = (replace(whole, ids=whole.ids[i::2], clock=whole.clock[i::2], left_out=0) for i in (0, 1))
    return Pair(left, right, window)


def clustering(pair: Pair, seed: int) -> Clustering:
    """How far matches cluster in time."""
    rng = np.random.default_rng(seed)
    matches = pair.count(pair.tables()).matched
    permuted = np.array([pair.count(pair.tables(rng)).matched for _ in range(PERMUTATIONS)])
    mean = float(permuted.mean())
    if mean == 0:
        return Clustering(matches, mean, None, None)
    relative = float(permuted.std(ddof=1)) / mean / PERMUTATIONS**0.5
    return Clustering(matches, mean, matches / mean, matches / mean * relative)


def _head(stream: Coded, arrivals: int) -> Coded:
    rows = int(np.searchsorted(stream.clock, arrivals))
    return replace(stream, ids=stream.ids[:rows], clock=stream.clock[:rows], left_out=0)
