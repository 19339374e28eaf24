"""Joins whose predicates close a cycle, worked out by hand.

Catches: a predicate that is taken as tested because its key served to find a candidate, although the stream at its
other end was reached through another key.
"""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import pyarrow as pa
import pytest

import windrow as wr
from windrow.spec import Equal

TRIANGLE = (Equal("a.x", "c.x"), Equal("a.k", "b.k"), Equal("b.k", "c.k"))
ROWS = {
    "a": [(0, 7, 1), (1, 8, 1)],
    "b": [(0, 7, 1), (1, 8, 1), (2, 7, 1)],
    "c": [(0, 8, 1), (1, 7, 2), (2, 7, 1)],  # the first fits a through x alone, the second through k alone
}
MATCHES = {(0, 0, 2), (0, 2, 2), (1, 1, 0)}  # (a, b, c) of equal k and x


def orders() -> list[dict[str, tuple[str, ...]]]:
    """Every way to visit the other streams."""
    ways = [permutations([other for other in "abc" if other != name]) for name in "abc"]
    return [dict(zip("abc", way, strict=True)) for way in product(*map(list, ways))]


@pytest.mark.parametrize("on", list(permutations(TRIANGLE)), ids=lambda on: " ".join(map(str, on)))
def test_a_triangle_of_equalities_in_every_order(on: Any) -> None:
    for order, last in product(orders(), "abc"):
        query = wr.Query(
            streams=[wr.Stream(name) for name in "abc"],
            on=on,
            select=[(f"{name}.id", name) for name in "abc"],
            probe_order=order,
        )
        tables = {
            name: pa.Table.from_arrays([pa.array(c) for c in zip(*rows, strict=True)], names=["id", "k", "x"])
            for name, rows in ROWS.items()
        }
        engine = wr.Engine(query, {name: table.schema for name, table in tables.items()})
        engine.push({name: table for name, table in tables.items() if name != last})
        found = engine.push({last: tables[last]})
        assert sorted((*row.values(),) for row in found.to_pylist()) == sorted(MATCHES), (order, last)
