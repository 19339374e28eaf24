"""Can catch: payload rows that are lost, mixed up or kept for ever while rows come, match, expire and are shed.

Every row carries values made from its number, so a match shows whether all of them are still those of one row.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from tests.streams import POLICY_NAMES

import windrow as wr
from windrow.kernels.rows import live_rows
from windrow.spec import Query, Stream, Window
from windrow.state import payload as payloads
from windrow.state.columns import gathered

NESTED = pa.struct([("n", pa.int32()), ("list", pa.list_(pa.string()))])
COLUMNS = {
    "text": (pa.string(), lambda n: None if n % 7 == 0 else "é" * (n % 5) + str(n)),
    "word": (pa.dictionary(pa.int16(), pa.string()), lambda n: None if n % 11 == 0 else f"w{n % 13}"),
    "nested": (NESTED, lambda n: None if n % 5 == 0 else {"n": n, "list": [str(n)] * (n % 3)}),
    "list": (pa.list_(pa.int64()), lambda n: [n, n + 1][: n % 3]),
    "map": (pa.map_(pa.string(), pa.int8()), lambda n: [(str(n), n % 100)] * (n % 2)),
    "fixed": (pa.list_(pa.float32(), 2), lambda n: [float(n), 0.5]),
    "large": (pa.large_binary(), lambda n: b"x" * (n % 4)),
    "truth": (pa.bool_(), lambda n: n % 3 == 0),
    "nothing": (pa.null(), lambda n: None),
}
SCHEMA = pa.schema(
    [("id", pa.int64()), ("t", pa.int64()), ("k", pa.int64()), *((name, t) for name, (t, _) in COLUMNS.items())]
)


def rows_of(first, count, time, random, keys):
    return [
        {
            "id": n,
            "t": time,
            "k": random.randrange(keys),
            **{name: make(n) for name, (_, make) in COLUMNS.items()},
        }
        for n in range(first, first + count)
    ]


def query_of(select, **options):
    window = options.pop("window", Window.time(6))
    streams = [Stream(name, "t", window) for name in "ab"]
    return Query(streams=streams, on="k", select=select, patience=0, **options)


def assert_whole(match, name):
    """All columns of one side of a match are those of one row."""
    n = match[f"{name}_id"]
    for column, (_, make) in COLUMNS.items():
        assert match[f"{name}_{column}"] == make(n), (name, column, n)


def assert_stored(engine):
    """Every resident has its payload row, and not too much that is stored is dead."""
    block = engine._shard.words
    for stream, payload in enumerate(engine._payloads):
        residents = engine.metrics.streams["ab"[stream]].resident_rows
        first, alive = 0, 0
        for table, owners in payload.chunks:
            if table.num_columns:
                assert table.num_rows == len(owners)
            alive += len(live_rows(block, owners, stream, first))
            first += len(owners)
        assert alive == residents
        dead = payload.rows - residents
        assert dead <= max(payloads.DEAD_SHARE * payload.rows, payloads.SPARE_ROWS)
        sizes = [len(owners) for _, owners in payload.chunks]
        assert all(a >= 2 * b for a, b in pairwise(sizes))


EVERYTHING = [(f"{n}.{c}", f"{n}_{c}") for n in "ab" for c in ("id", *COLUMNS)]


@pytest.mark.parametrize("memory", [80, "24 kB"])
@pytest.mark.parametrize("policy", [None, *POLICY_NAMES])
def test_matches_carry_whole_rows_while_rows_come_and_go(policy, memory, monkeypatch):
    options = {"policy": policy, "memory": memory} if policy else {}
    monkeypatch.setattr(payloads, "SPARE_ROWS", 16)  # so that few rows are enough to tidy
    random = Random(len(options))
    engine = wr.Engine(query_of(EVERYTHING, **options), dict.fromkeys("ab", SCHEMA))
    first, matched = dict.fromkeys("ab", 0), 0
    for time in range(40):
        batch = {}
        for name in "ab":
            count = random.choice([0, 1, 3, 30])
            rows = rows_of(first[name], count, time, random, 25)
            first[name] += count
            batch[name] = pa.Table.from_pylist(rows, schema=SCHEMA)
        for match in engine.push(batch).to_pylist():
            assert_whole(match, "a")
            assert_whole(match, "b")
            matched += 1
        assert_stored(engine)
    assert matched == engine.metrics.matched > 100  # enough to meet rows that were moved, whatever the policy keeps
    assert engine.metrics.total("shed" if options else "expired") > 100


def test_a_side_without_output_columns_needs_no_payload():
    random = Random(3)
    select = [("a.id", "id"), ("a.text", "text")]
    engine = wr.Engine(query_of(select), dict.fromkeys("ab", SCHEMA))
    found, expected = [], []
    rows = {name: [] for name in "ab"}
    for time in range(12):
        batch = {name: rows_of(20 * time, 20, time, random, 9) for name in "ab"}
        for name in "ab":
            rows[name] += batch[name]
        tables = {name: pa.Table.from_pylist(part, schema=SCHEMA) for name, part in batch.items()}
        found += [tuple(match.values()) for match in engine.push(tables).to_pylist()]
        assert_stored(engine)
    for a in rows["a"]:
        expected += [(a["id"], a["text"]) for b in rows["b"] if a["k"] == b["k"] and abs(a["t"] - b["t"]) < 6]
    assert sorted(found) == sorted(expected)
    assert engine._payloads[1].schema.names == []


def test_a_snapshot_keeps_every_type_of_payload():
    random = Random(4)
    engine = wr.Engine(query_of(EVERYTHING), dict.fromkeys("ab", SCHEMA))
    batches = [
        {n: pa.Table.from_pylist(rows_of(30 * t, 30, t, random, 5), schema=SCHEMA) for n in "ab"} for t in range(4)
    ]
    engine.push(batches[0])
    engine.push(batches[1])
    other = wr.Engine.restore(engine.snapshot())
    for batch in batches[2:]:
        assert other.push(batch).to_pylist() == engine.push(batch).to_pylist()
    assert other.metrics == engine.metrics


def test_a_large_batch_is_let_go_when_few_of_its_rows_stay():
    wide = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("blob", pa.string())])
    query = Query(streams=[Stream(n, "t", Window.time(10)) for n in "ab"], on="k", memory=8, policy="fifo")
    engine = wr.Engine(query, dict.fromkeys("ab", wide))
    rows = 20_000
    times = np.arange(rows)
    table = pa.table({"t": times, "k": times, "blob": ["x" * 100] * rows}, schema=wide)
    engine.push({"a": table, "b": None})
    assert engine.metrics.streams["a"].resident_rows == 8
    assert engine._payloads[0].table().nbytes < 4_000


@pytest.mark.parametrize("name", sorted(COLUMNS))
def test_rows_gathered_chunk_by_chunk_are_those_of_the_whole_column(name):
    """Few rows of many, in any order and some of them again, from chunks of any size, none included."""
    type_, value = COLUMNS[name]
    random = Random(name)
    for sizes in ([40, 0, 25, 1], [0, 1, 1], [0, 0], [7], []):
        chunks, first = [], 0
        for size in sizes:
            chunks.append(pa.array([value(first + k) for k in range(size + 1)], type_)[1:])
            first += size
        column = pa.chunked_array(chunks, type_)
        for count in (0, 1, 5, first // 4, first):
            rows = np.array([random.randrange(first) for _ in range(count if first else 0)], np.int64)
            found = gathered(column, rows)
            assert found.type == type_ and found.to_pylist() == column.take(pa.array(rows)).to_pylist()
