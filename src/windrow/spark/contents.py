"""Contents: which files of an archive count, and whether any is missing. Told from their names.

    <archive>/<stream>/<shard>-<number>.parquet          rows lost in one push; numbered from 1 by stream and shard
    <archive>/<stream>/<shard>-<first>-<last>.parquet    those of many pushes, merged (upkeep.py)
    <archive>/_shards/<shard>.json                       the number of the newest file, by stream
    <archive>/_forgotten.json                            from which numbers on files are kept, and since when

Ranges of numbers lie inside each other or apart, never across. So the widest file at each number counts, files inside
it are left-overs, and from the first number that is kept to the newest there must be no gap. The newest file may be of
a push that Spark runs again: nobody merges or forgets it.
"""

import json
import re
import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from windrow.errors import InputError
from windrow.spark.places import opened

SHARDS, FORGOTTEN = "_shards", "_forgotten.json"
_NAME = re.compile(r"(\d+)-(\d+)(?:-(\d+))?\.parquet")


@dataclass(frozen=True)
class File:
    """A file of lost rows: those of the pushes that have written the numbers from `first` to `last`."""

    stream: str
    shard: int
    first: int
    last: int
    size: int = 0

    @property
    def name(self) -> str:
        """Its path inside the archive."""
        more = "" if self.first == self.last else f"-{self.last:09d}"
        return f"{self.stream}/{self.shard:06d}-{self.first:09d}{more}.parquet"


@dataclass(frozen=True)
class Row:
    """The files of one stream and shard: those that count, those that do not, and where the first gap is."""

    kept: tuple[File, ...]
    left_over: tuple[File, ...]
    start: int
    newest: int

    @property
    def missing(self) -> int | None:
        """The first number, up to the newest, that no file has."""
        there = self.kept[-1].last + 1 if self.kept else self.start
        return there if there <= self.newest else None


@dataclass(frozen=True)
class Contents:
    """All files of an archive, as they were listed."""

    place: str
    rows: dict[tuple[str, int], Row]
    since: int | None  # matches before this time can no longer be repaired

    def kept(self, stream: str) -> list[File]:
        """The files of a stream that count."""
        return [file for (name, _), row in sorted(self.rows.items()) if name == stream for file in row.kept]

    @property
    def missing(self) -> File | None:
        """The first file that is not there."""
        gaps = ((*key, row.missing) for key, row in sorted(self.rows.items()) if row.missing is not None)
        return next((File(stream, shard, number, number) for stream, shard, number in gaps), None)

    def check(self) -> None:
        """Raise an error if any file is missing."""
        if self.missing is not None:
            raise InputError(not_whole(self.place, self.missing))


def not_whole(place: str, missing: File) -> str:
    """What to say of an archive in which a file is missing."""
    return (
        f"the archive {place!r} is not whole: {missing.name} is missing, and the rows in it would be missing "
        "from repair; put it back, or start anew: a new checkpoint and a new archive"
    )


def contents(place: str, streams: Collection[str], only: int | None = None) -> Contents:
    """The files of an archive, or of one of its shards.

    Numbers of newest files are read first and those forgotten last, so that what others write or forget meanwhile looks
    neither missing nor forgotten too early. A shard may just have taken a file back: what seems missing is looked for
    once more.
    """
    found = _contents(place, streams, only)
    return found if found.missing is None else _contents(place, streams, only)


def _contents(place: str, streams: Collection[str], only: int | None) -> Contents:
    system, root = opened(place)
    newest = _newest(system, root, only)
    found: dict[tuple[str, int], list[File]] = {}
    for stream in streams:
        for file in _listed(system, root, stream):
            if only in (None, file.shard):
                found.setdefault((stream, file.shard), []).append(file)
    forgotten = read_json(system, f"{root}/{FORGOTTEN}") or {"before": None, "from": {}}
    rows = {}
    for stream, shard in {*found, *newest}:
        start = int(forgotten["from"].get(stream, {}).get(str(shard), 1))
        rows[stream, shard] = _row(found.get((stream, shard), []), start, newest.get((stream, shard), 0))
    return Contents(place, rows, forgotten["before"])


def _newest(system: fs.FileSystem, root: str, only: int | None) -> dict[tuple[str, int], int]:
    found = {}
    for info in system.get_file_info(fs.FileSelector(f"{root}/{SHARDS}", allow_not_found=True)):
        name = info.base_name.removesuffix(".json")
        if name.isdigit() and only in (None, int(name)):
            for stream, number in (read_json(system, info.path) or {}).items():
                found[stream, int(name)] = int(number)
    return found


def _listed(system: fs.FileSystem, root: str, stream: str) -> list[File]:
    found = []
    for info in system.get_file_info(fs.FileSelector(f"{root}/{stream}", allow_not_found=True)):
        if name := _NAME.fullmatch(info.base_name):
            shard, first, last = int(name[1]), int(name[2]), int(name[3] or name[2])
            found.append(File(stream, shard, first, last, info.size))
    return found


def _row(files: list[File], start: int, newest: int) -> Row:
    kept, at = [], start
    for file in sorted(files, key=lambda f: (f.first, -f.last)):
        if file.first <= at <= file.last:
            kept.append(file)
            at = file.last + 1
    there = set(kept)
    over = tuple(file for file in files if file not in there and file.last < at)
    return Row(tuple(kept), over, start, max([newest, *(file.last for file in files)]))


# ---------------------------------------------------------------------------------------- small files


def read_json(system: fs.FileSystem, path: str) -> Any:
    """What a small file says, or None if there is none."""
    try:
        with system.open_input_stream(path) as file:
            return json.loads(file.read())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{path!r} in the archive cannot be read: {error}") from error


def parquet_batches(system: fs.FileSystem, path: str, rows: int = 1 << 16) -> Iterator[pa.RecordBatch]:
    """The rows of a file of lost rows, so many at a time."""
    with readable(path), system.open_input_file(path) as source:
        yield from pq.ParquetFile(source).iter_batches(rows)


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Say of which part of an archive it is if reading fails, and what to do."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{what!r} in the archive cannot be read: {error}; put a sound copy in its place or, if the archive was "
            "compacted meanwhile, call again"
        ) from error


def write_whole(system: fs.FileSystem, path: str, data: Any) -> None:
    """Write a file that appears whole, in place of one that may be there."""
    hidden = hidden_name(path)
    with system.open_output_stream(hidden) as file:
        file.write(data)
    system.move(hidden, path)


def hidden_name(path: str) -> str:
    """Where a file is written before it gets its name: nobody takes it for part of the archive."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.{secrets.token_hex(4)}.tmp"
