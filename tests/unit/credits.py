"""The slow twin of GreedyDual-Join: the paper's algorithm over lists, one arrival after the other.

Credits are exact fractions and every percentile and rank is read off a sorted list. Decrements are carried out as
the paper's methods say, although the kernels need none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import ceil
from typing import Any

from windrow.kernels.policies.greedy_dual import LAG


@dataclass
class Row:
    """A resident."""

    seq: int
    stream: int
    time: int
    key: Any
    credit: Fraction = Fraction(0)
    known: Fraction = Fraction(0)
    """The credit that percentiles know of."""


@dataclass
class Twin:
    """Streams that share one memory or have a part each, as many rows each per step, windows of so many steps."""

    caps: Sequence[int]
    streams: int = 2
    window: int = 10
    initial: float | str = 0.95
    method: int | str = 1
    matches: Callable[[tuple[Row, ...]], bool] = lambda rows: len({row.key for row in rows}) == 1
    lags: bool = True
    near: bool = True
    rows: list[Row] = field(default_factory=list)
    gained: dict[tuple[int, Any], list[int]] = field(default_factory=dict)
    matched: int = 0
    seq: int = 0

    def pool(self, row: Row) -> int:
        return row.stream if len(self.caps) > 1 else 0

    def residents(self, pool: int) -> list[Row]:
        return [row for row in self.rows if self.pool(row) == pool]

    def step(self, time: int, arriving: Sequence[tuple[int, Any]]) -> None:
        """The rows (stream, key) of one instant arrive, in order."""
        self.rows = [row for row in self.rows if time - row.time < self.window]
        self.forget_empty()
        for stream, key in arriving:
            self.arrive(Row(self.seq, stream, time, key))
            self.seq += 1
        for pool, cap in enumerate(self.caps):
            while len(self.residents(pool)) > cap:
                self.rows.remove(self.victim(pool, time))
        self.forget_empty()

    def victim(self, pool: int, time: int) -> Row:
        mine = self.residents(pool)
        for stream in range(self.streams):
            last = [row for row in mine if row.stream == stream and time - row.time >= self.window - 1]
            if last:  # nobody but rows of this instant could still match it
                return min(last, key=lambda row: (row.time, row.seq))
        return min(mine, key=lambda row: (row.credit, row.seq))

    def arrive(self, new: Row) -> None:
        others = [[row for row in self.rows if row.stream == s] for s in range(self.streams) if s != new.stream]
        found = [rows for rows in product(*others) if self.fits(new, rows)]
        self.matched += len(found)
        lucky = {row.seq: row for rows in found for row in rows}
        self.pay(list(lucky.values()), new)
        new.credit = self.first(self.residents(self.pool(new)))
        behind = self.gained.setdefault((new.stream, new.key), [0, 0])
        new.known = new.credit - (behind[0] - behind[1] if self.lags else 0)
        self.rows.append(new)

    def fits(self, new: Row, rows: tuple[Row, ...]) -> bool:
        near = self.near or all(row.time < new.time for row in rows)
        return near and self.matches((new, *rows))

    def pay(self, lucky: list[Row], new: Row) -> None:
        """Increment, then decrement."""
        gains = {row.seq: self.gain(row) for row in lucky}
        before = sum(row.credit for row in self.rows)
        for row in lucky:
            row.credit += gains[row.seq]
        if not self.lags:
            for row in lucky:
                row.known = row.credit
        elif lucky:
            self.file(lucky)
        for pool in range(len(self.caps)):
            mine = self.residents(pool)
            added = sum(gains.get(row.seq, 0) for row in mine)
            fall = {2: Fraction(1), 3: Fraction(added) / max(len(mine), 1)}.get(self.method, Fraction(0))  # type: ignore[call-overload]
            for row in mine:
                row.credit -= fall
                row.known -= fall
        if self.method == 3:
            assert sum(row.credit for row in self.rows) == before, "what is added is taken away"

    def gain(self, row: Row) -> Fraction:
        mine = [other.credit for other in self.residents(self.pool(row))]
        if self.method == 2:  # the rank; equals share their mean
            low, same = sum(c < row.credit for c in mine), sum(c == row.credit for c in mine)
            return low + Fraction(same + 1, 2)
        return Fraction(1)

    def file(self, lucky: list[Row]) -> None:
        """Let percentiles know of gains, now or, where a key has many residents, when there are more."""
        group = [row for row in self.rows if (row.stream, row.key) == (lucky[0].stream, lucky[0].key)]
        if len(lucky) < len(group):  # windows tell residents of one key apart: each is known at once
            for row in lucky:
                row.known += 1
            return
        count = self.gained[lucky[0].stream, lucky[0].key]
        count[0] += 1
        if (count[0] - count[1]) * LAG >= len(group):
            for row in group:
                row.known += count[0] - count[1]
            count[1] = count[0]

    def forget_empty(self) -> None:
        there = {(row.stream, row.key) for row in self.rows}
        self.gained = {group: count for group, count in self.gained.items() if group in there}

    def first(self, mine: list[Row]) -> Fraction:
        if self.initial == "zero" or not mine:
            return Fraction(0)
        ranked = sorted(row.known for row in mine)
        place = min(max(ceil(self.initial * len(mine) - 1e-9), 1), len(mine))  # type: ignore[operator]
        return max(ranked[place - 1], min(row.credit for row in mine))
