"""A site that is killed at any moment goes on from its folder, and the sites together give the join.

No network and no threads: what is in an outbox is handed over, once or twice, or later; a site is dropped without a
word and made anew from its files. Catches: what is sent before it is noted, what is acknowledged before it is noted,
state that a snapshot forgets, results that are lost or written twice, ends that are forgotten, entries that are half
written.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.test_sites import one_engine
from tests.running import assert_same, examples, multiset

from windrow.errors import InputError, SnapshotError
from windrow.sites.ground.description import describe
from windrow.sites.ground.keeping import _HEAD, Entry, Keeping
from windrow.sites.ground.outbox import Outbox
from windrow.sites.ground.results import Results, results
from windrow.sites.ground.running import Event, Running
from windrow.sites.programs import PROGRAMS

SITES = {"a": "A", "b": "B", "c": "C"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine does not fail in these tests, only processes do."""
    monkeypatch.setattr(os, "fdatasync", lambda handle: None)
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def stream(random: Random, rows: int) -> pa.Table:
    time = sorted(random.randrange(40) for _ in range(rows))
    swapped = [max(0, t - random.randrange(3)) for t in time]
    keys = [random.randrange(3) for _ in time]
    return pa.table({"t": pa.array(swapped, pa.int64()), "k": pa.array(keys, pa.int64()),
                     "id": pa.array(range(rows), pa.int64())})  # fmt: skip


def describe_in(root: Path, names: list[str], programs: list[str], **more: Any) -> Path:
    columns = {"t": "int64", "k": "int64", "id": "int64"}
    chosen = iter(programs * len(names))
    data = {
        "on": "k", "select": [[f"{n}.id", n] for n in names], "interval": 4, "delay": 5,
        "streams": {n: {"site": SITES[n], "time": "t", "window": 6, "lateness": 3, "schema": columns} for n in names},
        "sites": {SITES[n]: {"address": f"127.0.0.1:{7000 + k}"} for k, n in enumerate(names)},
        "plan": {"sequences": {n: [[m, next(chosen)] for m in names if m != n] for n in names}},
        **more,
    }  # fmt: skip
    path = root / "sites.json"
    path.write_text(json.dumps(data))
    return path


class Play:
    """Sites without a network, in the hands of a random player."""

    def __init__(self, file: Path, tables: dict[str, pa.Table], random: Random) -> None:
        self.file, self.tables, self.random = file, tables, random
        self.sites = {site: Running(describe(file), site) for site in describe(file).stations}
        self.here = list(self.sites)  # sites that have not left

    def kill(self, site: str) -> None:
        """The process is gone: only files are left."""
        self.sites[site].keeping._lock.close()
        self.sites[site].keeping._journal.close()  # what was not flushed was never acted upon
        self.sites[site] = Running(describe(self.file), site)
        for other in self.sites.values():
            for outbox in other.outboxes.values():
                outbox.rewind()

    def feed(self, name: str) -> None:
        running, table = self.sites[SITES[name]], self.tables[name]
        done = (running.arrivals[name].position or {"row": 0})["row"]
        upto = min(table.num_rows, done + 1 + self.random.randrange(6))
        if done < table.num_rows:
            running.feed(name, table.slice(done, upto - done), position={"row": upto})
            running.round(0.0)
        elif running.arrivals[name].ended is None:
            running.end(name)
            running.round(0.0)

    def carry(self, sender: str, receiver: str) -> None:
        """A connection that lasts for a few messages: what it had, what was sent, what was heard of it."""
        one, other = self.sites[sender], self.sites[receiver]
        outbox = one.outboxes[receiver]
        outbox.acknowledge(other.acknowledged[sender])
        outbox.rewind()
        for _ in range(self.random.randrange(1, 6)):
            data = outbox.following(0.0)
            if data is None:
                break
            for _ in range(1 + (self.random.random() < 0.1)):
                message = other.decode(data, sender)
                if message is None:
                    break  # of a plan that is not known there yet: it comes again
                other.offer(Event(Entry("message", {}, data), message=message))
        other.tell(sender, one.public["facts"])
        other.progress[sender] = one.public
        other.round(0.0)
        one.heeded[receiver] = other.heard.get(sender, -1)

    def step(self, kills: float) -> None:
        move, site = self.random.random(), self.random.choice(self.here)
        if move < kills:
            self.kill(site)
        elif move < kills + 0.1:
            self.sites[site].snapshot()
        elif move < 0.6:
            self.feed(self.random.choice([name for name in self.tables if SITES[name] in self.here]))
        elif len(self.here) > 1:
            self.carry(*self.random.sample(self.here, 2))
        away = {site: float("inf") for site in self.sites if site not in self.here}
        self.here = [site for site in self.here if not self.sites[site].may_leave(away)]

    def run(self, kills: float) -> None:
        for _ in range(6000):
            self.step(kills)
            if not self.here:
                return
        raise AssertionError({site: (r.lacking(), r.public) for site, r in self.sites.items()})


@examples(14)
@given(st.data())
def test_sites_that_are_killed_give_the_join(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    random = Random(data.draw(st.integers(0, 2**32)))
    names = list(SITES)[: data.draw(st.integers(2, 3))]
    programs = [random.choice(list(PROGRAMS)) for _ in range(6)]
    hold = data.draw(st.sampled_from(["1 B", "2 kB", "1 GB"]))
    more: dict[str, Any] = {"hold": hold}
    if every := data.draw(st.sampled_from([0, 12, 20])):
        more["replan"] = {"every": every, "gain": 0.0, "at": SITES[random.choice(names)]}
    file = describe_in(tmp_path_factory.mktemp("sites"), names, programs, **more)
    tables = {name: stream(random, random.randrange(25)) for name in names}
    play = Play(file, tables, random)
    play.run(data.draw(st.sampled_from([0.0, 0.1, 0.2])))
    counted = {n: play.sites[SITES[n]].site.counters()[n] for n in names}
    assert {n: (c["arrived"], c["late"]) for n, c in counted.items()} == {n: (t.num_rows, 0) for n, t in tables.items()}
    assert_same(multiset(results(file)), one_engine(describe(file).query, tables), file.read_text())
    assert all(not outbox.kept for r in play.sites.values() for outbox in r.outboxes.values())


def kill(keeping: Keeping) -> None:
    """The process is gone, after it wrote what it has not flushed."""
    keeping._journal.close()
    keeping._lock.close()


def test_an_entry_that_is_half_written_is_cut_off(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path, "A", "x")
    assert list(keeping.restore()[1]) == []
    for k in range(3):
        keeping.add(Entry("feed", {"k": k}, b"body" * k))
    kill(keeping)  # and nobody was told that they are here
    whole = (tmp_path / "journal-0").read_bytes()
    for cut in range(len(whole)):
        (tmp_path / "lock").unlink()  # of a folder of its own, in which nothing was noted for good
        (tmp_path / "journal-0").write_bytes(whole[:cut])
        keeping = Keeping(tmp_path, "A", "x")
        found = [entry.facts["k"] for entry in keeping.restore()[1]]
        assert found == list(range(len(found))) and len(found) < 3
        keeping.add(Entry("feed", {"k": 9}))
        keeping.flush()
        keeping.close()
        keeping = Keeping(tmp_path, "A", "x")
        assert [entry.facts["k"] for entry in keeping.restore()[1]] == [*found, 9]
        keeping.close()


def test_an_entry_that_is_damaged_while_whole_ones_follow_is_an_error(tmp_path: Path) -> None:
    """A bit that turns anywhere but in the last entry: nothing is cut off, and the error says where and what to do."""
    journal = tmp_path / "journal-0"
    keeping = Keeping(tmp_path, "A", "x")
    list(keeping.restore()[1])
    for k in range(4):
        keeping.add(Entry("feed", {"k": k}, b"body" * k))
    kill(keeping)
    whole = journal.read_bytes()
    last = whole.rindex(b'{"k":3') - _HEAD.size
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        journal.write_bytes(damaged)
        keeping = Keeping(tmp_path, "A", "x")
        if place < last:
            with pytest.raises(SnapshotError, match=r"journal-0 is damaged: the entry at byte [\d,]+ cannot be read"):
                list(keeping.restore()[1])
            assert journal.read_bytes() == damaged
        else:  # as if it had not been written to its end
            assert [entry.facts["k"] for entry in keeping.restore()[1]] == [0, 1, 2]
        keeping.close()


def test_what_was_flushed_is_missed(tmp_path: Path) -> None:
    """The last entries, too: others have forgotten what they were told is here. Nothing is changed by the attempt."""
    journal = tmp_path / "journal-0"
    keeping = Keeping(tmp_path, "A", "x")
    list(keeping.restore()[1])
    for k in range(3):
        keeping.add(Entry("feed", {"k": k}, b"body" * k))
    keeping.flush()
    whole = journal.read_bytes()
    keeping.add(Entry("feed", {"k": 3}))
    keeping.close()
    flips = [bytes([*whole[:k], whole[k] ^ 1 << k % 8, *whole[k + 1 :]]) for k in range(len(whole))]
    for damaged in [
        *flips,
        *(whole[:k] for k in range(len(whole))),
        *(whole[:k] + bytes(99) for k in range(len(whole))),
    ]:
        journal.write_bytes(damaged)
        keeping = Keeping(tmp_path, "A", "x")
        with pytest.raises(SnapshotError, match=r"journal-0 is damaged: the entry at byte [\d,]+ cannot be read"):
            list(keeping.restore()[1])
        keeping.close()
        assert journal.read_bytes() == damaged
    journal.write_bytes(whole)
    keeping = Keeping(tmp_path, "A", "x")
    assert [entry.facts["k"] for entry in keeping.restore()[1]] == [0, 1, 2]
    keeping.close()


def test_what_was_written_and_not_flushed_is_flushed_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By who was killed: whoever goes on tells others that it is here, and then it must not get lost."""
    keeping = Keeping(tmp_path, "A", "x")
    list(keeping.restore()[1])
    for k in range(3):
        keeping.add(Entry("feed", {"k": k}))
    kill(keeping)
    flushed: list[int] = []
    monkeypatch.setattr(os, "fdatasync", lambda handle: flushed.append(os.fstat(handle).st_size))
    keeping = Keeping(tmp_path, "A", "x")
    assert [entry.facts["k"] for entry in keeping.restore()[1]] == [0, 1, 2]
    whole = (tmp_path / "journal-0").read_bytes()
    assert flushed == [len(whole)]
    keeping.close()
    (tmp_path / "journal-0").write_bytes(whole[:-1])
    with pytest.raises(SnapshotError, match="journal-0 is damaged"):
        list(Keeping(tmp_path, "A", "x").restore()[1])


@pytest.mark.parametrize("fails", ["add", "flush", "note", "round"])
@pytest.mark.parametrize("size", [4, 3 << 20])
def test_what_could_not_be_flushed_is_not_there_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, size: int
) -> None:
    """It was told as an error, so it is handed over again. A body that is larger than the buffer is written at once."""

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    keeping = Keeping(tmp_path, "A", "x")
    list(keeping.restore()[1])
    for number in range(2):
        keeping.add(Entry("feed", {"k": number}))
        keeping.flush()
        if not number:
            keeping.snapshot({}, [b"state"])
    whole = (tmp_path / "journal-1").read_bytes()
    if fails == "add":  # the head is written, and nothing behind it
        write = keeping._journal.write
        keeping._journal = Mock(wraps=keeping._journal)
        keeping._journal.write = lambda data: write(data) if len(data) == _HEAD.size else full()
    elif fails == "flush":
        monkeypatch.setattr(os, "fdatasync", full)
    elif fails == "note":
        monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(InputError, match="No space left") if fails != "round" else contextlib.nullcontext():
        keeping.add(Entry("feed", {"k": 2}, bytes(size)))
        keeping.add(Entry("feed", {"k": 3}))
        if fails != "round":  # another error ends it before it comes to that
            keeping.flush()
    keeping.close()
    monkeypatch.undo()
    assert (tmp_path / "journal-1").read_bytes() == whole
    keeping = Keeping(tmp_path, "A", "x")
    assert [entry.facts["k"] for entry in keeping.restore()[1]] == [1]
    keeping.close()


def test_a_journal_whose_snapshot_is_gone_is_not_thrown_away(tmp_path: Path) -> None:
    """Also where nobody can read how far it was flushed, as after a loss of power, or in a copy without the lock."""
    keeping = Keeping(tmp_path, "A", "x")
    list(keeping.restore()[1])
    keeping.snapshot({}, [b"state"])
    keeping.add(Entry("feed", {"k": 1}))
    keeping.flush()
    keeping.close()
    (tmp_path / "snapshot-1").unlink()
    (tmp_path / "lock").unlink()
    before = (tmp_path / "journal-1").read_bytes()
    for _ in range(2):
        with pytest.raises(SnapshotError, match="snapshot-1 is missing"):
            Keeping(tmp_path, "A", "x")
        assert (tmp_path / "journal-1").read_bytes() == before


def test_the_name_of_a_new_journal_outlives_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was flushed is lost where its folder does not know it."""
    known: list[set[str]] = []
    folder = os.stat(tmp_path).st_ino

    def noted(handle: int) -> None:
        if os.fstat(handle).st_ino == folder:
            known.append({path.name for path in tmp_path.iterdir()})

    monkeypatch.setattr(os, "fsync", noted)
    keeping = Keeping(tmp_path, "A", "x")
    list(keeping.restore()[1])
    assert "journal-0" in known[-1]
    keeping.snapshot({}, [b"state"])
    assert {"journal-1", "snapshot-1"} <= known[-1]
    keeping.close()


def test_the_names_of_results_outlive_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file, and of the folders that were made for it: what they were made of is forgotten next."""
    flushed: set[int] = set()
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.add(os.fstat(handle).st_ino))
    found = Results(tmp_path)
    found.write("a=>", 1234, pa.table({"v": [1]}))
    found.settle()
    (path,) = tmp_path.rglob("*.parquet")
    made = [path, *path.parents[: len(path.relative_to(tmp_path).parts) - 1]]
    assert tmp_path / "results" in made and {os.stat(one).st_ino for one in made} <= flushed


@pytest.mark.parametrize("lost", ["snapshot-1", "journal-1", "both"])
@pytest.mark.parametrize("noted", [False, True])
def test_a_file_that_is_missing_is_missed(tmp_path: Path, lost: str, noted: bool) -> None:
    """A snapshot always; a journal unless nothing was noted in it, as when the process ended before it was made."""
    keeping = Keeping(tmp_path, "A", "x")
    list(keeping.restore()[1])
    keeping.add(Entry("feed", {"k": 0}))
    keeping.flush()
    keeping.snapshot({}, [b"state"])
    if noted:
        keeping.add(Entry("feed", {"k": 1}))
        keeping.flush()
    keeping.close()
    for name in ("snapshot-1", "journal-1") if lost == "both" else (lost,):
        (tmp_path / name).unlink()
    left = {path.name for path in tmp_path.iterdir()} - {"journal-0"}
    for _ in range(2):
        if lost == "journal-1" and not noted:
            keeping = Keeping(tmp_path, "A", "x")
            assert list(keeping.restore()[1]) == []
            keeping.close()
            continue
        with pytest.raises(SnapshotError, match=r"is missing|is damaged: the entry at byte 0"):
            list(Keeping(tmp_path, "A", "x").restore()[1])
        assert left <= {path.name for path in tmp_path.iterdir()}


def test_a_snapshot_that_is_damaged_is_named(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path, "A", "x")
    list(keeping.restore()[1])
    keeping.snapshot({}, [b"state"])
    keeping.close()
    path = tmp_path / "snapshot-1"
    path.write_bytes(path.read_bytes().replace(b"state", b"stafe"))
    with pytest.raises(
        SnapshotError, match=r"snapshot-1: .*its checksum does not fit\. Put a copy of the site's folder"
    ):
        Keeping(tmp_path, "A", "x").restore()


def test_a_journal_that_ends_in_zeros_is_cut_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What a file system leaves of a file that had grown when the machine went down; the log says so, once."""
    keeping = Keeping(tmp_path, "A", "x")
    list(keeping.restore()[1])
    keeping.add(Entry("feed", {"k": 0}))
    keeping.flush()
    keeping.close()
    with (tmp_path / "journal-0").open("ab") as file:
        file.write(bytes(5_000))
    for _ in range(2):
        keeping = Keeping(tmp_path, "A", "x")
        assert [entry.facts["k"] for entry in keeping.restore()[1]] == [0]
        keeping.close()
    assert [record.message.rpartition(" is ")[2] for record in caplog.records] == ["cut off (5000 bytes)"]


def test_a_folder_is_of_one_process_and_one_description(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path, "A", "x")
    list(keeping.restore()[1])
    with pytest.raises(InputError, match="another process"):
        Keeping(tmp_path, "A", "x")
    keeping.snapshot({}, [b"state"])
    keeping.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal-1", "lock", "snapshot-1"]
    for site, description in (("B", "x"), ("A", "y")):
        other = Keeping(tmp_path, site, description)
        with pytest.raises(SnapshotError, match="give the site another folder"):
            other.restore()
        other.close()


def test_a_folder_that_cannot_be_locked_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not as another process, for which somebody would look for ever."""

    def refuse(number: int) -> None:
        def flock(*_: Any) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(fcntl, "flock", flock)

    for number, says in ((errno.ENOLCK, "No locks available"), (errno.EOPNOTSUPP, "not supported")):
        refuse(number)
        with pytest.raises(InputError, match=rf"the file lock cannot be locked: .*{says}\. Give the site"):
            Keeping(tmp_path, "A", "x")
    refuse(errno.EWOULDBLOCK)
    with pytest.raises(InputError, match="another process serves this site"):
        Keeping(tmp_path, "A", "x")


def test_what_is_acknowledged_is_kept_no_longer() -> None:
    outbox = Outbox()
    for interval in range(4):
        for step in ("x", "y"):
            outbox.put(step, interval, f"{step}{interval}".encode())
    assert [outbox.following(0.0) for _ in range(3)] == [b"x0", b"y0", b"x1"]
    outbox.acknowledge({"x": 2})
    outbox.rewind()
    sent = []
    while (data := outbox.following(0.0)) is not None:
        sent.append(data)
    assert sent == [b"y0", b"y1", b"y2", b"x3", b"y3"]
    assert outbox.bytes == 10 and outbox.sent == {"messages": 8, "bytes": 16, "again": 1}
    outbox.put("x", 2, b"again after a restart")
    outbox.acknowledge({"x": 3, "y": 3})
    assert not outbox.kept and not outbox.bytes
