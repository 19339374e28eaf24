"""Query texts give what their definition says, at every instant.

Catches: windows that hold a row too long or too short, also of rows that come at one instant; joins of relations that
change; aggregates, groups and having that do not follow what leaves; streams of changes that are none.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.cql_naive import Naive
from tests.cql_texts import rows_of, text_of
from tests.running import examples

import windrow as wr

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.int64(), "g": pa.int64(), "v": pa.int64()})


def bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def check(text: str, streams: dict[str, list[dict[str, Any]]]) -> int:
    """Compare at every instant; gives how many rows there were to compare."""
    query = wr.cql(text)
    used = {name: rows for name, rows in streams.items() if name in query.streams}
    tables = {name: pa.Table.from_pylist(rows, schema=SCHEMA) for name, rows in used.items()}
    result = query.run(tables, time="t")
    naive = Naive(query.tree, used)
    last = max((row["t"] for rows in used.values() for row in rows), default=0)
    compared = 0
    for tau in range(-1, last + 12):
        if result.kind == "relation":
            found, wanted = bag(result.at(tau)), naive.relation(tau)
        else:
            here = result.table.filter(pa.array([at == tau for at in result.table["at"].to_pylist()], pa.bool_()))
            found, wanted = bag(here.drop_columns("at")), naive.stream(tau)
        assert found == wanted, f"at {tau}: {text}\n{streams}\nmissing {wanted - found}, extra {found - wanted}"
        compared += wanted.total()
    return compared


@examples(200)
@given(st.integers(0, 2**32), st.integers(0, 2))
def test_a_text_means_what_its_definition_says(seed: int, depth: int) -> None:
    random = Random(seed)
    text = text_of(random, depth)
    nulls = random.choice([0.0, 0.0, 0.15])
    streams = {name: rows_of(random, random.randrange(0, 10), nulls) for name in ("S", "T")}
    check(text, streams)


def test_the_texts_have_results() -> None:
    """The property above says something."""
    found = 0
    for seed in range(24):
        random = Random(seed)
        text = text_of(random, seed % 3)
        found += check(text, {name: rows_of(random, 8, 0.0) for name in ("S", "T")}) > 0
    assert found > 8
