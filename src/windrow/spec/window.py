"""Window: which stored rows of a stream an arriving row of another may match."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal

from windrow.errors import SpecError
from windrow.record import INT64_MAX, Record, as_int, one_of, whole
from windrow.spec.durations import Duration, DurationLike, parse_duration

Kind = Literal["time", "rows", "landmark", "unbounded"]
Closed = Literal["right", "left", "both", "neither"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOO_FINE = re.compile(r"[.,]\d{7,}")


@dataclass(frozen=True, init=False)
class Window(Record):
    """Which residents of its stream an arriving row may match. With the arriving row at time t:

        Window.time("10 minutes")        residents of the last w of time, by default (t - w, t]
        Window.rows(1000)                the last 1000 rows of the stream
        Window.landmark("2024-01-01")    residents from that time on
        Window.unbounded()               all of them

    Which ends of a time window belong to it is said by `closed`:

                         t - w            t
        right (default)    o--------------*     t - w <  r.time <= t
        left               *--------------o     t - w <= r.time <  t
        both               *--------------*     t - w <= r.time <= t
        neither            o--------------o     t - w <  r.time <  t
    """

    kind: Kind
    size: Duration | int | None
    since: str | int | None
    closed: Closed

    def __init__(
        self,
        kind: Kind,
        size: DurationLike | None = None,
        since: str | int | date | None = None,
        closed: Closed = "right",
    ) -> None:
        one_of(kind, ("time", "rows", "landmark", "unbounded"), "the kind of a window")
        one_of(closed, ("right", "left", "both", "neither"), "Window: closed")
        if closed != "right" and kind != "time":
            raise SpecError(f"Window: closed={closed!r} is for time windows, not for kind {kind!r}")
        if (size is not None) != (kind in ("time", "rows")):
            raise SpecError(f"a window of kind {kind!r} {'needs a size' if size is None else 'has no size'}")
        if (since is not None) != (kind == "landmark"):
            raise SpecError(f"a window of kind {kind!r} {'needs since' if since is None else 'has no since'}")
        self._set(kind=kind, size=_size(kind, size), since=_landmark(since), closed=closed)

    @classmethod
    def time(cls, size: DurationLike, closed: Closed = "right") -> Window:
        """The residents of the last `size` of event time."""
        return cls("time", size, closed=closed)

    @classmethod
    def rows(cls, size: int) -> Window:
        """The last `size` rows of the stream."""
        return cls("rows", size)

    @classmethod
    def landmark(cls, since: str | int | date) -> Window:
        """The residents whose time is `since` (an ISO 8601 time; without an offset, UTC) or later."""
        return cls("landmark", since=since)

    @classmethod
    def unbounded(cls) -> Window:
        """All residents."""
        return cls("unbounded")

    @classmethod
    def of(cls, value: WindowLike | None) -> Window:
        """The window that `value` stands for: itself, a duration for a time window, None for no bound."""
        if isinstance(value, Window):
            return value
        return cls.unbounded() if value is None else cls.time(value)

    @property
    def holds_near(self) -> bool:
        """Whether a resident of the arriving row's very time is inside (right, both)."""
        return self.closed in ("right", "both")

    @property
    def holds_far(self) -> bool:
        """Whether a resident exactly one window length back is inside (left, both)."""
        return self.closed in ("left", "both")

    @property
    def unit(self) -> Literal["ns", "steps"] | None:
        """The unit of event time that the window speaks of, if it speaks of time."""
        if isinstance(self.size, Duration):
            return self.size.unit
        return None if self.since is None else "ns" if isinstance(self.since, str) else "steps"

    @property
    def since_ticks(self) -> int | None:
        """Where a landmark window begins: nanoseconds since 1970 for a text, steps for a number."""
        if isinstance(self.since, str):
            return (_moment(self.since) - _EPOCH) // timedelta(microseconds=1) * 1000
        return self.since

    @property
    def names_offset(self) -> bool:
        """Whether a landmark's text says how far its wall time is from UTC; one that does not means UTC."""
        return isinstance(self.since, str) and datetime.fromisoformat(self.since).tzinfo is not None

    def __str__(self) -> str:
        text = {"time": f"{self.size}", "rows": f"{self.size} rows", "landmark": f"since {self.since}"}
        ends = "" if self.closed == "right" else f", closed {self.closed}"
        return text.get(self.kind, self.kind) + ends


WindowLike = Window | DurationLike
"""What stands for a window: a Window, or a duration for a time window."""


def _size(kind: Kind, size: DurationLike | None) -> Duration | int | None:
    if size is None:
        return None
    if kind == "rows":
        return whole(size, "the size of a window in rows", least=1)
    duration = parse_duration(size, "the size of a time window")
    if not duration.amount:
        raise SpecError(f"the size of a time window must be more than nothing, got {size!r}")
    return duration


def _landmark(since: str | int | date | None) -> str | int | None:
    if since is None:
        return None
    if isinstance(since, date):
        since = since.isoformat()
    if isinstance(since, str):
        _moment(since)
        return since
    steps = as_int(since)
    if steps is None:
        raise SpecError(f"a landmark must be an ISO 8601 time or a whole number, got {since!r}")
    return whole(steps, "a landmark", least=-INT64_MAX - 1)


def _moment(text: str) -> datetime:
    """The moment that an ISO 8601 text names; years that nanoseconds in 64 bits cannot reach are refused."""
    if _TOO_FINE.search(text):
        raise SpecError(f"the landmark {text!r} is finer than a microsecond")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SpecError(f"the landmark {text!r} is no ISO 8601 time, such as '2024-01-31T12:00:00'") from None
    if not 1678 <= moment.year <= 2261:
        raise SpecError(f"the landmark {text!r} is outside the years 1678 to 2261")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
