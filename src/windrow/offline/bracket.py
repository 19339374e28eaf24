"""The bracket: a bound that no schedule can pass, and a schedule near it, for streams of any length.

Any prices on time prove a bound (see kernels/offline/prices.py). Good ones come from the optima of blocks of the
streams, in which several instants may be one: a block sees beyond its ends, and what it finds near them is left to its
neighbours.
The same prices lead a schedule: it holds the rows with the most to gain beyond what they pay. Both ends are checked
on the instance itself, so that neither depends on how the prices were found.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

import numpy as np

from windrow.kernels.offline.prices import follow, grow_tree, row_surplus
from windrow.kernels.offline.schedule import residual_prices
from windrow.offline.flow import solve
from windrow.offline.graph import chains_of_keys, network
from windrow.offline.instance import Instance
from windrow.offline.schedule import gain_of

FINE_STEPS = (50, 200)  # in which the prices of one reach of rows are told apart: the second where the bracket is WIDE
WIDE = 0.01
BLOCK_REACHES, MARGIN_REACHES = 4, 2  # how long a block is, and what it sees beyond its ends


@dataclass(frozen=True)
class Side:
    """One pool of an instance: its rows, their spans of events, and the places."""

    rows: np.ndarray
    instant: np.ndarray
    chain: np.ndarray
    chains: int
    lo: np.ndarray
    hi: np.ndarray
    event_instant: np.ndarray
    event_chain: np.ndarray
    event_order: np.ndarray
    gained: np.ndarray  # before each event, and after the last
    places: np.ndarray


def side_of(instance: Instance, pool: int) -> Side:
    """The pool's rows and events."""
    assert instance.key is not None
    keys = int(instance.key.max(initial=-1)) + 1
    span = np.int64(len(instance.ticks) + 1)
    rows = np.flatnonzero(instance.pool == pool)
    chain = instance.stream[rows] * keys + instance.key[rows]
    # an arrival of stream s is an event of the chain of the other stream and its key
    source = np.flatnonzero(np.isin(1 - instance.stream, np.unique(instance.stream[rows])))
    at = ((1 - instance.stream[source]) * keys + instance.key[source]) * span + instance.instant[source]
    events, count = np.unique(at, return_counts=True)
    event_instant, event_chain = events % span, events // span
    gain = np.where(event_instant >= instance.counted_from, count, 0).astype(np.float64)
    lo = np.searchsorted(events, chain * span + instance.instant[rows], side="right")
    hi = np.searchsorted(events, chain * span + instance.last[rows], side="right")
    return Side(
        rows, instance.instant[rows], chain, 2 * keys, lo, np.maximum(hi, lo), event_instant, event_chain,
        np.argsort(event_instant, kind="stable"), np.concatenate([[0.0], np.cumsum(gain)]), instance.places[pool],
    )  # fmt: skip


class Priced:
    """A pool at some prices."""

    def __init__(self, side: Side, prices: np.ndarray) -> None:
        self.side, self.prices = side, prices
        self.paid = np.concatenate([[0.0], np.cumsum(prices)])
        self.tree = grow_tree(side.gained[1:] - self.paid[side.event_instant])

    def bound(self) -> float:
        """What no schedule can pass."""
        side = self.side
        surplus = row_surplus(self.tree, side.gained, self.paid, side.instant, side.lo, side.hi)
        return float((side.places * self.prices).sum()) + surplus

    def schedule(self) -> np.ndarray:
        """Until when each row of the pool is held."""
        s = self.side
        until = s.instant.copy()
        follow(
            self.tree, s.gained, s.instant, np.arange(len(s.rows)), s.chain, s.lo, s.hi, s.chains, s.event_order,
            s.event_instant, s.event_chain, s.places, until,
        )  # fmt: skip
        return until


def coarse(instance: Instance, factor: int) -> Instance:
    """The same with several instants as one."""
    if factor == 1:
        return instance
    last = (instance.last + 1) // factor - 1  # inside the window at the whole last instant
    gaps = max((len(instance.ticks) - 1) // factor, 0)
    starts = np.arange(gaps) * factor + factor - 1
    instant = instance.instant // factor
    return replace(
        instance, ticks=instance.ticks[: gaps * factor + 1 : factor], instant=np.minimum(instant, gaps),
        last=np.clip(last, np.minimum(instant, gaps), gaps), places=instance.places[:, starts],
        counted_from=instance.counted_from // factor,
    )  # fmt: skip


def cut_out(instance: Instance, start: int, end: int) -> Instance:
    """The rows that come from one instant to before another, as if there were no others."""
    first, after = np.searchsorted(instance.instant, [start, end])
    mine = slice(int(first), int(after))
    assert instance.key is not None
    return replace(
        instance, ticks=instance.ticks[start:end], stream=instance.stream[mine], position=instance.position[mine],
        instant=instance.instant[mine] - start, last=np.minimum(instance.last[mine], end - 1) - start,
        pool=instance.pool[mine], places=instance.places[:, start : end - 1], key=instance.key[mine],
        counted_from=max(instance.counted_from - start, 0),
    )  # fmt: skip


def exact_prices(instance: Instance, pool: int, factor: int) -> np.ndarray:
    """Prices that prove the optimum of an instance in which several instants are one."""
    small = coarse(instance, factor)
    net = network(small, chains_of_keys(small, pool), pool, 1.0)
    potential = residual_prices(net.tail, net.head, net.capacity, net.gain, solve(net), len(net.supply))
    steps = np.maximum(potential[: small.gaps] - potential[1 : small.gaps + 1], 0)
    prices = np.zeros(instance.gaps)
    spread = np.repeat(steps / factor, factor)[: instance.gaps]
    prices[: len(spread)] = spread
    return prices


def reach_of(instance: Instance) -> int:
    """For how many instants rows are of use, at most (a high quantile: few rows may live longer)."""
    spans = instance.last - instance.instant
    return max(int(np.quantile(spans, 0.99)) if len(spans) else 1, 1)


def block_prices(job: tuple[Instance, int, int, int, int]) -> np.ndarray:
    """Prices of the gaps from `start` to before `end` of a block that reaches further on both sides."""
    block, pool, start, end, factor = job
    return exact_prices(block, pool, factor)[start:end]


def blocks_of(instance: Instance, pool: int, steps: int) -> Iterator[tuple[Instance, int, int, int, int]]:
    """Blocks that follow each other, each with what lies around it."""
    reach = reach_of(instance)
    core, margin = BLOCK_REACHES * reach, MARGIN_REACHES * reach
    for start in range(0, max(instance.gaps, 1), core):
        end = min(start + core, instance.gaps)
        low, high = max(start - margin, 0), min(end + margin, len(instance.ticks))
        yield cut_out(instance, low, high), pool, start - low, end - low, max(1, reach // steps)


def prices_of(instance: Instance, pool: int, steps: int, processes: int) -> np.ndarray:
    """Prices for all gaps, block by block: what lies more than a window away hardly matters."""
    jobs = list(blocks_of(instance, pool, steps))
    if len(jobs) == 1 or processes == 1:
        return np.concatenate([block_prices(job) for job in jobs])
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as executor:
        return np.concatenate(list(executor.map(block_prices, jobs)))


def bracket(instance: Instance, processes: int = 2) -> tuple[float, float, np.ndarray]:
    """(bound, gain, until) of an instance whose rows of one key are alike."""
    bound, gain, until = _bracketed(instance, FINE_STEPS[0], processes)
    if bound - gain > WIDE * bound and reach_of(instance) >= 2 * FINE_STEPS[0]:  # or all steps are told apart already
        lower, more, other = _bracketed(instance, FINE_STEPS[1], processes)
        bound = min(bound, lower)  # finer prices prove more, but do not always lead to more
        if more > gain:
            gain, until = more, other
    return bound, gain, until


def _bracketed(instance: Instance, steps: int, processes: int) -> tuple[float, float, np.ndarray]:
    """The same at prices that are told apart in so many steps of a reach."""
    until = instance.instant.copy()
    bound = instance.at_once
    for pool in range(instance.places.shape[0]):
        side = side_of(instance, pool)
        priced = Priced(side, prices_of(instance, pool, steps, processes))
        bound += priced.bound()
        until[side.rows] = priced.schedule()
    return bound, gain_of(instance, until), until
