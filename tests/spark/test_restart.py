"""A checkpoint goes on: under other settings yes, as another join no; and a task that fails changes nothing.

What may change line by line is in test_changes.py; here Spark itself is asked.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from tests.running import assert_same, multiset
from tests.spark.folders import FILES, SCHEMA, Folders, write_files
from tests.spark.joining import joined, joined_by_spark, streamed, written

import windrow as wr
from windrow.spark.store import PROVIDER

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


def archived(archive: Path) -> dict[str, Counter[Any]]:
    """The rows of every file of an archive."""
    files = sorted(archive.rglob("*.parquet"))
    return {str(file.relative_to(archive)): multiset(pq.read_table(file)) for file in files}


def test_a_checkpoint_goes_on_with_its_archive_under_other_settings_but_not_as_another_join(
    spark: Any, folders: Folders, tmp_path: Path
) -> None:
    archive, output = tmp_path / "archive", tmp_path / "output"
    paths = half(folders, tmp_path, slice(0, 2))

    def attempt(output: Path = output, **changes: Any) -> None:
        options = {"shards": 4, "select": SELECT, "memory": 80, "archive": f"file:{archive}", **changes}
        written(joined(*(streamed(spark, path, 2) for path in paths.values()), "number", **options), output)

    attempt()
    # One row on one side only: most shards see nothing of it, and still the checkpoint must be found out.
    one = tmp_path / "one"
    write_files(one, [folders.tables["left"].slice(130, 1).set_column(2, SCHEMA.field("number"), NUMBERS)])
    shutil.copy2(one / "part-000.parquet", paths["left"] / "part-002.parquet")
    with pytest.raises(StreamingQueryException, match='shards was 4 and is now 7; archive was "on" and is now "off"'):
        attempt(shards=7, archive=None)
    with pytest.raises(wr.errors.SpecError, match="is of another join: shards was 4 and is now 7"):
        attempt(shards=7)
    with pytest.raises(StreamingQueryException, match="a new checkpoint needs a new archive"):
        attempt(tmp_path / "other")
    archive.rename(tmp_path / "kept")
    with pytest.raises(StreamingQueryException, match="is not the one that this checkpoint has written to"):
        attempt()
    shutil.rmtree(archive)
    (tmp_path / "kept").rename(archive)
    half(folders, tmp_path, slice(3, FILES))
    attempt(memory=30, policy="rand", lateness="25 seconds")
    found = multiset(spark.read.parquet(str(output / "rows")).toArrow())
    sides = [spark.read.parquet(str(path)) for path in paths.values()]
    columns = [reference.replace(".", "_") for reference in SELECT.values()]
    exact = multiset(joined_by_spark(*sides, "number").select(*columns).toArrow())
    assert found.total() < exact.total()
    assert_same(found + multiset(wr.repair(archive, *sides).toArrow()), exact, f"seed {folders.seed}")


def fails_once(marker: Path) -> Any:
    """For `mapInArrow`: hands on what it gets, but the first task that has had rows fails."""
    text = str(marker)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if batch.num_rows:
                try:
                    os.close(os.open(text, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    continue
                raise RuntimeError("this task fails once")

    return run


def test_a_task_that_fails_is_tried_again_and_nothing_differs(
    spark: Any, folders: Folders, tmp_path: Path, rocksdb: None
) -> None:
    """Undisturbed the state is one of whole snapshots, with tasks that fail it is one of deltas: both give the same."""
    found, archives = [], []
    for failing in (True, False):
        if not failing:
            spark.conf.unset(PROVIDER)
        root = tmp_path / str(failing)
        root.mkdir()
        streams = [streamed(spark, path, 3) for path in folders.paths.values()]
        if failing:
            streams[0] = streams[0].mapInArrow(fails_once(root / "before"), streams[0].schema)
        archive = str(root / "archive")
        matches = joined(*streams, "number", shards=3, memory=60, select=SELECT, archive=archive)
        if failing:  # in the same task as the shard: it has joined, and written to the archive
            matches = matches.mapInArrow(fails_once(root / "behind"), matches.schema)
        query = written(matches, root)
        if failing:
            assert (root / "before").exists() and (root / "behind").exists()
        found.append(multiset(spark.read.parquet(str(root / "rows")).toArrow()))
        archives.append(archived(root / "archive"))
        operator = {op.operatorName for p in query.recentProgress for op in p.stateOperators}
        assert operator == {"transformWithStateInPandasExec" if failing else "applyInPandasWithState"}
    assert_same(found[1], found[0], f"seed {folders.seed}")
    assert archives[1] == archives[0] and archives[0]
    assert found[0].total() > 100
