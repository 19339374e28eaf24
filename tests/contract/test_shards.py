"""A join cut into shards, in one process: the same matches as one engine's, in a part of the memory each.

Catches: rows sent where their partners are not, matches found twice or never, watermarks that differ from one engine's,
counters that do not add up, budgets passed, answers that depend on threads, a push that is refused and half taken,
snapshots whose shards do not belong together.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import exact_join
from tests.running import COUNTERS, assert_accounted, assert_part, assert_same, examples, multiset, same_bytes, start
from tests.streams import KINDS, TIME_KINDS, Case, cases, configurations, label, of_kind, tick_by_tick

import windrow as wr
from windrow.engine import Metrics, ShardedEngine, sharded
from windrow.engine.metrics import added_up
from windrow.errors import DuplicateColumn, MemoryFull, MemoryTooSmall, SnapshotError, SpecError
from windrow.feed import engine_for, run
from windrow.spec import shard_query
from windrow.state.snapshot import form as snapshots

TIMED = ("time", "landmark", "unbounded")
SHARDS = st.sampled_from([2, 3, 5, 8])

# Each shard is an engine, whose statistics are others' subject: they are drawn
every_policy = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


@pytest.fixture(autouse=True, scope="module")
def in_threads() -> Any:
    """Pushes of a few rows are taken in threads, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharded, "FEW_ROWS", 0)
        yield


@st.composite
def hostile(draw: st.DrawFn, times: Sequence[str] = tuple(TIME_KINDS)) -> Case:
    """Rows dealt to pushes whatever their time: many are late; perhaps with patience, perhaps in ample memory."""
    kind = draw(st.sampled_from(times))
    case = draw(cases(order=("time",), kinds=TIMED, time_kinds=(kind,)))
    random, pushes = Random(draw(st.integers(0, 10**6))), draw(st.integers(1, 5))
    batches: list[dict[str, Any]] = [{name: [] for name in case.query.names} for _ in range(pushes)]
    whole = case.at_once().batches[0]
    for name, rows in whole.items():
        for k, row in enumerate(rows):
            usual = k * pushes // len(rows)
            batches[usual if random.random() < 0.8 else random.randrange(pushes)][name].append(row)
    patience = draw(st.sampled_from([None, 0, TIME_KINDS[kind].length(2)]))
    memory = draw(st.sampled_from([None, 10_000, wr.Memory(20_000, split=True)]))
    return replace(case, batches=batches).with_query(patience=patience, memory=memory)


def cut(case: Case, shards: int) -> Case:
    return case.with_query(shards=shards)


def assert_as_one(one: wr.Engine, many: Any) -> None:
    """Every row is counted as by one engine, once for every copy of it; and nobody waits longer."""
    copies = [many.routing.copies(s) for s in range(len(one.query.streams))]
    for name, times in zip(one.query.names, copies, strict=True):
        for counter in COUNTERS[:-1]:
            mine, theirs = (getattr(engine.metrics.streams[name], counter) for engine in (one, many))
            assert theirs == mine * times, (name, counter)
    assert many.metrics.matched == one.metrics.matched
    assert many.watermark == one.watermark
    assert {engine.watermark for engine in many.engines} == {one.watermark}
    assert_accounted(many)


@examples(150)
@given(hostile(), SHARDS)
def test_shards_find_what_one_engine_finds_push_by_push(case: Case, shards: int) -> None:
    one, many = start(case), start(cut(case, shards))
    assert isinstance(many, ShardedEngine) and 1 <= len(many.engines) <= shards
    for batch in case.tables:
        assert_same(multiset(many.push(batch)), multiset(one.push(batch)), case.query)
        assert_as_one(one, many)
    assert many.metrics.recall == 1.0 and many.metrics.exact_matched == one.metrics.matched


@examples(100)
@given(cases(order=("time",), kinds=TIMED), SHARDS)
def test_shards_find_the_exact_join(case: Case, shards: int) -> None:
    many = start(cut(case, shards))
    found = [many.push(batch) for batch in case.tables]
    assert_same(multiset(found), exact_join(case.query, case.batches), case.query)


@examples(40)
@given(hostile(("int",)), SHARDS, st.lists(st.integers(-4, 16), min_size=5, max_size=5), st.booleans())
def test_shards_go_by_the_watermark_that_they_are_told(
    case: Case, shards: int, marks: list[int], own_clock: bool
) -> None:
    engines = [start(each, own_clock=own_clock) for each in (case, cut(case, shards))]
    for batch, mark in zip(case.tables, sorted(marks), strict=False):
        found = [multiset(engine.push(batch, watermark=mark)) for engine in engines]
        assert_same(found[1], found[0])
        assert_as_one(*engines)


@examples(60)
@given(hostile(), SHARDS, st.data())
def test_windows_change_as_in_one_engine(case: Case, shards: int, data: Any) -> None:
    case = case.with_query(memory=None)
    engines = [start(each) for each in (case, cut(case, shards))]
    for batch in case.tables:
        found = [multiset(engine.push(batch)) for engine in engines]
        assert_same(found[1], found[0])
        name = data.draw(st.sampled_from(case.query.names))
        other = data.draw(st.sampled_from([s.window for s in case.query.streams]))
        for engine in engines:
            engine.window(name, other)
        assert_as_one(*engines)
    assert engines[0].query.streams == engines[1].query.streams


@examples(30)
@given(st.lists(st.integers(0, 30), min_size=3, max_size=3), st.permutations([100, 95, 50]), st.integers(0, 60))
def test_patience_and_lateness_of_streams_that_no_shard_has_all_of(lags: list[int], last: list[int], wait: int) -> None:
    """Each stream has one row, most of them in shards of their own."""
    streams = [wr.Stream(name, "t", 1000, lag) for name, lag in zip("abc", lags, strict=True)]
    engines = [wr.Engine(wr.Query(streams=streams, on="k", patience=wait, shards=n)) for n in (None, 6)]
    for engine in engines:
        engine.push({name: pa.table({"k": [k], "t": [t]}) for k, (name, t) in enumerate(zip("abc", last, strict=True))})
    assert_as_one(*engines)


# ------------------------------------------------------------------------------------- above the budget


@st.composite
def pressed(
    draw: st.DrawFn,
    kind: Any,
    timely: bool = False,
    times: Sequence[str] = tuple(TIME_KINDS),
    honest: bool = False,
) -> Case:
    """A case in shards whose memory is, mostly, too small for it."""
    policy = draw(of_kind(kind, honest))
    kinds = ("time",) if policy.name.startswith("life") else TIMED
    timely = timely or draw(st.booleans())
    case = draw(cases(streams=(2, 2, 3), timely=timely, kinds=kinds, order=("time",), time_kinds=times))
    shards, names = draw(SHARDS), len(case.query.names)
    split = draw(st.none() | st.just(True))
    least = shards * (names if split else 1)
    memory = wr.Memory(least * draw(st.integers(1, 4)) + draw(st.integers(0, shards - 1)), split)
    if draw(st.booleans()):
        memory = wr.Memory(f"{draw(st.integers(4, 30))} kB", split)
    return case.with_query(memory=memory, policy=policy, shards=shards)


def opened(case: Case, **options: Any) -> tuple[Case, Any]:
    """A case and its engine; a budget that is refused because it cannot hold one row is doubled until it can."""
    while True:
        try:
            return case, start(case, **options)
        except MemoryTooSmall:
            memory = case.query.memory
            assert memory is not None and memory.bytes is not None and memory.bytes < 10**7
            case = case.with_query(memory=memory.with_(bytes=2 * memory.bytes))


def assert_within(engine: Any) -> None:
    """Neither shards nor all of them together hold more than their part of the memory."""
    memory = engine.query.memory
    for unit in ("rows", "bytes"):
        limit = getattr(memory, unit)
        if limit is not None:
            assert getattr(engine.metrics, f"peak_{unit}") <= limit
            for one in engine.engines:
                assert getattr(one.metrics, f"resident_{unit}") <= limit // engine.query.shards


@every_policy
@examples(20)
@given(st.data())
def test_the_budget_holds_and_rows_are_accounted_for(kind: Any, data: Any) -> None:
    case, engine = opened(data.draw(pressed(kind)), departures=True)
    found, lost = [], Counter[str]()
    for batch in case.tables:
        found.append(engine.push(batch))
        assert_within(engine)
        assert_accounted(engine)
        for table in engine.departed().values():
            assert set(table["windrow_shard"].to_pylist()) <= set(range(len(engine.engines)))
            lost.update(table["windrow_why"].to_pylist())
    output, exact = multiset(found), exact_join(case.query, case.batches)
    metrics = engine.metrics
    assert_part(output, exact)
    assert metrics.matched == output.total()
    assert lost["shed"] + lost["sampled"] == metrics.shed and lost["late"] == metrics.late == 0
    if case.query.memory.rows is not None:  # in so few bytes it is an estimate
        assert metrics.exact_matched == exact.total()
    if not metrics.shed:
        assert_same(output, exact)


@every_policy
@examples(12)
@given(st.data())
def test_restored_in_threads_or_not_it_goes_on_to_the_byte(kind: Any, data: Any) -> None:
    case, engine = opened(data.draw(pressed(kind)))
    other, unhurried = start(case), start(case)
    for batch in case.tables:
        other = wr.Engine.restore(other.snapshot(), case.query)
        expected = engine.push(batch)
        assert same_bytes(other.push(batch), expected)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sharded, "FEW_ROWS", 1 << 20)
            assert same_bytes(unhurried.push(batch), expected)
    assert other.snapshot() == engine.snapshot() == unhurried.snapshot()
    assert other.metrics.to_dict() == engine.metrics.to_dict()


@every_policy
@examples(12)
@given(st.data())
def test_a_shard_is_an_engine_over_its_rows(kind: Any, data: Any) -> None:
    """In order of time, where one watermark for all is no other than a shard's own: what Spark runs in each shard."""
    # an oracle is shown the rows of its shard, which are not known here
    case = tick_by_tick(data.draw(pressed(kind, timely=True, times=("int", "timestamp"), honest=True)))
    case, many = opened(case.with_query(patience=0))
    queries = [shard_query(case.query, k, case.query.shards) for k in range(len(many.engines))]
    alone = [wr.Engine(query, case.schemas) for query in queries]
    for batch in case.tables:
        coded = zip(case.query.names, many.coded(batch)[0], strict=True)
        routes = {name: many._routes(s, rows) for s, (name, rows) in enumerate(coded)}
        parts = [
            engine.push({name: table.take(pa.array(routes[name][k])) for name, table in batch.items()})
            for k, engine in enumerate(alone)
        ]
        assert same_bytes(many.push(batch), pa.concat_tables(parts))
    assert [e.metrics.shed for e in many.engines] == [e.metrics.shed for e in alone]


@every_policy
@examples(12)
@given(st.data())
def test_memory_can_change_while_it_runs(kind: Any, data: Any) -> None:
    case, engine = opened(data.draw(pressed(kind)))
    shards, split = case.query.shards, case.query.memory.split
    for batch in case.tables:
        engine.push(batch)
        engine.memory = wr.Memory(shards * len(case.query.names) * data.draw(st.integers(1, 9)), split)
        assert engine.metrics.resident_rows <= engine.memory.rows
        assert {e.query.memory.rows for e in engine.engines} == {engine.memory.rows // shards}
        assert_accounted(engine)
        assert wr.Engine.restore(engine.snapshot()).snapshot() == engine.snapshot()
    before = engine.snapshot()
    with pytest.raises(MemoryTooSmall, match=f"too little for {shards} shards"):
        engine.memory = 1
    assert engine.snapshot() == before


# ------------------------------------------------------------------------------------------- fail, refuse


def pair(**changes: Any) -> wr.Query:
    return wr.Query(**{"streams": [wr.Stream(n, "t", 10) for n in "ab"], "on": "k", "shards": 4, **changes})


def rows(keys: list[int], first: int = 0) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "t": pa.array(range(first, first + len(keys)), pa.int64())})


def test_a_push_that_one_shard_has_no_memory_for_is_taken_by_none() -> None:
    engine = wr.Engine(pair(memory=16, on_full="fail"), departures=True)
    engine.push({"a": rows([1, 2, 3]), "b": rows([1, 2])})
    before, told = engine.snapshot(), engine.metrics
    for many in ([5] * 9, [*range(8), *[5] * 9]):
        with pytest.raises(MemoryFull, match="in one of the shards the join needs more than its memory of 4 rows"):
            engine.push({"a": pa.table({"k": many, "t": [2] * len(many)}), "b": rows([7], 2)})
        assert engine.snapshot() == before and engine.metrics == told
    assert engine.push({"b": rows([2, 3], 3)}).num_rows == 2


def test_memory_that_is_too_little_in_one_shard_changes_none() -> None:
    engine = wr.Engine(pair(memory=64, on_full="fail"))
    engine.push({"a": rows([5] * 8), "b": rows([])})
    before = engine.snapshot()
    with pytest.raises(MemoryFull, match="in one of the shards the rows that are held do not fit"):
        engine.memory = 16
    assert engine.snapshot() == before and engine.memory == wr.Memory(64)
    engine.memory = 32
    assert engine.metrics.resident_rows == 8


REFUSED = {
    "counts arrivals over all shards": {"streams": [wr.Stream(n, "t", wr.Window.rows(3)) for n in "ab"]},
    "shards need order='time'": {"order": "arrival"},
    "this query names its joins": {"on": {"one": "k", "two": ["a.x = b.x"]}},
    "shards must be at least 1, got 0": {"shards": 0},
    "shards must be at most 65536": {"shards": 1 << 17},
    "shards must be a whole number, got 2.5": {"shards": 2.5},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_cut_is_refused(message: str) -> None:
    with pytest.raises(SpecError, match=message):
        pair(**REFUSED[message])
    if "shards" not in REFUSED[message]:
        assert type(wr.Engine(pair(**REFUSED[message], shards=1))) is wr.Engine


def test_other_refusals() -> None:
    schema = rows([]).schema
    with pytest.raises(MemoryTooSmall, match="too little for 4 shards"):
        wr.Engine(pair(memory=3), {"a": schema, "b": schema})
    with pytest.raises(SpecError, match="a queue stands in front of one engine"):
        wr.Queue(wr.Engine(pair()), capacity=3)
    with pytest.raises(DuplicateColumn, match="windrow_shard"):
        taken = schema.append(pa.field("windrow_shard", pa.int64()))
        wr.Engine(pair(), {"a": taken, "b": schema}, departures=True)
    with pytest.raises(wr.errors.WindrowError, match="departures=True"):
        wr.Engine(pair()).departed()
    with pytest.raises(wr.errors.InputError, match="no stream 'c'"):
        wr.Engine(pair()).push({"c": rows([1])})


def test_before_the_first_push_there_is_nothing() -> None:
    engine = wr.Engine.restore(wr.Engine(pair(memory=100)).snapshot(), recall=False, own_clock=True)
    assert isinstance(engine, ShardedEngine)
    assert (engine.watermark, engine.allocated_bytes, engine.metrics.arrived) == (None, 0, 0)
    engine.memory = 8
    assert engine.push({"a": rows([1, 2]), "b": rows([1, 2])}).num_rows == 2
    assert engine.memory == wr.Memory(8) and engine.allocated_bytes > 0


# ----------------------------------------------------------------------------------------------- snapshots


def pushed(query: wr.Query, **options: Any) -> Any:
    engine = wr.Engine(query, **options)
    engine.push({"a": rows([*range(20)]), "b": rows([*range(20)])})
    return engine


def test_a_snapshot_is_of_so_many_shards() -> None:
    data = pushed(pair()).snapshot()
    with pytest.raises(SnapshotError, match="shards was 4 and is now 3"):
        wr.Engine.restore(data, pair(shards=3))
    with pytest.raises(SnapshotError, match="shards was 4 and is now 1"):
        wr.Engine.restore(data, pair(shards=None))
    with pytest.raises(SnapshotError, match="shards was 1 and is now 4"):
        wr.Engine.restore(pushed(pair(shards=None)).snapshot(), pair())


def test_a_restored_join_may_have_other_memory_and_policy_and_no_recall() -> None:
    data = pushed(pair(memory=400)).snapshot()
    engine = wr.Engine.restore(data, pair(memory=8, policy="fifo"), recall=False, own_clock=False)
    assert {e.query.policy.name for e in engine.engines} == {"fifo"} and not any(e.own_clock for e in engine.engines)
    assert engine.metrics.resident_rows <= 8 and engine.metrics.recall is None and engine.metrics.shed > 0


def forged(data: bytes, parts: list[Any] | None = None, **header: Any) -> bytes:
    snap = snapshots.read(data)
    return snapshots.write({**snap.header, **header}, snap.parts if parts is None else parts)


def test_shards_that_do_not_belong_together_are_refused() -> None:
    """Each forged in one way, with a checksum that fits."""
    data = pushed(pair(memory=400)).snapshot()
    parts = snapshots.read(data).parts
    later = pushed(pair(memory=400))
    later.push({"a": rows([3], 40), "b": rows([3], 40)})
    wrong = {
        "fewer": forged(data, parts[:3]),
        "none": forged(data, []),
        "more": forged(data, [*parts, parts[0]]),
        "swapped": forged(data, [parts[1], parts[0], *parts[2:]]),
        "ahead": forged(data, [snapshots.read(later.snapshot()).parts[0], *parts[1:]]),
        "counters": forged(data, arrived=[21, 20]),
        "counters that are none": forged(data, arrived=[True, 20]),
        "switch": forged(data, own_clock=False),
        "field": forged(data, false=0),
        "memory": forged(data, query=pair(memory=399).to_json()),
        "seed": forged(data, query=pair(memory=400, seed=1).to_json()),
        "one": forged(data, query=pair(memory=400, shards=None).to_json()),
        "nested": forged(data, [data, *parts[1:]]),
    }
    for what, forgery in wrong.items():
        with pytest.raises(SnapshotError):
            wr.Engine.restore(forgery)
            raise AssertionError(what)
    assert wr.Engine.restore(forged(data)).snapshot() == data


# ------------------------------------------------------------------------------------------------- tables


def tables(seed: int, count: int) -> tuple[pa.Table, pa.Table]:
    random = Random(seed)

    def side() -> pa.Table:
        keys = [random.choice([*range(40), None]) for _ in range(count)]
        return pa.table({"k": keys, "t": sorted(random.randrange(3 * count) for _ in keys), "n": range(count)})

    return side(), side()


@pytest.mark.parametrize("shards", [1, 2, 7])
@pytest.mark.parametrize("lateness", [0, 40])
def test_tables_give_the_same_matches(shards: int, lateness: int) -> None:
    sides = tables(1, 900)
    options = {"on": "k", "time": "t", "within": 60, "lateness": lateness}
    one, many = wr.join(*sides, **options), wr.join(*sides, shards=shards, **options)
    assert one.metrics.matched > 100
    assert_same(multiset(many.table), multiset(one.table))
    assert wr.join(*sides, shards=shards, **options).table.equals(many.table)


@pytest.mark.parametrize("policy", configurations(), ids=label)
def test_a_share_is_of_what_each_shard_needs(policy: Any) -> None:
    sides = tables(2, 600)
    options = {"on": "k", "time": "t", "within": 90, "shards": 3}
    exact, found = wr.join(*sides, **options), wr.join(*sides, memory="40%", policy=policy, **options)
    assert 0.38 * exact.metrics.peak_rows < found.metrics.peak_rows <= 0.4 * exact.metrics.peak_rows + 3
    assert 0 < found.metrics.matched < exact.metrics.matched and found.metrics.shed
    assert found.recall == pytest.approx(found.metrics.matched / exact.metrics.matched)
    assert_part(multiset(found.table), multiset(exact.table))


def test_uneven_memory_stays_through_snapshots_and_changes_of_windows() -> None:
    sides = dict(zip("ab", tables(3, 300), strict=True))
    engine: Any = engine_for(pair(memory="50%", shards=3), sides)
    parts = [one.query.memory.rows for one in engine.engines]
    assert len(set(parts)) > 1 and sum(parts) == engine.memory.rows
    for _ in run(engine, sides):
        pass
    engine = wr.Engine.restore(engine.snapshot())
    engine.window("a", 5)
    assert [one.query.memory.rows for one in engine.engines] == parts


def test_metrics_add_up_also_by_way_of_json() -> None:
    sides = tables(4, 500)
    engine = wr.Engine(pair(memory=40, policy="rand"))
    engine.push(dict(zip("ab", sides, strict=True)))
    parts = [one.metrics for one in engine.engines]
    again = [Metrics.from_dict(json.loads(json.dumps(part.to_dict()))) for part in parts]
    assert again == parts and added_up(again) == added_up(parts) == engine.metrics
    assert engine.metrics.recall == pytest.approx(
        sum(part.matched for part in parts) / sum(part.exact_matched or 0 for part in parts)
    )
    assert added_up(parts[:1]) is parts[0]
    assert added_up([], "ab").streams.keys() == {"a", "b"}
    unknown = replace(parts[0], recall=None, recall_interval=None, recent_recall=None, exact_matched=None)
    assert added_up([unknown, parts[1]]).recall is None
