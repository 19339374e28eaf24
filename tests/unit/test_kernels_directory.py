"""Can catch: a directory that loses a key when another is removed, hands out a number twice, or refills wrongly."""

from random import Random

import numpy as np
import pytest
from numba import njit
from tests.unit.blocks import block_of, plan_of

from windrow.kernels import layout as at
from windrow.kernels.directory import KEY_MASK, add, find, refill, remove
from windrow.kernels.memory import memory_of
from windrow.state.parts import view

FIND, ADD, REMOVE, REFILL = range(4)


@njit
def replay(block, d, kinds, codes, answers):
    """Do all operations; the answer is a key's number where one is asked for."""
    m = memory_of(block)
    for k in range(kinds.shape[0]):
        code = codes[k]
        if kinds[k] == FIND:
            answers[k] = find(m, d, code)
        elif kinds[k] == ADD:
            answers[k] = add(m, d, code)
        elif kinds[k] == REMOVE:
            remove(m, d, find(m, d, code))
        else:
            refill(m.w, d)


def codes_of(shape, random):
    """Codes that spread over the table, that all want the same few places, or that run over its end."""
    if shape == "spread":
        return [random.randrange(-(2**63), 2**63) for _ in range(1500)]
    if shape == "crowded":
        return [(random.randrange(2**40) << 11) | random.choice([0, 1, 5, 2046, 2047]) for _ in range(400)]
    return [2**11 * n + 2047 - n % 3 for n in range(-200, 200)]


def operations(random, codes, count):
    """Random operations and the answers that a dict gives, with numbers handed out last freed, first used."""
    known, free, top = {}, [], 0
    for k in range(count):
        growing = (k // 800) % 2 == 0
        code = random.choice(codes)
        roll = random.random()
        if roll < 0.3:
            yield FIND, code, known.get(code, at.NONE)
        elif roll < 0.301:
            yield REFILL, 0, 0
        elif code not in known and len(known) < 1000 and random.random() < (1.0 if growing else 0.1):
            if free:
                known[code] = free.pop()
            else:
                known[code], top = top, top + 1
            yield ADD, code, known[code]
        elif known:
            gone = code if code in known else random.choice(list(known))
            free.append(known.pop(gone))
            yield REMOVE, gone, 0
    yield from ((FIND, code, known.get(code, at.NONE)) for code in codes)


@pytest.mark.parametrize("shape", ["spread", "crowded", "wrapping"])
@pytest.mark.parametrize(("streams", "d"), [(2, 0), (3, 1)])
def test_a_directory_is_a_dict_of_codes(shape, streams, d):
    plan = plan_of(streams=streams, directories=2)
    block = block_of(plan)
    random = Random(d)
    ops = list(operations(random, codes_of(shape, random), 5000))
    kinds, codes, expected = (np.array(part, np.int64) for part in zip(*ops, strict=True))
    answers = np.zeros(len(ops), np.int64)
    replay(block, d, kinds, codes, answers)
    wrong = np.flatnonzero(answers != expected)
    assert len(wrong) == 0, [(int(k), ops[k], int(answers[k])) for k in wrong[:5]]

    final = {code: key for kind, code, key in ops[-len(set(codes.tolist())) :] if kind == FIND and key >= 0}
    lines = view(block, at.Head.dirs_at, 2, at.DIR_SIZE)
    table = view(block, at.Head.tables_at, 2, int(block[at.Head.table_size]))
    live = sorted((table[d][table[d] >= 0] & KEY_MASK).tolist())
    assert len(live) == len(set(live)) == lines[d, at.Directory.live]
    assert set(final.values()) <= set(live)
    assert (table[1 - d] == at.NONE).all() and lines[1 - d, at.Directory.live] == 0
    records = view(block, at.Head.keys_at, 2 * int(block[at.Head.key_cap]), plan.key_words())[
        d * int(block[at.Head.key_cap]) :
    ]
    for code, key in final.items():
        assert records[key, at.Key.code] == code


def test_a_new_key_has_empty_chains_and_no_counts():
    plan = plan_of(streams=3, value="product")
    block = block_of(plan)
    records = view(block, at.Head.keys_at, int(block[at.Head.key_cap]), plan.key_words())
    answers = np.zeros(1, np.int64)
    replay(block, 0, np.array([ADD]), np.array([77]), answers)
    records[0, 1:] = 123  # what an earlier owner of the record may have left there
    replay(block, 0, np.array([REMOVE]), np.array([77]), answers)
    replay(block, 0, np.array([ADD]), np.array([78]), answers)
    chain = [at.NONE, at.NONE, 0, 0]
    assert answers[0] == 0 and records[0].tolist() == [78, *chain * 3, 0, 0, 0]
