"""What has been compiled of a function, on disk: a file for every signature, and whose turn it is to compile one.

numba keeps an index beside the files of a function, which whoever compiles reads, extends and writes: two processes
that compile different signatures at once may give them the same file, and the code of one is later loaded for the
other. Here the name of a file follows from the signature, and the file says of which one it is: what cannot be read,
or is another's, is compiled again.

Only functions that Python calls are kept: each holds all that it calls (see linking.py). Bundles are more such files
that were compiled elsewhere: see `take_from`.
"""

import hashlib
import os
import pickle
import re
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from numba.core import event
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from windrow.kernels.compiled import FOLDER, READ_ONLY
from windrow.kernels.notice import NOTICE
from windrow.kernels.python_gc import GARBAGE

try:
    import fcntl
except ImportError:  # there is none on Windows: who compiles at the same time compiles the same
    fcntl = None  # type: ignore[assignment]

ENDING = ".nbc"
LONGEST_WAIT = 300.0  # seconds for another process to compile a function
PAUSE = 0.02

_bundles: list[Path] = []


def take_from(bundle: Path) -> None:
    """Load from a zip file, too, what is not in the folder. `bundle` has made it, of kernels of the same NAME."""
    if bundle not in _bundles:
        _bundles.append(bundle)


def shippable() -> list[Path]:
    """The compiled functions that are called from Python, which is all that a process needs that compiles nothing."""
    found = {path.name: path for folder in (*READ_ONLY, FOLDER) if folder is not None for path in _functions(folder)}
    return [found[name] for name in sorted(found)]


def _functions(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.endswith(ENDING)]


def bundle(path: Path, functions: list[Path]) -> None:
    """Write a zip file of compiled functions."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for function in functions:
            file.write(function, function.name)


# ---------------------------------------------------------------------------------------------- files


class Files:
    """The files of one function."""

    def __init__(self, stem: str) -> None:
        self._stem = stem
        self._folder = FOLDER
        self._read = [folder for folder in (FOLDER, *READ_ONLY) if folder is not None]

    def name(self, key: Any) -> str:
        """The name of the file of a key, which is a signature and what else tells functions apart."""
        said = re.sub(r" at 0x[0-9a-f]+", "", repr(key))
        return f"{self._stem}-{hashlib.sha256(said.encode()).hexdigest()[:16]}{ENDING}"

    def load(self, key: Any) -> Any:
        """What was saved for a key, or None."""
        for data in self._found(self.name(key)):
            try:
                known, value = pickle.loads(data)
            except Exception:  # half a file, or whatever may be wrong with one
                continue
            if known == key:
                return value
        return None

    def _found(self, name: str) -> Iterator[bytes]:
        for folder in self._read:
            try:
                yield (folder / name).read_bytes()
            except OSError:
                pass
        for path in _bundles:
            try:
                with zipfile.ZipFile(path) as file:
                    yield file.read(name)
            except (OSError, KeyError, zipfile.BadZipFile):
                pass

    def save(self, key: Any, value: Any) -> None:
        """Keep what was compiled for a key; where that fails, it will be compiled again."""
        if self._folder is None:
            return
        path = self._folder / self.name(key)
        half = path.with_name(f"{path.name}.{uuid4().hex[:16]}")
        try:
            self._folder.mkdir(exist_ok=True)
            half.write_bytes(dumps((key, value)))
            os.replace(half, path)
        except OSError:
            half.unlink(missing_ok=True)

    def flush(self) -> None:
        """Forget all signatures."""
        if self._folder is not None:
            for path in self._folder.glob(f"{self._stem}-*{ENDING}"):
                path.unlink(missing_ok=True)


class _Turns:
    """Whose turn it is to compile a function, among the processes that share the folder.

    A turn is a lock on one byte of a file; it ends with the process at the latest. Functions wait for functions that
    they call, never the other way round, so nobody waits for ever.
    """

    def __init__(self) -> None:
        self._file: int | None = None

    def take(self, name: str) -> None:
        """Wait until nobody else compiles what is called so. Where this cannot be known, do not wait."""
        try:
            if self._try(name):
                return
            NOTICE.began()
            try:
                last = time.monotonic() + LONGEST_WAIT
                while not self._try(name) and time.monotonic() < last:
                    time.sleep(PAUSE)
            finally:
                NOTICE.ended()
        except OSError:
            pass

    def end(self, name: str) -> None:
        """Let others."""
        if self._file is not None and fcntl is not None:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _byte(name))
            except OSError:
                pass

    def _try(self, name: str) -> bool:
        if FOLDER is None or fcntl is None:
            return True
        if self._file is None:
            self._file = os.open(FOLDER / "turns", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(name))
        except (BlockingIOError, PermissionError):
            return False
        return True


def _byte(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")


_turns = _Turns()

# ---------------------------------------------------------------------------------------------- numba's side


class Kept(_Cache):
    """numba's cache of a function, over our files."""

    def __init__(self, function: Any) -> None:
        package = __name__.rpartition(".")[0]
        stem = f"{function.__module__}.{function.__qualname__}".removeprefix(f"{package}.")
        self._files = Files(re.sub("[<>]", "", stem))
        self._function = function
        self._turns: list[str] = []  # of what is being compiled here, the innermost last

    @property
    def cache_path(self) -> str | None:
        """Where the files are."""
        return None if FOLDER is None else str(FOLDER)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled for a signature; None lets numba compile it, and it is this process's turn to do so."""
        target_context.refresh()
        key = self._key(sig)
        found = self._files.load(key)
        if found is None:
            name = self._files.name(key)
            _turns.take(name)
            found = self._files.load(key)  # somebody may have been quicker
            if found is None:
                self._turns.append(name)
                return None
            _turns.end(name)
        return CompileResult._rebuild(target_context, *found)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, unless it holds addresses of this process."""
        try:
            if not data.lifted and not data.library.has_dynamic_globals:
                self._files.save(self._key(sig), data._reduce())
        finally:
            self.done()

    def done(self) -> None:
        """The innermost signature that was being compiled is there, or could not be."""
        if self._turns:
            _turns.end(self._turns.pop())

    def _key(self, sig: Any) -> tuple[Any, ...]:
        """What tells apart the files of a function: its signature, and for one made by another what that gave it."""
        cells = self._function.__closure__ or ()
        return (sig, hashlib.sha256(dumps(tuple(cell.cell_contents for cell in cells))).hexdigest() if cells else "")

    def enable(self) -> None:
        """As numba asks of a cache; this one is always on."""

    def disable(self) -> None:
        """As numba asks of a cache; this one is always on."""

    def flush(self) -> None:
        """Forget all signatures."""
        self._files.flush()


class _Watcher(event.Listener):
    """Hears from numba of what is really compiled, and not loaded."""

    def on_start(self, event: Any) -> None:
        if _ours(event) is not None:
            NOTICE.began()
            GARBAGE.began()

    def on_end(self, event: Any) -> None:
        kept = _ours(event)
        if kept is not None:
            GARBAGE.ended()
            NOTICE.ended()
            if tuple(event.data["args"]) not in event.data["dispatcher"].overloads:  # it failed, and nothing is saved
                kept.done()


def _ours(event: Any) -> Kept | None:
    kept = getattr(event.data["dispatcher"], "_cache", None)
    return kept if isinstance(kept, Kept) else None


event.register("numba:compile", _Watcher())
