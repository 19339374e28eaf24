"""Every policy, with every statistic, in shared and in split memory, through every check of the contract.

Catches: budgets passed after any instant, matches that the exact join does not have, rows counted twice or never,
answers that depend on batch boundaries or on being restored, randomness that is not in the state.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import exact_join, exact_resident_need, live_rows, taken_rows
from tests.running import (
    assert_accounted,
    assert_part,
    assert_same,
    counters,
    examples,
    multiset,
    run,
    same_bytes,
    start,
)
from tests.streams import ANY_WINDOW, KINDS, Case, cases, configurations, label, of_kind, tick_by_tick

import windrow as wr
from windrow.state import shard

every_policy = pytest.mark.parametrize("policy", configurations(), ids=label)
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)  # where statistics are not the subject


@st.composite
def pressed(draw: st.DrawFn, policy: Any, order: tuple[str, ...] = ("time", "arrival")) -> Case:
    """A case in order of time whose memory is, mostly, too small for it."""
    kinds: tuple[str, ...] = ANY_WINDOW
    if policy.name.startswith("life"):  # compares lifetimes, so windows are all in time or all in rows
        kinds = draw(st.sampled_from([("time",), ("rows",)]))
    streams = draw(st.sampled_from([(2,), (2, 3, 4)]))
    case = draw(cases(streams=streams, timely=True, kinds=kinds, plain=draw(st.booleans()), order=order))
    return case.with_query(memory=draw(budgets(case)), policy=policy)


@st.composite
def budgets(draw: st.DrawFn, case: Case) -> wr.Memory:
    """Memory in rows or in bytes, shared or split."""
    ratios = st.fixed_dictionaries({name: st.sampled_from([1, 2, 5]) for name in case.query.names})
    split = draw(st.none() | st.just(True) | ratios)
    if draw(st.booleans()):
        portions = wr.Memory(1, split).portions(case.query.names) or (1.0,)
        least = round(1 / min(portions) + 0.5)
        return wr.Memory(draw(st.integers(least, least + 20)), split)
    # From less than what one row and the sketches take up to what all rows take.
    return wr.Memory(f"{draw(st.integers(1, 60)) * 500} B", split)


def opened(case: Case, **options: Any) -> tuple[Case, Any]:
    """A case and its engine; a budget that is refused because it cannot hold one row is doubled until it can."""
    while True:
        try:
            return case, start(case, **options)
        except wr.errors.MemoryTooSmall:
            memory = case.query.memory
            assert memory is not None and memory.bytes is not None
            assert memory.bytes < 10**6, "a megabyte holds one row of a few columns"
            case = case.with_query(memory=memory.with_(bytes=2 * memory.bytes))


def assert_within(engine: Any, memory: wr.Memory) -> None:
    """Neither now nor at any time before was more held than the budget allows."""
    metrics = engine.metrics
    names = list(metrics.streams)
    held = {"rows": metrics.resident_rows, "bytes": metrics.resident_bytes}
    peaks = {"rows": metrics.peak_rows, "bytes": metrics.peak_bytes}
    for unit, limit in (("rows", memory.rows), ("bytes", memory.bytes)):
        if limit is not None:
            assert held[unit] <= limit, (unit, metrics)
            assert peaks[unit] <= limit, (unit, metrics)
            for name, portion in zip(names, memory.portions(names) or (), strict=False):
                assert getattr(metrics.streams[name], f"resident_{unit}") <= limit * portion + 1e-6, (
                    name,
                    metrics,
                )


@every_policy
@examples(25)
@given(st.data())
def test_the_budget_holds_after_every_instant_and_every_row_is_accounted_for(policy: Any, data: Any) -> None:
    case, engine = opened(tick_by_tick(data.draw(pressed(policy))))
    exact = exact_join(case.query, case.batches)
    found = []
    for batch in case.tables:
        found.append(engine.push(batch))
        assert_within(engine, case.query.memory)
        assert_accounted(engine)
    output = multiset(found)
    assert_part(output, exact)
    assert engine.metrics.matched == output.total()
    if not engine.metrics.total("shed"):
        assert_same(output, exact)


@every_policy
@examples(15)
@given(st.data())
def test_memory_for_the_exact_join_loses_nothing(policy: Any, data: Any) -> None:
    case = tick_by_tick(data.draw(pressed(policy)))
    need = max(1, exact_resident_need(case.query, case.batches))
    case = case.with_query(memory=need)
    engine, found = run(case)
    assert engine.metrics.total("shed") == 0
    assert engine.metrics.peak_rows <= need
    assert_same(multiset(found), exact_join(case.query, case.batches), case.query)


@every_policy
@examples(15)
@given(st.data())
def test_batch_boundaries_at_instants_do_not_matter(policy: Any, data: Any) -> None:
    case, engine = opened(data.draw(pressed(policy)))
    parts = [engine.push(batch) for batch in case.tables]
    for other in (case.at_once(), tick_by_tick(case)):
        again, tables = run(other)
        assert_same(multiset(tables), multiset(parts), case.query)
        assert counters(again) == counters(engine)
        assert again.metrics.peak_rows == engine.metrics.peak_rows


@every_policy
@examples(15)
@given(st.data())
def test_a_restored_engine_goes_on_as_if_nothing_had_happened(policy: Any, data: Any) -> None:
    case, engine = opened(tick_by_tick(data.draw(pressed(policy))))
    stops = data.draw(st.sets(st.integers(0, max(0, len(case.tables) - 1)), max_size=3))
    other = engine
    for k, batch in enumerate(case.tables):
        if k in stops:
            other = wr.Engine.restore(other.snapshot() if k % 2 else engine.snapshot())
            assert other.metrics.to_dict() == engine.metrics.to_dict()
        expected = engine.push(batch)
        if other is not engine:
            assert same_bytes(other.push(batch), expected)
            assert other.metrics.to_dict() == engine.metrics.to_dict()
    if other is not engine:
        assert other.snapshot() == engine.snapshot()


@every_kind
@examples(20)
@given(st.data())
def test_the_same_seed_gives_the_same_bytes(kind: Any, data: Any) -> None:
    case, engine = opened(data.draw(pressed(data.draw(of_kind(kind)))))
    again = start(case)
    for batch in case.tables:
        assert same_bytes(engine.push(batch), again.push(batch))
    assert engine.snapshot() == again.snapshot()


@every_kind
@examples(20)
@given(st.data())
def test_counting_alone_sheds_the_same_rows(kind: Any, data: Any) -> None:
    case = data.draw(pressed(data.draw(of_kind(kind))))
    if case.query.memory.rows is None:  # in bytes a counting engine holds more: its rows have no payload
        return
    engine, _ = run(case)
    counting, _ = run(case, count_only=True)
    without = [{k: v for k, v in c.items() if k != "resident_bytes"} for c in counters(engine).values()]
    assert [{k: v for k, v in c.items() if k != "resident_bytes"} for c in counters(counting).values()] == without


@every_kind
@examples(25)
@given(st.data())
def test_memory_can_grow_and_shrink_while_the_engine_runs(kind: Any, data: Any) -> None:
    case, engine = opened(tick_by_tick(data.draw(pressed(data.draw(of_kind(kind))))))
    exact, found = exact_join(case.query, case.batches), []
    split = case.query.memory.split
    for batch in case.tables:
        found.append(engine.push(batch))
        before = counters(engine)
        small = wr.Memory(4 * len(case.query.names) if split is None else 20, split)
        grow = data.draw(st.sampled_from([True, False, None]))
        if grow is None or case.query.memory.rows is None:
            continue
        engine.memory = wr.Memory(1000, split) if grow else small
        assert_accounted(engine)
        if grow:
            assert counters(engine) == before
        else:
            assert engine.metrics.total("resident_rows") <= small.rows
        assert engine.metrics.total("expired") == sum(part.get("expired", 0) for part in before.values())
    assert_part(multiset(found), exact)


@every_kind
@examples(20)
@given(st.data())
def test_a_smaller_budget_in_bytes_sheds_at_once(kind: Any, data: Any) -> None:
    case = tick_by_tick(data.draw(pressed(data.draw(of_kind(kind))))).with_query(memory="2 MB")
    engine = start(case)
    half = len(case.tables) // 2
    found = [engine.push(batch) for batch in case.tables[:half]]
    held = engine.metrics.total("resident_bytes")
    least = next(size for size in (2**k for k in range(8, 22)) if _accepts(case, size) and size >= held // 2)
    engine.memory = f"{least} B"
    assert engine.metrics.total("resident_bytes") <= least
    for batch in case.tables[half:]:
        found.append(engine.push(batch))
        assert engine.metrics.total("resident_bytes") <= least
        assert_accounted(engine)
    assert_part(multiset(found), exact_join(case.query, case.batches))


def _accepts(case: Case, size: int) -> bool:
    try:
        start(case.with_query(memory=f"{size} B"))
    except wr.errors.MemoryTooSmall:
        return False
    return True


@examples(60)
@given(cases(timely=True, kinds=("time",)), st.data())
def test_a_smaller_window_expires_at_once_and_a_larger_one_keeps_everything(case: Case, data: Any) -> None:
    case = tick_by_tick(case)
    engine = wr.Engine(case.query, schemas=case.schemas)
    half, found = len(case.tables) // 2, []
    for batch in case.tables[:half]:
        engine.push(batch)
    name = data.draw(st.sampled_from(case.query.names))
    old = case.query.stream(name).window
    size = old.size.amount // data.draw(st.sampled_from([1, 2, 3])) or 1
    smaller = wr.Window.time(type(old.size)(size, old.size.unit), old.closed)
    engine.window(name, smaller)
    seen = taken_rows(case.query, case.batches[:half])
    narrow = case.query.with_window(name, smaller)
    assert [s.resident_rows for s in engine.metrics.streams.values()] == live_rows(narrow, seen)
    assert engine.metrics.total("shed") == 0
    assert_accounted(engine)
    for batch in case.tables[half:]:
        found.append(engine.push(batch))
    # What the later pushes complete is what the smaller window lets them.
    before = exact_join(narrow, case.batches[:half])
    assert_same(multiset(found), exact_join(narrow, case.batches) - before, case.query)
    now = counters(engine)
    engine.window(name, wr.Window.unbounded())
    assert counters(engine) == now


# LIFE-EXPECTED learns from residents how long rows stay, and a row that is turned away has been none
@pytest.mark.parametrize("policy", [p for p in configurations() if p.name != "life-expected"], ids=label)
@examples(25)
@given(st.data())
def test_turning_a_row_away_at_once_is_the_same_as_shedding_it_later(policy: Any, data: Any) -> None:
    """The driver of n streams admits every row first; on two streams of one key it is the twin of the fast one."""
    kinds = data.draw(st.sampled_from([("time",), ("rows",)]))
    case = data.draw(cases(streams=(2,), timely=True, kinds=kinds, plain=True))
    case, engine = opened(case.with_query(memory=data.draw(budgets(case)), policy=policy))
    found = [engine.push(batch) for batch in case.tables]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard, "drive_pair", shard.drive_many)
        twin, others = run(case)
    assert counters(twin) == counters(engine)
    assert_same(multiset(others), multiset(found))


@every_policy
@pytest.mark.parametrize("key", [None, 5])
def test_a_row_of_the_same_instant_can_make_room(policy: Any, key: int | None) -> None:
    """The newcomer of a has no partners and comes first; then a row of b pushes another out of its window of rows."""
    if policy.name.startswith("life"):
        windows = [wr.Window.rows(2), wr.Window.rows(1)]
    else:
        windows = [wr.Window.unbounded(), wr.Window.rows(1)]
    query = wr.Query(
        streams=[wr.Stream(n, "t", w) for n, w in zip("ab", windows, strict=True)],
        on="k",
        memory=2 if key is None else 3,
        policy=policy,
    )
    tables = [
        {name: pa.table({"t": [0], "k": pa.array([1], pa.int64())}) for name in "ab"},
        {name: pa.table({"t": [1], "k": pa.array([k], pa.int64())}) for name, k in (("a", 9), ("b", key))},
    ]
    whole = {name: pa.concat_tables([part[name] for part in tables]) for name in "ab"}
    engine = wr.Engine(query, **({"oracle": whole} if "oracle" in label(policy) else {}))
    for part in tables:
        engine.push(part)
    assert engine.metrics.total("shed") == 0
    assert engine.metrics.streams["a"].resident_rows == 2


@every_policy
def test_an_empty_push_changes_nothing(policy: Any) -> None:
    query = wr.Query(streams=[wr.Stream("a", "t", 3), wr.Stream("b", "t", 3)], on="k", memory=4, policy=policy)
    table = pa.table({"t": [1, 2, 3], "k": [1, 2, 1]})
    options = {"oracle": {"a": table, "b": table}} if "oracle" in label(policy) else {}
    engine = wr.Engine(query, **options)
    engine.push({"a": table, "b": table})
    before = engine.metrics.to_dict()
    for nothing in ({}, {"a": None}, {"a": table.slice(0, 0), "b": None}):
        assert engine.push(nothing).num_rows == 0
        assert engine.metrics.to_dict() == before
