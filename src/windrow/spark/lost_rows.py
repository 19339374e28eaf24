"""Lost rows as a DataFrame: an archive's files, read by the workers in the way they were written.

Spark reads none of them by itself: it would take left-overs of merged files for rows, might skip a file that has gone,
and may not know the place under the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from windrow.engine.departures import FIELDS, SHARD, WHY
from windrow.spark.contents import File, parquet_batches, readable
from windrow.spark.frames import arrow_schema
from windrow.spark.places import opened

FACTS = (*(field.name for field in FIELDS), SHARD)
MOST_TASKS, TASK_BYTES = 64, 1 << 25
FILE_BYTES = 1 << 20  # what a file counts at least: opening it takes as long as reading so much


@dataclass(frozen=True)
class Reader:
    """The function that `mapInArrow` runs over the numbers of groups of files."""

    place: str
    groups: tuple[tuple[str, ...], ...]
    schema: pa.Schema
    whys: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the files that were lost for one of the reasons."""
        system, root = opened(self.place)
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        for name in (name for number in numbers for name in self.groups[number]):
            for batch in parquet_batches(system, f"{root}/{name}"):
                table = pa.Table.from_batches([batch])
                wanted = pc.is_in(table[WHY], pa.array(self.whys))
                yield from table.filter(wanted).select(self.schema.names).cast(self.schema).to_batches()


def any_lost(place: str, files: Sequence[File], why: str) -> bool:
    """Whether any row was lost for a reason; only that column is looked at, as far as needed."""
    if not files:
        return False
    import pyarrow.dataset as ds  # it brings pandas, half the time that windrow takes to start

    system, root = opened(place)
    paths = [f"{root}/{file.name}" for file in files]
    with readable(files[0].stream):
        found = ds.dataset(paths, schema=pa.schema([FIELDS[0]]), format="parquet", filesystem=system)
        return bool(found.head(1, columns=[WHY], filter=ds.field(WHY) == why).num_rows)


def _groups(files: Sequence[File]) -> tuple[tuple[str, ...], ...]:
    """The files of each task, about as many bytes for all."""
    ordered = sorted(files, key=lambda file: (-file.size, file.name))
    tasks = 1 + sum(max(file.size, FILE_BYTES) for file in files) // TASK_BYTES
    tasks = max(1, min(tasks, MOST_TASKS, len(files)))
    return tuple(tuple(file.name for file in ordered[k::tasks]) for k in range(tasks))


def lost_rows(place: str, files: Sequence[File], like: Any, stream: str, whys: tuple[str, ...]) -> Any:
    """The rows that a stream lost for some reasons: the columns of a frame of it, and the facts."""
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

    facts = zip(FACTS, (StringType(), LongType(), LongType(), IntegerType()), strict=True)
    fields = [StructField(field.name, field.dataType) for field in like.schema.fields]
    output = StructType(fields + [StructField(name, type_) for name, type_ in facts])
    schema = pa.schema([*arrow_schema(like, stream), *FIELDS, pa.field(SHARD, pa.int32())])
    groups = _groups(files)
    reader = Reader(place, groups, schema, whys)

    def read(batches: Any) -> Any:
        return reader(batches)

    return like.sparkSession.range(0, len(groups), 1, len(groups)).mapInArrow(read, output)
