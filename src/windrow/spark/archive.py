"""The archive: rows that were lost, in Parquet files, each written exactly once.

    <archive>/_windrow.json                 the join, for `repair`
    <archive>/<stream>/<shard>-<push>.parquet

A file belongs to one push of one shard. A push that Spark runs again writes the same file anew, so that whatever
failed, what is there in the end is what the push that counted has lost. Files appear whole, by renaming.
"""

import json
import secrets
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from windrow.errors import InputError, SpecError
from windrow.spark.job import Job

HEADER = "_windrow.json"
SHARD = "windrow_shard"


def opened(archive: str) -> tuple[fs.FileSystem, str]:
    """The file system of an archive, and the folder on it."""
    try:
        if "://" in archive:
            return fs.FileSystem.from_uri(archive)
        return fs.LocalFileSystem(), archive
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"the archive {archive!r} cannot be opened: {error}") from error


def start_archive(job: Job) -> None:
    """Make the folder and say of which join it is; an archive of another join, or of other windows, is refused."""
    assert job.archive is not None
    system, root = opened(job.archive)
    query = job.query.with_(memory=None).to_json()
    columns = {name: job.schema(name).names for name in job.query.names}
    header = {"identity": job.identity, "query": query, "shards": job.shards, "columns": columns}
    system.create_dir(root, recursive=True)
    for name in job.query.names:
        system.create_dir(f"{root}/{name}", recursive=True)
    path = f"{root}/{HEADER}"
    if system.get_file_info(path).type == fs.FileType.NotFound:
        _write(system, path, json.dumps(header).encode())
    elif read_header(job.archive) != header:
        raise SpecError(f"the archive {job.archive!r} belongs to another join: give every join a folder of its own")


def read_header(archive: str) -> dict[str, Any]:
    """What an archive says of its join."""
    system, root = opened(archive)
    try:
        with system.open_input_stream(f"{root}/{HEADER}") as file:
            found: dict[str, Any] = json.loads(file.read())
            return found
    except (OSError, ValueError) as error:
        raise InputError(f"{archive!r} is no archive of windrow: {error}") from error


def write_departed(job: Job, shard: int, push: int, departed: Mapping[str, pa.Table]) -> None:
    """Write what one push of one shard has lost."""
    assert job.archive is not None
    system, root = opened(job.archive)
    for stream, rows in departed.items():
        folder = f"{root}/{stream}"
        path = f"{folder}/{shard:06d}-{push:09d}.parquet"
        if push == 0:
            _refuse_leftovers(system, folder, shard, job.archive)
        if rows.num_rows:
            sink = pa.BufferOutputStream()
            pq.write_table(rows.append_column(SHARD, pa.repeat(pa.scalar(shard, pa.int32()), rows.num_rows)), sink)
            _write(system, path, sink.getvalue())
        elif system.get_file_info(path).type != fs.FileType.NotFound:
            system.delete_file(path)


def _refuse_leftovers(system: fs.FileSystem, folder: str, shard: int, archive: str) -> None:
    """A shard that starts anew must not find later pushes of itself."""
    names = [info.base_name for info in system.get_file_info(fs.FileSelector(folder))]
    if any(name.startswith(f"{shard:06d}-") and name > f"{shard:06d}-{0:09d}.parquet" for name in names):
        raise InputError(
            f"the archive {archive!r} has rows of an earlier run: a new checkpoint needs a new archive folder"
        )


def _write(system: fs.FileSystem, path: str, data: Any) -> None:
    folder, _, name = path.rpartition("/")
    hidden = f"{folder}/.{name}.{secrets.token_hex(4)}.tmp"
    with system.open_output_stream(hidden) as file:
        file.write(data)
    system.move(hidden, path)
