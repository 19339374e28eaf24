"""Stream: a named sequence of rows with an event time, or only an order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from windrow.errors import SpecError
from windrow.record import Record, listed, name_text
from windrow.spec.durations import Duration, DurationLike, parse_duration
from windrow.spec.filters import Filter
from windrow.spec.references import is_stream_name
from windrow.spec.window import Window, WindowLike

FilterLike = Filter | Sequence[Any]


@dataclass(frozen=True, init=False)
class Stream(Record):
    """One input of a join.

    Parameters:
        name: how the query calls the stream; letters, digits and underscores.
        time: the column with the event time (timestamps, dates or whole numbers). None: a row's time is its
            number.
        window: which of its rows an arriving row of another stream may match; a duration means a time window.
        lateness: how far behind the newest time a row may arrive and still be joined.
        where: filters; a row that fails one of them is ignored.
        sign: a column of numbers, of which a negative one makes a row the deletion of an earlier row of the stream: of
            the oldest resident that has its join keys and is equal to it in `identity`. Within a push deletions go
            before the other rows of their instant. None: all rows are insertions.
        identity: the columns by which a deletion names its row, with its join keys; None for all but the time and the
            sign. Null is a value here. A deletion without a join key is ignored, as a row without one is.
    """

    name: str
    time: str | None
    window: Window
    lateness: Duration
    where: tuple[Filter, ...]
    sign: str | None
    identity: tuple[str, ...] | None

    def __init__(
        self,
        name: str,
        time: str | None = None,
        window: WindowLike | None = None,
        lateness: DurationLike = 0,
        where: Filter | Iterable[FilterLike] = (),
        sign: str | None = None,
        identity: str | Iterable[str] | None = None,
    ) -> None:
        if not is_stream_name(name):
            raise SpecError(f"a stream's name must be letters, digits and underscores, got {name!r}")
        self._set(
            name=name,
            time=None if time is None else name_text(time, f"the time column of stream {name!r}"),
            window=Window.of(window),
            lateness=parse_duration(lateness, f"the lateness of stream {name!r}"),
            where=_filters(where, name),
            sign=None if sign is None else name_text(sign, f"the column of signs of stream {name!r}"),
            identity=_columns(identity, name),
        )
        self._check()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        given = cls._arguments(data)
        if "window" in given:
            given["window"] = Window.from_dict(given["window"])
        if "where" in given:
            given["where"] = [Filter.from_dict(item) for item in listed(given["where"], "Stream: where")]
        return cls(**given)

    @property
    def units(self) -> frozenset[str]:
        """The units of event time that the window and the lateness speak of."""
        units = {self.window.unit, self.lateness.unit if self.lateness.amount else None}
        return frozenset(unit for unit in units if unit)

    def identified_by(self, columns: Iterable[str]) -> list[str]:
        """The columns by which deletions name rows, of a stream with these columns."""
        return list(self.identity or (name for name in columns if name not in (self.time, self.sign)))

    def _check(self) -> None:
        if self.sign is not None and self.sign == self.time:
            raise SpecError(f"stream {self.name!r}: column {self.sign!r} is its time and cannot hold its signs as well")
        if self.identity is not None and self.sign is None:
            raise SpecError(f"stream {self.name!r}: identity is how deletions name rows: set sign=, or leave it out")
        if self.time is None and self.lateness.amount:
            raise SpecError(f"stream {self.name!r} has a lateness but no time column: set time=")
        if self.time is None and "ns" in self.units:
            raise SpecError(f"stream {self.name!r} has the window {self.window} but no time column: set time=")
        if len(self.units) > 1:
            raise SpecError(
                f"stream {self.name!r} measures its window ({self.window}) and its lateness "
                f"({self.lateness}) in different units: use times for both, or whole numbers for both"
            )


def _columns(identity: object, name: str) -> tuple[str, ...] | None:
    if identity is None:
        return None
    given = (identity,) if isinstance(identity, str) else identity
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise SpecError(f"stream {name!r}: identity must be a list of columns, got {identity!r}")
    found = tuple(name_text(column, f"the identity of stream {name!r}") for column in given)
    if not found:
        raise SpecError(f"stream {name!r}: identity names no column: leave it out to compare all")
    return found


def _filters(where: Filter | Iterable[FilterLike], name: str) -> tuple[Filter, ...]:
    if isinstance(where, Filter):
        return (where,)
    if isinstance(where, (str, Mapping)) or not isinstance(where, Iterable):
        raise SpecError(f"stream {name!r}: where must be a list of filters, got {where!r}")
    return tuple(Filter.of(item) for item in where)
