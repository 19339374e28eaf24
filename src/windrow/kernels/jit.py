"""The three ways in which kernels are compiled.

    entry    called from Python: the drivers and what a shard's owner asks for
    inner    called from other kernels only, so no wrapper for Python is made (they are half of the time to compile)
    inline   inner, and forced into its caller: small, or worth constant shapes (see memory.py)

All are cached on disk (see compiled.py). Division follows numpy: no check, no exception.
"""

from collections.abc import Callable
from typing import Any

from numba import njit

from windrow.kernels.compiled import FOLDER, numba_config

_INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def _kept(**options: Any) -> Callable[[Any], Any]:
    """A decorator for kernels that are compiled with some options and kept in our folder.

    numba asks for the folder when it is given a function; only then is it ours, for other packages have kernels too.
    """
    compiled = njit(cache=FOLDER is not None, error_model="numpy", nogil=True, **options)

    def decorate(function: Any) -> Any:
        theirs, numba_config.CACHE_DIR = numba_config.CACHE_DIR, str(FOLDER or "")
        try:
            return compiled(function)
        finally:
            numba_config.CACHE_DIR = theirs

    return decorate


entry = _kept()
inner = _kept(**_INNER)
inline = _kept(forceinline=True, **_INNER)
