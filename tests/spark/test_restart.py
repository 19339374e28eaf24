"""A checkpoint goes on: with other memory yes, as another join no; and a task that fails changes nothing."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from tests.running import assert_same, multiset
from tests.spark.folders import FILES, SCHEMA, WITHIN, Folders, write_files
from tests.spark.joining import joined, joined_by_spark, streamed, written

import windrow as wr
from windrow.errors import SnapshotError
from windrow.spark.job import Job
from windrow.spark.operator import Operator
from windrow.spark.pack import Packer

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


def test_a_checkpoint_goes_on_with_other_memory_but_not_as_another_join(
    spark: Any, folders: Folders, tmp_path: Path
) -> None:
    archive, output = str(tmp_path / "archive"), tmp_path / "output"
    paths = half(folders, tmp_path, slice(0, 2))

    def attempt(**changes: Any) -> None:
        options = {"shards": 4, "select": SELECT, "memory": 80, "archive": archive, **changes}
        written(joined(*(streamed(spark, path, 2) for path in paths.values()), "number", **options), output)

    attempt()
    # One row on one side only: most shards see nothing of it, and still the checkpoint must be found out.
    one = tmp_path / "one"
    write_files(one, [folders.tables["left"].slice(130, 1).set_column(2, SCHEMA.field("number"), NUMBERS)])
    shutil.copy2(one / "part-000.parquet", paths["left"] / "part-002.parquet")
    with pytest.raises(StreamingQueryException, match="state of another join"):
        attempt(shards=7, archive=None)
    with pytest.raises(wr.errors.SpecError, match="belongs to another join"):
        attempt(shards=7)
    half(folders, tmp_path, slice(3, FILES))
    attempt(memory=30)
    found = multiset(spark.read.parquet(str(output / "rows")).toArrow())
    sides = [spark.read.parquet(str(path)) for path in paths.values()]
    columns = [reference.replace(".", "_") for reference in SELECT.values()]
    exact = multiset(joined_by_spark(*sides, "number").select(*columns).toArrow())
    assert found.total() < exact.total()
    assert_same(found + multiset(wr.repair(archive, *sides).toArrow()), exact, f"seed {folders.seed}")


@dataclass
class KeptState:
    """What Spark hands to the operator: the state of one shard."""

    get: Any = None
    exists: bool = False

    def update(self, value: Any) -> None:
        self.get, self.exists = value, True

    def getCurrentWatermarkMs(self) -> int:
        return 0


def test_only_memory_and_windows_may_differ_from_those_of_the_state() -> None:
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("v", pa.string())])
    streams = [wr.Stream(name, "t", 10) for name in WITHIN]
    query = wr.Query(streams=streams, on="k", memory=100)
    job = Job(query, (schema, schema), shards=2)

    def push(job: Job, state: KeptState) -> None:
        batch = pa.RecordBatch.from_pylist([{"k": 1, "t": 5, "v": "x"}], schema=job.schemas[0])
        blobs = Packer(job, 0, streaming=True)([batch])
        frames = [found.to_pandas() for found in blobs]
        list(Operator(job).stream((0,), [frame[frame["shard"] == 0] for frame in frames], state))

    state = KeptState()
    push(job, state)
    wider = pa.schema([*schema, ("w", pa.int8())])
    others = [
        replace(job, shards=3), replace(job, shards=1), replace(job, archive="/nowhere"),
        replace(job, schemas=(schema, wider)), replace(job, query=query.with_(on=["k", "v"])),
        replace(job, query=query.with_(policy="life")), replace(job, query=query.with_(seed=1)),
    ]  # fmt: skip
    for other in others:
        with pytest.raises(SnapshotError, match="state of another join"):
            push(other, KeptState(state.get, True))
    for same in (query.with_(memory=50), query.with_(memory=None), query.with_window("left", 20)):
        push(replace(job, query=same), KeptState(state.get, True))


def test_a_new_checkpoint_needs_a_new_archive(spark: Any, folders: Folders, tmp_path: Path) -> None:
    def attempt(output: Path) -> None:
        streams = [streamed(spark, path, 3) for path in folders.paths.values()]
        archive = str(tmp_path / "archive")
        written(joined(*streams, "number", shards=2, memory=30, select=SELECT, archive=archive), output)

    attempt(tmp_path / "first")
    with pytest.raises(StreamingQueryException, match="a new checkpoint needs a new archive"):
        attempt(tmp_path / "second")


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


def test_a_task_that_fails_is_tried_again_and_nothing_differs(spark: Any, folders: Folders, tmp_path: Path) -> None:
    found, archives = [], []
    for failing in (False, True):
        root = tmp_path / str(failing)
        root.mkdir()
        streams = [streamed(spark, path, 3) for path in folders.paths.values()]
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
