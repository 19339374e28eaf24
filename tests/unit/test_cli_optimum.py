"""`windrow optimum` on files: the library's answer, changes, the schedule as a file, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import windrow as wr
from windrow.cli import app
from windrow.lab.generators import zipf_pair

LEFT, RIGHT = zipf_pair(rows=300, keys=10, seed=2)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pq.write_table(LEFT, tmp_path / "left.parquet")
    pq.write_table(RIGHT, tmp_path / "right.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(*words: str) -> Any:
    given = ["optimum", "left.parquet", "right.parquet", "--on", "k", "--time", "t", "--within", "30", "--memory", "20"]
    return CliRunner().invoke(app, [*given, *words], prog_name="windrow")


def test_the_librarys_answer(files: Path) -> None:
    best = wr.optimum(LEFT, RIGHT, on="k", time="t", within=30, memory=20)
    assert f"{best.value:,.0f} of {best.exact:,.0f} matches" in ask().stdout
    facts = json.loads(ask("--split", "--warm-up", "60", "--json").stdout)
    split = wr.optimum(LEFT, RIGHT, on="k", time="t", within=30, memory=wr.Memory(20, split=True), warm_up=60)
    assert (facts["optimum_at_least"], facts["optimum_at_most"]) == (split.value, split.bound)


def test_changes_and_the_schedule(files: Path) -> None:
    found = ask(
        "--memory-at", "200=5", "--memory-at", "100=40", "--within-at", "150=10", "-o", "held.parquet", "--json"
    )
    windows = {"left": [(150, 10)], "right": [(150, 10)]}
    best = wr.optimum(
        LEFT, RIGHT, on="k", time="t", within=30, memory=20, memory_changes=[(100, 40), (200, 5)],
        window_changes=windows,
    )  # fmt: skip
    assert json.loads(found.stdout)["optimum_at_least"] == best.value == best.replay()
    held = pq.read_table("held.parquet").to_pylist()
    for side in ("left", "right"):
        mine = [row["held_until"] for row in held if row["side"] == side]
        assert mine == best.schedule(side).tolist()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--memory", "20%"), "counts memory in rows"),
        (("--memory", "20%", "--split"), "counts memory in rows"),
        (("--memory-at", "100"), "TIME=VALUE"),
        (("--memory-at", "100=5", "--memory-at", "2024-05-31=5"), "some times are numbers"),
        (("--memory-at", "100=many"), "TIME=VALUE"),
        (("--memory-at", "100=-3"), "negative"),
        (("-o", "left.parquet"), "would be lost"),
        (("--method", "guess"), "method"),
    ],
)
def test_refusals(files: Path, words: tuple[str, ...], message: str) -> None:
    found = ask(*words)
    assert found.exit_code != 0
    assert message in found.output
    assert "Traceback" not in found.output


def test_no_memory_at_all_and_a_split_one_that_changes(files: Path) -> None:
    asked = {"on": "k", "time": "t", "within": 30}
    found = json.loads(ask("--memory", "0", "--json").stdout)["optimum_at_least"]
    assert found == wr.optimum(LEFT, RIGHT, **asked, memory=0).value
    found = json.loads(ask("--split", "--memory-at", "100=8", "--json").stdout)["optimum_at_least"]
    split = wr.optimum(LEFT, RIGHT, **asked, memory=wr.Memory(20, split=True), memory_changes=[(100, 8)])
    assert found == split.value < wr.optimum(LEFT, RIGHT, **asked, memory=20, memory_changes=[(100, 8)]).value
