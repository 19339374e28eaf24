"""Repair: the matches that a streaming join has missed, from its archive and the streams' whole history.

A pair of rows was missed if one of them was late, or if the one that was processed first had been shed when the other
came. What came after a shed row left is told by time: every row behind its clock, and those disordered rows (see
engine/departures.py) that have a later sequence number. Each part below is one batch join by the same engine:

    shed rows      x  rows of the other side that are not late: those later than the clock of the shed row, and
                      disordered ones up to that clock that came after the shed row had left
    late rows      x  all rows of the other side (of two late rows, the left one is asked)

The time of a match is that of its later row. A repair of a range looks only at rows that can be in such matches: those
before its end, and not further before its begin than the window of their stream reaches.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import reduce
from typing import Any

from windrow.engine.bind import bind
from windrow.engine.departures import CLOCK, SEQ, SHARD
from windrow.engine.intake import plain_schema
from windrow.errors import InputError, SpecError
from windrow.spark.archive import read_header
from windrow.spark.contents import Contents, contents
from windrow.spark.frames import arrow_schema, check_frames, quoted
from windrow.spark.join import on_spark
from windrow.spark.lost_rows import FACTS, any_lost, lost_rows
from windrow.spark.moments import Moment, moment_of, written_out
from windrow.spark.places import place_of
from windrow.spec import Query


def repair(
    archive: str | os.PathLike[str],
    left_history: Any,
    right_history: Any,
    since: Moment | None = None,
    until: Moment | None = None,
) -> Any:
    """The matches that the join with this archive has missed, as a batch DataFrame with the join's columns.

    The histories are batch DataFrames with every row that the two streams have brought. What the join has put out and
    what this returns are together the exact join, each match as often as it should be there.

    Parameters:
        since, until: only the matches whose later row has a time from `since` on and before `until`: datetimes, ISO
            texts (without an offset, UTC) or, where times are integers, integers. The histories may then be cut: rows
            from `until` on, and those that lie before `since` by more than the windows, take no part. Ranges that
            follow each other give each missing match once.
    """
    header = read_header(archive)
    # what the parts join is not what the streams brought, so constraints that hold of these need not hold of those
    query = Query.from_json(header["query"]).with_(memory=None, constraints=None, on_violation="lose")
    if len(query.streams) != 2:
        raise SpecError(f"repair is for joins of two streams, and this archive has {len(query.streams)}")
    sides = dict(zip(query.names, (left_history, right_history), strict=True))
    check_frames(query.names, sides)
    if left_history.isStreaming:
        raise InputError("repair needs whole histories: give batch DataFrames (spark.read, not spark.readStream)")
    for name, frame in sides.items():
        if extra := [column for column in frame.columns if column not in header["columns"][name]]:
            raise SpecError(f"the history of {name!r} has a column {extra[0]!r} that the stream did not have: drop it")
    found = contents(place_of(archive), query.names)
    found.check()
    return _Repair(query, sides, found, _span(header, found, since, until)).matches()


@dataclass(frozen=True)
class _Span:
    """A range of time, in the units in which the engine counts; None where it has no end."""

    since: int | None
    until: int | None
    reach: dict[str, int | None]  # how far before `since` rows of a stream matter; None: all of them

    def rows(self, stream: str) -> tuple[int | None, int | None]:
        """Between which times the rows of a stream matter."""
        reach = self.reach[stream]
        if self.since is None or reach is None or reach > EARLIER or abs(self.since) > EARLIER:
            return None, self.until
        return self.since - reach, self.until


def _span(header: dict[str, Any], found: Contents, since: Moment | None, until: Moment | None) -> _Span:
    """The range that is asked for, if it can be repaired."""
    first, end = moment_of(header, since, "since"), moment_of(header, until, "until")
    if found.since is not None and (first is None or first < found.since):
        kept = written_out(header, found.since)
        raise SpecError(f"the archive {found.place!r} has forgotten what was lost before {kept}: give since={kept!r}")
    if first is not None and end is not None and first >= end:
        raise SpecError(f"since={since!r} must lie before until={until!r}")
    names = Query.from_json(header["query"]).names
    return _Span(first, end, dict(zip(names, header["reach"], strict=True)))


class _Repair:
    """The parts of one repair; `names` are the streams, left first."""

    def __init__(self, query: Query, sides: dict[str, Any], found: Contents, span: _Span) -> None:
        self.query, self.found, self.span = query, found, span
        self.outputs = self._outputs(sides)
        self.sides = {name: self._near(frame, name) for name, frame in sides.items()}
        self.has_late = {name: any_lost(found.place, found.kept(name), "late") for name in query.names}

    def _outputs(self, sides: dict[str, Any]) -> dict[str, str]:
        """Output columns by name, each as "stream.column"; histories that lack a column are refused."""
        schemas = {name: plain_schema(arrow_schema(frame, name)) for name, frame in sides.items()}
        found = bind(self.query, schemas).outputs
        return {o.name: f"{self.query.names[o.stream]}.{o.column}" for o in found}

    def _near(self, frame: Any, name: str) -> Any:
        """The rows of a stream that may be in matches of the range."""
        field = frame.schema[self._time(name)]
        for bound, sign in zip(self.span.rows(name), (">=", "<"), strict=True):
            if bound is not None:
                frame = frame.where(f"{quoted(field.name)} {sign} {_moment(bound, field.dataType.simpleString())}")
        return frame

    def matches(self) -> Any:
        """All parts together."""
        left, right = self.query.names
        parts = [self._after(left, right), self._after(right, left)]
        if self.has_late[left]:
            parts.append(self._kept(self._joined({left: self._plain(left, "late"), right: self.sides[right]})))
        if self.has_late[right]:
            parts.append(self._kept(self._joined({left: self._in_time(left), right: self._plain(right, "late")})))
        return reduce(lambda a, b: a.unionByName(b), parts)

    def _why(self, name: str, *whys: str) -> Any:
        files = self.found.kept(name)
        return self._near(lost_rows(self.found.place, files, self.sides[name], name, whys), name)

    def _plain(self, name: str, why: str) -> Any:
        return self._why(name, why).drop(*FACTS)

    def _in_time(self, name: str) -> Any:
        """The history without the rows that came too late."""
        if not self.has_late[name]:
            return self.sides[name]
        there = _comparable(self.sides[name], name).exceptAll(_comparable(self._plain(name, "late"), name))
        back = {f.name: "map_from_entries" for f in self.sides[name].schema.fields if f.dataType.typeName() == "map"}
        return there.selectExpr(*(_called(back.get(column), column) for column in there.columns))

    def _after(self, shed: str, other: str) -> Any:
        """The pairs of shed rows and what came after they had left; a disordered row is asked twice, as either kind."""
        facts = {"windrow_gone": CLOCK, "windrow_left": SEQ, "windrow_here": SHARD}
        partners = self._in_time(other).unionByName(self._why(other, "disordered"), allowMissingColumns=True)
        pairs = self._joined(
            {shed: self._why(shed, "shed", "sampled"), other: partners},
            {
                **{name: f"{shed}.{fact}" for name, fact in facts.items()},
                "windrow_came": f"{other}.{SEQ}",
                "windrow_there": f"{other}.{SHARD}",
            },
        )
        later = f"windrow_came is null and {self._ticks(other)} > windrow_gone"
        came_after = "windrow_here = windrow_there and windrow_came >= windrow_left"
        return self._kept(pairs.where(f"({later}) or ({came_after} and {self._ticks(other)} <= windrow_gone)"))

    def _joined(self, frames: dict[str, Any], extra: dict[str, str] | None = None) -> Any:
        times = {f"windrow_time_{name}": f"{name}.{self._time(name)}" for name in self.query.names}
        query = self.query.with_(select={**self.outputs, **times, **(extra or {})})
        return on_spark(query, frames)

    def _kept(self, pairs: Any) -> Any:
        """The output columns of the pairs in the range."""
        later = f"greatest({', '.join(self._ticks(name) for name in self.query.names)})"
        for bound, sign in ((self.span.since, ">="), (self.span.until, "<")):
            if bound is not None:
                pairs = pairs.where(f"{later} {sign} {bound}L")
        return pairs.select(*(quoted(name) for name in self.outputs))

    def _time(self, name: str) -> str:
        return str(self.query.stream(name).time)

    def _ticks(self, name: str) -> str:
        """The time of a match's row of a stream, in the units in which the engine counts."""
        column = f"windrow_time_{name}"
        kind = self.sides[name].schema[self._time(name)].dataType.simpleString()
        return {
            "timestamp": f"unix_micros({column})",
            "timestamp_ntz": f"timestampdiff(MICROSECOND, {_NTZ_EPOCH}, {column})",
            "date": f"unix_date({column}) * {_DAY}L",
        }.get(kind, f"cast({column} as bigint)")


_DAY = 86_400_000_000
EARLIER = 2**60  # units of time: further back, every row is looked at
_NTZ_EPOCH = "timestamp_ntz'1970-01-01 00:00:00'"


def _moment(ticks: int, kind: str) -> str:
    """A moment in a column's own type, so that sources can skip what lies outside; dates are rounded up."""
    return {
        "timestamp": f"timestamp_micros({ticks}L)",
        "timestamp_ntz": f"timestampadd(MICROSECOND, {ticks}L, {_NTZ_EPOCH})",
        "date": f"date_from_unix_date({-(-ticks // _DAY)})",
    }.get(kind, f"{ticks}L")


def _comparable(frame: Any, stream: str) -> Any:
    """A frame with its maps as lists of entries: Spark compares those, and not maps."""
    columns = []
    for field in frame.schema.fields:
        is_map = field.dataType.typeName() == "map"
        if field.dataType.simpleString().count("map<") > is_map or "variant" in field.dataType.simpleString():
            raise SpecError(
                f"stream {stream!r}: late rows cannot be told apart from others, because Spark does not compare "
                f"columns like {field.name!r}, {field.dataType.simpleString()}: give histories without it"
            )
        columns.append(_called("map_entries" if is_map else None, field.name))
    return frame.selectExpr(*columns)


def _called(function: str | None, column: str) -> str:
    return quoted(column) if function is None else f"{function}({quoted(column)}) as {quoted(column)}"
