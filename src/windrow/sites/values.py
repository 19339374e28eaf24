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

from windrow.state.coding import key_codes
from windrow.state.columns import empty_table

Codes = np.ndarray


def codes_of(table: pa.Table, columns: tuple[str, ...], types: tuple[Any, ...]) -> Codes:
    """The 64-bit codes of the keys in a table."""
    return key_codes([table[c] for c in columns], types, where=list(columns))[0]


class Values:
    """Entries of keys in order of their numbers."""

    def __init__(self) -> None:
        self.codes = np.zeros(0, np.uint64)
        self.number = np.zeros(0, np.int64)
        self.count = np.zeros(0, np.int64)
        self.flag = np.zeros(0, np.bool_)  # at the window: its rows were sent. At the copy: they were asked for
        self.next = 0
        self._index()

    def _index(self) -> None:
        """Put the codes in order, so that they can be found."""
        self._places = np.argsort(self.codes)
        self._sorted = self.codes[self._places]

    def __len__(self) -> int:
        return len(self.codes)

    def find(self, codes: Codes) -> np.ndarray:
        """The place of each key's entry; -1 where there is none."""
        return self._look(codes)[0]

    def _look(self, codes: Codes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The place of each key's entry, the keys in the order of their codes, and where each stands among ours."""
        place, order = np.full(len(codes), -1), np.argsort(codes)
        at = np.searchsorted(self._sorted, codes[order])
        if len(self.codes) and len(codes):
            near = np.minimum(at, len(self.codes) - 1)
            place[order] = np.where(self._sorted[near] == codes[order], self._places[near], -1)
        return place, order, at

    def open(self, codes: Codes) -> None:
        """New entries, for keys that have none, in this order."""
        if len(codes):
            order = np.argsort(codes)
            self._open(codes, order, np.searchsorted(self._sorted, codes[order]))

    def _open(self, codes: Codes, order: np.ndarray, at: np.ndarray) -> None:
        """The same; `order` sorts the codes, and they belong at these places of the sorted ones."""
        self._sorted = np.insert(self._sorted, at, codes[order])
        self._places = np.insert(self._places, at, len(self) + order)
        self.codes = np.concatenate([self.codes, codes])
        self.number = np.concatenate([self.number, np.arange(self.next, self.next + len(codes))])
        self.count = np.concatenate([self.count, np.zeros(len(codes), np.int64)])
        self.flag = np.concatenate([self.flag, np.zeros(len(codes), np.bool_)])
        self.next += len(codes)

    def add(self, codes: Codes) -> tuple[np.ndarray, np.ndarray]:
        """Count rows with these keys: the place of each row's entry, and the first row of each new entry."""
        place, order, at = self._look(codes)
        first = np.zeros(0, np.int64)
        lacks = place[order] < 0
        if lacks.any():
            rows, at = order[lacks], at[lacks]
            begins = np.append(True, codes[rows][1:] != codes[rows][:-1])  # rows of one new key stand together
            starts = np.flatnonzero(begins)
            firsts = np.minimum.reduceat(rows, starts)
            rank = np.empty(len(starts), np.int64)
            rank[np.argsort(firsts)] = np.arange(len(starts))  # entries stand in the order in which their keys came
            place[rows] = len(self) + rank[np.cumsum(begins) - 1]
            first = np.sort(firsts)
            self._open(codes[first], rank, at[starts])
        self.count += np.bincount(place, minlength=len(self))
        return place, first

    def subtract(self, number: np.ndarray) -> None:
        """Rows of these entries, one number for each row, have left."""
        self.count -= np.bincount(np.searchsorted(self.number, number), minlength=len(self))

    def gone(self) -> np.ndarray:
        """The places of entries without rows."""
        return np.flatnonzero(self.count == 0)

    def remove(self, places: np.ndarray) -> None:
        """Close entries."""
        if len(places):
            keep = np.ones(len(self), np.bool_)
            keep[places] = False
            self.codes, self.number, self.count = self.codes[keep], self.number[keep], self.count[keep]
            self.flag = self.flag[keep]
            stays = keep[self._places]
            self._sorted = self._sorted[stays]
            self._places = (np.cumsum(keep) - 1)[self._places[stays]]

    # -- snapshots -------------------------------------------------------------------------------------------------

    def table(self) -> pa.Table:
        """All entries."""
        return pa.table({"code": self.codes, "number": self.number, "count": self.count, "flag": self.flag})

    @classmethod
    def of(cls, table: pa.Table, following: int) -> "Values":
        """The entries of a table; `following` is the number of the next one."""
        values = cls()
        values.codes, values.number = table["code"].to_numpy(), table["number"].to_numpy()
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
