"""Replaying a schedule: the engine itself follows it, by policy `Given`, while memory and windows change as asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine import Engine
from windrow.errors import SpecError
from windrow.feed import feed
from windrow.offline.changes import memory_starts, window_starts
from windrow.offline.instance import Instance, Question, Whole, places_of, whole_of
from windrow.offline.matches import unused, worth_of
from windrow.policies import Given
from windrow.spec import Memory


def replay(question: Question, instance: Instance, until: np.ndarray) -> float:
    """What the engine gains that follows a schedule: the worth of the matches that it gives after the warm-up.

    The engine sheds only when memory is short, so it may hold a row longer than the schedule asks.
    """
    if question.lifetimes:
        raise SpecError(
            "a schedule with lifetimes of single rows cannot be replayed: the engine's windows are streams'"
        )
    binding, whole = whole_of(question)
    names = question.query.names
    row, held = unused("windrow_row", whole.tables), unused("windrow_until", whole.tables)
    select = {name: f"{name}.{row}" for name in names}
    query = question.query.with_(memory=Memory.of(question.memory), policy=Given(held), select=select, value=None)
    tables = _marked(instance, whole, until, row, held)
    engine = Engine(query, {name: table.schema for name, table in tables.items()})
    instants = {n: np.searchsorted(instance.ticks, r.time) for n, r in zip(names, whole.rows, strict=True)}
    total = 0.0
    for step in _steps(question, binding, instance):
        if isinstance(step, tuple):
            for rows in feed(engine, _between(tables, instants, *step)):
                total += _gained(question, instance, whole, engine.take(rows))
            if 0 < step[1] < len(instance.ticks):  # what has left its window does not come back with a larger one
                engine.push({}, watermark=int(instance.ticks[step[1] - 1]))
        else:
            step.apply(engine)
    return total


class Change:
    """Another memory or another window of a stream, from an instant on."""

    def __init__(self, memory: Memory | None, stream: str, window: Any) -> None:
        self.memory, self.stream, self.window = memory, stream, window

    def apply(self, engine: Engine) -> None:
        """Make an engine change."""
        if self.memory is not None:
            engine.memory = self.memory
        else:
            engine.window(self.stream, self.window)


def _steps(question: Question, binding: Any, instance: Instance) -> Iterator[tuple[int, int] | Change]:
    """What comes when: instants [from, to) to push, and changes between them.

    Memory that grows does so before the rows of its instant come; where it shrinks, they still meet what was held.
    """
    changes: list[tuple[int, Change]] = []
    names, before = question.query.names, Memory.of(question.memory)
    for start, limit in memory_starts(question.memory_changes, question.memory, binding, instance.ticks):
        memory = Memory.of(limit)
        # a pool with a place for every row is as good as a larger one, and such can be added up
        held, rows = (np.minimum(places_of(m, names), instance.rows + 1) for m in (before, memory))
        larger = np.maximum(held, rows)
        if (larger == rows).all():
            changes.append((start, Change(memory, "", None)))
        else:  # some pool shrinks; if another grows, it does so first
            if (larger != held).any():
                shares = dict(zip(names, (larger / larger.sum()).tolist(), strict=True))
                changes.append((start, Change(Memory(int(larger.sum()), split=shares), "", None)))
            changes.append((start + 1, Change(memory, "", None)))
        before = memory
    for stream, windows in window_starts(question.window_changes, binding, instance.ticks).items():
        for start, window in windows:
            changes.append((start, Change(None, stream, window)))
    start = 0
    for instant, change in sorted(changes, key=lambda c: c[0]):
        yield start, instant
        yield change
        start = instant
    yield start, len(instance.ticks)


def _marked(instance: Instance, whole: Whole, until: np.ndarray, row: str, held: str) -> dict[str, pa.Table]:
    """The tables with each row's number and the instant until which it is to be held."""
    found = {}
    for s, (name, table) in enumerate(whole.tables.items()):
        ranks = np.zeros(table.num_rows, np.int64)
        mine = instance.stream == s
        ranks[instance.position[mine]] = until[mine]
        numbered = table.append_column(row, pa.array(np.arange(table.num_rows)))
        found[name] = numbered.append_column(held, pa.array(ranks))
    return found


def _between(tables: dict[str, pa.Table], instants: dict[str, np.ndarray], start: int, end: int) -> dict[str, pa.Table]:
    """The rows that come in some instants."""
    return {n: t.filter(pa.array((start <= instants[n]) & (instants[n] < end))) for n, t in tables.items()}


def _gained(question: Question, instance: Instance, whole: Whole, matches: pa.Table | None) -> float:
    """Worth of matches that the engine gave."""
    if matches is None or not matches.num_rows:
        return 0.0
    names = question.query.names
    rows = np.stack([matches[name].to_numpy() for name in names])
    times = np.stack([r.time[p] for r, p in zip(whole.rows, rows, strict=True)])
    counted = np.searchsorted(instance.ticks, times.max(axis=0)) >= instance.counted_from
    return float(worth_of(question, whole.tables, rows, whole.rows)[counted].sum())
