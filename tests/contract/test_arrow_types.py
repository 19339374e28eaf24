"""Columns of every Arrow type go through a join and come out with the values they had.

Catches: encodings that are said to be decoded and are not, at any depth; types that Arrow itself handles in most places
but not in all (empty tables, `take`, concatenation); snapshots that lose them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.unit.every_type import COLUMNS, ROWS

import windrow as wr
from windrow.engine.intake import as_table, plain_schema

QUERY = wr.Query(streams=[wr.Stream("left", "t", 10), wr.Stream("right", "t", 10)], on="k")
PARTNER = pa.table({"k": [1], "t": [ROWS]})


def rows(column: Any, first: int = 0) -> pa.Table:
    times = pa.array(range(first, first + len(column)), pa.int64())
    return pa.table({"k": pa.array([1] * len(column), pa.int64()), "t": times, "c": column})


def values(table: pa.Table) -> list[Any]:
    """The column's values in order of time; what compares unequal to itself, or not at all, by how it is written."""
    return [repr(row["c"]) for row in sorted(table.to_pylist(), key=lambda row: row.get("left_t", row.get("t")))]


@pytest.mark.parametrize("name", COLUMNS)
def test_it_is_decoded_without_a_loss(name: str) -> None:
    table = rows(COLUMNS[name])
    plain = as_table(table, "left")
    plain.validate(full=True)
    assert values(plain) == values(table)
    assert plain_schema(plain.schema).equals(plain.schema)
    pieces = pa.chunked_array([COLUMNS[name].slice(1), COLUMNS[name].slice(0, 1)])
    chunked = pa.table({"k": table["k"], "t": table["t"], "c": pieces})
    assert values(as_table(chunked, "left")) == values(chunked)


@pytest.mark.parametrize("name", COLUMNS)
def test_it_is_joined(name: str) -> None:
    table = rows(COLUMNS[name])
    matched = wr.join(table, PARTNER, on="k", time="t", within=10)
    assert values(matched.table) == values(table)
    schema = wr.join(table, PARTNER, on="k", time="t", within=1).table.schema  # no row matches
    assert schema == matched.table.schema == wr.join(table[:0], PARTNER, on="k", time="t", within=10).table.schema


@pytest.mark.parametrize("name", COLUMNS)
def test_it_is_held_moved_lost_and_restored(name: str) -> None:
    column = COLUMNS[name]
    engine = wr.Engine(QUERY.with_(memory="1 MB"), departures=True)
    engine.push({"left": rows(column[:2]), "right": PARTNER[:0]})
    engine = wr.Engine.restore(engine.snapshot())
    engine.push({"left": rows(column[2:], 2)})
    assert values(engine.push({"right": PARTNER})) == values(rows(column))
    engine.memory = wr.Memory(2)
    lost = engine.departed()["left"]
    engine.memory = None
    kept = engine.push({"right": PARTNER})
    assert sorted(values(lost) + values(kept)) == sorted(values(rows(column)))
    engine.push({}, watermark=10**6)
    engine.departed()  # the partner came a second time, behind the clock
    assert wr.Engine.restore(engine.snapshot()).metrics.resident_rows == 0


@pytest.mark.parametrize("name", COLUMNS)
def test_it_waits_in_a_queue(name: str) -> None:
    queue = wr.Queue(wr.Engine(QUERY), service=0, capacity=ROWS + 1)
    queue.push({"left": rows(COLUMNS[name]), "right": PARTNER})
    queue = wr.Queue.restore(queue.snapshot())
    assert values(queue.flush()) == values(rows(COLUMNS[name]))
