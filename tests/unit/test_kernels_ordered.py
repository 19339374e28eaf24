"""Can catch: an ordered index that loses, repeats or misplaces pairs, or starts a scan in the wrong place."""

import math
import struct
from bisect import bisect_left, insort
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from numba import njit
from tests.unit.blocks import block_of, plan_of

from windrow.kernels import layout as at
from windrow.kernels.memory import memory_of
from windrow.kernels.ordered import block_at, insert, ordered_bits, remove, seek
from windrow.kernels.places import index_at
from windrow.state.parts import view

INSERT, REMOVE, SCAN = range(3)
SCANNED = 200  # pairs read per scan, so that scans pass from block to block
NOTHING = -(2**63)


@njit
def replay(block, ix, ops, scans):
    """Do all operations; each scan reads on from a number."""
    m = memory_of(block)
    row = 0
    for k in range(ops.shape[0]):
        kind, number, slot = ops[k]
        if kind == INSERT:
            insert(m.w, ix, number, slot)
        elif kind == REMOVE:
            remove(m.w, ix, number, slot)
        else:
            place, here = seek(m.w, ix, number)
            for n in range(SCANNED):
                if place >= index_at(m, ix).used:
                    break
                record = block_at(m, ix, place)
                scans[row, n, 0] = m.w[record + at.B_NUMBER + here]
                scans[row, n, 1] = m.w[record + at.B_SLOT + here]
                here += 1
                if here == m.w[record + at.B_COUNT]:
                    place, here = place + 1, 0
            row += 1


def numbered(plan):
    """A block whose slots have sequence numbers in their own order, so that pairs sort by (number, slot)."""
    block = block_of(plan)
    slots = view(block, at.Head.slots_at, int(block[at.Head.slot_cap]), plan.slot_words())
    slots[:, at.Slot.seq] = np.arange(len(slots))
    return block


def operations(random, count, numbers):
    """Inserts and removes in waves, so that blocks split and are given back; and the scans between them."""
    pairs, free, done = [], list(range(1000)), []
    random.shuffle(free)
    scans = []
    for k in range(count):
        growing = (k // 700) % 2 == 0
        if random.random() < 0.05:
            number = random.choice(numbers)
            done.append((SCAN, number, 0))
            start = bisect_left(pairs, (number, -1))
            scans.append(pairs[start : start + SCANNED])
        elif free and (not pairs or random.random() < (0.9 if growing else 0.1)):
            pair = (random.choice(numbers), free.pop())
            insort(pairs, pair)
            done.append((INSERT, *pair))
        else:
            pair = pairs.pop(random.randrange(len(pairs)))
            free.append(pair[1])
            done.append((REMOVE, *pair))
    return done, scans, pairs


def blocks_of(block, ix, plan):
    """The pairs of each block, in order; and the numbers of all blocks."""
    cap = int(block[at.Head.block_cap])
    count = len(plan.indexed())
    order = view(block, at.Head.orders_at, count, cap)[ix]
    records = view(block, at.Head.blocks_at, count * cap, at.BLOCK_WORDS)[ix * cap : (ix + 1) * cap]
    used = int(view(block, at.Head.indexes_at, count, at.INDEX_SIZE)[ix, at.Index.used])
    found = []
    for number in order[:used]:
        record = records[number]
        n = int(record[at.B_COUNT])
        numbers, slots = record[at.B_NUMBER : at.B_NUMBER + n], record[at.B_SLOT : at.B_SLOT + n]
        found.append(list(zip(numbers.tolist(), slots.tolist(), strict=True)))
    return found, sorted(order.tolist())


NUMBERS = {
    "spread": list(range(-5000, 5000, 7)),
    "few": [-3, 0, 1, 2],
    "equal": [4],
    "extreme": [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 2, 2**63 - 1],
}


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("ix", [0, 3])
def test_an_index_is_a_sorted_list_of_pairs(numbers, ix):
    plan = plan_of(bands=2, directories=0)
    block = numbered(plan)
    random = Random(ix)
    ops, expected, pairs = operations(random, 6000, NUMBERS[numbers])
    scans = np.full((len(expected), SCANNED, 2), NOTHING, np.int64)
    replay(block, ix, np.array(ops, np.int64), scans)
    for row, wanted in zip(scans, expected, strict=True):
        assert [tuple(pair) for pair in row.tolist() if pair[1] != NOTHING] == wanted
    found, order = blocks_of(block, ix, plan)
    assert [pair for part in found for pair in part] == pairs
    assert all(1 <= len(part) <= at.BLOCK for part in found)
    assert all(len(one) + len(other) > at.FILLED for one, other in pairwise(found))
    assert order == list(range(int(block[at.Head.block_cap])))
    for other in set(range(4)) - {ix}:
        assert blocks_of(block, other, plan)[0] == []


def test_an_emptied_index_starts_anew():
    plan = plan_of(bands=1, directories=0)
    block = numbered(plan)
    there = [(k % 5, k) for k in range(300)]
    ops = [(INSERT, *p) for p in there] + [(REMOVE, *p) for p in there] + [(SCAN, -9, 0), (INSERT, 1, 2), (SCAN, -9, 0)]
    scans = np.full((2, SCANNED, 2), NOTHING, np.int64)
    replay(block, 0, np.array(ops, np.int64), scans)
    assert (scans[0] == NOTHING).all()
    assert scans[1, 0].tolist() == [1, 2] and (scans[1, 1:] == NOTHING).all()
    assert blocks_of(block, 0, plan)[0] == [[(1, 2)]]


def test_float_bits_sort_as_spark_sorts_floats():
    random = Random(0)
    floats = [math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 1.5, -1.5]
    floats += [struct.unpack("<d", random.randbytes(8))[0] for _ in range(300)]

    def twin(value):
        return (1, 0.0) if math.isnan(value) else (0, value)

    bits = {k: struct.unpack("<q", struct.pack("<d", value))[0] for k, value in enumerate(floats)}
    ordered = {k: ordered_bits.py_func(word) for k, word in bits.items()}
    assert all(-(2**63) <= number < 2**63 for number in ordered.values())
    for a, one in enumerate(floats):
        for b, other in enumerate(floats):
            assert (ordered[a] < ordered[b]) == (twin(one) < twin(other)), (one, other)
            assert (ordered[a] == ordered[b]) == (twin(one) == twin(other)), (one, other)
