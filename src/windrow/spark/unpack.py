"""Unpacking: the operator's blobs become rows of the output."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from windrow.spark.worker import settle


@dataclass(frozen=True)
class Unpacker:
    """The function that `mapInArrow` runs behind the operator."""

    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The matches of all blobs."""
        for batch in batches:
            for blob in batch.column("matches"):
                if blob.is_valid:
                    yield pa.ipc.read_record_batch(blob.as_buffer(), self.schema)
        settle("unpack")
