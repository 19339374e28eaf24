"""Predicates: the conditions between two streams that make a match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from windrow.errors import SpecError
from windrow.record import Record, by_tag, number, one_of
from windrow.spec.durations import Duration, parse_duration
from windrow.spec.references import split_reference

COMPARISONS = ("<", "<=", ">", ">=", "!=")


class Predicate(Record):
    """A condition between a row of one stream and a row of another. A null in any of its columns fails it."""

    TAG = "kind"

    kind: ClassVar[str]
    left: Any
    right: Any

    @property
    def columns(self) -> tuple[str, ...]:
        """The references of all columns it reads, those of the left side first."""
        left, right = self._sides()
        return left + right

    @property
    def streams(self) -> tuple[str, str]:
        """The streams on its left and its right side."""
        left, right = self._sides()
        return split_reference(left[0])[0], split_reference(right[0])[0]

    def _sides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The references on the left and on the right."""
        return (self.left,), (self.right,)

    def _check_sides(self) -> None:
        """Each side names columns of one stream, and the sides name two."""
        what = f"a column of {type(self).__name__}"
        names = [{split_reference(item, what)[0] for item in side} for side in self._sides()]
        for side, streams in zip(("left", "right"), names, strict=True):
            if len(streams) > 1:
                raise SpecError(f"{self}: the {side} side names the streams {', '.join(sorted(streams))}")
        if names[0] == names[1]:
            raise SpecError(
                f"{self} compares the stream {min(names[0])!r} with itself: a predicate is between two "
                "streams; a condition on one belongs into its where"
            )


@dataclass(frozen=True)
class Equal(Predicate):
    """left = right, as Spark compares: NaN equals NaN, and -0.0 equals 0.0."""

    kind: ClassVar[str] = "equal"

    left: str
    right: str

    def __post_init__(self) -> None:
        self._check_sides()

    def __str__(self) -> str:
        return f"{self.left} = {self.right}"


@dataclass(frozen=True)
class Compare(Predicate):
    """left op right, with op one of < <= > >= !=. As in Spark, NaN equals itself and tops all numbers."""

    kind: ClassVar[str] = "compare"

    left: str
    op: str
    right: str

    def __post_init__(self) -> None:
        if self.op in ("=", "=="):
            raise SpecError(f"Compare does not take {self.op!r}: write Equal({self.left!r}, {self.right!r})")
        one_of(self.op, COMPARISONS, "Compare: op")
        self._check_sides()

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True, init=False)
class Band(Predicate):
    """|left - right| <= width. The width is a number, or a duration ("5 s") for columns with times."""

    kind: ClassVar[str] = "band"

    left: str
    right: str
    width: int | float | Duration

    def __init__(self, left: str, right: str, width: int | float | str | timedelta | Duration) -> None:
        self._set(left=left, right=right, width=_width(width))
        self._check_sides()

    def __str__(self) -> str:
        return f"|{self.left} - {self.right}| <= {self.width}"


@dataclass(frozen=True, init=False)
class Distance(Predicate):
    """The Euclidean distance between two points is at most `limit`; a point's coordinates are columns.

    >>> str(Distance(left=("a.x", "a.y"), right=("b.x", "b.y"), limit=2.5))
    '|(a.x, a.y) - (b.x, b.y)| <= 2.5'
    """

    kind: ClassVar[str] = "distance"

    left: tuple[str, ...]
    right: tuple[str, ...]
    limit: int | float

    def __init__(self, left: Iterable[str], right: Iterable[str], limit: int | float) -> None:
        self._set(left=_as_tuple(left), right=_as_tuple(right), limit=number(limit, "Distance: limit"))
        if not self.left or len(self.left) != len(self.right):
            raise SpecError(
                "Distance needs as many columns on the left as on the right, and at least one, "
                f"got {len(self.left)} and {len(self.right)}"
            )
        self._check_sides()

    def _sides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.left, self.right

    def __str__(self) -> str:
        return f"|({', '.join(self.left)}) - ({', '.join(self.right)})| <= {self.limit}"


PREDICATES: tuple[type[Predicate], ...] = (Equal, Compare, Band, Distance)


def predicate_from_dict(data: Mapping[str, Any]) -> Predicate:
    """The predicate that `to_dict` wrote, of whichever kind."""
    if not isinstance(data, Mapping) or "kind" not in data:
        raise SpecError(f"a predicate must be an object with a 'kind', got {data!r}")
    return by_tag(data["kind"], PREDICATES, "predicate").from_dict(data)


def _as_tuple(side: object) -> tuple[Any, ...]:
    if isinstance(side, str) or not isinstance(side, Iterable):
        return (side,)
    return tuple(side)


def _width(width: object) -> int | float | Duration:
    if isinstance(width, (str, timedelta, Duration)):
        duration = parse_duration(width, "Band: width")
        return duration.amount if duration.unit == "steps" else duration
    return number(width, "Band: width")
