"""Comparing two results: `wr.compare` and `windrow compare`.

They catch a measure that is not the one of the library, files that are compared by the wrong columns or types, and a
refusal that is no single line.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import windrow as wr
from windrow.cli import app
from windrow.errors import SpecError
from windrow.files import open_writer

EXACT = pa.table({"k": [1, 2, 2, 3, 4], "t": [0, 1, 1, 5, 9], "page": ["a", "b", "b", "c", "d"]})
SHED = EXACT.take([0, 1, 4])
WRONG = pa.table({"k": [1, 2, 5], "t": [0, 1, 9], "page": ["a", "b", "z"]})
LACKING = pa.table({"t": [0], "k": [1], "other": [1.5]})


def save(path: Path, table: pa.Table) -> str:
    with open_writer(path, table.schema) as writer:
        writer.write(table)
    return str(path)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "exact.parquet", EXACT)
    save(tmp_path / "shed.csv", SHED)
    save(tmp_path / "wrong.jsonl", WRONG)
    save(tmp_path / "lacking.csv", LACKING)
    Path("none.csv").touch()
    return tmp_path


def compare(*words: str) -> Any:
    return CliRunner().invoke(app, ["compare", *words], prog_name="windrow")


def found(*words: str) -> dict[str, Any]:
    result = compare(*words, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def refused(*words: str, code: int = 1) -> str:
    result = compare(*words)
    assert result.exit_code == code and not result.stdout, (result.stdout, result.stderr)
    (line,) = result.stderr.splitlines()
    assert line.startswith("windrow: ")
    return line


# -------------------------------------------------------------------------------------------------------- library


def test_a_subset_is_told_by_what_is_missing() -> None:
    seen = wr.compare(SHED, EXACT)
    assert (seen.missing, seen.extra, seen.matching, seen.symmetric_difference) == (2, 0, 3, 2)
    assert (seen.recall, seen.overlap, seen.dice, seen.jaccard) == (0.6, 1.0, 0.75, 0.6)
    assert seen.cosine == pytest.approx(3 / math.sqrt(15))
    assert seen.earth_movers is seen.match_and_compare is seen.archive is None


def test_distances_and_archive_are_taken_when_asked_for() -> None:
    seen = wr.compare(WRONG, EXACT, coordinates=["k"], penalty=2.0, archived=4)
    assert seen.earth_movers.work == 1.0 and seen.earth_movers.moved == 3  # 5 becomes 4
    assert seen.match_and_compare.distance == seen.match_and_compare.work + 2.0 * seen.match_and_compare.shared
    assert seen.archive.work == 4 + seen.missing
    only = wr.compare(WRONG, EXACT, coordinates="k", measures=["earth-movers"])
    assert only.match_and_compare is None and only.earth_movers == seen.earth_movers


def test_pandas_frames_compare_too() -> None:
    assert wr.compare(SHED.to_pandas(), EXACT.to_pandas(), ["k"]).missing == 2


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"measures": ["earth_movers"]}, "needs coordinates"),
        ({"measures": ["archive"]}, "needs archived"),
        ({"measures": ["jacard"]}, "did you mean 'jaccard'"),
        ({"columns": ["kk"]}, "has no column 'kk'"),
        ({"columns": "page_"}, "has no column 'page_'"),
        ({"columns": []}, "names none"),
        ({"measures": "jacard"}, "did you mean 'jaccard'"),
    ],
)
def test_what_cannot_be_measured_is_refused(more: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        wr.compare(SHED, EXACT, **more)


# -------------------------------------------------------------------------------------------------------- command


@pytest.mark.usefixtures("files")
def test_files_of_any_format_compare_as_their_tables() -> None:
    assert found("shed.csv", "exact.parquet") == wr.compare(SHED, EXACT).to_dict()
    assert (
        found("wrong.jsonl", "exact.parquet", "--columns", "t, page")
        == wr.compare(WRONG, EXACT, ["t", "page"]).to_dict()
    )
    place = found("wrong.jsonl", "exact.parquet", "--coordinates", "k,t", "--archived", "7")
    assert place == wr.compare(WRONG, EXACT, coordinates=["k", "t"], archived=7).to_dict()


@pytest.mark.usefixtures("files")
def test_only_the_measures_that_are_named_are_shown() -> None:
    assert found("shed.csv", "exact.parquet", "--measures", "jaccard,missing") == {"jaccard": 0.6, "missing": 2}
    table = compare("shed.csv", "exact.parquet", "--measures", "symmetric-difference").stdout
    assert table.split()[-3:] == ["symmetric", "difference", "2"]


@pytest.mark.usefixtures("files")
def test_an_empty_file_is_an_empty_result() -> None:
    seen = found("none.csv", "exact.parquet", "--coordinates", "t")
    assert (seen["recall"], seen["precision"], seen["missing"]) == (0.0, 1.0, 5)
    assert seen["match_and_compare"]["distance"] is None  # infinite


@pytest.mark.usefixtures("files")
def test_codes_compare_as_text() -> None:
    save(Path("codes.csv"), pa.table({"code": ["007", "08"]}))
    save(Path("codes.parquet"), pa.table({"code": ["007", "8"]}))
    assert "--text COLUMN" in refused("codes.csv", "codes.parquet")
    assert found("codes.csv", "codes.parquet", "--text", "code")["matching"] == 1


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["lacking.csv", "exact.parquet"], "lacking.csv alone has 'other'; exact.parquet alone has 'page'"),
        (["lacking.csv", "exact.parquet"], "--columns t,k"),
        (["shed.csv", "exact.parquet", "--columns", "pages"], "has no column 'pages'; did you mean 'page'?"),
        (["shed.csv", "gone.parquet"], "gone.parquet"),
        (["shed.csv", "exact.parquet", "--measures", "emd"], "there is no measure 'emd'"),
        (["shed.csv", "exact.parquet", "--measures", "archive"], "needs archived"),
        (["shed.csv", "exact.parquet", "--coordinates", "page"], "must be a number or a time"),
        (["shed.csv", "exact.parquet", "--columns", ","], "names nothing"),
        (["shed.csv", "exact.parquet", "--text", "x"], "neither file has a column 'x'"),
    ],
)
def test_a_refusal_is_one_line(words: list[str], says: str) -> None:
    assert says in refused(*words)


def test_an_unreadable_file_is_refused(files: Path) -> None:
    (files / "broken.parquet").write_bytes(b"PAR1 not really")
    assert "broken.parquet" in refused("broken.parquet", "exact.parquet")


def test_help_has_an_example() -> None:
    result = compare("--help")
    assert result.exit_code == 0 and "windrow compare matches.parquet exact.csv" in " ".join(result.stdout.split())


@pytest.mark.usefixtures("files")
def test_a_coordinate_that_is_text_is_not_asked_for_as_text() -> None:
    assert "--text" not in refused("shed.csv", "exact.parquet", "--coordinates", "page")
