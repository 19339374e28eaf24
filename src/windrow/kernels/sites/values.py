"""A table of 64-bit codes, each with the number of its entry: open addressing, one probe after another.

`codes` and `numbers` are the slots, as many as a power of two and never more than half of them used, so a search ends
at one that is empty. A slot whose entry was forgotten stays in the way of searches until the table is made anew.
"""

from typing import Any

import numpy as np

from windrow.kernels.jit import entry, inline

EMPTY, FORGOTTEN = -1, -2


@inline
def _slot(codes: Any, numbers: Any, code: Any) -> int:
    """The slot of a code, or the empty one at which its search ends."""
    mask = codes.shape[0] - 1
    mixed = code * np.uint64(0x9E3779B97F4A7C15)
    at = np.int64(mixed >> np.uint64(32)) & mask
    while numbers[at] != EMPTY and (numbers[at] < 0 or codes[at] != code):
        at = (at + 1) & mask
    return at


@entry
def find(codes: Any, numbers: Any, wanted: Any, found: Any) -> None:
    """The number of each code that is wanted; -1 where it has none."""
    for k in range(wanted.shape[0]):
        found[k] = numbers[_slot(codes, numbers, wanted[k])]


@entry
def add(codes: Any, numbers: Any, wanted: Any, following: int, found: Any, first: Any) -> int:
    """The number of each code; those that have none get the following ones, in the order in which they come.

    `first` takes the place of the first of each new code; how many there are is returned.
    """
    new = 0
    for k in range(wanted.shape[0]):
        at = _slot(codes, numbers, wanted[k])
        if numbers[at] == EMPTY:
            codes[at], numbers[at] = wanted[k], following + new
            first[new] = k
            new += 1
        found[k] = numbers[at]
    return new


@entry
def forget(codes: Any, numbers: Any, gone: Any) -> None:
    """Codes have no number any more."""
    for k in range(gone.shape[0]):
        numbers[_slot(codes, numbers, gone[k])] = FORGOTTEN
