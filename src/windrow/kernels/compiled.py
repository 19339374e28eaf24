"""Where compiled kernels are kept on disk.

A compiled kernel holds whatever it calls, from other files too, and kernels share one memory layout: a stale one would
write where something else stands now. Therefore the folder is named after all that the machine code depends on: the
sources of all kernels, Python, numba, and the processor. What was compiled from or for anything else lies elsewhere, is
never loaded, and never deleted, so that processes of several versions can start together. Where the sources lie does
not matter: windrow in another place, or in an archive, finds the same code, and so does another machine of its kind.

    NUMBA_CACHE_DIR / windrow-<digest>-<processor>                where the user has named a folder
    kernels/__pycache__ / windrow-<digest>-<processor>            else beside the sources
    the user's cache folder / windrow-<digest>-<processor>        else, where the sources cannot be written to

What lies in one of these that cannot be written to, in an image for example, is loaded all the same.
"""

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba import config
from numba.core.registry import cpu_target

numba_config: Any = config  # its names are made when it is imported
SOURCES = Path(__file__).parent


def _sources(place: Traversable, path: str = "") -> Iterator[tuple[str, bytes]]:
    """The sources of all kernels with their paths; the package may be a folder, or part of an archive."""
    for item in place.iterdir():
        if item.is_dir():
            if item.name != "__pycache__":
                yield from _sources(item, f"{path}{item.name}/")
        elif item.name.endswith(".py"):
            yield path + item.name, item.read_bytes()


def name() -> str | None:
    """A name for the kernels' sources and for what they are compiled with and for; None where there are no sources."""
    sources = sorted(_sources(files(__package__)))
    if not sources:  # but only their bytecode
        return None
    machine, processor, features = cpu_target.target_context.codegen().magic_tuple()
    versions = (sys.version_info[:2], numba.__version__, llvmlite.__version__)
    digest = hashlib.sha256(repr((sources, versions, machine, processor, features)).encode()).hexdigest()
    return f"windrow-{digest[:16]}-{re.sub('[^A-Za-z0-9]+', '-', processor)}"


def _user_folder() -> Path:
    """Where the user's programs keep what they can make again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _writable(folder: Path) -> bool:
    """Whether a folder is there, or can be made, and takes files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def places(name: str | None) -> list[Path]:
    """The folders of that name, in the order in which they are tried; none where the sources are not known."""
    if name is None:
        return []
    if numba_config.CACHE_DIR:
        return [Path(numba_config.CACHE_DIR, name)]
    try:
        return [SOURCES / "__pycache__" / name, _user_folder() / name]
    except RuntimeError:  # a user without a home
        return [SOURCES / "__pycache__" / name]


NAME = name()
FOLDER = next((place for place in places(NAME) if _writable(place)), None)
READ_ONLY = tuple(place for place in places(NAME) if place != FOLDER and place.is_dir())
