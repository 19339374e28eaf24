"""Can catch: a numba that links otherwise than linking.py expects, parts that are left out or linked twice, and hooks
that are resolved to another policy's function."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import numpy as np
import pytest
from numba import njit

from windrow import policies
from windrow.kernels import policies as rooms
from windrow.kernels.hooks import hooks
from windrow.kernels.jit import _whole, inline, inner
from windrow.kernels.policies import policy as defaults

FILES = [file.name for file in pkgutil.iter_modules(rooms.__path__)]


@inner
def deepest(x: int) -> int:
    return 3 * x


@inline
def drops_the_call(x: int, never: bool) -> int:
    if never and x != x:  # LLVM knows that this cannot be, and forgets the call before anything is linked
        return deepest(x)
    return x


@inner
def asks_for_it(x: int) -> int:
    return deepest(x) + 1


@_whole
def top(x: int, never: bool) -> int:
    return drops_the_call(x, never) + asks_for_it(x)


@njit
def no_kernel(x: int) -> int:
    return asks_for_it(x)


@inner
def sorts(numbers: Any) -> Any:
    return np.argsort(numbers, kind="mergesort")[0] + deepest(1)


@_whole
def with_an_array(numbers: Any) -> int:
    return sorts(numbers) + numbers.shape[0]


def test_a_part_is_linked_though_an_earlier_caller_has_no_use_for_it() -> None:
    assert top(5, True) == 5 + 16
    assert top(5, False) == 21


def test_parts_serve_functions_that_are_no_kernels() -> None:
    assert no_kernel(5) == 16


def test_arrays_pass_through_parts() -> None:
    assert with_an_array(np.array([3.0, 1.0, 2.0])) == 1 + 3 + 3


def test_inner_stays_a_function_of_its_own_and_inline_does_not() -> None:
    top(1, True)
    (compiled,) = top.overloads.values()
    names = [function.name for function in compiled.library.get_defined_functions()]
    assert any("asks_for_it" in name for name in names) and not any("drops_the_call" in name for name in names)


@pytest.mark.parametrize("file", FILES)
def test_hooks_take_what_they_are_given(file: str) -> None:
    """A hook takes the same arguments in every file."""
    module = importlib.import_module(f"{rooms.__name__}.{file}")
    assert file == "policy" or getattr(module, "BASE", None) in FILES or not hasattr(module, "BASE")
    for name in vars(defaults):
        ours, theirs = getattr(module, name, getattr(defaults, name)), getattr(defaults, name)
        if callable(theirs) and hasattr(theirs, "py_func") and ours is not theirs:
            assert (
                ours.py_func.__code__.co_varnames[: ours.py_func.__code__.co_argcount]
                == (theirs.py_func.__code__.co_varnames[: theirs.py_func.__code__.co_argcount])
            ), f"{file}.{name} takes other arguments"


def test_the_nearest_file_has_its_say() -> None:
    for policy in (*policies.ALL, policies.Given):
        assert hooks(policy.rule).name == policy.rule
    assert hooks("auto").ways.py_func(None) == 8 and hooks("prob").ways.py_func(None) == 1
    assert hooks("life_expected").DRIFTING and not hooks("prob").DRIFTING and hooks("life").RANKED
    assert hooks("exact").KEEPS == () and hooks("rand").KEEPS == ("dense",)
    with pytest.raises(AttributeError):
        hooks("prob").no_such_hook  # noqa: B018
