"""Several joins in one memory: each gives what it gives alone, and all of them keep one budget.

Catches: matches of one join that go by the predicates of another, rows that a null in one join hides from the others,
budgets passed, rows counted twice or never, answers that depend on being restored, matches told to the wrong join.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.test_policies import assert_within, budgets, opened
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
from tests.streams import ANY_WINDOW, KINDS, Case, cases, configurations, of_kind, tick_by_tick

import windrow as wr
from windrow.spec import split_reference

every_policy = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
Found = dict[str, Counter[Any]]


def alone(case: Case, name: str) -> tuple[Any, Counter[Any]]:
    """One of the joins of a case, run by itself over its own streams and without a cap."""
    (join,) = [join for join in case.query.joins if join.name == name]
    names = join.streams(case.query.names)
    query = case.query.with_(
        streams=[case.query.stream(n) for n in names],
        on=join.on,
        select=[o for o in case.query.select if split_reference(o.column)[0] in names],
        memory=None,
    )
    engine = wr.Engine(query, schemas={n: case.schemas[n] for n in names})
    tables = [engine.push({n: batch[n] for n in names if n in batch}) for batch in case.tables]
    return tables[0].schema if tables else None, multiset(tables)


def together(pushed: list[dict[str, Any]], case: Case) -> Found:
    """What all pushes gave, by join."""
    return {join.name: multiset([found[join.name] for found in pushed]) for join in case.query.joins}


@st.composite
def pressed(draw: st.DrawFn, policy: Any) -> Case:
    """Several joins in order of time, with memory that is mostly too small for them."""
    kinds: tuple[str, ...] = ANY_WINDOW
    if policy.name.startswith("life"):
        kinds = draw(st.sampled_from([("time",), ("rows",)]))
    case = draw(cases(streams=(2, 2, 3, 4), timely=True, kinds=kinds, plain=draw(st.booleans()), named=True))
    return case.with_query(memory=draw(budgets(case)), policy=policy)


@examples(100)
@given(cases(named=True), st.sampled_from([None, 10_000]))
def test_each_join_gives_what_it_gives_alone(case: Case, memory: int | None) -> None:
    engine, pushed = run(case.with_query(memory=memory, policy="rand"))
    found = together(pushed, case)
    for name, mine in found.items():
        schema, exact = alone(case, name)
        assert_same(mine, exact, (name, case.query))
        if pushed:
            assert pushed[0][name].schema.equals(schema)
    assert engine.metrics.joins == {name: mine.total() for name, mine in found.items()}
    assert engine.metrics.matched == sum(engine.metrics.joins.values())
    counting, _ = run(case, count_only=True)
    assert counting.metrics.joins == engine.metrics.joins


@every_policy
@examples(25)
@given(st.data())
def test_one_budget_holds_for_all_joins(kind: Any, data: Any) -> None:
    case, engine = opened(tick_by_tick(data.draw(pressed(data.draw(of_kind(kind))))))
    pushed = []
    for batch in case.tables:
        pushed.append(engine.push(batch))
        assert_within(engine, case.query.memory)
        assert_accounted(engine)
    found = together(pushed, case)
    exact = {name: alone(case, name)[1] for name in found}
    for name, mine in found.items():
        assert_part(mine, exact[name])
    assert engine.metrics.joins == {name: mine.total() for name, mine in found.items()}
    if not engine.metrics.shed:
        assert found == exact
    recall = engine.metrics.recall
    total = sum(mine.total() for mine in exact.values())
    if recall is not None and engine.metrics.recall_interval[0] == engine.metrics.recall_interval[1]:
        assert recall == pytest.approx(engine.metrics.matched / total if total else 1.0)


@every_policy
@examples(20)
@given(st.data())
def test_restored_or_run_again_the_answer_is_the_same(kind: Any, data: Any) -> None:
    case, engine = opened(data.draw(pressed(data.draw(of_kind(kind)))))
    stop = data.draw(st.integers(0, max(0, len(case.tables) - 1)))
    again, other = start(case), engine
    for k, batch in enumerate(case.tables):
        if k == stop:
            data_then = other.snapshot()
            other = wr.Engine.restore(data_then, case.query)
            assert other.snapshot() == data_then
        once, twice = again.push(batch), other.push(batch)
        assert all(same_bytes(once[name], twice[name]) for name in once)
        assert counters(again) == counters(other)
        assert again.metrics == other.metrics
    assert again.snapshot() == other.snapshot()


@examples(30)
@given(st.data())
def test_memory_and_windows_change_while_joins_run(data: Any) -> None:
    policy = data.draw(st.sampled_from([p for p in configurations() if p.name != "given"]))
    case, engine = opened(data.draw(pressed(policy)))
    exact = {join.name: alone(case, join.name)[1] for join in case.query.joins}
    pushed = []
    for k, batch in enumerate(case.tables):
        if k == 1:
            engine.memory = data.draw(st.sampled_from([wr.Memory(9), wr.Memory(20, split=True), None]))
        pushed.append(engine.push(batch))
        assert_accounted(engine)
        if engine.memory is not None:
            assert_within_now(engine)
    for name, mine in together(pushed, case).items():
        assert_part(mine, exact[name])
        assert engine.metrics.joins[name] == mine.total()


def assert_within_now(engine: Any) -> None:
    """No more is held than the budget of now allows."""
    for unit, limit in (("rows", engine.memory.rows), ("bytes", engine.memory.bytes)):
        if limit is not None:
            assert getattr(engine.metrics, f"resident_{unit}") <= limit
