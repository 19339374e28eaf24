"""Values: the distinct keys of a window, each with how many rows have it (the paper's array V2).

An entry has a number, given in the order in which keys come: both ends of a link count alike, so a key travels once,
when it is new, and is spoken of by number or by place afterwards. Entries stand in the order of their numbers.

    add(keys)     which entry each row has; new keys open entries
    subtract      rows have left; entries without rows are gone

An update of the other end has the new keys, and either the counts of all entries, zeros too (the paper's form), or the
places of those that are gone (ours: never longer). Keys are looked up by their 64-bit codes. Two keys of one code share
an entry at both ends: that makes a superset of rows travel, and never changes an answer.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from windrow.kernels.sites import values as kernels
from windrow.state.coding import key_codes
from windrow.state.columns import empty_table

Codes = np.ndarray
LEAST = 64  # slots of a table of codes


def codes_of(table: pa.Table, columns: tuple[str, ...], types: tuple[Any, ...]) -> Codes:
    """The 64-bit codes of the keys in a table."""
    return key_codes([table[c] for c in columns], types, where=list(columns))[0]


class Values:
    """Entries of keys in order of their numbers. A table of codes (kernels/sites/values.py) knows the numbers."""

    def __init__(self) -> None:
        self.codes = np.zeros(0, np.uint64)
        self.number = np.zeros(0, np.int64)
        self.count = np.zeros(0, np.int64)
        self.flag = np.zeros(0, np.bool_)  # at the window: its rows were sent. At the copy: they were asked for
        self.next = 0
        self._index()

    def _index(self, coming: int = 0) -> None:
        """Make the table of codes anew, with room for some more."""
        size = max(LEAST, 1 << (4 * (len(self) + coming) - 1).bit_length()) if len(self) + coming else LEAST
        self._slots = np.zeros(size, np.uint64), np.full(size, kernels.EMPTY, np.int64)
        self._used = 0
        self._numbered(self.codes)  # by places, in their order
        slots = self._slots[1]
        slots[slots >= 0] = self.number[slots[slots >= 0]]
        self._arrange()

    def _arrange(self) -> None:
        """Note the place of each number from the lowest one on; -1 where an entry is gone."""
        self._lowest = int(self.number[0]) if len(self) else self.next
        self._places = np.full(self.next - self._lowest, -1)
        self._places[self.number - self._lowest] = np.arange(len(self))

    def _numbered(self, codes: Codes, following: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """The number of each key, and the first row of each new one."""
        found, first = np.empty(len(codes), np.int64), np.empty(len(codes), np.int64)
        new = kernels.add(*self._slots, codes, following, found, first)
        self._used += new
        return found, first[:new]

    def __len__(self) -> int:
        return len(self.codes)

    def place_of(self, number: np.ndarray) -> np.ndarray:
        """The place of each entry by its number; -1 where it is gone, or for -1."""
        at = number - self._lowest
        there = (at >= 0) & (at < len(self._places))
        place = np.full(len(number), -1)
        place[there] = self._places[at[there]]
        return place

    def find(self, codes: Codes) -> np.ndarray:
        """The place of each key's entry; -1 where there is none."""
        found = np.empty(len(codes), np.int64)
        kernels.find(*self._slots, codes, found)
        return self.place_of(found)

    def open(self, codes: Codes) -> None:
        """New entries, for keys that have none, in this order."""
        self.add(codes)
        self.count[len(self) - len(codes) :] = 0

    def add(self, codes: Codes) -> tuple[np.ndarray, np.ndarray]:
        """Count rows with these keys: the place of each row's entry, and the first row of each new entry."""
        if 2 * (self._used + len(codes)) > len(self._slots[0]):
            self._index(len(codes))
        number, first = self._numbered(codes, self.next)
        if new := len(first):
            self._places = np.concatenate([self._places, np.arange(len(self), len(self) + new)])
            self.codes = np.concatenate([self.codes, codes[first]])
            self.number = np.concatenate([self.number, np.arange(self.next, self.next + new)])
            self.count = np.concatenate([self.count, np.zeros(new, np.int64)])
            self.flag = np.concatenate([self.flag, np.zeros(new, np.bool_)])
            self.next += new
        place = self._places[number - self._lowest]
        self.count += np.bincount(place, minlength=len(self))
        return place, first

    def subtract(self, number: np.ndarray) -> None:
        """Rows of these entries, one number for each row, have left."""
        self.count -= np.bincount(self._places[number - self._lowest], minlength=len(self))

    def gone(self) -> np.ndarray:
        """The places of entries without rows."""
        return np.flatnonzero(self.count == 0)

    def remove(self, places: np.ndarray) -> None:
        """Close entries."""
        if len(places):
            kernels.forget(*self._slots, self.codes[places])
            keep = np.ones(len(self), np.bool_)
            keep[places] = False
            self.codes, self.number, self.count = self.codes[keep], self.number[keep], self.count[keep]
            self.flag = self.flag[keep]
            self._arrange()

    # -- snapshots -------------------------------------------------------------------------------------------------

    def table(self) -> pa.Table:
        """All entries."""
        return pa.table({"code": self.codes, "number": self.number, "count": self.count, "flag": self.flag})

    @classmethod
    def of(cls, table: pa.Table, following: int) -> "Values":
        """The entries of a table; `following` is the number of the next one."""
        values = cls()
        values.codes, values.number = table["code"].to_numpy().copy(), table["number"].to_numpy()
        values.count = table["count"].to_numpy().copy()
        values.flag = table["flag"].to_numpy(zero_copy_only=False).copy()
        values.next = following
        values._index()
        return values


PLACES = pa.schema([pa.field("n", pa.int32())])
"""An update's counts of all entries, or the places of those that are gone."""


def places(found: np.ndarray) -> pa.Table:
    """Some places, or counts, as they travel."""
    return pa.table({"n": pa.array(found, pa.int32())}) if len(found) else empty_table(PLACES)
