"""With on_violation='demote' a constraint that is broken costs no match; with 'lose' only what the promise allows.

Catches: a demoted row that a later arrival does not find, over any number of hops, in any window, group and order of
departures; one that is found twice; a row that visits and does not leave; a filter or a run that a snapshot forgets;
a file that stays behind.
"""

from __future__ import annotations

import gc
from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kmon_cases import Case, broken_cases
from tests.kmon_engine import engine_of
from tests.oracle.test_release_engine import exact, played

import windrow as wr
from windrow.state import demoted


@pytest.fixture(autouse=True)
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of a few rows go to disk, so that there are several."""
    monkeypatch.setattr(demoted, "YOUNG_BYTES", 700)


def promised(case: Case, seed: int, **changes: object) -> wr.Engine:
    """An engine that demotes, by declared constraints or by hasty monitors."""
    random = Random(seed)
    engine = engine_of(case.query, case.constraints)
    query = engine.query.with_(order=random.choice(["time", "arrival"]), **changes)
    if not case.constraints or random.random() < 0.4:
        query = query.with_(constraints=wr.Monitored(reaction=random.randint(1, 8), sample=random.choice([0.0, 0.3])))
    return wr.Engine(query.with_(on_violation="demote"))


@given(broken_cases(), st.integers(0, 2**32))
def test_broken_promises_cost_no_match(case: Case, seed: int) -> None:
    found, _ = played(case, Random(seed), promised(case, seed))
    assert found == exact(case)


@given(broken_cases(), st.integers(0, 2**32), st.integers(1, 12))
def test_under_a_budget_only_what_is_shed_is_lost(case: Case, seed: int, rows: int) -> None:
    found, engine = played(case, Random(seed), promised(case, seed, memory=rows))
    truth = exact(case)
    assert found <= truth
    if not engine.metrics.shed:
        assert found == truth
