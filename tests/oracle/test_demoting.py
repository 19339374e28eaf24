"""With on_violation='demote' a constraint that is broken costs no match; with 'lose' only what the promise allows.

Catches: a demoted row that a later arrival does not find, over any number of hops, in any window, group and order of
departures; one that is found twice; a row that visits and does not leave; a filter or a run that a snapshot forgets;
a file that stays behind.
"""

from __future__ import annotations

import gc
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import reference
from tests.kmon_cases import Case, broken_cases
from tests.kmon_engine import engine_of, held, matches_of, tables_of
from tests.kmon_measure import is_unique, measure
from tests.kmon_twin import taken
from tests.oracle.test_release_engine import exact, played

import windrow as wr
from windrow.kernels import layout as at
from windrow.spec import Duration
from windrow.spec.constraints import Unique
from windrow.state import demoted


@pytest.fixture(autouse=True)
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of a few rows go to disk, so that there are several."""
    monkeypatch.setattr(demoted, "YOUNG_BYTES", 700)


def promised(case: Case, seed: int, **changes: object) -> wr.Engine:
    """An engine that demotes, by declared constraints or by hasty monitors."""
    random = Random(seed)
    engine = engine_of(case.query, case.constraints)
    query = engine.query.with_(order=random.choice(["time", "arrival"]), **changes)
    if not case.constraints or random.random() < 0.4:
        query = query.with_(constraints=wr.Monitored(reaction=random.randint(1, 8), sample=random.choice([0.0, 0.3])))
    return wr.Engine(query.with_(on_violation="demote"))


@given(broken_cases(), st.integers(0, 2**32))
def test_broken_promises_cost_no_match(case: Case, seed: int) -> None:
    found, _ = played(case, Random(seed), promised(case, seed))
    assert found == exact(case)


@given(broken_cases(), st.integers(0, 2**32), st.integers(1, 12))
def test_under_a_budget_only_what_is_shed_is_lost(case: Case, seed: int, rows: int) -> None:
    found, engine = played(case, Random(seed), promised(case, seed, memory=rows))
    truth = exact(case)
    assert found <= truth
    if not engine.metrics.shed:
        assert found == truth


def is_broken(case: Case, rows: list[reference.Taken]) -> bool:
    """Whether rows break one of the promises."""
    for c in case.constraints:
        if isinstance(c, Unique):
            if not is_unique(case.query, rows, c):
                return True
            continue
        in_time = isinstance(c.k, Duration)
        if measure(case.query, rows, c, in_time) > (c.k.amount if in_time else c.k):
            return True
    return False


@given(broken_cases(), st.integers(0, 2**32))
def test_only_rows_that_were_released_are_missed_and_only_after_a_promise_was_broken(case: Case, seed: int) -> None:
    """on_violation='lose', row by row: of each match that is missing a row had left when its last came, and until then
    the rows had broken a promise."""
    random, rows = Random(seed), taken(case.query, case.arrivals)
    engine, (tables, places) = engine_of(case.query, case.constraints), tables_of(case.query, case.arrivals)
    found, place_of = Counter[tuple[int, ...]](), dict[int, int]()
    live: list[set[int]] = []  # before each arrival
    for place, (name, row) in enumerate(places):
        before = 0 if place == 0 else int(engine.bound()[1].words[at.Head.seq])
        status = held(engine) if place and engine.bound()[1].plan.releases else {}
        live.append({place_of[seq] for seq, known in status.items() if known < at.NO})
        batch = {n: t.slice(row, 1) if n == name else t.slice(0, 0) for n, t in tables.items()}
        found += matches_of(case.query, engine.push(batch))
        if int(engine.bound()[1].words[at.Head.seq]) > before:
            place_of[before] = place
        if random.random() < 0.5:
            engine.bound()[1].collect()
    truth = exact(case)
    assert found <= truth
    for match in truth - found:
        last = max(match)
        assert set(match) - {last} - live[last]
        assert is_broken(case, rows[: last + 1])


PAIR = wr.Query(
    streams=[wr.Stream("a", "t", 100), wr.Stream("b", "t", 100)],
    on="k",
    constraints=[wr.Unique("a", "k"), wr.Unique("b", "k")],
    on_violation="demote",
)


def pair(keys: Sequence[int], times: Sequence[int]) -> dict[str, pa.Table]:
    table = pa.table({"t": times, "k": keys, "text": [f"row {key}" for key in keys]})
    return {"a": table, "b": table}


def test_pairs_that_have_met_lie_on_disk_and_are_found_there() -> None:
    """Both sides leave at once; whoever breaks the promise finds them, and nobody stays in memory for it."""
    engine = wr.Engine(PAIR)
    assert engine.push(pair(range(1000), range(1000))).num_rows == 1000
    seen = engine.metrics
    assert seen.resident_rows == 0 and seen.released == 2000
    assert [line.rows for line in seen.demoted.values()] == [1000, 1000]
    again = pa.table({"t": [1000, 1000], "k": [950, 10], "text": ["again", "too late"]})
    found = engine.push({"a": again, "b": again.slice(0, 0)})
    assert found.select(["k", "b_text"]).to_pylist() == [{"k": 950, "b_text": "row 950"}]
    assert 1 <= engine.metrics.demoted["b"].found < 20  # the filter may err, now and then
    none = wr.Engine(PAIR.with_(on_violation="lose"))
    none.push(pair(range(1000), range(1000)))
    assert none.push({"a": again, "b": again.slice(0, 0)}).num_rows == 0


def test_what_has_expired_leaves_the_disk(tmp_path: Path) -> None:
    """Files go with the windows of their rows, and the rest of them with the engine."""
    engine = wr.Engine(PAIR.with_(on_violation=wr.Demote(tmp_path)))
    for start in range(0, 2000, 100):
        engine.push(pair(range(start, start + 100), range(start, start + 100)))
    held = engine.metrics.demoted["a"]
    assert held.rows == 2000 and held.held <= 400 and held.disk_bytes > 0
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.arrow")) == sum(
        line.disk_bytes for line in engine.metrics.demoted.values()
    )
    del engine
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_beyond_the_cap_of_the_disk_the_oldest_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = [stream.with_(window=wr.Window.unbounded()) for stream in PAIR.streams]
    engine = wr.Engine(PAIR.with_(streams=endless, on_violation=wr.Demote(disk=1 << 20)))
    for start in range(0, 20_000, 1000):
        engine.push(pair(range(start, start + 1000), range(start, start + 1000)))
    lines = engine.metrics.demoted.values()
    assert sum(line.disk_bytes for line in lines) <= 1 << 20
    assert all(line.held + line.dropped == line.rows == 20_000 and line.dropped > 0 for line in lines)
    last = pa.table({"t": [20_000, 20_000], "k": [19_999, 0], "text": ["found", "dropped"]})
    assert engine.push({"a": last, "b": last.slice(0, 0)})["k"].to_pylist() == [19_999]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("count_only", [False, True])
def test_shards_and_counts(shards: int, count_only: bool) -> None:
    """Every shard has a store of its own; where matches are only counted rows have no payload."""
    pushes = [pair(range(first, first + 90), range(t, t + 90)) for first, t in ((0, 0), (50, 90), (90, 180))]
    engine = wr.Engine(PAIR.with_(shards=shards), count_only=count_only)
    plain = wr.Engine(PAIR.with_(constraints=None, on_violation="lose", shards=shards))
    for tables in pushes:  # keys come again, up to three times
        engine.push(tables)
        engine = wr.Engine.restore(engine.snapshot())
        plain.push(tables)
    assert engine.metrics.matched == plain.metrics.matched > 270


def test_a_full_memory_gives_back_what_was_demoted() -> None:
    """on_full='fail': a push that does not fit has not happened, on disk either."""
    query = PAIR.with_(memory=20, on_full="fail")
    engine = wr.Engine(query)
    engine.push(pair(range(10), range(10)))
    before = engine.snapshot()
    lonely = pa.table({"t": range(20, 60), "k": range(100, 140), "text": ["x"] * 40})
    met = pa.table({"t": [20], "k": [5], "text": ["y"]})
    with pytest.raises(wr.errors.MemoryFull):
        engine.push({"a": lonely, "b": met})
    assert engine.snapshot() == before
    assert engine.push({"a": met, "b": met.slice(0, 0)}).num_rows == 1


def test_memory_and_windows_that_change_leave_what_is_demoted_as_it_was() -> None:
    """A larger budget goes on with the same store; a longer window brings back nothing that had expired."""
    engine = wr.Engine(PAIR.with_(memory="200 kB"))
    engine.push(pair(range(200), range(200)))
    engine.memory = "4 MB"
    engine.window("b", 10_000)
    assert wr.Engine.restore(engine.snapshot()).snapshot() == engine.snapshot()
    again = pa.table({"t": [200, 200], "k": [150, 10], "text": ["again", "too late"]})
    assert engine.push({"a": again, "b": again.slice(0, 0)})["k"].to_pylist() == [150]


def test_the_filter_takes_no_more_than_half_of_a_budget() -> None:
    """Beyond that the oldest demoted rows are dropped and counted; a budget that has no room for rows is kept."""
    endless = [stream.with_(window=wr.Window.unbounded()) for stream in PAIR.streams]
    query = PAIR.with_(streams=endless)
    least = next(size for size in range(8_000, 10**6, 1_000) if _accepts(query.with_(memory=f"{size} B")))
    for size in (least, 2 * least):
        engine = wr.Engine(query.with_(memory=f"{size} B"))
        for start in range(0, 40_000, 500):
            engine.push(pair(range(start, start + 500), range(start, start + 500)))
            assert engine.metrics.resident_bytes <= size
        lines = engine.metrics.demoted.values()
        assert all(line.held + line.dropped == line.rows == 40_000 and line.dropped > 0 for line in lines)
        last = pa.table({"t": [40_000, 40_000], "k": [39_999, 0], "text": ["new", "old"]})
        assert 0 not in engine.push({"a": last, "b": last.slice(0, 0)})["k"].to_pylist()


def _accepts(query: wr.Query) -> bool:
    try:
        wr.Engine(query, schemas={name: table.schema for name, table in pair(range(1), range(1)).items()})
    except wr.errors.MemoryTooSmall:
        return False
    return True


def test_what_a_sampler_leaves_out_departs_once() -> None:
    """A row that has met its partner in its own group is on disk when the sampler lets its group's rows go."""
    engine = wr.Engine(PAIR.with_(memory=50, sample=0.5))
    plain = wr.Engine(PAIR.with_(constraints=None, on_violation="lose"), count_only=True)
    for start in range(0, 3_000, 300):
        keys, times = start % 900, [start + k // 3 for k in range(300)]
        tables = {"a": pair(range(keys, keys + 300), times)["a"], "b": pair(range(keys - 2, keys + 298), times)["b"]}
        engine.push(tables)
        plain.push(tables)
        engine = wr.Engine.restore(engine.snapshot())
        seen = engine.metrics
        parts = (seen.resident_rows, seen.expired, seen.released, seen.shed)
        assert seen.arrived == sum(parts) and min(parts) >= 0
    assert seen.sampled > 0 and 0 < seen.matched <= plain.metrics.matched


def pairs(first: int, rows: int) -> dict[str, pa.Table]:
    """Keys that come once on each side, and once more on the right 40 rows later: the promise is broken."""
    left = range(first, first + rows)
    right = [k for n in left for k in (n, n - 40)]
    return {
        "left": pa.table({"t": left, "k": left, "text": ["x" * 50] * rows}),
        "right": pa.table({"t": [n for n in left for _ in range(2)], "k": right}),
    }


def test_a_folder_that_cannot_be_written_is_refused_and_one_that_goes_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    streams = [wr.Stream("left", "t", 100), wr.Stream("right", "t", 100)]
    unique = [wr.Unique("left", "k"), wr.Unique("right", "k")]
    for place in (tmp_path / "file", tmp_path / "file" / "below", "/proc/none"):
        query = wr.Query(streams=streams, on="k", constraints=unique, on_violation=wr.Demote(folder=place))
        with pytest.raises(wr.errors.InputError, match="cannot be kept in"):
            wr.Engine(query).push(pairs(0, 10))
    with pytest.raises(wr.errors.SpecError, match="folder"):
        wr.Demote(folder=5)  # type: ignore[arg-type]
    query = wr.Query(streams=streams, on="k", constraints=unique, on_violation=wr.Demote(folder=tmp_path / "new"))
    engine, found = wr.Engine(query), 0
    for k in range(20):
        found += engine.push(pairs(20 * k, 20)).num_rows
        shutil.rmtree(tmp_path / "new")
    assert found == 2 * 400 - 40 and sum(line.released for line in engine.metrics.streams.values()) > 0


def test_a_process_that_was_forked_leaves_the_files_alone() -> None:
    streams = [wr.Stream("left", "t", 100), wr.Stream("right", "t", 100)]
    unique = [wr.Unique("left", "k"), wr.Unique("right", "k")]
    engine, found = wr.Engine(wr.Query(streams=streams, on="k", constraints=unique, on_violation="demote")), 0
    for k in range(12):
        found += engine.push(pairs(20 * k, 20)).num_rows
        if k == 6:
            child = os.fork()
            if child == 0:
                try:
                    del engine  # what a child does when it ends
                    gc.collect()
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
    assert found == 2 * 240 - 40


def test_rows_that_the_disk_does_not_take_are_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    streams = [wr.Stream("left", "t", 100), wr.Stream("right", "t", 100)]
    unique = [wr.Unique("left", "k"), wr.Unique("right", "k")]
    engine = wr.Engine(wr.Query(streams=streams, on="k", constraints=unique, on_violation="demote"))

    def full(table: pa.Table, folder: Path) -> str:
        raise OSError(28, "No space left on device")

    engine.push(pairs(0, 100))
    monkeypatch.setattr(demoted, "_file", full)
    for k in range(5, 20):
        engine.push(pairs(20 * k, 20))
        line = engine.metrics
        assert line.arrived == line.late + line.ignored + line.resident_rows + line.expired + line.released + line.shed
    lines = engine.metrics.demoted.values()
    assert all(line.held + line.dropped <= line.rows and line.dropped > 0 for line in lines)
    assert [record.message for record in caplog.records if "No space left" in record.message]


@pytest.mark.parametrize("shards", [1, 3])
def test_a_restored_engine_keeps_demoted_rows_where_it_is_told(shards: int, tmp_path: Path) -> None:
    """Catches rows that go back to a folder that may be gone, or another machine's."""
    query = PAIR.with_(shards=shards, on_violation=wr.Demote(tmp_path / "old"))
    engine = wr.Engine(query)
    engine.push(pair(range(200), range(50, 250)))
    saved, held = engine.snapshot(), engine.metrics.demoted["a"]
    del engine
    gc.collect()
    (tmp_path / "old").rmdir()
    (tmp_path / "old").write_text("")
    with pytest.raises(wr.errors.WindrowError):
        wr.Engine.restore(saved)
    engine = wr.Engine.restore(saved, query.with_(on_violation=wr.Demote(tmp_path / "new")))
    assert engine.metrics.demoted["a"].held == held.held > 0 and list((tmp_path / "new").rglob("*.arrow"))
    again = pa.table({"t": [250], "k": [190], "text": ["again"]})
    assert engine.push({"a": again, "b": again.slice(0, 0)}).num_rows == 1


def test_spark_and_looks_are_refused_in_one_line() -> None:
    from windrow.engine import stages
    from windrow.spark.job import Job
    from windrow.spark.join import _check

    engine = wr.Engine(PAIR)
    tables = pair(range(3), range(3))
    engine.push(tables)
    with pytest.raises(wr.errors.WindrowError, match="a look sees residents alone"):
        stages.probe(engine, tables)
    with pytest.raises(wr.errors.SpecError, match="on_violation='demote' is for joins in one process"):
        _check(Job(PAIR, (), 2, True), False, None)
