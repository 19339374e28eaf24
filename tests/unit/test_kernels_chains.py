"""Can catch: a row out of order that takes a wrong place in its chain, or walks past every newer row of its key."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from numba import njit

import windrow as wr
from windrow.kernels import layout as at
from windrow.kernels.chains import chain_place
from windrow.kernels.memory import memory_of
from windrow.kernels.places import chain, key_at, key_of, link_at

ROWS = 3000


@njit
def places(block, slots):
    """For each resident of the first stream: the row before it in its chain, the place that is found, and the steps."""
    m = memory_of(block)
    found = np.empty((slots.shape[0], 3), np.int64)
    for k in range(slots.shape[0]):
        slot = slots[k]
        tail = chain(key_at(m, 0, key_of(m, slot, 0)), 0).tail
        found[k, 0] = link_at(m, slot, 0).older
        found[k, 1], found[k, 2] = chain_place(m.w, slot, 0, tail)
    return found


def shard_of(keys):
    """A shard that has taken rows of these keys, one for each instant, in any order."""
    streams = [wr.Stream(name, "t", ROWS, lateness=ROWS) for name in "ab"]
    engine = wr.Engine(wr.Query(streams=streams, on="k", patience=0), count_only=True)
    order = list(range(ROWS))
    Random(3).shuffle(order)
    for start in range(0, ROWS, 100):
        times = order[start : start + 100]
        engine.push({n: pa.table({"t": times, "k": [keys[t] for t in times]}) for n in "ab"})
    return engine._shard


@pytest.mark.parametrize("popular", [1.0, 0.5, 0.1, 0.0])
def test_a_popular_key_is_found_by_age_and_a_rare_one_by_its_chain(popular):
    random = Random(4)
    keys = [0 if random.random() < popular else random.randrange(1, 400) for _ in range(ROWS)]
    shard = shard_of(keys)
    slots, slot = [], int(shard.words[shard.words[at.Head.streams_at] + at.Stream.oldest])
    while slot >= 0:
        slots.append(slot)
        slot = int(shard.words[shard.words[at.Head.slots_at] + slot * shard.words[at.Head.slot_words] + at.Slot.newer])
    assert len(slots) == ROWS
    found = places(shard.words, np.array(slots))
    before, place, steps = found.T
    # the row itself is in the chain here: the walk through the chain ends at it, the one by age at the row before it
    assert ((place == before) | (place == slots)).all()
    for time, taken in enumerate(steps):
        newer = sum(key == keys[time] for key in keys[time + 1 :])
        apart = next((k for k, key in enumerate(reversed(keys[:time])) if key == keys[time]), time)
        assert taken <= min(newer, apart)
    assert steps.max() <= 150  # of 3,000 rows
