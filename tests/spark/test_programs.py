"""What starts Spark by itself: `windrow join --engine spark`, and the demo's run.

They catch an output that differs from the embedded join's in any format, counters that do not add up over shards, a
refusal in a worker that is not one line, and a demo that loses matches without a budget.
"""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from windrow.cli import app
from windrow.files import open_table, open_writer
from windrow.lab import demo, on_spark
from windrow.lab.session import local_session, missing

ROOT = Path(__file__).resolve().parents[2]
FIRST = datetime(2024, 2, 28, 23, 59, 59, 123_456)


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[Any]:
    """The command line's own session, for all tests of this file: it uses one that is running."""
    assert missing() is None
    os.environ.setdefault("PYTHONPATH", str(ROOT / "src"))
    with local_session(shards=2) as running:
        yield running


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two files of awkward texts and times, which is the current one."""
    texts = ["", 'say "hi"', " blank ", "a;b,c", "ä\nb", None]
    stamps = [FIRST + timedelta(seconds=7 * k, microseconds=k) for k in range(60)]
    left = pa.table({"k": [k % 7 for k in range(60)], "ts": stamps, "note": [texts[k % 6] for k in range(60)]})
    right = pa.table({"k": [k % 5 for k in range(60)], "ts": stamps, "price": [k / 4 for k in range(60)]})
    pq.write_table(
        left.cast(pa.schema([("k", "int64"), ("ts", pa.timestamp("ns")), ("note", "string")])), tmp_path / "l.parquet"
    )
    with open_writer(tmp_path / "r.csv", right.schema) as writer:
        writer.write(right)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def join(*more: str, out: str) -> Any:
    words = ["join", "l.parquet", "r.csv", "--on", "k", "--time", "ts", "--within", "1m", "-o", out, *more]
    return CliRunner().invoke(app, words, prog_name="windrow")


def bag(rows: list[dict[str, Any]]) -> Counter[Any]:
    return Counter(tuple(sorted(row.items())) for row in rows)


def test_every_format_holds_what_the_embedded_join_gives(files: Path) -> None:
    here = join("--json", out="here.parquet")
    there = join("--engine", "spark", "--shards", "2", "--json", out="there.parquet")
    assert there.exit_code == 0, there.stderr
    expected = open_table("here.parquet").table().to_pylist()
    assert bag(open_table("there.parquet").table().to_pylist()) == bag(expected) != Counter()
    a, b = json.loads(here.stdout), json.loads(there.stdout)
    for name in (
        "arrived",
        "matched",
        "shed",
        "late",
        "ignored",
        "expired",
        "resident_rows",
        "recall",
        "exact_matched",
    ):
        assert a[name] == b[name], name
    assert b["streams"]["left"]["arrived"] == 60 and b["output"] == "there.parquet"
    for out in ("there.csv", "there.jsonl"):
        assert join("--engine", "spark", "--quiet", out=out).exit_code == 0
        assert bag(read_text(Path(out))) == bag(as_text(expected))
    assert sorted(os.listdir()) == ["here.parquet", "l.parquet", "r.csv", "there.csv", "there.jsonl", "there.parquet"]


def as_text(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    times = ("left_ts", "right_ts")
    return [{n: v.isoformat(timespec="microseconds") if n in times else v for n, v in row.items()} for row in rows]


def read_text(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for part in folder.glob("part-*"):
        text = part.read_text(encoding="utf-8")
        if folder.suffix == ".jsonl":
            rows += map(json.loads, text.splitlines())
        else:
            table = open_table(part, types={"note": "string"}).table()
            assert next(csv.reader([text.splitlines()[0]])) == table.column_names
            rows += as_text(table.to_pylist())
    return rows


def test_a_refusal_in_a_shard_is_one_line_and_leaves_nothing(files: Path) -> None:
    result = join("--engine", "spark", "--shards", "2", "--memory", "4", "--on-full", "fail", out="out.parquet")
    assert result.exit_code == 1
    assert result.stderr == (
        "windrow: in one of the shards the join needs more than its memory of 2 rows: give more --memory, or let "
        "--on-full shed choose what to lose\n"
    )
    assert sorted(os.listdir()) == ["l.parquet", "r.csv"]


def test_an_output_that_exists_is_left_alone(files: Path) -> None:
    Path("out.parquet").write_text("something else")
    result = join("--engine", "spark", out="out.parquet")
    assert (result.exit_code, Path("out.parquet").read_text()) == (1, "something else")
    assert "choose another name" in result.stderr


def test_the_run_of_the_demo() -> None:
    tables = demo.streams(1_500, seed=4)
    exact = demo.start(tables, 1_500, 4)
    query = demo.told_query(exact)
    run = on_spark.stream(query.with_(memory=None), tables)
    assert (run.matched, run.shed, run.batches) == (exact.exact_matched, 0, on_spark.PIECES)
    shed = on_spark.stream(query, tables)
    assert shed.shed > 0 and 0.5 < shed.matched / exact.exact_matched < 1


def test_constraints_release_rows_on_spark_and_are_reported(files: Path) -> None:
    left = pa.table({"k": list(range(400)), "ts": [FIRST + timedelta(seconds=k) for k in range(400)]})
    pq.write_table(left, "l.parquet")
    with open_writer(Path("r.csv"), left.schema) as writer:
        writer.write(left)
    promises = ("--constraints", "left is unique on k", "--constraints", "right is unique on k")
    there = join("--engine", "spark", "--shards", "2", "--json", *promises, out="there.parquet")
    assert there.exit_code == 0, there.stderr
    found = json.loads(there.stdout)
    assert (found["matched"], found["released"], found["arrived"]) == (400, 800, 800)
    assert found["constraints"]["right is unique on k"] == {
        "k": None, "used": True, "seen": 0, "measured": 0, "violations": 0, "released": 400,
    }  # fmt: skip
