"""Can catch: rows lost, doubled or miscounted when memory or windows change between pushes."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.running import assert_accounted, assert_part, assert_same, multiset
from tests.streams import configurations, label

import windrow as wr
from windrow.errors import MemoryTooSmall, SpecError
from windrow.kernels import layout as at
from windrow.policies import ALL, Given
from windrow.spec import Band, Equal, Memory, Query, Stream, Value, Window
from windrow.state.parts import parts, view

SCHEMA = pa.schema([("id", pa.int64()), ("t", pa.int64()), ("k", pa.int64()), ("x", pa.float64()), ("s", pa.string())])

SHAPES = {
    "pair": ("ab", "k", {}),
    "three": ("abc", "k", {}),
    "band": ("ab", [Equal("a.k", "b.k"), Band("a.x", "b.x", 1.5)], {}),
    "chain": ("abc", [Equal("a.k", "b.k"), Band("b.x", "c.x", 0.5)], {}),
    "text": ("ab", "s", {}),
    "value": ("ab", "k", {"value": Value({"a": "x", "b": "x"})}),
}


def query_of(shape, window=8, **options):
    names, on, more = SHAPES[shape]
    options = {**more, **options}
    window = window if isinstance(window, Window) else Window.time(window)
    select = [(f"{name}.{c}", f"{name}_{c}") for name in names for c in ("id", "s")]
    return Query(streams=[Stream(n, "t", window) for n in names], on=on, select=select, patience=0, **options)


def batches_of(seed, pushes, names, rows=8, keys=5):
    """Pushes of three instants each."""
    random, first, batches = Random(seed), 0, []
    for push in range(pushes):
        batch = {}
        for name in names:
            times = sorted(3 * push + random.randrange(3) for _ in range(rows))
            made = [
                {"id": first + n, "t": t, "k": random.randrange(keys), "x": random.randrange(8) / 2, "s": f"é{t % 4}"}
                for n, t in enumerate(times)
            ]
            batch[name] = pa.Table.from_pylist(made, schema=SCHEMA)
        first += rows
        batches.append(batch)
    return batches


def engine_of(query, **options):
    return wr.Engine(query, dict.fromkeys(query.names, SCHEMA), **options)


AMPLE = [None, 500, "1 MB", Memory(600, split=True), Memory("2 MB", split=True), None, 700, None]


@pytest.mark.parametrize("policy", ["prob", "rand", "fifo", "life", "life-expected"])
@pytest.mark.parametrize("shape", ["pair", "chain"])
def test_ample_memory_of_any_form_changes_nothing(shape, policy):
    query = query_of(shape, policy=policy)
    engine, undisturbed = engine_of(query), engine_of(query)
    for memory, batch in zip(AMPLE * 2, batches_of(1, 16, query.names), strict=True):
        engine.memory = memory
        assert engine.memory == Memory.of(memory)
        assert_same(multiset(engine.push(batch)), multiset(undisturbed.push(batch)), memory)
        assert_accounted(engine)
    assert engine.metrics.total("shed") == 0
    assert engine.metrics.matched == undisturbed.metrics.matched > 100
    for name in query.names:
        one, other = engine.metrics.streams[name], undisturbed.metrics.streams[name]
        assert (one.expired, one.resident_rows) == (other.expired, other.resident_rows)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_kind_of_join_moves_between_budgets(shape):
    query = query_of(shape)
    engine, undisturbed = engine_of(query), engine_of(query)
    for memory, batch in zip(AMPLE, batches_of(2, 8, query.names, rows=7), strict=True):
        engine.memory = memory
        assert_same(multiset(engine.push(batch)), multiset(undisturbed.push(batch)), memory)
    assert engine.metrics.value == undisturbed.metrics.value
    assert engine.metrics.matched == undisturbed.metrics.matched > 0


@pytest.mark.parametrize("policy", ["prob", "rand", "fifo", "life"])
@pytest.mark.parametrize("shape", ["pair", "three", "band"])
def test_smaller_memory_holds_at_once_and_only_loses_matches(shape, policy):
    query = query_of(shape, policy=policy)
    engine, undisturbed = engine_of(query), engine_of(query)
    found, exact = multiset([]), multiset([])
    changes = [None, 12, 5, Memory(6, split=True), 40, "40 kB", None, None, 9]
    for memory, batch in zip(changes, batches_of(3, 9, query.names), strict=True):
        engine.memory = memory
        limit = Memory.of(memory)
        if limit is not None and limit.rows is not None:
            assert engine.metrics.total("resident_rows") <= limit.rows
        found += multiset(engine.push(batch))
        exact += multiset(undisturbed.push(batch))
        metrics = engine.metrics
        if limit is not None and limit.rows is not None:
            assert metrics.total("resident_rows") <= limit.rows
        if limit is not None and limit.bytes is not None:
            assert metrics.total("resident_bytes") <= limit.bytes
        assert_accounted(engine)
    assert_part(found, exact)
    assert metrics.matched == sum(found.values())
    assert metrics.total("shed") > 0


def index_use(engine):
    """Blocks used by each ordered index, and how many there are."""
    words = engine._shard.words
    lines = view(words, at.Head.indexes_at, int(words[at.Head.indexes]), at.INDEX_SIZE)
    return lines[:, at.Index.used].tolist(), int(words[at.Head.block_cap])


def test_rows_that_came_out_of_order_fit_when_they_move_in_order():
    """Arrival in any order fills blocks by about 70 %, arrival in rising order by half."""
    count, step = 4480, 8
    streams = [Stream(n, "t", count, lateness=count) for n in "ab"]
    query = Query(streams=streams, on=Band("a.x", "b.x", 0.5), select=["a.id"], patience=0)
    engine = engine_of(query)
    order = list(range(count))
    Random(6).shuffle(order)

    def some(times):
        made = [{"id": t, "t": t, "k": 0, "x": float(t), "s": ""} for t in times]
        return pa.Table.from_pylist(made, schema=SCHEMA)

    for start in range(0, count, step):
        engine.push({"a": some(order[start : start + step])})
    used, there = index_use(engine)
    assert max(used) <= there < count // (at.BLOCK // 2)  # or this test shows nothing
    engine.memory = 2 * count
    used, there = index_use(engine)
    assert max(used) <= there
    assert sorted(engine.push({"b": some(range(0, count, 40))})["id"].to_pylist()) == list(range(0, count, 40))


def known(engine):
    """What the statistics of an engine know, by directory and code, with all that belongs to no single key."""
    plan, words = engine._binding.plan, engine._shard.words
    top = view(words, at.Head.dirs_at, plan.directories, at.DIR_SIZE)[:, at.Directory.top]
    keys = view(words, at.Head.keys_at, plan.directories, int(words[at.Head.key_cap]) * plan.key_words())
    keys = keys.reshape(plan.directories, -1, plan.key_words())
    learned = [at.chain_word(s, at.FREQ) for s in range(plan.streams)]
    learned += range(1 + at.PER_STREAM * plan.streams, plan.key_words())
    found = {
        (d, int(record[at.Key.code])): record[learned].tolist()
        for d in range(plan.directories)
        for record in keys[d, : top[d]]
        if record[at.chain_word(0, at.Chain.count)] != at.NONE
    }
    sizes = {part.word: part for part in parts(plan, engine._shard.capacity, int(words[at.Head.oracle_rows]))}
    whole = [
        view(words, word, sizes[word].outer, sizes[word].inner).tolist()
        for word in sizes
        if sizes[word].part.carried == "learned"
    ]
    return found, whole, engine._shard.floats[at.Head.weight]


def start_with(query, batches):
    whole = {n: pa.concat_tables([b[n] for b in batches]) for n in query.names}
    uses_oracle = isinstance(getattr(query.policy, "statistics", None), wr.statistics.Oracle)
    return engine_of(query, oracle=whole if uses_oracle else None)


LEARNING = [p for p in configurations() if p.needs_statistics]


@pytest.mark.parametrize("policy", LEARNING, ids=label)
@pytest.mark.parametrize("shape", ["pair", "three", "chain", "value"])
def test_what_was_learned_stays_when_memory_is_split_or_shared(shape, policy):
    query = query_of(shape, policy=policy, memory=30)
    batches = batches_of(11, 6, query.names)
    engine = start_with(query, batches)
    for batch in batches:
        engine.push(batch)
    before = known(engine)
    assert any(any(words) for words in before[0].values())
    for memory in (Memory(3000, split=True), 3000, Memory(3000, split=True), Memory("3 MB", split=True), 30):
        engine.memory = memory
        assert known(engine) == before
    recall = engine.metrics.recall
    assert recall is not None and recall < 1


@pytest.mark.parametrize("policy", configurations(), ids=label)
@pytest.mark.parametrize("shape", ["pair", "chain"])
def test_recall_is_known_after_any_change_between_budgets(shape, policy):
    query = query_of(shape, policy=policy)
    batches = batches_of(12, 12, query.names)
    engine, exact = start_with(query, batches), engine_of(query)
    changes = [None, 900, Memory(900, split=True), None, 8, 8, Memory(12, split=True), "3 MB", 9, 9, 9, 9]
    for memory, batch in zip(changes, batches, strict=True):
        engine.memory = memory
        engine.push(batch)
        exact.push(batch)
        metrics = engine.metrics
        assert metrics.recall == pytest.approx(metrics.matched / exact.metrics.matched)
        assert metrics.exact_matched == exact.metrics.matched
    assert metrics.recall < 1


def test_an_oracle_knows_all_when_a_cap_comes_later():
    query = query_of("pair", policy=wr.policies.Prob(statistics=wr.statistics.Oracle()))
    batches = batches_of(13, 6, query.names)
    late, early = start_with(query, batches), start_with(query.with_(memory=1000), batches)
    for batch in batches[:3]:
        late.push(batch)
        early.push(batch)
    snapshot = late.snapshot()
    for engine in (late, early):
        engine.memory = 10
    assert known(late) == known(early)
    for batch in batches[3:]:
        assert multiset(late.push(batch)) == multiset(early.push(batch))
    with pytest.raises(SpecError, match="oracle="):
        wr.Engine.restore(snapshot).memory = 10


def test_what_comes_after_growth_is_joined_in_full():
    query = query_of("pair", memory=4)
    engine, undisturbed = engine_of(query), engine_of(query.with_(memory=None))
    batches = batches_of(4, 12, query.names)
    for batch in batches[:4]:
        engine.push(batch)
        undisturbed.push(batch)
    engine.memory = None
    lost = 0
    for k, batch in enumerate(batches[4:]):
        one, other = multiset(engine.push(batch)), multiset(undisturbed.push(batch))
        if k < 3:  # windows of 8 instants still reach back to what was shed
            lost += sum((other - one).values())
            assert_part(one, other)
        else:
            assert_same(one, other, k)
    assert lost > 0


def test_a_smaller_window_expires_at_once_and_a_larger_one_keeps_what_is_there():
    query = query_of("pair", window=30)
    engine = engine_of(query)
    batches = batches_of(5, 8, query.names)
    for batch in batches[:5]:
        engine.push(batch)
    before = engine.metrics
    engine.window("a", Window.time(4))
    after = engine.metrics
    assert after.streams["a"].expired > before.streams["a"].expired
    one, other = after.streams["b"], before.streams["b"]
    assert replace(one, resident_bytes=0) == replace(other, resident_bytes=0)
    kept = engine.metrics.streams["a"].resident_rows
    engine.window("a", 30)
    assert engine.metrics.streams["a"].resident_rows == kept
    assert_accounted(engine)
    # What is left joins as in an engine that has never seen the rest.
    rows = {n: pa.concat_tables([b[n] for b in batches[:5]]).to_pylist() for n in query.names}
    newest = max(row["t"] for part in rows.values() for row in part)
    rows["a"] = [row for row in rows["a"] if newest - row["t"] < 4]
    fresh = engine_of(query)
    fresh.push({n: pa.Table.from_pylist(part, schema=SCHEMA) for n, part in rows.items()})
    for batch in batches[5:]:
        assert_same(multiset(engine.push(batch)), multiset(fresh.push(batch)))


@pytest.mark.parametrize("memory", [None, 200])
def test_windows_and_memory_change_together(memory):
    query = query_of("pair", window=Window.rows(12), memory=memory)
    engine = engine_of(query)
    batches = batches_of(6, 6, query.names)
    for size, batch in zip([12, 5, 30, 1, 12, 12], batches, strict=True):
        engine.window("b", Window.rows(size))
        assert engine.metrics.streams["b"].resident_rows <= size
        engine.push(batch)
        assert engine.metrics.streams["b"].resident_rows <= size
        assert_accounted(engine)


def test_a_change_that_cannot_be_has_not_happened():
    query = query_of("pair", memory=20)
    engine, other = engine_of(query), engine_of(query)
    batches = batches_of(7, 4, query.names)
    for batch in batches[:2]:
        engine.push(batch)
        other.push(batch)
    with pytest.raises(MemoryTooSmall):
        engine.memory = 0
    with pytest.raises(MemoryTooSmall):
        engine.memory = "10 B"
    with pytest.raises(MemoryTooSmall):
        engine.memory = Memory(1, split=True)
    with pytest.raises(SpecError):
        engine.memory = "20%"
    with pytest.raises(SpecError):
        engine.window("a", Window.rows(3))
    with pytest.raises(SpecError):
        engine.window("nobody", Window.time(3))
    assert engine.memory == Memory(20) and engine.query == query
    for batch in batches[2:]:
        assert multiset(engine.push(batch)) == multiset(other.push(batch))
    assert engine.metrics == other.metrics


def test_memory_can_change_before_the_first_push_and_survives_a_snapshot():
    engine = wr.Engine(query_of("pair"))
    engine.memory = 10
    for batch in batches_of(8, 3, "ab"):
        engine.push(batch)
    assert engine.metrics.total("resident_rows") <= 10
    engine.memory = Memory(30, split={"a": 2, "b": 1})
    again = wr.Engine.restore(engine.snapshot())
    for batch in batches_of(9, 6, "ab"):
        moved = {n: t.set_column(1, "t", pc.add(t["t"], 9)) for n, t in batch.items()}
        assert engine.push(moved).equals(again.push(moved))
        assert engine.metrics.streams["a"].resident_rows <= 20
        assert engine.metrics.streams["b"].resident_rows <= 10
    assert engine.metrics == again.metrics


@pytest.mark.parametrize("rows", [1, 2000])
@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.name)
def test_memory_changes_after_all_rows_have_left(policy, rows):
    """Payload of rows that have left stays for a while; nothing may look for its owners where nobody is any more."""
    chosen = policy("x") if policy is Given else policy()
    engine = engine_of(query_of("pair", policy=chosen))
    table = pa.Table.from_pylist([{"id": k, "t": 0, "k": k, "x": 1.0, "s": "x"} for k in range(rows)], schema=SCHEMA)
    engine.push({"a": table, "b": table})
    engine.push({}, watermark=100)
    for memory in (*AMPLE, *AMPLE):
        engine.memory = memory
        engine.window("a", 9)
        assert engine.metrics.resident_rows == 0
        assert wr.Engine.restore(engine.snapshot()).metrics == engine.metrics
    late = table.set_column(1, "t", pa.array([200] * rows, pa.int64()))
    assert engine.push({"a": late, "b": late}).num_rows == rows
    assert_accounted(engine)
