"""Recall while it runs: an exact join without payload, of all keys or a hash sample, beside the shedding one.

Both joins run the same kernels on the same batches; the exact one only counts. When the exact one outgrows its
bytes, half of the sampled keys are dropped and later matches weigh double, so that the ratio stays an honest
estimate. Keys fall at random into 32 groups, and how much the groups differ gives the interval (the random-groups
method for a ratio).
"""

from dataclasses import dataclass

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels.sample import sampled, thin
from windrow.state.block import view
from windrow.state.plan import Plan
from windrow.state.shard import Shard

RECENT_HALF_LIFE = 1 << 16  # arrivals
T_95 = 2.04  # Student's t for 31 degrees of freedom


@dataclass(frozen=True)
class Recall:
    """An estimate of recall."""

    overall: float
    interval: tuple[float, float]
    recent: float
    exact_matched: float


class Tracker:
    """Counts the exact join's matches and compares."""

    def __init__(self, plan: Plan, limit_bytes: int) -> None:
        self.shard = Shard(plan.without_cap(), emit=False)
        self.limit_bytes = limit_bytes
        self.share = 1.0
        self.given_up = False
        self.recent = np.zeros(2)
        self._last = np.zeros(2)
        self._set_sample(self.shard)

    def attach(self, shard: Shard) -> None:
        """Let a shedding shard count the same sampled keys."""
        if self.shard.plan.common_key:
            self._set_sample(shard)

    def _set_sample(self, shard: Shard) -> None:
        if self.shard.plan.common_key:
            shard.floats[at.SAMPLE_SHARE] = self.share
            shard.floats[at.SAMPLE_WEIGHT] = 1.0 / self.share

    def watch(self, records: np.ndarray, shard: Shard) -> None:
        """Take the same records as the shedding shard has just taken."""
        if self.given_up:
            return
        if self.share < 1.0:
            records = sampled(records, self.shard.row_words, self.share, self.shard.plan.counts_rows)
        for _ in self.shard.advance(records):
            pass
        while self.shard.charged_bytes > self.limit_bytes and not self.given_up:
            self._halve(shard)

    def _halve(self, shard: Shard) -> None:
        """Watch half as many keys, or give up when there is no common key to sample by."""
        if not self.shard.plan.common_key or self.share < 1e-6:
            self.given_up = True
            self.shard = Shard(self.shard.plan, emit=False)
            return
        self.share /= 2
        thin(self.shard.words, self.share)
        self._set_sample(self.shard)
        self._set_sample(shard)

    def change(self, plan: Plan, limit_bytes: int) -> None:
        """Follow a change of windows or memory."""
        self.limit_bytes = limit_bytes
        self.shard.change(plan.without_cap())

    def _groups(self, shard: Shard) -> np.ndarray:
        return view(shard.words, at.SAMPLE_AT, 1, at.GROUPS)[0].view(np.float64)

    def _sums(self, shard: Shard) -> np.ndarray:
        """Matches of the shedding and of the exact join, over the sampled keys or all."""
        if self.shard.plan.common_key:
            return np.array([self._groups(shard).sum(), self._groups(self.shard).sum()])
        return np.array([shard.matched, self.shard.matched], float)

    def settle(self, shard: Shard, arrivals: int) -> None:
        """After a push: let what is recent fade."""
        sums = self._sums(shard)
        self.recent = self.recent * 0.5 ** (arrivals / RECENT_HALF_LIFE) + (sums - self._last)
        self._last = sums

    def recall(self, shard: Shard) -> Recall | None:
        """The estimate now, or None if it was given up."""
        if self.given_up:
            return None
        got, exact = self._sums(shard)
        overall = got / exact if exact else 1.0
        recent = self.recent[0] / self.recent[1] if self.recent[1] else overall
        spread = self._spread(shard, overall, exact)
        interval = (max(0.0, overall - spread), min(1.0, overall + spread))
        return Recall(float(overall), interval, float(recent), float(exact))

    def _spread(self, shard: Shard, overall: float, exact: float) -> float:
        """Half the width of the interval."""
        if self.share == 1.0 or exact == 0:
            return 0.0
        rest = self._groups(shard) - overall * self._groups(self.shard)
        variance = at.GROUPS / (at.GROUPS - 1) * float((rest**2).sum()) / exact**2
        return T_95 * float(np.sqrt(variance * (1.0 - self.share)))

    def state(self) -> dict[str, object]:
        """What a snapshot keeps beside the shard's words."""
        return {
            "share": self.share,
            "given_up": self.given_up,
            "recent": self.recent.tolist(),
            "last": self._last.tolist(),
        }

    def restore(self, words: np.ndarray, state: dict[str, object]) -> None:
        """Continue from a snapshot."""
        self.shard.hold(words)
        self.share, self.given_up = float(state["share"]), bool(state["given_up"])  # type: ignore[arg-type]
        self.recent, self._last = np.array(state["recent"]), np.array(state["last"])
