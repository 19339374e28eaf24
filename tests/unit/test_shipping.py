"""Compiled kernels travel with a job on Spark.

Catches: kernels that are shipped where they need not be, twice, or not again when there are more; a session that
refuses them and takes the join down with it; workers that take what was compiled for others.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from pyspark import SparkFiles

from windrow.kernels import disk_cache
from windrow.kernels.compiled import NAME
from windrow.spark import shipping


class Session:
    """What shipping sees of a session."""

    def __init__(self, master: str, refuses: bool = False) -> None:
        self.conf = {"spark.master": master}
        self.sparkSession = self  # and of a frame
        self.shipped: list[Path] = []
        self.refuses = refuses

    def addArtifacts(self, path: str, file: bool) -> None:
        if self.refuses:
            raise RuntimeError("not on this platform")
        assert file
        self.shipped.append(Path(path))


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two compiled functions that Python calls, and one that it does not."""
    for module in (disk_cache, shipping):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    monkeypatch.setattr(disk_cache, "READ_ONLY", ())
    monkeypatch.setattr(disk_cache, "_bundles", [])
    (tmp_path / "inner").mkdir()
    for name in ("pair.drive-1.nbc", "rows.pack-1.nbc", "inner/chains.link-1.nbc"):
        (tmp_path / name).write_bytes(b"code of " + name.encode())
    return tmp_path


def test_what_python_calls_is_shipped_once_and_again_when_there_is_more(compiled: Path) -> None:
    session = Session("spark://there:7077")
    for _ in range(2):
        shipping.ship(session)
    assert len(session.shipped) == 1 and session.shipped[0].name.startswith(f"{NAME}-")
    with zipfile.ZipFile(session.shipped[0]) as file:
        assert {name: file.read(name) for name in file.namelist()} == {
            name: b"code of " + name.encode() for name in ("pair.drive-1.nbc", "rows.pack-1.nbc")
        }
    other = Session("yarn")
    shipping.ship(other)
    assert other.shipped == session.shipped
    (compiled / "rows.pack-2.nbc").write_bytes(b"more")
    shipping.ship(session)
    assert len(session.shipped) == len({path.name for path in session.shipped}) == 2


@pytest.mark.parametrize("master", ["local", "local[*]"])
def test_workers_on_this_machine_have_it_anyway(compiled: Path, master: str) -> None:
    session = Session(master)
    shipping.ship(session)
    assert session.shipped == []


def test_without_a_way_to_ship_the_join_goes_on(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session("yarn", refuses=True)
    shipping.ship(session)
    session.refuses = False
    shipping.ship(session)  # which was not remembered as done
    assert len(session.shipped) == 1
    monkeypatch.setattr(shipping, "MOST_BYTES", 10)
    heavy = Session("yarn")
    shipping.ship(heavy)
    assert heavy.shipped == []


def test_workers_take_only_what_was_compiled_for_them(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brought = compiled / "brought"
    brought.mkdir()
    for name in (f"{NAME}-0123456789ab.zip", "windrow-0000000000000000-z80-0123456789ab.zip", "windrow.zip"):
        (brought / name).write_bytes(b"")
    monkeypatch.setattr(SparkFiles, "getRootDirectory", classmethod(lambda cls: str(brought)))
    for _ in range(2):
        shipping.take_shipped()
    assert disk_cache._bundles == [brought / f"{NAME}-0123456789ab.zip"]
