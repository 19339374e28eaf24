"""Can catch: rows joined because the hashes of their keys are equal, and counters that count such pairs.

The mask of codes is narrowed to two bits, so that unequal keys share codes all the time.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest
from tests.reference import exact_join
from tests.running import assert_accounted, assert_part, assert_same, multiset
from tests.streams import POLICY_NAMES

import windrow as wr
from windrow.spec import Band, Equal, Query, Stream, Window

WORDS = ["", "a", "b", "ab", "ba", "a longer key than eight bytes", "a longer key than eight bytez", "é", "日本"]

KINDS = {
    "string": (pa.string(), ["k"]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["k"]),
    "composite": (pa.string(), ["k", "k2"]),
    "numbers": (pa.int64(), ["k", "k2"]),
    "binary": (pa.binary(), ["k"]),
}


def schema_of(type_):
    return pa.schema([("id", pa.int64()), ("t", pa.int64()), ("k", type_), ("k2", pa.int64()), ("x", pa.int64())])


def case(random, kind, names, count):
    """Batches of rows, in order of time; some keys are null."""
    type_, _ = KINDS[kind]
    words = {"numbers": range(9), "binary": [word.encode() for word in WORDS]}.get(kind, WORDS)
    batches = []
    for push in range(3):
        batch = {}
        for name in names:
            steps = sorted(random.randrange(10) + 10 * push for _ in range(count))
            batch[name] = [
                {
                    "id": 1000 * push + n,
                    "t": t,
                    "k": random.choice(words) if random.random() < 0.95 else None,
                    "k2": random.randrange(3),
                    "x": random.randrange(5),
                }
                for n, t in enumerate(steps)
            ]
        batches.append(batch)
    return batches, {name: schema_of(type_) for name in names}


def colliding(query, schemas, mask=0x3, **options):
    """An engine that sees only some bits of each code."""
    engine = wr.Engine(query, schemas, **options)
    engine._binding = replace(engine._binding, code_mask=mask)
    return engine


def pushed(engine, batches, schemas):
    return [
        engine.push({n: pa.Table.from_pylist(rows, schema=schemas[n]) for n, rows in batch.items()})
        for batch in batches
    ]


def query_of(names, columns, **options):
    on = [Equal(f"{p}.{c}", f"{q}.{c}") for c in columns for p, q in pairwise(names)]
    select = [(f"{name}.id", f"{name}_id") for name in names]
    return Query(
        streams=[Stream(name, "t", Window.time(6)) for name in names], on=on + options.pop("more", []), **options,
        select=select,
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", ["ab", "abc"], ids=["pair", "three"])
def test_matches_are_those_of_equal_keys(kind, names):
    for seed, mask in enumerate([0x3, 0x0]):
        random = Random(seed)
        batches, schemas = case(random, kind, names, 20 if len(names) == 2 else 14)
        query = query_of(names, KINDS[kind][1])
        engine = colliding(query, schemas, mask)
        found = multiset(pushed(engine, batches, schemas))
        exact = exact_join(query, batches)
        assert_same(found, exact, (kind, seed))
        assert engine.metrics.matched == sum(exact.values()) > 0
        assert engine._shard.matched > engine.metrics.matched  # or nothing has collided
        assert engine.metrics.recall == 1.0
        assert_accounted(engine)


def test_the_exact_join_counts_no_collisions_either():
    batches, schemas = case(Random(2), "string", "ab", 20)
    engine = colliding(query_of("ab", ["k"]), schemas)
    pushed(engine, batches, schemas)
    assert engine.metrics.exact_matched == engine.metrics.matched


def test_keys_of_several_directories_are_all_compared():
    batches, schemas = case(Random(3), "string", "abc", 14)
    on = [Equal("a.k", "b.k"), Equal("b.k2", "c.k2"), Equal("b.k", "c.k"), Band("a.x", "c.x", 2)]
    query = query_of("abc", [], more=on)
    engine = colliding(query, schemas)
    found = multiset(pushed(engine, batches, schemas))
    exact = exact_join(query, batches)
    assert_same(found, exact)
    assert engine.metrics.matched == sum(exact.values()) > 0


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_under_pressure_matches_are_part_of_the_join(policy):
    batches, schemas = case(Random(8), "string", "ab", 40)
    query = query_of("ab", ["k"], memory=15, policy=policy)
    engine = colliding(query, schemas)
    found = multiset(pushed(engine, batches, schemas))
    assert_part(found, exact_join(query, batches))
    assert engine.metrics.matched == sum(found.values()) > 0
    assert engine.metrics.total("shed") > 0
    assert_accounted(engine)


def test_collisions_survive_a_change_of_memory():
    batches, schemas = case(Random(9), "composite", "ab", 20)
    query = query_of("ab", ["k", "k2"])
    engine = colliding(query, schemas)
    found = multiset(pushed(engine, batches[:1], schemas))
    engine.memory = 1000
    found += multiset(pushed(engine, batches[1:2], schemas))
    engine.memory = None
    found += multiset(pushed(engine, batches[2:], schemas))
    exact = exact_join(query, batches)
    assert_same(found, exact)
    assert engine.metrics.matched == sum(exact.values())
