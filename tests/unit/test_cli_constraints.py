"""`windrow join --constraints`: what is promised or found reaches the join, and its closing table says what came of it.

They catch an option that is read and not used, a text that does not stand for the constraint that is shown by it, a
column that a constraint needs and nobody reads, and a refusal that is not one line.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.test_cli import bag, join, joined, refused, save, windrow

import windrow as wr
from windrow.cli import texts

ROWS = 6_000
NAMES = st.sampled_from(["left", "right"])
COLUMNS = st.sampled_from(["id", "user_id", "a b", "on", "is"])
KS = st.integers(0, 10**6) | st.sampled_from(["5 s", "2 hours", "3 steps", "250 ms"])
PROMISES = st.one_of(
    st.builds(wr.Unique, NAMES, st.lists(COLUMNS, min_size=1, unique=True)),
    st.builds(wr.Integrity, st.just("left"), st.just("right"), KS),
    st.builds(wr.Clustered, NAMES, st.lists(COLUMNS, min_size=1, unique=True), KS),
    st.builds(wr.Ordered, NAMES, COLUMNS, KS),
)


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[pa.Table, pa.Table]:
    """Two files in which each id has one row, three steps apart; their directory is the current one."""
    numbers = np.arange(ROWS)
    left = pa.table({"user_id": numbers, "ts": numbers, "price": numbers / 4})
    right = pa.table({"user_id": numbers, "ts": numbers + 3})
    save(tmp_path / "left.csv", left)
    save(tmp_path / "right.jsonl", right)
    monkeypatch.chdir(tmp_path)
    return left, right


UNIQUE = ("--constraints", "left is unique on user_id", "--constraints", "right is unique on user_id")
NONE_SPARED = ("--on-violation", "lose:sample=0")


@given(PROMISES)
def test_a_declared_constraint_is_written_as_it_is_shown(constraint: wr.spec.Constraint) -> None:
    assert texts.constraints([str(constraint)]) == [constraint]


@pytest.mark.parametrize("shards", ["1", "3"])
def test_declared_constraints_release_and_lose_nothing(pair: tuple[pa.Table, pa.Table], shards: str) -> None:
    exact = bag(joined("--within", "1000"))
    assert bag(joined("--within", "1000", "--shards", shards, *UNIQUE)) == exact
    found = json.loads(join("--within", "1000", "--shards", shards, *UNIQUE, "--json").stdout)
    assert found["released"] + found["resident_rows"] == 2 * ROWS == found["arrived"]  # some are spared
    assert 0 < found["resident_rows"] <= 2 * ROWS / 100 and found["recall"] == 1.0
    found = json.loads(join("--within", "1000", "--shards", shards, *UNIQUE, *NONE_SPARED, "--json").stdout)
    assert found["released"] == 2 * ROWS == found["arrived"]
    assert found["constraints"]["left is unique on user_id"]["used"] is True


def test_the_closing_table_says_which_were_used_and_what_they_released(pair: tuple[pa.Table, pa.Table]) -> None:
    lines = [line.split() for line in join("--within", "1000", *UNIQUE, *NONE_SPARED).stdout.splitlines()]
    assert ["released", "6,000", "6,000", "12,000"] in lines
    assert ["constraint", "used", "k", "seen", "measured", "violations", "released"] in lines
    assert ["left", "is", "unique", "on", "user_id", "yes", "0", "0", "6,000"] in lines
    assert "constraint" not in join("--within", "1000").stdout


def test_distances_have_their_unit(pair: tuple[pa.Table, pa.Table], tmp_path: Path) -> None:
    """Rows, steps of whole numbers, and lengths of time."""

    def told(within: str, promise: str) -> list[str]:
        lines = [line.split() for line in join("--within", within, "--constraints", promise).stdout.splitlines()]
        (line,) = (line for line in lines if line[:3] == ["left", "->", "right"])
        return line[3:8]

    assert told("1000", "left -> right within 9 rows") == ["yes", "9", "rows", "4", "rows"]
    assert told("1000", "left -> right within 5 steps") == [
        "yes",
        "5",
        "steps",
        "2",
        "steps",
    ]  # less than the partner is away
    for name, table in zip(("left.csv", "right.jsonl"), pair, strict=True):
        moments = pa.array(table["ts"].to_numpy() * 1_250_000, pa.timestamp("us"))
        save(tmp_path / name, table.set_column(1, "ts", moments))
    assert told("1 hour", "left -> right within 6 s") == ["yes", "6", "seconds", "3.750", "s"]


def test_monitors_are_the_librarys(pair: tuple[pa.Table, pa.Table]) -> None:
    for words, constraints in (
        ("auto", "auto"),
        ("watch", "watch"),
        ("auto:reaction=200,margin=2", wr.Monitored(reaction=200, margin=2)),
    ):
        metrics = wr.join(*pair, on="user_id", time="ts", within=1000, constraints=constraints).metrics
        found = json.loads(join("--within", "1000", "--constraints", words, "--json").stdout)
        assert (found["released"], found["constraints"]) == (metrics.released, metrics.to_dict()["constraints"])
        assert bool(found["released"]) == (words != "watch")


def test_a_column_that_only_a_constraint_names_is_read(pair: tuple[pa.Table, pa.Table]) -> None:
    more = ("--on", "user_id", "--on", "left.price <= right.ts", "--select", "left.ts", "--within", "1000")
    assert len(joined(*more, "--constraints", "left is ordered on user_id within 0 rows")) == ROWS


def test_a_broken_constraint_loses_matches_or_demotes_rows(pair: tuple[pa.Table, pa.Table], tmp_path: Path) -> None:
    late = pa.table({"user_id": [5, 6], "ts": [900, 901]})
    save(tmp_path / "right.jsonl", pa.concat_tables([pair[1].slice(0, 500), late]))
    exact = bag(joined("--within", "1000"))
    lost = joined("--within", "1000", *UNIQUE)
    assert sum(exact.values()) == 502 and len(lost) == 500
    assert bag(joined("--within", "1000", *UNIQUE, "--on-violation", "demote")) == exact
    folder = tmp_path / "scratch"
    folder.mkdir()
    shown = join("--within", "1000", *UNIQUE, "--on-violation", f"demote:folder={folder},disk=2MB").stdout
    assert "demoted to disk" in shown and "found on disk" in shown
    assert not list(folder.iterdir())


def test_a_constraint_that_is_seen_broken_is_said_to_be(pair: tuple[pa.Table, pa.Table], tmp_path: Path) -> None:
    assert "does not hold" not in join("--within", "1000", *UNIQUE).stdout
    save(tmp_path / "left.csv", pa.concat_tables([pair[0].slice(0, 2), pair[0]]))  # two ids twice, before partners come
    told = " ".join(join("--within", "1000", *UNIQUE).stdout.split())
    assert "does not hold: matches are missing" in told and "recall not known" in told


def test_declared_constraints_of_a_text_query(pair: tuple[pa.Table, pa.Table]) -> None:
    text = "Select Istream(L.ts) From L [Range 1000], R [Range 1000] Where L.user_id = R.user_id"
    words = (text, "--stream", "L=left.csv", "--stream", "R=right.jsonl", "--time", "ts", "--json", "-o", "o.csv")
    promises = ("--constraints", "L is unique on user_id", "--constraints", "R is unique on user_id")
    found = json.loads(windrow("cql", *words, *promises).stdout)
    line = found["joins"][0]
    assert found["count"] == ROWS and line["released"] + line["resident_rows"] == 2 * ROWS
    assert 0 <= line["resident_rows"] <= 2 * ROWS / 100  # some are spared
    words = tuple(word for word in words if word != "--json")
    lines = [line.split() for line in windrow("cql", *words, *promises).stdout.splitlines()]
    assert ["L", "is", "unique", "on", "user_id", "yes", "0", "0", f"{ROWS:,}"] in lines
    assert "L -> R" in windrow("cql", *words, "--constraints", "watch").stdout
    assert "constraint" not in windrow("cql", *words).stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--constraints", "always"], "--constraints: cannot read 'always'; write watch, auto, or what is known"),
        (["--constraints", "left is unique on user_id within 5 rows"], "cannot read"),
        (["--constraints", "left -> right within 5"], "'5' has no unit: write 'within 5 rows'"),
        (["--constraints", "left -> right within soon"], "cannot read 'soon'"),
        (["--constraints", "auto", "--constraints", "left -> right"], "give one or the other"),
        (["--constraints", "left -> right within , rows"], "cannot read ', rows'"),
        (["--constraints", "watch:release=true"], "leave release out"),
        (["--constraints", "auto:margin"], "such as auto:margin=1.5"),
        (["--constraints", "auto:margins=2"], "did you mean 'margin'?"),
        (["--constraints", "auto:margin=0.5"], "margin must be at least 1"),
        (["--constraints", "middle is unique on user_id"], "'middle'"),
        (["--constraints", "left is unique on nothing"], "nothing"),
        (["--on-violation", "demote"], "set constraints"),
        (["--constraints", "auto", "--on-violation", "cry"], "one of 'lose', 'demote'"),
        (["--constraints", "auto", "--on-violation", "cry:disk=2GB"], "takes no values"),
        (["--constraints", "left is unique on user_id", "--on-violation", "lose:disk=2GB"], "disk"),
        (["--constraints", "left is unique on user_id", "--on-violation", "lose:sample=2"], "from 0 to 1"),
        (["--constraints", "auto", "--on-violation", "lose:sample=0.1"], "has the sample of Monitored"),
        (["--on-violation", "lose:sample=0.1"], "set constraints"),
        (["--constraints", "auto", "--on-violation", "demote:disc=2GB"], "did you mean 'disk'?"),
        (["--constraints", "auto", "--on-violation", "demote", "--engine", "spark"], "for --engine embedded"),
    ],
)
def test_what_is_no_constraint_is_refused_in_one_line(
    pair: tuple[pa.Table, pa.Table], words: list[str], says: str
) -> None:
    assert says in refused(join(*words))
