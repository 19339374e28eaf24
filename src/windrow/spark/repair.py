"""Repair: the matches that a streaming join has missed, from its archive and the streams' whole history.

A pair of rows was missed if one of them was late, or if the one that was processed first had been shed when the other
came. What came after a shed row left is told by time: every row behind its clock, and those disordered rows (see
engine/departures.py) that have a later sequence number. Each part below is one batch join by the same engine:

    shed rows      x  rows of the other side that are not late, later than the clock of the shed row
    shed rows      x  disordered rows up to that clock that came after the shed row had left
    late rows      x  all rows of the other side (of two late rows, the left one is asked)
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from windrow.engine.bind import bind
from windrow.engine.departures import CLOCK, FIELDS, SEQ, WHY
from windrow.engine.intake import plain_schema
from windrow.errors import InputError, SpecError
from windrow.spark.archive import SHARD, read_header
from windrow.spark.frames import arrow_schema, check_frames, quoted
from windrow.spark.join import on_spark
from windrow.spec import Query

FACTS = (*(field.name for field in FIELDS), SHARD)


def repair(archive: str, left_history: Any, right_history: Any) -> Any:
    """The matches that the join with this archive has missed, as a batch DataFrame with the join's columns.

    The histories are batch DataFrames with every row that the two streams have brought. What the join has put out and
    what this returns are together the exact join, each match as often as it should be there.
    """
    header = read_header(archive)
    query = Query.from_json(header["query"]).with_(memory=None)
    if len(query.streams) != 2:
        raise SpecError(f"repair is for joins of two streams, and this archive has {len(query.streams)}")
    sides = dict(zip(query.names, (left_history, right_history), strict=True))
    check_frames(query, sides)
    if left_history.isStreaming:
        raise InputError("repair needs whole histories: give batch DataFrames (spark.read, not spark.readStream)")
    for name, frame in sides.items():
        if extra := [column for column in frame.columns if column not in header["columns"][name]]:
            raise SpecError(f"the history of {name!r} has a column {extra[0]!r} that the stream did not have: drop it")
    return _Repair(archive, query, sides).matches()


class _Repair:
    """The parts of one repair; `names` are the streams, left first."""

    def __init__(self, archive: str, query: Query, sides: dict[str, Any]) -> None:
        self.query, self.sides = query, sides
        self.outputs = self._outputs()
        self.lost = {name: self._archived(archive, name) for name in query.names}
        self.has_late = {name: bool(self._why(name, "late").limit(1).count()) for name in query.names}

    def _outputs(self) -> dict[str, str]:
        """Output columns by name, each as "stream.column"."""
        schemas = {name: plain_schema(arrow_schema(frame, name)) for name, frame in self.sides.items()}
        found = bind(self.query, schemas).outputs
        return {o.name: f"{self.query.names[o.stream]}.{o.column}" for o in found}

    def _archived(self, archive: str, name: str) -> Any:
        from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

        types = dict(zip(FACTS, (StringType(), LongType(), LongType(), IntegerType()), strict=True))
        fields = [StructField(f.name, f.dataType) for f in self.sides[name].schema.fields]
        schema = StructType(fields + [StructField(fact, type_) for fact, type_ in types.items()])
        return self.sides[name].sparkSession.read.schema(schema).parquet(f"{archive}/{name}")

    def matches(self) -> Any:
        """All parts together."""
        left, right = self.query.names
        parts = [
            self._after_the_clock(left, right), self._after_the_clock(right, left),
            self._disordered(left, right), self._disordered(right, left),
        ]  # fmt: skip
        if self.has_late[left]:
            parts.append(self._joined({left: self._plain(left, "late"), right: self.sides[right]}))
        if self.has_late[right]:
            parts.append(self._joined({left: self._in_time(left), right: self._plain(right, "late")}))
        return reduce(lambda a, b: a.unionByName(b), parts)

    def _why(self, name: str, why: str) -> Any:
        return self.lost[name].where(f"{WHY} = '{why}'")

    def _shed(self, name: str) -> Any:
        """The rows that memory lost, by the policy's choice or by the sampler's."""
        return self.lost[name].where(f"{WHY} IN ('shed', 'sampled')")

    def _plain(self, name: str, why: str) -> Any:
        return self._why(name, why).drop(*FACTS)

    def _in_time(self, name: str) -> Any:
        """The history without the rows that came too late."""
        if not self.has_late[name]:
            return self.sides[name]
        there = _comparable(self.sides[name], name).exceptAll(_comparable(self._plain(name, "late"), name))
        back = {f.name: "map_from_entries" for f in self.sides[name].schema.fields if f.dataType.typeName() == "map"}
        return there.selectExpr(*(_called(back.get(column), column) for column in there.columns))

    def _after_the_clock(self, shed: str, other: str) -> Any:
        pairs = self._joined(
            {shed: self._shed(shed), other: self._in_time(other)},
            {"windrow_gone": f"{shed}.{CLOCK}", "windrow_time": f"{other}.{self._time(other)}"},
        )
        return self._kept(pairs.where(f"{self._ticks(other)} > windrow_gone"))

    def _disordered(self, shed: str, other: str) -> Any:
        facts = {"windrow_gone": CLOCK, "windrow_left": SEQ, "windrow_here": SHARD}
        pairs = self._joined(
            {shed: self._shed(shed), other: self._why(other, "disordered")},
            {
                **{name: f"{shed}.{fact}" for name, fact in facts.items()},
                "windrow_time": f"{other}.{self._time(other)}",
                "windrow_came": f"{other}.{SEQ}",
                "windrow_there": f"{other}.{SHARD}",
            },
        )
        came_after = "windrow_here = windrow_there and windrow_came >= windrow_left"
        return self._kept(pairs.where(f"{self._ticks(other)} <= windrow_gone and {came_after}"))

    def _joined(self, frames: dict[str, Any], extra: dict[str, str] | None = None) -> Any:
        query = self.query.with_(select={**self.outputs, **(extra or {})})
        return on_spark(query, frames)

    def _kept(self, pairs: Any) -> Any:
        return pairs.select(*(quoted(name) for name in self.outputs))

    def _time(self, name: str) -> str:
        return str(self.query.stream(name).time)

    def _ticks(self, name: str) -> str:
        """The time of a match's row of a stream, in the units in which the engine counts."""
        kind = self.sides[name].schema[self._time(name)].dataType.simpleString()
        return {
            "timestamp": "unix_micros(windrow_time)",
            "timestamp_ntz": "timestampdiff(MICROSECOND, timestamp_ntz'1970-01-01 00:00:00', windrow_time)",
            "date": "unix_date(windrow_time) * 86400000000L",
        }.get(kind, "cast(windrow_time as bigint)")


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
