"""Can catch: a tournament that names the wrong leaf, misses a crossing, or breaks ties by something else."""

import math
from random import Random

import numpy as np
import pytest
from numba import njit
from tests.unit.blocks import block_of, plan_of

from windrow.kernels import layout as at
from windrow.kernels import maintenance
from windrow.kernels.memory import memory_of
from windrow.kernels.places import leaf_at
from windrow.kernels.tournament import advance, clear, rebuild, update, winner
from windrow.state import block as blocks
from windrow.state.parts import Capacity
from windrow.state.shard import Shard

SET, CLEAR, ADVANCE, REBUILD = range(4)
NOBODY = -1


@njit
def replay(block, pool, ops, floats, winners):
    """Do all operations; after each that ends with an up-to-date clock, note the winner."""
    m = memory_of(block)
    for k in range(ops.shape[0]):
        kind, leaf, tie = ops[k]
        base, ends, turn, clock = floats[k]
        record = leaf_at(m, pool, leaf)
        if kind == SET:
            record.base = base
            record.tie = tie
            if m.drifting:
                record.ends = ends
                record.turn = turn
            update(m, pool, leaf, clock)
        elif kind == CLEAR:
            clear(m, record)
            update(m, pool, leaf, clock)
        elif kind == REBUILD:
            rebuild(m.w, pool, clock, m.leaves)
        else:
            advance(m.w, pool, clock)
        winners[k] = winner(m, pool)


class Twin:
    """A dict of leaves, and a look at all of them."""

    def __init__(self, drifting):
        self.leaves, self.drifting = {}, drifting

    def winner(self, clock):
        def rank(leaf):
            base, ends, turn, tie = self.leaves[leaf]
            return (base * max(ends - max(clock, turn), 0) if self.drifting else base, tie)

        return min(self.leaves, key=rank, default=NOBODY)


def operations(random, count, leaves, drifting):
    """Random operations with small whole numbers, so that priorities tie often and are computed without error.

    Clocks never go back. As in the engine, a leaf may be updated at a later clock than the tree was advanced to.
    """
    clock = 0
    first = random.randrange(leaves - 60)
    places = [random.sample(range(leaves), 60), range(first, first + 60), range(leaves - 9, leaves), range(40)]
    where = random.choice(places)
    for tie in range(count):
        kind = random.choices([SET, CLEAR, ADVANCE, REBUILD], [3, 1, 12, 0.02])[0]
        clock += random.choice([0, 0, 1, 1, 2, 7])
        ends = clock + random.randrange(-5, 80)
        turn = random.choice([-math.inf, clock + random.randrange(-20, 60)])
        base = random.randrange(5 if drifting else 30)
        yield kind, random.choice(where), tie, float(base), float(ends), float(turn), float(clock)


@pytest.mark.parametrize("rule", ["prob", "life"])
@pytest.mark.parametrize(
    ("streams", "pools", "keys"), [(2, 1, 1024), (2, 2, 1024), (3, 1, 1024), (2, 2, 1030), (3, 1, 1030)]
)
@pytest.mark.parametrize("seed", range(4))
def test_the_winner_is_the_least_priority_and_of_equals_the_earliest(rule, streams, pools, keys, seed):
    plan = plan_of(streams, pools, rule=rule)
    block = blocks.regrown(block_of(plan), plan, Capacity(keys=keys))
    maintenance.rebuild(plan.hooks, block)
    pool = pools - 1
    drifting = rule != "prob"
    ops = list(operations(Random(seed), 3000, int(block[at.Head.leaves]), drifting))
    winners = np.empty(len(ops), np.int64)
    replay(block, pool, np.array([op[:3] for op in ops]), np.array([op[3:] for op in ops]), winners)
    twin, checked = Twin(drifting), 0
    for k, (kind, leaf, tie, base, ends, turn, clock) in enumerate(ops):
        if kind == SET:
            twin.leaves[leaf] = (base, ends, turn, tie)
        elif kind == CLEAR:
            twin.leaves.pop(leaf, None)
        expected = twin.winner(clock)
        # A drifting tree is right only once it has been advanced to the clock.
        if expected != NOBODY and (not drifting or kind in (ADVANCE, REBUILD)):
            assert winners[k] == expected, (seed, k, clock, twin.leaves)
            checked += 1
    assert checked > 500


def test_pools_do_not_disturb_each_other():
    block = block_of(plan_of(rule="prob", pools=2))
    ops = np.array([[SET, 3, 1], [SET, 5, 2]])
    floats = np.array([[4.0, 0, 0, 0], [2.0, 0, 0, 0]])
    winners = np.empty(2, np.int64)
    replay(block, 0, ops, floats, winners)
    assert winners.tolist() == [3, 5]
    replay(block, 1, ops[:1], floats[:1], winners[:1])
    assert winners[0] == 3
    replay(block, 0, np.array([[ADVANCE, 0, 0]]), np.zeros((1, 4)), winners[:1])
    assert winners[0] == 5


@pytest.mark.parametrize("more", [1, 2, 3, 517, 3001])
def test_growth_gives_tournaments_an_even_number_of_leaves(more):
    """Every inner node then has two inner nodes or two leaves below it, which advance takes for granted."""
    for plan in (plan_of(rule="life", pools=2), plan_of(3, rule="life"), plan_of(rule="prob", value="sum")):
        shard = Shard(plan)
        for _ in range(12):
            for status, cap in ((at.GROW_SLOTS, at.Head.slot_cap), (at.GROW_KEYS, at.Head.key_cap)):
                before, shard.words[at.Head.need] = int(shard.words[cap]), more
                shard.make_room(status)
                assert shard.words[cap] >= before + more
            assert shard.words[at.Head.leaves] % 2 == 0
