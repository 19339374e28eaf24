"""The three ways in which kernels are compiled.

    entry    called from Python: optimised with all that it calls, and kept on disk (see linking.py and disk_cache.py)
    inner    called from other kernels only, and a function of its own
    inline   called from other kernels only, and forced into each: small, or called in one place of a loop over rows

Division follows numpy: no check, no exception.
"""

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.types import unliteral  # type: ignore[attr-defined]  # its names are made when it is imported

from windrow.kernels.compiled import numba_config
from windrow.kernels.disk_cache import Kept
from windrow.kernels.linking import ApartCompiler, PartCompiler, WholeCompiler


def _for_all_numbers(kernel: Any) -> Any:
    """The kernel, compiled once for whatever number it is given: numba would do it again for each constant."""
    template = getattr(kernel, "get_call_template", None)
    if template is not None:  # not as plain Python
        kernel.get_call_template = lambda args, kws: template(tuple(map(unliteral, args)), kws)
    return kernel


def _decorator(**options: Any) -> Callable[[Any], Any]:
    compiled = njit(error_model="numpy", nogil=True, **options)
    return lambda function: _for_all_numbers(compiled(function))


_whole = _decorator(pipeline_class=WholeCompiler)


def entry(function: Any) -> Any:
    """A kernel that Python calls."""
    kernel = _whole(function)
    if not numba_config.DISABLE_JIT:
        kernel._cache = Kept(function)  # what `cache=True` does, but with numba's own
    return kernel


_UNWRAPPED = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
inner = _decorator(**_UNWRAPPED, pipeline_class=ApartCompiler)
inline = _decorator(**_UNWRAPPED, pipeline_class=PartCompiler)
