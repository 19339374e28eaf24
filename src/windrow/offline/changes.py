"""Changes: another memory, or another window of a stream, from a moment on. Read and checked here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from windrow.engine.bind import Binding
from windrow.errors import SpecError, alternatives
from windrow.spec import Memory, Window
from windrow.state.coding import moment

Changes = Sequence[tuple[Any, Any]]
"""(time, new value) in order of time."""


def starts(changes: Changes, binding: Binding, ticks: np.ndarray, what: str) -> list[tuple[int, Any]]:
    """(instant, value) of changes: the first instant at or after each time, and of one instant's changes the last.

    Refuses what is no list of pairs in order of time.
    """
    given: Any = changes
    if not isinstance(given, (list, tuple)):
        raise SpecError(f"{what} must be a list of (time, value), got {given!r}")
    found: dict[int, Any] = {}
    before = None
    for change in given:
        if not isinstance(change, (list, tuple)) or len(change) != 2 or change[0] is None:
            raise SpecError(f"{what}: {change!r} is no pair of a time and of what holds from then on")
        when = moment(Window.landmark(change[0]), binding.domain, what)
        if before is not None and when < before:
            raise SpecError(f"{what} must be in order of time: {change[0]!r} stands behind a later time")
        before = when
        found[int(np.searchsorted(ticks, when))] = change[1]
    return list(found.items())


def memory_starts(changes: Changes, first: Any, binding: Binding, ticks: np.ndarray) -> list[tuple[int, Any]]:
    """The changes of memory; a number of rows is divided as the first memory is."""
    divided = isinstance(first, Memory) and first.split is not None
    return [
        (start, first.with_(rows=limit) if divided and type(limit) is int and limit > 0 else limit)
        for start, limit in starts(changes, binding, ticks, "memory_changes")
    ]


def window_starts(
    changes: Mapping[str, Changes] | None, binding: Binding, ticks: np.ndarray
) -> dict[str, list[tuple[int, Window]]]:
    """The changes of each stream's window; refuses those of which the optimum is not known."""
    given: Any = {} if changes is None else changes
    if not isinstance(given, Mapping):
        raise SpecError(f"window_changes are given by stream, such as {{'left': [(time, window)]}}, got {given!r}")
    found = {}
    for name, steps in given.items():
        what = f"window_changes of {name!r}"
        if name not in binding.query.names:
            raise SpecError(f"{what}: there is no such stream{alternatives(str(name), binding.query.names, 'streams')}")
        old = binding.query.stream(name).window
        found[name] = [(at, Window.of(new)) for at, new in starts(steps, binding, ticks, what)]
        for _, new in found[name]:
            _check_window(old, new, what)
    return found


def _check_window(old: Window, new: Window, what: str) -> None:
    if not {old.kind, new.kind} <= {"time", "unbounded"}:
        raise SpecError(f"{what}: only windows in time, or unbounded, can change, not {old} to {new}")
    if old.holds_near != new.holds_near:
        raise SpecError(f"{what}: {old} and {new} differ in whether rows of one time match: give both the same end")
