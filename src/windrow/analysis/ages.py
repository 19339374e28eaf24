"""Ages: how long rows of a key should be held, as the AGE model asks (k_opt), and how far keys differ in that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windrow.analysis.coded import Coded
from windrow.analysis.figures import Spread, spread
from windrow.kernels.analysis.locality import best_ages

MATCHES = 1 << 26  # looked at, about; of keys with more than their part of it, some rows stand for all


@dataclass(frozen=True)
class Ages:
    """k_opt: the age up to which holding rows pays best, counted in rows of the stream that they wait for.

    C(k) is how many matches a row has until age k; k_opt is where C(k) / k is largest, within the window. `pooled` is
    that of all rows together, which policy AGE would apply to each. `values` are those of the keys that match, a
    number for each, and `rows` are the same with every key as often as it has rows.
    """

    keys: Spread | None
    rows: Spread | None
    pooled: int | None
    unmatched_keys: int
    values: np.ndarray

    @property
    def near_pooled(self) -> float:
        """The share of keys whose k_opt is within a factor of two of the pooled one."""
        if self.pooled is None:
            return 0.0
        return float(((self.values >= self.pooled / 2) & (self.values <= self.pooled * 2)).mean())

    @property
    def near_any(self) -> float:
        """The share of keys whose k_opt is within a factor of two of one value, the one that suits most keys."""
        if not len(self.values):
            return 0.0
        values = np.sort(self.values)
        return float((np.searchsorted(values, 4 * values, side="right") - np.arange(len(values))).max() / len(values))


def ages(stream: Coded, partner: Coded, window: int) -> Ages:
    """The k_opt of each key of a stream whose rows wait for a partner's, a window of so many rows being held."""
    order, start = _by_key(stream)
    other_order, other_start = _by_key(partner)
    at = np.searchsorted(partner.clock, stream.clock, side="right")  # partners that have come with the row or before
    until = np.full(stream.rows, partner.rows, np.int64)  # a row leaves when the window'th after it comes
    until[: max(stream.rows - window, 0)] = np.searchsorted(partner.clock, stream.clock[window:])
    counts = np.diff(start)
    limit = max(1024, MATCHES // max(1, int((counts > 0).sum())))
    pooled = np.zeros(partner.rows + 2, np.int64)
    best = best_ages(start, at[order], until[order], other_start, other_order + 1, limit, pooled)
    matched = best > 0
    total = np.cumsum(pooled)
    overall = int(np.argmax(total[1:] / np.arange(1, len(total)))) + 1 if matched.any() else None
    weighted = spread(np.repeat(best[matched], counts[matched]))
    return Ages(spread(best[matched]), weighted, overall, int(((counts > 0) & ~matched).sum()), best[matched])


def _by_key(stream: Coded) -> tuple[np.ndarray, np.ndarray]:
    """Rows in order of key and arrival, and where each key begins."""
    order = np.argsort(stream.ids, kind="stable")
    return order, np.concatenate(([0], np.cumsum(np.bincount(stream.ids, minlength=stream.keys))))
