"""The three ways in which kernels are compiled.

    entry    called from Python: the drivers and what a shard's owner asks for
    inner    called from other kernels only, so no wrapper for Python is made (they are half of the time to compile)
    inline   inner, and forced into its caller: small, or worth constant shapes (see memory.py)

All are cached on disk. Division follows numpy: no check, no exception.
"""

from typing import Any

from numba import njit

_INNER: dict[str, Any] = {"cache": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

entry = njit(cache=True, error_model="numpy")
inner = njit(**_INNER)
inline = njit(forceinline=True, **_INNER)
