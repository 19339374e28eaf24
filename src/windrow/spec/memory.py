"""Memory: how much a join may hold."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from windrow.errors import MemoryTooSmall, SpecError, alternatives
from windrow.record import INT64_MAX, Record, as_int, name_text, whole
from windrow.spec.bytesize import format_bytes, parse_bytes

Split = None | Literal["even"] | tuple[tuple[str, float], ...]
SplitLike = None | bool | Literal["even"] | Mapping[str, float] | Iterable[tuple[str, float]]

LIMITS = ("rows", "bytes", "share")
_ROWS = re.compile(r"\s*(\d[\d_]{0,40})\s*(?:rows?)?\s*")
_SHARE = re.compile(r"\s*(\d[\d_]{0,40}(?:\.\d{1,40})?|\.\d{1,40})\s*%\s*")


@dataclass(frozen=True, init=False)
class Memory(Record):
    """The cap on what a join holds, in rows, in bytes, or as a share of what the exact join would need.

        Memory(100_000)                          rows
        Memory("64 MB")                          bytes, everything included
        Memory("20%")                            a share of the exact join's peak
        Memory("64 MB", split={"a": 1, "b": 3})  a quarter of it for stream a, the rest for b

    Without `split` the streams share one pool (the papers' variants with a V), so memory goes where it pays.
    `split=True` gives every stream the same part.
    """

    rows: int | None
    bytes: int | None
    share: float | None
    split: Split

    def __init__(self, limit: int | str, split: SplitLike = None) -> None:
        rows, size, share = _limit(limit)
        self._set(rows=rows, bytes=size, share=share, split=_split(split))

    @classmethod
    def of(cls, value: Memory | int | str | None) -> Memory | None:
        """The memory that `value` stands for: itself, a number of rows, a text; None is no cap."""
        return value if value is None or isinstance(value, Memory) else cls(value)

    def portions(self, streams: Sequence[str]) -> tuple[float, ...] | None:
        """The part that each of `streams` has to itself, 1 in all; None if they share one pool."""
        if self.split is None:
            return None
        ratios = dict.fromkeys(streams, 1.0) if self.split == "even" else dict(self.split)
        most = max(ratios[stream] for stream in streams)
        parts = [ratios[stream] / most for stream in streams]  # their sum is no larger than their number
        return tuple(part / math.fsum(parts) for part in parts)

    def rows_by_pool(self, streams: Sequence[str]) -> tuple[int, ...]:
        """The rows of the one pool, or of each stream's own; only of a memory in rows."""
        rows, portions = self.rows, self.portions(streams)
        assert rows is not None
        if portions is None:
            return (rows,)
        return tuple(min(int(rows * part + 1e-9), rows) for part in portions)  # floats round up beyond 2**53

    def to_dict(self) -> dict[str, Any]:
        limit = {"rows": self.rows, "bytes": self.bytes, "share": self.share}
        split = dict(self.split) if isinstance(self.split, tuple) else self.split
        return {**{name: value for name, value in limit.items() if value is not None}, "split": split}

    def with_(self, **changes: Any) -> Self:
        """A copy with another limit or split; a new limit, of whatever sort, takes the place of the old one.

        The limit is `limit`, as for a new memory, or a number of `rows` or `bytes`, or a `share`.

        >>> half = Memory("64 MB", split={"a": 1, "b": 3}).with_(bytes=32_000_000)
        >>> str(half), half.split, str(half.with_(limit="20%"))
        ('32 MB', (('a', 1.0), ('b', 3.0)), '20%')
        """
        for name in changes:
            if name not in (known := ("limit", *LIMITS, "split")):
                raise SpecError(f"Memory has no field {name!r}{alternatives(name, known, 'fields')}")
        new = {name: value for name, value in changes.items() if name != "split"}
        split = changes.get("split", self.split)
        if "limit" in new and len(new) == 1:
            return type(self)(new["limit"], split)
        if len(new) > 1:
            raise SpecError(f"Memory has one limit, got {', '.join(new)}: give one of them")
        return self.from_dict({**(new or self.to_dict()), "split": split})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        limits = [name for name in LIMITS if isinstance(data, Mapping) and name in data]
        if len(limits) != 1:
            raise SpecError(f"Memory: expected one of 'rows', 'bytes' and 'share', got {data!r}")
        name, value = limits[0], data[limits[0]]
        if unknown := set(data) - {name, "split"}:
            wrong = str(min(unknown, key=str))
            raise SpecError(f"Memory has no field {wrong!r}{alternatives(wrong, (*LIMITS, 'split'), 'fields')}")
        made = cls(1, split=data.get("split"))
        check = {"rows": _row_count, "bytes": _byte_count, "share": _part}[name]
        made._set(**{"rows": None, name: check(value)})
        return made

    def __str__(self) -> str:
        if self.bytes is not None:
            return format_bytes(self.bytes)
        return f"{self.rows} rows" if self.rows is not None else f"{(self.share or 0) * 100:.6g}%"


def _limit(limit: object) -> tuple[int | None, int | None, float | None]:
    """The limit as rows, bytes or share, of which one is not None."""
    if not isinstance(limit, str):
        return _row_count(limit), None, None
    if match := _ROWS.fullmatch(limit):
        return _row_count(int(match[1].replace("_", ""))), None, None
    if match := _SHARE.fullmatch(limit):
        return None, None, _part(float(match[1].replace("_", "")) / 100)
    try:
        return None, _byte_count(parse_bytes(limit)), None
    except MemoryTooSmall:
        raise
    except SpecError:
        raise SpecError(f"memory: cannot read {limit!r}; {_FORMS}") from None


_FORMS = "write a number of rows (100000), a size ('64 MB') or a share of the exact join's need ('20%')"


def _row_count(value: object) -> int:
    rows = as_int(value)
    if rows is None:
        raise SpecError(f"memory: {value!r} is no limit; {_FORMS}")
    if rows < 1:
        raise MemoryTooSmall(f"memory must hold at least one row, got {rows} rows; leave it out for no limit")
    return whole(rows, "memory in rows")


def _byte_count(value: object) -> int:
    size = whole(value, "memory in bytes", least=-INT64_MAX)
    if size < 1:
        raise MemoryTooSmall(f"memory must be at least one byte, got {size}; leave it out for no limit")
    return size


def _part(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise SpecError(f"memory: a share must be a finite number, got {value!r}")
    if value <= 0:
        raise MemoryTooSmall(f"memory must be more than 0% of the exact join's need, got {value * 100:g}%")
    if value > 1:
        raise SpecError(
            f"memory must be at most 100% of the exact join's need, got {value * 100:g}%; leave it out for no limit"
        )
    return float(value)


def _split(split: Any) -> Split:
    if split is None or split is False:
        return None
    if split is True or split == "even":
        return "even"
    try:
        ratios = dict(split)
    except (TypeError, ValueError):
        raise SpecError(f"memory: split must be True or map streams to ratios, got {split!r}") from None
    if not ratios:
        raise SpecError("memory: split names no stream; use True for equal parts")
    for stream, ratio in ratios.items():
        name_text(stream, "memory: a stream in split")
        known = isinstance(ratio, (int, float)) and not isinstance(ratio, bool)
        if not known or not 0 < ratio <= sys.float_info.max:
            raise SpecError(f"memory: the ratio of stream {stream!r} must be a number above 0, got {ratio!r}")
    return tuple(sorted((stream, float(ratio)) for stream, ratio in ratios.items()))
