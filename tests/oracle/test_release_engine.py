"""An engine that releases by constraints gives what one without them gives, while they hold.

Catches: evidence that comes too early, in any shape of graph, window, filter, batch and mix of constraints; rows that
are released and counted twice or not at all; a snapshot that forgets what had come; a probe that sees a No row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import reference
from tests.kmon_cases import Case, cases
from tests.kmon_engine import engine_of, matches_of, tables_of
from tests.kmon_twin import taken

import windrow as wr


def exact(case: Case) -> Counter[tuple[int, ...]]:
    """The matches of the naive join."""
    found = reference.matches(case.query, taken(case.query, case.arrivals))
    return Counter(tuple(row.place for row in match) for match in found)


def batches(case: Case, random: Random) -> Iterator[dict[str, pa.Table]]:
    """The rows in batches of any size in which an engine takes them in the order in which they came."""
    tables, places = tables_of(case.query, case.arrivals)
    order = [(row["t"], case.query.names.index(name)) for name, row in case.arrivals]
    start = 0
    while start < len(places):
        end = start + 1
        while end < len(places) and order[end] >= order[end - 1] and random.random() < 0.7:
            end += 1
        rows = {name: [row for n, row in places[start:end] if n == name] for name in tables}
        yield {name: tables[name].slice(found[0] if found else 0, len(found)) for name, found in rows.items()}
        start = end


def played(case: Case, random: Random, engine: wr.Engine) -> tuple[Counter[tuple[int, ...]], wr.Engine]:
    """The matches of rows that come in batches, with collections and restores in between."""
    found: Counter[tuple[int, ...]] = Counter()
    for batch in batches(case, random):
        found += matches_of(case.query, engine.push(batch))
        if random.random() < 0.4:
            engine.bound()[1].collect()
        if random.random() < 0.15:
            data = engine.snapshot()
            engine = wr.Engine.restore(data)
            assert engine.snapshot() == data
        assert_accounted(engine)
    return found, engine


def assert_accounted(engine: wr.Engine) -> None:
    """Every row is somewhere, once."""
    for name, stream in engine.metrics.streams.items():
        left = stream.expired + stream.released + stream.shed
        assert stream.arrived == stream.late + stream.ignored + stream.resident_rows + left, name


@given(cases(), st.integers(0, 2**32))
def test_nothing_is_lost_while_constraints_hold(case: Case, seed: int) -> None:
    found, _ = played(case, Random(seed), engine_of(case.query, case.constraints))
    assert found == exact(case)


@given(cases(), st.integers(0, 2**32), st.integers(1, 12))
def test_under_a_budget_only_what_is_shed_is_lost(case: Case, seed: int, rows: int) -> None:
    """Released and shed rows work together: a sub-multiset of the matches, the whole of it if nothing was shed."""
    found, engine = played(case, Random(seed), engine_of(case.query, case.constraints, memory=rows))
    truth = exact(case)
    assert found <= truth
    if not any(stream.shed for stream in engine.metrics.streams.values()):
        assert found == truth


@pytest.mark.parametrize("count", [2, 3])
def test_rows_are_released(count: int) -> None:
    """The properties above say something: with unique keys on all sides, complete matches leave memory."""
    streams = [wr.Stream(name, "t") for name in "abc"[:count]]
    on = [f"a.k = {name}.k" for name in "bc"[: count - 1]]
    unique = [wr.Unique(name, "k") for name in "abc"[:count]]
    table = pa.table({"t": range(1000), "k": range(1000)})
    engine = wr.Engine(wr.Query(streams=streams, on=on, constraints=unique, on_violation=wr.Lose(sample=0)))
    assert engine.push(dict.fromkeys("abc"[:count], table)).num_rows == 1000
    engine.bound()[1].collect()
    assert [stream.released for stream in engine.metrics.streams.values()] == [1000] * count
