"""Sites: any plan on any links gives the matches of one engine that sees everything.

Catches: ties found twice or never, rows that a copy lost or got twice, windows pruned while somebody still asks, keys
that go and come back, questions that cross with updates, messages that overtake each other, state that a snapshot
forgets, rows of windows in rows that are counted where they cannot be seen.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.running import assert_same, examples, multiset

import windrow as wr
from windrow.sites import Link, Plan, simulate
from windrow.sites.equalities import Connections
from windrow.sites.programs import EVERY
from windrow.spec import Equal, Filter, Query, Stream, Window

NAMES = "abcde"
WORDS = ["", "é", "key", "another key", "a"]


def graph(shape: str, n: int) -> list[tuple[int, int]]:
    if shape == "star":
        return [(0, k) for k in range(1, n)]
    if shape == "full":
        return [(j, k) for k in range(n) for j in range(k)]
    chain = [(k - 1, k) for k in range(1, n)]
    return [*chain, (0, n - 1)] if shape == "cycle" and n > 2 else chain


@st.composite
def windows(draw: st.DrawFn, most: int) -> Window:
    kind = draw(st.sampled_from(["time", "time", "time", "rows", "rows", "landmark", "unbounded"]))
    if kind == "time":
        return Window.time(draw(st.integers(1, most)), draw(st.sampled_from(["right", "left", "both", "neither"])))
    if kind == "rows":
        return Window.rows(draw(st.integers(1, most)))
    return Window.landmark(draw(st.integers(0, 15))) if kind == "landmark" else Window.unbounded()


def table(random: Random, rows: int, span: int, keys: int, text: bool, nulls: float) -> pa.Table:
    """Rows in order of time, many of them at the same instant."""
    time = sorted(random.randrange(span) for _ in range(rows))

    def key() -> Any:
        k = random.randrange(keys)
        return None if random.random() < nulls else WORDS[k % len(WORDS)] * (1 + k // len(WORDS)) if text else k

    columns = {c: pa.array([key() for _ in time], pa.string() if text else pa.int64()) for c in ("k", "l")}
    return pa.table({"t": pa.array(time, pa.int64()), **columns, "v": [random.randrange(9) for _ in time],
                     "id": pa.array(range(len(time)), pa.int64())})  # fmt: skip


def one_engine(query: Query, tables: dict[str, pa.Table]) -> Counter[Any]:
    engine = wr.Engine(query, {name: t.schema for name, t in tables.items()})
    return multiset(engine.push(tables))


def orders(random: Random, query: Query, head: str) -> list[str]:
    """The other streams, in any order in which each is joined with one before."""
    done, found = {head}, []
    while len(done) < len(query.names):
        ready = [n for n in query.names if n not in done and Connections(query).of(n, done)[0]]
        found.append(random.choice(ready))
        done.add(found[-1])
    return found


def drawn(
    draw: st.DrawFn, streams: int, programs: list[str] | None = None, tree: bool = False
) -> tuple[Plan, dict[str, pa.Table], Any]:
    random = Random(draw(st.integers(0, 2**32)))
    names = NAMES[:streams]
    text, span = draw(st.booleans()), draw(st.integers(1, 30))
    keys = draw(st.integers(1, 6 if streams == 2 else 2))
    filters = [Filter("v", ">", 2)]
    made = [
        Stream(name, "t", draw(windows(12 if streams == 2 else 30)), where=filters if random.random() < 0.2 else ())
        for name in names
    ]
    edges = graph(draw(st.sampled_from(["star", "chain", "cycle", "full"])), streams)
    on = []
    for j, k in edges:
        columns = draw(st.sampled_from([("k",), ("k",), ("l",), ("k", "l")]))
        on += [Equal(f"{names[j]}.{c}", f"{names[k]}.{c}") for c in columns]
    select = [(f"{name}.id", name) for name in names]
    query = Query(streams=made, on=on, select=select)
    rows = draw(st.integers(0, 40 if streams == 2 else 24 // streams + 2))
    tables = {
        n: table(random, random.randint(rows // 2, rows), span, keys, text, 0.1 * random.randrange(2)) for n in names
    }
    places = [f"N{k}" for k in range(draw(st.integers(1, streams)))]
    sites = {name: random.choice(places) for name in names}
    choices = programs or list(EVERY)
    if tree:
        last = orders(random, query, random.choice(names))
        order = [n for n in names if n not in last] + last
        made = [
            s if n == order[-1] or s.window.kind != "rows" else s.with_(window=9)
            for n, s in zip(names, made, strict=True)
        ]
        query = query.with_(streams=made)
        how: dict[str, Any] = {
            "tree": [order[0], *((n, random.choice(choices), random.choice(choices)) for n in order[1:])]
        }
    else:
        how = {"sequences": {n: [(m, random.choice(choices)) for m in orders(random, query, n)] for n in names}}
    plan = Plan(
        query, sites, **how, interval=draw(st.integers(1, 7)), delay=draw(st.integers(0, 20)),
        result_at=random.choice([None, "N0", "elsewhere"]), dense_counts=random.random() < 0.5,
    )  # fmt: skip
    link = Link(f"{random.choice([0, 1, 30])} s", random.choice([None, 300.0]), f"{random.choice([0, 0, 40])} s")
    return plan, tables, link


def assert_equal(case: tuple[Plan, dict[str, pa.Table], Any], restore: float) -> None:
    plan, tables, link = case
    found = simulate(plan, tables, link, restore=restore)
    note = f"\n{plan.to_json()}\n{ {n: t.to_pydict() for n, t in tables.items()} }\n{link}"
    assert_same(multiset(found.table), one_engine(plan.query, tables), note)
    for name, counters in found.counters.items():
        assert counters["arrived"] == tables[name].num_rows
        assert not counters["late"]


@pytest.mark.parametrize("name", EVERY)
@examples(14)
@given(st.data())
def test_each_program_between_two_streams_is_the_join(name: str, data: st.DataObject) -> None:
    assert_equal(data.draw(st.composite(lambda draw: drawn(draw, 2, [name]))()), restore=0.0)


@examples(30)
@given(st.data())
def test_any_plan_of_several_streams_is_the_join(data: st.DataObject) -> None:
    streams = data.draw(st.integers(3, 5))
    assert_equal(data.draw(st.composite(lambda draw: drawn(draw, streams))()), restore=0.0)


@pytest.mark.parametrize("ordering", ["sequences", "tree"])
@pytest.mark.parametrize("closed", ["left", "neither", "right", "both"])
def test_ties_of_three_streams_go_by_the_query(closed: Any, ordering: str) -> None:
    """Rows of two streams at one instant, neither of whose windows holds it, do not go together: whoever started."""
    names = "abc"
    times = {"a": [1, 2, 3], "b": [2, 3, 3], "c": [2, 3, 5]}
    tables = {n: pa.table({"t": times[n], "k": [0, 0, 0], "id": [0, 1, 2]}) for n in names}
    for odd in ("", *names):
        streams = [Stream(n, "t", Window.time(4, "right" if n == odd else closed)) for n in names]
        query = Query(streams=streams, on="k", select=[(f"{n}.id", n) for n in names])
        for order in ("abc", "bca", "cab", "acb"):
            how: dict[str, Any] = {"tree": [order[0], *((n, "SP-D", "SM-S1") for n in order[1:])]}
            if ordering == "sequences":
                how = {"sequences": {n: [(m, "SM-D2") for m in order if m != n] for n in names}}
            plan = Plan(query, {n: n for n in names}, **how, interval=2)
            assert_same(multiset(simulate(plan, tables).table), one_engine(query, tables), (closed, odd, order))


@examples(30)
@given(st.data())
def test_any_tree_is_the_join(data: st.DataObject) -> None:
    streams = data.draw(st.integers(2, 5))
    assert_equal(data.draw(st.composite(lambda draw: drawn(draw, streams, tree=True))()), restore=0.0)


@examples(10)
@given(st.data())
def test_sites_go_on_from_snapshots(data: st.DataObject) -> None:
    streams = data.draw(st.integers(2, 3))
    assert_equal(
        data.draw(st.composite(lambda draw: drawn(draw, streams, tree=data.draw(st.booleans())))()), restore=0.1
    )
