"""Durations and byte sizes.

Catches: a unit that is off by a factor, rounding, negative or overlong values let through, a text form that
reads back as something else.
"""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.errors import SpecError
from windrow.spec import Duration, format_bytes, parse_bytes, parse_duration

SECOND = 10**9
INT64_MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("10 minutes", 600 * SECOND),
        ("10m", 600 * SECOND),
        ("10 min", 600 * SECOND),
        ("1 minute", 60 * SECOND),
        ("1.5 h", 5400 * SECOND),
        ("2 hours", 7200 * SECOND),
        ("1 Hour", 3600 * SECOND),
        ("250 ms", 250 * 10**6),
        ("3 us", 3000),
        ("3 µs", 3000),
        ("7ns", 7),
        ("2 days", 172_800 * SECOND),
        ("1d", 86_400 * SECOND),
        ("2 weeks", 14 * 86_400 * SECOND),
        (".5 s", SECOND // 2),
        ("1_000 sec", 1000 * SECOND),
        ("1h 30m", 5400 * SECOND),
        ("  5 seconds ", 5 * SECOND),
        ("0 s", 0),
    ],
)
def test_text_is_read_in_its_unit(text: str, ns: int) -> None:
    assert parse_duration(text) == Duration(ns, "ns")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (timedelta(minutes=1, microseconds=3), Duration(60 * SECOND + 3000, "ns")),
        (pd.Timedelta(5, "ns"), Duration(5, "ns")),
        (np.timedelta64(5, "m"), Duration(300 * SECOND, "ns")),
        (np.timedelta64(2, "D"), Duration(172_800 * SECOND, "ns")),
        (400, Duration(400, "steps")),
        (np.int32(400), Duration(400, "steps")),
        ("400", Duration(400, "steps")),
        ("400 steps", Duration(400, "steps")),
        (None, Duration(0, "steps")),
        (Duration(3, "ns"), Duration(3, "ns")),
    ],
)
def test_other_values(value: object, expected: Duration) -> None:
    assert parse_duration(value) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "cannot read ''"),
        ("ten minutes", "such as '10 minutes'"),
        ("10 parsecs", "cannot read '10 parsecs'"),
        ("1 M", "cannot read '1 M'"),  # a minute or a month?
        ("1h banana", "cannot read"),
        ("-5 s", "must not be negative"),
        (-1, "must not be negative"),
        (timedelta(seconds=-1), "must not be negative"),
        ("0.1 ns", "no whole number of nanoseconds"),
        ("400 years", "cannot read"),
        ("30000 weeks", "292 years"),
        ("9" * 5000, "cannot read"),
        (2**63, "longer than the longest"),
        (1.5, "whole number, got 1.5"),
        (True, "whole number, got True"),
        (np.timedelta64(1, "M"), "no fixed length"),
        (np.timedelta64("NaT", "s"), "no fixed length"),
        ([], "whole number"),
    ],
)
def test_bad_durations(value: object, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_duration(value, "the lateness")  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert str(caught.value).startswith("the lateness")


def test_duration_checks_itself() -> None:
    with pytest.raises(SpecError, match="at least 0"):
        Duration(-1)
    with pytest.raises(SpecError, match="'ns', 'steps'"):
        Duration(1, "s")  # type: ignore[arg-type]


@given(st.integers(0, INT64_MAX), st.sampled_from(["ns", "steps"]))
def test_value_and_text_read_back(amount: int, unit: str) -> None:
    duration = Duration(amount, unit)  # type: ignore[arg-type]
    assert parse_duration(duration.to_value()) == duration
    assert parse_duration(str(duration)) == duration


@given(st.timedeltas(timedelta(0), timedelta(days=100_000)))
def test_timedelta_is_exact(value: timedelta) -> None:
    assert timedelta(microseconds=parse_duration(value).amount // 1000) == value


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64 MB", 64_000_000),
        ("64MB", 64_000_000),
        ("64 mb", 64_000_000),
        ("1 kB", 1000),
        ("1.5 KiB", 1536),
        ("2 GiB", 2 * 2**30),
        ("1 TB", 10**12),
        ("12 B", 12),
        ("1_000 bytes", 1000),
        ("1.5 B", 1),
        (77, 77),
    ],
)
def test_bytes(text: str | int, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("value", ["64", "MB", "64 XB", "-3 MB", "1e3 MB", "", "99999999999 TB", -1, 1.5, None, True])
def test_bad_bytes(value: object) -> None:
    with pytest.raises(SpecError):
        parse_bytes(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1536, "1.54 kB"), (64_000_000, "64 MB"), (10**15, "1000 TB")],
)
def test_format_bytes(size: int, text: str) -> None:
    assert format_bytes(size) == text


@given(st.integers(0, 10**15))
def test_formatted_bytes_are_near(size: int) -> None:
    assert abs(parse_bytes(format_bytes(size)) - size) <= 0.006 * size
