"""Constraints: what the user promises about streams, so that rows which cannot match any more are released.

A distance is counted in arrivals, in the one order in which an engine takes rows (its rows of a batch in order of
time or of arrival), rows that fail a filter included; or in event time, where k is a duration.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Literal

import numpy as np

from windrow.errors import SpecError
from windrow.record import Record, as_int, by_tag, name_text, number, one_of, whole
from windrow.spec.bytesize import parse_bytes
from windrow.spec.durations import Duration, DurationLike, parse_duration
from windrow.spec.references import is_stream_name

Adherence = int | Duration
"""How closely a constraint is kept: a number of arrivals, or a length of event time. 0 is the strict form."""

AdherenceLike = int | str | timedelta | np.timedelta64 | Duration

MODES = ("watch", "auto")
LEAST_DISK = 1 << 20
SPARED_SHARE = 1 / 512  # of the rows that declared constraints release


class Constraint(Record):
    """A promise about the rows of one stream, or of two that are joined."""

    TAG = "kind"

    kind: ClassVar[str]

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams it speaks of."""
        return (self.stream,)  # type: ignore[attr-defined]

    @property
    def columns_of(self) -> tuple[tuple[str, str], ...]:
        """The columns it reads, each with its stream."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        data = super().to_dict()
        if "k" in data:
            k = self.k  # type: ignore[attr-defined]
            data["k"] = str(k) if isinstance(k, Duration) else k  # 5 is arrivals, "5 steps" is a time
        return data


@dataclass(frozen=True, init=False)
class Unique(Constraint):
    """No two rows of the stream have the same values in these columns.

    A join on these columns is then many-one: a row of another stream has at most one partner here. A null is no value.
    Of a stream that brings deletions (`sign=`): no two at a time, and a row of another stream that has met one of them
    is gone when the next one comes.

    >>> str(Unique("orders", "id"))
    'orders is unique on id'
    """

    kind: ClassVar[str] = "unique"

    stream: str
    columns: tuple[str, ...]

    def __init__(self, stream: str, columns: str | Iterable[str]) -> None:
        self._set(stream=_stream(stream, "Unique"), columns=_columns(columns, "Unique"))

    @property
    def columns_of(self) -> tuple[tuple[str, str], ...]:
        return tuple((self.stream, column) for column in self.columns)

    def __str__(self) -> str:
        return f"{self.stream} is unique on {', '.join(self.columns)}"


@dataclass(frozen=True, init=False)
class Integrity(Constraint):
    """A partner in `child` that arrives after its row of `parent` does so within `k` arrivals on `child` (RIDS).

    Counted are all rows of `child` after the parent row, the partner included; a partner that came before is at
    distance 0, and one that never comes breaks nothing. With k a time: its event time is at most k after the parent's.

    >>> str(Integrity("clicks", "impressions", k="5 s"))
    'clicks -> impressions within 5 seconds'
    """

    kind: ClassVar[str] = "integrity"

    parent: str
    child: str
    k: Adherence

    def __init__(self, parent: str, child: str, k: AdherenceLike = 0) -> None:
        self._set(
            parent=_stream(parent, "Integrity"), child=_stream(child, "Integrity"), k=adherence(k, "Integrity: k")
        )
        if parent == child:
            raise SpecError(f"Integrity is between two streams, got {parent!r} twice")

    @property
    def streams(self) -> tuple[str, ...]:
        return self.parent, self.child

    def __str__(self) -> str:
        return f"{self.parent} -> {self.child} within {_shown(self.k)}"


@dataclass(frozen=True, init=False)
class Clustered(Constraint):
    """Between two rows with the same values in these columns come at most `k` rows of the stream with others (CA).

    With k a time: their event times are at most k apart. A row without a value counts as one with another.

    >>> str(Clustered("reports", "car", k=100))
    'reports is clustered on car within 100 rows'
    """

    kind: ClassVar[str] = "clustered"

    stream: str
    columns: tuple[str, ...]
    k: Adherence

    def __init__(self, stream: str, columns: str | Iterable[str], k: AdherenceLike = 0) -> None:
        self._set(
            stream=_stream(stream, "Clustered"),
            columns=_columns(columns, "Clustered"),
            k=adherence(k, "Clustered: k"),
        )

    @property
    def columns_of(self) -> tuple[tuple[str, str], ...]:
        return tuple((self.stream, column) for column in self.columns)

    def __str__(self) -> str:
        return f"{self.stream} is clustered on {', '.join(self.columns)} within {_shown(self.k)}"


@dataclass(frozen=True, init=False)
class Ordered(Constraint):
    """A row with a smaller value than an earlier one arrives at most `k` rows of the stream after it (OA).

    Counted are the rows after the larger one, up to and including the smaller. With k a time: the smaller one's event
    time is at most k after the larger one's. Rows without a value are counted and compared with nothing.

    >>> str(Ordered("ticks", "number", k=0))
    'ticks is ordered on number within 0 rows'
    """

    kind: ClassVar[str] = "ordered"

    stream: str
    column: str
    k: Adherence

    def __init__(self, stream: str, column: str, k: AdherenceLike = 0) -> None:
        self._set(
            stream=_stream(stream, "Ordered"),
            column=name_text(column, "the column of Ordered"),
            k=adherence(k, "Ordered: k"),
        )

    @property
    def columns_of(self) -> tuple[tuple[str, str], ...]:
        return ((self.stream, self.column),)

    def __str__(self) -> str:
        return f"{self.stream} is ordered on {self.column} within {_shown(self.k)}"


CONSTRAINTS: tuple[type[Constraint], ...] = (Unique, Integrity, Clustered, Ordered)


@dataclass(frozen=True, init=False)
class Monitored(Record):
    """Constraints that are found by watching the streams: which of those that could help are kept, and how closely.

    Parameters:
        release: whether rows are released by them; else they are only watched (`"watch"` stands for that, `"auto"` for
            releasing).
        margin: rows are released by margin times the largest distance seen (the paper's c).
        sample: the share of rows that could be released and are kept to see what comes after all (its p).
        reaction: arrivals after which what was seen counts (its W); a constraint that is broken rests for as many.
        most: distances above it are of no use, and such a constraint is ignored.

    >>> Monitored(margin=1.5).with_(release=False).reaction
    1000
    """

    TAG: ClassVar[str] = "kind"
    kind: ClassVar[str] = "monitored"

    release: bool
    margin: float
    sample: float
    reaction: int
    most: int

    def __init__(
        self, release: bool = True, margin: float = 1.2, sample: float = 0.01, reaction: int = 1000, most: int = 100_000
    ) -> None:
        if not isinstance(release, bool):
            raise SpecError(f"Monitored: release must be True or False, got {release!r}")
        self._set(
            release=release,
            margin=float(number(margin, "Monitored: margin")),
            sample=float(number(sample, "Monitored: sample")),
            reaction=whole(reaction, "Monitored: reaction", least=1),
            most=whole(most, "Monitored: most"),
        )
        if self.margin < 1.0:
            raise SpecError(
                f"Monitored: margin must be at least 1, got {margin}: less would release what was seen to match"
            )
        if not 0.0 <= self.sample <= 1.0:
            raise SpecError(f"Monitored: sample is a share of the rows, from 0 to 1, got {sample}")

    def __str__(self) -> str:
        return "monitored" if self.release else "watched"


Constraints = Monitored | tuple[Constraint, ...] | None


@dataclass(frozen=True, init=False)
class Demote(Record):
    """Released rows go to disk, where later arrivals still find them: a constraint that is broken costs no match.

    Parameters:
        folder: where; each engine makes a folder of its own in it and removes that when it ends. None is the system's
            folder for temporary files. Snapshots hold the rows themselves, so a file is never needed again.
        disk: bytes of files, at most, divided among shards. Beyond it the oldest rows are dropped, and counted: matches
            may be missed from then on.

    >>> Demote(disk="2 GB").disk
    2000000000
    """

    folder: str | None
    disk: int

    def __init__(self, folder: str | os.PathLike[str] | None = None, disk: int | str = "4 GB") -> None:
        path = os.fspath(folder) if isinstance(folder, os.PathLike) else folder
        place = None if path is None else name_text(path, "Demote: folder")
        self._set(folder=place, disk=whole(parse_bytes(disk), "Demote: disk", least=LEAST_DISK))

    def __str__(self) -> str:
        return "demote"


@dataclass(frozen=True, init=False)
class Lose(Record):
    """Released rows are gone, and so are their matches where a declared constraint is broken; a sample sees that.

    Parameters:
        sample: the share of rows that could be released and stay to see what comes after all, without payload and at
            most 4,096 of them. 0 sees nothing that rows which are gone would have seen, 1 sees all.

    >>> Lose(sample=0.01).sample
    0.01
    """

    sample: float

    def __init__(self, sample: float = SPARED_SHARE) -> None:
        self._set(sample=float(number(sample, "Lose: sample")))
        if not 0.0 <= self.sample <= 1.0:
            raise SpecError(f"Lose: sample is a share of the rows, from 0 to 1, got {sample}")

    def __str__(self) -> str:
        return "lose"


OnViolation = Literal["lose", "demote"] | Lose | Demote


def parse_on_violation(value: Any) -> OnViolation:
    """What `on_violation=` stands for: "lose", "demote", or how to."""
    if isinstance(value, (Lose, Demote)):
        return value
    if isinstance(value, Mapping):
        return Lose.from_dict(value) if "sample" in value else Demote.from_dict(value)
    return one_of(value, ("lose", "demote"), "on_violation")  # type: ignore[return-value]


def constraint_from_dict(data: Mapping[str, Any]) -> Constraint:
    """The constraint that `to_dict` wrote, of whichever kind."""
    if not isinstance(data, Mapping) or "kind" not in data:
        raise SpecError(f"a constraint must be an object with a 'kind', got {data!r}")
    return by_tag(data["kind"], CONSTRAINTS, "constraint").from_dict(data)


def parse_constraints(value: Any) -> Constraints:
    """What `constraints=` stands for: None, "watch", "auto", how to watch, or declared ones."""
    if value is None or isinstance(value, Monitored):
        return value
    if isinstance(value, str):
        if value not in MODES:
            raise SpecError(
                f"constraints must be None, 'watch', 'auto' or a list of constraints, got {value!r}: declare one as "
                "windrow.Integrity(parent, child, k=...), Clustered, Ordered or Unique"
            )
        return Monitored(release=value == "auto")
    items = (value,) if isinstance(value, Constraint) else value
    if isinstance(items, Mapping) or not isinstance(items, Iterable):
        raise SpecError(f"constraints must be None, 'watch', 'auto' or a list of constraints, got {value!r}")
    parts = tuple(item if isinstance(item, Constraint) else _not_one(item) for item in items)
    if not parts:
        return None  # declaring nothing is releasing nothing
    for k, part in enumerate(parts):
        if part in parts[:k]:
            raise SpecError(f"the constraint {part} is declared twice: leave one out")
    return parts


def adherence(value: Any, what: str) -> Adherence:
    """A number of arrivals, or a length of event time."""
    if as_int(value) is not None:
        return whole(value, what)
    if isinstance(value, str) and value.strip().replace("_", "").isdigit():
        raise SpecError(f"{what}: {value!r} has no unit: write the number {value.strip()} for arrivals, or '5 seconds'")
    if isinstance(value, (str, timedelta, np.timedelta64, Duration)):
        length: DurationLike = value
        return parse_duration(length, what)
    raise SpecError(f"{what} must be a whole number of arrivals, or a time such as '5 seconds', got {value!r}")


def _not_one(item: object) -> Constraint:
    if isinstance(item, Mapping):
        return constraint_from_dict(item)
    raise SpecError(f"constraints must be a list of Integrity, Clustered, Ordered or Unique, got {item!r} in it")


def _shown(k: Adherence) -> str:
    return str(k) if isinstance(k, Duration) else f"{k} rows"


def _stream(name: object, what: str) -> str:
    if isinstance(name, str) and is_stream_name(name):
        return name
    raise SpecError(f"{what} needs the name of a stream, got {name!r}")


def _columns(columns: object, what: str) -> tuple[str, ...]:
    if isinstance(columns, str):
        return (name_text(columns, f"the column of {what}"),)
    if not isinstance(columns, Iterable):
        raise SpecError(f"{what} needs a column or a list of them, got {columns!r}")
    names = tuple(name_text(column, f"a column of {what}") for column in columns)
    if not names:
        raise SpecError(f"{what} needs at least one column")
    if len(set(names)) < len(names):
        raise SpecError(f"{what} names a column twice: {', '.join(names)}")
    return names
