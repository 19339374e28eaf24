"""A policy that is deferred: the join is an exact one until a part of a cap is used, and then the policy begins.

Can catch: a policy that begins with other rows, counts or lists after a restart or with other pushes; rows that are
shed before it has begun, also when one instant brings more than the whole cap; a deferred join that is not the exact
one; trials of `auto` that look at other arrivals than if nothing had been deferred; a policy that is interrupted while
it begins and half there from then on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.running import assert_accounted
from tests.streams import configurations, label

import windrow as wr
from windrow.kernels import layout as at
from windrow.kernels import maintenance
from windrow.state.block import fixed_bytes

POLICIES = {label(policy): policy for policy in configurations()}
MEMORY = {"rows": 48, "bytes": "60 kB", "split": wr.Memory(48, split=True)}
LAID_OUT = [at.Head.slot_words, at.Head.key_words, at.Head.leaves, at.Head.place_off, at.Head.score_off]
Tables = dict[str, pa.Table]


def rows(seed: int, count: int = 240) -> Tables:
    """Two streams in order of time, in which rows expire before much is used, and then many come at once."""
    rng = np.random.default_rng(seed)
    steps = np.where(np.arange(count) < count // 3, 20, 1)
    chance = 1.0 / np.arange(1, 31)
    keys, text = rng.choice(30, (2, count), p=chance / chance.sum()), ["x" * 400] * count
    return {n: pa.table({"t": np.cumsum(steps), "k": k, "s": text}) for n, k in zip("ab", keys, strict=True)}


def engine_of(policy: str, tables: Tables, memory: Any) -> wr.Engine:
    streams = [wr.Stream(n, "t", wr.Window.time(40)) for n in "ab"]
    query = wr.Query(streams=streams, on="k", memory=memory, policy=POLICIES[policy], patience=0)
    options = {"oracle": tables} if "oracle" in policy else {}
    return wr.Engine(query, {n: table.schema for n, table in tables.items()}, recall=False, **options)


def has_begun(engine: wr.Engine) -> bool:
    return bool(engine.bound()[1].words[at.Head.begun])


def pushed(engine: wr.Engine, tables: Tables, start: int, size: int) -> pa.Table:
    found = engine.push({n: table.slice(start, size) for n, table in tables.items()})
    assert_accounted(engine)
    assert has_begun(engine) or engine.metrics.shed == 0
    return found


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_restart_at_any_push_and_other_pushes_change_nothing(policy: str, memory: str) -> None:
    tables = rows(len(policy))
    whole, parts = engine_of(policy, tables, MEMORY[memory]), engine_of(policy, tables, MEMORY[memory])
    again, matches, begun = engine_of(policy, tables, MEMORY[memory]), [], []
    for start in range(0, 240, 5):
        matches.append(pushed(parts, tables, start, 5))
        assert pushed(again, tables, start, 5).equals(matches[-1])
        assert again.snapshot() == parts.snapshot()
        begun.append(has_begun(again))
        again = wr.Engine.restore(again.snapshot())
    assert pushed(whole, tables, 0, 240).equals(pa.concat_tables(matches))
    assert whole.metrics == parts.metrics == again.metrics and whole.metrics.shed > 0
    assert whole.snapshot() == parts.snapshot()
    assert begun[-1] and begun == sorted(begun)
    assert begun[0] != whole.bound()[1].plan.defers


@pytest.mark.parametrize("policy", POLICIES)
def test_one_instant_may_bring_more_than_all_memory(policy: str) -> None:
    """A single group goes from nothing to above the cap: the policy begins before it."""
    big = pa.table({"t": [7] * 6, "k": [1, 2, 3, 1, 2, 3], "s": ["x" * 20_000] * 6})
    tables = {"a": big, "b": big}
    engine = engine_of(policy, tables, "100 kB")
    assert engine.push(tables).num_rows == 12
    assert_accounted(engine)
    assert has_begun(engine) and engine.metrics.shed > 0
    assert 0 < engine.metrics.resident_bytes <= 100_000


@pytest.mark.parametrize("policy", POLICIES)
def test_a_beginning_that_is_interrupted_has_not_begun(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by Ctrl-C while the policy is compiled: no block says that it has begun and has nothing of what it keeps."""
    tables = rows(1)
    engine = engine_of(policy, tables, 48)
    with monkeypatch.context() as patch:
        patch.setattr(maintenance, "begin_policy", interrupted)
        if not engine.bound()[1].plan.defers:
            engine.push(tables)  # it has begun with the first row, and nothing is left to interrupt
            return
        with pytest.raises(KeyboardInterrupt):
            engine.push(tables)
    assert not has_begun(engine)
    engine.bound()[1].begin_policy()
    assert has_begun(engine)


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("policy", POLICIES)
def test_a_join_that_is_deferred_is_the_exact_one(policy: str) -> None:
    """The same driver and records, and as many bytes beside fixed tables: there is nothing that it could pay for."""
    tables = rows(1)
    exact, capped = engine_of("fifo", tables, None), engine_of(policy, tables, "100 MB")
    if not capped.bound()[1].plan.defers:
        assert has_begun(capped)
        return
    for start in range(0, 240, 60):
        assert pushed(exact, tables, start, 60).equals(pushed(capped, tables, start, 60))
    one, other = exact.bound()[1], capped.bound()[1]
    assert not has_begun(capped)
    assert other.hooks is one.hooks
    assert np.array_equal(one.words[LAID_OUT], other.words[LAID_OUT])
    assert one.words.nbytes - fixed_bytes(one.plan) == other.words.nbytes - fixed_bytes(other.plan)


@pytest.mark.parametrize("size", [3, 21, 300, 1_200])
def test_trials_look_next_when_they_would_have_looked(size: int) -> None:
    """Batches are not cut for looks at which there is nothing to see; the next look is where those would have led."""
    steps, table = 1_200, pa.table({"t": np.arange(1_200) // 3, "k": np.arange(1_200) % 7, "s": [""] * 1_200})
    engine, arrivals, looks, expected = engine_of("auto", {"a": table, "b": table}, 1_000_000), 0, 0, 64
    for start in range(0, steps, size):
        engine.push({name: table.slice(start, size) for name in "ab"})
        for _ in range(size // 3):
            arrivals += 6  # rows of one tick
            if arrivals >= expected:
                looks += 1
                expected = arrivals + (64 if looks == 1 else max(64, arrivals // 8))
        trials = engine.bound()[1].trials
        assert trials is not None and trials.next == expected
    assert looks > 10 and not has_begun(engine)


def test_which_policies_are_deferred() -> None:
    """Those that keep counts, ranks or lists, by plain counts; credits, ages and other statistics need every row."""
    tables = rows(1)
    found = {name for name in POLICIES if engine_of(name, tables, 48).bound()[1].plan.defers}
    assert found == {"auto", "rand", "prob-running", "life-running", "life-expected-running"}
