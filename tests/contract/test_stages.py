"""The stages of an engine by themselves: probing without storing, storing without probing, who has partners, the end.

Catches: looks that leave a trace (a counter, a key, a credit, a slot), rows of one look that meet each other, matches
that a push would not give or that it would, stored rows that count matches (in the join, in the estimate of recall, in
what a policy tries out), rows that neither expire nor are counted at the end.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract import test_joins
from tests.contract.test_policies import opened, pressed
from tests.reference import exact_join
from tests.running import assert_accounted, assert_part, assert_same, counters, examples, multiset, same_bytes, start
from tests.streams import KINDS, Case, cases, configurations, label, of_kind

import windrow as wr
from windrow.engine import stages
from windrow.kernels import layout as at
from windrow.spec import Query, Stream, Window

every_policy = pytest.mark.parametrize("policy", configurations(), ids=label)
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
LEARN_FROM_MATCHES = ("gdj", "age", "auto")


def table_of(case: Case, name: str, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=case.schemas[name])


def by_stream(case: Case) -> list[dict[str, list[dict[str, Any]]]]:
    """The batches of a case, each cut into those of single streams."""
    return [{name: rows} for batch in case.batches for name, rows in batch.items() if rows]


def who_matches(found: Any, name: str) -> set[Any]:
    """The ids of the rows of a stream that are in some match; of several joins, in any."""
    tables = found.values() if isinstance(found, dict) else [found]
    return {key for table in tables if f"{name}_id" in table.column_names for key in table[f"{name}_id"].to_pylist()}


def all_rows(found: Any) -> Counter[Any]:
    """Matches as a multiset; of several joins, each with the name of its join."""
    if not isinstance(found, dict):
        return multiset(found)
    return Counter({(name, row): n for name, table in found.items() for row, n in multiset(table).items()})


def assert_partners(engine: Any, batch: dict[str, pa.Table]) -> Any:
    """Who has partners is who matches when the rows of each stream probe; what they match."""
    told = stages.partners(engine, batch)
    assert set(told) == set(batch)
    for name, table in batch.items():
        matching = who_matches(stages.probe(engine, {name: table}), name)
        assert told[name].dtype == np.bool_
        assert told[name].tolist() == [key in matching for key in table["id"].to_pylist()], name
    return stages.probe(engine, batch)


# ------------------------------------------------------------------------------------ against the slow join


@examples(60)
@given(cases(), st.data())
def test_what_is_stored_and_then_probed_is_the_exact_join(case: Case, data: st.DataObject) -> None:
    asking = data.draw(st.sampled_from(case.query.names))
    batches = [{n: rows for n, rows in batch.items() if n != asking} for batch in case.batches]
    asked = [row for batch in case.batches for row in batch[asking]]
    engine = start(case)
    for batch in batches:
        assert stages.store(engine, {n: table_of(case, n, rows) for n, rows in batch.items()}) is None
    before = engine.snapshot()
    found = assert_partners(engine, {asking: table_of(case, asking, asked)})
    assert_same(multiset(found), exact_join(case.query, [*batches, {asking: asked}]), engine.watermark)
    assert engine.snapshot() == before
    assert engine.metrics.matched == 0
    assert_accounted(engine)


def pairs_of(left: list[tuple[int, Any]], right: list[tuple[int, Any]], window: int) -> set[tuple[int, int]]:
    """Places of rows (time, key) that match: equal keys, neither of which is missing, less than a window apart."""
    return {
        (i, j)
        for i, (t, k) in enumerate(left)
        for j, (u, other) in enumerate(right)
        if k is not None and k == other and abs(t - u) < window
    }


@examples(40)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 8), st.booleans())
def test_semijoins_of_two_sites_are_the_join(seed: int, keys: int, window: int, text: bool) -> None:
    """Each site stores its own rows, and is asked about those of the other, times tied and in any order."""
    random = Random(seed)
    values = [None, *(f"key {k}" if text else k for k in range(keys))]
    sides = [[(random.randrange(12), random.choice(values)) for _ in range(30)] for _ in range(2)]
    type_ = pa.string() if text else pa.int64()
    left, right = (
        pa.table({"t": [t for t, _ in rows], "k": pa.array([k for _, k in rows], type_), "id": range(len(rows))})
        for rows in sides
    )
    streams = [Stream(name, "t", window, lateness=12) for name in ("a", "b")]
    query = Query(streams=streams, on="k", select=[("a.id", "a_id"), ("b.id", "b_id")])
    here, there = (wr.Engine(query, {"a": left.schema, "b": right.schema}) for _ in range(2))
    stages.store(here, {"a": left})
    stages.store(there, {"b": right})
    expected = pairs_of(*sides, window)
    for site, asked in ((here, {"b": right}), (there, {"a": left})):
        found = stages.probe(site, asked).to_pydict()
        assert sorted(zip(found["a_id"], found["b_id"], strict=True)) == sorted(expected)
    assert np.flatnonzero(stages.partners(here, {"b": right})["b"]).tolist() == sorted({j for _, j in expected})
    assert np.flatnonzero(stages.partners(there, {"a": left})["a"]).tolist() == sorted({i for i, _ in expected})
    # a row may ask twice in one call, and rows of one call do not meet
    twice = {"a": pa.concat_tables([left, left]), "b": right}
    assert stages.probe(there, twice).num_rows == 2 * len(expected)
    assert not stages.partners(there, twice)["b"].any()


# --------------------------------------------------------------------------------------------- every policy


@every_policy
@examples(12)
@given(st.data())
def test_a_look_changes_nothing(policy: Any, data: st.DataObject) -> None:
    case, engine = opened(data.draw(pressed(policy)))
    untouched = start(case)
    for k, batch in enumerate(case.tables):
        before = engine.snapshot()
        assert_partners(engine, batch)
        assert engine.snapshot() == before
        assert same_bytes(engine.push(batch), untouched.push(batch)), k
        assert engine.snapshot() == untouched.snapshot()


@every_kind
@examples(12)
@given(st.data())
def test_a_probe_is_what_a_push_of_each_row_alone_finds(kind: Any, data: st.DataObject) -> None:
    case, engine = opened(data.draw(pressed(data.draw(of_kind(kind)))))
    for batch in case.tables:
        saved = engine.snapshot()
        for name, table in batch.items():
            if case.query.stream(name).time is None:
                table = table.slice(0, 1)  # a later row has a later number
            rows = [table.slice(k, 1) for k in range(min(len(table), 5))]
            alone = [wr.Engine.restore(saved).push({name: row}) for row in rows]
            assert_same(multiset(stages.probe(engine, {name: table.slice(0, 5)})), multiset(alone))
        engine.push(batch)


@every_kind
@examples(12)
@given(st.data())
def test_a_look_at_several_joins(kind: Any, data: st.DataObject) -> None:
    case, engine = opened(data.draw(test_joins.pressed(data.draw(of_kind(kind)))))
    for batch in case.tables:
        before = engine.snapshot()
        found = assert_partners(engine, batch)
        alone: Counter[Any] = Counter()
        for name, table in batch.items():
            if case.query.stream(name).time is not None:
                for k in range(len(table)):
                    alone += all_rows(wr.Engine.restore(before).push({name: table.slice(k, 1)}))
        if all(stream.time is not None for stream in case.query.streams):
            assert_same(all_rows(found), alone)
        assert engine.snapshot() == before
        engine.push(batch)


@examples(60)
@given(cases())
def test_probe_and_store_are_push(case: Case) -> None:
    """Of a batch of one stream, whose rows do not meet, where nothing is shed."""
    pushed, staged, matched = start(case), start(case), 0
    for batch in by_stream(case):
        rows = {name: table_of(case, name, rows) for name, rows in batch.items()}
        found = stages.probe(staged, rows)
        stages.store(staged, rows)
        expected = pushed.push(rows)
        assert_same(multiset(found), multiset(expected))
        matched += len(expected)
        assert pushed.watermark == staged.watermark
        assert pushed.metrics.streams == staged.metrics.streams
        assert (pushed.metrics.matched, staged.metrics.matched) == (matched, 0)


@every_kind
@examples(12)
@given(st.data())
def test_probe_and_store_where_rows_are_shed(kind: Any, data: st.DataObject) -> None:
    """Row by row: as push, unless the policy learns from matches; what is found is part of the exact join anyhow."""
    case, staged = opened(data.draw(pressed(data.draw(of_kind(kind)))))
    pushed, found = start(case), []
    for batch in by_stream(case):
        for name, rows in batch.items():
            for row in rows:
                one = {name: table_of(case, name, [row])}
                found.append(stages.probe(staged, one))
                stages.store(staged, one)
                expected = pushed.push(one)
                assert_accounted(staged)
                if kind.name not in LEARN_FROM_MATCHES:
                    assert_same(multiset(found[-1]), multiset(expected))
                    assert staged.metrics.streams == pushed.metrics.streams
    metrics = staged.metrics
    assert metrics.matched == 0 and not metrics.exact_matched
    assert metrics.recall in (1.0, None)
    if found:
        exact = start(case.with_query(memory=None))
        rows = [{n: table_of(case, n, part) for n, part in batch.items()} for batch in by_stream(case)]
        assert_part(multiset(found), multiset([exact.push(batch) for batch in rows]))


@every_kind
@examples(12)
@given(st.data())
def test_after_the_end_of_input_nothing_is_left(kind: Any, data: st.DataObject) -> None:
    case, engine = opened(data.draw(pressed(data.draw(of_kind(kind)))), departures=data.draw(st.booleans()))
    for batch in case.tables:
        engine.push(batch)
    before = engine.metrics
    stages.finish(engine)
    after = engine.metrics
    assert_accounted(engine)
    assert after.resident_rows == after.resident_bytes == 0
    assert after.expired == before.expired + before.resident_rows
    same = ("matched", "shed", "late", "recall", "exact_matched", "peak_rows", "peak_bytes")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
    if engine._keeps_departures:
        engine.departed()
    stages.finish(engine)
    assert engine.metrics == after
    engine = wr.Engine.restore(engine.snapshot())
    for batch in case.tables:
        assert len(engine.push(batch)) == 0
        assert not any(told.any() for told in stages.partners(engine, batch).values())
    assert_accounted(engine)
    arrived = {name: sum(len(batch[name]) for batch in case.batches) for name in case.query.names}
    assert engine.metrics.resident_rows == 0 and engine.metrics.expired == after.expired
    for name, stream in engine.metrics.streams.items():
        assert stream.late - after.streams[name].late == arrived[name]  # every row of these cases has a time


# ------------------------------------------------------------------------------------------- other engines


@examples(20)
@given(cases(streams=(2, 3)))
def test_an_engine_that_only_counts(case: Case) -> None:
    emitting, counting = start(case), start(case, count_only=True)
    for batch in case.tables:
        before = counting.snapshot()
        counts, told = stages.probe(counting, batch), stages.partners(counting, batch)
        found = {name: stages.probe(emitting, {name: table}) for name, table in batch.items()}
        for name, table in batch.items():
            ids = Counter(found[name][f"{name}_id"].to_pylist())
            assert counts[name].tolist() == [ids[key] for key in table["id"].to_pylist()]
            assert told[name].tolist() == (counts[name] > 0).tolist()
        assert counting.snapshot() == before
        stages.store(counting, batch)
        stages.store(emitting, batch)
    assert counters(counting)["all"] == {"matched": 0}


@examples(20)
@given(cases(streams=(2, 3), plain=True, order=("time",), kinds=("time", "landmark", "unbounded")), st.integers(2, 4))
def test_shards_say_what_one_engine_says(case: Case, shards: int) -> None:
    one, many = start(case), start(case.with_query(shards=shards))
    for batch in case.tables:
        before = many.snapshot()
        assert_same(multiset(stages.probe(many, batch)), multiset(stages.probe(one, batch)))
        told, expected = ({n: has.tolist() for n, has in stages.partners(e, batch).items()} for e in (many, one))
        assert told == expected
        assert many.snapshot() == before
        stages.store(one, batch)
        stages.store(many, batch)
        assert many.metrics.matched == 0 and many.watermark == one.watermark
    stages.finish(many)
    assert_accounted(many)
    assert many.metrics.resident_rows == 0
    late = many.metrics.late
    many.push(case.at_once().tables[0])
    assert many.metrics.resident_rows == 0 and many.metrics.late >= late


@pytest.mark.parametrize("several", [False, True], ids=["one join", "several joins"])
@pytest.mark.parametrize("mask", [0, 0x3], ids=["all collide", "many collide"])
def test_colliding_codes_are_no_partners(mask: int, several: bool) -> None:
    rng = np.random.default_rng(5)
    names = ("a", "b", "c")[: 3 if several else 2]
    tables = {
        name: pa.table({
            "t": np.sort(rng.integers(0, 40, 60)), "id": np.arange(60),
            "k": [f"key {k}" for k in rng.integers(0, 25, 60)], "j": [f"key {k}" for k in rng.integers(0, 25, 60)],
        })
        for name in names
    }  # fmt: skip
    on: Any = {"one": [wr.Equal("a.k", "b.k")], "other": [wr.Equal("b.j", "c.j")]} if several else "k"
    query = Query(
        streams=[Stream(name, "t", 8) for name in names], on=on, select=[(f"{name}.id", f"{name}_id") for name in names]
    )
    schemas = {name: table.schema for name, table in tables.items()}
    sharp, blunt = wr.Engine(query, schemas), wr.Engine(query, schemas)
    blunt._binding = replace(blunt._binding, code_mask=mask)  # type: ignore[type-var]
    for engine in (sharp, blunt):
        stages.store(engine, {name: table for name, table in tables.items() if name != "a"})
    before = blunt.snapshot()
    asked = {name: tables[name] for name in ("a", "b")}
    found = assert_partners(blunt, asked)
    assert_same(all_rows(found), all_rows(stages.probe(sharp, asked)))
    assert all_rows(found) and blunt.snapshot() == before


# ------------------------------------------------------------------------------------------------ large ones


def zipf(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({"t": np.arange(rows), "k": np.minimum(rng.zipf(1.3, rows), 2_000)})


@pytest.mark.parametrize(("policy", "memory"), [("auto", 1_500), ("prob", "96 kB"), ("gdj", "96 kB")])
def test_matches_that_nobody_looked_for_are_counted_nowhere(policy: str, memory: Any) -> None:
    """Neither where a sample estimates recall, nor where a policy tries something out."""
    query = Query(streams=[Stream("a", "t", 4_000), Stream("b", "t", 4_000)], on="k", policy=policy, memory=memory)
    tables = {"a": zipf(30_000, 1), "b": zipf(30_000, 2)}
    engine = wr.Engine(query, {name: table.schema for name, table in tables.items()})
    tried = 0
    for first in range(0, 24_000, 1_000):
        stages.store(engine, {name: table.slice(first, 1_000) for name, table in tables.items()})
        trials = engine.bound()[1].trials
        for fork in trials.tried() if trials is not None else ():
            tried += 1
            assert fork.matched == 0
    tracker = engine._tracker
    assert tracker is not None and tracker.begun and not tracker.given_up
    assert tried if policy == "auto" else tracker.share < 1.0
    metrics = engine.metrics
    assert metrics.shed and metrics.matched == 0
    assert (metrics.recall, metrics.exact_matched) == (1.0, 0.0)
    rest = {name: table.slice(24_000) for name, table in tables.items()}
    found = engine.push(rest).num_rows
    metrics = engine.metrics
    assert metrics.matched == found > 0
    assert metrics.recall is not None and metrics.recall < 1.0


@pytest.mark.parametrize("streams", [2, 3])
def test_more_matches_than_a_look_hands_over_at_once(streams: int) -> None:
    names = ("a", "b", "c")[:streams]
    query = Query(streams=[Stream(name, "t", Window.unbounded()) for name in names], on="k")
    rows = pa.table({"t": np.arange(1_100), "k": np.zeros(1_100, np.int64)})
    engine = wr.Engine(query, dict.fromkeys(names, rows.schema))
    stages.store(engine, {"b": rows, **({"c": rows.slice(0, 2)} if streams == 3 else {})})
    before = engine.snapshot()
    assert stages.probe(engine, {"a": rows}).num_rows == 1_100 * 1_100 * (streams - 1) > at.OUT_PAUSE
    assert stages.partners(engine, {"a": rows})["a"].all()
    assert engine.snapshot() == before


def test_a_look_where_no_slot_is_free() -> None:
    query = Query(streams=[Stream(name, "t", Window.unbounded()) for name in "abc"], on="k")
    row = pa.table({"t": [1], "k": [7]})
    engine = wr.Engine(query, dict.fromkeys("abc", row.schema))
    shard, stored = engine.bound()[1], 0
    while shard.words[at.Head.top] < shard.words[at.Head.slot_cap]:
        stages.store(engine, {"b": row, "c": row})
        stored += 1
        assert stored < 10_000
    before, slots = engine.snapshot(), shard.capacity.slots
    asked = pa.table({"t": [1, 1], "k": [7, 8]})
    assert stages.probe(engine, {"a": asked}).num_rows == stored**2
    assert stages.partners(engine, {"a": asked})["a"].tolist() == [True, False]
    assert engine.snapshot() == before
    assert shard.capacity.slots >= slots


def test_the_value_of_matches_and_filters() -> None:
    streams = [Stream("a", "t", 5), Stream("b", "t", 5, where=(wr.Filter("x", ">", 1),))]
    query = Query(streams=streams, on="k", value=wr.Value({"a": "x", "b": "x"}), policy="prob", memory=10)
    rows = pa.table({"t": [1, 2, 3, None], "k": [1, 1, None, 1], "x": [1.0, 2.0, 3.0, 4.0]})
    engine = wr.Engine(query, {"a": rows.schema, "b": rows.schema})
    engine.push({"a": rows.slice(0, 1), "b": rows.slice(0, 2)})
    before, value = engine.snapshot(), engine.metrics.value
    assert value == 2.0
    assert stages.partners(engine, {"a": rows, "b": rows})["a"].tolist() == [True, True, False, False]
    assert stages.partners(engine, {"a": rows, "b": rows})["b"].tolist() == [False, True, False, False]
    assert stages.probe(engine, {"a": rows}).num_rows == 2
    assert engine.snapshot() == before
    stages.store(engine, {"a": rows})
    assert engine.metrics.value == value


def test_what_is_refused() -> None:
    query = Query(streams=[Stream("a", "t", 5), Stream("b", "t", 5)], on="k")
    rows = pa.table({"t": [1], "k": [1]})
    for stage in (stages.probe, stages.partners):
        with pytest.raises(wr.errors.WindrowError, match="no state yet"):
            stage(wr.Engine(query), {"a": rows, "b": rows})
    with pytest.raises(wr.errors.WindrowError, match="no state yet"):
        stages.finish(wr.Engine(query))
    engine = wr.Engine(query)
    stages.store(engine, {"a": rows, "b": rows})  # the first rows bind the query, as in a push
    before = engine.snapshot()
    for stage in (stages.probe, stages.partners, stages.store):
        with pytest.raises(wr.errors.InputError):
            stage(engine, {"a": rows.drop_columns(["k"])})
    assert engine.snapshot() == before
    assert engine.metrics.matched == 0 and engine.metrics.resident_rows == 2
    stages.store(engine, {}, watermark=100)
    assert engine.metrics.expired == 2


def test_full_memory_takes_nothing_of_what_is_stored() -> None:
    query = Query(streams=[Stream("a", "t", 5), Stream("b", "t", 5)], on="k", memory=2, on_full="fail")
    rows = pa.table({"t": [1, 1, 1], "k": [1, 2, 3]})
    engine = wr.Engine(query, {"a": rows.schema, "b": rows.schema})
    stages.store(engine, {"a": rows.slice(0, 2)})
    before = engine.snapshot()
    with pytest.raises(wr.errors.MemoryFull):
        stages.store(engine, {"b": rows})
    assert engine.snapshot() == before
    assert stages.partners(engine, {"b": rows})["b"].tolist() == [True, True, False]
