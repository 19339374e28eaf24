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
from tests.unit.every_type import COLUMNS

import windrow as wr
from windrow.state.coding import family, value_type

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


def beside(
    twin: SignedTwin, engine: wr.Engine, events: list[Event], random: Random
) -> tuple[wr.Engine, Counter[tuple[int, ...]]]:
    """Let a twin and an engine take the same events, some instants at a time; the engine is restored after every push,
    and its rows are accounted for. The engine at the end, and its matches."""
    found = Counter[tuple[int, ...]]()
    instants = sorted({event.time for event in events})
    while instants:
        now = set(instants[: random.randrange(1, 5)])
        instants = instants[len(now) :]
        part = [event for event in events if event.time in now]
        twin.take(part)
        matches = engine.push({name: batch(part, s) for s, name in enumerate(engine.query.names)})
        found.update(zip(*(column.to_pylist() for column in matches.columns), strict=True))
        engine = wr.Engine.restore(engine.snapshot())
        for line in engine.metrics.streams.values():
            assert line.arrived == line.late + line.ignored + line.resident_rows + line.expired + line.released
    return engine, found


@examples(60)
@given(st.integers(0, 2**32))
def test_deletions_mean_what_their_definition_says(seed: int) -> None:
    random = Random(seed)
    windows = [(random.choice(["time", "time", "rows"]), random.choice([1, 3, 8, 50]))] * random.choice([2, 2, 3])
    windows = [(kind, random.choice([length, 4])) for kind, length in windows]
    events = events_of(random, len(windows))
    names = NAMES[: len(windows)]
    twin = SignedTwin(windows)
    engine, found = beside(twin, wr.Engine(query_of(windows), dict.fromkeys(names, SCHEMA)), events, random)
    assert found == twin.found, f"{windows} {events}\nmissing {twin.found - found}, extra {found - twin.found}"
    lines = [engine.metrics.streams[name] for name in names]
    assert [line.deleted + line.unknown for line in lines] == twin.deletions
    assert sum(line.resident_rows for line in lines) >= sum(map(len, twin.held))


def versions_of(random: Random, streams: int) -> list[Event]:
    """Events of which the streams but the first have at most one row of a key at each moment, and no row that has met
    one of these is still there when the next of its key comes: many-one joins, as streams with deletions have them."""
    found: list[Event] = []
    live: list[dict[int, tuple[int, set[int]]]] = [{} for _ in range(streams)]  # number: key, streams it has met
    time = 0
    for number in range(random.randrange(1, 80)):
        time += random.choice([0, 1, 1, 2])
        stream, key = random.randrange(streams), random.randrange(2)
        mine = live[stream]
        if mine and random.random() < 0.45:
            old = random.choice(list(mine))
            time += 1  # deletions of an instant come before its rows
            found.append(Event(time, stream, -1, mine.pop(old)[0], old))
            continue
        beside = [(k, row) for k, rows in enumerate(live) for row in rows.values() if row[0] == key]
        if stream > 0 and any(k == stream or stream in met for k, (_, met) in beside):
            continue
        for _, (_, met) in beside:
            met.add(stream)
        mine[number] = (key, {k for k, _ in beside})
        found.append(Event(time, stream, 1, key, number))
    return found


@examples(60)
@given(st.integers(0, 2**32))
def test_uniqueness_of_versions_loses_nothing(seed: int) -> None:
    """A row that is deleted does not keep those that come after it from the next one of its key."""
    random = Random(seed)
    streams = random.choice([2, 2, 3])
    events = versions_of(random, streams)
    names, windows = NAMES[:streams], [("time", 1_000)] * streams
    unique = tuple(wr.Unique(name, "k") for name in names[1:])
    twin, asked = SignedTwin(windows), query_of(windows, constraints=unique)
    engine, found = beside(twin, wr.Engine(asked, dict.fromkeys(names, SCHEMA)), events, random)
    assert found == twin.found, f"{events}\nmissing {twin.found - found}, extra {found - twin.found}"
    assert not any(line.violations for line in engine.metrics.constraints.values()), events


@pytest.mark.parametrize("deleted", [False, True])
def test_recall_is_not_told_where_a_deletion_may_have_made_uniqueness_wrong(deleted: bool) -> None:
    """A row that met the only one of its key is released; whether it would have met the next one is not known."""
    windows = [("time", 1_000)] * 2
    engine = wr.Engine(query_of(windows, constraints=[wr.Unique("B", "k")]), {"A": SCHEMA, "B": SCHEMA})
    rows = [Event(1, 1, 1, 1, 1), Event(2, 0, 1, 1, 2)]
    rows += [Event(3, 1, -1, 1, 1), Event(4, 1, 1, 1, 3)] if deleted else [Event(4, 1, 1, 2, 3)]
    for event in rows:
        engine.push({name: batch([event], s) for s, name in enumerate("AB") if s == event.stream})
    assert engine.metrics.matched == 1 and engine.metrics.released
    assert not engine.metrics.constraints["B is unique on k"].violations
    assert engine.metrics.recall == (None if deleted else 1.0)


def test_recall_is_not_told_either_where_the_row_that_is_deleted_was_released_before() -> None:
    """Both rows of a match are released, so that the deletion is in vain; the next row of its key finds nobody."""
    unique = [wr.Unique("A", "k"), wr.Unique("B", "k")]
    engine = wr.Engine(query_of([("time", 1_000)] * 2, constraints=unique), {"A": SCHEMA, "B": SCHEMA})
    for event in [Event(1, 0, 1, 1, 1), Event(2, 1, 1, 1, 2), Event(3, 1, -1, 1, 2), Event(4, 1, 1, 1, 3)]:
        engine.push({name: batch([event], s) for s, name in enumerate("AB") if s == event.stream})
    assert engine.metrics.matched == 1 and engine.metrics.streams["B"].unknown == 1
    assert engine.metrics.recall is None


@pytest.mark.parametrize("deleted", [False, True])
def test_a_cluster_that_is_broken_is_counted_also_after_a_deletion(deleted: bool) -> None:
    """What a deletion takes back is that its row is the only one of its key, not when rows of the key came."""
    windows = [("time", 1_000)] * 2
    engine = wr.Engine(query_of(windows, constraints=[wr.Clustered("B", "k", 0)]), {"A": SCHEMA, "B": SCHEMA})
    rows = [Event(1, 1, 1, 1, 1), Event(2, 1, 1, 2, 2), Event(3, 1, 1, 3, 3), Event(4, 0, 1, 1, 4)]
    rows += [Event(5, 1, -1, 1, 1)] * deleted + [Event(6, 1, 1, 1, 5)]
    for event in rows:
        engine.push({name: batch([event], s) for s, name in enumerate("AB") if s == event.stream})
    assert engine.metrics.constraints["B is clustered on k"].violations == 1
    assert engine.metrics.recall is None


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
    with pytest.raises(wr.errors.SpecError, match="'t' is its time"):
        wr.Stream("A", "t", 5, sign="t")
    engine = wr.Engine(query_of([("time", 5), ("time", 5)]))
    text = pa.table({"t": [1], "k": [1], "v": [1], "op": ["-"]})
    with pytest.raises(wr.errors.InputError, match="signs"):
        engine.push({"A": text, "B": text})


def test_who_knows_insertions_only_refuses_deletions() -> None:
    query = query_of([("time", 5), ("time", 5)])
    rows = {name: pa.table({"t": [1], "k": [1], "v": [1], "op": [1]}) for name in ("A", "B")}
    link = wr.sites.Link("1 ms", "1 Mbit/s")
    for call in (
        lambda: wr.Queue(wr.Engine(query), capacity=4),
        lambda: wr.optimum(query, rows, memory=3),
        lambda: wr.sites.plan(query, {"A": "x", "B": "y"}, link, samples=rows, interval=1),
    ):
        with pytest.raises(wr.errors.SpecError, match=r"brings deletions \(sign='op'\)"):
            call()


def small_values() -> dict[str, pa.Array]:
    """Columns of few bytes a value, with what a null could be taken for."""
    narrow = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    found = {str(type_): pa.array([0, None, 1, 2], type_) for type_ in [*narrow, pa.float32(), pa.float64()]}
    found |= {str(type_): pa.array(["", None, "a", "b"], type_) for type_ in (pa.string(), pa.large_string())}
    zero = pa.array([0, None, 1, 2])
    return found | {"bool": pa.array([False, None, True, None]), "instants": zero.cast(pa.timestamp("us", "UTC"))}


@pytest.mark.parametrize("name", sorted({**COLUMNS, **small_values()}))
def test_a_deletion_names_its_row_by_values_of_any_type(name: str) -> None:
    """The oldest row with the same value goes, and null is a value; or the type is refused before a row is taken."""
    values = {**COLUMNS, **small_values()}[name]
    plain = values.to_pylist() if hasattr(values, "to_pylist") else list(values)
    rows = pa.table({"t": [1] * 4, "k": [1] * 4, "id": range(4), "v": values, "op": [1] * 4})
    streams = [wr.Stream("A", "t", 9, sign="op", identity=["k", "v"]), wr.Stream("B", "t", 9)]
    for number, value in enumerate(plain):
        engine = wr.Engine(wr.Query(streams=streams, on="k", patience=0))
        other = pa.table({"t": [3], "k": [1]})
        named = rows.set_column(4, "op", pa.array([-1] * 4)).set_column(0, "t", pa.array([2] * 4)).slice(number, 1)
        try:
            engine.push({"A": rows.slice(0, 2), "B": other.slice(0, 0)})
        except wr.errors.KeyTypeError as error:
            assert "deletions name their rows by 'v'" in str(error) and family(value_type(values.type)) is None
            return
        engine.push({"A": rows.slice(2, 2)})
        engine.push({"A": named})
        left = engine.push({"B": other})["id"].to_pylist()
        assert sorted(left) == [n for n in range(4) if n != plain.index(value)]
