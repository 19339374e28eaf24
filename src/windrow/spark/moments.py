"""Moments: points in time that users name, in the units in which an archive's join counts."""

import datetime as dt
from typing import Any

from windrow.errors import SpecError
from windrow.spec import Window
from windrow.state.coding import TimeDomain, moment

Moment = str | int | dt.date  # a datetime is a date


def moment_of(header: dict[str, Any], when: Moment | None, where: str) -> int | None:
    """A datetime, an ISO text (without an offset, UTC) or an integer in units of an archive's times."""
    if when is None:
        return None
    domain = TimeDomain(**header["times"])
    if isinstance(when, str) and domain.unit == "steps" and when.removeprefix("-").isdecimal():
        when = int(when)
    try:
        window = Window.landmark(when)
    except SpecError as error:
        raise SpecError(f"{where}={when!r} is no moment: {error}") from None
    return moment(window, domain, where)


def written_out(header: dict[str, Any], ticks: int) -> str | int:
    """A moment as `moment_of` reads it."""
    if TimeDomain(**header["times"]).unit == "steps":
        return ticks
    try:
        return (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=ticks)).isoformat()
    except OverflowError:  # beyond the year 9999
        return ticks
