"""Words and tables that lie in files and are mapped: a shard's memory that outlives the process that fills it.

A mapping is shared: what kernels write into a block is in its file at once, in the page cache (or in tmpfs), and
whoever maps the file next sees it, at the cost of the pages that are touched. Files are written as a whole before they
are mapped, so a full disk is an error here and never a fault inside a kernel. A file that was mapped may be removed:
its pages stay as long as the mapping does.
"""

import mmap
import os
from pathlib import Path

import numpy as np
import pyarrow as pa

_OPTIONS = pa.ipc.IpcWriteOptions(use_threads=False)


def mapped_words(path: Path) -> np.ndarray:
    """The words of a file, in place."""
    with path.open("r+b") as file:
        return np.frombuffer(mmap.mmap(file.fileno(), 0), np.int64)


def write_words(path: Path, words: np.ndarray) -> None:
    """A new file with these words."""
    with open(path, "xb", opener=_private) as file:
        file.write(words.view(np.uint8).data)


def mapped_rows(path: Path, schema: pa.Schema) -> tuple[pa.Table, np.ndarray]:
    """The columns of a chunk of payload, in place, and the slot of each row."""
    with pa.memory_map(str(path)) as file:
        *columns, owners = pa.ipc.open_stream(file).read_all().columns
    return pa.Table.from_arrays(columns, schema=schema), _joined(owners)


def write_rows(path: Path, table: pa.Table, owners: np.ndarray) -> None:
    """A new file with a chunk of payload and the slot of each row, as an Arrow IPC stream."""
    rows = len(owners)
    columns = [*table.columns, pa.chunked_array([pa.array(owners)])]
    names = [str(k) for k in range(len(columns))]
    together = pa.Table.from_arrays(columns, names=names)
    with open(path, "xb", opener=_private) as file, pa.ipc.new_stream(file, together.schema, options=_OPTIONS) as out:
        out.write_table(together, max_chunksize=max(rows, 1))


def _joined(owners: pa.ChunkedArray) -> np.ndarray:
    parts = [chunk.to_numpy() for chunk in owners.chunks]
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.int64), *parts])


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
