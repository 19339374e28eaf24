"""The demo: its sweep, its conclusion, its picture and its command.

They catch a recall that is not measured against the exact join, a budget that is not kept, a conclusion that
does not follow from the numbers, labels that cover each other, and a picture that is half written.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from windrow.cli import app
from windrow.errors import InputError, MissingDependency, SpecError
from windrow.lab import demo, pictures

ROWS = 1_500
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def outcome() -> demo.Outcome:
    tables = demo.streams(ROWS, seed=4)
    *_, last = demo.sweep(demo.start(tables, ROWS, 4), tables)
    return last


def told(**recall: float) -> demo.Outcome:
    """An outcome in which only the recall at some budgets matters: rand_20=0.3."""
    points = []
    for name, value in recall.items():
        policy, share = name.rsplit("_", 1)
        points.append(demo.Point(policy.replace("_", "-"), int(share), 10, 1, 1, value))
    return demo.Outcome(100, 0, 1_000, 50, tuple(points))


def test_every_policy_meets_every_budget_once(outcome: demo.Outcome) -> None:
    assert [(p.share, p.policy) for p in outcome.points] == [(s, p) for s in demo.SHARES for p in demo.POLICIES]


def test_recall_is_measured_against_the_exact_join(outcome: demo.Outcome) -> None:
    assert outcome.exact_matched > 0
    for point in outcome.points:
        assert point.recall == point.matched / outcome.exact_matched <= 1
        assert point.memory_rows == outcome.budget(point.share)
        assert (point.shed == 0) == (point.share == 100)
    assert all(outcome.recall(policy, 100) == 1 for policy in demo.POLICIES)


def test_more_memory_keeps_more_and_prob_beats_rand(outcome: demo.Outcome) -> None:
    for curve in outcome.curves().values():
        recalls = [recall for _, recall in curve]
        assert recalls == sorted(recalls)
    assert outcome.recall("prob", 20) > 1.3 * outcome.recall("rand", 20)  # type: ignore[operator]


def test_the_same_seed_gives_the_same_outcome(outcome: demo.Outcome) -> None:
    tables = demo.streams(ROWS, seed=4)
    start = demo.start(tables, ROWS, 4)
    assert replace(outcome, points=()) == start
    again = [next(run) for run in [demo.sweep(start, tables)]]
    assert again[0].points == outcome.points[:1]


def test_the_conclusion_follows_from_the_numbers() -> None:
    prob = told(rand_20=0.22, prob_20=0.71, life_20=0.7, rand_50=0.61, rand_75=0.81, rand_100=1.0).conclusion()
    assert prob == (
        "At 20% of the memory that the exact join needs, PROB keeps 71% of the matches and RAND 22%; "
        "RAND needs about 62% to keep as many."
    )
    assert "LIFE-EXPECTED keeps 80%" in told(rand_20=0.22, prob_20=0.71, life_expected_20=0.8).conclusion()
    assert "no policy keeps more" in told(rand_20=0.5, prob_20=0.4).conclusion()


def test_too_few_rows_are_refused() -> None:
    tables = demo.streams(1, seed=0)
    with pytest.raises(SpecError, match="take more rows"):
        demo.start(tables, 1, 0)


# --------------------------------------------------------------------------------------------------- picture


@pytest.mark.parametrize(("name", "start"), [("a.png", PNG), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")])
def test_the_picture_is_written_whole(outcome: demo.Outcome, tmp_path: Path, name: str, start: bytes) -> None:
    pictures.recall_against_memory(outcome.curves(), tmp_path / name, "headline", "note")
    assert (tmp_path / name).read_bytes().startswith(start)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("heights", [[0.1, 0.11, 0.6, 0.61, 0.62], [0.5] * 5, [0.0, 0.0, 0.9], [0.2, 0.5, 0.8]])
def test_names_lie_a_gap_apart_and_in_order(heights: list[float]) -> None:
    places = pictures._apart(heights)
    gaps = [b - a for a, b in pairwise(places)]
    assert all(gap >= pictures._LABEL_GAP - 1e-9 for gap in gaps)
    assert places[0] >= 0
    if heights == [0.2, 0.5, 0.8]:
        assert places == pytest.approx(heights)


@pytest.mark.parametrize(
    ("path", "says"),
    [("a.gif", "known endings"), ("none/a.png", "does not exist"), ("dir.png", "is a directory")],
)
def test_a_picture_that_cannot_be_written_is_refused(tmp_path: Path, path: str, says: str) -> None:
    (tmp_path / "dir.png").mkdir()
    with pytest.raises(InputError, match=says):
        pictures.check(tmp_path / path)


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependency, match="pip install matplotlib"):
        pictures.check(tmp_path / "a.png")


# --------------------------------------------------------------------------------------------------- command


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run on Spark is tests/spark's: here Java is missing."""
    monkeypatch.setattr("windrow.lab.session._java_version", lambda: None)


@pytest.mark.usefixtures("no_spark")
def test_the_command_shows_table_conclusion_and_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["demo", "--rows", str(ROWS), "--seed", "4"])
    assert result.exit_code == 0, result.stderr
    for word in ("RAND", "FIFO", "PROB", "LIFE", "LIFE-EXPECTED", "100.0%", "At 20% of the memory"):
        assert word in result.stdout
    assert "…" not in result.stdout
    told = result.stderr.splitlines()
    assert told[0] == f"joining 2 x {ROWS:,} rows under {len(demo.POLICIES)} policies and {len(demo.SHARES)} budgets"
    shares = [line.partition(":")[0] for line in told if line.startswith("memory of ")]
    assert shares == [f"memory of {share}%" for share in demo.SHARES]
    assert "Not shown on Spark: Spark needs Java 17 or newer and found none: install it" in result.stdout
    assert Path("out/recall-against-memory.png").read_bytes().startswith(PNG)


@pytest.mark.usefixtures("no_spark")
def test_the_command_as_json(tmp_path: Path, outcome: demo.Outcome) -> None:
    words = ["demo", "--rows", str(ROWS), "--seed", "4", "--json", "--output", str(tmp_path / "a.png")]
    found = json.loads(CliRunner().invoke(app, words).stdout)
    assert len(found["points"]) == len(demo.POLICIES) * len(demo.SHARES)
    assert found["conclusion"] == outcome.conclusion()
    assert found["exact_matched"] == outcome.exact_matched
    assert Path(found["picture"]).exists()
    assert found["spark"] is None


def test_a_wrong_picture_is_refused_before_any_work(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "--rows", "100", "--output", str(tmp_path / "a.gif")])
    assert result.exit_code == 1
    assert result.stderr.startswith("windrow: ") and result.stderr.count("\n") == 1
