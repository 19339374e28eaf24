"""Kernels as plain Python that look at every index: what compiled ones would read or write outside is an error here.

Compiled kernels hold a block as a bare pointer (kernels/memory.py). With NUMBA_DISABLE_JIT=1 they are Python functions
on arrays, which take negative indexes silently; `check_kernels` puts a view in their place that refuses any index
outside of the block, and lets the functions from which places are computed (of slots, keys, leaves, streams, blocks)
refuse numbers that do not exist. It also counts: a kernel that makes more steps than any case needs will not end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np
from numba import config

import windrow  # noqa: F401  # all kernels are loaded before they are changed
import windrow.kernels.policies as rooms
from windrow.kernels import memory, ordered, places

MOST_STEPS = 20_000_000  # of one case; the longest takes about a tenth


class Outside(Exception):
    """A kernel reached outside of its memory."""


class Endless(Exception):
    """A kernel made more steps than it can need."""


class Steps:
    """How many words may still be looked at."""

    left = MOST_STEPS


class Words:
    """A view of an array that refuses indexes outside of it."""

    __slots__ = ("array", "held", "held_pair", "size")

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.size = array, len(array)
        self.held: Any = None
        self.held_pair: Any = None

    def _looked_at(self, index: int) -> None:
        Steps.left -= 1
        if Steps.left < 0:
            raise Endless
        if not 0 <= index < self.size:
            raise Outside(f"word {index} of {self.size}")

    def __getitem__(self, index: int) -> Any:
        self._looked_at(index)
        return self.array[index]

    def __setitem__(self, index: int, value: Any) -> None:
        self._looked_at(index)
        self.array[index] = value

    def view(self, _kind: Any) -> Words:
        """The same words as floats."""
        return floats(self)


def ints(array: Any) -> Words:
    """The words of an array, or those that a view shows already."""
    return array if isinstance(array, Words) else Words(array.reshape(-1))


def floats(array: Any) -> Words:
    """The same as floats."""
    words = array.array if isinstance(array, Words) else array.reshape(-1)
    return Words(words.view(np.float64))


def check_kernels() -> None:
    """Let all kernels of this process look at their indexes."""
    for file in iter_modules(rooms.__path__, f"{rooms.__name__}."):
        import_module(file.name)
    assert config.DISABLE_JIT, "set NUMBA_DISABLE_JIT=1: compiled kernels cannot be looked into"
    _replace(memory.bare_ints, ints)
    _replace(memory.bare_floats, floats)
    _replace(memory.memory_of, _remembered(memory.memory_of, "held"))
    _replace(memory.memory_of_pair, _remembered(memory.memory_of_pair, "held_pair"))
    _replace(memory.memory_of_numbered_pair, _remembered(memory.memory_of_numbered_pair, "held_pair"))
    _replace(places.slot_at, _numbers(places.slot_at, lambda m, slot: 0 <= slot < m.head.slot_cap))
    _replace(places.stream_at, _numbers(places.stream_at, lambda m, stream: 0 <= stream < m.streams))
    _replace(
        places.link_at,
        _numbers(places.link_at, lambda m, slot, link: 0 <= slot < m.head.slot_cap and 0 <= link < m.links),
    )
    _replace(places.key_at, _numbers(places.key_at, lambda m, d, key: 0 <= d < m.dirs and 0 <= key < m.key_cap))
    _replace(
        places.node_at,
        _numbers(places.node_at, lambda m, pool, node: 0 <= pool < m.pools and 0 < node < 2 * m.leaves),
    )
    _replace(
        ordered.block_at,
        _numbers(ordered.block_at, lambda m, ix, at: 0 <= ix < m.indexes and 0 <= at < m.head.block_cap),
    )


def _replace(old: Any, new: Any) -> None:
    """Put a function into the place of another in all modules that know it."""
    for name, module in list(sys.modules.items()):
        if name.startswith("windrow.") and module is not None:
            for known, value in list(vars(module).items()):
                if value is old:
                    setattr(module, known, new)


def _remembered(made: Callable[..., Any], place: str) -> Callable[..., Any]:
    """The memory of a block, made once: nothing of it changes while a kernel runs."""

    def found(block: Any, *fixed: int) -> Any:
        words = ints(block)
        if getattr(words, place) is None:
            setattr(words, place, made(words, *fixed))
        return getattr(words, place)

    return found


def _numbers(place: Callable[..., int], exist: Callable[..., bool]) -> Callable[..., int]:
    """A function that computes a place, and refuses numbers of things that do not exist."""

    def checked(m: Any, *numbers: int) -> int:
        if not exist(m, *numbers):
            raise Outside(f"{place.__name__}{numbers}")
        return place(m, *numbers)

    return checked
