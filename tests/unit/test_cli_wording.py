"""What the command line says when something is wrong: its own options, and never Python's keywords.

They catch an error that names what only Python has, and a translation of what a user has written.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import pytest
from typer.testing import CliRunner

from windrow.cli import app
from windrow.cli.wording import worded
from windrow.kernels.notice import NOTICE

cli_join: Any = sys.modules["windrow.cli.join"]  # the package has a command of that name

KNOWN = {"time": "--time", "on_full": "--on-full", "lateness": "--lateness", "memory": "--memory"}
TEXT = "Select Istream(L.k) From L [Range 5 seconds], R [Range 5 seconds] Where L.k = R.k"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "l.csv").write_text("t,k\n1,1\n2,2\n")
    (tmp_path / "r.csv").write_text("t,k\n1,1\n2,3\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(*words: str) -> str:
    """The one line of a refusal."""
    result: Any = CliRunner().invoke(app, list(words), prog_name="windrow")
    assert result.exit_code == 1, (result.stdout, result.stderr)
    (line,) = result.stderr.splitlines()
    return str(line)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("no time column: set time=", "no time column: give --time"),
        ("deletions need order: set lateness=0, and hold", "deletions need order: give --lateness 0, and hold"),
        ("let on_full='shed' choose", "let --on-full shed choose"),
        ("give all a time column, or use order='arrival' with rows", "give all a time column"),
        ("set on_full='fail', or leave memory out", "give --on-full fail, or leave memory out"),
        ("on_full must be one of 'shed'", "--on-full must be one of 'shed'"),
        ("memory: cannot read 'x'", "--memory: cannot read 'x'"),
        ("the memory is full", "the memory is full"),
        ("--on: cannot read 'time=5 or order=3'", "--on: cannot read 'time=5 or order=3'"),
        ("there is no column 'time='. Known columns: k", "there is no column 'time='. Known columns: k"),
        ("set patience=", "set patience="),
        ("data/time=12/part.csv: cannot be read", "data/time=12/part.csv: cannot be read"),
        ("time=12/part.csv: cannot be read", "time=12/part.csv: cannot be read"),
    ],
)
def test_keywords_are_told_as_options(message: str, told: str) -> None:
    assert worded(message, KNOWN) == told


def test_a_file_may_be_called_as_an_option() -> None:
    assert worded("memory: the name does not say which format", KNOWN, subject=False).startswith("memory: ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--within", "10s"], "has the window 10 seconds but no time column: give --time"),
        (["--lateness", "5"], "has a lateness but no time column: give --time"),
        (["--left-time", "t"], "their rows have no common order: give all streams a time column"),
        (["--on-full", "explode"], "windrow: --on-full must be one of 'shed', 'fail', got 'explode'"),
        (["--on-violation", "explode"], "windrow: --on-violation must be one of 'lose', 'demote'"),
        (["--sample", "3"], "windrow: --sample is the probability"),
        (["--seed", "-1"], "windrow: --seed must be at least 0"),
        (["--shards", "0"], "windrow: --shards must be at least 1"),
        (["--memory", "3x"], "windrow: --memory: cannot read '3x'"),
        (["--memory", "120%"], "windrow: --memory must be at most 100% of the exact join's need, got 120%; leave it"),
        (["--time", "nope"], "windrow: --time: stream 'left' has no column 'nope'"),
        (["--separator", "ab"], "windrow: --separator must be one character"),
        (["--constraints", "auto:marg=2"], "windrow: --constraints: there is no 'marg'; did you mean 'margin'?"),
        (["--constraints", "auto:margin=x"], "windrow: --constraints: margin must be a number, got 'x'"),
        (["--statistics", "decayed:half=2", "--policy", "prob"], "windrow: --statistics: there is no 'half'; did you"),
        (["--statistics", "nope", "--policy", "prob"], "windrow: --statistics: there is no statistic 'nope'"),
        (["--on-violation", "demote:disk=x", "--constraints", "auto"], "windrow: --on-violation: cannot read the size"),
        (["--select", "left.k as q, right.k as q"], "are both named 'q': rename one, as in 'right.k as right_k'"),
    ],
)
def test_every_refusal_of_a_join_names_options(files: Path, words: list[str], told: str) -> None:
    line = said("join", "l.csv", "r.csv", "--on", "k", "-o", "o.csv", *words)
    assert told in line
    assert "=" not in line.replace("'marg=2'", "")


def test_policies_in_any_case_and_only_those_that_can_be_meant(files: Path) -> None:
    line = said("join", "l.csv", "r.csv", "--on", "k", "-o", "o.csv", "--policy", "nope")
    assert "Known names: rand, fifo, prob, life" in line and "given" not in line
    for policy in ("PROB", "Life-Expected"):
        words = ["join", "l.csv", "r.csv", "--on", "k", "-o", "o.csv", "--policy", policy]
        assert CliRunner().invoke(app, words, prog_name="windrow").exit_code == 0
    streams = ("--stream", "L=l.csv", "--stream", "R=r.csv", "--time", "t")
    assert "given" not in said("cql", TEXT.replace("5 seconds", "5"), *streams, "--policy", "nope")


def test_query_texts_name_options_too(files: Path) -> None:
    (files / "m.csv").write_text("a,b,k\n2024-05-01,2024-05-01,1\n")
    streams = ("--stream", "L=m.csv", "--stream", "R=m.csv")
    assert "several columns of times (a, b): say which with --time" in said("cql", TEXT, *streams)
    assert "have no time column: give --time, or use Rows" in said(
        "cql", TEXT, "--stream", "L=l.csv", "--stream", "R=r.csv"
    )


def test_warnings_name_options_too(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    (files / "r.csv").write_text("t,k\n1,1\n2,1\n3,2\n4,2\n")
    words = ["join", "l.csv", "r.csv", "--on", "k", "-o", "o.csv", "--constraints", "right is unique on k"]
    assert CliRunner().invoke(app, words, prog_name="windrow").exit_code == 0
    (said,) = (record.getMessage() for record in caplog.records)
    assert "--on-violation demote finds them, --constraints auto relies on what holds" in said and "=" not in said
    assert not logging.getLogger("windrow").filters


def test_compiling_is_no_part_of_rows_per_second(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = cli_join._write

    def slow(*given: Any) -> None:
        NOTICE.began()
        NOTICE.began()  # a function that it calls
        sleep(0.5)
        NOTICE.ended()
        NOTICE.ended()
        written(*given)

    monkeypatch.setattr(cli_join, "_write", slow)
    words = ["join", "l.csv", "r.csv", "--on", "k", "-o", "o.csv", "--json"]
    begun = perf_counter()
    told = json.loads(CliRunner().invoke(app, words, prog_name="windrow").stdout)
    assert told["seconds"] < perf_counter() - begun - 0.5 + 1e-3
    assert not {"began", "ended"} & set(vars(NOTICE))
