"""A time that is none: the error says in which file, line and column it stands, and what it is.

They catch a value that is not found, a line that is not its line, and texts that are refused though they are times.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from windrow.cli import app
from windrow.cli.bad_times import refuse_bad_times
from windrow.errors import TimeError
from windrow.files import open_table

GOOD = "2024-05-01T10:00:0{}"
TIMES = [GOOD.format(i) for i in range(9)]


@pytest.mark.parametrize("at", [0, 1, 4, 8])
@pytest.mark.parametrize(
    ("others", "bad", "advice"),
    [
        (TIMES, "2024-13-01T10:00:00", "times as 2024-05-31T12:00:00, or"),
        (TIMES, "noon", "times as 2024-05-31T12:00:00, or"),
        (TIMES, "2024-05-01T10:00:00Z", "times as 2024-05-31T12:00:00, or"),
        ([f"{t}+02:00" for t in TIMES], "2024-05-01T10:00:00", "with an offset as the others"),
        ([str(i) for i in range(9)], "6x", "a whole number as the others"),
    ],
)
def test_the_first_bad_value_is_found(tmp_path: Path, others: list[str], bad: str, advice: str, at: int) -> None:
    values = [*others[:at], bad, *others[at:], bad]
    rows = {
        "a.csv": "k,ts\n" + "".join(f"1,{value}\n" for value in values),
        "a.jsonl": "".join(f'{{"k": 1, "ts": "{value}"}}\n' for value in values).rstrip("\n"),
    }
    for name, line in (("a.csv", at + 2), ("a.jsonl", at + 1)):
        path = tmp_path / name
        path.write_text(rows[name])
        with pytest.raises(TimeError) as caught:
            refuse_bad_times(path, open_table(path).table(), "ts")
        assert f"{path}, line {line}: column 'ts' has {bad!r}, which is no time: write " in str(caught.value)
        assert advice in str(caught.value)


def test_where_lines_are_not_rows_the_row_is_told(tmp_path: Path) -> None:
    broken, empty, packed = tmp_path / "b.csv", tmp_path / "e.csv", tmp_path / "g.csv.gz"
    broken.write_text(f'x,ts\n"a\nb",{TIMES[0]}\nc,never\n')
    empty.write_text(f"x,ts\n\n1,{TIMES[0]}\n\n2,never\n")
    packed.write_bytes(gzip.compress(f"x,ts\n1,{TIMES[0]}\n2,never\n".encode()))
    for path, place in ((broken, "row 2"), (empty, "row 2"), (packed, "line 3")):
        with pytest.raises(TimeError, match=f"{path.name}, {place}: "):
            refuse_bad_times(path, open_table(path).table(), "ts")


def test_what_is_no_fault(tmp_path: Path) -> None:
    table = pa.table({"text": TIMES, "none": pa.array([None] * 9, pa.string()), "number": range(9)})
    for column in (None, "text", "none", "number", "missing"):
        refuse_bad_times(tmp_path / "a.csv", table, column)


def test_join_and_cql_tell_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("l.csv").write_text(f"k,ts\n1,{TIMES[0]}\n1,never\n")
    text = "Select k From L [Range 5 seconds]"
    for words in (
        ["join", "l.csv", "l.csv", "--on", "k", "--time", "ts", "-o", "o.csv"],
        ["cql", text, "--stream", "L=l.csv", "--time", "ts"],
    ):
        result = CliRunner().invoke(app, words, prog_name="windrow")
        assert result.exit_code == 1
        assert result.stderr.startswith("windrow: l.csv, line 3: column 'ts' has 'never', which is no time: ")
