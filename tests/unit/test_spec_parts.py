"""Windows, streams, filters, predicates, outputs and memory, each on its own.

Catches: values let through that make no sense, errors that do not say what to do, JSON that reads back as
something else, parts that can be changed after they were checked.
"""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit import spec_strategies as some

from windrow.errors import DuplicateColumn, MemoryTooSmall, SpecError
from windrow.record import Record
from windrow.spec import (
    Band,
    Compare,
    Distance,
    Duration,
    Equal,
    Filter,
    Memory,
    Output,
    Stream,
    Value,
    Window,
    split_reference,
)
from windrow.spec.output import parse_select

MINUTE = 60 * 10**9

# ------------------------------------------------------------------------------------------ round trips


@given(
    st.one_of(
        some.windows,
        some.filters,
        some.predicates(),
        some.memories(),
        some.names.flatmap(lambda name: some.streams(name, "ns")),
        st.builds(Output, some.references("a"), some.columns),
        st.builds(Value, st.dictionaries(some.names, some.columns, min_size=1), st.sampled_from(["product", "sum"])),
    )
)
def test_json_reads_back_as_the_same(part: Record) -> None:
    text = part.to_json()
    again = type(part).from_json(text)
    assert again == part
    assert hash(again) == hash(part)
    assert again.to_json() == text
    assert json.loads(text)["version"] == 1


PARTS: list[Record] = [
    Window.time("1 s"),
    Stream("a", "t", "1 s", where=[Filter("x", ">", 1)]),
    Filter("x", "in", [1, 2]),
    Equal("a.x", "b.x"),
    Compare("a.x", "<", "b.x"),
    Band("a.x", "b.x", "5 s"),
    Distance(["a.x"], ["b.x"], 1),
    Output("a.x"),
    Value({"a": "x"}),
    Memory("1 MB"),
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
class TestEveryPart:
    def test_is_frozen(self, part: Record) -> None:
        for name in vars(part):
            with pytest.raises(FrozenInstanceError):
                setattr(part, name, None)

    def test_refuses_unknown_fields(self, part: Record) -> None:
        with pytest.raises(SpecError, match="bogus"):
            type(part).from_dict({**part.to_dict(), "bogus": 1})

    def test_refuses_other_versions(self, part: Record) -> None:
        text = json.dumps({**part.to_dict(), "version": 2})
        with pytest.raises(SpecError, match="version 2 is unknown here"):
            type(part).from_json(text)

    @pytest.mark.parametrize("text", ["", "{", "[]", "1", "{}", '{"version": 1}', '{"version": true}'])
    def test_refuses_other_texts(self, part: Record, text: str) -> None:
        with pytest.raises(SpecError):
            type(part).from_json(text)


# ---------------------------------------------------------------------------------------------- windows


def test_window_kinds() -> None:
    assert Window.time("1 min") == Window("time", size=Duration(MINUTE, "ns"))
    assert Window.time(400).size == Duration(400, "steps")
    assert Window.rows(3).size == 3
    assert Window.of("1 min") == Window.time("1 min")
    assert Window.of(None) == Window.unbounded()
    assert Window.landmark(date(2024, 1, 31)) == Window.landmark("2024-01-31")


@pytest.mark.parametrize(
    ("closed", "far", "near"),
    [("right", False, True), ("left", True, False), ("both", True, True), ("neither", False, False)],
)
def test_window_ends(closed: Any, far: bool, near: bool) -> None:
    window = Window.time(5, closed=closed)
    assert (window.holds_far, window.holds_near) == (far, near)


@pytest.mark.parametrize(
    ("since", "ticks"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01", 10**9),
        ("1970-01-01T00:00:00.000001Z", 1000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59", -(10**9)),
        (datetime(1970, 1, 1, 0, 1, tzinfo=UTC), MINUTE),
        (-7, -7),
    ],
)
def test_landmark_ticks(since: Any, ticks: int) -> None:
    assert Window.landmark(since).since_ticks == ticks


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Window.time(0), "must be more than nothing, got 0"),
        (lambda: Window.time("0 s"), "must be more than nothing"),
        (lambda: Window.time(-5), "the size of a time window must not be negative"),
        (lambda: Window.time("soon"), "cannot read 'soon'"),
        (lambda: Window.time(5, closed="open"), "'right', 'left', 'both', 'neither', got 'open'"),
        (lambda: Window.rows(0), "at least 1, got 0"),
        (lambda: Window.rows(1.5), "whole number, got 1.5"),
        (lambda: Window.rows("10 s"), "rows must be a whole number"),
        (lambda: Window("rows", 5, closed="left"), "closed='left' is for time windows"),
        (lambda: Window("hopping", 5), "'time', 'rows', 'landmark', 'unbounded', got 'hopping'"),
        (lambda: Window("time"), "kind 'time' needs a size"),
        (lambda: Window("unbounded", 5), "kind 'unbounded' has no size"),
        (lambda: Window("landmark"), "kind 'landmark' needs since"),
        (lambda: Window("time", 5, since=3), "kind 'time' has no since"),
        (lambda: Window.landmark("yesterday"), "no ISO 8601 time"),
        (lambda: Window.landmark("2024-01-01T00:00:00.1234567"), "finer than a microsecond"),
        (lambda: Window.landmark("0001-01-01"), "outside the years"),
        (lambda: Window.landmark(1.5), "ISO 8601 time or a whole number"),
    ],
)
def test_bad_windows(make: Any, message: str) -> None:
    _refused(make, message)


# ---------------------------------------------------------------------------------- streams and filters


def test_stream_defaults_and_shorthands() -> None:
    assert Stream("a") == Stream("a", None, Window.unbounded(), Duration(0, "steps"), ())
    stream = Stream("a", "ts", "1 min", "5 s", [("x", ">", 1), Filter("y", "is null")])
    assert stream.window == Window.time("1 min")
    assert stream.lateness == Duration(5 * 10**9, "ns")
    assert stream.where == (Filter("x", ">", 1), Filter("y", "is null"))
    assert Stream("a", where=Filter("y", "is null")).where == (Filter("y", "is null"),)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Stream(""), "letters, digits and underscores, got ''"),
        (lambda: Stream("a.b"), "got 'a.b'"),
        (lambda: Stream("my stream"), "got 'my stream'"),
        (lambda: Stream(3), "got 3"),
        (lambda: Stream("a", ""), "the time column of stream 'a'"),
        (lambda: Stream("a", "t", lateness="-1 s"), "the lateness of stream 'a' must not be negative"),
        (lambda: Stream("a", lateness=5), "has a lateness but no time column: set time="),
        (lambda: Stream("a", window="5 s"), "has the window 5 seconds but no time column"),
        (lambda: Stream("a", "t", 5, "1 s"), "in different units"),
        (lambda: Stream("a", where="x > 1"), "where must be a list of filters"),
        (lambda: Stream("a", where=[("x",)]), "a tuple such as ('price', '>', 10)"),
        (lambda: Filter("", "="), "the column of a filter"),
        (lambda: Filter("x", "==", 1), "the operator of the filter on 'x'"),
        (lambda: Filter("x", "=", None), "use 'is null' or 'is not null'"),
        (lambda: Filter("x", "in", "abc"), "a list of at least one value, got 'abc'"),
        (lambda: Filter("x", "in", []), "a list of at least one value"),
        (lambda: Filter("x", "not in", [1, None]), "use 'is null'"),
        (lambda: Filter("x", "is null", 3), "takes no value, got 3"),
        (lambda: Filter("x", "<", float("nan")), "finite number"),
        (lambda: Filter("x", "<", object()), "a text, a number or a truth value"),
    ],
)
def test_bad_streams_and_filters(make: Any, message: str) -> None:
    _refused(make, message)


# ------------------------------------------------------------------------------------------- predicates


def test_references_split_at_the_first_dot() -> None:
    assert split_reference("a.b.c") == ("a", "b.c")


def test_predicates_tell_their_streams_and_columns() -> None:
    distance = Distance(("b.x", "b.y"), ("a.x", "a.y"), 2)
    assert distance.streams == ("b", "a")
    assert distance.columns == ("b.x", "b.y", "a.x", "a.y")
    assert Compare("a.x", "<", "b.y.z").columns == ("a.x", "b.y.z")


def test_band_width() -> None:
    assert Band("a.t", "b.t", "5 s").width == Duration(5 * 10**9, "ns")
    assert Band("a.t", "b.t", Duration(5, "steps")).width == 5
    assert Band("a.t", "b.t", 0.5).width == 0.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Equal("x", "b.x"), "a column of Equal must be a text 'stream.column', got 'x'"),
        (lambda: Equal("a.", "b.x"), "got 'a.'"),
        (lambda: Equal(".x", "b.x"), "got '.x'"),
        (lambda: Equal(None, "b.x"), "got None"),
        (lambda: Equal([], "b.x"), "got []"),
        (lambda: Equal("a.x", ("b.x",)), "got ('b.x',)"),
        (lambda: Equal("a.x", "a.y"), "compares the stream 'a' with itself"),
        (lambda: Compare("a.x", "=", "b.x"), "write Equal('a.x', 'b.x')"),
        (lambda: Compare("a.x", "~", "b.x"), "Compare: op must be one of"),
        (lambda: Band("a.x", "b.x", -1), "not negative, got -1"),
        (lambda: Band("a.x", "b.x", float("nan")), "finite"),
        (lambda: Band("a.x", "b.x", "wide"), "Band: width: cannot read 'wide'"),
        (lambda: Band("a.x", "b.x", None), "Band: width must be a number"),
        (lambda: Distance(("a.x", "a.y"), ("b.x",), 1), "got 2 and 1"),
        (lambda: Distance((), (), 1), "at least one, got 0 and 0"),
        (lambda: Distance(("a.x", "c.y"), ("b.x", "b.y"), 1), "the left side names the streams a, c"),
        (lambda: Distance(("a.x",), ("b.x",), "1"), "Distance: limit must be a number"),
    ],
)
def test_bad_predicates(make: Any, message: str) -> None:
    _refused(make, message)


# ---------------------------------------------------------------------------------- outputs and values


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("a.x", [("a.x", "x")]),
        (["a.x", "b.y.z"], [("a.x", "x"), ("b.y.z", "y.z")]),
        ([("a.x", "x1"), ["b.x", "x2"]], [("a.x", "x1"), ("b.x", "x2")]),
        ({"x1": "a.x", "x2": "b.x"}, [("a.x", "x1"), ("b.x", "x2")]),
        ([{"x1": "a.x"}, "b.x"], [("a.x", "x1"), ("b.x", "x")]),
        (Output("a.x", "q"), [("a.x", "q")]),
    ],
)
def test_select(select: Any, expected: list[tuple[str, str]]) -> None:
    outputs = parse_select(select)
    assert outputs is not None
    assert [(output.column, output.name) for output in outputs] == expected


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: parse_select([]), "leave it out to get all columns"),
        (lambda: parse_select(["x"]), "an output column must be a text 'stream.column', got 'x'"),
        (lambda: parse_select(5), "select must be a list"),
        (lambda: parse_select([("a.x", "b", "c")]), "a pair ('stream.column', 'name')"),
        (lambda: Output("a.x", ""), "the output name of 'a.x'"),
        (lambda: Value({}), "at least one stream"),
        (lambda: Value({"a": ""}), "the column of stream 'a'"),
        (lambda: Value("a.x"), "columns must map streams to columns"),
        (lambda: Value({"a": "x"}, "max"), "'product', 'sum', got 'max'"),
    ],
)
def test_bad_outputs(make: Any, message: str) -> None:
    _refused(make, message)


def test_duplicate_output_names() -> None:
    with pytest.raises(DuplicateColumn, match=r"a\.x and b\.x are both named 'x'.*\('b\.x', 'b_x'\)"):
        parse_select(["a.x", "b.x"])


def test_value_does_not_depend_on_order() -> None:
    assert Value({"a": "x", "b": "y"}) == Value({"b": "y", "a": "x"})


# ----------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize(
    ("limit", "rows", "size", "share"),
    [
        (100_000, 100_000, None, None),
        ("100_000", 100_000, None, None),
        ("5 rows", 5, None, None),
        ("64 MB", None, 64_000_000, None),
        ("1 KiB", None, 1024, None),
        ("20%", None, None, 0.2),
        ("12.5 %", None, None, 0.125),
        ("100%", None, None, 1.0),
    ],
)
def test_memory_limits(limit: Any, rows: int | None, size: int | None, share: float | None) -> None:
    memory = Memory(limit)
    assert (memory.rows, memory.bytes, memory.share, memory.split) == (rows, size, share, None)


def test_memory_of() -> None:
    memory = Memory(5, split=True)
    assert Memory.of(memory) is memory
    assert Memory.of(None) is None
    assert Memory.of("20%") == Memory("20%")


def test_memory_portions() -> None:
    assert Memory(5).portions(["a", "b"]) is None
    assert Memory(5, split=True).portions(["a", "b"]) == (0.5, 0.5)
    assert Memory(5, split={"b": 3, "a": 1}).portions(["a", "b"]) == (0.25, 0.75)


@given(some.memories(("a", "b", "c")))
def test_memory_portions_make_one_whole(memory: Memory) -> None:
    portions = memory.portions(["c", "a", "b"])
    assert portions is None or sum(portions) == pytest.approx(1)


@pytest.mark.parametrize("limit", [0, -5, "0", "0 MB", "0.5 B", "0%"])
def test_memory_too_small(limit: Any) -> None:
    with pytest.raises(MemoryTooSmall, match=r"at least one|more than 0%"):
        Memory(limit)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Memory("lots"), "cannot read 'lots'; write a number of rows"),
        (lambda: Memory("-5 MB"), "cannot read '-5 MB'"),
        (lambda: Memory(1.5), "1.5 is no limit; write"),
        (lambda: Memory("150%"), "at most 100% of the exact join's need, got 150%; leave it out"),
        (lambda: Memory.from_dict({"share": 1.5}), "at most 100%"),
        (lambda: Memory(True), "True is no limit"),
        (lambda: Memory(None), "None is no limit"),
        (lambda: Memory(5, split={"a": 0}), "the ratio of stream 'a' must be a number above 0, got 0"),
        (lambda: Memory(5, split={"a": "1"}), "above 0, got '1'"),
        (lambda: Memory(5, split={}), "use True for equal parts"),
        (lambda: Memory(5, split="odd"), "split must be True or map streams to ratios"),
        (lambda: Memory.from_dict({"rows": 5, "share": 0.5}), "expected one of"),
        (lambda: Memory.from_dict({"share": "x"}), "a share must be a finite number"),
    ],
)
def test_bad_memory(make: Any, message: str) -> None:
    _refused(make, message)


def _refused(make: Any, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        make()
    assert message in str(caught.value)
