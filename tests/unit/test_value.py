"""Can catch: an output value that differs from the sum over the matches, and a policy that sheds the valuable rows."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

import windrow as wr
from windrow.spec import Band, Query, Stream, Value, Window

NAMES = ("a", "b", "c")


def rows(random, count, span, keys=4):
    """Rows with whole and with missing values; every value is exact as a float."""
    steps = sorted(random.randrange(span) for _ in range(count))
    values = [0, 1, 2, -3, 0.5, 8, None]
    return [{"t": t, "k": random.randrange(keys), "x": random.randrange(6), "v": random.choice(values)} for t in steps]


SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("x", pa.int64()), ("v", pa.float64())])


def pushed(engine, streams, cuts):
    """The output of all pushes; streams are cut between instants."""
    outputs = []
    for low, high in zip([-1, *cuts], [*cuts, 10**9], strict=True):
        part = {n: [row for row in rows if low <= row["t"] < high] for n, rows in streams.items()}
        outputs.append(engine.push({n: pa.Table.from_pylist(p, schema=SCHEMA) for n, p in part.items()}))
    return None if engine.count_only else pa.concat_tables(outputs)


def value_of(table, columns, combine):
    """The value of some matches, added up one by one."""
    total = 0.0
    for match in table.to_pylist():
        parts = [match[f"{name}_v"] or 0.0 for name in columns]
        worth = sum(parts) if combine == "sum" else 1.0
        if combine == "product":
            for part in parts:
                worth *= part
        total += worth
    return total


def query_of(names, on, value, window=5, **options):
    streams = [Stream(name, "t", Window.time(window)) for name in names]
    return Query(streams=streams, on=on, value=value, select=[(f"{n}.v", f"{n}_v") for n in names], **options)


@pytest.mark.parametrize("combine", ["product", "sum"])
@pytest.mark.parametrize("names", [NAMES[:2], NAMES], ids=["pair", "three"])
@pytest.mark.parametrize("memory", [None, 12])
def test_the_value_is_that_of_the_matches(combine, names, memory):
    for seed in range(6):
        random = Random(seed)
        streams = {name: rows(random, 40, 20) for name in names}
        columns = names if seed % 2 else names[1:]  # a stream left out counts as 1 in a product, 0 in a sum
        keys = [wr.Equal(f"{p}.k", f"{q}.k") for p, q in pairwise(names)]
        on = keys if seed % 3 else [*keys, Band("a.x", "b.x", 2)]
        query = query_of(names, on, Value(dict.fromkeys(columns, "v"), combine), memory=memory)
        engine = wr.Engine(query, dict.fromkeys(names, SCHEMA))
        matches = pushed(engine, streams, [6, 13])
        assert engine.metrics.matched == matches.num_rows > 0
        assert engine.metrics.value == value_of(matches, columns, combine), seed
        counting = wr.Engine(query, dict.fromkeys(names, SCHEMA), count_only=True)
        pushed(counting, streams, [])
        assert (counting.metrics.matched, counting.metrics.value) == (engine.metrics.matched, engine.metrics.value)


def test_a_query_without_value_reports_none():
    engine = wr.Engine(query_of(NAMES[:2], "k", None), dict.fromkeys(NAMES[:2], SCHEMA))
    assert engine.metrics.value is None


@pytest.mark.parametrize("combine", ["product", "sum"])
@pytest.mark.parametrize("names", [NAMES[:2], NAMES], ids=["pair", "three"])
def test_prob_with_values_keeps_the_valuable_rows(combine, names):
    """Half of the rows of `a` are worth 100 times the others; all keys are equally frequent."""
    random = Random(5)
    streams = {}
    for name in names:
        made = [{"t": t, "k": random.randrange(3), "x": 0, "v": 1.0} for t in range(60) for _ in range(2)]
        if name == "a":
            for row in made:
                row["v"] = random.choice([0.01, 100.0])
        streams[name] = made
    reached = {}
    for value in (Value({"a": "v"}, combine), None):
        query = query_of(names, "k", value, window=40, memory=wr.Memory(12, split=True), policy="prob")
        engine = wr.Engine(query, dict.fromkeys(names, SCHEMA))
        matches = pushed(engine, streams, range(1, 60))
        assert engine.metrics.streams["a"].shed > 0
        kept = [row["a_v"] for row in matches.to_pylist()]
        reached[value is not None] = (value_of(matches, ["a"], combine), sum(v == 100.0 for v in kept) / len(kept))
    assert reached[True][0] > 1.2 * reached[False][0], reached
    assert reached[True][1] > 0.7 > reached[False][1], reached
