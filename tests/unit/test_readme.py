"""Pages do what they say: every program and command on them is run as a reader would, and prints what stands below it.

Catches: printed figures that are no longer true, a program that runs only where an environment is activated or only
once, a name or an option in the text that does not exist, a link to nowhere, a block that nobody runs.

    pytest tests/unit/test_readme.py --write-readme     # writes what programs print now below them
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.spark.settings import JAVA_OPTIONS

from windrow import policies
from windrow.cli import app

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BLOCK = re.compile(r"^```(.*)\n((?:(?!```).*\n)*)```$", re.MULTILINE)
BLOCK_OR_HEADING = re.compile(f"{BLOCK.pattern}|^#+ (.*)$", re.MULTILINE)
TARGET = re.compile(r"^make (\S+)", re.MULTILINE)  # not run: they set up an environment, and one of them runs this


@dataclass(frozen=True)
class Block:
    """A program ("python"), commands ("sh"), or what the program above prints ("")."""

    language: str
    text: str


@dataclass(frozen=True)
class Section:
    """A part of a page below one heading, with blocks that are run in one folder, in order."""

    page: Path
    title: str
    blocks: tuple[Block, ...]

    def __str__(self) -> str:
        return f"{self.page.stem}: {self.title}"


def sections() -> list[Section]:
    found = []
    for page in PAGES:
        title, blocks = "", {}
        for language, text, heading in BLOCK_OR_HEADING.findall(page.read_text(encoding="utf-8")):
            title = heading or title
            if not heading:
                blocks.setdefault(title, []).append(Block(language, text))
        found += [Section(page, title, tuple(there)) for title, there in blocks.items()]
    return found


def surroundings() -> dict[str, str]:
    """A shell in which no environment is activated: neither the path nor a variable leads to this Python."""
    here = Path(sys.executable).parent
    path = [folder for folder in os.environ["PATH"].split(os.pathsep) if Path(folder) != here]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK", "VIRTUAL"))}
    return {**kept, "PATH": os.pathsep.join(path), "PYTHONPATH": str(ROOT / "src"), "JAVA_TOOL_OPTIONS": JAVA_OPTIONS}


def run(command: list[str], folder: Path, env: Mapping[str, str]) -> str:
    env = {**env, "TMPDIR": str(folder)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_program(text: str, folder: Path, more: Mapping[str, str]) -> str:
    (folder / "program.py").write_text(text, encoding="utf-8")
    return run([sys.executable, "program.py"], folder, {**surroundings(), **more})


# Starts the Java that Spark runs in as `getOrCreate` does, tells how to reach it, and ends it with this process.
LAUNCH = """
import sys
from pyspark.java_gateway import launch_gateway
gateway = launch_gateway()
print(gateway.java_parameters.port, gateway.java_parameters.auth_token, flush=True)
sys.stdin.read()
"""
USES_SPARK = "SparkSession"


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Variables by which programs find a Java that has got going: each has a process and a session of its own in it,
    and stops the session. Commands start a Java of their own."""
    folder = tmp_path_factory.mktemp("java")
    command, env = [sys.executable, "-c", LAUNCH], {**surroundings(), "TMPDIR": str(folder)}
    with subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as it:
        assert it.stdin is not None and it.stdout is not None
        port, secret = it.stdout.readline().split()
        yield {"PYSPARK_GATEWAY_PORT": port, "PYSPARK_GATEWAY_SECRET": secret}
        it.stdin.close()


def for_spark(text: str, request: pytest.FixtureRequest) -> dict[str, str]:
    """What a program finds in its surroundings beside the rest, if it uses Spark."""
    found: dict[str, str] = request.getfixturevalue("java") if USES_SPARK in text else {}
    return found


def run_commands(text: str, folder: Path) -> None:
    """Commands, with `windrow` on the path; what they print has times in it, and is not compared."""
    (folder / "bin").mkdir(exist_ok=True)
    command = folder / "bin" / "windrow"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m windrow "$@"\n')
    command.chmod(0o755)
    env = surroundings()
    # Also in a shell that is set up for another Spark: the session is windrow's own.
    env |= {"PATH": os.pathsep.join([str(command.parent), env["PATH"]]), "PYSPARK_PYTHON": "no-such-python"}
    run(["sh", "-e", "-c", text], folder, env)


def write(section: Section, program: str, before: str, after: str) -> None:
    """Put what a program prints below it."""
    stands = f"{program}```\n" + (f"\n```\n{before}```\n" if before else "")
    page = section.page.read_text(encoding="utf-8")
    assert page.count(stands) == 1
    written = f"{program}```\n\n```\n{after}```\n" if after else f"{program}```\n"
    section.page.write_text(page.replace(stands, written), encoding="utf-8")


def difference(expected: str, printed: str) -> str:
    lines = unified_diff(expected.splitlines(), printed.splitlines(), "stands there", "is printed", lineterm="")
    return "\n".join([*lines, "write it anew: pytest tests/unit/test_readme.py --write-readme"])


@pytest.mark.parametrize("section", sections(), ids=str)
def test_programs_print_what_stands_below_them_and_commands_run(
    section: Section, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    following = [*section.blocks[1:], Block("end", "")]
    for block, after in zip(section.blocks, following, strict=True):
        if block.language == "sh" and not TARGET.match(block.text):
            run_commands(block.text, tmp_path)
        if block.language == "python":
            expected = "" if after.language else after.text
            printed = run_program(block.text, tmp_path, for_spark(block.text, request))
            if request.config.getoption("--write-readme"):
                write(section, block.text, expected, printed)
            elif printed != expected:
                pytest.fail(difference(expected, printed), pytrace=False)


def test_every_block_is_run_or_what_a_program_prints() -> None:
    """The commands that are not run are targets of make, which exist."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for section in sections():
        kinds = ["start", *(block.language for block in section.blocks)]
        assert set(kinds) <= {"start", "python", "sh", "text", ""}, section  # text: a drawing
        assert all(before == "python" for before, kind in pairwise(kinds) if kind == ""), section
        for block in section.blocks:
            targets = TARGET.findall(block.text) if block.language == "sh" else []
            assert not targets or len(targets) == len(block.text.splitlines()), section
            assert all(re.search(f"^{target}:", makefile, re.MULTILINE) for target in targets), section
    for page in PAGES:  # a fence that the pattern does not see, by indentation for example
        text = page.read_text(encoding="utf-8")
        assert len(re.findall(r"^\s*(?:```|~~~)", text, re.MULTILINE)) == 2 * len(BLOCK.findall(text)), page


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_as_it_stands(path: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Examples compare their matches with the exact join themselves, and end with an error if they differ."""
    assert f"({path.relative_to(ROOT)})" in README.read_text(encoding="utf-8")
    env = {**surroundings(), **for_spark(path.read_text(encoding="utf-8"), request)}
    assert "matches" in run([sys.executable, str(path)], tmp_path, env)


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        titles = {re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in re.findall(r"^#+ (.*)$", text, re.M)}
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if target.startswith("#"):
                assert target[1:] in titles, f"{page.name}: {target}"
            elif "://" not in target:
                assert (page.parent / target.split("#")[0]).exists(), f"{page.name}: {target}"


def test_readme_names_every_policy() -> None:
    words = set(re.findall(r"[\w-]+", README.read_text(encoding="utf-8").lower()))
    assert {str(policy.name) for policy in policies.ALL} <= words


def test_names_and_options_of_the_readme_exist() -> None:
    text = README.read_text(encoding="utf-8")
    for name in set(re.findall(r"\b(?:wr|windrow)((?:\.[A-Za-z_]\w*)+)", text)):
        resolve(name.strip(".").split("."))
    commands = list(all_commands(typer.main.get_command(app)))
    known = {option for command in commands for parameter in command.params for option in parameter.opts}
    spans = re.findall(r"`([^`\n]+)`", text) + [b.text for s in sections() for b in s.blocks if b.language == "sh"]
    used = {option for span in spans for option in re.findall(r"(?<!\S)--[a-z][a-z-]*", span)}
    assert used and used <= known
    called = {name for span in spans for name in re.findall(r"(?:^|\n)windrow (\w+)", span)}
    assert called and called <= {str(command.name) for command in commands}


def resolve(parts: list[str]) -> Any:
    """What a dotted name below windrow stands for: an attribute, or a module."""
    found: Any = import_module("windrow")
    for k, part in enumerate(parts):
        found = getattr(found, part) if hasattr(found, part) else import_module(".".join(["windrow", *parts[: k + 1]]))
    return found


def all_commands(command: Any) -> Any:
    yield command
    for child in getattr(command, "commands", {}).values():
        yield from all_commands(child)
