"""Sites with a budget: never more is held than it allows, and what is found is a part of the join.

Catches: a window or store that is not charged, matches that are not in the join, rows that leave without a reason,
windows that shed live rows because a clock ran ahead, output that depends on when messages come.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.test_sites import drawn, one_engine
from tests.running import assert_same, examples, multiset
from tests.streams import POLICY_NAMES

from windrow.errors import MemoryTooSmall, SpecError
from windrow.sites import Link, Plan, Replan, Simulation, simulate
from windrow.sites.programs import EVERY
from windrow.spec import Query, Stream

ORDERED = sorted(POLICY_NAMES, key=lambda name: (name != "auto", name))  # the default first


def assert_counted(found: Simulation) -> None:
    assert found.metrics is not None
    for name, m in found.metrics.streams.items():
        assert m.arrived == m.late + m.ignored + m.resident_rows + m.expired + m.released + m.shed, (name, m)
        assert not m.late and not m.ignored and not m.released


def checked(plan: Plan, tables: dict[str, pa.Table], link: Any, memory: Any, policy: str, restore: float) -> Simulation:
    """A run, whose matches are in the join, and that holds no more than it may."""
    found = simulate(plan, tables, link, memory=memory, policy=policy, restore=restore)
    note = (plan.to_json(), {n: t.to_pydict() for n, t in tables.items()}, link, memory, policy, restore)
    assert not multiset(found.table) - one_engine(plan.query, tables), note
    for rows, size in found.held.values():
        assert (rows if isinstance(memory, int) else size) <= limit(memory), note
    assert_counted(found)
    return found


def limit(memory: Any) -> int:
    return memory if isinstance(memory, int) else int(memory.removesuffix(" B"))


def budgeted(seed: int, case: tuple[Plan, dict[str, pa.Table], Any], policy: str) -> None:
    plan, tables, link = case
    random = Random(seed)
    memory: Any = random.choice([20, 40, 90, f"{random.randint(60, 200)}000 B"])
    try:
        found = checked(plan, tables, link, memory, policy, random.choice([0.0, 0.0, 0.05]))
    except SpecError as error:
        assert "give it more" in str(error) or isinstance(error, MemoryTooSmall), error
        return
    other = Link("7 s", 500.0, "3 s")  # when messages come makes no difference to which matches there are
    assert_same(
        multiset(simulate(plan, tables, other, memory=memory, policy=policy).table), multiset(found.table), seed
    )


@pytest.mark.parametrize("policy", ORDERED)
@examples(10)
@given(st.data())
def test_a_budget_is_never_passed_and_gives_a_part_of_the_join(policy: str, data: st.DataObject) -> None:
    streams, tree = data.draw(st.sampled_from([2, 2, 3])), data.draw(st.booleans())
    case = data.draw(st.composite(lambda draw: drawn(draw, streams, tree=tree))())
    budgeted(data.draw(st.integers(0, 2**32)), case, policy)


def two(programs: tuple[str, str], rows: int = 240) -> tuple[Plan, dict[str, pa.Table]]:
    random = Random(7)
    tables = {}
    for name in "ab":
        keys = [min(int(random.paretovariate(0.8)), 60) for _ in range(rows)]
        times = sorted(random.randrange(300) for _ in range(rows))
        tables[name] = pa.table({"t": pa.array(times, pa.int64()), "k": pa.array(keys, pa.int64()), "id": range(rows)})
    query = Query(streams=[Stream("a", "t", 60), Stream("b", "t", 60)], on="k", select=[("a.id", "a"), ("b.id", "b")])
    sequences = {"a": [("b", programs[0])], "b": [("a", programs[1])]}
    return Plan(query, {"a": "A", "b": "B"}, sequences, interval=20), tables


@pytest.mark.parametrize("programs", [("SP-D", "SP-S"), ("SM-S1", "SM-D1"), ("SM-S2", "BF-S1"), ("SM-D2", "BF-D2")])
def test_ample_memory_gives_the_join_and_little_gives_some(programs: tuple[str, str]) -> None:
    plan, tables = two(programs)
    exact = one_engine(plan.query, tables)
    ample = checked(plan, tables, None, "2000000 B", "prob", 0.0)
    assert_same(multiset(ample.table), exact)
    assert ample.metrics is not None and ample.metrics.recall == 1.0 and not ample.metrics.shed
    little = checked(plan, tables, None, 80, "prob", 0.0)
    assert little.metrics is not None and little.metrics.shed and 0 < little.table.num_rows < sum(exact.values())


@pytest.mark.parametrize("memory", [90, 180])
@pytest.mark.parametrize("program", EVERY)
def test_windows_and_stores_that_shed_tell_what_was_lost(program: str, memory: int) -> None:
    plan, tables = two((program, program), 1000)
    found = checked(plan, tables, None, memory, "prob", 0.0)
    true = found.table.num_rows / sum(one_engine(plan.query, tables).values())
    assert found.metrics is not None and found.metrics.recall is not None
    assert abs(found.metrics.recall - true) < 0.15, (program, memory, true, found.metrics.recall)


def test_what_cannot_be_a_budget_is_refused() -> None:
    plan, tables = two(("SP-D", "SP-D"), 10)
    for memory, why in [("20%", "in rows or bytes"), (1, None), (0, "give it more|at least")]:
        if why is None:
            checked(plan, tables, None, memory, "fifo", 0.0)
            continue
        with pytest.raises(SpecError, match=why):
            simulate(plan, tables, memory=memory)
    with pytest.raises(SpecError, match="do not go together"):
        simulate(plan, tables, memory=100, replan=Replan(100))
