"""Maintained aggregates: sum, count, min, max and avg of groups, as a relation that changes when they do.

Between two changes of a group its aggregates stay, so a group has one row for each stretch between changes. Counts and
sums are running totals of what comes and goes. The least (or largest) of the rows that are in is found for all
stretches at once: each row covers a range of stretches, a range is two overlapping powers of two, and minima over
powers are handed down to their halves. O(n log n), whole arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.cql.relation import FOREVER, Ints, Relation, row_numbers, spells
from windrow.errors import InputError


@dataclass(frozen=True)
class Wanted:
    """One aggregate: its function, the values it is over (None for count(*)), and whether equal ones count once."""

    name: str
    function: str
    values: Any
    distinct: bool


@dataclass(frozen=True)
class _Members:
    """Rows of groups: in which group, from which stretch to before which."""

    group: Ints
    first: Ints
    last: Ints
    values: Any


class Groups:
    """The stretches of all groups of a relation."""

    def __init__(self, relation: Relation, keys: Sequence[Any]) -> None:
        self.relation = relation
        count = len(relation.since)
        self.keyed = bool(keys)
        self.group = row_numbers(keys) if keys else np.zeros(count, np.int64)
        ends = np.flatnonzero(relation.until < FOREVER)
        group = np.concatenate([self.group, self.group[ends]])
        when = np.concatenate([relation.since, relation.until[ends]])
        order = np.lexsort((when, group))
        fresh = (np.diff(group[order], prepend=-1) != 0) | (np.diff(when[order], prepend=FOREVER) != 0)
        self.stretch_group, self.stretch_since = group[order][fresh], when[order][fresh]
        self.size = len(self.stretch_group)
        new_group = np.diff(self.stretch_group, append=-1) != 0
        self.stretch_until = np.where(new_group, FOREVER, np.append(self.stretch_since[1:], FOREVER))
        self.group_end = np.append(np.flatnonzero(new_group) + 1, self.size)
        place = np.empty(len(order), np.int64)
        place[order] = np.cumsum(fresh) - 1
        self.first = place[:count]
        self.last = self._ends_of_groups(self.group)
        self.last[ends] = place[count:]

    def _ends_of_groups(self, group: Ints) -> Ints:
        """The stretch behind the last one of each row's group."""
        numbers = self.stretch_group[self.group_end[:-1] - 1] if self.size else np.zeros(0, np.int64)
        return self.group_end[np.searchsorted(numbers, group)] if len(group) else np.zeros(0, np.int64)

    def totals(self, members: _Members, amounts: NDArray[Any]) -> NDArray[Any]:
        """For each stretch the sum of the amounts of the rows that are in."""
        # Whole numbers stay exact; of others the running total over all groups has digits to spare.
        kind = np.int64 if amounts.dtype == np.int64 else np.longdouble
        change = np.zeros(self.size + 1, kind)
        np.add.at(change, members.first, amounts)
        np.subtract.at(change, members.last, amounts)  # a row that stays ends where the next group begins
        return np.cumsum(change)[:-1].astype(amounts.dtype)

    def least(self, members: _Members, values: Ints) -> Ints:
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

    def members(self, wanted: Wanted) -> _Members:
        """The rows that count for an aggregate: those with a value, or spells of equal values."""
        if wanted.values is None:
            return _Members(self.group, self.first, self.last, None)
        values = _flat(wanted.values)
        rows = np.flatnonzero(np.asarray(values.is_valid()))
        if not wanted.distinct:
            return _Members(self.group[rows], self.first[rows], self.last[rows], values.take(pa.array(rows)))
        numbers = row_numbers([pa.array(self.group[rows]), values.take(pa.array(rows))])
        chosen, first, last = spells(numbers, self.first[rows], self.last[rows])
        return _Members(self.group[rows[chosen]], first, last, values.take(pa.array(rows[chosen])))

    def aggregate(self, wanted: Wanted) -> Any:
        """The aggregate in each stretch."""
        members = self.members(wanted)
        count = self.totals(members, np.ones(len(members.first), np.int64))
        if wanted.function == "count":
            return pa.array(count)
        if wanted.function in ("min", "max"):
            return self._extreme(members, count, wanted.function == "max")
        total = self.totals(members, _numbers(members.values, wanted))
        if wanted.function == "sum":
            return pa.array(total, mask=count == 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return pa.array(total / count, mask=count == 0)

    def _extreme(self, members: _Members, count: Ints, largest: bool) -> Any:
        values = members.values
        if not len(values):
            return pa.nulls(self.size, values.type)
        ranks = np.asarray(pc.rank(values, tiebreaker="dense")).astype(np.int64)
        best = self.least(members, -ranks if largest else ranks)
        best = np.where(count > 0, -best if largest else best, 0)
        of_rank = np.zeros(int(ranks.max()) + 1, np.int64)
        of_rank[ranks] = np.arange(len(ranks))
        return values.take(pa.array(of_rank[best], mask=count == 0))

    def result(self, keys: dict[str, Any], aggregates: Sequence[Wanted]) -> Relation:
        """A row for each stretch of a group that has rows; without keys also for stretches that have none."""
        columns = {wanted.name: self.aggregate(wanted) for wanted in aggregates}
        everyone = _Members(self.group, self.first, self.last, None)
        there = self.totals(everyone, np.ones(len(self.first), np.int64)) > 0
        keep = np.flatnonzero(there) if self.keyed else np.arange(self.size)
        example = np.zeros(int(self.group.max(initial=0)) + 1, np.int64)
        example[self.group] = np.arange(len(self.group))
        of_group = pa.array(example[self.stretch_group[keep]]) if self.size else pa.array([], pa.int64())
        table = {name: _flat(column).take(of_group) for name, column in keys.items()}
        table |= {name: column.take(pa.array(keep)) for name, column in columns.items()}
        found = Relation(pa.table(table), self.stretch_since[keep], self.stretch_until[keep])
        return _joined_up(found, self.stretch_group[keep], list(columns))


def _joined_up(relation: Relation, group: Ints, aggregates: Sequence[str]) -> Relation:
    """Stretches of a group that follow each other with the same aggregates, as one; in order of time."""
    count = len(group)
    if not count:
        return relation
    numbers = row_numbers([relation.table[name] for name in aggregates]) if aggregates else np.zeros(count, np.int64)
    starts = np.ones(count, np.bool_)
    starts[1:] = (np.diff(group) != 0) | (np.diff(numbers) != 0) | (relation.since[1:] != relation.until[:-1])
    at = np.flatnonzero(starts)
    until = relation.until[np.append(at[1:], count) - 1]
    order = np.argsort(relation.since[at], kind="stable")
    return Relation(relation.table.take(pa.array(at[order])), relation.since[at][order], until[order])


def _flat(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _numbers(values: Any, wanted: Wanted) -> NDArray[Any]:
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return np.asarray(values.cast(pa.int64()))
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return np.asarray(values.cast(pa.float64()))
    raise InputError(f"{wanted.name}: {wanted.function} is of numbers, and these values are {kind}: cast them before")
