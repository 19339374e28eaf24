"""Recall while it runs: an exact join that only counts, beside the shedding one.

Both run the same kernels on the same batches. The exact one stores no payload. When it outgrows its bytes it stores
only a sample of the rows, half as many each time (kernels/sample.py): matches are then counted by 1 / share. Stored
rows fall at random into 32 groups, and how much the groups' counts differ gives the interval. Matches produced are
always counted exactly.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels.sample import mark_sample, thin
from windrow.state.block import view
from windrow.state.plan import Plan
from windrow.state.shard import Shard

RECENT_HALF_LIFE = 1 << 16  # arrivals
T_95 = 2.04  # Student's t for 31 degrees of freedom
SPARE = 0.6  # of the bytes: the rest is for what the block has in reserve


@dataclass(frozen=True)
class Recall:
    """An estimate of recall."""

    overall: float
    interval: tuple[float, float]
    recent: float
    exact_matched: float


class Tracker:
    """Counts the exact join's matches and compares."""

    def __init__(self, plan: Plan, limit_bytes: int, shard: Shard | None = None) -> None:
        self.shard = shard if shard is not None else Shard(plan.without_cap(), emit=False)
        self.limit_bytes = limit_bytes
        self.share = 1.0
        self.given_up = False
        self.recent = np.zeros(2)
        self._last = np.zeros(2)

    def begin(self, words: np.ndarray) -> None:
        """Start in the middle, from the block of a join without a cap, of which nothing has been lost so far."""
        plan = self.shard.plan
        self.shard.hold(words.copy())
        self.shard.words[at.EMIT] = 0
        self.shard.change(plan)
        self._last = np.array([self.exact, self.exact])
        self._fit()

    def watch(self, records: np.ndarray) -> None:
        """Take the same records as the shedding shard has just taken."""
        if self.given_up:
            return
        if self.share < 1.0:
            mark_sample(self.shard.words, records, self.shard.plan.record_words(), self.share)
        for _ in self.shard.advance(records):
            pass
        self._fit()

    def _fit(self) -> None:
        """Stay inside the bytes."""
        while self.shard.charged_bytes > SPARE * self.limit_bytes and not self.given_up:
            self._halve()

    def _halve(self) -> None:
        """Store half as many rows; give up where a match has several stored rows or hardly any would be left."""
        if self.shard.plan.widest_join > 2 or self.shard.stream_counter(at.ROWS).sum() < at.GROUPS:
            self.given_up = True
            self.shard = Shard(self.shard.plan, emit=False)
            return
        self.share /= 2
        thin(self.shard.words, self.share)
        self.shard.floats[at.SAMPLE_SHARE] = self.share
        self.shard.floats[at.SAMPLE_WEIGHT] = 1.0 / self.share

    def change(self, plan: Plan, limit_bytes: int) -> None:
        """Follow a change of windows or memory."""
        self.limit_bytes = limit_bytes
        self.shard.change(plan.without_cap())

    @property
    def exact(self) -> float:
        """Matches of the exact join so far: counted while all rows were stored, then what the samples stand for."""
        return self.shard.matched + float(self._groups.sum())

    @property
    def _groups(self) -> np.ndarray:
        return view(self.shard.words, at.SAMPLE_AT, 1, at.GROUPS)[0].view(np.float64)

    def settle(self, matched: int, arrivals: int) -> None:
        """After a push: let what is recent fade."""
        sums = np.array([matched, self.exact])
        self.recent = self.recent * 0.5 ** (arrivals / RECENT_HALF_LIFE) + (sums - self._last)
        self._last = sums

    def recall(self, matched: int) -> Recall | None:
        """The estimate for so many matches produced, or None if it was given up."""
        if self.given_up:
            return None
        exact = max(self.exact, float(matched))
        overall = matched / exact if exact else 1.0
        recent = min(float(self.recent[0] / self.recent[1]), 1.0) if self.recent[1] > 0 else overall
        spread = T_95 * float(np.sqrt(at.GROUPS * self._groups.var(ddof=1))) if self.share < 1.0 else 0.0
        low = matched / (exact + spread) if exact else 1.0
        high = matched / max(exact - spread, float(matched)) if matched else 0.0
        return Recall(overall, (low, max(high, overall)), recent, exact)

    def state(self) -> dict[str, object]:
        """What a snapshot keeps beside the shard."""
        return {
            "share": self.share,
            "given_up": self.given_up,
            "recent": self.recent.tolist(),
            "last": self._last.tolist(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Take over what a snapshot keeps beside the shard; raises ValueError if it cannot be that."""
        share, given_up, *pairs = (state[name] for name in ("share", "given_up", "recent", "last"))
        sums = np.array(pairs, object)
        if sums.shape != (2, 2) or {type(number) for number in (share, *sums.flat)} != {float} or len(state) != 4:
            raise ValueError("the estimate of recall has numbers that are none")
        if type(given_up) is not bool or not np.isfinite(sums.astype(np.float64)).all():
            raise ValueError("the estimate of recall has sums that are no numbers")
        stored = self.shard.floats[at.SAMPLE_SHARE]
        whole = given_up or share == 1.0  # nothing is sampled, or nothing is stored any more
        if not (0.0 < share <= 1.0 and np.frexp(share)[0] == 0.5 and stored == (0.0 if whole else share)):
            raise ValueError("the estimate of recall has another share than its rows")
        if given_up and (self.shard.stream_counter(at.ROWS).any() or self.exact):
            raise ValueError("the estimate of recall was given up and has rows")
        self.share, self.given_up = share, given_up
        self.recent, self._last = sums.astype(np.float64)
