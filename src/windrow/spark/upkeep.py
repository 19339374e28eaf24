"""Upkeep of an archive: fewer, larger files, and rows that are not needed any more. While its query runs, or not.

Merging. The files of 32 pushes that follow each other, the first of which is number 1, 33, 65 and so on, become one;
32 of those become one, and so on, as long as the result stays below 256 MB. Who merges, and when, changes neither the
names nor the rows, and a merged file appears whole before the files in it are removed, by the next call: whoever was
reading them can go on until then. A call that is killed half-way leaves files that do not count (contents.py).

Forgetting. Rows that can only be in matches before a time are removed, file by file from the oldest on; from which
numbers on files are kept, and since when repair is possible, is written down first.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from windrow.errors import SpecError
from windrow.spark.archive import read_header, writing
from windrow.spark.contents import FORGOTTEN, File, Row, contents, hidden_name, parquet_batches, readable, write_whole
from windrow.spark.moments import Moment, moment_of
from windrow.spark.places import opened, place_of
from windrow.spec import Query
from windrow.state.coding import TimeDomain, times

FAN = 32
LARGEST = 1 << 28
GROUP_ROWS = 1 << 17


@dataclass(frozen=True)
class Upkeep:
    """What was done to an archive: the files that count before and after, and those that were removed."""

    before: int
    after: int
    removed: int


def compact(archive: str | os.PathLike[str]) -> Upkeep:
    """Merge an archive's small files into larger ones, and remove those that an earlier call has merged.

    Safe at any time, also while the query runs and when killed. A repair that was begun before the last call goes on;
    one that is older fails, and can be run again.
    """
    query = Query.from_json(read_header(archive)["query"])
    found = contents(place_of(archive), query.names)
    found.check()
    removed = _remove(found.place, (file for row in found.rows.values() for file in row.left_over))
    after = 0
    for row in found.rows.values():
        after += len(_merged(found.place, row))
    return Upkeep(sum(len(row.kept) for row in found.rows.values()), after, removed)


def _merged(place: str, row: Row) -> list[File]:
    """The files of a stream and shard that count, after all that can be merged was merged."""
    files, width = list(row.kept), FAN
    while width < row.newest:
        after: list[File] = []
        for _, group in groupby(files, lambda file: (file.first - 1) // width):  # noqa: B023
            inside = list(group)
            whole = inside[0].first % width == 1 and inside[-1].last % width == 0 and inside[-1].last < row.newest
            small = sum(file.size for file in inside) <= LARGEST
            after += [_merge(place, inside)] if len(inside) > 1 and whole and small else inside
        files, width = after, width * FAN
    return files


def _merge(place: str, files: Sequence[File]) -> File:
    """One file with the rows of some, in their order."""
    system, root = opened(place)
    one = replace(files[0], last=files[-1].last, size=0)
    path = f"{root}/{one.name}"
    hidden = hidden_name(path)
    with writing(place):
        groups = _groups(system, [f"{root}/{file.name}" for file in files])
        first = next(groups)
        with system.open_output_stream(hidden) as sink, pq.ParquetWriter(sink, first.schema) as writer:
            writer.write_table(first)
            for group in groups:
                writer.write_table(group)
        system.move(hidden, path)
        return replace(one, size=system.get_file_info(path).size)


def _groups(system: fs.FileSystem, paths: Iterable[str]) -> Iterator[pa.Table]:
    """The rows of files in tables of so many rows, the last one with what is left."""
    waiting: list[pa.Table] = []
    for path in paths:
        for batch in parquet_batches(system, path, GROUP_ROWS):
            waiting.append(pa.Table.from_batches([batch]))
            if sum(table.num_rows for table in waiting) >= GROUP_ROWS:
                yield pa.concat_tables(waiting)
                waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def forget(archive: str | os.PathLike[str], before: Moment) -> Upkeep:
    """Forget what is only needed to repair matches before a time (that of their later row).

    From then on repair needs `since` at that time or later. What cannot be removed file by file stays a while longer.
    """
    header = read_header(archive)
    end = moment_of(header, before, "before")
    if end is None:
        raise SpecError("before must be a moment: nothing is forgotten without one")
    query = Query.from_json(header["query"])
    found = contents(place_of(archive), query.names)
    found.check()
    end = end if found.since is None else max(end, found.since)
    domain, starts = TimeDomain(**header["times"]), dict[str, dict[str, int]]()
    for (stream, shard), row in found.rows.items():
        reach = header["reach"][query.names.index(stream)]
        old = [] if reach is None else _old(found.place, row, str(query.stream(stream).time), end - reach, domain)
        starts.setdefault(stream, {})[str(shard)] = old[-1].last + 1 if old else row.start
    system, root = opened(found.place)
    with writing(found.place):
        write_whole(system, f"{root}/{FORGOTTEN}", json.dumps({"before": end, "from": starts}).encode())
    kept = [file for row in found.rows.values() for file in row.kept]
    over = [file for row in found.rows.values() for file in row.left_over]

    def gone(file: File) -> bool:
        return file.last < starts[file.stream][str(file.shard)]

    removed = _remove(found.place, filter(gone, kept + over))
    return Upkeep(len(kept), len(kept) - sum(map(gone, kept)), removed)


def _old(place: str, row: Row, time: str, end: int, domain: TimeDomain) -> list[File]:
    """The oldest files, all rows of which lie before a time; never the newest, which Spark may write again."""
    system, root = opened(place)

    def passed(file: File) -> bool:
        if file.last >= row.newest:
            return False
        path = f"{root}/{file.name}"
        with readable(path), system.open_input_file(path) as source:
            column = pq.read_table(source, columns=[time])[time]
        return bool(times(column, domain, f"{file.name}: {time}")[0].max() < end)

    return list(takewhile(passed, row.kept))


def _remove(place: str, files: Iterable[File]) -> int:
    system, root = opened(place)
    removed = 0
    with writing(place):
        for file in files:
            try:
                system.delete_file(f"{root}/{file.name}")
                removed += 1
            except FileNotFoundError:  # by another call
                continue
    return removed
