"""Can catch: a second join that runs before anything is lost, begins too late, or begins with other rows than it would
have had from the first row on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.streams import POLICY_NAMES
from tests.unit.test_tracker import SCHEMA, exact_count, limit, pushed, query_of, streams_of

import windrow as wr
from windrow.spec import Band, Compare, Equal, Memory, Stream, Value, Window


def engine_of(query, at_once=False, limit_bytes=None, **options):
    """An engine whose second join begins when it has to, or at once."""
    engine = wr.Engine(query, dict.fromkeys(query.names, SCHEMA), **options)
    if limit_bytes is not None:
        limit(engine, limit_bytes)
    if at_once:
        engine._tracker.begin(engine.bound()[1])
    return engine


def begins(engine, tables, step):
    """Push all rows; how many had come when the second join began, and what was shed by the push before."""
    rows, before = next(iter(tables.values())).num_rows, 0
    for start in range(0, rows, step):
        engine.push({name: table.slice(start, step) for name, table in tables.items()})
        if engine._tracker.begun:
            return start, before
        assert engine.metrics.recall == 1.0 and engine._tracker.allocated_bytes == 0
        before = engine.metrics.shed
    return None, before


@pytest.mark.parametrize("memory", [3_000, "3 MB", Memory(6_000, "even")], ids=str)
@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_it_begins_when_rows_may_be_shed_and_not_before(policy, memory):
    tables = streams_of(1, 40_000, 500)
    engine = engine_of(query_of(memory=memory, window=1_000, policy=policy))
    assert begins(engine, tables, 5_000) == (None, 0)  # some 2,000 residents, with room for some hundred more
    assert engine.metrics.resident_rows > 1_900
    narrow = engine_of(query_of(memory=1_500, window=1_000, policy=policy))
    start, shed = begins(narrow, tables, 100)
    assert shed == 0 and 400 <= start <= 800 and narrow._tracker.begun


@pytest.mark.parametrize("joins", ["pair", "three", "band", "rows", "valued", "two directories"])
@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_begun_late_it_counts_what_it_counts_from_the_first_row_on(policy, joins):
    names = "abc" if joins in ("three", "two directories") else "ab"
    on = {"band": Band("a.k", "b.k", 1), "two directories": [Equal("a.k", "b.k"), Equal("b.t", "c.t")]}.get(joins, "k")
    value = Value({"a": "k"}) if joins == "valued" else None
    for seed in range(3):
        tables = streams_of(10 + seed, 1_000, 60, names)
        query = query_of(names, 150, on, memory=200, policy=policy, value=value)
        if joins == "rows":
            query = query.with_(streams=[Stream(name, "t", Window.rows(140)) for name in names])
        late, first = engine_of(query), engine_of(query, at_once=True)
        start, _ = begins(late, {name: table.slice(0, 300) for name, table in tables.items()}, 15)
        assert start > 15  # it had residents when it began
        rest = {name: table.slice(start + 15) for name, table in tables.items()}
        pushed(first, {name: table.slice(0, start + 15) for name, table in tables.items()}, 15)
        for engine in (late, first):
            pushed(engine, rest, 200)
        assert late.metrics == first.metrics and late._tracker.share == 1.0
        assert late.metrics.exact_matched == exact_count(query, tables) > late.metrics.matched
        assert late._tracker.state() == first._tracker.state()


@pytest.mark.parametrize("policy", ["prob", "rand", "auto"])
def test_a_sample_that_begins_late_tells_recall_as_well_as_one_from_the_first_row_on(policy):
    """95 % is promised, so of 40 runs about 38; fewer than 33 is no chance."""
    inside, errors = 0, np.zeros(2)
    for seed in range(40):
        tables = streams_of(100 + seed, 4_000, 1_000, skew=0.5)
        query = query_of(memory=400, policy=policy, window=700, seed=seed)
        truth = exact_count(query, tables)
        found = []
        for at_once in (False, True):
            engine = engine_of(query, at_once, 40_000, count_only=True)
            metrics = pushed(engine, tables, 100)
            assert engine._tracker.allocated_bytes <= 40_000 and engine._tracker.share <= 0.5
            found.append((engine._tracker, metrics))
        (late, metrics), (first, other) = found
        assert late.share >= first.share and metrics.matched == other.matched
        low, high = metrics.recall_interval
        inside += low <= metrics.matched / truth <= high
        errors += [abs(m.recall - m.matched / truth) for _, m in found]
        assert low <= other.recall_interval[1] and other.recall_interval[0] <= high
    assert inside >= 33, inside
    assert errors[0] <= 1.2 * errors[1], errors


def test_more_residents_than_it_stores_are_sampled_as_they_are_taken_over():
    tables = streams_of(3, 20_000, 3_000)
    query = query_of(memory="1 MB", window=8_000, policy="rand")
    engine = engine_of(query, count_only=True)
    start, _ = begins(engine, tables, 500)
    held, exact = engine.metrics.resident_rows, engine._tracker.shard
    assert start > 2_000 and engine._tracker.share < 1.0
    assert exact.allocated_bytes <= engine.bound()[0].recall_bytes
    assert exact.stream_counter(0).sum() > 0  # those that were not chosen count as expired
    assert held * engine._tracker.share == pytest.approx(engine._tracker._rows, rel=0.3)


def test_three_streams_whose_residents_are_too_many_have_no_estimate():
    tables = streams_of(4, 3_000, 2_000, "abc")
    engine = engine_of(query_of("abc", memory="200 kB", window=2_000, policy="fifo"), count_only=True)
    pushed(engine, tables, 100)
    assert engine._tracker.given_up and engine.metrics.shed and engine.metrics.recall is None


@pytest.mark.parametrize("sample", [0.5, "unbiased"])
def test_a_sampler_is_watched_from_the_first_row_on(sample):
    tables = streams_of(5, 1_000, 60)
    query = query_of(memory=5_000, window=100, sample=sample)
    engine = engine_of(query)
    metrics = pushed(engine, tables, 100)
    assert engine._tracker.begun and metrics.exact_matched == exact_count(query.with_(sample=None), tables)


def test_a_row_too_large_for_memory_is_seen_coming():
    text = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("s", pa.string())])
    rows = [{"t": t, "k": 1, "s": "x" * (10**6 if t == 5 else 1)} for t in range(10)]
    query = query_of(memory="200 kB", window=100)
    engine = wr.Engine(query, dict.fromkeys("ab", text))
    for t in range(10):
        assert engine._tracker.begun == (t > 5)
        engine.push(dict.fromkeys("ab", pa.Table.from_pylist(rows[t : t + 1], schema=text)))
    metrics = engine.metrics
    assert (metrics.shed, metrics.matched, metrics.exact_matched) == (2, 100 - 9, 100)


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_memory_that_shrinks_sheds_only_after_it_has_begun(policy):
    tables = streams_of(6, 2_000, 100)
    parts = [{name: table.slice(start, 1_000) for name, table in tables.items()} for start in (0, 1_000)]
    query = query_of(memory=1_000, policy=policy)
    engine, small = engine_of(query), query.with_(memory=100)
    pushed(engine, parts[0], 250)
    data = engine.snapshot()
    assert not engine._tracker.begun
    engine.memory = 100
    assert engine._tracker.begun and engine.metrics.shed
    other = wr.Engine.restore(data, small)
    for one in (engine, other):
        pushed(one, parts[1], 250)
    assert engine.metrics == other.metrics and engine.snapshot() == other.snapshot()
    assert engine.metrics.exact_matched == exact_count(query, tables)


def test_what_changes_without_loss_lets_it_wait():
    tables = streams_of(7, 3_000, 100)
    parts = [{name: table.slice(start, 500) for name, table in tables.items()} for start in range(0, 3_000, 500)]
    engine = engine_of(query_of(memory=1_000, policy="prob"))
    pushed(engine, parts[0], 250)
    engine.memory = "1 MB"
    pushed(engine, parts[1], 250)
    engine.memory = Memory(2_000, "even")
    engine.window("a", 200)
    pushed(engine, parts[2], 250)
    engine = wr.Engine.restore(engine.snapshot(), engine.query.with_(policy="life"))
    pushed(engine, parts[3], 250)
    engine.memory = None
    pushed(engine, parts[4], 250)
    engine.memory = 1_000
    assert not engine._tracker.begun and engine.metrics.shed == 0
    engine.memory = 50
    metrics = pushed(engine, parts[5], 250)
    assert engine._tracker.begun and metrics.shed and 0.0 < metrics.recall < 1.0
    assert 0.0 < metrics.recent_recall < metrics.recall  # what came before the cap is not recent


def test_a_join_that_was_to_fail_knows_that_nothing_was_lost():
    tables = streams_of(8, 600, 60)
    query = query_of(memory=1_000, window=200, on_full="fail", policy="fifo")
    engine = engine_of(query)
    pushed(engine, {name: table.slice(0, 300) for name, table in tables.items()}, 100)
    engine = wr.Engine.restore(engine.snapshot(), query.with_(on_full="shed", memory=150))
    metrics = pushed(engine, {name: table.slice(300) for name, table in tables.items()}, 100)
    assert metrics.shed and metrics.exact_matched == exact_count(query, tables)


@pytest.mark.parametrize("memory", [250, "120 kB"])
@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_snapshots_before_at_and_after_the_beginning_go_on_alike(policy, memory):
    tables = streams_of(9, 900, 200)
    query = query_of(memory=memory, policy=policy, window=400)
    engine = engine_of(query)
    stages = set()
    for start in range(0, 900, 50):
        part = {name: table.slice(start, 50) for name, table in tables.items()}
        begun = engine._tracker.begun
        other = wr.Engine.restore(engine.snapshot())
        for one in (engine, other):
            one.push(part)
        stages.add((begun, engine._tracker.begun))
        assert engine.snapshot() == other.snapshot() and engine.metrics == other.metrics
    assert stages == {(False, False), (False, True), (True, True)} and engine.metrics.shed
    assert (engine._tracker.share < 1.0) == isinstance(memory, str)


def test_an_instant_with_more_rows_than_fit_is_seen_coming():
    tables = streams_of(11, 2_000, 200)
    days = pa.array(np.repeat([0, 1, 2], [100, 1_800, 100]))
    tables = {name: table.set_column(0, "t", days) for name, table in tables.items()}
    query = query_of(memory=1_000, window=10)
    engine = engine_of(query)
    metrics = pushed(engine, tables, 2_000)
    assert metrics.shed and metrics.exact_matched == exact_count(query, tables)


def test_how_many_rows_surely_fit():
    """Against a loop over rows, with costs and pools of every kind."""
    random = np.random.default_rng(12)
    schema = SCHEMA.append(pa.field("s", pa.string()))
    for split in (None, "even"):
        on = [Equal("a.k", "b.k"), Compare("a.k", "<", "b.t")]
        query = query_of(on=on, window=100, memory=Memory("60 kB", split), policy="fifo")
        shard = wr.Engine(query, dict.fromkeys("ab", schema)).bound()[1]
        plan, keys = shard.plan, shard.plan.links * shard.plan.key_bytes()
        for _ in range(200):
            n = int(random.integers(0, 40))
            stream, live = random.integers(0, 2, n), random.integers(0, 2, n)
            cost = random.integers(100, int(random.choice([200, 5_000])), n)
            used, fits = np.zeros(plan.pools), n
            for k in range(n):
                used[stream[k] if split else 0] += live[k] * (cost[k] + keys)
                if (used > plan.cap_bytes).any():
                    fits = k
                    break
            assert shard.fitting(stream, live, cost) == fits
            if shard.has_room(n, int(cost.max(initial=0))):
                assert fits == n
