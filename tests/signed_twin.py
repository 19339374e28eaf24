"""The slow, obvious join of streams that bring deletions: rows of one instant, deletions first, one after the other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from typing import Any


@dataclass(frozen=True)
class Event:
    """A row that comes to a stream (its number), or the deletion of an earlier one."""

    time: int
    stream: int
    sign: int
    key: int
    value: int


@dataclass
class SignedTwin:
    """The join on equal keys; a window is ("time", length) or ("rows", count)."""

    windows: list[tuple[str, int]]
    found: Counter[tuple[Any, ...]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.held: list[list[tuple[int, int, int, int]]] = [[] for _ in self.windows]
        self.came = [0] * len(self.windows)
        self.deletions = [0] * len(self.windows)

    def take(self, events: list[Event]) -> None:
        """Take rows, of which none is older than those before."""
        for event in sorted(events, key=lambda e: (e.time, e.sign > 0, e.stream)):
            for stream, (kind, length) in enumerate(self.windows):
                if kind == "time":
                    self.held[stream] = [row for row in self.held[stream] if row[0] > event.time - length]
            if event.sign < 0:
                self._delete(event)
            else:
                self._insert(event)

    def _delete(self, event: Event) -> None:
        self.deletions[event.stream] += 1
        for row in self.held[event.stream]:
            if row[1:3] == (event.key, event.value):
                self.held[event.stream].remove(row)
                return

    def _insert(self, event: Event) -> None:
        me = event.stream
        self.came[me] += 1
        kind, length = self.windows[me]
        if kind == "rows":
            self.held[me] = [row for row in self.held[me] if row[3] > self.came[me] - length]
        others = [[row for row in rows if row[1] == event.key] for s, rows in enumerate(self.held) if s != me]
        for partners in product(*others):
            values = [row[2] for row in partners]
            values.insert(me, event.value)
            self.found[(*values, event.key)] += 1
        self.held[me].append((event.time, event.key, event.value, self.came[me]))
