"""Groups: aggregates over a relation, kept up to date as its rows come and go.

Only groups of rows that came or left in a span are looked at. Aggregates that add up (sum, count, avg) need no rows: a
group has its totals, to which the span's rows are added and from which those that left are taken away. For the others
(min, max, distinct) the rows of a group are held, and those of the groups in question are looked at again.

    held per group     its present row and, where aggregates add up, their totals
    held per row       the operands, for min, max and distinct alone

Who makes the changes knows when a row leaves (the windows, or the results of a join with the time at which the first of
their rows leaves), so a contribution lasts as long as it should, whether or not the engine still has the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.engine.prepare import row_codes
from windrow.maintained.aggregates import Asked, Members, Stretches, numbers_of, too_large
from windrow.maintained.book import Book, Found
from windrow.maintained.changes import Changes, Span
from windrow.maintained.relation import FOREVER, Ints, row_numbers, stacked

ROWS = "(rows)"


def _totals(which: int) -> list[str]:
    """The columns of an aggregate's totals: values, their sum, what it lost, and those that are no numbers."""
    return [f"({word} {which})" for word in ("values", "sum", "lost", "nan", "inf", "-inf")]


class Groups:
    """The groups of a relation, by some of its columns, or all of it as one group that stays once it has begun."""

    def __init__(self, keys: Sequence[str], asked: Sequence[Asked]) -> None:
        self.keys, self.asked = tuple(keys), tuple(asked)
        self.adds_up = all(one.adds_up for one in asked)
        self.present = Book(1)
        self.rows = Book(2)
        self.count = 0

    @property
    def books(self) -> list[Book]:
        """What it holds."""
        return [self.present, self.rows]

    def advance(self, changes: Changes, span: Span) -> Changes:
        """What comes and leaves among the groups' rows in a span."""
        came, left = row_codes(changes.came, self.keys), row_codes(changes.left, self.keys)
        found, _ = self.present.find(0, np.unique(np.concatenate([came, left])))
        here = _Here(self, changes, found, span)
        if not self.adds_up:
            self._hold(changes, came)
        ended = self._ended(here)
        return self._renewed(here, *ended)

    def _hold(self, changes: Changes, codes: Ints) -> None:
        """Hold the rows that came and stay, and no longer those that left."""
        self.rows.drop(self.rows.find(1, changes.left_ids)[0])
        stay = np.flatnonzero(changes.until == FOREVER)
        self.rows.add(changes.ids[stay], changes.came.take(pa.array(stay)), keys=[codes[stay], changes.ids[stay]])

    def _ended(self, here: _Here) -> tuple[Ints, pa.Table, Ints]:
        """The present rows that end in the span: when each does (FOREVER: not), their columns, their numbers."""
        found = here.found
        ids, rows = self.present.ids(found), self.present.take(found, here.output)
        at = np.full(here.groups, FOREVER)
        first = here.since > here.span.start
        np.minimum.at(at, here.group[first], here.since[first])  # where a state begins, the present one has ended
        begun = ~first
        np.minimum.at(at, here.group[begun], here.until[begun])
        return at[here.found_group], rows, ids

    def _renewed(self, here: _Here, at: Ints, rows: pa.Table, ids: Ints) -> Changes:
        """The changes; and every group that was looked at has its present row from now on."""
        new = np.flatnonzero(here.since > here.span.start)
        order = new[np.argsort(here.since[new], kind="stable")]
        numbers = np.full(len(here.since), -1)
        numbers[order] = self.count + np.arange(len(order))
        self.count += len(order)
        own = np.full(here.groups, -1)
        own[here.found_group] = ids
        numbers = np.where(numbers < 0, own[here.group], numbers)
        gone = np.flatnonzero(at < FOREVER)
        result = Changes(
            here.output.take(pa.array(order)), here.since[order], here.until[order], numbers[order],
            rows.select(here.output.column_names).take(pa.array(gone)), at[gone], ids[gone],
        )  # fmt: skip
        self.present.drop(here.found)
        last = np.flatnonzero(here.until == FOREVER)
        table = here.output.take(pa.array(last))
        for name, column in here.totals(last).items():
            table = table.append_column(name, pa.array(column))
        self.present.add(numbers[last], table, keys=[row_codes(table, self.keys)])
        return result


class _Here:
    """The groups that a span concerns: the states that each goes through, one row for each.

    A group that was there has a state that begins with the span: it is the present one, and keeps its number.
    """

    def __init__(self, owner: Groups, changes: Changes, found: Found, span: Span) -> None:
        self.owner, self.changes, self.found, self.span = owner, changes, found, span
        self.present = owner.present.take(found, _empty(owner, changes.came))
        parts, since, until = self._rows()
        table = pa.concat_tables([part.select(self._names()) for part in parts])
        present = self.present.num_rows
        self.group_of = self._numbered(table)
        self.groups = int(self.group_of.max(initial=-1)) + 1
        self.found_group = self.group_of[:present]
        rows = slice(0 if owner.adds_up else present, None)
        self.stretches = Stretches(self.group_of[rows], since[rows], until[rows])
        self._aggregated(parts, table, present)

    def _names(self) -> list[str]:
        return list(self.owner.keys)

    def _numbered(self, keys: pa.Table) -> Ints:
        if not self.owner.keys:
            return np.zeros(keys.num_rows if keys.num_columns else self._height, np.int64)
        return row_numbers(keys.columns)

    def _rows(self) -> tuple[list[pa.Table], Ints, Ints]:
        """The present rows, then the rows that count, with the time for which each does."""
        changes, owner, start = self.changes, self.owner, self.span.start
        count = self.present.num_rows
        before, always = np.full(count, start), np.full(count, FOREVER)
        if owner.adds_up:
            parts = [self.present, changes.came, changes.left]
            since = np.concatenate([before, changes.since, changes.at])
            until = np.concatenate([always, changes.until, np.full(len(changes.at), FOREVER)])
        else:
            codes = np.unique(np.concatenate([row_codes(t, owner.keys) for t in (changes.came, changes.left)]))
            found, _ = owner.rows.find(0, codes)
            ids, ends = owner.rows.key(1, found), np.full(len(found), FOREVER)
            gone = np.argsort(changes.left_ids)
            leaves = np.isin(ids, changes.left_ids)
            ends[leaves] = changes.at[gone[np.searchsorted(changes.left_ids, ids[leaves], sorter=gone)]]
            parts = [self.present, owner.rows.take(found, changes.came), changes.came]
            since = np.concatenate([before, np.full(len(found), start), changes.since])
            until = np.concatenate([always, ends, changes.until])
        self._height = len(since)
        return parts, since, until

    def _aggregated(self, parts: list[pa.Table], keys: pa.Table, present: int) -> None:
        """The states: which group, since and until when, and the output columns."""
        own, stretches = self.owner, self.stretches
        self._sums: dict[str, NDArray[Any]] = {}
        weights = self._weights(parts, ROWS, lambda t: np.ones(t.num_rows, np.int64))
        rows = stretches.totals(stretches.everyone, weights)
        self._sums[ROWS] = rows
        columns = {one.name: self._aggregate(k, one, parts) for k, one in enumerate(own.asked)}
        keep = np.flatnonzero(rows > 0) if own.keys else np.arange(stretches.size)
        kept = {name: column.take(pa.array(keep)) for name, column in columns.items()}
        starts, self.until = stretches.joined_up(keep, list(kept.values()))
        states = keep[starts]
        self.group, self.since = stretches.group[states], stretches.since[states]
        self._last = keep[np.append(starts[1:], len(keep)) - 1] if len(starts) else starts
        example = np.zeros(self.groups, np.int64)
        example[self.group_of] = np.arange(len(self.group_of))
        named = keys.take(pa.array(example[self.group])) if own.keys else None
        table = {} if named is None else {name: named[name] for name in own.keys}
        table |= {name: column.take(pa.array(starts)) for name, column in kept.items()}
        self.output = pa.table(table)

    def totals(self, last: Ints) -> dict[str, NDArray[Any]]:
        """What groups add up to at the end of some states."""
        if not self.owner.adds_up:
            return {}
        return {name: values[self._last[last]] for name, values in self._sums.items()}

    def _weights(self, parts: list[pa.Table], name: str, of: Any) -> NDArray[Any]:
        """An amount for each row that counts: of present rows what they add up to; rows that left are taken away."""
        if not self.owner.adds_up:
            return np.concatenate([of(part) for part in parts[1:]])
        present, came, left = parts
        base = np.asarray(present[name]) if name in present.column_names else np.zeros(present.num_rows)
        return np.concatenate([base.astype(of(came).dtype), of(came), -of(left)])

    def _aggregate(self, which: int, one: Asked, parts: list[pa.Table]) -> Any:
        """An aggregate in each stretch."""
        if one.operand is None:
            return pa.array(self._sums[ROWS])
        if not one.adds_up:
            values = _flat(stacked(parts[1:], one.operand))
            return self._by_rows(one, values)
        names = _totals(which)
        count = self._total(names[0], parts, lambda t: np.asarray(t[one.operand].is_valid()).astype(np.int64))
        if one.function == "count":
            return pa.array(count)
        total = self._sum(names, one, parts)
        if one.function == "sum":
            return pa.array(total, mask=count == 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return pa.array(total / count, mask=count == 0)

    def _total(self, name: str, parts: list[pa.Table], of: Any) -> Ints:
        found = self.stretches.totals(self.stretches.everyone, self._weights(parts, name, of))
        self._sums[name] = found
        return found

    def _sum(self, names: list[str], one: Asked, parts: list[pa.Table]) -> NDArray[Any]:
        """The sum in each stretch: whole numbers as they are; of floats those that are no numbers are counted apart."""
        if numbers_of(parts[1][one.operand].slice(0, 0), one).dtype == np.int64:
            return self._whole_sum(names[1], one, parts)
        finite = self._weights(parts, names[1], lambda t: _finite(numbers_of(t[one.operand], one)))
        lost = self._weights(parts, names[2], lambda t: np.zeros(t.num_rows))
        high, low = self.stretches.sums(self.stretches.everyone, finite, lost)
        self._sums[names[1]], self._sums[names[2]] = high, low
        tests = (np.isnan, np.isposinf, np.isneginf)
        odd = [
            self._total(name, parts, lambda t, test=test: test(numbers_of(t[one.operand], one)).astype(np.int64))
            for name, test in zip(names[3:], tests, strict=True)
        ]
        nan, plus, minus = (count > 0 for count in odd)
        return np.where(nan | (plus & minus), np.nan, np.where(plus, np.inf, np.where(minus, -np.inf, high)))

    def _whole_sum(self, name: str, one: Asked, parts: list[pa.Table]) -> Ints:
        """The sum of whole numbers in each stretch."""
        present, *changed = parts
        amounts = [numbers_of(table[one.operand], one) for table in changed]
        sign = np.ones(sum(map(len, amounts)), np.int64)
        if self.owner.adds_up:  # what is present counts as it adds up to, and rows that left are taken away
            base = np.asarray(present[name]) if name in present.column_names else np.zeros(present.num_rows)
            amounts.insert(0, base.astype(np.int64))
            sign = np.repeat([1, 1, -1], [len(part) for part in amounts])
        try:
            found = self.stretches.whole_sums(self.stretches.everyone, np.concatenate(amounts), sign)
        except OverflowError:
            raise too_large(one) from None
        self._sums[name] = found
        return found

    def _by_rows(self, one: Asked, values: Any) -> Any:
        """An aggregate for which the rows are looked at."""
        stretches, members = self.stretches, self.stretches.members(values, one.distinct)
        if one.function in ("min", "max"):
            return stretches.extreme(members, one.function == "max")
        count = stretches.totals(members, np.ones(len(members.first), np.int64))
        if one.function == "count":
            return pa.array(count)
        total = _plain_sums(stretches, members, one)
        if one.function == "sum":
            return pa.array(total, mask=count == 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return pa.array(total / count, mask=count == 0)


def _plain_sums(stretches: Stretches, members: Members, one: Asked) -> NDArray[Any]:
    amounts = numbers_of(members.values, one)
    if amounts.dtype == np.int64:
        try:
            return stretches.whole_sums(members, amounts, np.ones(len(amounts), np.int64))
        except OverflowError:
            raise too_large(one) from None
    high, _ = stretches.sums(members, _finite(amounts))
    nan, plus, minus = (
        stretches.totals(members, test(amounts).astype(np.int64)) > 0 for test in (np.isnan, np.isposinf, np.isneginf)
    )
    return np.where(nan | (plus & minus), np.nan, np.where(plus, np.inf, np.where(minus, -np.inf, high)))


def _flat(column: pa.ChunkedArray) -> Any:
    return column.combine_chunks()


def _finite(amounts: NDArray[Any]) -> NDArray[Any]:
    return np.where(np.isfinite(amounts), amounts, 0.0)


def _empty(owner: Groups, came: pa.Table) -> pa.Table:
    """The keys of no present rows."""
    return came.select(list(owner.keys)).slice(0, 0)
