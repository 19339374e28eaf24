"""Where compiled kernels are kept on disk.

A compiled kernel holds whatever it calls, from other files too, and kernels share one memory layout: a stale one would
write where something else stands now. Therefore the folder is named after all that the machine code depends on: the
sources of all kernels, Python, numba, and the processor. What was compiled from or for anything else lies elsewhere, is
never loaded, and never deleted, so that processes of several versions can start together. Where the sources lie does
not matter: windrow in another place, or in an archive, finds the same code, and so does another machine of its kind.

    NUMBA_CACHE_DIR / windrow-<digest>-<processor>                where the user has named a folder
    kernels/__pycache__ / windrow-<digest>-<processor>            else beside the sources
    the user's cache folder / windrow-<digest>-<processor>        else, where the sources cannot be written to
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


def folder(name: str | None) -> Path | None:
    """The folder of that name for what is compiled; None where nothing can be written, or the sources are not known."""
    if name is None:
        return None
    if numba_config.CACHE_DIR:
        places = [Path(numba_config.CACHE_DIR)]
    else:
        places = [SOURCES / "__pycache__"]
        try:
            places.append(_user_folder())
        except RuntimeError:  # a user without a home
            pass
    return next((place / name for place in places if _writable(place / name)), None)


NAME = name()
FOLDER = folder(NAME)
