"""Catches: compiled kernels of other sources that are loaded, deleted, or written where they must not be.

Every test runs fresh processes on a copy of the sources, with kernels small enough to compile at once.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from windrow.kernels import notice, python_gc

SOURCES = Path(__file__).resolve().parents[2] / "src" / "windrow"
PROGRAM = """
import json, numba, os, sys, tempfile, types
from pathlib import Path
before = numba.config.CACHE_DIR
windrow = sys.modules["windrow"] = types.ModuleType("windrow")  # instead of windrow/__init__.py, which loads all of it
windrow.__path__ = [sys.argv[1]]
import numpy as np
class Sealed:  # in place of a file's mode, which does not stop an administrator
    def __init__(self, dir):
        if "SEALED" in os.environ and str(dir).startswith(os.environ["SEALED"]):
            raise PermissionError(str(dir))
    def close(self):
        pass
tempfile.TemporaryFile = Sealed
from windrow.kernels import compiled, disk_cache, hashing, notice
notice.PATIENCE = 0.01
notice.NOTICE.describe("the join of two streams under PROB", 15)
for bundle in sys.argv[2:]:
    disk_cache.take_from(Path(bundle))
word = int(hashing.mix64(np.uint64(1)))
print(json.dumps({
    "word": word, "folder": str(compiled.FOLDER), "cache": hashing.mix64.stats.cache_path,
    "loaded": sum(hashing.mix64.stats.cache_hits.values()), "untouched": numba.config.CACHE_DIR == before,
}))
hashing.high64(np.uint64(1), np.uint64(1))
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the kernels' sources, in a folder of their own."""
    kernels = tmp_path / "windrow" / "kernels"
    shutil.copytree(SOURCES / "kernels", kernels, ignore=shutil.ignore_patterns("__pycache__"))
    return kernels


def start(kernels: Path, *bundles: Path, **environment: str) -> dict[str, Any]:
    """What a fresh process says about its compiled kernels."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    clean |= {"PYTHONDONTWRITEBYTECODE": "1", **environment}
    command = [sys.executable, "-c", PROGRAM, str(kernels.parent), *map(str, bundles)]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["untouched"]
    assert said["word"] == 6238072747940578789
    return {**said, "errors": done.stderr}


def files(folder: Path) -> set[Path]:
    return set(folder.rglob("*.nb[ic]"))


@pytest.mark.parametrize("named", [False, True])
def test_other_sources_have_another_folder_and_leave_the_first_alone(copy: Path, tmp_path: Path, named: bool) -> None:
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "named")} if named else {}
    first = start(copy, **environment)
    assert Path(first["folder"]).parent == (tmp_path / "named" if named else copy / "__pycache__")
    assert Path(first["cache"]).is_relative_to(first["folder"]) and first["loaded"] == 0
    kept = files(Path(first["folder"]))
    assert kept and bool(files(copy)) is not named
    layout = copy / "layout.py"
    same = layout.read_text()
    layout.write_text(same + "\n# changed\n")
    other = start(copy, **environment)
    assert other["folder"] != first["folder"] and other["loaded"] == 0
    assert files(Path(first["folder"])) == kept
    layout.write_text(same)
    again = start(copy, **environment)
    assert again["folder"] == first["folder"] and again["loaded"] == 1


def test_sources_elsewhere_find_the_same_code(copy: Path, tmp_path: Path) -> None:
    """In another folder, with other times of change, and in an archive, as Spark sends packages to its workers."""
    kept = {"NUMBA_CACHE_DIR": str(tmp_path / "named")}
    first = start(copy, **kept)
    moved = tmp_path / "elsewhere" / "windrow" / "kernels"
    shutil.copytree(copy, moved, copy_function=shutil.copyfile)
    packed = shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "windrow")
    for kernels in (moved, Path(packed, "windrow", "kernels")):
        said = start(kernels, **kept)
        assert said["folder"] == first["folder"] and said["loaded"] == 1


def test_each_kind_of_join_is_said_once_and_a_deferred_policy_when_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notice, "PATIENCE", 0.0)
    said: list[str] = []
    one = notice.Notice()
    one.say = said.append
    one.expect("prob", "the join of two streams under PROB", 25)

    def compiled() -> None:
        one.began()
        if one._timer is not None:
            one._timer.join()
        one.ended()

    one.describe("the exact join of two streams", 10)
    compiled()
    compiled()
    one.turn_to("fifo")  # which has been there from the first row
    compiled()
    one.turn_to("prob")
    compiled()
    one.describe("the exact join of two streams", 10)  # another engine
    compiled()
    one.turn_to("prob")
    compiled()
    names = [line.removeprefix("windrow is compiling ").partition(", ")[0] for line in said]
    assert names == ["the exact join of two streams", "the join of two streams under PROB"]


def test_compiling_is_said_once_and_loading_is_not(copy: Path) -> None:
    said = start(copy)
    pattern = r"windrow is compiling the join of two streams under PROB, once per machine: about (\d+) s\n"
    found = re.fullmatch(pattern, said["errors"])
    assert found is not None, said["errors"]
    assert 15 <= int(found[1]) <= 60
    assert start(copy)["errors"] == ""


@pytest.mark.parametrize("damage", ["cut", "another's"])
def test_a_file_that_is_not_what_it_should_be_is_compiled_again(copy: Path, damage: str) -> None:
    folder = Path(start(copy)["folder"])
    mine, other = next(folder.glob("hashing.mix64-*")), next(folder.glob("hashing.high64-*"))
    good = mine.read_bytes()
    mine.write_bytes(good[:1000] if damage == "cut" else other.read_bytes())
    assert start(copy)["loaded"] == 0
    assert len(mine.read_bytes()) == len(good) and start(copy)["loaded"] == 1


def test_a_bundle_stands_in_for_a_folder(copy: Path, tmp_path: Path) -> None:
    """Even where nothing can be written. What is not in it is compiled."""
    folder = Path(start(copy)["folder"])
    bundle = tmp_path / "bundle.zip"
    with zipfile.ZipFile(bundle, "w") as file:
        for path in folder.glob("hashing.mix64-*"):
            file.write(path, path.name)
    empty = {"NUMBA_CACHE_DIR": str(tmp_path / "empty")}
    assert start(copy, tmp_path / "missing.zip", bundle, **empty)["loaded"] == 1
    assert not list((tmp_path / "empty").rglob("hashing.mix64-*"))
    (tmp_path / "file").write_text("")
    nowhere = start(copy, bundle, NUMBA_CACHE_DIR=str(tmp_path / "file"))
    assert nowhere["folder"] == "None" and nowhere["loaded"] == 1


def test_sources_that_cannot_be_written_to(copy: Path, tmp_path: Path) -> None:
    """A file stands where the folder should be: this stops even an administrator."""
    (copy / "__pycache__").write_text("")
    said = start(copy, XDG_CACHE_HOME=str(tmp_path / "mine"), HOME=str(tmp_path / "home"))
    assert Path(said["folder"]).is_relative_to(tmp_path) and files(Path(said["folder"]))
    assert start(copy, XDG_CACHE_HOME=str(tmp_path / "mine"), HOME=str(tmp_path / "home"))["loaded"] == 1


def test_a_folder_that_cannot_be_written_to_is_read(copy: Path, tmp_path: Path) -> None:
    """As in an image that another user has made."""
    start(copy)
    said = start(copy, XDG_CACHE_HOME=str(tmp_path / "mine"), SEALED=str(copy))
    assert Path(said["folder"]).is_relative_to(tmp_path / "mine") and not files(Path(said["folder"]))
    assert said["loaded"] == 1 and said["errors"] == ""


def test_where_nothing_can_be_written_kernels_are_compiled_every_time(copy: Path, tmp_path: Path) -> None:
    (copy / "__pycache__").write_text("")
    (tmp_path / "file").write_text("")
    nowhere = str(tmp_path / "file")
    said = start(copy, XDG_CACHE_HOME=nowhere, HOME=nowhere)
    assert said["folder"] == "None" and said["cache"] is None
    assert "in every process" in said["errors"] and "NUMBA_CACHE_DIR" in said["errors"]


def test_of_processes_that_start_together_one_compiles(copy: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        said = list(pool.map(lambda _: start(copy), range(3)))
    assert len({s["folder"] for s in said}) == 1
    assert sorted(s["loaded"] for s in said) == [0, 1, 1]
    assert start(copy)["loaded"] == 1


def test_garbage_is_looked_for_as_before_once_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Python ignores the third number, and after functions inside functions."""
    now = [(700, 10, 0)]
    monkeypatch.setattr(python_gc.gc, "get_threshold", lambda: now[-1])
    monkeypatch.setattr(python_gc.gc, "set_threshold", lambda one, two, _: now.append((one, two, 0)))
    mine = python_gc.Garbage()
    mine.began()
    mine.began()
    mine.ended()
    assert now[-1] == (*python_gc.RARELY[:2], 0)
    mine.ended()
    assert now[-1] == (700, 10, 0)
