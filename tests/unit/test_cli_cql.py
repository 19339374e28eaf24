"""`windrow cql`: query texts over files, what is shown, and what is refused in one line.

Catches: an option that does not reach the query, a result that is not the library's, a refusal without its place.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from windrow.cli import app
from windrow.files import open_table, open_writer

TEXT = "Select Istream(L.x, R.y) From L [Range 5], R [Range 5] Where L.k = R.k"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tables = {
        "l.csv": pa.table({"t": [1, 2, 3], "k": [1, 2, 1], "x": [10, 20, 30]}),
        "r.parquet": pa.table({"t": [2, 4], "k": [1, 2], "y": [5, 6]}),
    }
    for name, table in tables.items():
        with open_writer(tmp_path / name, table.schema) as writer:
            writer.write(table)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cql(*words: str) -> Any:
    return CliRunner().invoke(app, ["cql", *words], prog_name="windrow")


DEMOTE = ("--on-violation", "demote")
STREAMS = ("--stream", "L=l.csv", "--stream", "R=r.parquet", "--time", "t")


def test_results_are_shown_or_written(files: Path) -> None:
    shown = cql(TEXT, *STREAMS)
    assert shown.exit_code == 0, shown.stderr
    assert "30" in shown.stdout and "3 rows, " in shown.stdout
    told = json.loads(cql(TEXT, *STREAMS, "--json").stdout)
    assert told["kind"] == "stream" and told["count"] == 3 and told["joins"][0]["matched"] == 3
    assert told["rows"] == [{"at": 2, "x": 10, "y": 5}, {"at": 3, "x": 30, "y": 5}, {"at": 4, "x": 20, "y": 6}]
    assert cql(TEXT, *STREAMS, "-o", "out.parquet").stdout.startswith("3 rows in out.parquet, ")
    assert open_table(files / "out.parquet").table().to_pylist() == told["rows"]
    assert cql(TEXT, *STREAMS, "--quiet").stdout == ""


def test_what_a_budget_has_cost_is_said(files: Path) -> None:
    """Also without --explain, and not where nothing was lost."""
    for more in ((), ("-o", "out.csv")):
        assert "recall" not in cql(TEXT, *STREAMS, *more, "--memory", "10").stdout
        shown = cql(TEXT, *STREAMS, *more, "--memory", "1").stdout
        assert "join of L, R: " in shown and "shed " in shown and "; recall " in shown
    assert cql(TEXT, *STREAMS, "--memory", "1", "--quiet").stdout == ""


def test_what_a_broken_constraint_has_cost_is_said(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Also where nothing was shed; of one that holds there is nothing to say."""
    for broken in (False, True):
        rows = [(1, 1), (3, 1 if broken else 2), (4, 3)]
        (files / "r.csv").write_text("t,k,y\n" + "".join(f"{t},{k},0\n" for t, k in rows))
        words = [TEXT, *STREAMS[:2], "--stream", "R=r.csv", *STREAMS[4:], "--constraints", "R is unique on k"]
        shown = cql(*words)
        assert shown.exit_code == 0, shown.stderr
        assert ("; recall not known\n" in shown.stdout) == broken == ("join of L, R: " in shown.stdout)
    assert "--on-violation demote finds them" in caplog.text and "on_violation=" not in caplog.text
    told = [json.loads(cql(*given, "--json").stdout) for given in (words[:-2], words, (*words, *DEMOTE))]
    exact, lossy, found = (sorted(map(str, each["rows"])) for each in told)
    assert found == exact and len(lossy) == 2  # both rows of L with the key meet its second row of R
    assert told[-1]["joins"][0]["demoted"]["L"]["found"] == len(exact) - len(lossy)


def test_an_input_is_not_written_over(files: Path) -> None:
    before = (files / "l.csv").read_bytes()
    for output in ("l.csv", "./l.csv", "nowhere/out.csv", "out.xls"):
        refused = cql(TEXT, *STREAMS, "-o", output)
        assert refused.exit_code == 1 and refused.stderr.startswith(f"windrow: {output.removeprefix('./')}: ")
    assert (files / "l.csv").read_bytes() == before


def test_values_that_json_has_no_word_for(files: Path) -> None:
    """As in JSON lines: what is no number is null, moments are ISO texts."""
    (files / "odd.csv").write_text("ts,x\n2024-05-01T10:00:00,NaN\n2024-05-01T10:00:01,1.5\n")
    told = cql("Select sum(x) as s From O [Range 1 second]", "--stream", "O=odd.csv", "--json")
    assert told.exit_code == 0, told.stderr
    rows = json.loads(told.stdout)["rows"]
    assert [row["s"] for row in rows] == [None, 1.5, None] and rows[0]["since"].startswith("2024-05-01T10:00:00")


def test_explain_with_and_without_files(files: Path) -> None:
    alone = cql(TEXT, "--explain")
    assert alone.exit_code == 0
    assert "joined by L.k = R.k" in alone.stdout and "rows, " not in alone.stdout
    after = cql(TEXT, *STREAMS, "--explain", "--memory", "2", "--policy", "fifo").stdout
    assert "join of L, R: " in after and "2 rows, " in after and "shed " in after
    assert json.loads(cql(TEXT, "--explain", "--json").stdout)["explain"].startswith("the query")


def test_a_text_may_be_in_a_file(files: Path) -> None:
    (files / "q.cql").write_text(TEXT)
    by_name = ("--stream", "L=l.csv", "--stream", "R=r.parquet", "--time", "L=t", "--time", "R=t")
    assert json.loads(cql("q.cql", *by_name, "--json").stdout)["count"] == 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("Select x\nForm L", *STREAMS), "line 2, column 1: did not expect 'Form'; expected"),
        (("Select x\nForm L", *STREAMS), ", at 'Form L'"),
        (("Select z From L", "--stream", "L=l.csv", "--time", "t"), "line 1, column 8: no source has a column 'z'"),
        ((TEXT,), "there is no file: give --stream L=FILE, or --explain"),
        ((TEXT, "--stream", "L=l.csv"), "there is no file for the stream 'R': give --stream R=FILE"),
        ((TEXT, "--stream", "M=l.csv"), "the query has no stream 'M'. Known streams: L, R"),
        ((TEXT, "--stream", "L"), "--stream takes a name and a file, such as C=c.parquet, got 'L'"),
        ((TEXT, "--stream", "L=l.csv", "--stream", "L=l.csv"), "names the stream 'L' twice"),
        ((TEXT, *STREAMS, "--time", "R="), "--time takes a value for all streams, or NAME=VALUE for one, got 'R='"),
        ((TEXT, "--stream", "L=none.csv", *STREAMS[2:]), "none.csv: there is no such file"),
        (("none.cql", *STREAMS), "none.cql: cannot be read"),
        ((TEXT, *STREAMS, "--constraints", "always"), "--constraints: cannot read 'always'; write watch, auto"),
    ],
)
def test_refusals_are_one_line(files: Path, words: tuple[str, ...], says: str) -> None:
    result = cql(*words)
    assert result.exit_code == 1, result.stdout
    (line,) = result.stderr.splitlines()
    assert line.startswith("windrow: ") and says in line


def test_of_a_relation_the_last_state_is_shown_and_of_a_stream_the_last_rows(files: Path) -> None:
    (files / "n.csv").write_text("t,x\n" + "".join(f"{i},{1000 + i}\n" for i in range(30)))
    stream = ("--stream", "N=n.csv", "--time", "t")
    sums = cql("Select count(*) as n, max(x) as top From N [Range 4]", *stream).stdout
    assert "1029" in sums and "1028" not in sums and "\n1 row after the last input, 35 over time" in sums
    rows = cql("Select Istream(x) From N [Range 4]", *stream).stdout
    assert "1029" in rows and "1010" in rows and "1009" not in rows and "\n30 rows, the last 20 shown, " in rows


def test_files_are_read_as_windrow_join_reads_them(files: Path) -> None:
    """--separator of one file, --text, --utc and --lateness."""
    (files / "l.csv").write_text("ts;k;x\n2024-05-01T10:00:05;07;1\n2024-05-01T10:00:00;7;2\n2024-05-01T10:00:04;7;3\n")
    (files / "r.csv").write_text("ts,k,y\n2024-05-01T10:00:05Z,7,1\n2024-05-01T10:00:05Z,07,2\n")
    text = "Select Istream(L.x, R.y) From L [Range 9 seconds], R [Range 9 seconds] Where L.k = R.k"
    words = [text, "--stream", "L=l.csv", "--stream", "R=r.csv", "--time", "ts", "--json"]
    assert "say --separator L=';'" in cql(*words).stderr
    words += ["--separator", "L=;"]
    assert "time zone" in cql(*words).stderr

    def found(*more: str) -> list[tuple[int, int]]:
        told = cql(*words, "--utc", *more)
        assert told.exit_code == 0, told.stderr
        return sorted((row["x"], row["y"]) for row in json.loads(told.stdout)["rows"])

    assert found() == [(x, y) for x in (1, 2, 3) for y in (1, 2)]
    assert found("--text", "k") == [(1, 2), (2, 1), (3, 1)]
    assert found("--text", "k", "--lateness", "1s") == [(1, 2), (3, 1)]
    assert "late, and left out: 1 of L\n" in cql(*words[:-3], *words[-2:], "--utc", "--lateness", "1s").stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--time", "X=t"], "--time X=t: there is no stream 'X'"),
        (["--time", "t", "--time", "u"], "--time is given twice for all streams"),
        (["--separator", "L=;", "--separator", "L=|"], "--separator names the stream 'L' twice"),
        (["--separator", "L="], "--separator takes a value for all streams, or NAME=VALUE for one, got 'L='"),
    ],
)
def test_options_by_stream_that_cannot_be_meant(files: Path, words: list[str], told: str) -> None:
    refused = cql(TEXT, *STREAMS[:4], *words)
    assert refused.exit_code == 1 and told in refused.stderr
