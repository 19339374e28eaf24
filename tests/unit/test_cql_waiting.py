"""Rows that wait for their instant: given on in order of time and arrival, and not copied in every push.

Catches: rows of one instant in another order than they came, rows that are lost or given twice when pieces are merged
or cut, a stream that runs ahead of the others and costs more with every push.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.cql import waiting
from windrow.cql.waiting import Line
from windrow.maintained.relation import Timed

SCHEMA = pa.schema({"number": pa.int64()})
added = st.lists(st.integers(-9, 9), max_size=12)


def timed(first: int, at: list[int]) -> Timed:
    """Rows that are numbered as they come."""
    return Timed(pa.table({"number": np.arange(first, first + len(at))}), np.array(at, np.int64))


@given(st.lists(added | st.integers(-10, 10), max_size=30))
def test_rows_are_given_on_in_order_of_time_and_arrival(steps: list[list[int] | int]) -> None:
    """A list of times comes; a number is an instant that is over."""
    line, naive, came = Line(SCHEMA), list[tuple[int, int]](), 0
    for step in steps:
        if isinstance(step, list):
            line.add(timed(came, step))
            naive += [(at, came + k) for k, at in enumerate(step)]
            came += len(step)
            continue
        found = line.until(step)
        due = sorted(row for row in naive if row[0] <= step)
        naive = [row for row in naive if row[0] > step]
        assert list(zip(found.at.tolist(), found.table["number"].to_pylist(), strict=True)) == due
        assert found.table.schema == SCHEMA
    rest = line.all()
    assert list(zip(rest.at.tolist(), rest.table["number"].to_pylist(), strict=True)) == sorted(naive)
    assert len(line) == len(naive) and line.nbytes <= 2 * 16 * len(naive) + 16


@pytest.mark.parametrize("over", [0, 10])
def test_a_stream_that_runs_ahead_costs_the_same_with_every_push(over: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 500 pushes brings 100 rows, of which none or a tenth is over by the next."""
    copied, in_order = [0], waiting._in_order

    def counting(rows: Timed) -> Timed:
        copied[0] += len(rows.at)
        return in_order(rows)

    monkeypatch.setattr(waiting, "_in_order", counting)
    line = Line(SCHEMA)
    for k in range(500):
        line.add(timed(100 * k, list(range(100 * k, 100 * (k + 1)))))
        line.until(over * (k + 1) - 1)
    assert len(line) == 500 * (100 - over)
    assert copied[0] <= 50_000 * 12, "a row is copied as often as the number of rows has bits, not once a push"
