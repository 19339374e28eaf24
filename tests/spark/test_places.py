"""Places of archives: every spelling that Spark's users write means one folder, or one line says what to write.

Can catch: an address that Hadoop knows and pyarrow spells otherwise; a relative path that driver and workers take for
different folders; an address that nobody can open and that fails only in a worker.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyarrow import fs
from tests.spark.driving import Driven, bags, batches, query

import windrow as wr
from windrow.errors import InputError, SpecError
from windrow.spark.places import opened, place_of


@pytest.mark.parametrize("spelling", ["{}", "{}/", "file:{}", "file://{}", "file://localhost{}", "FILE:{}"])
def test_every_spelling_of_a_local_folder(spelling: str, tmp_path: Path) -> None:
    folder = tmp_path / "a [b]*%20 ä"
    given = spelling.format(folder)
    driven = Driven(given).start(query(memory=3))
    for batch in batches(1, 3):
        driven.push(batch)
    assert sorted(p.name for p in folder.iterdir()) == [
        "_checkpoint.json", "_shards", "_windrow.json", "left", "right",
    ]  # fmt: skip
    assert bags(given) == bags(folder) and bags(folder)["left"].total() > 0
    wr.spark.compact(given)


def test_a_relative_path_is_the_drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    driven = Driven("lost").start(query(memory=3))
    assert driven.job is not None and driven.job.archive is not None
    assert driven.job.archive.place == str(tmp_path / "lost")
    (tmp_path / "elsewhere").mkdir()
    os.chdir(tmp_path / "elsewhere")  # a worker has a current folder of its own
    for batch in batches(1, 3):
        driven.push(batch)
    assert list(Path().iterdir()) == []


PLACES = {
    "s3://bucket/some/lost?region=eu-west-1": (fs.S3FileSystem, "bucket/some/lost"),
    "s3a://bucket/some/lost?region=eu-west-1": (fs.S3FileSystem, "bucket/some/lost"),
    "s3n://bucket/lost/?region=eu-west-1": (fs.S3FileSystem, "bucket/lost"),
    "s3a://bucket/lost?endpoint_override=localhost:9000&scheme=http": (fs.S3FileSystem, "bucket/lost"),
    "gs://bucket/some/lost/": (fs.GcsFileSystem, "bucket/some/lost"),
    "abfss://container@account.dfs.core.windows.net/lost": (fs.AzureFileSystem, "container/lost"),
    "abfs://container@account.dfs.core.windows.net/lost": (fs.AzureFileSystem, "container/lost"),
}


@pytest.mark.parametrize("address", PLACES)
def test_addresses_of_stores(address: str) -> None:
    kind, path = PLACES[address]
    system, root = opened(place_of(address))
    assert isinstance(system, kind) and root == path


@pytest.mark.parametrize("scheme", ["hdfs", "viewfs"])
def test_hadoop_needs_its_library(scheme: str) -> None:
    place = place_of(f"{scheme}://node:8020/lost/")
    assert place == f"{scheme}://node:8020/lost"
    with pytest.raises(InputError, match=rf"^the archive '{scheme}://node:8020/lost' cannot be opened: [^\n]*$"):
        opened(place)


@pytest.mark.parametrize("address", ["dbfs:/mnt/lost", "wasbs://c@a.blob.windows.net/x", "ftp://x/y", "s3a:/bucket/x"])
def test_addresses_that_nobody_knows(address: str) -> None:
    with pytest.raises(InputError, match=r"^the archive '[^\n]*' cannot be opened: windrow knows file:, s3://, s3a://"):
        place_of(address)


@pytest.mark.parametrize("address", ["file:lost", "file://host/lost", "file:"])
def test_local_addresses_that_are_not_whole(address: str) -> None:
    with pytest.raises(InputError, match=r"write file:/path, with a whole path and no host"):
        place_of(address)


@pytest.mark.parametrize("given", ["", 5, b"lost", True])
def test_what_is_no_address(given: object) -> None:
    with pytest.raises(SpecError, match="archive must be the path or address of a folder"):
        place_of(given)
