"""Bad input gets one clear error, and the engine goes on as if the push had not happened.

Catches: errors of numpy or Arrow that say nothing, and state that a refused push has half changed.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.streams import POLICY_NAMES

import windrow as wr
from windrow import errors
from windrow.engine import emit
from windrow.engine import engine as engine_module
from windrow.files import open_table
from windrow.state.snapshot import form as snapshots

STREAMS = [wr.Stream("left", "ts", 5), wr.Stream("right", "ts", 5)]


def query(**changes: Any) -> wr.Query:
    return wr.Query(**{"streams": STREAMS, "on": "user_id", "memory": 6, "policy": "prob", **changes})


def rows(first: int = 0, count: int = 6, **columns: Any) -> pa.Table:
    """Rows of the times `first` and on."""
    plain = {
        "ts": pa.array(range(first, first + count), pa.int64()),
        "user_id": pa.array([k % 3 for k in range(count)], pa.int64()),
        "v": pa.array([1.5] * count, pa.float64()),
    }
    return pa.table({**plain, **columns})


# ------------------------------------------------------------------------------------- refused specs


@pytest.mark.parametrize("size", [0, -1, "0 s", "-5 minutes"])
def test_a_window_of_nothing(size: Any) -> None:
    with pytest.raises(errors.SpecError, match="window"):
        wr.Window.time(size)
    with pytest.raises(errors.SpecError, match="window"):
        wr.Window.rows(0)


@pytest.mark.parametrize("thing", ["select 1", None, {"streams": []}, STREAMS])
def test_an_engine_without_a_query(thing: Any) -> None:
    with pytest.raises(errors.SpecError, match=r"Engine takes a Query, got \w+: build one"):
        wr.Engine(thing)


def test_an_unknown_policy_is_answered_with_the_list() -> None:
    with pytest.raises(errors.UnknownPolicy, match=r"'prop'.*did you mean 'prob'.*rand, fifo, prob, life"):
        query(policy="prop")


def test_two_output_columns_of_one_name() -> None:
    with pytest.raises(errors.DuplicateColumn, match=r"left\.v.*right\.v.*'v'.*rename"):
        query(select=["left.v", "right.v"])


def test_a_window_in_rows_needs_an_order() -> None:
    loose = wr.Stream("left", "ts", wr.Window.rows(5), lateness=3)
    with pytest.raises(errors.SpecError, match=r"'left'.*order='arrival' or lateness=0"):
        query(streams=[loose, STREAMS[1]])


@pytest.mark.parametrize("memory", [0, -3, "0 MB", "0%"])
def test_memory_for_not_even_one_row(memory: Any) -> None:
    with pytest.raises(errors.MemoryTooSmall):
        query(memory=memory)


def test_memory_in_bytes_that_cannot_hold_one_row_says_how_much_can() -> None:
    with pytest.raises(errors.MemoryTooSmall, match=r"40 B.*one row.*at least"):
        wr.Engine(query(memory="40 B")).push({"left": rows(), "right": rows()})


def test_split_memory_with_a_part_below_one_row() -> None:
    with pytest.raises(errors.MemoryTooSmall, match="row"):
        wr.Engine(query(memory=wr.Memory(1, split=True))).push({"left": rows(), "right": rows()})


def test_a_share_of_what_nobody_knows() -> None:
    with pytest.raises(errors.SpecError, match="20%"):
        wr.Engine(query(memory="20%"))
    engine = wr.Engine(query(memory=100))
    with pytest.raises(errors.SpecError, match="20%"):
        engine.memory = "20%"  # type: ignore[assignment]
    assert str(engine.memory) == str(query(memory=100).memory)


# ----------------------------------------------------------------------------- refused against schemas

BINDINGS: list[tuple[str, Callable[[], wr.Query], type[Exception], str]] = [
    ("key", lambda: query(on="user_ib"), errors.UnknownColumn, "did you mean 'user_id'"),
    (
        "time",
        lambda: query(streams=[wr.Stream("left", "tss", 5), STREAMS[1]]),
        errors.UnknownColumn,
        "'left'.*'tss'.*did you mean 'ts'",
    ),
    (
        "filter",
        lambda: query(streams=[wr.Stream("left", "ts", 5, where=[("w", ">", 1)]), STREAMS[1]]),
        errors.UnknownColumn,
        "'left'.*'w'",
    ),
    ("select", lambda: query(select=["left.user_di"]), errors.UnknownColumn, "did you mean 'user_id'"),
    ("value", lambda: query(value=wr.Value({"right": "price"})), errors.UnknownColumn, "'right'.*'price'"),
    (
        "unit",
        lambda: query(streams=[wr.Stream("left", "ts", "5 s"), wr.Stream("right", "ts", "5 s")]),
        errors.SpecError,
        "left.*integers",
    ),
]


@pytest.mark.parametrize("made, error, words", [entry[1:] for entry in BINDINGS], ids=[e[0] for e in BINDINGS])
def test_what_the_schemas_do_not_have(made: Callable[[], wr.Query], error: type[Exception], words: str) -> None:
    schemas = {"left": rows().schema, "right": rows().schema}
    with pytest.raises(error, match=words):
        wr.Engine(made(), schemas=schemas)
    with pytest.raises(error, match=words):
        wr.Engine(made()).push({"left": rows(), "right": rows()})


@pytest.mark.parametrize("keys", [["a"] * 6, [True] * 6, [datetime(2024, 1, 1)] * 6, [[1]] * 6])
def test_key_types_that_do_not_compare(keys: Any) -> None:
    with pytest.raises(errors.KeyTypeError, match=r"left\.user_id|right\.user_id"):
        wr.Engine(query()).push({"left": rows(), "right": rows(user_id=keys)})


@pytest.mark.parametrize("times", [["noon"] * 6, [1.5] * 6, [True] * 6])
def test_times_that_are_none(times: Any) -> None:
    with pytest.raises(errors.TimeError, match=r"left\.ts"):
        wr.Engine(query()).push({"left": rows(ts=times), "right": rows()})


# --------------------------------------------------------------------------------------- refused pushes

WIDE = pa.array(["6"] * 6)
PUSHES: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("no times", {"left": rows(6).drop_columns("ts"), "right": rows(6)}, errors.WindrowError, "'left'.*'ts'"),
    ("no key", {"left": rows(6), "right": rows(6).drop_columns("user_id")}, errors.WindrowError, "'user_id'"),
    (
        "another type",
        {"left": rows(6, user_id=WIDE), "right": rows(6)},
        errors.WindrowError,
        "'user_id'.*string",
    ),
    ("unknown stream", {"left": rows(6), "rihgt": rows(6)}, errors.WindrowError, "'rihgt'.*right"),
    ("no table", {"left": rows(6), "right": 7}, errors.InputError, "'right'"),
]


@pytest.mark.parametrize("bad, error, words", [entry[1:] for entry in PUSHES], ids=[e[0] for e in PUSHES])
@pytest.mark.parametrize("memory", [None, 4, "100 kB"])
def test_after_a_refused_push_all_is_as_before(
    bad: dict[str, Any], error: type[Exception], words: str, memory: Any
) -> None:
    disturbed, calm = wr.Engine(query(memory=memory)), wr.Engine(query(memory=memory))
    for first in (0, 6, 12):
        good = {"left": rows(first), "right": rows(first)}
        assert disturbed.push(good).equals(calm.push(good))
        with pytest.raises(error, match=words):
            disturbed.push(bad)
        assert disturbed.metrics.to_dict() == calm.metrics.to_dict()
        assert disturbed.snapshot() == calm.snapshot()


def test_a_refused_first_push_does_not_fix_the_schemas() -> None:
    engine = wr.Engine(query())
    with pytest.raises(errors.TimeError):
        engine.push({"left": rows(), "right": rows(ts=["noon"] * 6, user_id=pa.array([1] * 6, pa.int8()))})
    assert engine.push({"left": rows(), "right": rows()}).num_rows > 0


def test_an_oracle_that_is_refused_leaves_the_engine_as_it_was() -> None:
    policy = wr.policies.Prob(statistics=wr.statistics.Oracle())
    engine = wr.Engine(query(policy=policy), oracle={"left": rows()})
    for _ in range(2):
        with pytest.raises(errors.SpecError, match="oracle= lacks the stream 'right'"):
            engine.push({"left": rows(), "right": rows()})
        assert engine.metrics.matched == 0
        assert wr.Engine.restore(engine.snapshot()).metrics == engine.metrics


def test_false_candidates_of_a_refused_push_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes cut to no bit at all collide always."""
    bound = engine_module.bind
    monkeypatch.setattr(engine_module, "bind", lambda *given: dataclasses.replace(bound(*given), code_mask=0))
    engine = wr.Engine(query(memory=4, on_full="fail"))
    keys = pa.array(["a", "b"])
    engine.push({"left": rows(0, 2, user_id=keys), "right": rows(0, 0, user_id=keys.slice(0, 0))})
    found = engine.metrics.matched
    with pytest.raises(errors.MemoryFull):
        engine.push({"left": None, "right": rows(1, 9, user_id=["c"] * 9)})
    assert engine.metrics.matched == found == 0


def test_a_push_that_was_interrupted_leaves_nothing_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = wr.Engine(query())
    engine.push({"left": rows(), "right": rows()})

    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(emit, "matches", stopped)
    with pytest.raises(KeyboardInterrupt):
        engine.push({"left": rows(6), "right": rows(6)})
    for change in (lambda: setattr(engine, "memory", 3), lambda: engine.window("left", 3), engine.snapshot):
        with pytest.raises(errors.WindrowError, match="interrupted"):
            change()


@pytest.mark.parametrize("memory", [6, "20 kB"])
def test_full_memory_that_must_not_shed(memory: Any) -> None:
    asked = query(memory=memory, on_full="fail")
    disturbed, calm = wr.Engine(asked), wr.Engine(asked)
    many = {"left": rows(3, 400, ts=[3] * 400), "right": rows(3, 0)}
    small = {"left": rows(0, 2), "right": rows(0, 2)}
    assert disturbed.push(small).equals(calm.push(small))
    with pytest.raises(errors.MemoryFull, match="on_full='shed'"):
        disturbed.push(many)
    after = {"left": rows(2, 1), "right": rows(2, 1)}
    assert disturbed.push(after).equals(calm.push(after))
    assert disturbed.metrics.to_dict() == calm.metrics.to_dict()
    assert disturbed.snapshot() == calm.snapshot()


def test_a_push_that_does_not_fit_raises_no_watermark() -> None:
    engine = wr.Engine(query(memory=6, on_full="fail"))
    engine.push({"left": rows(0, 2), "right": rows(0, 2)})
    before = engine.snapshot()
    with pytest.raises(errors.MemoryFull):
        engine.push({"left": rows(3, 400, ts=[3] * 400), "right": None}, watermark=3)
    assert engine.snapshot() == before


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_a_row_that_a_policy_would_turn_away_is_no_exception(policy: str) -> None:
    """Residents of keys that have partners, and then a key that nobody knows."""
    engine = wr.Engine(query(memory=2, on_full="fail", policy=policy))
    engine.push({"left": rows(0, 1), "right": rows(0, 1)})
    with pytest.raises(errors.MemoryFull):
        engine.push({"left": rows(1, 1, user_id=[99]), "right": None})
    assert engine.metrics.total("shed") == 0
    assert engine.metrics.total("resident_rows") == engine.metrics.total("arrived") == 2


def test_a_row_larger_than_the_memory_that_must_not_shed() -> None:
    asked = query(memory="20 kB", on_full="fail")
    engine = wr.Engine(asked)
    large = pa.array(["x" * 100_000])
    engine.push({"left": rows(0, 1, v=["small"]), "right": rows(0, 1)})
    with pytest.raises(errors.MemoryFull):
        engine.push({"left": rows(1, 1, v=large), "right": None})
    assert engine.metrics.total("shed") == 0 and engine.metrics.total("arrived") == 2


@pytest.mark.parametrize("before", [None, 12, "100 kB", wr.Memory(24, split=True)])
@pytest.mark.parametrize("after", [5, "3.6 kB", wr.Memory(8, split=True)])
def test_memory_that_must_not_shed_does_not_shrink_below_its_rows(before: Any, after: Any) -> None:
    asked = query(memory=before, on_full="fail")
    disturbed, calm = wr.Engine(asked), wr.Engine(asked)
    for engine in (disturbed, calm):
        engine.push({"left": rows(), "right": rows()})
    with pytest.raises(errors.MemoryFull, match="nothing was changed"):
        disturbed.memory = after
    with pytest.raises(errors.MemoryFull):
        wr.Engine.restore(calm.snapshot(), asked.with_(memory=after))
    assert disturbed.memory == calm.memory and disturbed.query == calm.query
    assert disturbed.snapshot() == calm.snapshot()
    disturbed.window("left", 1)
    disturbed.window("right", 1)
    disturbed.memory = 4  # what is left after expiry fits
    assert disturbed.metrics.total("shed") == 0


def test_a_refused_change_of_memory_or_window_changes_nothing() -> None:
    disturbed, calm = wr.Engine(query(memory="20 kB")), wr.Engine(query(memory="20 kB"))
    for engine in (disturbed, calm):
        engine.push({"left": rows(), "right": rows()})
    with pytest.raises(errors.MemoryTooSmall):
        disturbed.memory = "40 B"
    with pytest.raises(errors.SpecError):
        disturbed.memory = "much"
    with pytest.raises(errors.SpecError):
        disturbed.window("left", 0)
    with pytest.raises(errors.SpecError, match="did you mean 'left'"):
        disturbed.window("lefd", 3)
    with pytest.raises(errors.SpecError):
        disturbed.window("left", "5 minutes")
    after = {"left": rows(6), "right": rows(6)}
    assert disturbed.push(after).equals(calm.push(after))
    assert disturbed.snapshot() == calm.snapshot()


def required(table: pa.Table) -> pa.Table:
    """The same rows as Parquet gives them where columns are required: not nullable, with metadata."""
    fields = [pa.field(f.name, f.type, nullable=False, metadata={"id": str(k)}) for k, f in enumerate(table.schema)]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields, metadata={"by": "a writer"}))


@pytest.mark.parametrize("order", [(required, lambda t: t), (lambda t: t, required)], ids=["first", "later"])
@pytest.mark.parametrize("memory", [None, 6])
def test_batches_may_differ_in_what_may_be_null(order: Any, memory: Any) -> None:
    mixed, plain = wr.Engine(query(memory=memory)), wr.Engine(query(memory=memory))
    item = pa.field("element", pa.int64(), nullable=False)
    for k, form in enumerate((*order, *order)):
        batch = {name: rows(6 * k, w=pa.array([[1]] * 6)) for name in ("left", "right")}
        lists = pa.array([[1]] * 6, pa.list_(item if form is required else pa.int64()))
        other = {name: form(rows(6 * k, w=lists)) for name in batch}
        assert mixed.push(other).to_pylist() == plain.push(batch).to_pylist()
    assert mixed.snapshot() == plain.snapshot()


def test_late_rows_are_counted_and_reported_not_joined() -> None:
    engine = wr.Engine(query(memory=None))
    engine.push({"left": rows(20), "right": rows(20)})
    late = engine.push({"left": rows(0), "right": None})
    assert late.num_rows == 0
    assert engine.metrics.streams["left"].late == 6
    assert engine.metrics.streams["right"].late == 0
    assert engine.metrics.streams["left"].arrived == 12


# -------------------------------------------------------------------------------------------- snapshots


@pytest.fixture(scope="module")
def saved() -> bytes:
    engine = wr.Engine(query(memory="20 kB"))
    engine.push({"left": rows(), "right": rows()})
    return engine.snapshot()


def test_a_whole_snapshot_is_accepted(saved: bytes) -> None:
    assert wr.Engine.restore(saved, query(memory="20 kB")).snapshot() == saved


def test_a_truncated_snapshot(saved: bytes) -> None:
    for size in [0, 1, 7, 8, 20, *range(30, len(saved), max(1, len(saved) // 40)), len(saved) - 1]:
        with pytest.raises(errors.SnapshotError):
            wr.Engine.restore(saved[:size])
    with pytest.raises(errors.SnapshotError):
        wr.Engine.restore(saved + b"x")


def test_an_altered_snapshot(saved: bytes) -> None:
    for place in [*range(64), *range(64, len(saved), max(1, len(saved) // 150)), len(saved) - 1]:
        altered = bytearray(saved)
        altered[place] ^= 0x20
        with pytest.raises(errors.SnapshotError):
            wr.Engine.restore(bytes(altered))


def test_what_is_no_snapshot() -> None:
    for data in (b"", b"PAR1" * 50, json.dumps({"version": 1}).encode()):
        with pytest.raises(errors.SnapshotError):
            wr.Engine.restore(data)


@pytest.mark.parametrize("other", [{"on": "v"}, {"order": "arrival"}, {"seed": 3}, {"select": ["left.v"]}], ids=str)
def test_a_snapshot_of_another_query(saved: bytes, other: dict[str, Any]) -> None:
    with pytest.raises(errors.SnapshotError, match="another query"):
        wr.Engine.restore(saved, query(**{"memory": "20 kB", **other}))


def test_a_snapshot_of_an_unknown_version(saved: bytes) -> None:
    """The version stands behind the first eight bytes; everything else about this snapshot is in order."""
    newer = bytearray(saved[:-4])
    newer[8] += 1
    whole = bytes(newer) + zlib.crc32(newer).to_bytes(4, "little")
    with pytest.raises(errors.SnapshotError, match=f"version {snapshots.VERSION}:"):
        wr.Engine.restore(whole)


# ------------------------------------------------------------------------------------------------ files


@pytest.mark.parametrize("name", ["missing.parquet", "broken.parquet", "strange.xyz"])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    if not name.startswith("missing"):
        (tmp_path / name).write_bytes(b"this is no table")
    with pytest.raises(errors.InputError, match=name):
        open_table(str(tmp_path / name)).table()


@pytest.mark.parametrize("name", ["empty.csv", "empty.jsonl", "empty.parquet"])
def test_a_file_without_rows_is_an_empty_result(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith(".parquet"):
        pq.write_table(rows(0, 0), path)
    else:
        path.write_text("ts,user_id,v\n" if name.endswith(".csv") else "")
    assert open_table(str(path)).table().num_rows == 0
