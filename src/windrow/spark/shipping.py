"""Compiled kernels that travel with a job: workers on other machines load what this machine has compiled.

    driver    compiled functions -> one zip file, named after what is in it -> an artifact of the session
    worker    files of that name among those that Spark has brought -> kernels look there, too (kernels/disk_cache.py)

The name begins with that of the folder of compiled kernels: workers with other sources, another Python or numba,
or another processor find nothing that fits, and compile for themselves. So they do where nothing can be shipped.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from windrow.kernels.compiled import FOLDER, NAME
from windrow.kernels.disk_cache import bundle, shippable, take_from
from windrow.spark.interpreter import on_this_machine

ENDING = ".zip"
MOST_BYTES = 1 << 28  # of compiled functions; more are not worth their way

_shipped: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


def ship(frame: Any) -> None:
    """Let the workers of a frame's session have what is compiled here, unless they run here and have it anyway."""
    if on_this_machine(frame):
        return
    with suppress(Exception):  # whatever a platform refuses: workers then compile for themselves
        found = _bundled()
        session = frame.sparkSession
        known = _shipped.setdefault(session, set())
        if found is not None and found.name not in known:
            session.addArtifacts(str(found), file=True)
            known.add(found.name)


def _bundled() -> Path | None:
    """What is compiled, in one file; None if that is nothing, or too much.

    It stays on disk beside what is in it: Spark's driver hands it to every worker that comes, weeks later, too.
    """
    paths = shippable()
    sizes = [path.stat().st_size for path in paths]
    if FOLDER is None or not paths or sum(sizes) > MOST_BYTES:
        return None
    contents = hashlib.sha256(repr([(p.name, size) for p, size in zip(paths, sizes, strict=True)]).encode())
    path = FOLDER / "shipped" / f"{NAME}-{contents.hexdigest()[:12]}{ENDING}"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        half = path.with_suffix(f".{uuid4().hex[:16]}")
        bundle(half, paths)
        os.replace(half, path)
    return path


def take_shipped() -> None:
    """In a worker: let kernels be loaded from what was shipped for them."""
    from pyspark import SparkFiles

    with suppress(Exception):  # not in a worker, for example
        for name in os.listdir(SparkFiles.getRootDirectory()):
            if NAME is not None and name.startswith(f"{NAME}-") and name.endswith(ENDING):
                take_from(Path(SparkFiles.getRootDirectory(), name))
