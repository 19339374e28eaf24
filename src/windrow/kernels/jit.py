"""The three ways in which kernels are compiled.

    entry    called from Python: the drivers and what a shard's owner asks for
    inner    called from other kernels only, so no wrapper for Python is made (they are half of the time to compile)
    inline   inner, and forced into its caller: small, or worth constant shapes (see memory.py)

All are kept on disk (see compiled.py and kept.py). Division follows numpy: no check, no exception.
"""

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.types import unliteral  # type: ignore[attr-defined]  # its names are made when it is imported

from windrow.kernels.compiled import numba_config
from windrow.kernels.kept import Kept


def _for_all_numbers(kernel: Any) -> Any:
    """The kernel, compiled once for whatever number it is given: numba would do it again for each constant."""
    template = getattr(kernel, "get_call_template", None)
    if template is not None:  # not as plain Python
        kernel.get_call_template = lambda args, kws: template(tuple(map(unliteral, args)), kws)
    return kernel


def _kept(inner: bool, **options: Any) -> Callable[[Any], Any]:
    """A decorator for kernels that are compiled with some options and kept in our folder."""
    if inner:
        options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    compiled = njit(error_model="numpy", nogil=True, **options)

    def decorate(function: Any) -> Any:
        dispatcher = compiled(function)
        if not numba_config.DISABLE_JIT:
            dispatcher._cache = Kept(function, inner)  # what `cache=True` does, but with numba's own
        return _for_all_numbers(dispatcher)

    return decorate


entry = _kept(inner=False)
inner = _kept(inner=True)
inline = _kept(inner=True, forceinline=True)
