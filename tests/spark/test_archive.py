"""An archive belongs to its checkpoint and is whole, or one clear line says what is wrong.

Can catch: an archive that is taken away, emptied, exchanged or damaged between two runs and is gone on with in silence;
a kill or a retry that is taken for one of these; rows that upkeep loses or doubles, killed or not; rows that are
forgotten and still needed.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark import driving
from tests.spark.driving import WINDOW, Driven, archived, bags, batches, exact, missed, query
from typer.testing import CliRunner

import windrow as wr
from windrow.cli import app
from windrow.errors import InputError, SnapshotError, SpecError, WindrowError
from windrow.spark import upkeep
from windrow.spark.archive import HEADER, Run, read_header
from windrow.spark.contents import SHARDS, contents
from windrow.spark.labels import labels
from windrow.spark.lost_rows import Reader, any_lost


def run(archive: Path, rows: list[Any], **options: Any) -> Driven:
    """A query that has taken some batches."""
    driven = Driven(archive).start(query(**options))
    for batch in rows:
        driven.push(batch)
    return driven


def test_output_and_archive_are_the_exact_join(tmp_path: Path) -> None:
    rows = batches(1, 20)
    driven = run(tmp_path / "lost", rows)
    lost = missed(archived(tmp_path / "lost"), rows)
    assert driven.output.total() > 0 and lost.total() > 0
    assert driven.output + lost == exact(rows)


def test_kills_and_retries_change_nothing(tmp_path: Path) -> None:
    rows = batches(2, 14)
    calm = run(tmp_path / "calm", rows)
    driven = Driven(tmp_path / "lost").start(query())
    for k, batch in enumerate(rows):
        if k % 3 == 0:
            driven.push(batch, commit=False)
        if k % 4 == 0:
            driven.start(query())
        driven.push(batch)
    assert driven.output == calm.output and driven.states.keys() == calm.states.keys()
    names = [sorted(str(f.relative_to(root)) for f in root.rglob("*.parquet")) for root in tmp_path.iterdir()]
    assert names[0] == names[1] and len(names[0]) > 20
    assert bags(tmp_path / "lost") == bags(tmp_path / "calm")


def test_what_a_killed_push_wrote_is_taken_back_if_nothing_is_lost_in_the_end(tmp_path: Path) -> None:
    rows = batches(3, 5)
    driven = run(tmp_path, rows)
    many = [{"id": 1000 + n, "k": n % 4, "t": 100 + n // 10} for n in range(40)]
    batch = dict.fromkeys(driving.WINDOW, pa.Table.from_pylist(many, schema=driving.SCHEMA))
    before = bags(tmp_path)
    driven.push(batch, commit=False)
    assert bags(tmp_path) != before
    driven.start(query(memory=None)).push(batch)
    assert bags(tmp_path) == before
    driven.start(query(memory=3)).push(rows[-1])
    assert bags(tmp_path) != before


def one_file(archive: Path) -> Path:
    """A file in the middle, of the shard that is called in every micro-batch."""
    return sorted((archive / "left").glob("000000-*.parquet"))[2]


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "removed": (shutil.rmtree, "is not the one that this checkpoint has written to"),
    "emptied": (lambda a: [shutil.rmtree(p) if p.is_dir() else p.unlink() for p in a.iterdir()], "is not the one"),
    "without a header": (lambda a: (a / HEADER).unlink(), "is not the one"),
    "without a stream": (lambda a: shutil.rmtree(a / "right"), r"is not whole: right/000000-000000001\.parquet"),
    "without a file": (lambda a: one_file(a).unlink(), r"is not whole: left/000000-000000003\.parquet is missing"),
    "without rows": (lambda a: [p.unlink() for p in a.rglob("*.parquet")], "is not whole: left/000000-000000001"),
    "without rows and numbers": (
        lambda a: [p.unlink() for p in (*a.rglob("*.parquet"), *(a / SHARDS).iterdir())],
        "is not whole: left/000000-000000001",
    ),
    "without its newest file": (
        lambda a: sorted((a / "left").glob("000000-*.parquet"))[-1].unlink(),
        "is not whole: left/000000-",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_an_archive_that_is_not_whole_is_found_out_on_restart(damage: str, tmp_path: Path) -> None:
    archive, rows = tmp_path / "lost", batches(5, 9)
    driven = run(archive, rows[:8])
    break_it, says = DAMAGE[damage]
    break_it(archive)
    with pytest.raises(WindrowError, match=says) as caught:
        driven.start(query()).push(rows[8])
    assert "put " in str(caught.value) and "a new checkpoint and a new archive" in str(caught.value)
    assert "of its own" not in str(caught.value)
    assert driven.output.total() > 0


def test_every_single_file_is_missed(tmp_path: Path) -> None:
    """Of whatever shard: the witness sees it at once, though nobody else has rows."""
    rows = batches(6, 7)
    archive = tmp_path / "lost"
    driven = run(archive, rows)
    empty = {name: table.slice(0, 0) for name, table in rows[0].items()}
    files = sorted(archive.rglob("*.parquet"))
    assert {file.name[:6] for file in files} == {f"{label:06d}" for label in labels(2)} and len(files) > 10
    for file in files:
        kept = file.read_bytes()
        file.unlink()
        with pytest.raises(WindrowError, match=f"is not whole: {file.parent.name}/{file.stem}"):
            driven.start(query()).push(empty)
        with pytest.raises(InputError, match="is not whole"):
            archived(archive)
        file.write_bytes(kept)
    driven.start(query()).push(empty)


def test_another_archive_is_refused(tmp_path: Path) -> None:
    rows = batches(7, 5)
    driven, other = run(tmp_path / "mine", rows[:4]), run(tmp_path / "other", rows[:4])
    before = bags(tmp_path / "other")
    with pytest.raises(SnapshotError, match="is not the one that this checkpoint has written to"):
        driven.start(query(), archive=tmp_path / "other").push(rows[4])
    with pytest.raises(SnapshotError, match="is not the one that this checkpoint has written to"):
        driven.start(query(), archive=tmp_path / "new").push(rows[4])
    assert bags(tmp_path / "other") == before
    other.start(query()).push(rows[4])
    driven.start(query()).push(rows[4])
    (tmp_path / "mine").rename(tmp_path / "moved")  # the folder may move, as long as it comes along
    driven.start(query(), archive=tmp_path / "moved").push(rows[4])


@pytest.mark.parametrize("pushes", [1, 2, 5])
def test_a_new_checkpoint_needs_a_new_archive(pushes: int, tmp_path: Path) -> None:
    rows = batches(8, 6)
    run(tmp_path, rows[:pushes])
    before = bags(tmp_path)
    with pytest.raises(SnapshotError, match="a new checkpoint needs a new archive"):
        run(tmp_path, rows)
    assert bags(tmp_path) == before


def test_without_word_from_spark_most_of_it_is_found_out(tmp_path: Path) -> None:
    rows = batches(8, 6)
    nameless = Driven(tmp_path, run=Run())
    nameless.start(query())
    for batch in rows[:3]:
        nameless.push(batch)
    with pytest.raises(SnapshotError, match="a new checkpoint needs a new archive"):
        Driven(tmp_path, run=Run()).start(query()).push(rows[0])


def test_a_checkpoint_that_was_set_back(tmp_path: Path) -> None:
    rows = batches(9, 8)
    driven = run(tmp_path, rows[:4])
    earlier = dict(driven.states)
    for batch in rows[4:7]:
        driven.push(batch)
    driven.states = earlier
    with pytest.raises(SnapshotError, match=r"later micro-batches than this checkpoint.*set the archive back"):
        driven.start(query()).push(rows[4])


def test_an_archive_is_looked_through_once_per_shard_and_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Any] = []
    real = contents
    monkeypatch.setattr("windrow.spark.archive.contents", lambda *a: looks.append(a[2]) or real(*a))
    rows = batches(10, 8)
    driven = run(tmp_path, rows[:5])
    assert sorted(looks, key=str) == [max(labels(2)), None]  # the witness looks at all shards
    driven.start(query())
    for batch in rows[5:]:
        driven.push(batch)
    assert len(looks) == 4
    (tmp_path / HEADER).unlink()
    with pytest.raises(SnapshotError, match="is not the one"):  # and at the id in every push
        driven.push(rows[0])


def test_an_archive_that_cannot_be_written(tmp_path: Path) -> None:
    driven = run(tmp_path / "lost", batches(11, 2))
    shutil.rmtree(tmp_path / "lost" / "left")
    with pytest.raises(InputError, match=r"the archive '.*lost' cannot be written"):
        driven.push(batches(11, 3)[2])
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"the archive '.*file' cannot be written"):
        Driven(tmp_path / "file").start(query())


def test_what_is_no_archive(tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"id": "x"}'):
        (tmp_path / HEADER).write_text(text)
        with pytest.raises(InputError):
            read_header(tmp_path)
    (tmp_path / HEADER).write_text(json.dumps({"id": "x", "facts": {"layout": 1}, "query": "{}"}))
    with pytest.raises(InputError, match="another layout"):
        read_header(tmp_path)
    with pytest.raises(InputError, match="no archive of windrow"):
        wr.spark.compact(tmp_path / "nowhere")


# --------------------------------------------------------------------------------------------- upkeep


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "FAN", 3)
    monkeypatch.setattr(upkeep, "GROUP_ROWS", 10)


def test_merging_changes_no_row_while_the_query_runs(small: None, tmp_path: Path) -> None:
    rows = batches(12, 40, rows=8)
    calm, driven = run(tmp_path / "calm", rows), Driven(tmp_path / "lost").start(query())
    for k, batch in enumerate(rows):
        if k % 7 == 6:
            driven.push(batch, commit=False)
            wr.spark.compact(tmp_path / "lost")
            driven.start(query())
        driven.push(batch)
    first = wr.spark.compact(tmp_path / "lost")
    assert bags(tmp_path / "lost") == bags(tmp_path / "calm")
    second = wr.spark.compact(tmp_path / "lost")
    assert first.after == second.before == second.after and second.removed > 0
    files = list((tmp_path / "lost").rglob("*.parquet"))
    assert len(files) == second.after < len(list((tmp_path / "calm").rglob("*.parquet"))) / 3
    assert bags(tmp_path / "lost") == bags(tmp_path / "calm")
    assert wr.spark.compact(tmp_path / "lost") == upkeep.Upkeep(second.after, second.after, 0)
    driven.start(query()).push(rows[-1])
    assert driven.output.total() >= calm.output.total()


def test_merging_that_is_killed_anywhere_changes_no_row(
    small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    rows = batches(13, 24, rows=8)
    driven = run(tmp_path, rows)
    before = bags(tmp_path)
    steps = [0, 10**9]

    def watched(name: str, real: Any) -> Any:
        def call(*given: Any) -> Any:
            if steps[0] == steps[1]:
                raise Killed
            steps[0] += 1
            return real(*given)

        return call

    for name in ("_merge", "_remove", "hidden_name"):
        monkeypatch.setattr(upkeep, name, watched(name, getattr(upkeep, name)))
    kills = 0
    for limit in range(40):
        steps[:] = 0, limit
        try:
            wr.spark.compact(tmp_path)
        except Killed:
            kills += 1
        assert bags(tmp_path) == before, limit
    assert kills > 5
    driven.start(query()).push(rows[-1])


def test_files_that_have_grown_large_are_left_alone(
    small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, batches(14, 12, rows=8))
    before = bags(tmp_path)
    three = sum(file.size for file in contents(str(tmp_path), ["left"]).kept("left")[:3])
    monkeypatch.setattr(upkeep, "LARGEST", three - 1)
    wr.spark.compact(tmp_path)
    left = contents(str(tmp_path), ["left"]).kept("left")
    assert [file.last for file in left[:3]] == [1, 2, 3] and bags(tmp_path) == before
    monkeypatch.setattr(upkeep, "LARGEST", three)
    wr.spark.compact(tmp_path)
    assert contents(str(tmp_path), ["left"]).kept("left")[0].last >= 3 and bags(tmp_path) == before


def test_a_file_that_cannot_be_read_is_named_by_repair_and_upkeep(small: None, tmp_path: Path) -> None:
    archive = tmp_path / "lost"
    run(archive, batches(12, 12, rows=8))
    found = contents(str(archive), tuple(WINDOW))
    broken = archive / found.kept("left")[0].name
    broken.write_bytes(b"no Parquet")
    says = rf"left/{broken.stem}.*in the archive cannot be read.*put a sound copy in its place"
    with pytest.raises(InputError, match=says):
        wr.spark.compact(archive)
    with pytest.raises(InputError, match=says):
        wr.spark.forget(archive, before=1_000)
    with pytest.raises(InputError, match=r"'left' in the archive cannot be read.*" + broken.stem):
        any_lost(str(archive), found.kept("left"), "no such reason")
    read = Reader(str(archive), ((found.kept("left")[0].name,),), pa.schema([("id", pa.int64())]), ("shed",))
    with pytest.raises(InputError, match=says):
        list(read([pa.record_batch({"id": [0]})]))


def test_forgetting_keeps_what_later_matches_need(small: None, tmp_path: Path) -> None:
    *rows, more = batches(15, 31)
    driven = run(tmp_path, rows)
    before = bags(tmp_path)
    wanted = missed(archived(tmp_path), rows)
    times = {row["id"]: row["t"] for batch in rows for table in batch.values() for row in table.to_pylist()}
    wr.spark.compact(tmp_path)
    done = wr.spark.forget(tmp_path, before=50)
    assert done.after < done.before and done.removed >= done.before - done.after
    after = bags(tmp_path)
    assert all(after[name] < before[name] for name in after)
    found = missed(archived(tmp_path), rows)

    def since(pairs: Any, start: int) -> dict[Any, int]:
        return {pair: n for pair, n in pairs.items() if max(times[pair[0]], times[pair[1]]) >= start}

    assert since(found, 50) == since(wanted, 50) != {} and found != wanted
    assert contents(str(tmp_path), driving.WINDOW).since == 50
    assert wr.spark.forget(tmp_path, before=20).removed == 0  # what is forgotten stays so
    assert contents(str(tmp_path), driving.WINDOW).since == 50
    driven.start(query()).push(more)
    wr.spark.compact(tmp_path)
    assert since(missed(archived(tmp_path), rows), 50) == since(wanted, 50)
    newest = [row.newest for row in contents(str(tmp_path), driving.WINDOW).rows.values()]
    wr.spark.forget(tmp_path, before=10**6)
    rest = contents(str(tmp_path), driving.WINDOW)
    assert [row.newest for row in rest.rows.values()] == newest
    assert all(len(row.kept) == 1 for row in rest.rows.values())
    driven.start(query()).push(rows[-1])


def test_forgetting_needs_a_moment_and_windows_that_end(tmp_path: Path) -> None:
    run(tmp_path / "a", batches(16, 5))
    for before in ("yesterday", "2024-01-01", 1.5, None):
        with pytest.raises(SpecError, match="before"):
            wr.spark.forget(tmp_path / "a", before)  # type: ignore[arg-type]
    driven = Driven(tmp_path / "b").start(_endless())
    for batch in batches(16, 5):
        driven.push(batch)
    wr.spark.forget(tmp_path / "b", before=10**6)
    rest = contents(str(tmp_path / "b"), driving.WINDOW)
    assert len(rest.kept("left")) > 2 >= len(rest.kept("right"))


def _endless() -> wr.Query:
    streams = [wr.Stream("left", "t"), wr.Stream("right", "t", 4)]
    return query().with_(streams=streams)


def test_upkeep_from_the_command_line(small: None, tmp_path: Path) -> None:
    run(tmp_path, batches(17, 12))

    def windrow(*words: str) -> Any:
        return CliRunner().invoke(app, ["archive", *words], prog_name="windrow")

    before = bags(tmp_path)
    done = windrow("compact", str(tmp_path))
    assert done.exit_code == 0 and re.fullmatch(r"\d+ files before, \d+ after; 0 removed\n", done.stdout), done.output
    assert bags(tmp_path) == before
    found = json.loads(windrow("forget", str(tmp_path), "--before", "25", "--json").stdout)
    assert found["removed"] > 0 and contents(str(tmp_path), driving.WINDOW).since == 25
    for words, says in {
        ("forget", str(tmp_path), "--before", "2024-01-01"): "before: times are integers",
        ("forget", str(tmp_path), "--before", "soon"): "--before soon is no moment",
        ("compact", str(tmp_path / "left")): "is no archive of windrow",
        ("compact", "dbfs:/lost"): "windrow knows file:",
    }.items():
        refused = windrow(*words)
        assert refused.exit_code == 1 and says in refused.stderr and refused.stderr.count("\n") == 1
    for words in ([], ["--help"], ["compact", "--help"], ["forget", "--help"]):
        assert "Example:" in windrow(*words).stdout
