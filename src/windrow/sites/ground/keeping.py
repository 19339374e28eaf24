"""Keeping: what a site must not forget, in files: a snapshot of its state, and a journal of what came in since.

    snapshot-7    state, as it was when journal-7 began: written beside, flushed, renamed
    journal-7     entries: what streams brought, when intervals ended, which messages came; in the order they were taken
    lock          held by the process that serves the site; how far the journal has been flushed

An entry is written and flushed before anything is done with it and before anybody is told that it is here. What a site
does is decided by its entries, so a site that was killed does the same again from its snapshot. Entries that could not
be flushed are cut off by the site as it stops: whoever brought them has heard of an error, and brings them again. An
entry that was not written to its end was not acted upon; it is cut off. It is the last one: where whole entries follow
one that cannot be read, the file was damaged, and the site does not go on. Nor does it where the journal ends before
what was flushed: others have been told that this is here, and have forgotten it. Entries are a JSON header and bytes
(Arrow, or a message as it came), with a checksum: nothing in them can run code.
"""

import contextlib
import errno
import fcntl
import json
import logging
import os
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from windrow.errors import InputError, SnapshotError
from windrow.state.snapshot import form

log = logging.getLogger("windrow.sites")

_HEAD = struct.Struct("<III")  # checksum, length of the header, length of the body
_MARK = struct.Struct("<QQI")  # number of the journal, bytes of it that were flushed, checksum of both
_COPY = "Put a copy of the site's folder in its place; without one, remove the folders of all sites to begin anew"


@dataclass(frozen=True)
class Entry:
    """One thing that came in: its kind, a few values, and bytes."""

    kind: str
    facts: dict[str, Any]
    body: bytes | pa.Buffer = b""


class Keeping:
    """The files of one site."""

    def __init__(self, folder: Path, site: str, description: str) -> None:
        """Take hold of a folder, which must be new or of the same site and description."""
        self.folder, self.mark = folder, {"site": site, "description": description}
        self.bytes = 0  # in the journal
        self._safe = 0  # of them, those that are there for good
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "lock").touch()
            self._lock = (folder / "lock").open("r+b", buffering=0)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN):
                raise InputError(f"{folder}: another process serves this site") from None
            raise InputError(
                f"{folder}: the file lock cannot be locked: {error.strerror or error}. Give the site a folder on a "
                "file system that has locks"
            ) from error
        self._journal: Any = None
        try:
            self.number = self._last("snapshot")
            self._flushed = self._marked()
            with writing(folder):
                self._clear()
        except BaseException:
            self._lock.close()
            raise

    def _last(self, kind: str) -> int:
        """The highest number of a kind of files."""
        return max((_number(path) for path in self.folder.glob(f"{kind}-*")), default=0)

    def _marked(self) -> int:
        """How many bytes of the journal have been flushed, as far as is known; an error if it is of a later one, or if
        there is a later one: a journal begins when its snapshot is there."""
        data, number, size = os.pread(self._lock.fileno(), _MARK.size, 0), 0, 0
        if len(data) == _MARK.size:
            number, size, check = _MARK.unpack(data)
            if zlib.crc32(data[:-4]) != check:
                log.warning("%s: how far the journal was flushed cannot be read", self.folder / "lock")
                number = size = 0
        if (known := max(number, self._last("journal"))) > self.number:
            raise SnapshotError(
                f"{self.folder / f'snapshot-{known}'} is missing, on which the site has gone on. {_COPY}"
            )
        return size if number == self.number else 0

    def _clear(self) -> None:
        """Remove what a process that was killed while it wrote a snapshot has left."""
        for kind in ("snapshot", "journal"):
            for path in self.folder.glob(f"{kind}-*"):
                if path.name != f"{kind}-{self.number}":
                    path.unlink()

    def restore(self) -> tuple[form.Snapshot | None, Iterator[Entry]]:
        """The last snapshot, if there is one, and the entries since; then the journal goes on behind them."""
        snapshot = None
        path = self.folder / f"snapshot-{self.number}"
        if path.exists():
            try:
                snapshot = form.read(path.read_bytes())
            except SnapshotError as error:
                raise SnapshotError(f"{path}: {error}. {_COPY}") from None
            self._check(snapshot.header, path)
        return snapshot, self._entries()

    def _entries(self) -> Iterator[Entry]:
        path = self.folder / f"journal-{self.number}"
        data = memoryview(path.read_bytes() if path.exists() else b"")
        at = count = 0
        while (found := _read(data, at)) is not None:
            entry, at = found
            if entry.kind == "begin":
                self._check(entry.facts, path)
            else:
                count += 1
                yield entry
        if at < self._flushed:
            raise SnapshotError(
                f"{path} is damaged: the entry at byte {at:,} cannot be read, and {self._flushed:,} bytes were noted "
                f"for good: others have forgotten what was in them. {_COPY}"
            )
        _refuse_damage(path, data, at)
        rest = len(data) - at
        del data
        if rest:
            log.warning("%s: an entry that was not written to its end is cut off (%d bytes)", path, rest)
            with writing(self.folder):
                os.truncate(path, at)
        self._open(path)
        if count:  # who was killed may have written more than it flushed, and now others are told that it is here
            self.flush()

    def _check(self, facts: dict[str, Any], path: Path) -> None:
        for name, value in self.mark.items():
            if facts.get(name) != value:
                raise SnapshotError(
                    f"{path} is of {name} {facts.get(name)!r}, not {value!r}: its streams, plan or columns were other "
                    "ones; give the site another folder, or remove this one to begin anew"
                )

    def _open(self, path: Path) -> None:
        with writing(self.folder):
            self._journal = path.open("ab", buffering=1 << 20)
        self.bytes = self._safe = self._journal.tell()
        if not self.bytes:
            self.add(Entry("begin", self.mark))
            self._sync()
            with writing(self.folder):
                sync_folder(self.folder)
            self._safe = self.bytes

    def add(self, entry: Entry) -> None:
        """Write an entry; it counts when it has been flushed."""
        text = json.dumps(entry.facts | {"kind": entry.kind}, separators=(",", ":")).encode()
        check = zlib.crc32(entry.body, zlib.crc32(text))
        with writing(self.folder):
            self._journal.write(_HEAD.pack(check, len(text), len(entry.body)))
            self._journal.write(text)
            self._journal.write(entry.body)
        self.bytes += _HEAD.size + len(text) + len(entry.body)

    def flush(self) -> None:
        """See to it that entries outlive the machine, and note that they do: what is missing later was lost.

        The note itself is not flushed: who is only killed leaves it, and after more than that it tells of less.
        """
        self._sync()
        self._note(self.bytes)
        self._safe = self.bytes

    def _note(self, size: int) -> None:
        mark = _MARK.pack(self.number, size, 0)[:-4]
        with writing(self.folder):
            os.pwrite(self._lock.fileno(), mark + zlib.crc32(mark).to_bytes(4, "little"), 0)

    def _sync(self) -> None:
        with writing(self.folder):
            self._journal.flush()
            os.fdatasync(self._journal.fileno())

    def snapshot(self, header: dict[str, Any], parts: list[Any]) -> int:
        """Replace snapshot and journal by the state as it is; how many bytes that takes."""
        data = form.write(header | self.mark, parts)
        after = self.number + 1
        with writing(self.folder):
            write_whole(self.folder / f"snapshot-{after}", data)
        old, self.number = self.number, after
        with writing(self.folder):
            self._journal.close()
        self._open(self.folder / f"journal-{after}")
        self._note(0)
        for kind in ("journal", "snapshot"):
            with contextlib.suppress(FileNotFoundError):
                (self.folder / f"{kind}-{old}").unlink()
        return len(data)

    def close(self) -> None:
        """Let go of the folder."""
        if self._journal is not None:
            with contextlib.suppress(OSError):
                self._journal.close()
            self._take_back()
        self._lock.close()

    def _take_back(self) -> None:
        """Cut off what was not flushed: nobody was told that it is here, so it comes again, and would count twice."""
        path = self.folder / f"journal-{self.number}"
        try:
            with path.open("r+b", buffering=0) as file:
                if file.seek(0, os.SEEK_END) > self._safe:
                    file.truncate(self._safe)
                    with contextlib.suppress(OSError):  # it comes back only if the machine goes down, too
                        os.fdatasync(file.fileno())
        except FileNotFoundError:
            pass
        except OSError as error:
            log.error(
                "%s: what was not flushed cannot be cut off (%s): rows that are handed over again count twice",
                path, error.strerror,
            )  # fmt: skip


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Say in one line which folder cannot be written, and what becomes of the site."""
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise InputError(
            f"{folder}: writing failed: {why}. Mend that and serve the site again: nothing is lost"
        ) from error


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole, or not at all."""
    beside = path.with_name(f"{path.name}.part")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """See to it that names in a folder outlive the machine."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(data: memoryview, at: int) -> tuple[Entry, int] | None:
    """The entry at a place, and where it ends; None where there is none, or not all of it."""
    if at + _HEAD.size > len(data):
        return None
    check, head, body = _HEAD.unpack_from(data, at)
    start = at + _HEAD.size
    end = start + head + body
    if not head or end > len(data):
        return None
    text, rest = bytes(data[start : start + head]), bytes(data[start + head : end])
    if zlib.crc32(rest, zlib.crc32(text)) != check:
        return None
    facts = json.loads(text)
    return Entry(facts.pop("kind"), facts, rest), end


def _refuse_damage(path: Path, data: memoryview, at: int) -> None:
    """Raise an error if whole entries follow one that cannot be read: whoever was killed wrote nothing behind it."""
    for found in re.finditer(rb'\{"', data[at:]):  # as the headers of entries begin
        behind = at + found.start() - _HEAD.size
        if behind > at and _read(data, behind) is not None:
            raise SnapshotError(
                f"{path} is damaged: the entry at byte {at:,} cannot be read, and whole ones follow from byte "
                f"{behind:,}. {_COPY}. If the machine lost power while it wrote, and nothing behind byte {at:,} was "
                f"acknowledged: truncate -s {at} {path}"
            )


def _number(path: Path) -> int:
    text = path.name.partition("-")[2]
    return int(text) if text.isdigit() else 0
