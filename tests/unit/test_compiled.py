"""Catches: compiled kernels of other sources that are loaded, deleted, or written where they must not be.

Every test runs fresh processes on a copy of the sources, with kernels small enough to compile at once.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "src" / "windrow"
PROGRAM = """
import json, numba, sys, types
before = numba.config.CACHE_DIR
windrow = sys.modules["windrow"] = types.ModuleType("windrow")  # instead of windrow/__init__.py, which loads all of it
windrow.__path__ = [sys.argv[1]]
import numpy as np
from windrow.kernels import compiled, hashing
word = int(hashing.mix64(np.uint64(1)))
print(json.dumps({
    "word": word, "folder": str(compiled.FOLDER), "cache": hashing.mix64.stats.cache_path,
    "loaded": sum(hashing.mix64.stats.cache_hits.values()), "untouched": numba.config.CACHE_DIR == before,
}))
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the kernels' sources, in a folder of their own."""
    kernels = tmp_path / "windrow" / "kernels"
    shutil.copytree(SOURCES / "kernels", kernels, ignore=shutil.ignore_patterns("__pycache__"))
    return kernels


def start(kernels: Path, **environment: str) -> dict[str, Any]:
    """What a fresh process says about its compiled kernels."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    clean |= {"PYTHONDONTWRITEBYTECODE": "1", **environment}
    command = [sys.executable, "-c", PROGRAM, str(kernels.parent)]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["untouched"]
    assert said["word"] == 6238072747940578789
    return said


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


def test_sources_that_cannot_be_written_to(copy: Path, tmp_path: Path) -> None:
    """A file stands where the folder should be: this stops even an administrator."""
    (copy / "__pycache__").write_text("")
    said = start(copy, XDG_CACHE_HOME=str(tmp_path / "mine"), HOME=str(tmp_path / "home"))
    assert Path(said["folder"]).is_relative_to(tmp_path) and files(Path(said["folder"]))
    assert start(copy, XDG_CACHE_HOME=str(tmp_path / "mine"), HOME=str(tmp_path / "home"))["loaded"] == 1


def test_where_nothing_can_be_written_kernels_are_compiled_every_time(copy: Path, tmp_path: Path) -> None:
    (copy / "__pycache__").write_text("")
    (tmp_path / "file").write_text("")
    nowhere = str(tmp_path / "file")
    said = start(copy, XDG_CACHE_HOME=nowhere, HOME=nowhere)
    assert said["folder"] == "None" and said["cache"] is None


def test_processes_that_start_together_do_not_disturb_each_other(copy: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        said = list(pool.map(lambda _: start(copy), range(3)))
    assert len({s["folder"] for s in said}) == 1
    assert start(copy)["loaded"] == 1
