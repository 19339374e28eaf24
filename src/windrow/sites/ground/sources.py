"""Sources: a stream out of files, in order of their names, batch by batch, as fast as they are read or at a pace."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.errors import InputError, WindrowError
from windrow.files import open_table
from windrow.sites.ground.description import Feed
from windrow.sites.ground.running import Running
from windrow.sites.ground.server import fitted
from windrow.state.coding import times

LOOK = 0.25  # seconds between two looks for more files
FORMS = (".parquet", ".pq", ".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".gz")
UNIT_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "steps": 1.0}


class FileSource:
    """Feeds a stream of a site from a file, or from a folder to which files may be added."""

    def __init__(self, running: Running, stream: str, feed: Feed) -> None:
        assert feed.files is not None
        self.running, self.stream, self.feed, self.files = running, stream, feed, feed.files
        self.schema = running.network.bound.schemas[stream]
        self.failed: str | None = None  # looked at by the thread that owns the site
        self._starts = feed.starts
        self._said = 0  # the interval that the stream's clock has come to
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"files of {stream}", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Read no more."""
        self._stop.set()

    def _run(self) -> None:
        """Read; whatever keeps it from that ends the site, which else would wait for rows that nobody reads."""
        try:
            self._read()
        except BaseException as error:
            expected = isinstance(error, WindrowError | OSError | pa.ArrowException)
            text = str(error) if expected else f"{type(error).__name__}: {error}"
            self.failed = f"stream {self.stream!r} cannot go on: {' '.join(text.split())}"

    def _read(self) -> None:
        if self.running.arrivals[self.stream].ended is not None:
            return
        position = self.running.arrivals[self.stream].position or {}
        if "file" not in position:  # its rows may have been handed over until now
            position = {"file": "", "row": 0}
        feed = self._paced if self.feed.pace else self._fed
        while not self._stop.is_set():
            for path in self._following(position["file"]):
                begin = position["row"] if path.name == position["file"] else 0
                for table, row in self._batches(path, begin):
                    position = {"file": path.name, "row": row}
                    feed(table, position)
                    if self._stop.is_set():
                        return
            if not self.feed.follow:
                self.running.end(self.stream)
                return
            self._stop.wait(LOOK)

    def _following(self, last: str) -> list[Path]:
        """The files from the last one on."""
        if not self.files.exists():
            raise InputError(f"{self.files}: there is no such file or folder")
        if self.files.is_file():
            return [self.files] if last in ("", self.files.name) else []
        found = sorted(path for path in self.files.iterdir() if path.suffix in FORMS and path.name[0] not in "._")
        return [path for path in found if path.name >= last]

    def _batches(self, path: Path, begin: int) -> Iterator[tuple[pa.Table, int]]:
        """Rows from one on, and how many of the file have then been read."""
        row = 0
        types: dict[str, Any] = {field.name: field.type for field in self.schema}
        source = open_table(path, types={n: t for n, t in types.items() if path.suffix not in (".parquet", ".pq")})
        for batch in source.batches(columns=self.schema.names):
            start, row = row, row + batch.num_rows
            if row > begin:
                table = pa.Table.from_batches([batch]).slice(max(0, begin - start))
                yield fitted(table, self.schema, self.stream), row

    def _fed(self, table: pa.Table, position: Any) -> None:
        self.running.wait_for_room(self.stream, self._stop.is_set)
        self.running.feed(self.stream, table, position=position)

    def _paced(self, table: pa.Table, position: dict[str, Any]) -> None:
        """Hand rows over when their interval has ended by the wall clock."""
        bound = self.running.network.bound
        column = bound.query.stream(self.stream).time
        interval = bound.interval_of(times(table[column], bound.binding.domain, self.stream)[0])
        ends = np.flatnonzero(np.diff(interval, append=np.iinfo(np.int64).max)) + 1
        start, before = 0, position["row"] - table.num_rows
        for end in ends.tolist():
            if not self._passed(int(interval[start])):
                return
            here = {"file": position["file"], "row": before + end}
            self.running.feed(self.stream, table.slice(start, end - start), position=here)
            start = end

    def _passed(self, interval: int) -> bool:
        """Wait until an interval has ended by the wall clock; False if reading ends before.

        All rows before this interval have been handed over, so the stream's clock may go on to where it begins.
        """
        bound = self.running.network.bound
        length = bound.tau * UNIT_SECONDS[bound.unit] / float(self.feed.pace or 1)
        if self._starts is None:
            self._starts = time.time() - length * self.running.arrivals[self.stream].next
        while not self._stop.is_set():
            now = (time.time() - self._starts) / length
            if (begun := min(int(now), interval)) > self._said:
                self.running.feed(self.stream, None, until=bound.start(begun))
                self._said = begun
            if now >= interval + 1:
                return True
            self._stop.wait((int(now) + 1 - now) * length)
        return False
