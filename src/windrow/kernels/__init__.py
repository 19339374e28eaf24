"""Kernels: all numba code of windrow, module-level functions with an on-disk cache, and nothing else.

numba's cache of a function does not notice that a function it calls, in another file, has changed. Kernels share
one memory layout, so a stale one would write where something else stands now: when any source here differs from
what was compiled, everything that was compiled is dropped first.
"""

import hashlib
from contextlib import suppress
from pathlib import Path


def _drop_stale() -> None:
    """Delete the compiled kernels beside the sources, unless they were compiled from these very sources."""
    folder = Path(__file__).parent
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))).hexdigest()
    cache = folder / "__pycache__"
    stamp = cache / "kernels.sha256"
    with suppress(OSError):  # a folder that cannot be written has no cache of ours
        if stamp.exists() and stamp.read_text() == digest:
            return
        for compiled in cache.glob("*.nb[ic]"):
            compiled.unlink(missing_ok=True)
        cache.mkdir(exist_ok=True)
        stamp.write_text(digest)


_drop_stale()
