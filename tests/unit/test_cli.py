"""The command line: `windrow join` on files, its tables, its JSON, and what it refuses.

They catch an option that does not reach the query, output that differs from the join, a refusal that is not
one line, leaves a traceback, has the wrong exit code, or leaves a file behind; and an empty file that is an
error.
"""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import windrow as wr
from windrow import feed
from windrow.cli import INTERRUPTED, TERMINATED, Terminated, app
from windrow.files import open_table, open_writer
from windrow.lab.generators import bursty_pair, zipf_pair

WITHIN = 5

LEFT = pa.table({"user_id": [1, 2, 1, 3, 2], "ts": [0, 1, 5, 6, 7], "price": [5.5, 6.5, 7.5, 1.0, None]})
RIGHT = pa.table({"user_id": [1, 1, 2, 4], "ts": [2, 9, 3, 4], "page": ["a", "b", "c", "d"]})


def save(path: Path, table: pa.Table) -> Path:
    with open_writer(path, table.schema) as writer:
        writer.write(table)
    return path


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two small files, which is the current one."""
    save(tmp_path / "left.csv", LEFT)
    save(tmp_path / "right.jsonl", RIGHT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def windrow(*words: str) -> Any:
    return CliRunner().invoke(app, list(words), prog_name="windrow")


def join(*more: str, left: str = "left.csv", right: str = "right.jsonl", out: str = "out.parquet") -> Any:
    defaults = {"--on": "user_id", "--time": "ts", "--within": str(WITHIN)}
    words = [word for name, value in defaults.items() if name not in more for word in (name, value)]
    return windrow("join", left, right, *words, "-o", out, *more)


def joined(*more: str, **names: str) -> list[dict[str, Any]]:
    """The output rows of a join that must work."""
    result = join(*more, **names)
    assert result.exit_code == 0, result.stderr
    return open_table(names.get("out", "out.parquet")).table().to_pylist()


def refused(result: Any, code: int = 1) -> str:
    """The one line of a refusal."""
    assert result.exit_code == code, (result.stdout, result.stderr)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert not result.stdout
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("windrow: "), result.stderr
    assert "Traceback" not in result.stderr
    return lines[0]


def naive(left: pa.Table = LEFT, right: pa.Table = RIGHT, within: int = WITHIN) -> list[dict[str, Any]]:
    """The exact join by trying all pairs."""
    return [
        {
            "user_id": a["user_id"],
            "left_ts": a["ts"],
            "price": a["price"],
            "right_ts": b["ts"],
            "page": b["page"],
        }
        for a in left.to_pylist()
        for b in right.to_pylist()
        if a["user_id"] == b["user_id"] and abs(a["ts"] - b["ts"]) < within
    ]


def bag(rows: list[dict[str, Any]]) -> Counter[Any]:
    return Counter(tuple(sorted(row.items())) for row in rows)


# ---------------------------------------------------------------------------------- what it writes and says


@pytest.mark.parametrize("out", ["out.parquet", "out.csv", "out.jsonl", "out.tsv.gz"])
def test_every_format_holds_the_exact_join(files: Path, out: str) -> None:
    assert len(naive()) == 5
    assert bag(joined(out=out)) == bag(naive())


def test_shards_give_the_same_join_and_say_how_memory_is_divided(files: Path) -> None:
    assert bag(joined("--shards", "3")) == bag(naive())
    assert json.loads(join("--shards", "3", "--memory", "60", "--json").stdout)["memory"] == "60 rows over 3 shards"


def test_the_closing_table_names_every_counter(files: Path) -> None:
    shown = join().stdout
    for word in (
        "arrived",
        "matched",
        "shed",
        "late",
        "ignored",
        "expired",
        "recall",
        "peak bytes",
        "rows per second",
    ):
        assert word in shown
    arrived = next(line.split() for line in shown.splitlines() if "arrived" in line)
    assert arrived == ["arrived", "5", "4", "9"]
    assert next(line.split() for line in shown.splitlines() if "recall" in line) == ["recall", "100.0%"]


def test_json_is_one_object_with_all_metrics_and_nothing_else(files: Path) -> None:
    result = join("--json")
    assert result.stderr == ""
    found = json.loads(result.stdout)
    assert (found["matched"], found["arrived"], found["recall"]) == (5, 9, 1.0)
    assert found["streams"]["left"]["arrived"] == 5
    assert found["rows_per_second"] > 0
    assert found["output"] == "out.parquet"


def test_quiet_prints_nothing(files: Path) -> None:
    result = join("--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert Path("out.parquet").exists()


def test_an_existing_output_is_replaced(files: Path) -> None:
    Path("out.csv").write_text("something else")
    assert bag(joined(out="out.csv")) == bag(naive())


@pytest.mark.parametrize("option", ["20%", "40", "30kB"])
def test_memory_gives_the_same_join_as_the_library(files: Path, option: str) -> None:
    left, right = zipf_pair(2_000, keys=30, seed=5)
    save(Path("l.parquet"), left)
    save(Path("r.parquet"), right)
    memory = int(option) if option.isdigit() else option
    result = wr.join(left, right, on="k", time="t", within=100, memory=memory, policy="life", seed=3)
    words = [
        "--on",
        "k",
        "--time",
        "t",
        "--within",
        "100",
        "--memory",
        option,
        "--policy",
        "life",
        "--seed",
        "3",
    ]
    rows = joined(*words, left="l.parquet", right="r.parquet")
    assert 0 < len(rows) == result.table.num_rows
    assert bag(rows) == bag(result.table.to_pylist())
    found = json.loads(join(*words, "--json", left="l.parquet", right="r.parquet").stdout)
    assert found["shed"] == result.metrics.total("shed") > 0
    assert found["recall"] == pytest.approx(result.recall)
    assert found["recall_interval"][0] <= found["recall"] <= found["recall_interval"][1]
    assert found["memory"].endswith("rows") == (option != "30kB")


@pytest.mark.parametrize("option", ["0.4", "unbiased"])
def test_a_sampler_reaches_the_join(files: Path, option: str) -> None:
    left, right = zipf_pair(1_000, keys=30, seed=5)
    save(Path("l.parquet"), left)
    save(Path("r.parquet"), right)
    sample: Any = option if option == "unbiased" else float(option)
    result = wr.join(left, right, on="k", time="t", within=100, memory=40, sample=sample)
    words = ["--on", "k", "--time", "t", "--within", "100", "--memory", "40", "--sample", option]
    found = json.loads(join(*words, "--json", left="l.parquet", right="r.parquet").stdout)
    assert found["shed"] >= found["sampled"] == result.metrics.sampled > 100


def test_times_of_day_and_durations(files: Path) -> None:
    left, right = bursty_pair(500, keys=20, seed=2)
    save(Path("l.csv"), left)
    save(Path("r.parquet"), right)
    expected = wr.join(left, right, on="user_id", time="ts", within="90 s").table
    rows = joined("--within", "1m 30s", left="l.csv", right="r.parquet")
    assert bag(rows) == bag(expected.to_pylist())


def test_sides_may_differ_in_time_column_and_window(files: Path) -> None:
    save(Path("other.csv"), RIGHT.rename_columns(["user_id", "at", "page"]))
    pairs = {"--left-within": "100", "--right-within": "1"}
    rows = joined(*(w for p in pairs.items() for w in p), "--right-time", "at", right="other.csv")
    # a left row stays for 100 steps; a right row meets only rows of its own step
    assert {(row["ts"], row["at"]) for row in rows} == {(0, 2), (0, 9), (5, 9), (1, 3)}


def test_conditions_filters_and_columns(files: Path) -> None:
    options = "--on 'left.user_id = right.user_id' --on 'left.price > right.ts' --where 'left.price < 7' "
    options += """--where "right.page in ('a', 'c')" --select 'right.page as p, left.price' --select left.ts"""
    words = shlex.split(options)
    assert joined(*words) == [{"p": "a", "price": 5.5, "ts": 0}, {"p": "c", "price": 6.5, "ts": 1}]
    assert json.loads(join(*words, "--json").stdout)["ignored"] == 2 + 2


def test_rows_later_than_the_lateness_are_counted_and_reported(files: Path) -> None:
    rows = 4 * feed.LATE_SLICE_ROWS  # more than one push, so that a watermark exists before the late rows come
    times = np.arange(rows)
    times[-3:] = [1, 2, rows - 4]  # two far behind, one within the lateness
    stream = pa.table({"ts": times, "k": np.arange(rows)})
    save(Path("l.parquet"), stream)
    save(Path("r.parquet"), stream.slice(0, rows - 3))
    words = ("--on", "k", "--within", "50", "--lateness", "100")
    found = json.loads(join(*words, "--json", left="l.parquet", right="r.parquet").stdout)
    assert (found["late"], found["streams"]["left"]["late"]) == (2, 2)
    assert found["matched"] == rows - 3
    shown = join(*words, left="l.parquet", right="r.parquet").stdout
    assert next(line.split() for line in shown.splitlines() if "late" in line) == ["late", "2", "0", "2"]
    in_order = json.loads(join("--on", "k", "--within", "50", "--json", left="l.parquet", right="r.parquet").stdout)
    assert in_order["late"] == 0


def test_a_file_that_has_ended_is_not_waited_for(files: Path) -> None:
    left, right = zipf_pair(4_000, keys=20, seed=1)
    save(Path("l.parquet"), left)
    save(Path("r.parquet"), right.slice(0, 100))
    words = ["--on", "k", "--time", "t", "--within", "50", "--json"]
    names = {"left": "l.parquet", "right": "r.parquet"}
    sorted_, late = (json.loads(join(*words, *more, **names).stdout) for more in ((), ("--lateness", "1")))
    assert late["matched"] == sorted_["matched"] > 0 and late["late"] == 0
    assert late["resident_rows"] == 51  # those of the window and of the lateness
    # the watermark moves between pushes of some thousand rows: those, and no more, are held beyond the window
    assert late["peak_rows"] <= sorted_["peak_rows"] + feed.LATE_SLICE_ROWS


def test_on_full_fail_names_the_budget_of_the_join(files: Path) -> None:
    left, right = zipf_pair(2_000, keys=30, seed=5)
    save(Path("l.parquet"), left)
    save(Path("r.parquet"), right)
    words = ["--on", "k", "--time", "t", "--within", "100", "--memory", "20%"]
    budget = json.loads(join(*words, "--json", left="l.parquet", right="r.parquet").stdout)["memory"]
    line = refused(join(*words, "--on-full", "fail", left="l.parquet", right="r.parquet"))
    assert line == (
        f"windrow: the join needs more than its memory of {budget.removeprefix('20% = ')}: give more --memory, or let "
        "--on-full shed choose what to lose"
    )


def test_no_recall_says_so(files: Path) -> None:
    assert json.loads(join("--memory", "3", "--no-recall", "--json").stdout)["recall"] is None
    assert "not known" in join("--memory", "3", "--no-recall").stdout


# ----------------------------------------------------------------------------------------------- empty files


HEADS = {"left": "user_id,ts,price\n", "right": "user_id,ts,page\n"}
EMPTY = [("", ""), ("", "head"), ("head", ""), ("head", "head"), ("", "full"), ("full", ""), ("head", "full")]


@pytest.mark.parametrize(("left", "right"), EMPTY)
def test_an_empty_file_is_an_empty_result(files: Path, left: str, right: str) -> None:
    save(Path("right.csv"), RIGHT)
    for side, content in (("left", left), ("right", right)):
        if content != "full":
            Path(f"{side}.csv").write_text(HEADS[side] if content else "")
    windows = ["5"] if "full" in (left, right) else ["5", "5m"]  # the times of a full file are integers
    for within in windows:
        for more in ("", "--memory 20%", "--where 'left.price > 5' --select left.price,right.page"):
            assert joined("--within", within, *shlex.split(more), right="right.csv") == []


def test_a_file_of_no_bytes_is_warned_of_and_has_only_the_columns_that_the_join_names(files: Path) -> None:
    Path("left.csv").write_text("")
    result = join(out="out.csv")
    assert (result.exit_code, result.stderr.count("\n")) == (0, 1)
    assert result.stderr.startswith("left.csv has no bytes, not even a header")
    assert Path("out.csv").read_text() == '"left_ts","user_id","right_ts","page"\n'


# ------------------------------------------------------------------------------------------ how files are read


def test_codes_other_separators_and_times_without_a_zone(files: Path) -> None:
    Path("l.csv").write_text("code;ts\n007;2024-01-01 00:00:00\n7;2024-01-01 00:00:01\n")
    Path("r.csv").write_text("code;ts\nA7;2024-01-01T00:00:02Z\n007;2024-01-01T00:00:03Z\n")
    words = ["--on", "code", "--within", "1m"]
    names = {"left": "l.csv", "right": "r.csv"}
    assert "'code;ts' is one column; say --separator ';'" in refused(join(*words, **names))
    words += ["--separator", ";"]
    assert "--text COLUMN reads a column as text" in refused(join(*words, "--utc", **names))
    words += ["--text", "code"]
    assert "--utc takes times without a zone as UTC" in refused(join(*words, **names))
    (row,) = joined(*words, "--utc", **names)
    assert (row["code"], (row["right_ts"] - row["left_ts"]).seconds) == ("007", 3)
    assert "neither file has a column 'cod'" in refused(join(*words, "--text", "cod", **names))
    assert "one character" in refused(join("--separator", ";;"))


# ------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--on", "usr_id"], "did you mean 'user_id'?"),
        (["--time", "tss"], "did you mean 'ts'?"),
        (["--select", "left.prise"], "did you mean 'price'?"),
        (["--where", "left.prise > 5"], "did you mean 'price'?"),
        (["--on", "left.ts = right.page"], "left.ts (int64) and right.page (string) cannot be compared"),
        (["--within", "0"], "window must be more than nothing"),
        (["--within", "-5"], "must not be negative"),
        (["--within", "5 parsecs"], "cannot read '5 parsecs'"),
        (["--within", "5m"], "times are integers"),
        (["--memory", "10B"], "cannot hold one row"),
        (["--memory", "0"], "at least one row"),
        (["--memory", "lots"], "cannot read 'lots'"),
        (["--memory", "1", "--on-full", "fail"], "needs more than its memory"),
        (["--on-full", "burn"], "one of 'shed', 'fail'"),
        (["--policy", "prop"], "did you mean 'prob'? Known names: rand, fifo, prob, life, life-expected"),
        (["--policy", "prob", "--statistics", "decade"], "did you mean 'decayed'?"),
        (["--statistics", "decayed:half_life"], "such as decayed:half_life=5000"),
        (["--statistics", "running", "--policy", "rand"], "decides without any"),
        (["--select", "left.ts, left.ts"], "both named 'ts'"),
        (["--where", "price > 5"], "write left. or right."),
        (["--where", "left.price > dear"], "does not fit the column's type"),
        (["--on", "left.price < price"], "--on: cannot read"),
        (["--left-time", "ts", "--time", "ts", "--lateness", "soon"], "cannot read 'soon'"),
        (["--seed", "-1"], "seed must be at least 0"),
        (["--memory", "9", "--sample", "1.5"], "must be below 1"),
        (["--memory", "9", "--sample", "some"], "a probability or 'unbiased'"),
        (["--engine", "flink"], "one of 'embedded', 'spark'"),
        (["--shards", "0"], "shards must be at least 1"),
        (["--shards", "4", "--memory", "3"], "too little for 4 shards"),
        (["--engine", "spark", "--lateness", "5"], "which Spark does not keep"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(files: Path, words: list[str], says: str) -> None:
    assert says in refused(join(*words))
    assert sorted(os.listdir()) == ["left.csv", "right.jsonl"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("none.csv", None, "none.csv: there is no such file"),
        ("fake.parquet", b"no parquet", "fake.parquet: reading failed"),
        ("notes.txt", b"ts", "the name does not say which format"),
        ("list.json", b"[1, 2]", "this is not JSON lines"),
        ("missing.csv", b"user_id\n1\n", "has no column 'ts'"),
        ("twice.csv", b"ts,ts\n1,2\n", "two columns are named 'ts'"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(files: Path, name: str, content: bytes | None, says: str) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    assert says in refused(join(right=name))
    assert not Path("out.parquet").exists()


def test_an_unreadable_file_is_refused(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> bytes:  # not by mode bits, which do not hold for root
        raise PermissionError(13, "Permission denied", "left.csv")

    monkeypatch.setattr("windrow.files.text._head", denied)
    assert refused(join()) == "windrow: left.csv: permission denied; reading is not allowed"


@pytest.mark.parametrize(
    ("out", "says"),
    [
        ("left.csv", "this is an input too"),
        ("./right.jsonl", "this is an input too"),
        ("nowhere/out.csv", "the directory nowhere does not exist"),
        ("out.xls", "the name does not say which format"),
    ],
)
def test_a_wrong_output_is_refused_and_nothing_is_lost(files: Path, out: str, says: str) -> None:
    before = Path("left.csv").read_bytes(), Path("right.jsonl").read_bytes()
    assert says in refused(join(out=out))
    assert (Path("left.csv").read_bytes(), Path("right.jsonl").read_bytes()) == before


def test_a_join_that_fails_half_way_leaves_the_old_output(files: Path) -> None:
    nested = pa.table({"user_id": [1], "ts": [1], "tags": [["a"]]})
    save(Path("nested.parquet"), nested)
    Path("out.csv").write_text("old")
    assert "does not fit into this format" in refused(join(right="nested.parquet", out="out.csv"))
    assert Path("out.csv").read_text() == "old"
    assert [name for name in os.listdir() if name.endswith(".tmp")] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["join", "left.csv"], "Missing argument 'right'"),
        (["join", "left.csv", "right.jsonl", "--on", "k"], "Missing option '--output'"),
        (["join", "left.csv", "right.jsonl", "--no", "k"], "No such option"),
        (
            ["join", "left.csv", "right.jsonl", "--on", "k", "-o", "o.csv", "--seed", "x"],
            "Invalid value for '--seed'",
        ),
        (["jion"], "No such command 'jion'"),
    ],
)
def test_a_wrongly_written_command_has_exit_code_2(files: Path, words: list[str], says: str) -> None:
    line = refused(windrow(*words), code=2)
    assert says in line and "--help)" in line


def test_an_interrupt_is_one_line_and_leaves_nothing(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("windrow.files.writer._ParquetWriter._add", interrupted)
    assert refused(join(), code=INTERRUPTED) == "windrow: interrupted"
    assert sorted(os.listdir()) == ["left.csv", "right.jsonl"]


@pytest.mark.parametrize(
    ("signal", "code", "says"),
    [(KeyboardInterrupt, INTERRUPTED, "interrupted"), (Terminated, TERMINATED, "terminated")],
)
def test_a_signal_that_arrives_in_a_kernel_is_one_line(
    files: Path, monkeypatch: pytest.MonkeyPatch, signal: type[BaseException], code: int, says: str
) -> None:
    def returned(*_: object) -> None:  # as numba's dispatcher has it, when the handler has run before it returns
        raise SystemError("returned a result with an exception set") from signal()

    monkeypatch.setattr("windrow.files.writer._ParquetWriter._add", returned)
    assert refused(join(), code=code) == f"windrow: {says}"
    assert sorted(os.listdir()) == ["left.csv", "right.jsonl"]


def test_an_error_inside_python_is_not_taken_for_a_signal(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise SystemError("an internal call failed")

    monkeypatch.setattr("windrow.files.writer._ParquetWriter._add", broken)
    assert isinstance(join().exception, SystemError)


# ----------------------------------------------------------------------------------------------------- Spark


@pytest.mark.parametrize(("says", "found"), [("1.8.0_392", "Java 8"), ("11.0.2", "Java 11"), (None, "found none")])
def test_without_java_17_it_says_what_to_do(
    files: Path, monkeypatch: pytest.MonkeyPatch, says: str | None, found: str
) -> None:
    home = files / "java"
    if says is not None:
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{says}\"' >&2\n")
        (home / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    line = refused(join("--engine", "spark"))
    assert line.startswith("windrow: Spark needs Java 17 or newer and found") and found in line
    assert "apt-get install openjdk-17-jre-headless" in line and "JAVA_HOME" in line
    assert {*os.listdir()} - {"java"} == {"left.csv", "right.jsonl"}


def test_without_pyspark_it_says_what_to_install(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windrow.lab.session.find_spec", lambda name: None)
    assert "needs the package pyspark: install it with pip install" in refused(join("--engine", "spark"))


# ----------------------------------------------------------------------------------------- help and notices


def test_every_command_has_help_with_an_example() -> None:
    for words in ([], ["--help"], ["join", "--help"], ["demo", "--help"]):
        result = windrow(*words)
        assert result.exit_code == 0
        assert "Example:" in result.stdout


def test_version() -> None:
    assert windrow("--version").stdout == f"windrow {wr.__version__}\n"
