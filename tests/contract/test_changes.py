"""A snapshot goes on under another policy, lateness, patience, sample or on_full; not as another join.

Can catch: a policy that is taken over without its columns or statistics; rows lost, doubled or miscounted on the way; a
budget that a change passes; an engine that goes on otherwise than one that is saved and restored after the change; rows
that a larger lateness lets in though their partners have expired.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.test_departures import WINDOW, Row, fits, missed, pushes, table
from tests.running import assert_accounted, assert_part, assert_same, examples, multiset
from tests.streams import configurations, label
from tests.unit.test_live_change import SHAPES, batches_of, engine_of, query_of, start_with

import windrow as wr
from windrow.errors import MemoryFull, SnapshotError, SpecError, UnknownColumn
from windrow.spec import Memory, Query, Stream

CONFIGURATIONS = [p for p in configurations() if not isinstance(getattr(p, "statistics", None), wr.statistics.Oracle)]


def walk(seed: int) -> list[Any]:
    """A way through all policies that goes from each to each other one once, with statistics by chance."""
    chance = Random(seed)
    rules = sorted({policy.rule for policy in CONFIGURATIONS})
    left = {rule: [other for other in rules if other != rule] for rule in rules}
    way, found = [rules[0]], []
    while way:  # Hierholzer
        if ahead := left[way[-1]]:
            way.append(ahead.pop(chance.randrange(len(ahead))))
        else:
            found.append(way.pop())
    return [chance.choice([policy for policy in CONFIGURATIONS if policy.rule == rule]) for rule in found]


def changed(engine: Any, **changes: Any) -> Any:
    """The engine of a snapshot, under a changed query."""
    return wr.Engine.restore(engine.snapshot(), engine.query.with_(**changes))


@pytest.mark.parametrize("shape", ["pair", "chain", "value"])
def test_ample_memory_under_any_policies_gives_the_exact_join(shape: str) -> None:
    engine, exact = engine_of(query_of(shape, memory=900)), engine_of(query_of(shape))
    order = walk(1)
    for policy, batch in zip(order, batches_of(2, len(order), exact.query.names, rows=3), strict=True):
        engine = changed(engine, policy=policy)
        assert engine.query.policy == policy
        assert_same(multiset(engine.push(batch)), multiset(exact.push(batch)), label(policy))
        assert_accounted(engine)
    assert engine.metrics.matched == exact.metrics.matched > 100 and engine.metrics.shed == 0


@pytest.mark.parametrize("memory", [12, Memory(12, split=True), "60 kB"], ids=str)
def test_the_budget_holds_and_recall_stays_known_under_any_policies(memory: Any) -> None:
    engine, exact = engine_of(query_of("pair", memory=memory)), engine_of(query_of("pair"))
    order, rows = walk(3), 3 if isinstance(memory, (int, Memory)) else 60
    found: Counter[Any] = Counter()
    expected: Counter[Any] = Counter()
    for policy, batch in zip(order, batches_of(4, len(order), "ab", rows=rows, keys=9), strict=True):
        engine = changed(engine, policy=policy)
        limit = Memory.of(memory)
        before = engine.metrics
        again = wr.Engine.restore(engine.snapshot())
        one, other = engine.push(batch), again.push(batch)
        assert one.equals(other) and engine.snapshot() == again.snapshot(), label(policy)
        found += multiset(one)
        expected += multiset(exact.push(batch))
        for metrics in (before, engine.metrics):
            assert metrics.resident_rows <= (limit.rows or metrics.resident_rows)
            assert metrics.resident_bytes <= (limit.bytes or metrics.resident_bytes)
        assert_accounted(engine)
    assert_part(found, expected)
    assert engine.metrics.shed > 0 and engine.metrics.matched == found.total()
    if limit.bytes is None:
        assert engine.metrics.recall == pytest.approx(found.total() / expected.total())


@examples(60)
@given(
    pushes(),
    st.lists(
        st.tuples(
            st.integers(1, 6),
            st.sampled_from(CONFIGURATIONS),
            st.integers(0, 8),
            st.sampled_from([None, 0.4, "unbiased"]),
            st.sampled_from([None, 0, 3]),
        ),
        min_size=6,
        max_size=6,
    ),
)
def test_output_and_departures_are_the_exact_join_whatever_changes_between_pushes(
    batches: list[list[Row]], settings: list[tuple[Any, ...]]
) -> None:
    def query(memory: int, policy: Any, lateness: int, sample: Any, patience: Any) -> Query:
        streams = [Stream(name, "t", wr.Window.time(size), lateness) for name, size in WINDOW.items()]
        select = {"a": "left.id", "b": "right.id"}
        return Query(
            streams=streams, on="k", select=select, memory=memory, policy=policy, sample=sample, patience=patience
        )

    engine = wr.Engine(query(*settings[0]), {n: table([], n).schema for n in WINDOW}, departures=True)
    output: Counter[Any] = Counter()
    departed: dict[str, list[dict[str, Any]]] = {name: [] for name in WINDOW}
    for batch, given_now in zip(batches, settings, strict=False):
        engine = wr.Engine.restore(engine.snapshot(), query(*given_now))
        matches = engine.push({name: table(batch, name) for name in WINDOW})
        output.update((m["a"], m["b"]) for m in matches.to_pylist())
        for name, rows in engine.departed().items():
            departed[name] += rows.to_pylist()
        assert_accounted(engine)
    history = {name: table([r for b in batches for r in b], name).to_pylist() for name in WINDOW}
    exact = Counter((a["id"], b["id"]) for a in history["left"] for b in history["right"] if fits(a, b))
    assert output + missed(departed, history) == exact


def test_a_larger_lateness_does_not_bring_back_what_was_late() -> None:
    query = Query(streams=[Stream(n, "t", 10, 2) for n in "ab"], on="k", patience=0)
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    engine = wr.Engine(query, dict.fromkeys("ab", schema))

    def at(*times: int) -> pa.Table:
        return pa.table({"k": [1] * len(times), "t": times}, schema=schema)

    engine.push({"a": at(0, 20)})
    assert engine.watermark == 18 and engine.metrics.expired == 1
    engine = changed(engine, streams=[Stream(n, "t", 10, 15) for n in "ab"])
    assert engine.watermark == 18
    engine.push({"b": at(17)})
    assert engine.metrics.late == 1  # its partner of time 0 may be gone already
    engine.push({"a": at(40), "b": at(26)})
    assert (engine.watermark, engine.metrics.late) == (25, 1)
    engine = changed(engine, streams=[Stream(n, "t", 10, 0) for n in "ab"])
    assert engine.watermark == 40


def test_other_changes_are_named() -> None:
    engine = wr.Engine(query_of("pair", memory=20))
    engine.push(batches_of(1, 1, "ab")[0])
    told = {
        'on was ["a.k = b.k"] and is now ["a.s = b.s"]': {"on": "s"},
        "seed was 0 and is now 7": {"seed": 7},
        'order was "time" and is now "arrival"': {"order": "arrival"},
        "where of a was [] and is now": {
            "streams": [Stream("a", "t", 8, where=[("x", ">", 1)]), Stream("b", "t", 8)],
        },
        'window of b was {"kind": "time", "closed": "right"} and is now {"kind": "unbounded"': {
            "streams": [Stream("a", "t", 8), Stream("b", "t")],
        },
        "value was nothing and is now": {"value": wr.Value({"a": "x"})},
        "select was": {"select": ["a.id"]},
        "probe_order was nothing and is now": {"probe_order": {"a": ["b"], "b": ["a"]}},
    }
    for text, changes in told.items():
        with pytest.raises(SnapshotError, match="of another query") as caught:
            changed(engine, **changes)
        assert text in str(caught.value)


def test_changes_that_cannot_be_are_refused() -> None:
    engine = engine_of(query_of("pair", memory=20))
    engine.push(batches_of(1, 1, "ab", rows=30)[0])
    with pytest.raises(UnknownColumn, match="nowhere"):
        changed(engine, policy=wr.policies.Given("nowhere"))
    with pytest.raises(SpecError, match="oracle="):
        changed(engine, policy=wr.policies.Prob(statistics=wr.statistics.Oracle()))
    with pytest.raises(MemoryFull):
        changed(engine, on_full="fail", memory=19)
    kept = changed(engine, on_full="fail", memory=500)
    assert kept.metrics.resident_rows == engine.metrics.resident_rows == 20
    with pytest.raises(MemoryFull):
        kept.push(batches_of(2, 2, "ab", rows=300)[1])


def test_the_way_from_an_oracle_frees_its_bytes() -> None:
    query = query_of("pair", policy=wr.policies.Prob(statistics=wr.statistics.Oracle()), memory="80 kB")
    batches = batches_of(13, 8, query.names, rows=60, keys=200)
    engine = start_with(query, batches)
    engine.push(batches[0])
    changed_engine = changed(engine, policy="prob")
    again = wr.Engine.restore(changed_engine.snapshot())
    for batch in batches[1:]:
        assert changed_engine.push(batch).equals(again.push(batch))
    assert changed_engine.metrics == again.metrics and again.metrics.shed > 0


@pytest.mark.parametrize("shape", SHAPES)
def test_every_kind_of_join_moves_between_policies(shape: str) -> None:
    engine, exact = engine_of(query_of(shape, memory=700)), engine_of(query_of(shape))
    for policy, batch in zip(CONFIGURATIONS, batches_of(5, len(CONFIGURATIONS), exact.query.names), strict=True):
        engine = changed(engine, policy=policy)
        assert_same(multiset(engine.push(batch)), multiset(exact.push(batch)), label(policy))
    assert engine.metrics.value == pytest.approx(exact.metrics.value) if exact.query.value else True


def test_what_a_tuner_has_found_out_stays_with_tuned_credits() -> None:
    """A start that is given has no trials: what those of the tuner have left would be no state of it."""
    tuned, given = (wr.policies.GreedyDual(initial=start) for start in ("tuned", 0.95))
    rows = pa.table({"t": np.arange(300), "k": np.arange(300) % 7})
    streams = [wr.Stream(name, "t", 50) for name in "ab"]
    for old, new in ((tuned, given), (given, tuned), (tuned, tuned)):
        query = wr.Query(streams=streams, on="k", memory=20, policy=old)
        engine = wr.Engine(query)
        engine.push({"a": rows, "b": rows})
        changed = wr.Engine.restore(engine.snapshot(), query.with_(policy=new))
        assert wr.Engine.restore(changed.snapshot()).snapshot() == changed.snapshot()


@pytest.mark.parametrize("policy", wr.policies.ALL, ids=lambda policy: policy.name)
def test_another_clock_from_a_restart_on(policy: type[wr.policies.Policy]) -> None:
    rows = [pa.table({"t": np.arange(100) + 100 * k, "k": np.arange(100) % 5}) for k in range(3)]
    query = wr.Query(streams=[wr.Stream(name, "t", 10) for name in "ab"], on="k", memory=5_000, policy=policy())
    engine = wr.Engine(query, own_clock=False)
    engine.push({"a": rows[0], "b": rows[0]})
    assert engine.metrics.expired == 0 and engine.watermark is None
    own = wr.Engine.restore(engine.snapshot(), own_clock=True)
    own.push({"a": rows[1], "b": rows[1]})
    assert own.metrics.expired > 150 and own.watermark == 199
    told = wr.Engine.restore(own.snapshot(), own_clock=False)
    told.push({"a": rows[2], "b": rows[2]})
    assert told.watermark == 199
    assert wr.Engine.restore(told.snapshot()).snapshot() == told.snapshot()
