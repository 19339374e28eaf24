"""Can catch: structures that take more bytes than they are charged, and dead payload that is kept."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow.kernels import layout as at
from windrow.spec import Band, Compare, Equal, Query, Stream, Value, Window
from windrow.state.block import Capacity, block_bytes, view

ROWS = 3_000
PUSHES = 4


@cache
def rows(seed: int, count: int = ROWS, keys: int = 4_000) -> pa.Table:
    """Rows of rising times with two keys, two numbers and a text of any length."""
    rng = np.random.default_rng(seed)
    texts = ["x" * int(n) for n in rng.integers(0, 60, count)]
    return pa.table(
        {
            "t": np.arange(count) // 4,
            "k": rng.integers(0, keys, count),
            "j": rng.integers(0, 5, count),
            "x": np.arange(count) + rng.integers(0, 50, count),
            "v": rng.random(count),
            "s": pa.array(texts),
        }
    )


def exact_bytes(shard: Any) -> int:
    """What a shard's block takes without reserve."""
    plan, words = shard.plan, shard.words
    keys = view(words, at.DIRS_AT, plan.directories, at.DIR_SIZE)[:, at.KEY_LIVE]
    blocks = view(words, at.INDEXES_AT, len(plan.indexed()), at.INDEX_SIZE)[:, at.X_USED]
    residents = int(shard.stream_counter(at.ROWS).sum())
    capacity = Capacity(residents, int(keys.max(initial=0)), int(blocks.max(initial=0)))
    return block_bytes(plan, capacity, int(words[at.ORACLE_ROWS]))


def held_bytes(engine: Any) -> int:
    """Everything that an engine holds: blocks without reserve, payload, and the lists of its slots."""
    total = exact_bytes(engine._shard)
    for payload in engine._payloads:
        total += payload.nbytes + 8 * payload.rows
    return total + (exact_bytes(engine._tracker.shard) if engine._tracker is not None else 0)


TWO = [Equal("a.k", "b.k")]
PREDICATES = {
    "one key": TWO,
    "two directories": [Equal("a.k", "b.k"), Equal("b.j", "c.j")],
    "band": [Band("a.x", "b.x", 3)],
    "key and range": [*TWO, Compare("a.x", "<=", "b.x")],
    "two bands": [Band("a.x", "b.x", 3), Band("a.v", "b.v", 0.01)],
}
POLICIES = {
    "rand": wr.policies.Rand(),
    "fifo": wr.policies.Fifo(),
    "prob": wr.policies.Prob(),
    "prob decayed": wr.policies.Prob(statistics=wr.statistics.Decayed(half_life=500)),
    "prob sketch": wr.policies.Prob(statistics=wr.statistics.Sketch(depth=3, width=256)),
    "prob oracle": wr.policies.Prob(statistics=wr.statistics.Oracle()),
    "life": wr.policies.Life(),
    "life-expected": wr.policies.LifeExpected(),
    "gdj": wr.policies.GreedyDual(),
    "gdj by row": wr.policies.GreedyDual(method=2),
    "age": wr.policies.Age(),
}


@pytest.mark.parametrize("shape", ["shared", "split", "valued"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("on", PREDICATES)
def test_what_is_held_stays_inside_the_budget(on: str, policy: str, shape: str) -> None:
    names = "abc" if on == "two directories" else "ab"
    budget = 500_000
    memory = wr.Memory(f"{budget} B", "even") if shape == "split" else wr.Memory(f"{budget} B")
    query = Query(
        streams=[Stream(n, "t", Window.time(100_000)) for n in names],
        on=PREDICATES[on],
        memory=memory,
        policy=POLICIES[policy],
        value=Value([("a", "v")]) if shape == "valued" else None,
        select=["a.s", "b.v"],
    )
    whole = {n: rows(ord(n)) for n in names}
    options = {"oracle": whole} if "oracle" in policy else {}
    engine = wr.Engine(query, {n: t.schema for n, t in whole.items()}, **options)
    step = ROWS // PUSHES
    for k in range(PUSHES):
        engine.push({n: t.slice(k * step, step) for n, t in whole.items()})
        spare = len(names) * (1 << 16)  # dead payload that is not worth a copy
        assert held_bytes(engine) <= budget + spare, (k, engine.metrics.resident_bytes)
    assert engine.metrics.total("shed") > 0
