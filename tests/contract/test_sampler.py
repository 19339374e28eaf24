"""The sampler in front of every policy: who is left out, what it keeps, and what it must not change.

Catches: budgets passed, matches that the exact join does not have, rows counted twice or never, a choice that
depends on batch boundaries, on being restored or on the driver; rows that are left out without having been probed; a
probability that lets the policy shed, or a spread of keys that is no better for it.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.test_policies import assert_within, opened, pressed
from tests.reference import exact_join, matches, output_row, taken_rows
from tests.running import assert_accounted, assert_part, assert_same, counters, examples, multiset, run, same_bytes
from tests.streams import KINDS, POLICY_NAMES, Case, cases, configurations, of_kind, tick_by_tick

import windrow as wr
from windrow.errors import SpecError
from windrow.quality.distortion import distortion
from windrow.state import shard

SHARES = st.sampled_from([0.1, 0.5, 0.9])


@st.composite
def sampled(draw: st.DrawFn, policy: Any) -> Case:
    """A case with a sampler in front of a memory that is, mostly, too small."""
    case = draw(pressed(policy, order=("time",)))
    bounded = all(s.window.kind in ("time", "rows") for s in case.query.streams)
    return case.with_query(sample=draw(SHARES | st.just("unbiased") if bounded else SHARES))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@examples(20)
@given(st.data())
def test_the_contract_of_policies_holds_behind_a_sampler(kind: Any, data: Any) -> None:
    case, engine = opened(tick_by_tick(data.draw(sampled(data.draw(of_kind(kind))))))
    exact, found, cut = exact_join(case.query, case.batches), [], data.draw(st.integers(0, len(case.batches)))
    for k, batch in enumerate(case.tables):
        if k == cut:
            engine = wr.Engine.restore(engine.snapshot(), case.query)
        found.append(engine.push(batch))
        assert_within(engine, case.query.memory)
        assert_accounted(engine)
    assert_part(multiset(found), exact)
    assert engine.metrics.sampled <= engine.metrics.shed
    whole, again = run(case.at_once()), run(case.at_once())
    assert same_bytes(whole[1][0], again[1][0])
    assert counters(whole[0]) == counters(engine)
    assert whole[0].metrics.sampled == engine.metrics.sampled
    assert_same(multiset(whole[1]), multiset(found))


@examples(100)
@given(st.data())
def test_a_sampler_that_leaves_nothing_out_is_none(data: Any) -> None:
    case = data.draw(pressed(data.draw(st.sampled_from(configurations()))))
    assert case.query.with_(sample=0) == case.query == wr.Query.from_json(case.query.to_json())


MASK = 2**64 - 1


def mix(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def left_out(seed: int, number: int, drop: float) -> bool:
    """The slow twin of the choice: a row's number among those that may match decides."""
    return mix((number + mix(seed ^ 0x5A3C96E1D2B48F07)) & MASK) >> 11 < drop * 2**53


@examples(40)
@given(cases(timely=True, order=("time",)), SHARES)
def test_with_ample_memory_a_match_is_lost_exactly_if_a_row_of_an_earlier_instant_was_left_out(
    case: Case, share: float
) -> None:
    case = case.with_query(memory=10_000, policy="fifo", sample=share)
    rows = taken_rows(case.query, case.batches)
    live = [row.place for row in rows if not row.ignored]
    out = {place for k, place in enumerate(live) if left_out(case.query.seed, k, share)}
    kept: Counter[Any] = Counter()
    for match in matches(case.query, rows):
        last = max(row.time for row in match)
        if not any(row.place in out for row in match if row.time < last):
            kept[output_row(case.query, match)] += 1
    engine, found = run(case)
    if all(stream.window.kind != "rows" for stream in case.query.streams):
        assert engine.metrics.sampled == len(out)
    assert_same(multiset(found), kept, case)


def twin_share(caps: float, need: float) -> float:
    """What share of rows fits, as kernels/sampler.py says it."""
    if need <= caps:
        return 1.0
    return (caps - min(4 * math.sqrt(caps * (1 - caps / need)), caps / 2)) / need


def test_the_unbiased_probability_is_that_of_its_slow_twin() -> None:
    window, memory, seed, random = 60, 40, 3, np.random.default_rng(5)
    times = {name: np.cumsum(random.integers(0, 3, 900)) for name in ("left", "right")}
    rows = sorted((int(t), s, k) for s, name in enumerate(times) for k, t in enumerate(times[name]))
    seen, first, last, brought = [0.0, 0.0], [None, None], [0, 0], [0, 0]
    newest: list[float] = [-math.inf, -math.inf]
    expected = set()
    for number, (now, s, k) in enumerate(rows):
        for other in (0, 1):  # the rows of an instant come together
            if any(r[0] == now and r[1] == other for r in rows[max(0, number - 9) : number + 9]):
                newest[other] = now
        brought[s] += 1
        if first[s] is None:
            first[s] = last[s] = now  # type: ignore[call-overload]
        if now > first[s]:  # type: ignore[operator]
            seen[s] = seen[s] * math.exp(-(now - last[s]) / window) + 1
            last[s] = now
        need = 0.0
        for x in (0, 1):
            if first[x] is not None and now > first[x] and brought[x] >= 32:
                age = now - first[x]  # type: ignore[unreachable]
                faded = seen[x] * math.exp(-(now - last[x]) / window)
                need += faded / (1 - math.exp(-age / window)) * (window + min(now - min(newest), age)) / window
        if left_out(seed, number, 1 - twin_share(memory, need)):
            expected.add((s, k))
    streams = [wr.Stream(name, "t", window) for name in times]
    query = wr.Query(streams=streams, on="k", memory=memory, policy="prob", sample="unbiased", seed=seed)
    engine = wr.Engine(query, departures=True)
    engine.push({n: pa.table({"id": np.arange(900), "k": np.arange(900) % 7, "t": t}) for n, t in times.items()})
    gone = {name: table.to_pylist() for name, table in engine.departed().items()}
    found = {(s, r["id"]) for s, n in enumerate(times) for r in gone[n] if r["windrow_why"] == "sampled"}
    assert 500 < len(expected) < 1500
    assert found == expected


def zipf_tables(rows: int, keys: int = 50) -> dict[str, pa.Table]:
    random, weights = np.random.default_rng(11), 1 / np.arange(1, keys + 1)
    return {
        name: pa.table({"k": random.choice(keys, rows, p=weights / weights.sum()), "t": np.arange(rows)})
        for name in ("left", "right")
    }


@pytest.mark.parametrize("memory", [wr.Memory(400), wr.Memory("100 kB"), wr.Memory(400, split=True)], ids=str)
@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_the_unbiased_setting_leaves_the_policy_nothing_and_distorts_less(policy: str, memory: wr.Memory) -> None:
    tables = zipf_tables(8000)
    streams = [wr.Stream(name, "t", 1000) for name in tables]
    query = wr.Query(streams=streams, on="k", select={"k": "left.k"}, memory=memory, policy=policy)
    exact = wr.Engine(query.with_(memory=None)).push(tables)
    plain = wr.Engine(query, recall=False).push(tables)
    engine = wr.Engine(query.with_(sample="unbiased"), {n: t.schema for n, t in tables.items()}, recall=False)
    found = [engine.push({n: t.slice(0, 2000) for n, t in tables.items()})]
    before = engine.metrics.shed - engine.metrics.sampled
    found.append(engine.push({n: t.slice(2000) for n, t in tables.items()}))
    metrics = engine.metrics
    assert metrics.shed - metrics.sampled == before  # after the first two windows the policy is never asked
    assert before < 100 and metrics.sampled > 8000
    if memory.rows:
        assert metrics.resident_rows > 0.6 * memory.rows
    spread, without = distortion(pa.concat_tables(found), exact, "k"), distortion(plain, exact, "k")
    assert spread.sse < 0.001, (spread, without)
    if without.sse > 0.01:  # of a policy that looks at keys
        assert spread.sse < without.sse / 10 and spread.kl < without.kl / 10
    assert (without.sse > 0.01) == (policy not in ("rand", "fifo", "age")), without


def test_recall_stays_right_behind_a_sampler() -> None:
    tables = zipf_tables(1500)
    query = wr.Query(
        streams=[wr.Stream(name, "t", 100) for name in tables], on="k", memory=50, policy="prob", sample=0.5
    )
    engine, exact = wr.Engine(query), wr.Engine(query.with_(memory=None), count_only=True)
    found = engine.push(tables)
    exact.push(tables)
    assert engine.metrics.exact_matched == exact.metrics.matched
    assert engine.metrics.recall == pytest.approx(found.num_rows / exact.metrics.matched)


# LIFE-EXPECTED learns from residents how long rows stay, and a row that is turned away has been none
TWINS = [policy for policy in configurations() if policy.name != "life-expected"]


@examples(100)
@given(st.sampled_from(TWINS), st.data())
def test_both_drivers_leave_out_the_same_rows(policy: Any, data: Any) -> None:
    kinds = data.draw(st.sampled_from([("time",), ("rows",)]))
    case = data.draw(cases(streams=(2,), timely=True, kinds=kinds, plain=True, order=("time",)))
    case = case.with_query(memory=data.draw(st.integers(1, 12)), policy=policy, sample=data.draw(SHARES))
    engine, found = run(case)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard, "drive_pair", shard.drive_many)
        twin, others = run(case)
    assert counters(twin) == counters(engine) and twin.metrics.sampled == engine.metrics.sampled
    assert_same(multiset(others), multiset(found))


def test_what_a_sampler_cannot_be_is_refused() -> None:
    sides = [wr.Stream("left", "t", 10), wr.Stream("right", "t", 10)]
    for sample in (1.0, -0.1, "random", True, float("nan")):
        with pytest.raises(SpecError, match="sample"):
            wr.Query(streams=sides, on="k", memory=5, sample=sample)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="on_full"):
        wr.Query(streams=sides, on="k", memory=5, sample=0.5, on_full="fail")
    with pytest.raises(SpecError, match="no end"):
        wr.Query(streams=[sides[0], wr.Stream("right", "t", None)], on="k", memory=5, sample="unbiased")
    made = wr.Query(streams=sides, on="k", memory=5, sample="unbiased")
    assert wr.Query.from_json(made.to_json()) == made != made.with_(sample=0.25)
    table = pa.table({"k": [1, 1], "t": [0, 1]})
    assert wr.join(table, table, on="k", time="t", within=5, sample=0.9).table.num_rows == 4  # no cap, no sampler


def test_memory_that_changes_takes_the_sampler_along() -> None:
    tables = zipf_tables(1000)
    streams = [wr.Stream(name, "t", 100) for name in tables]
    engine = wr.Engine(wr.Query(streams=streams, on="k", policy="prob", sample=0.9), recall=False)
    for k, memory in enumerate([None, 1000, None, wr.Memory(1000, split=True)]):
        engine.memory = memory
        before = engine.metrics.sampled
        engine.push({n: t.slice(250 * k, 250) for n, t in tables.items()})
        assert_accounted(engine)
        assert (engine.metrics.sampled > before + 300) == (memory is not None)


def test_a_row_left_out_makes_room_when_its_instant_ends() -> None:
    """Rows of one instant meet a row that is left out, and none is shed for the room that it will give back."""
    for seed in range(20):
        streams = [wr.Stream(name, "t", 10) for name in ("left", "right")]
        query = wr.Query(streams=streams, on="k", memory=1, policy="prob", sample=0.5, seed=seed)
        engine = wr.Engine(query)
        rows = pa.table({"k": [1, 2], "t": [0, 0]})
        assert engine.push({"left": rows, "right": rows.slice(0, 1)}).num_rows == 1
        metrics = engine.metrics
        assert metrics.resident_rows == min(1, 3 - metrics.sampled)
        assert metrics.shed - metrics.sampled == max(0, 2 - metrics.sampled)
