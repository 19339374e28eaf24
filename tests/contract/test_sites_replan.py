"""Plans that replace each other while sites are at work: the matches are those of one engine.

Catches: matches found under both plans or under none, rows that a new plan's windows lack or hold twice, questions of
an old plan that nobody answers, numbers of rows that begin anew, joined rows of a tree that are not made again, sites
that switch at different intervals, messages of a plan that is not known yet, decisions that a snapshot forgets.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.test_sites import drawn, one_engine, orders
from tests.running import assert_same, examples, multiset

from windrow.errors import SpecError
from windrow.sites import Link, Plan, Replan, simulate
from windrow.sites.programs import EVERY
from windrow.spec import Query, Stream, Window


def another(random: Random, plan: Plan) -> Plan:
    """Any plan for the same query and sites."""
    query, programs = plan.query, list(EVERY)
    same: dict[str, Any] = {
        "interval": plan.interval, "delay": plan.delay, "result_at": plan.result_at, "origin": plan.origin,
        "dense_counts": random.random() < 0.5,
    }  # fmt: skip
    if random.random() < 0.4:
        last = orders(random, query, random.choice(query.names))
        order = [n for n in query.names if n not in last] + last
        tree = [order[0], *((n, random.choice(programs), random.choice(programs)) for n in order[1:])]
        try:
            return Plan(query, dict(plan.sites), tree=tree, **same)
        except SpecError:  # a window in rows that is not the last
            pass
    sequences = {n: [(m, random.choice(programs)) for m in orders(random, query, n)] for n in query.names}
    return Plan(query, dict(plan.sites), sequences, **same)


def check(plan: Plan, tables: dict[str, pa.Table], link: Any, how: Any, restore: float) -> Any:
    found = simulate(plan, tables, link, restore=restore, replan=how)
    note = f"\n{plan.to_json()}\n{ {n: t.to_pydict() for n, t in tables.items()} }\n{link}\n{how}\n{restore}"
    assert_same(multiset(found.table), one_engine(plan.query, tables), note)
    for name, counters in found.counters.items():
        assert counters["arrived"] == tables[name].num_rows
        assert not counters["late"]
    return found


def switched(data: st.DataObject, streams: int, restore: float) -> None:
    plan, tables, link = data.draw(st.composite(lambda draw: drawn(draw, streams, tree=draw(st.booleans())))())
    random = Random(data.draw(st.integers(0, 2**32)))
    begins = sorted(random.sample(range(1, 13), data.draw(st.integers(1, 3))))
    check(plan, tables, link, [(begin, another(random, plan)) for begin in begins], restore)


@examples(30)
@given(st.data())
def test_any_plan_may_follow_any_other_at_any_interval(data: st.DataObject) -> None:
    switched(data, data.draw(st.integers(2, 5)), restore=0.0)


@examples(12)
@given(st.data())
def test_sites_between_two_plans_go_on_from_snapshots(data: st.DataObject) -> None:
    switched(data, data.draw(st.integers(2, 3)), restore=0.1)


def drifting(random: Random, streams: int, rows: int) -> tuple[Query, dict[str, pa.Table]]:
    """Streams whose rates and keys change in the middle, some of them with windows in rows."""
    names = "abcde"[:streams]
    windows = [random.choice([Window.time(random.randint(1, 15)), Window.rows(random.randint(1, 8))]) for _ in names]
    made = [Stream(n, "t", window) for n, window in zip(names, windows, strict=True)]
    on = [f"{random.choice(names[:k])}.k = {names[k]}.k" for k in range(1, streams)]
    query = Query(streams=made, on=on, select=[(f"{n}.id", n) for n in names])
    tables = {}
    for name in names:
        times: list[int] = []
        keys: list[int] = []
        for begin in (0, 40):
            count = random.randrange(rows)
            times += sorted(random.randrange(begin, begin + 40) for _ in range(count))
            most = random.choice([1, 3, 40])
            keys += [random.randrange(most) for _ in range(count)]
        tables[name] = pa.table({"t": pa.array(times, pa.int64()), "k": pa.array(keys, pa.int64()),
                                 "id": pa.array(range(len(times)), pa.int64())})  # fmt: skip
    return query, tables


def decided(seed: int, restore: float) -> int:
    """A random drift with a council; how many plans there were."""
    random = Random(seed)
    streams = random.choice([2, 2, 2, 3, 3, 4, 5])
    query, tables = drifting(random, streams, 40 if streams < 4 else 14)
    names = query.names
    sites = {n: random.choice(["N0", "N1", "N2"]) for n in names}
    sequences = {n: [(m, random.choice(list(EVERY))) for m in orders(random, query, n)] for n in names}
    plan = Plan(query, sites, sequences, interval=random.randint(2, 8), delay=random.randint(0, 12),
                result_at=random.choice([None, *sites.values()]))  # fmt: skip
    link = Link(f"{random.choice([0, 1, 9])} s", random.choice([None, 300.0]), f"{random.choice([0, 0, 20])} s")
    how = Replan(random.randint(2, 20), gain=random.choice([0.0, 0.1]), at=random.choice([None, *sites.values()]),
                 sample=random.choice([1, 4, 256]), objective=random.choice(["bytes", "time"]))  # fmt: skip
    return len(check(plan, tables, link, how, restore).plans)


@examples(20)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.0, 0.01]))
def test_a_council_never_changes_an_answer(seed: int, restore: float) -> None:
    decided(seed, restore)


def swapped(seconds: int = 120) -> dict[str, pa.Table]:
    """Two streams of wide rows whose rates swap in the middle."""
    tables = {}
    for place, rates in enumerate([(4, 60), (60, 4)]):
        rng = np.random.default_rng(place)
        half = seconds * 500
        times = np.concatenate(
            [np.sort(rng.integers(k * half, (k + 1) * half, r * seconds // 2)) for k, r in enumerate(rates)]
        )
        tables["ab"[place]] = pa.table({"t": times, "k": rng.integers(0, 4000, len(times)), "id": np.arange(len(times)),
                                        "wide": [rng.bytes(40).hex() for _ in times]})  # fmt: skip
    return tables


def test_rates_that_swap_change_the_plan_and_say_why() -> None:
    tables = swapped()
    wanted = [(f"{s}.{c}", f"{s}_{c}") for s in "ab" for c in ("id", "wide")]
    query = Query(streams=[Stream("a", "t", 5000), Stream("b", "t", 5000)], on="k", select=wanted)
    plan = Plan(query, {"a": "A", "b": "B"}, {"a": [("b", "SP-D")], "b": [("a", "SP-S")]}, interval=1000)
    still = simulate(plan, tables, step_seconds=1e-3)
    found = check(plan, tables, None, Replan(10_000), 0.0)
    assert [p["number"] for p in found.plans] == list(range(len(found.plans)))
    assert len(found.plans) > 1 and "rows of a a second were" in found.plans[-1]["why"]
    assert found.bytes < still.bytes


def test_what_cannot_follow_is_refused() -> None:
    query = Query(streams=[Stream("a", "t", 5), Stream("b", "t", 5)], on="k")
    table = pa.table({"t": [1], "k": [1]})
    plan = Plan(query, {"a": "A", "b": "B"}, {"a": [("b", "SP-D")], "b": [("a", "SP-S")]}, interval=10)
    for other, why in [
        (plan.with_(interval=5), "another interval"),
        (plan.with_(sites={"a": "B", "b": "B"}), "another sites"),
    ]:
        with pytest.raises(SpecError, match=why):
            simulate(plan, {"a": table, "b": table}, replan=[(3, other)])
    with pytest.raises(SpecError, match="has passed"):
        simulate(plan, {"a": table, "b": table}, replan=[(0, plan)])
    tree = Plan(query, {"a": "A", "b": "B"}, tree=["a", ("b", "SP-D", "SP-D")], interval=10)
    with pytest.raises(SpecError, match="a tree has no cost model"):
        simulate(tree, {"a": table, "b": table}, replan=Replan(10))
    with pytest.raises(SpecError, match="the sites are A, B"):
        simulate(plan, {"a": table, "b": table}, replan=Replan(10, at="C"))
