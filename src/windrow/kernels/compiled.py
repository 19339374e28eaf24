"""Where compiled kernels are kept on disk.

numba's cache of a function does not notice that a function it calls, in another file, has changed. Kernels share
one memory layout, so a stale one would write where something else stands now. Therefore the place is named after
the sources: what was compiled from other sources lies elsewhere, is never loaded, and never deleted, so that
processes of several versions can start together.

    NUMBA_CACHE_DIR / windrow-<digest>                where the user has named a folder
    kernels/__pycache__ / windrow-<digest>            else beside the sources
    the user's cache folder / windrow-<digest>        else, where the sources cannot be written to
"""

import hashlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from numba import config

numba_config: Any = config  # its names are made when it is imported
SOURCES = Path(__file__).parent


def digest() -> str:
    """A name for the sources of all kernels."""
    texts = [path.name.encode() + b"\0" + path.read_bytes() for path in sorted(SOURCES.glob("*.py"))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


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


def folder() -> Path | None:
    """The folder for what is compiled from these sources; None where nothing can be written."""
    name = f"windrow-{digest()}"
    if numba_config.CACHE_DIR:
        places = [Path(numba_config.CACHE_DIR)]
    else:
        places = [SOURCES / "__pycache__"]
        try:
            places.append(_user_folder())
        except RuntimeError:  # a user without a home
            pass
    return next((place / name for place in places if _writable(place / name)), None)


FOLDER = folder()
