"""Can catch: snapshots that grow with what is gone, that differ for equal state, or that hand kernels wrong numbers."""

from __future__ import annotations

import zlib
from datetime import datetime
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from tests.forging import packed
from tests.streams import POLICY_NAMES, configurations, label

import windrow as wr
from windrow import errors
from windrow.kernels import layout as at
from windrow.spec import Band, Query, Stream, Window, pair_query
from windrow.state.parts import view
from windrow.state.snapshot import form as snapshots
from windrow.state.snapshot import narrow
from windrow.state.snapshot.narrow import columns_of, table_of


def batch(first: int, rows: int, seed: int = 0, keys: int = 1000) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    return {
        side: pa.table(
            {
                "k": rng.integers(0, keys, rows),
                "t": pa.array(np.arange(first, first + rows) * 1000, pa.timestamp("us")),
                "v": rng.random(rows),
            }
        )
        for side in ("left", "right")
    }


# ----------------------------------------------------------------------------------------------- size


@pytest.mark.parametrize("options", [{}, *({"memory": 20_000, "policy": name} for name in POLICY_NAMES)], ids=str)
def test_a_resident_takes_few_bytes_with_its_payload(options):
    engine = wr.Engine(pair_query("k", "t", "1 hour", **options), recall=False)
    engine.push(batch(0, 20_000))
    trials = engine.bound()[1].trials
    tried = [] if trials is None else [int(fork.stream_counter(at.Stream.rows).sum()) for fork in trials.tried()]
    assert len(engine.snapshot()) <= 24 * (engine.metrics.total("resident_rows") + sum(tried))


@pytest.mark.parametrize("memory", [100, "1 MB"])
@pytest.mark.parametrize("policy", [None, *POLICY_NAMES])
def test_a_snapshot_of_one_row_is_small_even_after_many(policy, memory):
    options = {"policy": policy, "memory": memory} if policy else {}
    engine = wr.Engine(pair_query("k", "t", "10 seconds", patience=0, **options))
    engine.push(batch(0, 1))
    assert len(engine.snapshot()) < 6_000
    engine.push(batch(10, 30_000))
    engine.push({"left": batch(10_000_000, 1)["left"]})
    assert engine.metrics.total("resident_rows") == 1
    # Frequencies of 1,000 keys on two streams stay; AUTO counts them in two ways, and again in each fork of a trial.
    trials = engine.bound()[1].trials
    counts = 0 if policy is None else 1 if trials is None else 2 * (1 + len(list(trials.tried())))
    assert len(engine.snapshot()) < 6_000 + 10_000 * counts


def test_what_is_restored_is_as_large_as_what_is_alive():
    engine = wr.Engine(pair_query("k", "t", "1 hour", memory=50_000))
    engine.push(batch(0, 25_000))
    large = engine._shard.words.nbytes
    engine.memory = 100
    assert engine._shard.words.nbytes < large / 8
    assert wr.Engine.restore(engine.snapshot())._shard.words.nbytes < large / 8
    again = wr.Engine.restore(engine.snapshot())
    more = batch(25_000, 500)
    assert engine.push(more).equals(again.push(more)) and engine.snapshot() == again.snapshot()


def test_payload_of_shed_rows_does_not_outlive_a_smaller_budget():
    query = pair_query("k", "t", "1 hour", memory="60 MB", policy="fifo")
    engine = wr.Engine(query)
    rows = batch(0, 900)
    texts = pa.array([f"{k:05}" * 4_000 for k in range(900)])
    engine.push({name: table.append_column("s", texts) for name, table in rows.items()})
    assert sum(p.nbytes for p in engine._payloads) > 30e6
    engine.memory = "1 MB"
    held = sum(p.nbytes for p in engine._payloads)
    assert 0 < held < 1.2e6
    assert len(engine.snapshot()) < 1.2e6


def test_a_restored_engine_does_not_hold_the_snapshot():
    engine = wr.Engine(pair_query("k", "t", "1 hour"))
    engine.push(batch(0, 5_000))
    data = engine.snapshot()
    low = np.frombuffer(data, np.uint8).ctypes.data
    high = low + len(data)
    for payload in wr.Engine.restore(data)._payloads:
        for table, _ in payload.chunks:
            for column in table.columns:
                for chunk in column.chunks:
                    assert all(b is None or not low <= b.address < high for b in chunk.buffers())


# -------------------------------------------------------------------------------------------- equality


@pytest.mark.parametrize("policy", POLICY_NAMES)
@pytest.mark.parametrize("kind", ["time", "rows"])
def test_long_runs_with_and_without_restores_agree(policy, kind):
    """Long enough that blocks grow, keys are forgotten and tournaments drift far from what a fresh one looks like."""
    window = Window.time("20 seconds") if kind == "time" else Window.rows(3_000)
    query = Query(
        streams=[Stream(n, "t", window) for n in ("left", "right")],
        on="k",
        memory=1_500,
        policy=policy,
        order="time" if kind == "time" else "arrival",
    )
    engine = wr.Engine(query)
    other = engine
    for k in range(14):
        if k % 3 == 1:
            other = wr.Engine.restore(other.snapshot())
        rows = batch(k * 2_500, 2_500, seed=k, keys=400)
        expected = engine.push(rows)
        assert other is engine or other.push(rows).equals(expected)
        assert other.snapshot() == engine.snapshot()


def test_equal_numbers_come_out_in_the_order_of_arrival_after_a_restore():
    query = Query(
        streams=[Stream(n, "t", Window.time(50)) for n in "ab"], on=[Band("a.x", "b.x", 1)], memory=200, policy="rand"
    )
    random = Random(1)
    engine = wr.Engine(query)
    other = engine
    for k in range(30):
        rows = {n: pa.table({"t": [k] * 20, "x": [random.randrange(4) for _ in range(20)]}) for n in "ab"}
        if k in (5, 15, 25):
            other = wr.Engine.restore(engine.snapshot())
        expected = engine.push(rows)
        assert other is engine or other.push(rows).equals(expected)
    assert other.snapshot() == engine.snapshot()


# --------------------------------------------------------------------------------------------- columns

EDGES = np.array([-(2**63), -1, 0, 1, 2**63 - 1])
COLUMNS = {
    "nothing": np.zeros(0, np.int64),
    "one": np.array([7]),
    "equal": np.full(100, -5),
    "edges": EDGES,
    "falling": np.arange(1000, 0, -3),
    "wide": np.random.default_rng(0).integers(-(2**62), 2**62, 50),
    "whole": np.array([0.0, 3.0, 2.0**52]),
    "floats": np.array([0.5, -0.0, np.inf, np.nan]),
    "zeros": np.zeros(9),
    "negative zero": np.array([-0.0, 0.0]),
}


@pytest.mark.parametrize("rising", [frozenset(), frozenset(COLUMNS)], ids=["plain", "steps"])
def test_columns_come_back_as_they_were(rising):
    found = columns_of(table_of(COLUMNS, rising))
    for name, column in COLUMNS.items():
        assert found[name].dtype == column.dtype
        assert found[name].tobytes() == column.tobytes(), name


def test_equal_and_even_columns_take_a_byte_a_number_and_packed_hardly_any():
    columns = {"equal": np.full(100_000, 3), "time": np.arange(0, 500_000, 5)}
    table = table_of(columns, frozenset({"time"}))
    assert sum(len(data) for data in table["data"].to_pylist()) == 199_999
    assert snapshots.table_bytes(table).size < 3_000


@pytest.mark.parametrize("form", ["i1", "s1", "w2", "v8", "f8", "i0", "s0"])
def test_no_column_is_longer_than_its_bytes(form):
    lie = {"name": "x", "form": form, "rows": 2**38, "first": 0, "least": 7, "data": b""}
    with pytest.raises(errors.SnapshotError, match="'x'"):
        columns_of(pa.Table.from_pylist([lie], schema=narrow.SCHEMA))


def test_no_part_is_unpacked_to_more_than_its_bytes_can_stand_for():
    plain = pa.py_buffer(bytes(10_000))
    part = packed(plain.to_pybytes())
    assert snapshots.unpacked(pa.py_buffer(part)).equals(plain) and len(part) < 200
    for size in (0, 9_999, 10_001, 2**34, 2**63):
        with pytest.raises(ValueError, match=r"size|cannot hold"):
            snapshots.unpacked(pa.py_buffer(size.to_bytes(8, "little") + part[8:]))


# --------------------------------------------------------------------------------------------- extremes


def comes_back(engine: wr.Engine) -> None:
    data = engine.snapshot()
    assert wr.Engine.restore(data).snapshot() == data


def numbers(size: int, **more) -> dict[str, pa.Table]:
    return dict.fromkeys("ab", pa.table({"t": range(size), "k": [k % 5 for k in range(size)], **more}))


def numbered(policy, **more) -> Query:
    return Query(streams=[Stream(n, "t", 9) for n in "ab"], **{"on": "k", "policy": policy, "memory": 4, **more})


@pytest.mark.parametrize("combine", ["product", "sum"])
@pytest.mark.parametrize("policy", configurations(), ids=label)
def test_values_without_end_leave_numbers_in_the_statistics(policy, combine):
    """Sums of values that overflow, or that are infinite, with and without a band; what is learned stays finite."""
    for worth in ([1e308], [-np.inf, np.inf, np.nan]):
        tables = numbers(40, x=np.arange(40.0), v=np.resize(worth, 40))
        value = wr.Value({"a": "v", "b": "v"}, combine)
        for on in ("k", [wr.Equal("a.k", "b.k"), Band("a.x", "b.x", 2)]):
            engine = wr.Engine(numbered(policy, on=on, value=value), oracle=tables)
            engine.push(tables)
            comes_back(engine)
            columns = columns_of(snapshots.table_of(snapshots.read(engine.snapshot()).parts[2]))
            learned = [c for n, c in columns.items() if n in LEARNED or n.split(".")[-1].startswith(("freq", "worth"))]
            assert all(np.isfinite(column).all() for column in learned)


LEARNED = ("hists", "means", "life", "sketch", *(f"oracle.{j}" for j in range(1, 5)))


def test_rows_of_endless_value_are_held_as_long_as_the_best():
    """What LIFE-EXPECTED learns of a row that leaves is filed where it will be looked for."""
    tables = numbers(60, x=np.zeros(60), v=np.full(60, np.inf))
    query = numbered("life-expected", on=[Band("a.x", "b.x", 2)], value=wr.Value({"a": "v", "b": "v"}))
    engine = wr.Engine(query)
    engine.push(tables)
    shard = engine.bound()[1]
    lines = view(shard.words, at.Head.life_at, 2 * at.LIFE_BINS, 2).view(np.float64).reshape(2, at.LIFE_BINS, 2)
    assert lines[:, at.LIFE_BINS // 2 :, 0].sum() > lines[:, : at.LIFE_BINS // 2, 0].sum()


@pytest.mark.parametrize("mark", [2**62, 2**62 + 1, 2**63 - 1, -(2**62), -(2**63) + 1])
@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_any_watermark_comes_back(mark, policy):
    tables = numbers(12)
    engine = wr.Engine(numbered(policy))
    engine.push({name: table.slice(0, 6) for name, table in tables.items()})
    engine.push({name: table.slice(6) for name, table in tables.items()}, watermark=mark)
    comes_back(engine)
    assert engine.metrics.late == (12 if mark > 0 else 0)
    assert (engine.metrics.resident_rows == 0) == (mark > 0)


def test_a_watermark_at_the_end_of_all_nanoseconds_comes_back():
    engine = wr.Engine(pair_query("k", "t", "1 hour"))
    tables = {side: pa.table({"k": [1], "t": pa.array([0], pa.timestamp("ns"))}) for side in ("left", "right")}
    assert engine.push(tables, watermark=datetime(2262, 4, 11)).num_rows == 0
    assert engine.metrics.late == 2
    comes_back(engine)


def test_times_at_the_ends_come_back():
    """The least int64 stands for no time; all others are times."""
    times = [-(2**63), -(2**63) + 1, 2**62, 2**63 - 1]
    table = pa.table({"t": times, "k": [1, 1, 1, 1]})
    engine = wr.Engine(Query(streams=[Stream(n, "t", None) for n in "ab"], on="k", memory=10))
    engine.push({"a": table, "b": table})
    assert engine.metrics.ignored == 2
    comes_back(engine)


# ---------------------------------------------------------------------------------------------- checks


def resealed(data: bytes, name: str, change) -> bytes:
    """The same snapshot with one column of its shard changed and everything else, checksum included, in order."""
    snap = snapshots.read(data)
    parts = list(snap.parts)
    columns = columns_of(snapshots.table_of(parts[2]))
    columns[name] = change(columns[name])
    parts[2] = snapshots.table_bytes(narrow.table_of(columns))
    return snapshots.write(snap.header, parts)


WRONG = {
    "cut": lambda c: c[:-1],
    "longer": lambda c: np.append(c, c[-1]),
    "huge": lambda c: c + c.dtype.type(2**62),
    "negative": lambda c: -c - c.dtype.type(1),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", ["head", "lines", "0.seq", "1.cost", "keys", "p0.dense"])
def test_columns_that_cannot_be_are_refused(name, wrong):
    engine = wr.Engine(pair_query("k", "t", "1 hour", memory=50, policy="rand"), recall=False)
    engine.push(batch(0, 100))
    data = engine.snapshot()
    assert wr.Engine.restore(resealed(data, name, lambda c: c)).metrics == engine.metrics
    with pytest.raises(errors.SnapshotError, match=r"is whole, but .* no engine .* forged") as error:
        wr.Engine.restore(resealed(data, name, WRONG[wrong]))
    assert "altered" not in str(error.value)  # its checksum fits


def pushed(policy, **options):
    options = {"memory": 50, **options}
    engine = wr.Engine(pair_query("k", "t", "1 hour", policy=policy, **options), recall=False)
    engine.push(batch(0, 100, keys=20))
    return engine


def first(value):
    """Another first number."""
    return lambda column: np.concatenate([np.array([value], column.dtype), column[1:]])


# By policy and column, what kernels would have followed out of their memory, or what no kernel can have left.
IMPOSSIBLE = [
    ("fifo", "1.seq", lambda seq: seq - 1),  # the other stream's: residents are found by sequence number
    ("fifo", "tally", first(-1)),
    ("fifo", "sample", first(1.0)),  # only an estimate of recall counts a sample
    ("fifo", "head", lambda head: np.where(head == head.max(), head + 1, head)),
    ("fifo", "lines", first(1)),
    ("gdj", "d0.filed0", lambda filed: filed + 5.0),  # levels that never were: counted out above the last one
    ("gdj", "d0.freq1", first(0.5)),
    ("gdj", "0.score", lambda base: base - 1000.0),
    ("gdj", "credit", lambda credit: -credit - 1),
    ("prob", "d0.freq0", first(np.nan)),
    ("prob", "d0.freq0", first(-1.0)),
    (wr.policies.Prob(statistics=wr.statistics.Sketch(8, 2)), "sketch", first(np.inf)),
    ("life-expected", "life", first(-1.0)),
    ("life-expected", "leaf.turn", first(np.nan)),
    ("age", "ages", first(0.3)),
    ("auto", "trial.whole", first(1)),
    ("auto", "trial.floats", first(1.5)),
]


@pytest.mark.parametrize(("policy", "name", "change"), IMPOSSIBLE)
def test_states_that_no_engine_can_be_in_are_refused(policy, name, change):
    data = pushed(policy).snapshot()
    with pytest.raises(errors.SnapshotError):
        wr.Engine.restore(resealed(data, name, change))


@pytest.mark.parametrize("name", ["fork0.head", "trial.caps1", "0.code0", "head2"])
def test_columns_that_nobody_reads_are_refused(name):
    snap = snapshots.read(pushed("auto").snapshot())
    parts = list(snap.parts)
    columns = columns_of(snapshots.table_of(parts[2]))
    assert name not in columns
    parts[2] = snapshots.table_bytes(narrow.table_of({**columns, name: columns["head"]}))
    with pytest.raises(errors.SnapshotError):
        wr.Engine.restore(snapshots.write(snap.header, parts))


HEADERS = [
    {"arrived": [[100, 0, 1], [100, 0, 0]]},
    {"arrived": [[100, 0, 0], ["100", 0, 0]]},
    {"false": 1 << 40},
    {"false": True},
    {"count_only": 0},
    {"count_only": True, "departures": True},
    {"recall": None},
    {"more": 1},
    {"bound": False},
]


@pytest.mark.parametrize("change", HEADERS, ids=str)
def test_headers_that_no_engine_writes_are_refused(change):
    snap = snapshots.read(pushed("rand").snapshot())
    with pytest.raises(errors.SnapshotError):
        wr.Engine.restore(snapshots.write({**snap.header, **change}, list(snap.parts)))


def test_an_estimate_of_recall_has_the_share_of_its_rows():
    engine = wr.Engine(pair_query("k", "t", "1 hour", memory="100 kB", policy="fifo"))
    engine.push(batch(0, 600))
    snap = snapshots.read(engine.snapshot())
    tracker = snap.header["tracker"]
    assert tracker["share"] < 1.0
    for change in ({"share": 0.3}, {"share": 1.0}, {"share": tracker["share"] / 2}, {"recent": [float("nan"), 0.0]},
                   {"last": [0.0]}, {"given_up": True}, {"given_up": 0}):  # fmt: skip
        with pytest.raises(errors.SnapshotError):
            wr.Engine.restore(snapshots.write({**snap.header, "tracker": {**tracker, **change}}, list(snap.parts)))


def test_headers_nested_too_deep_are_refused():
    text = b"[" * 100_000
    data = snapshots._HEAD.pack(snapshots.MAGIC, snapshots.VERSION, len(text)) + text + bytes(8)
    with pytest.raises(errors.SnapshotError):
        wr.Engine.restore(data + zlib.crc32(data).to_bytes(4, "little"))


# --------------------------------------------------------------------------------- states at the edges


def test_auto_in_too_few_bytes_for_trials_is_restored_when_memory_is_full():
    engine = pushed("auto", memory="90 kB")
    engine.push(batch(100, 500, keys=20))
    assert engine.metrics.shed
    assert wr.Engine.restore(engine.snapshot()).snapshot() == engine.snapshot()


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_the_earliest_time_and_the_longest_window_of_rows_are_restored(policy):
    early = {n: pa.table({"t": pa.array([-(2**62), -(2**62)], pa.int64()), "k": [1, 2]}) for n in "ab"}
    streams = [Stream(n, "t", Window.time(5)) for n in "ab"]
    engine = wr.Engine(Query(streams=streams, on="k", memory=2, policy=policy))
    engine.push(early)
    assert wr.Engine.restore(engine.snapshot()).snapshot() == engine.snapshot()
    streams = [Stream(n, "t", Window.rows(2**62)) for n in "ab"]
    engine = wr.Engine(Query(streams=streams, on="k", memory=60, policy=policy, order="arrival"))
    for k in range(4):
        engine.push({n: pa.table({"t": np.arange(50) + 50 * k, "k": np.arange(50) % 9}) for n in "ab"})
    assert wr.Engine.restore(engine.snapshot()).snapshot() == engine.snapshot()


def test_another_layout_is_refused():
    engine = wr.Engine(pair_query("k", "t", "1 hour"))
    snap = snapshots.read(engine.snapshot())
    with pytest.raises(errors.SnapshotError, match="another layout"):
        wr.Engine.restore(snapshots.write({**snap.header, "layout": "0" * 16}, list(snap.parts)))
