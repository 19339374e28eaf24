"""Samples: the part of a large shard that its forks try with, so that each of its rows is in with one chance.

    whole       all rows of all keys
    thinned     a share of the rows of every key, where keys are few
    stratified  a share of the rows of the popular keys, which are listed, and all rows of a share of the other keys

Every arriving row of a key that belongs to a sample probes its forks and is counted by their statistics, but of
popular keys only a share is stored. So forks count as the shard counts, hold a share of its memory and find the same
share of its matches (of n streams the share to the power of n - 1), whether few keys have most rows or many have a row
each. A sample of keys alone does not: a popular key is in it, with all its rows, or is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels import trials
from windrow.kernels.statistics.counts import LEAST
from windrow.state import block, room
from windrow.state.parts import Capacity, view
from windrow.state.plan import SAMPLE_MARGIN

if TYPE_CHECKING:
    from windrow.state.plan import Plan
    from windrow.state.shard import Shard

FEW_KEYS = 8192  # of which all are in a sample
MOST_POPULAR = 256
KEY_PART, POPULAR_PART = 2, 4  # of the bytes of a fork, one in so many is for few keys, or for popular ones
SMALLER, ATTEMPTS = 0.8, 8  # a sample whose fork would take too many bytes is made smaller, some times
NOBODY = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Sample:
    """A share of a shard; of popular keys, by code in ascending order, a share of the rows; of all if none is named."""

    share: float = 1.0
    seen: float = 1.0  # the share of the arrivals that are of its keys
    popular: np.ndarray = field(default_factory=lambda: NOBODY)

    @property
    def is_whole(self) -> bool:
        """Whether it is all there is."""
        return self.share == 1.0

    def of(self, piece: np.ndarray, shard: Shard) -> np.ndarray:
        """Its rows of a piece that the shard has just taken; a copy, for drivers write into their records."""
        if self.is_whole:
            return piece.copy()
        plan = shard.plan
        words = plan.record_words()
        first = int(shard.words[at.Head.seq]) - int(np.count_nonzero(piece[at.R_LIVE :: words]))
        return trials.thinned(piece, words, self.share, self.popular, plan.seed, first, plan.counts_rows)

    def is_possible(self, plan: Plan) -> bool:
        """Whether it can have been drawn of a shard."""
        named = len(self.popular)
        fits = 0.0 < self.share <= self.seen <= 1.0 and named <= most_popular(plan)
        alone = named == 0 or (self.share < 1.0 and plan.common_key)
        return fits and alone and bool((self.popular[1:] > self.popular[:-1]).all())

    def capacity(self, shard: Shard) -> Capacity:
        """Room for the residents and keys of the shard that belong to it."""
        rows, keys = trials.thinned_size(shard.words, self.share, self.popular)
        return room.sampled(shard.plan, int(rows), int(keys), self.idle_limit(shard.plan))

    def idle_limit(self, plan: Plan) -> int:
        """Keys that only statistics keep in a fork, at most."""
        if self.is_whole:
            return plan.idle_limit
        if len(self.popular):
            return int(plan.idle_limit * self.share) + len(self.popular)
        return min(plan.idle_limit, few_keys(plan))


def few_keys(plan: Plan) -> int:
    """Up to how many keys all of them are in a sample; where a join has none, they take no bytes."""
    return FEW_KEYS if plan.fork_bytes == at.HIGH else plan.fork_bytes // KEY_PART // max(plan.key_bytes(), 1)


def most_popular(plan: Plan) -> int:
    """How many popular keys can be listed."""
    if plan.fork_bytes == at.HIGH:
        return MOST_POPULAR
    return min(MOST_POPULAR, plan.fork_bytes // POPULAR_PART // (plan.key_bytes() + 8))


def rows_in_fork(plan: Plan, rows: int, keys: int | None = None) -> int:
    """Residents for which the bytes of a fork have room, if the shard has so many; with few keys, or if there are
    more, each under a key of its own."""
    size = plan.fork_bytes - block.fixed_bytes(plan)
    margin = 1.0 + 1.0 / SAMPLE_MARGIN
    if keys is not None:
        return int(max(size - keys * margin * plan.key_bytes(), 0) / margin / plan.row_bytes())
    size -= most_popular(plan) * (plan.key_bytes() + 8)
    each = (plan.row_bytes() + plan.key_bytes()) * margin
    each += plan.idle_limit * plan.key_bytes() / max(rows, 1)  # its part of the keys that only statistics keep
    return int(max(size, 0) / each)


def drawn(shard: Shard, most: int, least: int) -> Sample | None:
    """A sample of a shard with at most so many rows, about; None if its forks have no bytes for so few.

    It goes by what the policy has counted, which begins with that if it has not begun before.
    """
    shard.begin_policy()
    plan, rows = shard.plan, max(int(shard.stream_counter(at.Stream.rows).sum()), 1)
    if plan.fork_bytes == at.HIGH and rows <= most:
        return Sample()
    keys = int(view(shard.words, at.Head.dirs_at, plan.directories, at.DIR_SIZE)[:, at.Directory.live].max(initial=0))
    few = keys <= few_keys(plan) or not plan.common_key
    if plan.fork_bytes < at.HIGH:
        most = min(most, rows_in_fork(plan, rows, keys if few else None))
    for _ in range(ATTEMPTS):
        if most < least:
            return None
        share = min(most / rows, np.nextafter(1.0, 0.0))
        sample = Sample(share) if few else _stratified(shard, share)
        if block.block_bytes(plan, sample.capacity(shard)) + sample.popular.nbytes <= plan.fork_bytes:
            return sample
        most = int(SMALLER * most)
    return None


def outgrown(fork: Shard) -> bool:
    """Whether a fork has come to need more bytes than it has: so many keys may come where they were few.

    What it can hold and holds decides, not what is allocated, which differs after a restart.
    """
    if fork.plan.fork_bytes == at.HIGH:
        return False
    keys = view(fork.words, at.Head.dirs_at, fork.plan.directories, at.DIR_SIZE)[:, at.Directory.live]
    needed = Capacity(sum(fork.plan.cap_rows), int(keys.max(initial=0)), room.FEWEST_BLOCKS)
    return block.block_bytes(fork.plan, needed) > fork.plan.fork_bytes


def _stratified(shard: Shard, share: float) -> Sample:
    """A sample of a share with the keys that have most of the residents and of the recent arrivals on its list."""
    plan = shard.plan
    codes, rows, recent = trials.popularity(shard.words)
    order = np.argsort(codes)  # how keys happen to be numbered must not tell, not even in the last bit of a sum
    codes, rows, recent = codes[order], rows[order], recent[order] / max(recent[order].sum(), LEAST)
    weight = rows / max(rows.sum(), 1.0) + recent
    named = np.sort(np.argsort(-weight, kind="stable")[: most_popular(plan)])
    seen = float(recent[named].sum())
    return Sample(share, min(seen + share * (1.0 - seen), 1.0), codes[named])
