"""The rule AUTO: rows are kept by how often their partners arrive, and how arrivals are counted is tried out.

What can be chosen (choices.py): all arrivals, recent ones only at two half-lives, or both; those of the partners'
streams, or of all streams together, for a key that has just come on one stream may be about to come on the other. No
choice serves all streams best (docs/decisions/0017).

Once memory is full, and every so often, each choice is tried for a while: a fork of the shard that follows it takes the
same rows and counts its matches, and the shard goes by whichever has matched most lately. Of a large shard a sample is
forked instead (samples.py), in memory to scale, and a choice must be ahead by four standard errors. Trials lie further
apart the longer nothing changes, and leave early what is far behind; they begin at once when the rate of matches moves.
Everything happens at numbers of arrivals, which do not depend on batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels import maintenance
from windrow.kernels.statistics.counts import MIX_STEP
from windrow.state import block
from windrow.state.auto.choices import CHOICES, PLAIN, TRIED, USUAL, USUAL_PART, Choice
from windrow.state.auto.samples import Sample, drawn, outgrown

if TYPE_CHECKING:
    from windrow.state.shard import Shard

FORKS = TRIED
TRIAL_ROWS = 4096  # residents that are tried with, about
LEAST_ROWS = 48  # and at least
SURE = 4.0  # standard errors; by chance two are common with so many rivals and looks
FIRST_LOOK = 64  # arrivals
LOOKS = 16  # in a window
SAMPLED_LOOKS = 4  # the same with a sample: between looks its forks are out of the processor's cache
TRIAL_WINDOWS = 8  # a trial ends when nothing has changed for so long
PROMISING, LIKELY = 1, 2.0  # a trial with a sample ends when after a window no choice is ahead by two standard errors
LONGEST_REST, LONGER = 128, 4  # windows; each rest is so many times the one before
STEADY = 16  # windows: a trial before a rest that long leaves choices that are surely far behind after a window
FAR, SURELY = 0.02, 4.0  # behind by this part, and by so many standard errors
NEWS = 1.5  # a rate of matches over a window that is so many times another
FORGET = 4  # windows: the half-life of what was counted, at least
REMEMBER = 0.25  # and this part of all arrivals
MARGIN = 0.005  # a choice must have gained so much more than the present one, or its root if that is more
REWEIGH = 1.125  # times as many arrivals
MOST = 2**40  # arrivals in a window
MOST_WORTH = 1e150  # sums of values are cut here, so that differences and scores are numbers


class Trials:
    """Decides what a shard of the rule AUTO goes by."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.forks: list[Shard | None] = []  # by choice; None: not tried, or too far behind
        self.sample = Sample()
        self.choice = PLAIN
        self.next = FIRST_LOOK  # the number of arrivals at which to look
        self.end = 0  # and that at which the trial or the rest ends
        self.rest = 1  # windows
        self.window = 0  # arrivals in one
        self.looked, self.weighed = 0, 0
        self.since = (0, 0)  # arrivals and clock when the rate of arrivals was last taken
        self.rate, self.gained = 0.0, 0.0  # of matches in a window, when the rest began; and all that there were
        self.scores, self.counted = np.zeros((2, len(CHOICES)))

    def __str__(self) -> str:
        choice = CHOICES[self.choice]
        counts = "all arrivals"
        if choice.part and self.weighed:
            recent = f"arrivals with a half-life of {self._half_life(choice):,}"
            counts = f"{recent}, and all" if choice.mixed else recent
        return f"{counts}, {'of all streams together' if choice.pooled else 'of the partner streams'}"

    # -- pieces of a batch -----------------------------------------------------------------------------------------

    def piece(self, batch: np.ndarray) -> np.ndarray:
        """The rows of a batch up to where the trials want to look, between ticks; all of them while there is nothing to
        see, for the policy is deferred and nothing has been shed."""
        if self.since[0] > 0 and not self.shard.words[at.Head.begun]:
            return batch
        words = self.shard.plan.record_words()
        return batch[: _end(batch[at.R_TICK :: words], max(self.next - self._arrivals, 1)) * words]

    @property
    def _arrivals(self) -> int:
        return int(self.shard.words[at.Head.arrivals])

    def watch(self, piece: np.ndarray, probing: bool = True) -> None:
        """Let the forks take what the shard has just taken; look, if it is time."""
        if self.forks:
            rows = self.sample.of(piece, self.shard)
            for fork in self.tried():
                fork.count(rows, probing)
        self._pass(piece[at.R_TICK :: self.shard.plan.record_words()])
        if self._arrivals >= self.next:
            self._look()

    def _pass(self, ticks: np.ndarray) -> None:
        """Leave out the looks inside a piece, which was not cut for them: when to look next is as if they had been."""
        before = self._arrivals - len(ticks)
        while (look := before + _end(ticks, self.next - before)) < self._arrivals:
            self.next = _later(look)

    def tried(self) -> Iterator[Shard]:
        """All forks that run now."""
        return (fork for fork in self.forks if fork is not None)

    def _look(self) -> None:
        if any(outgrown(fork) for fork in self.tried()):
            self._end()
        elif self.forks:
            self._compare()
        elif self.since[0] == 0:
            self.since = (self._arrivals, int(self.shard.words[at.Head.clock]))
            self.next = self._arrivals + FIRST_LOOK
        elif not self.shard.words[at.Head.begun] or not self.shard.stream_counter(at.SHED).any():
            self.next = _later(self._arrivals)
        elif self._arrivals >= self.end or self._has_moved():
            self._begin()
        else:
            self._reweigh()
            self.next = min(self.end, self._arrivals + self.window)

    # -- trials ----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Fork the shard once for each choice."""
        self.window = self._window_arrivals()
        sample = drawn(self.shard, TRIAL_ROWS, LEAST_ROWS)
        if sample is None:
            self._go_untried()
            return
        self.sample = sample
        if self.weighed == 0:
            self.choice = USUAL
        fork = self.shard.fork(sample)
        self.forks = [self._forked(fork, k) for k in range(len(CHOICES))]
        self._weigh()
        self.counted, self.looked = self._gained(), self._arrivals
        self.end = self._arrivals + TRIAL_WINDOWS * self.window
        self.next = self._arrivals + self._step

    def _forked(self, fork: Shard, number: int) -> Shard | None:
        """A fork for a choice: the given one for the present choice, its twins for others; None if it is not tried."""
        if number == self.choice:
            return fork
        return None if number == PLAIN else fork.twin()

    def _go_untried(self) -> None:
        """Go by what serves most streams, where memory has no bytes for forks."""
        if self.weighed == 0:
            self.choice = USUAL
            self._weigh()
        self._reweigh()
        self.end = self.next = self._arrivals + self.window

    @property
    def _rows(self) -> int:
        return int(self.shard.stream_counter(at.Stream.rows).sum())

    @property
    def _step(self) -> int:
        """Arrivals to the next look: few in the beginning."""
        looks = LOOKS if self.sample.is_whole else SAMPLED_LOOKS
        return max(min(self.window, self._arrivals) // looks, FIRST_LOOK)

    def _gained(self) -> np.ndarray:
        """What each fork has gained so far."""
        return np.array([0.0 if fork is None else gain(fork) for fork in self.forks])

    def _half_life(self, choice: Choice) -> int:
        return max(2, self.window // (choice.part or USUAL_PART))

    def _follow(self, shard: Shard, number: int, seen: float = 1.0) -> None:
        """Let a shard go by a choice, or a sample of it that sees a share of the arrivals."""
        choice = CHOICES[number]
        half_life = self._half_life(choice)
        shard.words[at.Head.choice], shard.words[at.Head.half_life] = choice.word, max(2, int(half_life * seen))
        recent = half_life / np.log(2.0)  # so many recent arrivals weigh as much as all together
        mean, weight = recent / max(recent, self._arrivals), shard.floats[at.Head.weight]
        shard.floats[at.Head.mix] = mean * weight * np.sqrt(MIX_STEP) if choice.mixed else 0.0
        shard.floats[at.Head.mix_until] = weight * MIX_STEP if choice.mixed else np.inf
        block.write_growth(shard.words)
        if shard.words[at.Head.looks]:  # other counts have another usual one
            shard.words[at.Head.look_next] = int(shard.words[at.Head.arrivals]) + 1
        maintenance.reconsider(shard.plan.hooks, shard.words)

    def _weigh(self, again: bool = False) -> None:
        """Let the shard and all that is tried go by their choices, as all arrivals weigh now beside recent ones.

        Again that is only of use to those that mix them.
        """
        self.weighed = self._arrivals
        if CHOICES[self.choice].mixed or not again:
            self._follow(self.shard, self.choice)
        for k, fork in enumerate(self.forks):
            if fork is not None and (CHOICES[k].mixed or not again):
                self._follow(fork, k, self.sample.seen)

    def _reweigh(self) -> None:
        """Weigh again when arrivals have become so many more that it tells."""
        if self._arrivals >= REWEIGH * self.weighed:
            self._weigh(again=True)

    def _compare(self) -> None:
        """Count what each fork has gained, go by the best, and end the trial when its time has come."""
        total = self._gained()
        half_life = max(FORGET * self.window, REMEMBER * self._arrivals)
        fade = 0.5 ** ((self._arrivals - self.looked) / half_life)
        self.scores = np.clip(self.scores * fade + self._gains(total), -MOST_WORTH, MOST_WORTH)
        self.counted, self.looked = total, self._arrivals
        best = self._best()
        if best != self.choice:
            self.choice, self.rest = best, 1
            self._follow(self.shard, best)
            self.end = self._arrivals + TRIAL_WINDOWS * self.window
        if self._arrivals < self.end:
            self._narrow()
            self._give_up()
        self._reweigh()
        if self._arrivals < self.end:
            self.next = self._arrivals + self._step
            return
        self._end()

    def _end(self) -> None:
        """End a trial; the next one begins after a rest."""
        self.forks = []
        self.end = self._arrivals + self.rest * self.window
        self.rest = min(LONGER * self.rest, LONGEST_REST)
        self.rate, self.gained = 0.0, gain(self.shard)
        self.next = min(self.end, self._arrivals + self.window)

    def _gains(self, total: np.ndarray) -> np.ndarray:
        """What each choice has gained since the last look; one that is no longer tried as much as the present one, in
        proportion to what both had gained before, so that it stays as far behind as it was."""
        gains, gone = total - self.counted, self._gone()
        if gone.any():
            now = gains[self.choice] / max(self.scores[self.choice], 1.0)
            gains[gone] = self.scores[gone] * now
        return gains

    def _gone(self) -> np.ndarray:
        """Which choices are no longer tried."""
        return np.array([fork is None for fork in self.forks])

    @property
    def _tried_for(self) -> float:
        """Windows since the trial began, or since the choice last changed."""
        return TRIAL_WINDOWS - (self.end - self._arrivals) / self.window

    def _narrow(self) -> None:
        """Try those no longer that are surely far behind the present choice, once a window has been counted.

        Not where matches have values, of which a few may weigh as much as all others, or less than nothing.
        """
        if self.rest < STEADY or self._tried_for < 1 or self.shard.plan.value:
            return
        behind = self.scores[self.choice] - self.scores
        now = max(float(self.scores[self.choice]), 0.0)
        far = (behind > FAR * now) & (behind > SURELY * max(np.sqrt(now), self._error()))
        for k in np.flatnonzero(far):
            self.forks[k], self.counted[k] = None, 0.0
        if sum(fork is not None for fork in self.forks) == 1:
            self.end = self._arrivals

    def _give_up(self) -> None:
        """End a trial with a sample in which nobody promises to do better than the present choice."""
        if self.sample.is_whole or self._tried_for < PROMISING:
            return
        promising = self.scores - self.scores[self.choice] > LIKELY * self._error()
        if not (promising & ~self._gone()).any():
            self.end = self._arrivals

    def _error(self) -> float:
        """The standard error of a lead over the present choice, that comes from sampling: at most that of a sum over
        as many independent rows as were stored since the trial began; of n streams a match takes n - 1 of them."""
        share, rest = self.sample.share, self.shard.plan.widest_join - 1
        stored = max(share * self._tried_for * self.window, 1.0)
        return max(float(self.scores[self.choice]), 0.0) * float(np.sqrt(rest * (1.0 - share) / stored))

    def _best(self) -> int:
        """The choice that has gained most, if it is surely ahead of the present one; or that."""
        best = int(np.where(self._gone(), -np.inf, self.scores).argmax())
        now = max(float(self.scores[self.choice]), 0.0)
        ahead = self.scores[best] - self.scores[self.choice]
        return best if ahead > max(np.sqrt(now), MARGIN * now, SURE * self._error()) else self.choice

    def _has_moved(self) -> bool:
        """Whether the rate of matches is not what it was after the last trial."""
        total = gain(self.shard)
        found, self.gained = total - self.gained, total
        if self.rate == 0.0:
            self.rate = found
            return False
        if self.rate / NEWS <= found <= self.rate * NEWS:
            return False
        self.rest = 1
        self.scores = np.zeros(len(CHOICES))  # what was gained before says little now
        return True

    def _window_arrivals(self) -> int:
        """Arrivals in a window, at the rate since the last trial; some times the residents where windows do not end."""
        plan, rows = self.shard.plan, max(self._rows, 1)
        if plan.counts_rows:
            return min(max(sum(plan.windows[:, at.Stream.last_rows - at.Stream.reach].tolist()), rows), MOST)
        now = (self._arrivals, int(self.shard.words[at.Head.clock]))
        seen, passed = now[0] - self.since[0], now[1] - self.since[1]
        self.since = now
        reach = int(plan.windows[:, 0].view(np.uint64).max())
        if reach == 2**64 - 1 or passed <= 0:
            return 4 * rows
        return int(min(max(seen * (reach + 1) / passed, rows), MOST))

    # -- changes and snapshots -------------------------------------------------------------------------------------

    def restart(self, old: Trials | None = None) -> None:
        """Begin a new trial soon, after windows or memory have changed; what another has found out stays."""
        if old is not None:
            self.choice, self.window, self.since, self.scores = old.choice, old.window, old.since, old.scores
            self.weighed = old.weighed
        self.forks, self.rest = [], 1
        self.end = self.next = self._arrivals + FIRST_LOOK

    def state(self) -> tuple[np.ndarray, np.ndarray]:
        """What a snapshot keeps beside the forks: integers and floats."""
        times = [self.looked, self.weighed, *self.since]
        whole = [self.choice, self.next, self.end, self.rest, self.window, *times, bool(self.forks)]
        floats = [self.sample.share, self.sample.seen, self.rate, self.gained, *self.scores, *self.counted]
        return np.array(whole, np.int64), np.array(floats)

    def resume(self, whole: np.ndarray, floats: np.ndarray, popular: np.ndarray) -> bool:
        """Take over what a snapshot keeps; whether there are forks. Raises ValueError if it cannot be that."""
        self.choice, self.next, self.end, self.rest, self.window, *times, forks = whole.tolist()
        self.looked, self.weighed, arrivals, clock = times
        self.since = (arrivals, clock)
        share, seen, self.rate, self.gained = floats[:4].tolist()
        self.sample = Sample(share, seen, popular)
        self.scores, self.counted = floats[4:].reshape(2, len(CHOICES)).copy()
        if not (0 <= self.choice < len(CHOICES) and forks in (0, 1) and 0 < self.rest <= LONGEST_REST):
            raise ValueError("trial")
        if not (0 <= self.window <= MOST and np.isfinite(floats).all() and self.sample.is_possible(self.shard.plan)):
            raise ValueError("trial")
        if not (min(self.looked, self.weighed) >= 0 and max(self.looked, self.weighed, arrivals) <= self._arrivals):
            raise ValueError("trial")
        if forks and self.window == 0:
            raise ValueError("trial")
        if forks and not self.shard.words[at.Head.begun]:
            raise ValueError("trial")
        if not (0 <= self.end < at.HIGH and self._arrivals < self.next <= at.HIGH):
            raise ValueError("trial")
        if self.since != (0, 0) and not (arrivals > 0 and at.LOW <= clock <= self.shard.words[at.Head.clock]):
            raise ValueError("trial")
        if CHOICES[self.choice].word != self.shard.words[at.Head.choice]:
            raise ValueError("trial")
        return bool(forks)


def _end(ticks: np.ndarray, rows: int) -> int:
    """The end of the tick of the last of so many rows; of all of them if there are fewer."""
    return int(np.searchsorted(ticks, ticks[rows - 1], side="right")) if rows < len(ticks) else len(ticks)


def _later(arrivals: int) -> int:
    """When to look again after a look at which nothing had been shed yet."""
    return arrivals + max(FIRST_LOOK, arrivals // 8)


def gain(shard: Shard) -> float:
    """What a shard's matches are worth so far: their number, or the sum of their values, cut where it is not finite."""
    if not shard.plan.value:
        return float(shard.matched)
    return float(np.clip(np.nan_to_num(shard.floats[at.Head.value]), -MOST_WORTH, MOST_WORTH))


STATE = (10, 4 + 2 * len(CHOICES))  # integers and floats
