"""Parquet: one file, or a directory of files that are read one after the other in the order of their paths.

Files of a directory may lie in folders named `column=value`, as Spark writes partitions; the column is then
part of the rows. Their schemas may differ where a wider type holds all values, and a column that a file lacks
is null.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from windrow.errors import InputError
from windrow.files.names import reported
from windrow.files.source import Source

if TYPE_CHECKING:
    import pyarrow.dataset as ds


def data_files(folder: Path) -> list[Path]:
    """The Parquet files in a directory that have any content, but none that are hidden or start with "_"."""
    with reported(folder, "reading"):
        found = sorted(
            path
            for path in folder.rglob("*")
            if path.suffix.lower() in (".parquet", ".pq")
            and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
            and path.is_file()
        )
        if not found:
            raise InputError(f"{folder}: this directory holds no Parquet files (*.parquet or *.pq)")
        return [path for path in found if path.stat().st_size]


class ParquetSource(Source):
    """One or more Parquet files as one stream of rows."""

    def __init__(self, path: Path, types: dict[str, pa.DataType], files: list[Path]) -> None:
        super().__init__(path, types)
        self.files = files

    @cached_property
    def _dataset(self) -> ds.FileSystemDataset:
        import pyarrow.dataset as ds  # it brings pandas, half the time that windrow takes to start

        options = ds.FileSystemFactoryOptions(partition_base_dir=str(self.path))
        if self.path.is_dir():
            options.partitioning_factory = ds.HivePartitioning.discover(infer_dictionary=False)
        factory = ds.FileSystemDatasetFactory(
            LocalFileSystem(), [str(file) for file in self.files], ds.ParquetFileFormat(), options
        )
        return factory.finish(factory.inspect(promote_options="permissive", fragments=None))

    @cached_property
    def rows(self) -> int | None:
        """The number of rows, from the footers of the files."""
        with reported(self.path, "reading"):
            return int(self._dataset.count_rows())

    def _schema(self) -> pa.Schema:
        return self._dataset.schema.remove_metadata()

    def _whole(self, names: list[str]) -> pa.Table:
        return self._dataset.to_table(columns=names)

    def _stream(self, rows: int, target: pa.Schema) -> Iterator[pa.RecordBatch]:
        import pyarrow.dataset as ds

        # Not through the dataset's scanner, which reads on without bound while the caller is busy.
        for fragment in sorted(self._dataset.get_fragments(), key=lambda fragment: fragment.path):
            partition = ds.get_partition_keys(fragment.partition_expression)
            with pq.ParquetFile(fragment.path, pre_buffer=False) as file:  # the buffer would keep it all
                stored = [name for name in target.names if name in file.schema_arrow.names]
                for batch in file.iter_batches(batch_size=rows, columns=stored):
                    yield _completed(batch, target, partition)


def _completed(batch: pa.RecordBatch, target: pa.Schema, partition: dict[str, Any]) -> pa.RecordBatch:
    """The batch with all columns of `target`: what the file lacks is the partition's value, or null."""

    def column(field: pa.Field) -> pa.Array:
        if field.name in batch.schema.names:
            return batch.column(field.name).cast(field.type)
        return pa.repeat(pa.scalar(partition.get(field.name)).cast(field.type), batch.num_rows)

    return pa.RecordBatch.from_arrays([column(field) for field in target], schema=target)
