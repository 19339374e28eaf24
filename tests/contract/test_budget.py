"""Can catch: anything that is allocated and not charged: reserve, forks, the second join for recall, dead payload."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import cycle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.streams import POLICY_NAMES, configurations, label

import windrow as wr
from windrow.engine.bind import TRIAL_SHARE
from windrow.errors import MemoryTooSmall
from windrow.kernels import layout as at
from windrow.lab.generators import locality_pair
from windrow.spec import Band, Compare, Equal, Query, Stream, Value, Window
from windrow.state import room
from windrow.state.auto import trials as choosing
from windrow.state.shard import Shard

ROWS = 3_000
POLICIES = {label(policy): policy for policy in configurations()}
TWO = [Equal("a.k", "b.k")]
PREDICATES = {
    "one key": TWO,
    "two directories": [Equal("a.k", "b.k"), Equal("b.j", "c.j")],
    "band": [Band("a.x", "b.x", 3)],
    "key and range": [*TWO, Compare("a.x", "<=", "b.x")],
    "two bands": [Band("a.x", "b.x", 3), Band("a.v", "b.v", 0.01)],
}


@cache
def rows(seed: int, count: int = ROWS, keys: int = 4_000, together: int = 4) -> pa.Table:
    """Rows of rising times, some of one instant, with two keys, two numbers and a text of any length."""
    rng = np.random.default_rng(seed)
    texts = ["x" * int(n) for n in rng.integers(0, 60, count)]
    return pa.table(
        {
            "t": np.arange(count) // together,
            "k": rng.integers(0, keys, count),
            "j": rng.integers(0, 5, count),
            "x": np.arange(count) + rng.integers(0, 50, count),
            "v": rng.random(count),
            "s": pa.array(texts),
        }
    )


def bound(budget: int) -> int:
    """What is promised: a quarter more than the budget, and 16 kB."""
    return budget + budget // 4 + 16_384


def pushed(engine: wr.Engine, tables: dict[str, pa.Table], budget: int, sizes: tuple[int, ...]) -> None:
    """Push all rows, so many at a time in turn, and look at what is allocated; at the end also after a restart."""
    start, total, turns = 0, next(iter(tables.values())).num_rows, cycle(sizes)
    while start < total:
        size = next(turns)
        engine.push({name: table.slice(start, size) for name, table in tables.items()})
        assert engine.allocated_bytes <= bound(budget), (start, engine.metrics.resident_bytes)
        start += size
    assert engine.metrics.shed > 0
    restored = wr.Engine.restore(engine.snapshot())
    assert restored.allocated_bytes <= bound(budget)


def least_budget(query: Query, schemas: dict[str, pa.Schema], **options: Any) -> int:
    """The least budget from 64 kB on that is accepted."""
    budget = 65_536
    while True:
        try:
            wr.Engine(query.with_(memory=f"{budget} B"), schemas, **options)
            return budget
        except MemoryTooSmall:
            budget += budget // 2


@pytest.mark.parametrize("shape", ["shared", "split", "valued"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("on", PREDICATES)
def test_what_is_allocated_stays_inside_the_budget(on: str, policy: str, shape: str) -> None:
    names = "abc" if on == "two directories" else "ab"
    query = Query(
        streams=[Stream(n, "t", Window.time(100_000)) for n in names],
        on=PREDICATES[on],
        policy=POLICIES[policy],
        value=Value([("a", "v")]) if shape == "valued" else None,
        select=["a.s", "b.v"],
    )
    whole = {n: rows(ord(n)) for n in names}
    schemas = {n: t.schema for n, t in whole.items()}
    options = {"oracle": whole} if "oracle" in policy else {}
    least = least_budget(query.with_(memory=wr.Memory("64 kB", "even")), schemas, **options)
    for budget in (least, 500_000):
        memory = wr.Memory(f"{budget} B", "even") if shape == "split" else wr.Memory(f"{budget} B")
        engine = wr.Engine(query.with_(memory=memory), schemas, **options)
        pushed(engine, whole, budget, (ROWS // 4, 20, 20, 20))


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_a_join_along_several_keys_uses_its_budget(policy: str) -> None:
    """Can catch: keys that are charged in directories in which their places are there for other keys."""
    rng, names = np.random.default_rng(5), "abcd"
    on = ["a.k = b.k", "b.j = c.j", "c.k = d.k"]
    query = Query(streams=[Stream(n, "t", Window.time(10**6)) for n in names], on=on, policy=policy)
    tables = {
        n: pa.table({"t": np.arange(12_000), "k": rng.integers(0, 6_000, 12_000), "j": rng.integers(0, 6_000, 12_000)})
        for n in names
    }
    budget = 4 << 20
    exact, capped = (wr.Engine(q, count_only=True) for q in (query, query.with_(memory=f"{budget} B")))
    exact.push(tables)
    assert 0.6 < exact.metrics.resident_bytes / exact.allocated_bytes < 1.05
    for start in range(0, 12_000, 3_000):
        capped.push({n: table.slice(start, 3_000) for n, table in tables.items()})
        assert capped.allocated_bytes <= bound(budget)
    assert capped.metrics.shed > 0
    assert capped.allocated_bytes > 0.85 * budget


def joined(policy: str, budget: int, tables: dict[str, pa.Table], **options: Any) -> wr.Engine:
    """An engine that holds all columns of both streams for longer than they last."""
    streams = [Stream(name, "t", Window.time(10**9)) for name in tables]
    query = Query(streams=streams, on="k", memory=f"{budget} B", policy=policy)
    return wr.Engine(query, {name: table.schema for name, table in tables.items()}, **options)


@pytest.mark.parametrize("sizes", [(100,), (10**6,)], ids=["small pushes", "one push"])
@pytest.mark.parametrize("budget", [1 << 18, 1 << 20])
@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_budgets_of_every_size(policy: str, budget: int, sizes: tuple[int, ...]) -> None:
    tables = {name: rows(ord(name), budget // 100, budget // 400) for name in "ab"}
    pushed(joined(policy, budget, tables), tables, budget, sizes)


def clustered(budget: int) -> dict[str, pa.Table]:
    """Keys that come in clusters: at first many, each with few rows, and when those are shed few with many rows."""
    left, right = locality_pair(max(budget // 25, 8_000), max(budget // 200, 500), seed=1)
    return {"a": left, "b": right}


def changing(budget: int) -> dict[str, pa.Table]:
    """Few keys, then a key of its own for every row, and both once more."""
    n, rng = budget // 100, np.random.default_rng(7)
    keys = np.concatenate([np.arange(n) % 20 if turn % 2 == 0 else rng.integers(0, 2**60, n) for turn in range(4)])
    return {name: pa.table({"t": np.arange(4 * n), "k": keys}) for name in "ab"}


@pytest.mark.parametrize("count_only", [False, True], ids=["emitted", "counted"])
@pytest.mark.parametrize("mix", [clustered, changing], ids=lambda mix: mix.__name__)
@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_the_most_rows_and_the_most_keys_come_at_different_times(
    policy: str, mix: Callable[[int], dict[str, pa.Table]], count_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Can catch: parts of a block that each stay as large as they ever had to be, also in the middle of a push."""
    blocks: list[int] = []
    hold = Shard.hold

    def held(shard: Shard, words: np.ndarray) -> None:
        blocks.append(words.nbytes)
        hold(shard, words)

    monkeypatch.setattr(Shard, "hold", held)
    for budget, sizes in ((1 << 16, (500,)), (1 << 18, (10**6,)), (1 << 20, (5_000, 20_000)))[: 2 + count_only]:
        tables = mix(budget)
        pushed(joined(policy, budget, tables, count_only=count_only), tables, budget, sizes)
        assert max(blocks) <= bound(budget)
        blocks.clear()
        if count_only:
            packed, grown = (joined(policy, budget, tables, count_only=True) for _ in range(2))
            found = after(tables, packed, sizes[0])
            with monkeypatch.context() as patched:
                patched.setattr(room, "too_large", lambda *_: False)
                assert found == after(tables, grown, sizes[0])
            blocks.clear()


def after(mix: dict[str, pa.Table], engine: wr.Engine, size: int) -> Any:
    """Counters and state after all rows."""
    for start in range(0, mix["a"].num_rows, size):
        engine.push({name: table.slice(start, size) for name, table in mix.items()})
    return engine.metrics, engine.snapshot()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("on", PREDICATES)
def test_packing_changes_nothing(on: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that is packed whenever it lacks room: matches, counters and state are those of one that only grows."""
    names = "abc" if on == "two directories" else "ab"
    streams = [Stream(n, "t", Window.time(200)) for n in names]
    query = Query(streams=streams, on=PREDICATES[on], policy=POLICIES[policy], memory="100 kB", select=["a.s", "b.v"])
    whole = {n: rows(ord(n), 900, 150) for n in names}
    options = {"oracle": whole} if "oracle" in policy else {}
    engines = [wr.Engine(query, {n: t.schema for n, t in whole.items()}, **options) for _ in range(2)]
    asked = []
    for start, size in ((0, 300), (300, 20), (320, 580)):
        found = []
        for packs, engine in enumerate(engines):
            with monkeypatch.context() as patched:
                if packs:
                    patched.setattr(room, "too_large", lambda *_: asked.append(1) or True)
                found.append(engine.push({n: t.slice(start, size) for n, t in whole.items()}))
        assert found[0].equals(found[1])
        assert engines[0].metrics == engines[1].metrics
        assert engines[0].snapshot() == engines[1].snapshot()
    assert len(asked) > 3 and engines[0].metrics.shed > 0


@pytest.mark.parametrize("sizes", [(5_000,), (10**6,)], ids=["many pushes", "one push"])
def test_trials_are_inside_the_budget(sizes: tuple[int, ...]) -> None:
    """Eight megabytes are enough for forks of a sample; whether there are any is looked at, too."""
    budget = 8_000_000
    tables = {name: rows(ord(name), 60_000, 6_000) for name in "ab"}
    engine, forks = joined("auto", budget, tables), 0
    trials = engine.bound()[1].trials
    assert trials is not None
    compare = trials._compare

    def compared() -> None:
        nonlocal forks
        forks = max(forks, len(list(trials.tried())))
        assert engine.bound()[1].allocated_bytes <= bound(budget)
        compare()

    trials._compare = compared  # type: ignore[method-assign]
    pushed(engine, tables, budget, sizes)
    assert forks == choosing.FORKS


def test_trials_of_few_keys_end_when_many_come() -> None:
    """Forks are sized for the keys there are. Can catch: forks that go on beyond their bytes as others come."""
    budget, n = 8_000_000, 60_000
    rng = np.random.default_rng(3)
    few, many = rng.integers(0, 40, (2, n)), rng.integers(0, 20_000, (2, n))
    schema, times = pa.schema([("t", pa.int64()), ("k", pa.int64())]), np.arange(2 * n)
    tables = {name: pa.table({"t": times, "k": np.r_[few[k], many[k]]}, schema) for k, name in enumerate("ab")}
    streams = [Stream(name, "t", Window.time(10**9)) for name in tables]
    query = Query(streams=streams, on="k", memory=f"{budget} B", policy="auto")
    engine = wr.Engine(query, dict.fromkeys("ab", schema), count_only=True)
    shard, tried = engine.bound()[1], [0, 0]
    assert shard.trials is not None
    for start in range(0, 2 * n, 1_000):
        if start == n:  # a trial begins when the last few keys have come, and would go on
            shard.trials.restart()
            shard.trials.next = shard.trials.end = int(shard.words[at.Head.arrivals]) + 1
        engine.push({name: table.slice(start, 1_000) for name, table in tables.items()})
        forks = list(shard.trials.tried())
        tried[start >= n] += bool(forks)
        assert sum(fork.words.nbytes for fork in forks) <= budget // TRIAL_SHARE * 3 // 2
        assert engine.allocated_bytes <= bound(budget)
    assert tried[0] > 1 and tried[1] <= 15  # pushes: the next look is a quarter of all arrivals later


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_one_instant_with_many_rows(policy: str) -> None:
    budget = 300_000
    tables = {name: rows(ord(name), 6_000, 500, together=6_000) for name in "ab"}
    pushed(joined(policy, budget, tables), tables, budget, (10**6,))


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_rows_that_grow_and_shrink(policy: str) -> None:
    """Many small rows leave a large block behind, beside which large rows have no room; and the other way round."""
    budget, n = 1_000_000, 4_000
    lengths = np.repeat([0, 20_000, 10], [n, 200, n])
    texts = pa.array(["x" * int(k) for k in lengths])
    times, keys = np.arange(len(lengths)), np.arange(len(lengths)) % 700
    tables = {name: pa.table({"t": times, "k": keys, "s": texts}) for name in "ab"}
    pushed(joined(policy, budget, tables), tables, budget, (100,))


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_memory_that_is_taken_away(policy: str) -> None:
    tables = {name: rows(ord(name), 20_000, 5_000) for name in "ab"}
    engine = joined(policy, 4_000_000, tables)
    engine.push({name: table.slice(0, 15_000) for name, table in tables.items()})
    engine.memory = "200 kB"
    assert engine.allocated_bytes <= bound(200_000)
    pushed(engine, {name: table.slice(15_000) for name, table in tables.items()}, 200_000, (1_000,))
    unbounded = joined(policy, 4_000_000, tables)
    unbounded.memory = None
    unbounded.push({name: table.slice(0, 15_000) for name, table in tables.items()})
    unbounded.memory = "200 kB"
    assert unbounded.allocated_bytes <= bound(200_000)
