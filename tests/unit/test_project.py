"""The project's habits.

Catches: files that outgrow a reader, names that say nothing, paths of one machine, texts that no longer list
what exists.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import windrow

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MAX_LINES = 500
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "v2", "old"}
BINARY = {".png", ".parquet", ".arrow", ".gz"}
# Written so that this file does not match itself.
MACHINE_PATH = re.compile(r"(?<![\w./:-])/(?:work|tmp|home|root|opt|Users|mnt|srv)/\w")
PACKAGE_INDEX = re.compile(r"--(?:extra-)?index-url|--find-links")


def project_files() -> list[Path]:
    """Every file that is, or is about to be, under version control."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
        paths = [ROOT / name for name in listed.split("\0") if name]
    else:  # an unpacked source archive
        folders = ("src", "tests", "docs", "benchmarks", "examples")
        paths = [*ROOT.glob("*.md"), *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
    return sorted(path for path in paths if path.is_file() and "__pycache__" not in path.parts)


def test_there_is_something_to_look_at() -> None:
    assert SOURCES
    assert ROOT / "pyproject.toml" in project_files() or not (ROOT / ".git").exists()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_source_file_fits_a_reader(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES, f"{path.name} has {lines} lines: ask what two things it holds"


def test_names_say_what_a_file_holds() -> None:
    bad = [
        str(relative)
        for relative in (path.relative_to(ROOT) for path in project_files())
        for part in relative.with_suffix("").parts
        if FORBIDDEN_NAMES & set(re.split(r"[_.-]", part.lower()))
    ]
    assert not bad


def test_text_names_no_machine_path_and_no_package_index() -> None:
    bad = []
    for path in project_files():
        if path.suffix in BINARY or path == Path(__file__).resolve():
            continue
        text = path.read_text(encoding="utf-8")
        if not (MACHINE_PATH.search(text) or PACKAGE_INDEX.search(text)):
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if MACHINE_PATH.search(line) or PACKAGE_INDEX.search(line):
                bad.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not bad, "\n".join(bad)


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    missing = [path.name for path in folder.glob("[0-9]*.md") if f"({path.name})" not in index]
    assert not missing


def test_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert windrow.__version__ == project["version"]
    assert f"## [{project['version']}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_no_word_of_the_layout_has_two_meanings() -> None:
    """A name that is given twice makes kernels write over another's words without any error."""
    tree = ast.parse((ROOT / "src/windrow/kernels/layout.py").read_text())
    for scope in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
        targets = [t for node in scope.body if isinstance(node, ast.Assign) for t in node.targets]
        names = [name.id for t in targets for name in ast.walk(t) if isinstance(name, ast.Name)]
        assert [name for name, times in Counter(names).items() if times > 1] == []
