"""Aggregates of groups whose rows come and go: sum, count, min, max and avg in each stretch between changes.

Between two changes of a group its aggregates stay, so a group has one row for each stretch between changes. Counts and
sums are running totals of what comes and goes. The least (or largest) of the rows that are in is found for all
stretches at once: each row covers a range of stretches, a range is two overlapping powers of two, and minima over
powers are handed down to their halves. O(n log n), whole arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.errors import InputError
from windrow.kernels.maintained import running_sums
from windrow.maintained.relation import FOREVER, Ints, row_numbers, spells

HALF = 32  # bits
LOW_HALF = (1 << HALF) - 1


@dataclass(frozen=True)
class Asked:
    """One aggregate: what it is called, its function, the column it is over (None for count(*)), whether equal values
    count once."""

    name: str
    function: str
    operand: str | None
    distinct: bool = False

    @property
    def adds_up(self) -> bool:
        """Whether it follows from its last value and what comes and goes."""
        return self.function in ("sum", "count", "avg") and not self.distinct


@dataclass(frozen=True)
class Members:
    """Rows that count: from which stretch to before which, in which group, and with what."""

    group: Ints
    first: Ints
    last: Ints
    values: Any


class Stretches:
    """The stretches of groups: rows of numbered groups are in from `since` to just before `until`."""

    def __init__(self, group: Ints, since: Ints, until: Ints) -> None:
        count = len(since)
        self.row_group = group
        ends = np.flatnonzero(until < FOREVER)
        groups = np.concatenate([group, group[ends]])
        when = np.concatenate([since, until[ends]])
        order = np.lexsort((when, groups))
        fresh = (np.diff(groups[order], prepend=-1) != 0) | (np.diff(when[order], prepend=FOREVER) != 0)
        self.group, self.since = groups[order][fresh], when[order][fresh]
        self.size = len(self.group)
        self.begins = np.diff(self.group, prepend=-1) != 0
        ending = np.diff(self.group, append=-1) != 0
        self.until = np.where(ending, FOREVER, np.append(self.since[1:], FOREVER))
        self.group_end = np.append(np.flatnonzero(ending) + 1, self.size)
        place = np.empty(len(order), np.int64)
        place[order] = np.cumsum(fresh) - 1
        self.first = place[:count]
        self.last = self._ends_of_groups(group)
        self.last[ends] = place[count:]

    def _ends_of_groups(self, group: Ints) -> Ints:
        """The stretch behind the last one of each row's group."""
        numbers = self.group[self.group_end[:-1] - 1] if self.size else np.zeros(0, np.int64)
        return self.group_end[np.searchsorted(numbers, group)] if len(group) else np.zeros(0, np.int64)

    @property
    def everyone(self) -> Members:
        """All rows."""
        return Members(self.row_group, self.first, self.last, None)

    def totals(self, members: Members, amounts: Ints) -> Ints:
        """For each stretch the sum of the amounts, whole numbers, of the rows that are in."""
        change = np.zeros(self.size + 1, np.int64)
        np.add.at(change, members.first, amounts)
        np.subtract.at(change, members.last, amounts)  # a row that stays ends where the next group begins
        return np.cumsum(change)[:-1]

    def whole_sums(self, members: Members, amounts: Ints, sign: Ints) -> Ints:
        """The same where sums may be beyond 64 bits, which raises OverflowError; `sign` is 1 or -1 for each amount.

        Amounts are added up in two halves of 32 bits, of which no sum is too large.
        """
        high, low = (self.totals(members, half * sign) for half in (amounts >> HALF, amounts & LOW_HALF))
        high += low >> HALF
        if ((high < -(1 << (HALF - 1))) | (high >= 1 << (HALF - 1))).any():
            raise OverflowError
        return (high << HALF) + (low & LOW_HALF)

    def sums(self, members: Members, *amounts: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The same for floats, each row with one or more: the sums, and what they lose by rounding."""
        ending = np.flatnonzero(members.last < self._ends_of_groups(members.group))
        place = np.concatenate([np.concatenate([members.first, members.last[ending]]) for _ in amounts])
        amount = np.concatenate([np.concatenate([a, -a[ending]]) for a in amounts])
        order = np.argsort(place, kind="stable")
        high, low = np.zeros(self.size), np.zeros(self.size)
        running_sums(self.begins, place[order], amount[order], high, low)
        return high, low

    def least(self, members: Members, values: Ints) -> Ints:
        """For each stretch the smallest value of the rows that are in; the largest integer where none is."""
        none = np.iinfo(np.int64).max
        length = members.last - members.first
        power = np.where(length > 0, np.frexp(np.maximum(length, 1).astype(np.float64))[1] - 1, 0)
        top = int(power.max(initial=0))
        below = np.full(self.size, none)
        for level in range(top, -1, -1):
            here, half = below, 1 << level
            rows = np.flatnonzero((power == level) & (length > 0))
            np.minimum.at(here, members.first[rows], values[rows])
            np.minimum.at(here, members.last[rows] - half, values[rows])
            if level:
                half >>= 1
                below = here.copy()
                np.minimum(below[half:], here[:-half], out=below[half:])
        return below

    def members(self, values: Any, distinct: bool) -> Members:
        """The rows that have a value, or spells of equal values."""
        rows = np.flatnonzero(np.asarray(values.is_valid()))
        here = values.take(pa.array(rows))
        if not distinct:
            return Members(self.row_group[rows], self.first[rows], self.last[rows], here)
        numbers = row_numbers([pa.array(self.row_group[rows]), here])
        chosen, first, last = spells(numbers, self.first[rows], self.last[rows])
        return Members(self.row_group[rows[chosen]], first, last, here.take(pa.array(chosen)))

    def extreme(self, members: Members, largest: bool) -> Any:
        """The least or largest value in each stretch, null where there is none."""
        values = members.values
        if pa.types.is_null(values.type):
            return pa.nulls(self.size, values.type)
        try:
            ranks = np.asarray(pc.rank(values, tiebreaker="dense")).astype(np.int64)
        except pa.ArrowNotImplementedError:
            raise InputError(f"values that are {values.type} have no least or largest: cast them before") from None
        if not len(values):
            return pa.nulls(self.size, values.type)
        best = self.least(members, -ranks if largest else ranks)
        none = best == np.iinfo(np.int64).max
        best = np.where(none, 0, -best if largest else best)
        of_rank = np.zeros(int(ranks.max()) + 1, np.int64)
        of_rank[ranks] = np.arange(len(ranks))
        return values.take(pa.array(of_rank[best], mask=none))

    def joined_up(self, keep: Ints, values: list[Any]) -> tuple[Ints, Ints]:
        """Of some stretches those that begin another state of their group, and where each state ends.

        Stretches that follow each other with the same values are one state.
        """
        count = len(keep)
        if not count:
            return keep, np.zeros(0, np.int64)
        numbers = row_numbers(values) if values else np.zeros(count, np.int64)
        group, since, until = self.group[keep], self.since[keep], self.until[keep]
        starts = np.ones(count, np.bool_)
        starts[1:] = (np.diff(group) != 0) | (np.diff(numbers) != 0) | (since[1:] != until[:-1])
        at = np.flatnonzero(starts)
        return at, until[np.append(at[1:], count) - 1]


def numbers_of(values: Any, asked: Asked) -> NDArray[Any]:
    """Values as whole numbers or floats, 0 where there is none."""
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        try:
            return np.asarray(values.cast(pa.int64()).fill_null(0))
        except pa.ArrowInvalid:
            raise too_large(asked) from None
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return np.asarray(values.cast(pa.float64()).fill_null(0.0))
    raise InputError(f"{asked.name}: {asked.function} is of numbers, and these values are {kind}: cast them before")


def too_large(asked: Asked) -> InputError:
    """The error for whole numbers, or a sum of them, that 64 bits do not hold."""
    return InputError(
        f"{asked.name}: a whole number is beyond what 64 bits hold: {asked.function} values times 1.0, which are floats"
    )
