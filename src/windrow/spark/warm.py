"""Warm engines: shards parked on an executor's machine between micro-batches, for whichever worker comes next.

Spark hands shards to Python workers as it likes, so what stays warm lies in a folder that all workers of an executor
see (engine/parking.py). A cache and nothing more: whatever does not fit exactly is not found, and the caller rebuilds
the shard from its checkpoint.

    <place>/windrow-warm-<uid>/                     0700, owner checked
        <query>-<shard>-<version>-<bytes>/          parked, by digests of a key
        work-<random>/                              in the hands of a process, which holds a lock on it

A folder is claimed by locking it (flock, which the kernel gives back when the process dies) and renaming it; it goes
back under the key of the next version. So no two tasks share a folder, speculative copies and retries find none, and
work folders without a lock are what dead processes have left. Whoever puts a folder back removes those, older versions
of its shard, what nobody has asked for in a long time, and the least recently used beyond the bounds.

Where: the folder that Spark gives this executor for such things (SPARK_LOCAL_DIRS in a worker), which Spark removes
when the application ends; without it the system's folder for temporary files. WINDROW_WARM names another, such as
/dev/shm, where pages are never written to a disk but stay in memory after a query that nobody follows, until the
machine is restarted; `off` turns the cache off.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from windrow.engine import Engine
from windrow.errors import SnapshotError

try:
    import fcntl
except ImportError:  # Windows: no cache
    fcntl = None  # type: ignore[assignment]

PLACE, OFF = "WINDROW_WARM", "off"
MOST_FOLDERS = 256
MOST_SECONDS = 3600  # since a folder was last used
FREE_SHARE = 2  # one part in so many of what is free, or used by the cache, may be used
WORK = "work-"
_PARKED = re.compile(r"[0-9a-f]{16}-\d+-[0-9a-f]{32}-(\d+)", re.ASCII)
_WORK = re.compile(rf"{WORK}[0-9a-f]{{16}}")


@dataclass(frozen=True)
class Key:
    """Which state of which shard: the query's id and which of its joins, the shard, and a digest of everything that was
    pushed so far."""

    query: str
    shard: int
    version: str

    @property
    def shard_name(self) -> str:
        """The first part of a folder's name, common to all versions of a shard."""
        return f"{hashlib.sha256(self.query.encode()).hexdigest()[:16]}-{self.shard}-"

    @property
    def name(self) -> str:
        """The first part of a folder's name; its bytes follow."""
        return f"{self.shard_name}{hashlib.sha256(self.version.encode()).hexdigest()[:32]}-"

    def __str__(self) -> str:
        return f"{self.query}/{self.shard}/{self.version}"


def chained(version: str, *pushed: bytes | memoryview) -> str:
    """The version after one more push: a digest of the one before it and of what was pushed."""
    digest = hashlib.blake2b(version.encode(), digest_size=16)
    for part in pushed:
        digest.update(f"/{memoryview(part).nbytes}/".encode())
        digest.update(part)
    return digest.hexdigest()


class Cache:
    """The parked engines of a machine, or of an executor.

    Parameters:
        place: a folder to make the cache in; Spark's own for this executor if not told.
        most_folders, most_bytes, most_seconds: what it holds at most, and for how long nobody may have asked for it;
            without most_bytes a half of what is free there.
    """

    def __init__(
        self,
        place: Path | str | None = None,
        *,
        most_folders: int = MOST_FOLDERS,
        most_bytes: int | None = None,
        most_seconds: float = MOST_SECONDS,
    ) -> None:
        self.folder = None if fcntl is None else _home(place)
        self.most_folders, self.most_bytes, self.most_seconds = most_folders, most_bytes, most_seconds

    def claim(self, key: Key) -> Path | None:
        """The folder in which the engine of a key is parked, for this process alone; None if there is none.

        It stays in the hands of the process until it is put back or dropped.
        """
        for name in self._names(key.name):
            try:
                return self._claimed(name)
            except OSError:  # somebody else was faster
                continue
        return None

    def engine(self, key: Key, **options: object) -> tuple[Engine | None, Path | None]:
        """The engine of a key, attached with options of `Engine.attach`, and its folder; Nones if there is none.

        A folder whose engine is forgotten, after an error for example, is given up with it.
        """
        folder = self.claim(key)
        if folder is None:
            return None, None
        try:
            engine = Engine.attach(folder, key=str(key), **options)  # type: ignore[arg-type]
        except SnapshotError:
            self.drop(folder)
            return None, None
        weakref.finalize(engine, _unlock, folder)
        return engine, folder

    def put(self, key: Key, engine: Engine, folder: Path | None = None) -> bool:
        """Park an engine under a key, in the folder that it was claimed in or a new one; whether that was possible.

        Afterwards the engine is of no more use, whether it was or not.
        """
        home = self.folder
        if home is None:
            return False
        try:
            folder = self._new() if folder is None else folder
            engine.park(folder, str(key))
            size = _size(folder)
            os.rename(folder, home / f"{key.name}{size}")
            _unlock(folder)
        except OSError:  # no room, or somebody has removed it
            if folder is not None:
                self.drop(folder)
            return False
        with suppress(OSError):  # somebody has removed all of it
            self._clean(key)
        return True

    def held_bytes(self, key: Key) -> int:
        """Bytes that are parked under a key."""
        return sum(_told(name) or 0 for name in self._names(key.name))

    def drop(self, folder: Path) -> None:
        """Throw a claimed folder away."""
        shutil.rmtree(folder, ignore_errors=True)
        _unlock(folder)

    def forget(self, query: str) -> None:
        """Throw away what is parked of a query."""
        start = Key(query, 0, "").shard_name.partition("-")[0]
        for name in self._names(start):
            self._remove(name)

    # -- claiming --------------------------------------------------------------------------------------------------

    def _claimed(self, name: str) -> Path:
        """Lock a folder and give it a name of this process's own; OSError if somebody else has it."""
        assert self.folder is not None
        lock = _locked(self.folder / name)
        mine = self.folder / f"{WORK}{secrets.token_hex(8)}"
        try:
            os.rename(self.folder / name, mine)
            if not os.path.samestat(os.fstat(lock), os.stat(mine)):  # another of the same name, not the one locked
                shutil.rmtree(mine, ignore_errors=True)
                raise FileNotFoundError(name)
        except OSError:
            os.close(lock)
            raise
        _locks[mine] = lock
        return mine

    def _new(self) -> Path:
        """A new folder of this process's own."""
        assert self.folder is not None
        mine = self.folder / f"{WORK}{secrets.token_hex(8)}"
        mine.mkdir(0o700)
        _locks[mine] = _locked(mine)
        return mine

    # -- bounds ----------------------------------------------------------------------------------------------------

    def _names(self, start: str = "") -> list[str]:
        """The folders there whose names begin so."""
        try:
            return [name for name in os.listdir(self.folder) if name.startswith(start)] if self.folder else []
        except OSError:
            return []

    def _clean(self, last: Key) -> None:
        """Remove what is left over, other versions of a shard, what is old, and what is beyond the bounds.

        What has a name of another form is somebody else's, as `lost+found` of a disk's first folder: it is left alone.
        """
        now, found = time.time(), []
        for name, used in self._ages():
            size = _told(name)
            if _WORK.fullmatch(name):
                self._remove(name)  # unless it is locked
            elif size is None:
                continue
            elif now - used > self.most_seconds or _is_other(name, last):
                self._remove(name)
            else:
                found.append((used, size, name))
        found.sort(reverse=True)
        most, total = self._most_bytes(sum(size for _, size, _ in found)), 0
        for k, (_, size, name) in enumerate(found):
            total += size
            if k >= self.most_folders or total > most:
                self._remove(name)

    def _ages(self) -> Iterator[tuple[str, float]]:
        """All folders, and when each was last parked in."""
        for name in self._names():
            try:
                yield name, os.stat(self.folder / name).st_mtime  # type: ignore[operator]
            except OSError:
                continue

    def _most_bytes(self, held: int) -> int:
        if self.most_bytes is not None:
            return self.most_bytes
        assert self.folder is not None
        return (shutil.disk_usage(self.folder).free + held) // FREE_SHARE

    def _remove(self, name: str) -> None:
        """Throw a folder away that is in nobody's hands."""
        try:
            self.drop(self._claimed(name))
        except OSError:
            return


def _is_other(name: str, key: Key) -> bool:
    """Whether a folder's name is that of another version of a key's shard."""
    return name.startswith(key.shard_name) and not name.startswith(key.name)


def _told(name: str) -> int | None:
    """The bytes of a parked folder, which its name tells; None where it is not the name of one."""
    found = _PARKED.fullmatch(name)
    return None if found is None else int(found[1])


_locks: dict[Path, int] = {}  # of the folders in the hands of this process


def _unlock(folder: Path) -> None:
    """Give the lock on a folder back, if this process has it."""
    lock = _locks.pop(folder, None)
    if lock is not None:
        os.close(lock)


def _locked(folder: Path) -> int:
    """A lock on a folder, as a file descriptor; OSError if somebody else has it."""
    lock = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def _home(place: Path | str | None) -> Path | None:
    """The folder of the cache, made if need be; None where it cannot be private, or is turned off."""
    if place is None:
        place = os.environ.get(PLACE) or os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    if str(place) == OFF:
        return None
    home = Path(place).absolute() / f"windrow-warm-{os.geteuid()}"
    try:
        home.mkdir(mode=0o700, exist_ok=True)
        found = os.lstat(home)
    except OSError:
        return None
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
    return home if private else None


def _size(folder: Path) -> int:
    """Bytes of a folder's files."""
    return sum(os.path.getsize(Path(where) / name) for where, _, names in os.walk(folder) for name in names)
