"""Query texts that run on and on give what their definition says at every instant, whatever is pushed together.

Catches: windows, matches, groups and streams of changes that depend on where input is cut; rows that leave twice or
never; state that a snapshot forgets; deletions that leave their matches behind; rows that are released and take what
they have contributed with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cql_naive import Naive
from tests.cql_texts import rows_of, text_of
from tests.running import examples

import windrow as wr
from windrow.cql.syntax import Source

Rows = list[dict[str, Any]]
FIELDS = {"t": pa.int64(), "k": pa.int64(), "g": pa.int64(), "v": pa.int64()}
SCHEMA, SIGNED = pa.schema(FIELDS), pa.schema({**FIELDS, "op": pa.int8()})


class Deleting(Naive):
    """The naive meaning of texts over streams of which rows are deleted: by stream and number, at which instant."""

    signed = True
    ends: Mapping[tuple[str, int], int]

    def source(self, source: Source, tau: int) -> list[tuple[dict[str, Any], Any]]:
        found = super().source(source, tau)
        if not isinstance(source.what, str):
            return found
        return [(row, who) for row, who in found if self.ends.get((source.what, who), tau + 1) > tau]


def changes_of(query: Any, pushed: Mapping[str, Rows], random: Random, schema: pa.Schema, **options: Any) -> pa.Table:
    """All changes, with random batches, restored after each."""
    running = query.start(dict.fromkeys(query.streams, schema), time="t", **options)
    rest, found = {name: list(rows) for name, rows in pushed.items()}, []
    while any(rest.values()):
        batches = {}
        for name, rows in rest.items():
            count = random.randrange(0, 4)
            batches[name] = pa.Table.from_pylist(rows[:count], schema=schema)
            rest[name] = rows[count:]
        found.append(running.push(batches))
        running = query.restore(running.snapshot(), time="t", **options)
    found.append(running.finish())
    return pa.concat_tables(found)


def check(query: Any, naive: Naive, table: pa.Table, last: int, told: Any) -> int:
    """Compare at every instant; gives how many rows there were to compare."""
    rows, present, compared = table.to_pylist(), Counter[tuple[Any, ...]](), 0
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)
    for tau in range(-1, last + 12):
        here = [list(row.values()) for row in rows if row["at"] == tau]
        if query.tree.emit == "relation":
            for _, change, *values in here:
                present[tuple(values)] += change
                assert present[tuple(values)] >= 0, f"at {tau}: {told}"
            found, wanted = +present, naive.relation(tau)
        else:
            found, wanted = Counter(tuple(values) for _, *values in here), naive.stream(tau)
        assert found == wanted, f"at {tau}: {told}\nmissing {wanted - found}, extra {found - wanted}"
        compared += wanted.total()
    return compared


@examples(60)
@given(st.integers(0, 2**32), st.integers(0, 2))
def test_a_text_means_the_same_batch_by_batch(seed: int, depth: int) -> None:
    random = Random(seed)
    query = wr.cql(text_of(random, depth))
    nulls = random.choice([0.0, 0.0, 0.15])
    streams = {name: rows_of(random, random.randrange(0, 10), nulls) for name in query.streams}
    last = max((row["t"] for rows in streams.values() for row in rows), default=0)
    table = changes_of(query, streams, random, SCHEMA)
    check(query, Naive(query.tree, streams), table, last, (seed, query.text, streams))


def deleted(random: Random, streams: Mapping[str, Rows]) -> tuple[dict[str, Rows], dict[tuple[str, int], int]]:
    """The streams with deletions of some of their rows, which differ from each other; and when each row ends."""
    pushed, ends = {}, {}
    for name, rows in streams.items():
        for number, row in enumerate(rows):
            row["v"] += 100 * number
        found = [{**row, "op": 1} for row in rows]
        for number, row in enumerate(rows):
            if random.random() < 0.4:
                ends[name, number] = row["t"] + random.choice([1, 1, 2, 4, 9])
                found.append({**row, "t": ends[name, number], "op": -1})
        if random.random() < 0.3:
            found.append({"t": 3, "k": 0, "g": 0, "v": -77, "op": -1})
        pushed[name] = sorted(found, key=lambda row: row["t"])
    return pushed, ends


@examples(40)
@given(st.integers(0, 2**32), st.integers(0, 2))
def test_deletions_take_their_matches_along(seed: int, depth: int) -> None:
    random = Random(seed)
    query = wr.cql(text_of(random, depth))
    streams = {name: rows_of(random, random.randrange(1, 10), 0.0) for name in query.streams}
    pushed, ends = deleted(random, streams)
    last = max(row["t"] for rows in pushed.values() for row in rows)
    naive = Deleting(query.tree, streams)
    naive.ends = ends
    table = changes_of(query, pushed, random, SIGNED, sign="op")
    check(query, naive, table, last, (seed, query.text, streams, ends))


def test_what_is_released_counts_on() -> None:
    """A pair with unique keys is released when it has met, and is in the sum until the first of its rows leaves."""
    text = "Select sum(L.v) as v, count(*) as n From L [Range 9], R [Range 5] Where L.k = R.k"
    unique = [wr.Unique("L", "k"), wr.Unique("R", "k")]
    schemas = {name: pa.schema({"t": pa.int64(), "k": pa.int64(), "v": pa.int64()}) for name in "LR"}
    kept, freed = (wr.cql(text).start(schemas, time="t", constraints=c) for c in (None, unique))
    for start in range(0, 60, 20):
        keys = range(start, start + 20)
        rows = {"L": pa.table({"t": keys, "k": keys, "v": keys}), "R": pa.table({"t": keys, "k": keys, "v": keys})}
        assert kept.push(rows).equals(freed.push(rows))
        assert kept.relation.equals(freed.relation)
    assert freed.metrics.joins[0][1].released > 0 < freed.metrics.kept_bytes
    assert freed.metrics.joins[0][1].resident_rows < kept.metrics.joins[0][1].resident_rows
    assert kept.finish().equals(freed.finish())


def test_sums_of_floats_come_back_to_where_they_were() -> None:
    """What is added and taken away leaves nothing behind: neither rounding, nor what is no number."""
    text = "Select g, sum(v) as v, avg(v) as a From S [Range 0] Group By g"
    values = [0.1, 1e300, float("nan"), 0.3, float("inf"), float("-inf"), 0.2, 1e-300, 0.7]
    running = wr.cql(text).start(time="t")
    found = []
    for t, value in enumerate(values):
        found += running.push({"S": pa.table({"t": [t, t], "g": [1, 2], "v": [value, 0.1]})}).to_pylist()
    found += running.finish().to_pylist()
    ones = [row for row in found if row["g"] == 1 and row["change"] == 1]
    assert [repr(row["v"]) for row in ones] == [repr(value) for value in values]
    assert all(row["v"] == row["a"] == 0.1 for row in found if row["g"] == 2)


def test_late_rows_are_counted_and_watermarks_let_go() -> None:
    running = wr.cql("Select count(*) as n From S [Range 2]").start(time="t", lateness=3)
    assert running.push({"S": pa.table({"t": [1, 9, 7]})}).to_pylist() == [
        {"at": 1, "change": 1, "n": 1}, {"at": 4, "change": -1, "n": 1}, {"at": 4, "change": 1, "n": 0},
    ]  # fmt: skip
    assert running.metrics.streams["S"] == {"arrived": 3, "late": 0, "ignored": 0, "waiting": 2}
    running.push({"S": pa.table({"t": [5, 6]})})
    assert running.metrics.streams["S"]["late"] == 1
    assert running.push({}, watermark=10).num_rows > 0 == running.metrics.streams["S"]["waiting"]


def test_memory_is_for_all_that_is_held() -> None:
    """What is kept beside the join is taken from its budget, and refused where it leaves no room."""
    text = "Select L.k, count(*) as n From L [Range 1000], R [Range 1000] Where L.k = R.k Group By L.k"
    running = wr.cql(text).start(time="t", memory="64 kB")
    schema = {"t": pa.int64(), "k": pa.int64()}
    with pytest.raises(wr.errors.MemoryFull, match="beside its join"):
        for start in range(0, 100_000, 500):
            keys = range(start, start + 500)
            table = pa.table({"t": keys, "k": keys}, schema=pa.schema(schema))
            running.push({"L": table, "R": table})
            join = running.metrics.joins[0][1]
            assert join.resident_bytes + min(running.metrics.kept_bytes, 48_000) <= 80_000


def test_snapshots_of_another_text_are_refused() -> None:
    one, other = "Select count(*) as n From S [Range 2]", "Select count(*) as n From S [Range 3]"
    running = wr.cql(one).start({"S": SCHEMA}, time="t")
    with pytest.raises(wr.errors.SnapshotError, match="another query text"):
        wr.cql(other).restore(running.snapshot(), time="t")
    with pytest.raises(wr.errors.SnapshotError):
        wr.cql(one).restore(running.snapshot()[:-9], time="t")
