"""How closely whole streams keep constraints, against the definitions taken pair by pair.

Catches: a distance that counts one row too many or too few, rows in another order than an engine's, nulls that are
taken for values, keys of several columns that are mixed up.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from tests import reference
from tests.kmon_cases import Case, cases
from tests.kmon_measure import is_unique, measure

import windrow as wr
from windrow.analysis.adherence import adherence
from windrow.errors import SpecError
from windrow.spec import Equal, Unique


@given(cases())
def test_it_is_what_the_definitions_say(case: Case) -> None:
    query = case.query.with_(on=[p for p in case.query.on if isinstance(p, Equal)], order="time")
    batch: dict[str, list[dict[str, Any]]] = {name: [] for name in query.names}
    for name, row in case.arrivals:
        batch[name].append(row)
    if not all(batch.values()):
        return
    tables = {
        name: pa.table(pa.Table.from_pylist(rows).to_pydict(), schema=_schema(rows)) for name, rows in batch.items()
    }
    rows = reference.taken_rows(query, [batch])
    for found in adherence(query, tables):
        if isinstance(found.constraint, Unique):
            assert found.holds == is_unique(query, rows, found.constraint)
            continue
        assert found.rows == measure(query, rows, found.constraint)
        assert found.time is not None
        assert found.time.amount == measure(query, rows, found.constraint, in_time=True)


def _schema(rows: list[dict[str, Any]]) -> pa.Schema:
    return pa.schema({column: pa.int64() for column in rows[0]})


def test_texts_and_moments_are_measured_too() -> None:
    moments = pa.array([0, 1_000, 3_000], pa.timestamp("ms"))
    one = pa.table({"ts": moments, "k": ["b", "a", "c"]})
    other = pa.table({"ts": moments, "k": pa.array(["a", None, "b"]).dictionary_encode()})
    query = wr.Query(streams=[wr.Stream("one", "ts", "1 hour"), wr.Stream("other", "ts", "1 hour")], on="k")
    shown = [str(found) for found in adherence(query, {"one": one, "other": other})]
    assert shown == [
        "one is unique on k",
        "one -> other within 3 rows, or 3 seconds",
        "one is ordered on k within 1 rows, or 1 second",
        "one is clustered on k within 0 rows, or 0 seconds",
        "other is unique on k",
        "other -> one within 1 rows, or 1 second",
        "other is ordered on k within 0 rows, or 0 seconds",
        "other is clustered on k within 0 rows, or 0 seconds",
    ]


def test_what_cannot_be_measured_is_refused() -> None:
    query = wr.Query(streams=[wr.Stream("a"), wr.Stream("b")], on=[wr.Band("a.x", "b.x", 1)])
    tables = {name: pa.table({"x": [1]}) for name in "ab"}
    with pytest.raises(SpecError, match="are joined by no equality"):
        adherence(query, tables)
    with pytest.raises(SpecError, match="no table for the stream 'b'"):
        adherence(query, {"a": tables["a"]})
