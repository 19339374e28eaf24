"""Joins by name: how they are written, what they are worth to a policy, and who refuses them.

Catches: a second join that a query forgets on its way to JSON or to a copy, scores that do not add up over joins or
count in different units, credits paid once for matches in two joins, callers that would give one table for several.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.streams import POLICY_NAMES

import windrow as wr
from windrow.kernels import layout as at
from windrow.kernels import maintenance
from windrow.kernels.live_columns import by_age, read_slots
from windrow.policies import GreedyDual, Prob
from windrow.spec import Band, Equal
from windrow.spec.joins import NamedJoin

ON = {"users": ["a.u = b.u"], "items": Equal("a.i", "b.i")}
A, B = wr.Stream("a", "t", 100), wr.Stream("b", "t", 100)


def query(**fields: Any) -> wr.Query:
    return wr.Query(**{"streams": [A, B], "on": ON, "patience": 0, **fields})


def rows(seed: int, n: int, **columns: int) -> pa.Table:
    """Rows at instants of their own; some keys are missing."""
    random = np.random.default_rng(seed)
    keys = {name: pa.array(random.integers(0, most, n), mask=random.random(n) < 0.15) for name, most in columns.items()}
    return pa.table({"t": np.arange(n) * 4 + seed, **keys})


# ------------------------------------------------------------------------------------------------- spec


def test_joins_have_names_predicates_and_streams() -> None:
    made = query(streams=[A, B, wr.Stream("c", "t", 100)], on={**ON, "far": [Band("b.x", "c.x", 2)]})
    assert [join.name for join in made.joins] == ["users", "items", "far"]
    assert [join.streams(made.names) for join in made.joins] == [("a", "b"), ("a", "b"), ("b", "c")]
    assert made.predicates == (Equal("a.u", "b.u"), Equal("a.i", "b.i"), Band("b.x", "c.x", 2))
    assert made.named and not query(on="u").named
    assert query(on="u").joins == (NamedJoin("", (Equal("a.u", "b.u"),)),)


def test_a_text_can_be_an_equality() -> None:
    assert query(on="a.u = b.i").on == query(on=["a.u=b.i"]).on == query(on="a.u == b.i").on == (Equal("a.u", "b.i"),)


def test_joins_go_to_json_and_back_and_into_copies() -> None:
    made = query(memory=wr.Memory(50, split={"a": 1, "b": 3}))
    again = wr.Query.from_json(made.to_json())
    assert again == made and hash(again) == hash(made) and again.fixed() == made.fixed()
    assert list(json.loads(made.to_json())["on"]) == ["users", "items"]
    assert made.with_(seed=4).with_window("a", 5).on == made.on


def test_the_order_and_the_names_of_joins_are_fixed() -> None:
    turned = query(on=dict(reversed(ON.items())))
    renamed = query(on={"people": ON["users"], "items": ON["items"]})
    kinds = {json.dumps(made.fixed()) for made in (query(), turned, renamed, query(on=list(query().predicates)))}
    assert len(kinds) == 4
    engine = wr.Engine(query(), {"a": rows(0, 1, u=2, i=2).schema, "b": rows(0, 1, u=2, i=2).schema})
    with pytest.raises(wr.errors.SnapshotError, match="of another query"):
        wr.Engine.restore(engine.snapshot(), turned)


# ----------------------------------------------------------------------------------------------- output


def test_matches_come_by_name_with_the_columns_of_each_join() -> None:
    left = pa.table({"t": [0, 1], "u": [1, None], "i": [5, 5]}, schema=_schema())
    right = pa.table({"t": [2, 3], "u": [1, 1], "i": [None, 5]}, schema=_schema())
    engine = wr.Engine(query())
    assert engine.metrics.joins == {"users": 0, "items": 0}
    found = engine.push({"a": left, "b": right})
    users, items = found["users"].to_pylist(), found["items"].to_pylist()
    assert users == [
        {"a_t": 0, "u": 1, "a_i": 5, "b_t": 2, "b_i": None},
        {"a_t": 0, "u": 1, "a_i": 5, "b_t": 3, "b_i": 5},
    ]
    assert [(row["a_t"], row["b_t"]) for row in items] == [(1, 3), (0, 3)]
    metrics = engine.metrics
    assert metrics.joins == {"users": 2, "items": 2} and metrics.matched == 4
    assert metrics.to_dict()["joins"] == metrics.joins
    assert metrics.ignored == 0 and metrics.resident_rows == 4  # held once, though in two joins


def test_one_join_with_a_name_comes_by_name_too() -> None:
    tables = {"a": rows(0, 20, u=3, i=3), "b": rows(1, 20, u=3, i=3)}
    named, plain = wr.Engine(query(on={"only": "u"})), wr.Engine(query(on="u"))
    found, expected = named.push(tables), plain.push(tables)
    assert found["only"].equals(expected)
    assert named.metrics.joins == {"only": plain.metrics.matched}
    assert "joins" not in plain.metrics.to_dict()


def test_a_row_that_no_join_can_match_is_ignored() -> None:
    left = pa.table({"t": [0, 1], "u": [None, None], "i": [None, 1]}, schema=_schema())
    engine = wr.Engine(query(), {"a": _schema(), "b": _schema()})
    engine.push({"a": left})
    assert engine.metrics.ignored == 1 and engine.metrics.resident_rows == 1


def test_selected_columns_go_to_the_joins_that_have_them() -> None:
    three = query(streams=[A, B, wr.Stream("c", "t", 100)], on={**ON, "more": ["b.u = c.u"]}, select=["a.i", "b.u"])
    schemas = dict.fromkeys("abc", _schema())
    found = wr.Engine(three, schemas).push({})
    assert {name: table.column_names for name, table in found.items()} == {
        "users": ["i", "u"], "items": ["i", "u"], "more": ["u"],
    }  # fmt: skip


def test_lost_rows_are_kept_once() -> None:
    tables = {"a": rows(0, 40, u=3, i=3), "b": rows(1, 40, u=3, i=3)}
    engine = wr.Engine(query(memory=5, policy="fifo"), departures=True)
    engine.push(tables)
    lost = engine.departed()
    assert sum(table.num_rows for table in lost.values()) == engine.metrics.shed > 0


def test_texts_whose_codes_collide_are_told_apart_in_every_join() -> None:
    random = np.random.default_rng(3)
    tables = {
        name: pa.table({"t": np.arange(60), "u": random.choice(list("pqrs"), 60), "i": random.choice(list("xyz"), 60)})
        for name in "ab"
    }
    engine = wr.Engine(query(), {name: table.schema for name, table in tables.items()})
    exact = engine.push(tables)
    blunt = wr.Engine(query(), {name: table.schema for name, table in tables.items()})
    object.__setattr__(blunt._binding, "code_mask", 1)
    found = blunt.push(tables)
    for name in ON:
        assert (
            found[name]
            .sort_by([("a_t", "ascending"), ("b_t", "ascending")])
            .equals(exact[name].sort_by([("a_t", "ascending"), ("b_t", "ascending")]))
        )
    assert blunt.metrics.joins == engine.metrics.joins
    assert blunt._shard.matched > engine._shard.matched


def _schema() -> pa.Schema:
    return pa.schema([("t", pa.int64()), ("u", pa.int64()), ("i", pa.int64())])


# --------------------------------------------------------------------------------------------- policies


def scores(engine: Any) -> dict[int, float]:
    """The score of each resident, taken when it came, by its time."""
    words = engine._shard.words
    found = read_slots(words, by_age(words), np.array([at.Slot.time, int(words[at.Head.score_off])]))
    return dict(zip(found[0].tolist(), found[1].view(np.float64).tolist(), strict=True))


def ranking(engine: Any) -> None:
    """Let residents be ranked, as they are from the first row on that is shed."""
    shard = engine.bound()[1]
    shard.words[at.Head.ranking] = 1
    maintenance.rebuild(shard.plan.hooks, shard.words)


def test_a_score_is_the_sum_of_chances_counted_in_arrivals() -> None:
    """The slow twin: how many rows have come that the resident would have met, join by join."""
    tables = {"a": rows(0, 90, u=4, i=9), "b": rows(1, 90, u=4, x=50), "c": rows(2, 90, x=50, i=9)}
    on = {"users": "a.u = b.u", "items": "a.i = c.i", "near": Band("b.x", "c.x", 5)}
    made = query(streams=[wr.Stream(n, "t", 10_000) for n in "abc"], on=on, memory=10_000, policy=Prob())
    engine = wr.Engine(made, {name: table.schema for name, table in tables.items()}, count_only=True)
    ranking(engine)
    engine.push(tables)
    partners = [("a", "b", "u", 0), ("a", "c", "i", 0), ("b", "c", "x", 5)]
    came = sorted((row["t"], name, row) for name, table in tables.items() for row in table.to_pylist())

    def met(k: int) -> int:
        _, mine, row = came[k]
        return sum(
            None not in (row[column], other[column]) and abs(row[column] - other[column]) <= width
            for one, two, column, width in partners
            for _, theirs, other in came[:k]
            if {mine, theirs} == {one, two}
        )

    found = scores(engine)
    known = [(name, found[t], met(k)) for k, (t, name, _) in enumerate(came) if t in found]
    twins = {side: [(score, count) for name, score, count in known if name == side] for side in "abc"}
    assert len(twins["a"]) > 60 and all(score == count for score, count in twins["a"])
    for name in "bc":  # ranges are learned in bins
        score, count = (sum(part) for part in zip(*twins[name], strict=True))
        assert score == pytest.approx(count, rel=0.1)


def test_a_join_of_many_streams_counts_in_the_same_unit() -> None:
    """Keys that are all alike: a join of three must not outweigh, or be outweighed by, a join of two."""
    n = 20_000  # what is usual is a mean over a thousand rows, which must not lag behind
    same = {name: pa.table({"t": np.arange(n) * 5 + s, "k": np.arange(n) % 4}) for s, name in enumerate("abcde")}
    on = {"three": ["a.k = b.k", "b.k = c.k"], "two": ["d.k = e.k"]}
    made = query(streams=[wr.Stream(name, "t", 50) for name in same], on=on, memory=10**6, policy=Prob())
    engine = wr.Engine(made, {name: table.schema for name, table in same.items()}, count_only=True)
    ranking(engine)
    engine.push(same)
    found = scores(engine)
    late = [(found[t], found[t + 3]) for t in range(5 * (n - 8), 5 * n, 5)]
    assert all(three == pytest.approx(two, rel=0.1) and three > 0.0 for three, two in late)


def test_credits_are_paid_by_every_join() -> None:
    tables = {
        "a": pa.table({"t": [0, 1, 2], "u": [1, 1, 2], "i": [1, 2, 3]}),
        "b": pa.table({"t": [3], "u": [1], "i": [1]}),
    }
    engine = wr.Engine(query(memory=100, policy=GreedyDual(0.5)), count_only=True)
    engine.push(tables)
    assert [scores(engine)[t] for t in range(3)] == [2.0, 1.0, 0.0]


WEIGHING = [name for name in POLICY_NAMES if name not in ("rand", "fifo", "age")]  # which are blind to keys


@pytest.mark.parametrize("policy", WEIGHING)
def test_the_join_that_gives_more_gets_more_of_one_memory(policy: str) -> None:
    random = np.random.default_rng(5)
    n = 2_000
    most = {"a": 5, "b": 5, "c": 500, "d": 500}
    tables = {name: pa.table({"t": np.arange(n), "k": random.integers(0, k, n)}) for name, k in most.items()}
    on = {"rich": ["a.k = b.k"], "poor": ["c.k = d.k"]}
    made = query(streams=[wr.Stream(name, "t", 100) for name in tables], on=on, memory=100, policy=policy)
    engine = wr.Engine(made, count_only=True)
    engine.push(tables)
    held = {name: stream.resident_rows for name, stream in engine.metrics.streams.items()}
    assert held["a"] + held["b"] > 2 * (held["c"] + held["d"])
    split = wr.Engine(made.with_(memory=wr.Memory(100, split=True)), count_only=True)
    split.push(tables)
    assert {name: stream.resident_rows for name, stream in split.metrics.streams.items()} == dict.fromkeys("abcd", 25)
    assert engine.metrics.matched > split.metrics.matched


# --------------------------------------------------------------------------------------------- refusals


def test_what_gives_one_table_refuses_joins_by_name() -> None:
    tables = {"a": rows(0, 20, u=3, i=3), "b": rows(1, 20, u=3, i=3)}
    sides = list(tables.values())
    calls = [
        lambda: wr.join(*sides, on={"u": "u", "i": "i"}, time="t"),
        lambda: wr.optimum(query(), tables, memory=5),
        lambda: wr.optimum(*sides, on={"u": "u"}, time="t", memory=5),
        lambda: wr.analyse(*sides, on={"u": "u"}, time="t"),
        lambda: wr.Queue(wr.Engine(query()), capacity=5),
        lambda: wr.static.truncate(*sides, on={"u": "u"}, keep=5),
        lambda: wr.static.truncate_many(tables, on={"u": "u"}, keep={"a": 5}),
        lambda: query().on_spark({}),
    ]
    for call in calls:
        with pytest.raises(wr.errors.SpecError, match=r"names its joins .*windrow\.Engine\(query\)"):
            call()
