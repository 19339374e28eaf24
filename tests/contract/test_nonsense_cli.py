"""Every option of the command line that takes a value, given values that nobody expects: it works, or one line refuses.

Catches: tracebacks, exit codes that say nothing, refusals of several lines.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from windrow.cli import app

TEXTS = ["0", "-1", str(2**63 - 1), str(2**63), "9" * 5000, "1e400", "nan", "inf", "", "x", "0.5", "true", "'"]
TEXTS += ["400 years", "1e999%", "9999-12-31", "[1]", "\0", f"2={2**63}", f"{2**63}=2", "2="]

ROWS = pa.table({"k": [k % 7 for k in range(40)], "t": list(range(40)), "s": [f"a{k % 3}" for k in range(40)]})
JOIN = "join a.parquet a.parquet --on k --time t --within 3 --memory 9 -o out.parquet -q"
OPTIMUM = "optimum a.parquet a.parquet --on k --time t --within 3 --memory 4"
ANALYSE = "analyse a.parquet --on k --window 5"
COMPARE = "compare a.parquet a.parquet"
OPTIONS = {
    JOIN: (
        *("--on", "--time", "--left-time", "--within", "--right-within", "--memory", "--policy", "--statistics"),
        *("--lateness", "--text", "--separator", "--select", "--where", "--on-full", "--sample", "--seed", "--shards"),
    ),
    OPTIMUM: ("--within", "--memory", "--warm-up", "--method", "--memory-at", "--within-at", "--where"),
    ANALYSE: ("--on", "--window", "--time", "--where"),
    COMPARE: ("--columns", "--measures", "--coordinates", "--penalty", "--archived", "--text"),
}
CASES = [(command, option) for command, options in OPTIONS.items() for option in options]
FILTERS = ("left.k = {}", "left.k < {}", "left.t in ({}, 5)", "left.s != {}", "right.s not in ({})")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with one file, which is the current one."""
    pq.write_table(ROWS, tmp_path / "a.parquet")
    monkeypatch.chdir(tmp_path)


def works_or_is_refused(words: list[str]) -> None:
    result = CliRunner().invoke(app, words, prog_name="windrow")
    assert result.exit_code in (0, 1, 2), (words, result.exit_code, result.exception)
    lines = result.stderr.strip().splitlines()
    assert result.exit_code == 0 or (len(lines) == 1 and lines[0].startswith("windrow: ")), (words, lines)


@pytest.mark.parametrize(("command", "option"), CASES, ids=[f"{c.split()[0]} {o}" for c, o in CASES])
def test_an_option_works_or_is_refused(command: str, option: str) -> None:
    words = command.split()
    if option in words:  # the last of two would do, but not for lists
        at = words.index(option)
        words = words[:at] + words[at + 2 :]
    for form in FILTERS if option == "--where" else ("{}",):
        for text in TEXTS:
            works_or_is_refused([*words, option, form.format(text)])


def test_a_filter_beyond_64_bits() -> None:
    """Constants of any size compare exactly: every row has a smaller time."""
    for text in (f"left.t < {2**63}", f"left.t > -{2**70}", f"left.t != {10**40}"):
        result = CliRunner().invoke(app, [*JOIN.split(), "--where", text, "--json"], prog_name="windrow")
        assert (result.exit_code, '"ignored": 0' in result.stdout) == (0, True), text
