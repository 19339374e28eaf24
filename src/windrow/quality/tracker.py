"""Recall while it runs: an exact join that only counts, beside the shedding one.

Both run the same kernels on the same batches. The exact one stores no payload. When it outgrows its bytes it stores
only a sample of the rows, half as many each time (kernels/sample.py): matches are then counted by 1 / share. Stored
rows fall at random into 32 groups, and how much the groups' counts differ gives the interval. Matches produced are
always counted exactly.
"""

import math
from dataclasses import dataclass

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels.sample import mark_sample, thin
from windrow.state.block import view
from windrow.state.plan import Plan
from windrow.state.room import rows_in
from windrow.state.shard import Shard

RECENT_HALF_LIFE = 1 << 16  # arrivals
T_95 = 2.04  # Student's t for 31 degrees of freedom
FAR = 10.0  # standard errors
FREE = 8  # one place in so many is free before rows are taken, or the sample is halved


@dataclass(frozen=True)
class Recall:
    """An estimate of recall."""

    overall: float
    interval: tuple[float, float]
    recent: float
    exact_matched: float


def exact_plan(plan: Plan, limit_bytes: int) -> Plan:
    """The plan of the exact join beside another, in so many bytes."""
    return plan.without_cap().with_room(limit_bytes)


def at_least(known: float, estimate: float, error: float) -> float:
    """What a count is expected to be that is known to reach a number, given an estimate and its standard error.

    A sample may say that the exact join has found less than was found beside it. That cannot be, and that it has found
    just as much is hardly likelier: expected is the mean of a normal distribution above the number that is known.
    """
    if error <= 0.0:
        return max(known, estimate)
    lack = (known - estimate) / error
    if lack > FAR:  # where the tail is too thin for floats: its mean lies about 1 / lack above its beginning
        return known + error / lack
    density = math.exp(-lack * lack / 2) / math.sqrt(2 * math.pi)
    return estimate + error * density / (math.erfc(lack / math.sqrt(2)) / 2)


class Tracker:
    """Counts the exact join's matches and compares."""

    def __init__(self, plan: Plan, limit_bytes: int, shard: Shard | None = None) -> None:
        self.shard = shard if shard is not None else Shard(exact_plan(plan, limit_bytes), emit=False)
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
        self._room()

    def watch(self, records: np.ndarray) -> None:
        """Take the same records as the shedding shard has just taken."""
        words, room = self.shard.plan.record_words(), self._room()
        while len(records) and not self.given_up:
            if self.share < 1.0:
                mark_sample(self.shard.words, records, words, self.share)
            stored = np.cumsum(records[at.R_LIVE :: words] == 1)
            taken = int(np.searchsorted(stored, room, side="right")) * words
            self.shard.count(records[:taken])
            records, room = records[taken:], self._room()

    def _room(self) -> int:
        """How many rows more can be stored inside the bytes: half as many are stored from now on if those are few."""
        most = rows_in(self.shard.plan, self.shard.plan.room_bytes)
        while not self.given_up:
            free = most - int(self.shard.stream_counter(at.ROWS).sum())
            if free > most // FREE:
                return free
            self._halve()
        return 0

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
        self.shard.change(exact_plan(plan, limit_bytes))
        self._room()

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
        error = float(np.sqrt(at.GROUPS * self._groups.var(ddof=1))) if self.share < 1.0 else 0.0
        exact = at_least(float(matched), self.exact, error)
        overall = matched / exact if exact else 1.0
        recent = overall
        if self.recent[1] > 0:
            part = error * np.sqrt(min(self.recent[1] / max(self.exact, 1.0), 1.0))
            recent = self.recent[0] / max(at_least(*self.recent.tolist(), part), 1.0)
        low = matched / (max(self.exact, float(matched)) + T_95 * error) if exact else 1.0
        high = matched / max(self.exact - T_95 * error, float(matched)) if matched else 0.0
        return Recall(overall, (min(low, overall), max(high, overall)), float(recent), exact)

    def state(self) -> dict[str, object]:
        """What a snapshot keeps beside the shard."""
        return {
            "share": self.share,
            "given_up": self.given_up,
            "recent": self.recent.tolist(),
            "last": self._last.tolist(),
        }

    def resume(self, state: dict[str, object]) -> None:
        """Take over what a snapshot keeps beside the shard."""
        self.share, self.given_up = float(state["share"]), bool(state["given_up"])  # type: ignore[arg-type]
        self.recent, self._last = np.array(state["recent"], np.float64), np.array(state["last"], np.float64)
