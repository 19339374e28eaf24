"""Parked and attached, restored, or neither: an engine goes on in the same way, to the byte.

Generated histories of every policy (tests/histories.py) and of constraints (tests/kmon_cases.py) are lived by an engine
that is never left, by one that is parked and attached after every step, and by one that is now parked, now restored,
now left alone. After each step all have found and lost the same, say the same and give the same snapshot.

Catches: memory that is not in the folder, chunks and blocks that are taken for written and are not, state that depends
on where a block lies or how large it is, folders that two processes can have, or that are attached half written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from tests import kmon_cases
from tests.contract.test_generated import assert_same_state, assert_same_tables, outcome, told
from tests.histories import SAMPLES, WHOLE, History, histories
from tests.kmon_engine import engine_of, tables_of
from tests.running import examples
from tests.streams import DEFAULT

import windrow as wr
from windrow import policies
from windrow.errors import SnapshotError, WindrowError

OTHERS = [policy for policy in (*policies.ALL, policies.Given) if policy is not DEFAULT]
TRIALS: dict[str, dict[str, Any]] = {"": {}, "forks": {"tried": WHOLE}, "samples": {"tried": SAMPLES}}
MANY = {"": 16, "forks": 20, "samples": 40}  # histories; in few of them a sample is tried


class Triplets:
    """An engine that is never left, one that is parked after every step, and one to which this or that happens."""

    def __init__(self, engines: list[wr.Engine], folder: Path, random: Random) -> None:
        self.engines, self.folder, self.random = engines, folder, random

    def step(self, step: Any) -> wr.Engine:
        """Let all take a step, and go on with what was left; the engine that was never left."""
        found = [outcome(step, engine) for engine in self.engines]
        lost = [engine.departed() if engine._keeps_departures else {} for engine in self.engines]
        self.engines[1] = parked(self.engines[1], self.folder / "always")
        happens = self.random.choice(["parked", "elsewhere", "restored", "nothing"])
        if happens == "restored":
            self.engines[2] = wr.Engine.restore_pieces(self.engines[2].snapshot_pieces(100))
        elif happens != "nothing":
            self.engines[2] = parked(self.engines[2], self.folder / happens)
        state = self.engines[0].snapshot()
        for k in (1, 2):
            assert found[k][1] == found[0][1]
            assert_same_tables(found[0][0], found[k][0])
            assert_same_tables(lost[0], lost[k])
            assert_same_state(state, self.engines[k].snapshot())
            assert told(self.engines[k]) == told(self.engines[0])
        assert held(self.engines[1]) == held(self.engines[0])
        return self.engines[0]


def held(engine: wr.Engine) -> Any:
    """Bytes of blocks, and rows of payload, dead ones included: what lies in a mapping is counted as what does not."""
    if engine._shard is None:
        return 0
    return (
        engine._shard.allocated_bytes,
        engine._tracker and engine._tracker.allocated_bytes,
        [payload.rows for payload in engine._payloads],
    )


def parked(engine: wr.Engine, folder: Path) -> wr.Engine:
    engine.park(folder, "key")
    return wr.Engine.attach(folder, key="key")


@pytest.fixture
def folders(tmp_path: Path) -> Any:
    """A new folder for every example."""
    return (tmp_path / str(k) for k in range(10**9))


def without_disk(history: History) -> History:
    """The history with rows that are lost where a constraint is broken: engines that demote them are not parked."""
    if history.case.query.demotes is None:
        return history
    return replace(history, case=history.case.with_query(on_violation="lose"))


@pytest.mark.parametrize("policy, trial", [*((DEFAULT, t) for t in TRIALS), *((policy, "") for policy in OTHERS)])
def test_a_parked_engine_goes_on_as_one_that_was_never_left(
    policy: type[policies.Policy], trial: str, folders: Any
) -> None:
    seen: Counter[str] = Counter()

    @examples(MANY[trial] if policy is DEFAULT else 10)
    @given(histories(policy, **TRIALS[trial]).map(without_disk))
    def search(history: History) -> None:
        with history.constants():
            engines = [history.never_restored(), history.never_restored(), history.engine()]
            triplets = Triplets(engines, next(folders), Random(len(history.steps)))
            for step in history.steps:
                engine = triplets.step(step)
                trials = engine._shard.trials if engine._shard is not None else None
                seen.update({
                    "shed": engine.metrics.shed > 0,
                    "recall": engine._tracker is not None and engine._tracker.begun,
                    "forks": trials is not None and bool(trials.forks) and trials.sample.is_whole,
                    "samples": trials is not None and bool(trials.forks) and not trials.sample.is_whole,
                })  # fmt: skip

    search()
    assert all(seen[name] for name in ("shed", "recall", trial or "shed")), seen


def test_constraints_and_their_monitors_are_parked_too(folders: Any) -> None:
    released = 0

    @examples(14)
    @given(kmon_cases.cases())
    def search(case: kmon_cases.Case) -> None:
        nonlocal released
        tables, places = tables_of(case.query, case.arrivals)
        random = Random(len(places))
        made = random.choice([case.constraints, "auto", "watch"])
        engines = [engine_of(case.query, []) for _ in range(3)]
        if made:
            engines = [wr.Engine(engine.query.with_(constraints=made)) for engine in engines]
        triplets, start = Triplets(engines, next(folders), random), 0
        while start < len(places):
            end = start + random.randint(1, 8)
            batch = {name: table.slice(0, 0) for name, table in tables.items()}
            for name in batch:
                mine = [row for stream, row in places[start:end] if stream == name]
                batch[name] = tables[name].take(pa.array(mine, pa.int64()))
            released += triplets.step(_Pushed(batch)).metrics.released
            start = end

    search()
    assert released > 0


class _Pushed:
    def __init__(self, batch: dict[str, pa.Table]) -> None:
        self.batch = batch

    def take(self, engine: wr.Engine) -> Any:
        return engine.push(self.batch)


# ------------------------------------------------------------------------------------------------ folders


def query(**more: Any) -> wr.Query:
    streams = [wr.Stream("a", "t", 1000), wr.Stream("b", "t", 1000)]
    return wr.Query(streams=streams, on="k", **more)


def rows(start: int, count: int = 50) -> dict[str, pa.Table]:
    random = Random(start)
    table = pa.table({
        "t": range(start, start + count), "k": [random.randrange(20) for _ in range(count)], "s": ["x"] * count,
    })  # fmt: skip
    return {"a": table, "b": table}


def engine(start: int = 0, **more: Any) -> wr.Engine:
    found = wr.Engine(query(**more))
    found.push(rows(start))
    return found


def test_a_push_after_attaching_writes_no_block_and_only_new_chunks(tmp_path: Path) -> None:
    one = wr.Engine(query())
    one.push(rows(0, 900))
    one.park(tmp_path)
    before = {path.name: path.stat().st_ino for path in tmp_path.iterdir()}
    one = wr.Engine.attach(tmp_path)
    one.push(rows(900, 40))
    one.park(tmp_path)
    after = {path.name: path.stat().st_ino for path in tmp_path.iterdir()}
    new = {name for name in after if name not in before} | {n for n in after if after[n] != before.get(n, after[n])}
    assert sorted(name.partition("-")[0] for name in new) == ["chunk", "chunk", "parked.json"]
    assert {name for name in before if name.startswith("block")} == {n for n in after if n.startswith("block")}


def test_a_block_that_has_grown_moves_into_a_new_file_and_the_old_one_goes(tmp_path: Path) -> None:
    engine().park(tmp_path)
    (old,) = tmp_path.glob("block-*")
    one = wr.Engine.attach(tmp_path)
    one.push(rows(100, 5000))
    one.park(tmp_path)
    (new,) = tmp_path.glob("block-*")
    assert new.name != old.name and new.stat().st_size == wr.Engine.attach(tmp_path)._shard.words.nbytes  # type: ignore[union-attr]


def test_another_process_goes_on_with_it(tmp_path: Path) -> None:
    one, other = engine(memory=60), engine(memory=60)
    one.park(tmp_path)
    program = (
        "import sys, windrow as wr\nfrom tests.contract.test_parked import rows\n"
        "one = wr.Engine.attach(sys.argv[1]); one.push(rows(50)); one.park(sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, cwd=Path(__file__).parents[2])
    other.push(rows(50))
    assert wr.Engine.attach(tmp_path).snapshot() == other.snapshot()


def test_a_folder_is_attached_once(tmp_path: Path) -> None:
    engine().park(tmp_path)
    one = wr.Engine.attach(tmp_path)
    with pytest.raises(SnapshotError, match="no engine to attach"):
        wr.Engine.attach(tmp_path)
    one.park(tmp_path)
    wr.Engine.attach(tmp_path)


def test_an_engine_that_was_parked_does_nothing_more(tmp_path: Path) -> None:
    one = engine()
    one.park(tmp_path)
    for call in (lambda: one.push(rows(50)), one.snapshot, lambda: one.metrics, lambda: one.park(tmp_path)):
        with pytest.raises(WindrowError, match="was parked"):
            call()
    assert one.allocated_bytes == 0


@pytest.mark.parametrize("change", [{"key": "other"}, {"query": query(memory=10).with_(on="s")}, {"recall": True}])
def test_what_does_not_fit_is_not_attached(tmp_path: Path, change: dict[str, Any]) -> None:
    one = wr.Engine(query(), recall=False)
    one.push(rows(0))
    one.park(tmp_path, "key")
    with pytest.raises(SnapshotError):
        wr.Engine.attach(tmp_path, **{"key": "key", **change})


@pytest.mark.parametrize("word", ["fits", "block", "chunk", "trial"])
def test_a_folder_of_another_windrow_or_with_a_file_missing_is_refused(tmp_path: Path, word: str) -> None:
    engine(memory=60).park(tmp_path)
    header = json.loads((tmp_path / "parked.json").read_text())
    if word == "fits":
        (tmp_path / "parked.json").write_text(json.dumps(header | {"fits": "0"}))
    elif word == "trial":
        del header["shard"]["trial"]
        (tmp_path / "parked.json").write_text(json.dumps(header))
    else:
        next(tmp_path.glob(f"{word}-*")).unlink()
    with pytest.raises(SnapshotError):
        wr.Engine.attach(tmp_path)


def test_a_folder_that_others_can_read_is_neither_parked_in_nor_attached(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    engine().park(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    os.chmod(folder, 0o755)
    with pytest.raises(SnapshotError, match="this user alone"):
        wr.Engine.attach(folder)
    with pytest.raises(SnapshotError, match="this user alone"):
        engine().park(folder)
    link = tmp_path / "link"
    os.chmod(folder, 0o700)
    link.symlink_to(folder)
    with pytest.raises(SnapshotError, match="this user alone"):
        wr.Engine.attach(link)


def test_what_is_half_written_is_not_attached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = engine()
    one.park(tmp_path)
    one = wr.Engine.attach(tmp_path)
    one.push(rows(50))
    monkeypatch.setattr("windrow.engine.parking.write_rows", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError):
        one.park(tmp_path)
    with pytest.raises(SnapshotError):
        wr.Engine.attach(tmp_path)
    assert one.metrics.arrived == 200  # it goes on, and can be saved in another way
    monkeypatch.undo()
    one.park(tmp_path)
    assert wr.Engine.attach(tmp_path).metrics.arrived == 200


def test_an_engine_with_shards_and_one_without_state_are_parked_too(tmp_path: Path) -> None:
    one, other = (engine(memory=60, shards=3) for _ in range(2))
    one.park(tmp_path / "shards")
    again = wr.Engine.attach(tmp_path / "shards")
    assert again.push(rows(50)) == other.push(rows(50)) and again.snapshot() == other.snapshot()
    wr.Engine(query()).park(tmp_path / "unbound")
    assert wr.Engine.attach(tmp_path / "unbound").push(rows(0)) == wr.Engine(query()).push(rows(0))


def test_rows_that_were_lost_are_asked_for_first(tmp_path: Path) -> None:
    one = wr.Engine(query(memory=10), departures=True)
    one.push(rows(0))
    with pytest.raises(WindrowError, match=r"park: rows that were lost.*departed"):
        one.park(tmp_path)
    one.departed()
    one.park(tmp_path)
    assert set(wr.Engine.attach(tmp_path).departed()) == {"a", "b"}
