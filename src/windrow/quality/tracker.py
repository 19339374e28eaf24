"""Recall while it runs: an exact join that only counts, beside the shedding one.

Both run the same kernels on the same batches. The exact one stores no payload. When it outgrows its bytes it stores
only a sample of the rows, half as many each time (kernels/sample.py), and is told when the other join sheds one of
them: from then on it counts matches that were missed, by 1 / share. Stored rows fall at random into 32 groups, and how
much the groups' counts differ gives the interval. Matches produced are always counted exactly.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels.sample import mark_sample, note_departures, note_missing, thin
from windrow.state.block import view
from windrow.state.plan import Plan
from windrow.state.room import rows_in
from windrow.state.shard import Shard

RECENT_HALF_LIFE = 1 << 16  # arrivals
T_95 = 2.04  # Student's t for 31 degrees of freedom
FEW = 3.0  # if nothing is counted, at most so many are expected (95 %)
LEAST_ROWS = 16  # stored before they are halved
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
    return replace(plan.without_cap().with_room(limit_bytes), beside=True)


class Tracker:
    """Counts the exact join's matches and compares."""

    def __init__(self, plan: Plan, limit_bytes: int, shard: Shard | None = None) -> None:
        self.shard = shard if shard is not None else Shard(exact_plan(plan, limit_bytes), emit=False)
        self.share = 1.0
        self.given_up = False
        self.missed = 0.0  # before the first sample was taken
        self.recent = np.zeros(2)
        self._last = np.zeros(2)

    def begin(self, beside: Shard) -> None:
        """Start in the middle, beside a join without a cap, of which nothing has been lost so far."""
        plan = self.shard.plan
        self.shard.hold(beside.words.copy())
        self.shard.words[[at.EMIT, at.KEEP_GONE, at.NOTED]] = 0
        self.shard.change(plan)
        self._last = np.full(2, float(self.shard.matched))
        self._room(beside)

    @property
    def samples(self) -> float:
        """The share of the rows of which it has to be known when they are shed; 0 if of none."""
        return 0.0 if self.share == 1.0 or self.given_up else self.share

    @property
    def ahead(self) -> int:
        """How many rows the join beside may take before this one has to see them."""
        if self.share < 1.0 or self.given_up or self.shard.plan.widest_join > 2:
            return at.HIGH
        return max(self._most - self._rows, 1)

    def get_ready(self, rows: int, beside: Shard) -> None:
        """Before the join beside takes so many rows, which may be more than are stored: begin to sample then."""
        if rows > self.ahead:
            self._sample(beside)

    def watch(self, records: np.ndarray, beside: Shard, gone: np.ndarray) -> None:
        """Take the same records as the shedding shard has just taken, which has shed some rows meanwhile.

        A sample is begun between two pieces, where both have taken the same rows (`ahead`, `get_ready`), so that what
        the other one holds at that moment is known.
        """
        words, room = self.shard.plan.record_words(), self._most - self._rows
        numbers, departed = self.lose(gone)
        while len(records) and not self.given_up:
            if self.share < 1.0:
                mark_sample(self.shard.words, records, words, self.share, numbers, departed)
            stored = np.cumsum(records[at.R_LIVE :: words] == 1)
            taken = int(np.searchsorted(stored, room, side="right")) * words
            self.shard.count(records[:taken])
            records, room = records[taken:], self._room(beside)

    def lose(self, gone: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Note that rows have left the join beside; their numbers in order, and the next number when each left."""
        order = np.argsort(gone[:, at.G_NUMBER])
        numbers, departed = gone[order, at.G_NUMBER], gone[order, at.G_SEQ]
        if len(order) and self.share < 1.0:
            note_departures(self.shard.words, numbers, departed)
        return numbers, departed

    @property
    def _most(self) -> int:
        return rows_in(self.shard.plan, self.shard.plan.room_bytes)

    @property
    def _rows(self) -> int:
        return int(self.shard.stream_counter(at.ROWS).sum())

    def _room(self, beside: Shard) -> int:
        """How many rows more can be stored inside the bytes: half as many are stored from now on if those are few."""
        most = self._most
        while not self.given_up:
            free = most - self._rows
            if free > most // FREE:
                return free
            self._halve(beside)
        return 0

    def _halve(self, beside: Shard) -> None:
        """Store half as many rows; give up where a match has several stored rows or hardly any would be left."""
        if self.shard.plan.widest_join > 2 or self._rows < LEAST_ROWS:
            self.given_up = True
            self.shard = Shard(self.shard.plan, emit=False)
            return
        self._sample(beside)

    def _sample(self, beside: Shard) -> None:
        if self.share == 1.0:
            self.missed = max(float(self.shard.matched - beside.matched), 0.0)
            note_missing(self.shard.words, beside.words)
        self.share /= 2
        thin(self.shard.words, self.share)
        self.shard.floats[at.SAMPLE_SHARE] = self.share
        self.shard.floats[at.SAMPLE_WEIGHT] = 1.0 / self.share

    def change(self, plan: Plan, limit_bytes: int, beside: Shard) -> None:
        """Follow a change of windows or memory, which the join beside has not followed yet."""
        self.shard.change(exact_plan(plan, limit_bytes))
        self._room(beside)

    def exact(self, matched: int) -> float:
        """Matches of the exact join so far: counted while all rows were stored, then what was found and was missed."""
        if self.share == 1.0:
            return max(float(self.shard.matched), float(matched))
        return matched + self.missed + float(self._groups.sum())

    @property
    def _groups(self) -> np.ndarray:
        return view(self.shard.words, at.SAMPLE_AT, 1, at.GROUPS)[0].view(np.float64)

    def settle(self, matched: int, arrivals: int) -> None:
        """After a push: let what is recent fade."""
        sums = np.array([matched, self.exact(matched)])
        self.recent = self.recent * 0.5 ** (arrivals / RECENT_HALF_LIFE) + (sums - self._last)
        self._last = sums

    def recall(self, matched: int) -> Recall | None:
        """The estimate for so many matches produced, or None if it was given up."""
        if self.given_up:
            return None
        exact, spread = self.exact(matched), 0.0
        if self.share < 1.0:
            spread = max(T_95 * float(np.sqrt(at.GROUPS * self._groups.var(ddof=1))), FEW / self.share)
        overall = matched / exact if exact else 1.0
        recent = min(float(self.recent[0] / self.recent[1]), 1.0) if self.recent[1] > 0 else overall
        least = max(exact - spread, matched + self.missed)
        low = matched / (exact + spread) if exact else 1.0
        return Recall(overall, (low, matched / least if least else overall), recent, exact)

    def state(self) -> dict[str, object]:
        """What a snapshot keeps beside the shard."""
        return {
            "share": self.share,
            "given_up": self.given_up,
            "missed": self.missed,
            "recent": self.recent.tolist(),
            "last": self._last.tolist(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Take over what a snapshot keeps beside the shard; raises ValueError if it cannot be that."""
        share, given_up, missed, *pairs = (state[name] for name in ("share", "given_up", "missed", "recent", "last"))
        sums = np.array(pairs, object)
        kinds = {type(number) for number in (share, missed, *sums.flat)}
        if sums.shape != (2, 2) or kinds != {float} or len(state) != 5:
            raise ValueError("the estimate of recall has numbers that are none")
        if type(given_up) is not bool or not np.isfinite(sums.astype(np.float64)).all():
            raise ValueError("the estimate of recall has sums that are no numbers")
        stored = self.shard.floats[at.SAMPLE_SHARE]
        whole = given_up or share == 1.0  # nothing is sampled, or nothing is stored any more
        if not (0.0 < share <= 1.0 and np.frexp(share)[0] == 0.5 and stored == (0.0 if whole else share)):
            raise ValueError("the estimate of recall has another share than its rows")
        if given_up and (self._rows or self.shard.matched or self._groups.any()):
            raise ValueError("the estimate of recall was given up and has rows")
        if not 0.0 <= missed < at.HIGH or (missed and share == 1.0):
            raise ValueError("the estimate of recall has missed what cannot be")
        self.share, self.given_up, self.missed = share, given_up, missed
        self.recent, self._last = sums.astype(np.float64)
