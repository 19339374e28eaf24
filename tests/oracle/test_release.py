"""Releasing by constraints loses nothing while they hold.

Catches: a rule of release that is wrong for some shape of join graph, window, filter or mix of constraints; a row
that is counted twice or not at all; a status that is not what it says.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from tests import reference
from tests.kmon_cases import Case, case_of, cases
from tests.kmon_measure import is_unique, measure
from tests.kmon_twin import NO, RUNS, YES, Graph, Outcome, run
from tests.running import examples

from windrow.spec import Duration
from windrow.spec.constraints import Unique


def exact(case: Case, outcome: Outcome) -> Counter[tuple[int, ...]]:
    found = reference.matches(case.query, outcome.rows)
    return Counter(tuple(row.place for row in match) for match in found)


@pytest.mark.parametrize("name", RUNS)
@examples(300)
@given(case=cases())
def test_nothing_is_lost_while_constraints_hold(name: str, case: Case) -> None:
    outcome = RUNS[name](case.query, case.constraints, case.arrivals)
    assert outcome.matches == exact(case, outcome)


@given(cases())
def test_one_who_remembers_all_partners_loses_nothing_and_holds_no_more(case: Case) -> None:
    """The two ends between which an engine is: it may or may not still know that a unique partner has come."""
    outcome = run(case.query, case.constraints, case.arrivals, remembers=True)
    assert outcome.matches == exact(case, outcome)
    forgetful = run(case.query, case.constraints, case.arrivals)
    for least, most in zip(outcome.steps, forgetful.steps, strict=True):
        assert set(least.resident) <= set(most.resident)


@given(cases())
def test_without_constraints_rows_only_expire(case: Case) -> None:
    outcome = run(case.query, (), case.arrivals)
    assert outcome.matches == exact(case, outcome)
    assert not any(step.released for step in outcome.steps)


@pytest.mark.parametrize("name", RUNS)
@given(case=cases())
def test_every_row_leaves_once(name: str, case: Case) -> None:
    outcome = RUNS[name](case.query, case.constraints, case.arrivals)
    left: list[int] = []
    for place, step in enumerate(outcome.steps):
        left += [*step.released, *step.expired, *([place] if step.ignored else [])]
        assert sorted([*left, *step.resident]) == list(range(place + 1))


@given(cases())
def test_what_is_declared_holds(case: Case) -> None:
    """The cases themselves: without this, a generator that breaks its promises would hide a wrong rule."""
    rows = run(case.query, (), case.arrivals).rows
    for constraint in case.constraints:
        if isinstance(constraint, Unique):
            assert is_unique(case.query, rows, constraint)
        else:
            in_time = isinstance(constraint.k, Duration)
            assert measure(case.query, rows, constraint, in_time) <= (constraint.k.amount if in_time else constraint.k)


@given(cases())
def test_a_status_is_what_it_says(case: Case) -> None:
    """A No row is in no later match. Of a later match with a Yes row, all that the Yes row reaches has arrived."""
    outcome = run(case.query, case.constraints, case.arrivals)
    graph = Graph(case.query, case.constraints)
    matches = [match for step in outcome.steps for match in step.matches]
    for place, step in enumerate(outcome.steps):
        for match in matches:
            if max(row.place for row in match) <= place:
                continue
            for row in match:
                status = step.resident.get(row.place)
                assert status != NO
                assert status != YES or all(match[s].place <= place for s in graph.reach[row.stream])


def test_the_cases_release_by_every_rule() -> None:
    """The property above says something: rows leave by each rule, in graphs of every shape."""
    found: Counter[str] = Counter()
    for seed in range(60):
        case = case_of(Random(seed), 2 + seed % 3)
        outcome = run(case.query, case.constraints, case.arrivals)
        found.update(why.partition(" ")[0] for step in outcome.steps for why in step.released.values())
        found.update(status for step in outcome.steps for status in step.resident.values())
        found["matches"] += outcome.matches.total()
    assert min(found[what] for what in ("dead", "complete", "filtered", "yes", "no", "unknown", "matches")) > 20, found
