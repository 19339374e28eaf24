"""The archive: rows that were lost, in Parquet files, each written exactly once.

    <archive>/_windrow.json        its id, the join, and what must stay the same
    <archive>/_checkpoint.json     whose rows these are: Spark's id of the query, which its checkpoint keeps
    <archive>/<stream>/...         the rows (contents.py)

A file belongs to one push of one shard. A push that Spark runs again writes the same file anew, so that whatever
failed, what is there in the end is what the push that counted has lost. Files appear whole, by renaming.

A shard's state remembers the id and how many files it has written. Every push looks at the id, and the first push of a
run that a worker sees looks at all names: an archive that was taken away, emptied, exchanged or damaged between two
runs is found out before anything is added to it. A file more than the state knows of is of a push that was killed.
"""

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from windrow.engine.bind import Binding
from windrow.engine.departures import SHARD
from windrow.errors import InputError, SnapshotError, SpecError
from windrow.kernels import layout as at
from windrow.spark.contents import SHARDS, File, contents, not_whole, read_json, write_whole
from windrow.spark.facts import archive_facts_of, refuse_changes
from windrow.spark.job import LAYOUT, Archive, Job
from windrow.spark.places import opened, place_of

HEADER, CHECKPOINT = "_windrow.json", "_checkpoint.json"
ANEW = "start anew: a new checkpoint and a new archive"

_looked: set[tuple[str, int, str]] = set()  # archive, shard and run that this process has looked through


@dataclass(frozen=True)
class Run:
    """What Spark says of a running query: which it is, for the life of its checkpoint, and which start of it."""

    query: str | None = None
    start: str | None = None


def start_archive(job: Job, place: str, binding: Binding) -> Archive:
    """Make the folder and say of which join it is; an archive of another join, or of other windows, is refused."""
    system, root = opened(place)
    facts = archive_facts_of(job)
    with writing(place):
        for folder in (*job.query.names, SHARDS):
            system.create_dir(f"{root}/{folder}", recursive=True)
        if system.get_file_info(f"{root}/{HEADER}").type == fs.FileType.NotFound:
            reach = binding.plan.windows[:, 0].view(np.uint64).tolist()  # distances are unsigned (kernels/distances.py)
            written = {
                "id": secrets.token_hex(8),
                "facts": facts,
                "query": job.query.with_(memory=None).to_json(),
                "columns": {name: job.schema(name).names for name in job.query.names},
                "times": asdict(binding.domain),
                "reach": [most if most < at.HIGH else None for most in reach],  # None: such rows match for ever
            }
            write_whole(system, f"{root}/{HEADER}", json.dumps(written).encode())
    header = read_header(place)
    refuse_changes(header["facts"], facts, f"the archive {place!r}", SpecError)
    return Archive(place, header["id"])


def read_header(archive: Any) -> dict[str, Any]:
    """What an archive says of its join."""
    place = place_of(archive)
    system, root = opened(place)
    try:
        found = read_json(system, f"{root}/{HEADER}")
    except OSError as error:
        raise InputError(f"the archive {place!r} cannot be read: {error}") from error
    if not isinstance(found, dict) or not {"id", "facts", "query"} <= set(found):
        raise InputError(f"{place!r} is no archive of windrow: it has no {HEADER} of this version")
    if found["facts"].get("layout") != LAYOUT:
        raise InputError(f"the archive {place!r} was written by a windrow with another layout: use that one")
    return found


def check_archive(job: Job, shard: int, known: Mapping[str, Any] | None, run: Run, all_shards: bool) -> dict[str, int]:
    """See that the archive is the one of a shard's state, and whole; how many files the shard has written, by stream.

    `known` is what the state remembers, None where there is no state. The shard that looks at all shards finds out what
    is missing of shards that have no rows now.
    """
    assert job.archive is not None
    place, streams = job.archive.place, job.query.names
    system, root = opened(place)
    header = read_json(system, f"{root}/{HEADER}") or {}
    if header.get("id") != (job.archive.id if known is None else known["id"]):
        raise SnapshotError(
            f"the archive {place!r} is not the one that this checkpoint has written to, which holds the rows lost so "
            f"far: put that folder back in its place, or {ANEW}"
        )
    files = dict.fromkeys(streams, 0) if known is None else {name: int(known["files"][name]) for name in streams}
    if known is None:
        _claim(system, root, place, run)
    if run.start is not None and (job.archive.id, shard, run.start) in _looked:
        return files
    found = contents(place, streams, None if all_shards else shard)
    for stream in streams:
        row = found.rows.get((stream, shard))
        newest = row.newest if row is not None else 0
        if newest > files[stream] + 1:
            raise SnapshotError(_of_another_run(place) if known is None else _ahead(place))
        if newest < files[stream]:
            raise SnapshotError(not_whole(place, File(stream, shard, newest + 1, newest + 1)))
    found.check()
    if run.start is not None:
        _looked.add((job.archive.id, shard, run.start))
    return files


def _claim(system: fs.FileSystem, root: str, place: str, run: Run) -> None:
    """Say of which checkpoint the rows will be, where Spark says which it is; those of another one are refused."""
    if run.query is None:
        return
    owner = read_json(system, f"{root}/{CHECKPOINT}")
    if owner is None:
        with writing(place):
            write_whole(system, f"{root}/{CHECKPOINT}", json.dumps({"query": run.query}).encode())
    elif owner.get("query") != run.query:
        raise SnapshotError(_of_another_run(place))


def _of_another_run(place: str) -> str:
    return f"the archive {place!r} has rows of another checkpoint: a new checkpoint needs a new archive"


def _ahead(place: str) -> str:
    return (
        f"the archive {place!r} has rows of later micro-batches than this checkpoint, which was set back: set the "
        f"archive back to the same moment, or {ANEW}"
    )


def write_departed(
    archive: Archive, shard: int, files: Mapping[str, int], departed: Mapping[str, pa.Table]
) -> dict[str, int]:
    """Write what one push of one shard has lost; how many files it has written now, by stream."""
    system, root = opened(archive.place)
    after, stale = dict(files), []
    with writing(archive.place):
        for stream, rows in departed.items():
            path = f"{root}/{File(stream, shard, files[stream] + 1, files[stream] + 1).name}"
            if rows.num_rows:
                sink = pa.BufferOutputStream()
                pq.write_table(rows.append_column(SHARD, pa.repeat(pa.scalar(shard, pa.int32()), rows.num_rows)), sink)
                write_whole(system, path, sink.getvalue())
                after[stream] += 1
            elif system.get_file_info(path).type != fs.FileType.NotFound:
                stale.append(path)  # of this push too, run before with other settings
        if stale or after != files:
            write_whole(system, f"{root}/{SHARDS}/{shard:06d}.json", json.dumps(after).encode())
        for path in stale:
            system.delete_file(path)
    return after


@contextmanager
def writing(place: str) -> Iterator[None]:
    """Turn what goes wrong while an archive is written into one clear line."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"the archive {place!r} cannot be written: {' '.join(str(error).split())}") from error
