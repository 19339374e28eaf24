"""Streams that bring deletions join as their definition says, in any batches.

Catches: a deletion that takes out the wrong row, or one of another key; matches with a row that is gone; rows that stay
for ever; deletions that count as arrivals in windows of rows; counters that do not add up; snapshots that forget by
which number a row is named.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.running import examples
from tests.signed_twin import Event, SignedTwin

import windrow as wr

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.int64(), "v": pa.int64(), "op": pa.int8()})
NAMES = ("A", "B", "C")


def events_of(random: Random, streams: int) -> list[Event]:
    """Rows, deletions of rows that may have left by then, and deletions of rows that never were."""
    found: list[Event] = []
    time = 0
    for _ in range(random.randrange(1, 50)):
        time += random.choice([0, 0, 1, 1, 2])
        stream, chance = random.randrange(streams), random.random()
        mine = [event for event in found if event.stream == stream and event.sign > 0]
        if mine and chance < 0.35:
            old = random.choice(mine)
            found.append(Event(time, stream, -1, old.key, old.value))
        elif chance < 0.4:
            found.append(Event(time, stream, -1, random.randrange(3), 99))
        else:
            found.append(Event(time, stream, 1, random.randrange(3), random.randrange(4)))
    return found


def batch(events: list[Event], stream: int) -> pa.Table:
    mine = [e for e in events if e.stream == stream]
    return pa.Table.from_pylist([{"t": e.time, "k": e.key, "v": e.value, "op": e.sign} for e in mine], schema=SCHEMA)


def query_of(windows: list[tuple[str, int]], **options: object) -> wr.Query:
    names = NAMES[: len(windows)]
    kinds = [wr.Window.rows(length) if kind == "rows" else wr.Window.time(length) for kind, length in windows]
    streams = [wr.Stream(n, "t", window, sign="op") for n, window in zip(names, kinds, strict=True)]
    select = [*((f"{n}.v", f"{n}_v") for n in names), "A.k"]
    return wr.Query(streams=streams, on="k", select=select, patience=0, **options)  # type: ignore[arg-type]


@examples(60)
@given(st.integers(0, 2**32))
def test_deletions_mean_what_their_definition_says(seed: int) -> None:
    random = Random(seed)
    windows = [(random.choice(["time", "time", "rows"]), random.choice([1, 3, 8, 50]))] * random.choice([2, 2, 3])
    windows = [(kind, random.choice([length, 4])) for kind, length in windows]
    events = events_of(random, len(windows))
    names = NAMES[: len(windows)]
    twin, found = SignedTwin(windows), Counter[tuple[int, ...]]()
    engine = wr.Engine(query_of(windows), dict.fromkeys(names, SCHEMA))
    instants = sorted({event.time for event in events})
    while instants:
        now = set(instants[: random.randrange(1, 5)])
        instants = instants[len(now) :]
        part = [event for event in events if event.time in now]
        twin.take(part)
        matches = engine.push({name: batch(part, s) for s, name in enumerate(names)})
        found.update(zip(*(column.to_pylist() for column in matches.columns), strict=True))
        engine = wr.Engine.restore(engine.snapshot())
        for line in engine.metrics.streams.values():
            assert line.arrived == line.late + line.ignored + line.resident_rows + line.expired + line.released
    assert found == twin.found, f"{windows} {events}\nmissing {twin.found - found}, extra {found - twin.found}"
    lines = [engine.metrics.streams[name] for name in names]
    assert [line.deleted + line.unknown for line in lines] == twin.deletions
    assert sum(line.resident_rows for line in lines) >= sum(map(len, twin.held))


def test_a_deletion_of_an_unknown_row_is_ignored_and_counted() -> None:
    engine = wr.Engine(query_of([("time", 5), ("time", 5)]), {"A": SCHEMA, "B": SCHEMA})
    engine.push({"A": batch([Event(1, 0, 1, 1, 1), Event(2, 0, -1, 1, 2), Event(3, 0, -1, 1, 1)], 0)})
    line = engine.metrics.streams["A"]
    assert (line.arrived, line.ignored, line.expired, line.deleted, line.unknown) == (3, 2, 1, 1, 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"memory": 10}, "on_full='fail'"),
        ({"shards": 2}, "leave shards out"),
    ],
)
def test_what_deletions_do_not_go_with_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(wr.errors.SpecError, match=words):
        query_of([("time", 5), ("time", 5)], **options)


def test_signs_are_numbers_and_identity_needs_them() -> None:
    with pytest.raises(wr.errors.SpecError, match="set sign="):
        wr.Stream("A", "t", 5, identity="k")
    engine = wr.Engine(query_of([("time", 5), ("time", 5)]))
    text = pa.table({"t": [1], "k": [1], "v": [1], "op": ["-"]})
    with pytest.raises(wr.errors.InputError, match="signs"):
        engine.push({"A": text, "B": text})


@pytest.mark.parametrize("values", [[[1], [2]], [{"x": 1}, {"x": 2}]], ids=["lists", "structs"])
def test_rows_are_not_named_by_values_that_nobody_can_compare(values: list[object]) -> None:
    """Catches a deletion that takes out another row than it names: codes of such values do not tell them apart."""
    streams = [wr.Stream("A", "t", 9, sign="op"), wr.Stream("B", "t", 9)]
    events = [
        pa.table({"t": [t], "k": [1], "op": [op], "v": [v]}) for t, op, v in ((1, 1, values[0]), (2, 1, values[1]))
    ]
    other = pa.table({"t": [4], "k": [1]})
    engine = wr.Engine(wr.Query(streams=streams, on="k"))
    with pytest.raises(wr.errors.KeyTypeError, match="cannot be compared"):
        engine.push({"A": events[0], "B": other.slice(0, 0)})
    named = [streams[0].with_(identity=["n"]), streams[1]]
    engine = wr.Engine(wr.Query(streams=named, on="k"))
    for number, rows in enumerate([*events, events[1].set_column(2, "op", [[-1]])]):
        engine.push({"A": rows.append_column("n", [[min(number, 1)]]), "B": other.slice(0, 0)})
    assert engine.push({"B": other})["v"].to_pylist() == values[:1]


def test_half_floats_name_rows() -> None:
    streams = [wr.Stream("A", "t", 9, sign="op"), wr.Stream("B", "t", 9)]
    halves = pa.array([1.0, 2.0], pa.float32()).cast(pa.float16())
    rows = pa.table({"t": [1, 1], "k": [1, 1], "op": [1, 1], "v": halves})
    engine = wr.Engine(wr.Query(streams=streams, on="k"))
    engine.push({"A": rows, "B": pa.table({"t": [1], "k": [2]})})
    engine.push({"A": pa.table({"t": [2], "k": [1], "op": [-1], "v": halves.slice(1)})})
    assert engine.push({"B": pa.table({"t": [4], "k": [1]})})["v"].to_pylist() == [1.0]
