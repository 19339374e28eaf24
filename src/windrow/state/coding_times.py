"""Times: the time columns of all streams as int64 on one common scale.

The scale is a `TimeDomain`: timestamps in their finest unit, dates as microseconds (so that a window of "36
hours" means something on them), integers as they are, or no times at all, where the row's number takes their
place. A time is any int64 but the least, LOW, which stands for none.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.errors import InputError, SpecError, TimeError
from windrow.kernels.layout import ENDLESS, LATEST, LOW
from windrow.record import as_int
from windrow.spec import Window
from windrow.state import columns as cols
from windrow.state.coding_numbers import NANOSECONDS
from windrow.state.coding_types import family, finest, value_type

_KINDS = {"timestamp": "timestamp", "date": "date", "integer": "integer"}
_EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True)
class TimeDomain:
    """The scale of a query's times: what they are, and the unit in which the engine counts them."""

    kind: Literal["timestamp", "date", "integer", "rank"]
    unit: Literal["s", "ms", "us", "ns", "steps"]
    tz: str | None = None

    @property
    def arrow_type(self) -> pa.DataType:
        """The type to which time columns are cast."""
        return pa.int64() if self.unit == "steps" else pa.timestamp(self.unit, tz=self.tz)


def time_domain(types: Sequence[pa.DataType | None], where: Sequence[str]) -> TimeDomain:
    """The common scale of the streams' time columns; None stands for a stream that has none."""
    kinds = [_kind(type_, name) for type_, name in zip(types, where, strict=True)]
    if len(set(kinds)) > 1:
        raise TimeError(
            f"the streams' times are not of one kind: {_listed(types, where)}; give every stream a time "
            "column of the same kind (timestamp, date or integer), or none of them"
        )
    known = [value_type(t) for t in types if t is not None]
    if kinds[0] == "timestamp":
        zones = {t.tz for t in known}
        if None in zones and len(zones) > 1:
            raise TimeError(
                f"some times have a time zone and some have none: {_listed(types, where)}; give the ones "
                "without a zone (pyarrow.compute.assume_timezone; on Spark cast to timestamp), or drop it from the "
                "others (local_timestamp; on Spark cast to timestamp_ntz)"
            )
        return TimeDomain("timestamp", finest(known), zones.pop() if len(zones) == 1 else "UTC")  # type: ignore[arg-type]
    if kinds[0] == "date":
        return TimeDomain("date", "us")
    return TimeDomain("integer" if kinds[0] == "integer" else "rank", "steps")


def times(column: Any, domain: TimeDomain, where: str) -> tuple[NDArray[np.int64], cols.Bools | None]:
    """The times of a column in units of the domain, and which rows have one (None: all); the others' are LOW.

    A time that is null, or too far from 1970 for the unit, is none. `where` names stream and column. The result may
    be a read-only view of the column's memory.
    """
    cast = cols.cast(column, domain.arrow_type, where, TimeError)
    found, valid = cols.int64s(cast), cols.validity(cast)
    if valid is not None:
        found = np.where(valid, found, LOW)
    if len(found) and int(found.min()) == LOW:
        valid = found != LOW
    return found, valid


def duration_in_units(amount: int, unit: Literal["ns", "steps"], domain: TimeDomain, where: str) -> Fraction:
    """A duration of nanoseconds ("ns") or plain steps ("steps") in units of the domain."""
    if domain.unit == "steps":
        if unit == "ns" and amount != 0:
            rows = "row numbers, because the streams have no time column"
            what = "integers" if domain.kind == "integer" else rows
            raise SpecError(f"{where}: times are {what}, so write a duration as a plain number such as 100")
        return Fraction(amount)
    if unit == "steps" and amount != 0:
        raise SpecError(f"{where}: times are {domain.kind}s, so {amount} needs a unit, as in '{amount} seconds'")
    return Fraction(amount, NANOSECONDS[domain.unit])


def as_word(distance: int) -> int:
    """A distance as a word of the block: the int64 with the same 64 bits (see kernels/distances.py)."""
    return ENDLESS if distance >= 2**64 - 1 else distance - (distance >> 63 << 64)


def lengths(column: Any, domain: TimeDomain, where: str) -> NDArray[np.uint64]:
    """Durations of a column in units of the domain, rounded up: whole numbers of steps, or an Arrow duration.

    A null is longer than any time from one row to another.
    """
    wanted = pa.int64() if domain.unit == "steps" else pa.duration("ns")
    kind = column.type
    if not (pa.types.is_integer(kind) if domain.unit == "steps" else pa.types.is_duration(kind)):
        raise TimeError(f"{where} is {kind}: lifetimes on times that are {domain.kind}s must be of type {wanted}")
    found = cols.cast(column, wanted, where, TimeError)
    units, valid = cols.int64s(found), cols.validity(found)
    if domain.unit != "steps":
        units = -(-units // NANOSECONDS[domain.unit])
    known = units if valid is None else units[valid]
    if (known < 0).any():
        raise TimeError(f"{where} has {int(known.min())}: a lifetime cannot be negative")
    longest = np.uint64(2**64 - 1)
    return units.view(np.uint64) if valid is None else np.where(valid, units.view(np.uint64), longest)


def moment(window: Window, domain: TimeDomain, where: str = "landmark") -> int:
    """Where a landmark window begins, in units of the domain: an ISO text for timestamps and dates, else a number.

    A text without an offset means UTC, whatever zone the times are shown in; times without a zone are taken as they
    are written. A moment between two units is rounded up, so that `time >= moment` holds for exactly the times at or
    after it.
    """
    ticks = window.since_ticks
    assert ticks is not None
    if domain.unit == "steps":
        if window.unit == "ns":
            raise SpecError(f"{where}: times are integers, so write an integer instead of {window.since!r}")
        return ticks
    if window.unit == "steps":
        raise SpecError(
            f"{where}: times are {domain.kind}s, so write an ISO text such as '2024-05-31T12:00:00', "
            f"not {window.since!r}"
        )
    if window.names_offset and domain.tz is None:
        raise SpecError(f"{where}: {window.since!r} has an offset but the times have no zone: leave the offset out")
    return -(-ticks // NANOSECONDS[domain.unit])


def ticks_of(when: dt.datetime | int, domain: TimeDomain, where: str) -> int:
    """A moment in units of the domain: an integer is one already, a datetime becomes one (rounded down)."""
    ticks = as_int(when)
    if ticks is None:
        ticks = _ticks_of_datetime(when, domain, where)
    if not LOW < ticks <= LATEST:
        unit = "whole numbers" if domain.unit == "steps" else f"counted in {domain.unit} since 1970"
        raise InputError(f"{where}: {when!r} is no time that a row could have: times are {unit}, in 64 bits")
    return ticks


def _ticks_of_datetime(when: Any, domain: TimeDomain, where: str) -> int:
    if not isinstance(when, dt.datetime) or when != when:  # pandas' NaT is a datetime, and differs from itself
        raise InputError(f"{where} must be a datetime or a whole number of the times' unit, got {when!r}")
    if domain.unit == "steps":
        raise InputError(f"{where}: times are whole numbers, so give one instead of {when!r}")
    if (when.tzinfo is None) != (domain.tz is None):
        raise InputError(f"{where}: {when!r} and the time columns must both have a time zone, or neither")
    epoch = _EPOCH if when.tzinfo is None else _EPOCH.replace(tzinfo=dt.UTC)
    return (when - epoch) // dt.timedelta(microseconds=1) * 1000 // NANOSECONDS[domain.unit]


def _kind(type_: pa.DataType | None, name: str) -> str:
    if type_ is None:
        return "rank"
    kind = _KINDS.get(str(family(value_type(type_))))
    if kind is None:
        raise TimeError(
            f"{name} has type {type_}, which is no event time: cast it to a timestamp (or a date or an integer)"
        )
    return kind


def _listed(types: Sequence[pa.DataType | None], where: Sequence[str]) -> str:
    pairs = zip(where, types, strict=True)
    return ", ".join(f"{name} has no time column" if t is None else f"{name} is {t}" for name, t in pairs)
