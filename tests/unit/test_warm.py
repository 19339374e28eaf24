"""The cache of parked shards: what fits exactly is found, once, and everything else is not.

Catches: folders that two tasks share, versions that are taken for another, folders of dead processes that stay, caches
that grow beyond their bounds, or that others could read.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.contract.test_parked import query, rows

import windrow as wr
from windrow.spark.warm import OFF, PLACE, Cache, Key, chained

FIRST = Key("query", 0, "a")


def engine(pushes: int = 1) -> wr.Engine:
    found = wr.Engine(query(memory=60))
    for k in range(pushes):
        found.push(rows(50 * k))
    return found


def parked(cache: Cache) -> list[str]:
    assert cache.folder is not None
    return sorted(os.listdir(cache.folder))


def test_a_shard_goes_from_version_to_version(tmp_path: Path) -> None:
    cache, version = Cache(tmp_path), "a"
    assert cache.put(FIRST, engine())
    for k in range(1, 4):
        found, folder = cache.engine(Key("query", 0, version))
        assert found is not None
        assert cache.engine(Key("query", 0, version)) == (None, None)  # it is in our hands
        found.push(rows(50 * k))
        version = chained(version, b"blob %d" % k)
        assert cache.put(Key("query", 0, version), found, folder)
        assert len(parked(cache)) == 1
    found, _ = cache.engine(Key("query", 0, version), query=query(memory=60))
    assert found is not None and found.snapshot() == engine(4).snapshot()


@pytest.mark.parametrize("other", [Key("another", 0, "a"), Key("query", 1, "a"), Key("query", 0, "b")])
def test_another_query_shard_or_version_is_not_found(tmp_path: Path, other: Key) -> None:
    cache = Cache(tmp_path)
    cache.put(FIRST, engine())
    assert cache.claim(other) is None
    assert cache.claim(FIRST) is not None


def test_what_was_pushed_is_in_the_version_piece_by_piece() -> None:
    versions = [chained("a", b"xy"), chained("a", b"x", b"y"), chained("b", b"xy"), chained("a", b"xy", b"")]
    assert len(set(versions)) == len(versions)


def test_a_retry_leaves_one_folder_of_a_version_or_none_of_an_older_one(tmp_path: Path) -> None:
    one, other = Cache(tmp_path), Cache(tmp_path)
    one.put(FIRST, engine())
    found, folder = one.engine(FIRST)
    assert found is not None and other.engine(FIRST) == (None, None)  # the other task rebuilds it
    later = Key("query", 0, "b")
    assert other.put(later, engine(2))
    found.push(rows(50))
    assert one.put(later, found, folder)
    assert {name.rpartition("-")[0] + "-" for name in parked(one)} == {later.name}
    assert other.put(Key("query", 0, "c"), engine(3))
    assert all(name.startswith(Key("query", 0, "c").name) for name in parked(one))


def test_a_folder_that_does_not_fit_is_thrown_away(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(FIRST, engine())
    assert cache.engine(FIRST, query=query(memory=60).with_(on="s")) == (None, None)
    assert parked(cache) == []


def claim_and_wait(place: Path, ready: Any) -> None:
    found, _ = Cache(place).engine(FIRST)
    ready.put(found is not None)
    time.sleep(60)


def test_a_process_that_dies_leaves_nothing_that_is_used_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(FIRST, engine())
    started = multiprocessing.get_context("fork")
    ready = started.Queue()
    process = started.Process(target=claim_and_wait, args=(tmp_path, ready), daemon=True)
    process.start()
    assert ready.get(timeout=60)
    cache.put(Key("query", 1, "a"), engine())
    assert len(parked(cache)) == 2 and cache.claim(FIRST) is None  # its folder stays as long as it lives
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    cache.put(Key("query", 2, "a"), engine())
    assert [name for name in parked(cache) if name.startswith("work")] == []
    assert cache.claim(FIRST) is None


def test_a_task_that_gives_up_gives_its_folder_up(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(FIRST, engine())
    found, _ = cache.engine(FIRST)
    cache.put(Key("query", 1, "a"), engine())
    assert found is not None and len(parked(cache)) == 2
    del found
    cache.put(Key("query", 2, "a"), engine())
    assert [name.split("-")[1] for name in parked(cache)] == ["1", "2"]


def test_it_keeps_to_its_bounds_and_the_last_used_stay(tmp_path: Path) -> None:
    cache = Cache(tmp_path, most_folders=3)
    for shard in range(5):
        cache.put(Key("query", shard, "a"), engine())
        time.sleep(0.01)
    assert [shard for shard in range(5) if cache.claim(Key("query", shard, "a")) is not None] == [2, 3, 4]


def test_it_keeps_to_its_bytes(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(FIRST, engine())
    assert cache.folder is not None
    files = (cache.folder / parked(cache)[0]).iterdir()
    size = cache.held_bytes(FIRST)
    assert size == sum(file.stat().st_size for file in files) and cache.held_bytes(Key("query", 0, "b")) == 0
    cache.forget("query")
    cache.most_bytes = 2 * size + size // 2
    for shard in range(4):
        cache.put(Key("query", shard, "a"), engine())
        time.sleep(0.01)
    assert [shard for shard in range(4) if cache.claim(Key("query", shard, "a")) is not None] == [2, 3]


def test_what_nobody_asks_for_is_removed_and_so_is_a_query_that_has_ended(tmp_path: Path) -> None:
    cache = Cache(tmp_path, most_seconds=100)
    cache.put(FIRST, engine())
    cache.put(Key("ended", 0, "a"), engine())
    assert cache.folder is not None
    for name in parked(cache):
        os.utime(cache.folder / name, (0, time.time() - 101))
    cache.put(Key("query", 1, "a"), engine())
    assert len(parked(cache)) == 1
    cache.forget("query")
    assert parked(cache) == []


@pytest.mark.parametrize("name", ["lost+found", ".nfs0001", "a-b-c-", "work-x"])
def test_what_is_not_its_own_costs_nothing(tmp_path: Path, name: str) -> None:
    """Catches a micro-batch that fails because something else lies in the folder: left by a file system, or a user."""
    cache = Cache(tmp_path, most_folders=1)
    assert cache.folder is not None
    (cache.folder / name).write_text("")
    assert cache.put(FIRST, engine()) and cache.put(Key("query", 1, "a"), engine())
    assert len(parked(cache)) == 2 and cache.held_bytes(Key("query", 1, "a")) > 0


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.folder is not None
    (cache.folder / "work-of-mine").mkdir()
    assert cache.put(FIRST, engine())
    assert (cache.folder / "work-of-mine").is_dir()


def test_a_folder_that_is_removed_costs_the_cache_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path)
    assert cache.folder is not None
    monkeypatch.setattr(cache, "_ages", lambda: shutil.rmtree(cache.folder) or ())  # while somebody cleans up
    assert cache.put(FIRST, engine())
    assert cache.claim(FIRST) is None and not cache.put(FIRST, engine())


def test_it_is_private_and_refuses_what_is_not(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.folder is not None and cache.folder.stat().st_mode & 0o777 == 0o700
    os.chmod(cache.folder, 0o755)
    open_to_all = Cache(tmp_path)
    assert open_to_all.folder is None and not open_to_all.put(FIRST, engine()) and open_to_all.claim(FIRST) is None


def test_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("named", "spark"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'spark'},{tmp_path / 'second'}")
    assert Cache().folder == tmp_path / "spark" / f"windrow-warm-{os.geteuid()}"
    monkeypatch.setenv(PLACE, str(tmp_path / "named"))
    assert Cache().folder == tmp_path / "named" / f"windrow-warm-{os.geteuid()}"
    monkeypatch.setenv(PLACE, OFF)
    assert Cache().folder is None and not Cache().put(FIRST, engine())
    monkeypatch.setenv(PLACE, str(tmp_path / "missing"))
    assert Cache().folder is None


def test_a_disk_that_is_full_costs_the_cache_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    cache = Cache(tmp_path)
    monkeypatch.setattr("windrow.engine.parking.write_words", full)
    assert not cache.put(FIRST, engine())
    assert parked(cache) == []
