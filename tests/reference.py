"""The slow, obvious join that every fast one is compared with: nested loops over lists of Python rows.

A batch maps each stream's name to a list of rows, a row is a dict of plain Python values. Nothing here is
clever, so that reading it is enough to trust it; it only remembers which pairs of rows go together, because
an n-way join asks again and again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from windrow.spec import Band, Compare, Distance, Duration, Equal, Filter, Query, Stream, split_reference

Rows = list[dict[str, Any]]
Batch = Mapping[str, Rows]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Taken:
    """A row, and its place in the order in which rows are taken."""

    row: dict[str, Any]
    stream: int
    time: int
    number: int
    """Its number among the rows of its stream, in the order in which they are taken."""
    place: int
    """Its number among all rows."""
    push: int
    ignored: bool


def exact_join(query: Query, batches: Sequence[Batch]) -> Counter[tuple[Any, ...]]:
    """The exact join as a multiset of output rows; none of the rows may be late."""
    rows = taken_rows(query, batches)
    return Counter(output_row(query, match) for match in matches(query, rows))


def matches(query: Query, rows: Sequence[Taken]) -> Iterable[tuple[Taken, ...]]:
    """All combinations of one row per stream for which every predicate and every pair of windows holds."""
    sides = [[row for row in rows if row.stream == k and not row.ignored] for k in range(len(query.streams))]
    counts = counts_before(query, rows)
    known: dict[tuple[int, int], bool] = {}

    def fits(one: Taken, other: Taken) -> bool:
        pair = (one.place, other.place)
        if pair not in known:
            known[pair] = pair_holds(query, one, other, counts)
        return known[pair]

    def extend(chosen: tuple[Taken, ...]) -> Iterable[tuple[Taken, ...]]:
        if len(chosen) == len(sides):
            yield chosen
            return
        for row in sides[len(chosen)]:
            if all(fits(earlier, row) for earlier in chosen):
                yield from extend((*chosen, row))

    return extend(())


def pair_holds(query: Query, a: Taken, b: Taken, counts: Sequence[Sequence[int]]) -> bool:
    """Whether two rows of different streams satisfy each other's windows and all predicates between them."""
    return window_holds(query, a, b, counts) and all(predicate_holds(predicate, query, a, b) for predicate in query.on)


def window_holds(query: Query, a: Taken, b: Taken, counts: Sequence[Sequence[int]]) -> bool:
    """Whether the earlier of two rows is still in its window when the later one comes."""
    windows = query.streams[a.stream].window, query.streams[b.stream].window
    if a.time == b.time and not (windows[0].holds_near or windows[1].holds_near):
        return False
    for resident, arriving, window in ((a, b, windows[0]), (b, a, windows[1])):
        apart = arriving.time - resident.time
        # Of two rows of one instant, the one of the later stream is the arriving one.
        before = apart > 0 or (apart == 0 and resident.stream < arriving.stream)
        if window.kind == "time" and apart > 0:
            size = _ticks(window.size)
            if not (apart < size or (window.holds_far and apart == size)):
                return False
        if window.kind == "landmark" and before and resident.time < window.since_ticks:
            return False
        if window.kind == "rows" and resident.place < arriving.place:
            seen = counts[resident.stream][arriving.place]
            if resident.number < seen - window.size:
                return False
    return True


def predicate_holds(predicate: Any, query: Query, a: Taken, b: Taken) -> bool:
    """Whether a predicate holds between two rows; one that is not between their streams does."""
    names = {query.names[a.stream]: a.row, query.names[b.stream]: b.row}
    if not all(stream in names for stream in predicate.streams):
        return True

    def values(references: str | tuple[str, ...]) -> list[Any]:
        listed = (references,) if isinstance(references, str) else references
        return [names[stream][column] for stream, column in map(split_reference, listed)]

    left, right = values(predicate.left), values(predicate.right)
    if any(value is None for value in left + right):
        return False
    if isinstance(predicate, Equal):
        return _order(left[0]) == _order(right[0])
    if isinstance(predicate, Compare):
        one, other = _order(left[0]), _order(right[0])
        answers = {"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}
        return answers.get(predicate.op, one != other)
    if any(_is_nan(value) for value in left + right):
        return False
    if isinstance(predicate, Band):
        return _gap(left[0], right[0]) <= _ticks(predicate.width)
    assert isinstance(predicate, Distance)
    return math.fsum((x - y) ** 2 for x, y in zip(left, right, strict=True)) <= predicate.limit**2


def filter_holds(condition: Filter, row: Mapping[str, Any]) -> bool:
    """Whether a row meets a filter."""
    value, wanted = row[condition.column], condition.value
    if condition.op in ("is null", "is not null"):
        return (value is None) == (condition.op == "is null")
    if value is None:
        return False
    if condition.op in ("in", "not in"):
        return (value in wanted) == (condition.op == "in")  # type: ignore[operator]
    one, other = _order(value), _order(wanted)
    return {
        "=": lambda: one == other,
        "!=": lambda: one != other,
        "<": lambda: one < other,
        "<=": lambda: one <= other,
        ">": lambda: one > other,
        ">=": lambda: one >= other,
    }[condition.op]()


def output_row(query: Query, match: Sequence[Taken]) -> tuple[Any, ...]:
    """The values of a match, in the order of the output columns; a query without select gives all columns."""
    if query.select is None:
        return tuple(plain(value) for row in match for value in row.row.values())
    places = [split_reference(output.column) for output in query.select]
    return tuple(plain(match[query.names.index(stream)].row[column]) for stream, column in places)


def taken_rows(query: Query, batches: Sequence[Batch]) -> list[Taken]:
    """All rows in the order in which an engine takes them."""
    taken: list[Taken] = []
    numbers = [0] * len(query.streams)
    for push, batch in enumerate(batches):
        waiting = []
        for k, stream in enumerate(query.streams):
            newest = -math.inf
            for position, row in enumerate(batch.get(stream.name, ())):
                time = row_time(stream, row, numbers[k] + position)
                newest = max(newest, time)
                waiting.append((time if query.order == "time" else newest, k, position, time, row))
        for _, k, _, time, row in sorted(waiting, key=lambda entry: entry[:3]):
            ignored = is_ignored(query, k, row)
            taken.append(Taken(row, k, time, numbers[k], len(taken), push, ignored))
            numbers[k] += 1
    return taken


def row_time(stream: Stream, row: Mapping[str, Any], number: int) -> int:
    """The time of a row: nanoseconds, steps, or its number."""
    return number if stream.time is None else ticks(row[stream.time])


def is_ignored(query: Query, stream: int, row: Mapping[str, Any]) -> bool:
    """Whether a row can never match: it fails a filter, or has no value where a predicate looks for one."""
    for predicate in query.on:
        for side, column in map(split_reference, predicate.columns):
            if side != query.names[stream]:
                continue
            if row[column] is None or (isinstance(predicate, Band | Distance) and _is_nan(row[column])):
                return True
    return not all(filter_holds(condition, row) for condition in query.streams[stream].where)


def live_rows(query: Query, rows: Sequence[Taken]) -> list[int]:
    """How many of the rows that were taken so far are still in their windows, for each stream.

    The windows have moved to the watermark: the least time that any stream may still bring.
    """
    newest: list[float] = [-math.inf] * len(query.streams)
    numbers = [0] * len(query.streams)
    for row in rows:
        newest[row.stream] = max(newest[row.stream], row.time)
        numbers[row.stream] += 1
    lags = zip(newest, query.streams, strict=True)
    watermark = min(time - _ticks(stream.lateness) for time, stream in lags)
    live = [0] * len(query.streams)
    for row in rows:
        if not row.ignored and still_open(query.streams[row.stream], row, watermark, numbers[row.stream]):
            live[row.stream] += 1
    return live


def exact_resident_need(query: Query, batches: Sequence[Batch]) -> int:
    """The most rows that the exact join holds after any instant, for rows in order of time."""
    rows = taken_rows(query, batches)
    ends = [k + 1 for k, row in enumerate(rows) if k + 1 == len(rows) or rows[k + 1].time != row.time]
    return max((sum(live_rows(query, rows[:end])) for end in ends), default=0)


def still_open(stream: Stream, row: Taken, watermark: float, seen: int) -> bool:
    window = stream.window
    if window.kind == "rows":
        return row.number >= seen - window.size  # type: ignore[operator]
    if row.time >= watermark:
        return True
    if window.kind == "landmark":
        return row.time >= window.since_ticks  # type: ignore[operator]
    if window.kind == "unbounded":
        return True
    apart, size = watermark - row.time, _ticks(window.size)
    return apart < size or (window.holds_far and apart == size)


def counts_before(query: Query, rows: Sequence[Taken]) -> list[list[int]]:
    """For each stream and each place, how many rows of the stream have been taken before it."""
    counts: list[list[int]] = [[] for _ in query.streams]
    seen = [0] * len(query.streams)
    for row in rows:
        for k, count in enumerate(seen):
            counts[k].append(count)
        seen[row.stream] += 1
    return counts


def ticks(moment: Any) -> int:
    """A time as nanoseconds since 1970, or as it is if it is a number."""
    if isinstance(moment, datetime):
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (zoned - _EPOCH) // timedelta(microseconds=1) * 1000
    if isinstance(moment, date):
        return ticks(datetime(moment.year, moment.month, moment.day))
    return int(moment)


def _ticks(length: Any) -> Any:
    return length.amount if isinstance(length, Duration) else length


def _gap(one: Any, other: Any) -> Any:
    if isinstance(one, date):
        return abs(ticks(one) - ticks(other))
    return abs(one - other)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _order(value: Any) -> tuple[bool, Any]:
    """A value by which to compare: NaN equals itself and is larger than every number."""
    return (True, 0) if _is_nan(value) else (False, value)


def plain(value: Any) -> Any:
    """A value that can be counted: NaN equals itself, lists and dicts can be hashed."""
    if type(value) in (int, str):  # most are
        return value
    if _is_nan(value):
        return "NaN"
    return repr(value) if isinstance(value, (list, dict)) else value
