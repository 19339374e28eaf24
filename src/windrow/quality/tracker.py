"""Recall while it runs: an exact join that only counts, beside the shedding one.

It begins before the first row is lost: until then recall is 1, and what the other join holds is all that this one would
hold. From then on both run the same kernels on the same batches. The exact one stores no payload. When it outgrows its
bytes, which may be at once, it stores only a sample of the rows, half as many each time (kernels/recall.py), and is
told when the other join sheds one of them: from then on it counts matches that were missed, by 1 / share. Stored rows
fall at random into 32 groups, and how much the groups' counts differ gives the interval. Matches produced are always
counted exactly.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels.recall import begin_beside, chosen_rows, mark_sample, note_departures, note_missing, thin
from windrow.state import block, room
from windrow.state.parts import Capacity, view
from windrow.state.plan import BESIDE, Plan
from windrow.state.shard import Shard

RECENT_HALF_LIFE = 1 << 16  # arrivals
T_95 = 2.04  # Student's t for 31 degrees of freedom
FEW = 3.0  # if nothing is counted, at most so many are expected (95 %)
LEAST_ROWS = 16  # stored before they are halved
FREE = 8  # one place in so many is free before rows are taken, or the sample is halved
FEW_ROWS = 256  # that surely fit the other join: its memory is full enough to begin, and smaller pieces are slow


@dataclass(frozen=True)
class Recall:
    """An estimate of recall."""

    overall: float
    interval: tuple[float, float]
    recent: float
    exact_matched: float


@lru_cache(maxsize=64)
def exact_plan(plan: Plan, limit_bytes: int) -> Plan:
    """The plan of the exact join beside another, in so many bytes."""
    return replace(plan.without_cap().with_room(limit_bytes), rule=BESIDE, release=None, demotes=False)


class Tracker:
    """Counts the exact join's matches and compares.

    `shard` is the exact join; None before it has begun.
    """

    def __init__(self, plan: Plan, limit_bytes: int, shard: Shard | None = None, matched: int = 0) -> None:
        """For a join of a plan that has produced so many matches, and lost none."""
        self.plan = exact_plan(plan, limit_bytes)
        self.shard = shard
        self.share = 1.0
        self.given_up = False
        self.missed = 0.0  # before the first sample was taken
        self.recent = np.zeros(2)
        self._last = np.full(2, float(matched))
        self._safe = 0  # rows of which it is known that the join beside loses none when it takes them

    # -- the beginning ---------------------------------------------------------------------------------------------

    @property
    def begun(self) -> bool:
        """Whether the exact join has begun."""
        return self.shard is not None

    def begin(self, beside: Shard) -> None:
        """Begin beside a join that has lost nothing so far: with all that it holds, or a sample that has room."""
        rows, share, most = int(beside.stream_counter(at.Stream.rows).sum()), 1.0, self._most
        while most - rows <= most // FREE:
            if self._sample_is_useless(rows):
                self._give_up()
                return
            share /= 2
            rows = chosen_rows(beside.words, share)
        self.shard = Shard.with_room(self.plan, False, _room_for(beside, self.plan, rows))
        block.carry(beside.words, beside.plan, self.shard.words, self.plan, learned=False)
        begin_beside(self.plan.hooks, beside.words, self.shard.words, share)
        if share < 1.0:
            self._store(share)

    def has_room(self, beside: Shard, rows: int, dearest: int) -> bool:
        """Whether the join beside may surely take so many rows, none dearer than told, before this one begins."""
        if self.shard is not None or beside.plan.drop or not beside.has_room(rows, dearest):
            return False
        self._safe = rows
        return True

    def allow(self, beside: Shard, stream: np.ndarray, live: np.ndarray, cost: np.ndarray) -> int:
        """How many of the next rows, of given streams and costs, the join beside may take before this one has to see
        them or to begin. It begins now if those would be few, and rows may be lost among them."""
        if self.shard is None:
            self._safe = 0 if beside.plan.drop else beside.fitting(stream, live, cost)
            if self._safe < min(len(stream), FEW_ROWS):
                self.begin(beside)
        return self._safe if self.shard is None else self.ahead

    def get_ready(self, rows: int, beside: Shard) -> None:
        """Before the join beside takes so many rows, which may be more than are allowed: begin, or begin to sample."""
        if self.shard is None and rows > self._safe:
            self.begin(beside)
        if self.shard is not None and rows > self.ahead:
            self._sample(beside)

    # -- while rows come -------------------------------------------------------------------------------------------

    @property
    def samples(self) -> float:
        """The share of the rows of which it has to be known when they are shed; 0 if of none."""
        return 0.0 if self.share == 1.0 or self.given_up else self.share

    @property
    def ahead(self) -> int:
        """How many rows the join beside may take before this one has to see them."""
        if self.share < 1.0 or self.given_up or self.plan.widest_join > 2:
            return at.HIGH
        return max(self._most - self._rows, 1)

    def watch(self, records: np.ndarray, beside: Shard, gone: np.ndarray, probing: bool = True) -> None:
        """Take the same records as the shedding shard has just taken, which has shed some rows meanwhile.

        Rows that were not probing there find no matches here.

        A sample is begun between two pieces, where both have taken the same rows (`ahead`, `get_ready`), so that what
        the other one holds at that moment is known.
        """
        if self.shard is None:
            return
        words, free = self.plan.record_words(), self._most - self._rows
        numbers, departed = self.lose(gone)
        while len(records) and not self.given_up:
            if self.share < 1.0:
                probes = np.flatnonzero(records[at.R_LIVE :: words] == at.PROBE_ONLY)  # stored nowhere, nor here
                mark_sample(self.shard.words, records, words, self.share, numbers, departed)
                records[at.R_LIVE :: words][probes] = at.PROBE_ONLY
            stored = np.cumsum(records[at.R_LIVE :: words] == 1)
            taken = int(np.searchsorted(stored, free, side="right")) * words
            self.shard.count(records[:taken], probing)
            records, free = records[taken:], self._room(beside)

    def lose(self, gone: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Note that rows have left the join beside; their numbers in order, and the next number when each left."""
        order = np.argsort(gone[:, at.G_NUMBER])
        numbers, departed = gone[order, at.G_NUMBER], gone[order, at.G_SEQ]
        if len(order) and self.shard is not None and self.share < 1.0:
            note_departures(self.shard.words, numbers, departed)
        return numbers, departed

    @property
    def _most(self) -> int:
        return room.rows_in(self.plan, self.plan.room_bytes)

    @property
    def _rows(self) -> int:
        return 0 if self.shard is None else int(self.shard.stream_counter(at.Stream.rows).sum())

    def _room(self, beside: Shard) -> int:
        """How many rows more can be stored inside the bytes: half as many are stored from now on if those are few."""
        most = self._most
        while not self.given_up:
            free = most - self._rows
            if free > most // FREE:
                return free
            self._halve(beside)
        return 0

    def _sample_is_useless(self, rows: int) -> bool:
        """Whether half of so many rows tell nothing: few, or of matches that have several stored rows."""
        return self.plan.widest_join > 2 or rows < LEAST_ROWS

    def _give_up(self) -> None:
        self.given_up, self.shard = True, Shard(self.plan, emit=False)

    def _halve(self, beside: Shard) -> None:
        """Store half as many rows, or give up where that is of no use."""
        if self._sample_is_useless(self._rows):
            self._give_up()
        else:
            self._sample(beside)

    def _sample(self, beside: Shard) -> None:
        assert self.shard is not None
        if self.share == 1.0:
            self.missed = max(float(self.shard.matched - beside.matched), 0.0)
            note_missing(self.shard.words, beside.words)
        thin(self.plan.hooks, self.shard.words, self.share / 2)
        self._store(self.share / 2)

    def _store(self, share: float) -> None:
        """From now on store this share of the rows; those that are stored are such a sample already."""
        assert self.shard is not None
        self.share = share
        self.shard.floats[at.Head.sample_share] = share
        self.shard.floats[at.Head.sample_weight] = 1.0 / share

    # -- changes ---------------------------------------------------------------------------------------------------

    def change(self, plan: Plan, limit_bytes: int, beside: Shard) -> None:
        """Follow a change of windows, memory or policy, which the join beside has not followed yet."""
        if self.shard is None and not beside.fits(plan):
            self.begin(beside)
        self.plan = exact_plan(plan, limit_bytes)
        if self.shard is not None:
            self.shard.change(self.plan)
            self._room(beside)

    def raise_watermark(self, mark: int) -> None:
        """Let no row before a time be waited for any longer."""
        if self.shard is not None:
            self.shard.raise_watermark(mark)

    def finish(self) -> None:
        """Let no row be waited for any longer."""
        if self.shard is not None:
            self.shard.finish()

    def go_by(self, own_clock: bool) -> None:
        """Let the times of rows move the watermark from now on, or not."""
        self.plan = replace(self.plan, own_clock=own_clock)
        if self.shard is not None:
            self.shard.go_by(own_clock)

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the exact join."""
        return 0 if self.shard is None else self.shard.allocated_bytes

    # -- what it says ----------------------------------------------------------------------------------------------

    def exact(self, matched: int) -> float:
        """Matches of the exact join so far: all that were found, if nothing was lost; counted while all rows were
        stored; then what was found and was missed."""
        if self.shard is None:
            return float(matched)
        if self.share == 1.0:
            return max(float(self.shard.matched), float(matched))
        return matched + self.missed + float(self._groups.sum())

    @property
    def _groups(self) -> np.ndarray:
        assert self.shard is not None
        return view(self.shard.words, at.Head.sample_at, 1, at.GROUPS)[0].view(np.float64)

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

    # -- snapshots -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, object]:
        """What a snapshot keeps beside the shard."""
        return {
            "begun": self.begun,
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
        if sums.shape != (2, 2) or kinds != {float} or len(state) != 6 or state["begun"] is not self.begun:
            raise ValueError("the estimate of recall has numbers that are none")
        if type(given_up) is not bool or not np.isfinite(sums.astype(np.float64)).all():
            raise ValueError("the estimate of recall has sums that are no numbers")
        if self.shard is None:
            self._check_unbegun(share, given_up, missed, sums)
        else:
            self._check_begun(self.shard, share, given_up, missed)
        self.share, self.given_up, self.missed = share, given_up, missed
        self.recent, self._last = sums.astype(np.float64)

    def _check_begun(self, shard: Shard, share: float, given_up: bool, missed: float) -> None:
        stored = shard.floats[at.Head.sample_share]
        whole = given_up or share == 1.0  # nothing is sampled, or nothing is stored any more
        if not (0.0 < share <= 1.0 and np.frexp(share)[0] == 0.5 and stored == (0.0 if whole else share)):
            raise ValueError("the estimate of recall has another share than its rows")
        if given_up and (self._rows or shard.matched or self._groups.any()):
            raise ValueError("the estimate of recall was given up and has rows")
        if not 0.0 <= missed < at.HIGH or (missed and share == 1.0):
            raise ValueError("the estimate of recall has missed what cannot be")

    def _check_unbegun(self, share: float, given_up: bool, missed: float, sums: np.ndarray) -> None:
        if (share, given_up, missed) != (1.0, False, 0.0) or (sums[:, 0] != sums[:, 1]).any():
            raise ValueError("the estimate of recall has not begun, and has missed something")


def _room_for(beside: Shard, plan: Plan, rows: int) -> Capacity:
    """Room for so many of the residents of a shard in a block of another plan."""
    keys = view(beside.words, at.Head.dirs_at, plan.directories, at.DIR_SIZE)[:, at.Directory.live]
    longest = min(int(beside.stream_counter(at.Stream.rows).max()), rows)
    return room.enough(plan, rows, min(int(keys.max(initial=0)), rows), 2 * longest)
