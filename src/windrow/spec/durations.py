"""Durations: lengths of event time, as texts, timedeltas or whole steps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Literal

import numpy as np

from windrow.errors import SpecError
from windrow.record import INT64_MAX, as_int, one_of, whole

_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_NS |= {"d": 24 * _NS["h"], "w": 7 * 24 * _NS["h"]}

_SPELLINGS = {
    "ns": "ns nanosecond nanoseconds",
    "us": "us µs μs microsecond microseconds",
    "ms": "ms millisecond milliseconds",
    "s": "s sec secs second seconds",
    "m": "m min mins minute minutes",
    "h": "h hr hrs hour hours",
    "d": "d day days",
    "w": "w week weeks",
}
_UNITS = {word: _NS[unit] for unit, words in _SPELLINGS.items() for word in words.split()}

_WORDS = {"w": "week", "d": "day", "h": "hour", "m": "minute", "s": "second"}
_PART = re.compile(r"\s*(\d[\d_]{0,40}(?:\.\d{1,40})?|\.\d{1,40})\s*([a-zA-Zµμ]+)\s*")
_STEPS = re.compile(r"\s*(\d[\d_]{0,40})\s*(?:steps?)?\s*")


@dataclass(frozen=True)
class Duration:
    """A length of event time that is not negative.

    The unit is "ns" for streams with timestamps; it is "steps" for streams whose times are whole numbers
    (of an integer column, or of rows where a stream has no time column).
    """

    amount: int
    unit: Literal["ns", "steps"] = "ns"

    def __post_init__(self) -> None:
        one_of(self.unit, ("ns", "steps"), "the unit of a duration")
        object.__setattr__(self, "amount", whole(self.amount, "a duration"))

    def to_value(self) -> int | str:
        """The duration as `parse_duration` reads it: a number of steps, or a text in whole units."""
        if self.unit == "steps":
            return self.amount
        unit = next(u for u in ("w", "d", "h", "m", "s", "ms", "us", "ns") if not self.amount % _NS[u])
        if not self.amount:
            return "0 seconds"
        count = self.amount // _NS[unit]
        return f"{count} {_WORDS[unit]}{'s' if count > 1 else ''}" if unit in _WORDS else f"{count} {unit}"

    def __str__(self) -> str:
        return f"{self.amount} steps" if self.unit == "steps" else str(self.to_value())


DurationLike = str | timedelta | int | np.timedelta64 | Duration
"""What stands for a duration: "10 minutes", a timedelta, or a whole number of steps."""


def parse_duration(value: DurationLike | None, what: str = "a duration") -> Duration:
    """The duration that `value` stands for; None is none at all. `what` names it in errors.

    >>> parse_duration("1.5 h")
    Duration(amount=5400000000000, unit='ns')
    >>> parse_duration(400)
    Duration(amount=400, unit='steps')
    """
    if isinstance(value, Duration):
        return value
    if value is None:
        return Duration(0, "steps")
    if isinstance(value, str):
        return _parse_text(value, what)
    if isinstance(value, timedelta):
        # A pandas Timedelta is a timedelta with nanoseconds of its own.
        micros = value // timedelta(microseconds=1)
        return _checked(micros * 1000 + getattr(value, "nanoseconds", 0), "ns", value, what)
    if isinstance(value, np.timedelta64):
        return _parse_numpy(value, what)
    steps = as_int(value)
    if steps is None:
        raise SpecError(f"{what} must be a text such as '10 minutes' or a whole number, got {value!r}")
    return _checked(steps, "steps", value, what)


def _parse_text(text: str, what: str) -> Duration:
    if steps := _STEPS.fullmatch(text):
        return _checked(int(steps[1].replace("_", "")), "steps", text, what)
    total, end = Fraction(0), 0
    while end < len(text):
        part = _PART.match(text, end)
        unit = _UNITS.get(part[2] if part[2] == "M" else part[2].lower()) if part else None
        if part is None or unit is None:
            raise SpecError(_unreadable(text, what))
        total += Fraction(part[1].replace("_", "")) * unit
        end = part.end()
    if not end:
        raise SpecError(_unreadable(text, what))
    if total.denominator != 1:
        raise SpecError(f"{what}: {text!r} is no whole number of nanoseconds, the finest unit there is")
    return _checked(int(total), "ns", text, what)


def _unreadable(text: str, what: str) -> str:
    if text.lstrip().startswith("-"):
        return f"{what} must not be negative, got {text!r}"
    return (
        f"{what}: cannot read {text!r}; write a number and a unit (ns, us, ms, s, min, h, days, weeks), "
        "such as '10 minutes' or '1h 30m'"
    )


def _parse_numpy(value: np.timedelta64, what: str) -> Duration:
    unit, count = np.datetime_data(value.dtype)
    factor = {**_NS, "D": _NS["d"], "W": _NS["w"]}.get(unit)
    if np.isnat(value) or factor is None:
        raise SpecError(f"{what}: {value!r} has no fixed length")
    return _checked(int(value.astype(np.int64)) * count * factor, "ns", value, what)


def _checked(amount: int, unit: Literal["ns", "steps"], given: object, what: str) -> Duration:
    if amount < 0:
        raise SpecError(f"{what} must not be negative, got {given!r}")
    if amount > INT64_MAX:
        limit = "about 292 years" if unit == "ns" else str(INT64_MAX)
        raise SpecError(f"{what}: {given!r} is longer than the longest duration, {limit}")
    return Duration(amount, unit)
