"""A checkpoint goes on where it was: with other memory yes, as another join no; and a task that fails changes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.running import assert_same, multiset
from tests.spark.folders import FILES, SCHEMA, Folders, write_files
from tests.spark.joining import joined, joined_by_spark, streamed, written

import windrow as wr

SELECT = {"a": "left.id", "b": "right.id", "at": "left.ts", "number": "left.number"}
NUMBERS = pa.array([3], pa.int32())


def half(folders: Folders, root: Path, which: slice) -> dict[str, Path]:
    """Some of the files of both streams, in folders that can grow."""
    paths = {side: root / side for side in folders.paths}
    for side, path in paths.items():
        path.mkdir(parents=True, exist_ok=True)
        for file in sorted(folders.paths[side].iterdir())[which]:
            shutil.copy2(file, path / file.name)
    return paths


def archived(archive: Path) -> dict[str, list[dict[str, Any]]]:
    """All rows of an archive, by file."""
    import pyarrow.parquet as pq

    files = sorted(archive.rglob("*.parquet"))
    return {str(file.relative_to(archive)): pq.read_table(file).to_pylist() for file in files}


def test_a_checkpoint_goes_on_with_other_memory_but_not_as_another_join(
    spark: Any, folders: Folders, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    archive, output = str(tmp_path / "archive"), tmp_path / "output"
    paths = half(folders, tmp_path, slice(0, 2))
    plain = {"shards": 4, "select": SELECT, "memory": 80}

    def attempt(output: Path, on: str = "number", without: str = "tags", **options: Any) -> Any:
        streams = [streamed(spark, path, 2).drop(without) for path in paths.values()]
        return written(joined(*streams, on, **{**plain, **options}), output)

    attempt(output, archive=archive)
    bare = tmp_path / "bare"
    attempt(bare)
    # One row on one side only: most shards see nothing of it, and still the checkpoint must be found out.
    part = folders.tables["left"].slice(130, 1).set_column(2, SCHEMA.field("number"), NUMBERS)
    write_files(paths["left"] / "one", [part])
    (paths["left"] / "one" / "part-000.parquet").rename(paths["left"] / "part-002.parquet")
    for changes in ({"shards": 3}, {"shards": 1}, {"shards": 7}, {"on": "area"}, {"without": "name", "select": None}):
        with pytest.raises(StreamingQueryException, match="state of another join"):
            attempt(bare, **changes)
    with pytest.raises(wr.errors.SpecError, match="belongs to another join"):
        attempt(output, archive=archive, shards=3)
    half(folders, tmp_path, slice(3, FILES))
    for memory in (30, None):
        attempt(output, archive=archive, memory=memory)
    found = multiset(spark.read.parquet(str(output / "rows")).toArrow())
    sides = [spark.read.parquet(str(path)).drop("tags") for path in paths.values()]
    columns = [reference.replace(".", "_") for reference in SELECT.values()]
    pairs = joined_by_spark(*(spark.read.parquet(str(path)) for path in paths.values()), "number").select(*columns)
    exact = multiset(pairs.toArrow())
    assert found.total() < exact.total()
    assert_same(found + multiset(wr.repair(archive, *sides).toArrow()), exact, f"seed {folders.seed}")


def test_a_new_checkpoint_needs_a_new_archive(spark: Any, folders: Folders, tmp_path: Path) -> None:
    from pyspark.errors import StreamingQueryException

    def attempt(output: Path) -> None:
        streams = [streamed(spark, path, 3) for path in folders.paths.values()]
        archive = str(tmp_path / "archive")
        written(joined(*streams, "number", shards=2, memory=30, select=SELECT, archive=archive), output)

    attempt(tmp_path / "first")
    with pytest.raises(StreamingQueryException, match="a new checkpoint needs a new archive"):
        attempt(tmp_path / "second")


def fails_once(marker: Path, column: str | None = None) -> Any:
    """For `mapInArrow`: hands on what it gets, but the first task that has had rows fails."""
    text = str(marker)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        for batch in batches:
            yield batch
            if batch.num_rows:
                try:
                    os.close(os.open(text, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    continue
                raise RuntimeError("this task fails once")

    return run


def test_a_task_that_fails_is_tried_again_and_nothing_differs(spark: Any, folders: Folders, tmp_path: Path) -> None:
    found, archives = [], []
    for failing in (False, True):
        root = tmp_path / str(failing)
        root.mkdir()
        streams = [streamed(spark, path, 2) for path in folders.paths.values()]
        if failing:
            streams[0] = streams[0].mapInArrow(fails_once(root / "before"), streams[0].schema)
        archive = str(root / "archive")
        matches = joined(*streams, "number", shards=3, memory=60, select=SELECT, archive=archive)
        if failing:  # in the same task as the shard: it has joined, and written to the archive
            matches = matches.mapInArrow(fails_once(root / "behind"), matches.schema)
        written(matches, root)
        if failing:
            assert (root / "before").exists() and (root / "behind").exists()
        found.append(multiset(spark.read.parquet(str(root / "rows")).toArrow()))
        archives.append(archived(root / "archive"))
    assert_same(found[1], found[0], f"seed {folders.seed}")
    assert archives[1] == archives[0] and archives[0]
    assert found[0].total() > 100
