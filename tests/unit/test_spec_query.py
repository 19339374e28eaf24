"""Whole queries.

Catches: parts that do not fit together, shorthands that mean something else, fingerprints that change when
they must not or stay when they must change, JSON that loses a field or breaks the reader.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit import spec_strategies as some

from windrow import policies
from windrow.engine.bind import bind
from windrow.errors import DuplicateColumn, SpecError, UnknownPolicy
from windrow.spec import Band, Duration, Equal, Filter, Memory, Query, Stream, Value, Window, pair_query
from windrow.spec.joins import NamedJoin
from windrow.statistics import Sketch

A, B, C, D = (Stream(name, "t", "10 s") for name in "abcd")
EQUAL = Equal("a.k", "b.k")


def query(**changes: Any) -> Query:
    return Query(**{"streams": [A, B], "on": "k", **changes})


# ----------------------------------------------------------------------------------------------- meaning


def test_a_column_name_is_a_chain_of_equalities() -> None:
    made = query(streams=[A, B, C], on=["k", "m"])
    assert made.on == (
        Equal("a.k", "b.k"),
        Equal("b.k", "c.k"),
        Equal("a.m", "b.m"),
        Equal("b.m", "c.m"),
    )


def test_columns_with_dots_are_names_too() -> None:
    assert query(on="user.id").on == (Equal("a.user.id", "b.user.id"),)


def test_predicates_and_names_mix() -> None:
    band = Band("a.x", "b.x", 3)
    assert query(on=["k", band]).on == (Equal("a.k", "b.k"), band)
    assert query(on=band).on == (band,)


def test_values_are_stored_in_their_own_types() -> None:
    made = query(memory="64 MB", policy="prob", patience="1 min", select="a.x")
    assert made.memory == Memory("64 MB")
    assert made.policy == policies.Prob()
    assert made.patience == Duration(60 * 10**9, "ns")
    assert made.select is not None
    assert query().memory is None


def test_probe_order_is_kept_in_the_order_of_streams() -> None:
    made = query(streams=[A, B, C], probe_order={"c": "ab", "a": ["c", "b"], "b": ("a", "c")} | {"c": ["b", "a"]})
    assert made.probe_order == (("a", ("c", "b")), ("b", ("a", "c")), ("c", ("b", "a")))
    assert query(probe_order={"a": "b", "b": "a"}).probe_order == (("a", ("b",)), ("b", ("a",)))


def test_with_changes_and_checks_anew() -> None:
    made = query()
    assert made.with_(memory=5).memory == Memory(5)
    assert made.with_(memory=5).with_(memory=None) == made
    assert made.with_window("a", "5 s").stream("a").window == Window.time("5 s")
    with pytest.raises(SpecError, match="did you mean 'memory'"):
        made.with_(memry=5)
    with pytest.raises(SpecError, match="at least two streams"):
        made.with_(streams=[A])
    with pytest.raises(SpecError, match="no stream 'z'"):
        made.with_window("z", "5 s")


def test_streams_without_times_may_meet_streams_with_times_in_arrival_order() -> None:
    rows = Stream("b", window=Window.rows(5))
    query(streams=[Stream("a", "t"), rows], order="arrival")
    with pytest.raises(SpecError, match="no common order"):
        query(streams=[Stream("a", "t"), rows])
    with pytest.raises(SpecError, match="no common order"):
        query(streams=[A, rows], order="arrival")


def test_row_window_needs_an_order() -> None:
    late = Stream("a", "t", Window.rows(5), lateness="1 s")
    with pytest.raises(SpecError, match="set order='arrival' or lateness=0"):
        query(streams=[late, B])
    query(streams=[late, B], order="arrival")
    query(streams=[Stream("a", "t", Window.rows(5)), B])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"streams": [A]}, "at least two streams, got 1"),
        ({"streams": []}, "at least two streams, got 0"),
        ({"streams": [A, A]}, "two streams are called 'a'"),
        ({"streams": ["a", "b"]}, "a list of Stream, got 'a' in it"),
        ({"streams": A}, "a list of Stream"),
        ({"on": []}, "no predicate connects the stream 'b' with 'a'"),
        ({"streams": [A, B, C], "on": Equal("a.k", "b.k")}, "such as Equal('a.column', 'c.column')"),
        ({"on": Equal("a.k", "z.k")}, "names the stream 'z', which the query does not have"),
        ({"on": "a.k"}, "or Equal('a.k', 'other.column')"),
        ({"on": 5}, "on must be a column of all streams"),
        ({"on": [5]}, "expected a column name or a predicate, got 5"),
        ({"on": "a.k <= b.k"}, "names a column of one stream"),
        ({"on": "user = customer"}, "whose columns these are: write 'a.user = b.customer'"),
        ({"on": "k==k"}, "write 'a.k = b.k'"),
        ({"on": {}}, "on is an empty mapping"),
        ({"on": {"one": []}}, "the join 'one' has no predicate"),
        ({"on": {"": "k"}}, "the name of a join must be a text"),
        ({"on": {5: "k"}}, "the name of a join must be a text"),
        ({"on": {"one": {"two": "k"}}}, "the join 'one' must have a list of predicates"),
        ({"on": {"one": 5}}, "on must be a column of all streams"),
        ({"on": {"one": "a.k = z.k"}}, "names the stream 'z', which the query does not have"),
        ({"on": (NamedJoin("one", (EQUAL,)), NamedJoin("one", (EQUAL,)))}, "two joins are called 'one'"),
        ({"on": {f"{k}": "k" for k in range(63)}}, "at most 62"),
        ({"streams": [A, B, C], "on": {"one": EQUAL}}, "the stream 'c' is in none of the joins"),
        (
            {"streams": [A, B, C, D], "on": {"one": ["a.k = b.k", "c.k = d.k"], "two": "k"}},
            "the join 'one': no predicate connects the stream 'c' with 'a'",
        ),
        ({"streams": [A, B, C], "on": {"x": "k", "y": EQUAL}, "select": "c.k"}, "of the streams of the join 'y'"),
        ({"on": {"one": "k"}, "value": Value({"a": "k"})}, "this query names its joins"),
        ({"on": {"one": "k"}, "probe_order": {"a": "b", "b": "a"}}, "leave it to the engine"),
        ({"select": ["z.k"]}, "select names the stream 'z'"),
        ({"value": Value({"z": "k"})}, "value names the stream 'z'"),
        ({"value": "a.k"}, "value must be a Value"),
        ({"memory": "much"}, "memory: cannot read 'much'"),
        ({"memory": Memory(5, split={"a": 1, "z": 1})}, "the split of memory names the stream 'z'"),
        ({"memory": Memory(5, split={"a": 1})}, "gives nothing to the stream 'b'"),
        ({"on_full": "spill"}, "on_full must be one of 'shed', 'fail', got 'spill'"),
        ({"order": "random"}, "order must be one of 'time', 'arrival'"),
        ({"patience": "-1 s"}, "patience must not be negative"),
        ({"patience": 5}, "'patience' measures time in whole numbers"),
        ({"streams": [A, Stream("b", "t", 10)]}, "'b' measures time in whole numbers, 'a' in seconds"),
        ({"streams": [Stream("a"), Stream("b")], "patience": "1 s"}, "no stream has a time column"),
        ({"probe_order": {"a": ["b"]}}, "probe_order lacks the stream 'b'"),
        ({"probe_order": {"a": ["b"], "b": ["b"]}}, "probe_order of 'b' must visit each of a once, got b"),
        ({"probe_order": {"a": ["b"], "b": []}}, "got nothing"),
        ({"probe_order": {"a": ["b"], "b": ["a"], "z": []}}, "probe_order names the stream 'z'"),
        ({"probe_order": 5}, "must map each stream"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"seed": 2**63}, "seed must be at most"),
        ({"seed": "x"}, "seed must be a whole number"),
    ],
)
def test_bad_queries(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        query(**changes)
    assert message in str(caught.value)


def test_errors_have_their_own_classes() -> None:
    with pytest.raises(UnknownPolicy, match="did you mean 'prob'"):
        query(policy="porb")
    with pytest.raises(DuplicateColumn, match="both named 'x'"):
        query(select=["a.x", "b.x"])


# -------------------------------------------------------------------------------------------------- JSON


@given(some.queries())
def test_json_reads_back_as_the_same(made: Query) -> None:
    again = Query.from_json(made.to_json())
    assert again == made
    assert hash(again) == hash(made)
    assert again.to_json() == made.to_json()
    assert again.fixed() == made.fixed()


def test_json_is_plain_to_read() -> None:
    data = json.loads(query(memory="64 MB").to_json())
    assert data["version"] == 1
    assert data["streams"][0]["window"] == {
        "kind": "time",
        "size": "10 seconds",
        "since": None,
        "closed": "right",
    }
    assert data["on"] == [{"kind": "equal", "left": "a.k", "right": "b.k"}]
    assert data["memory"] == {"bytes": 64_000_000, "split": None}
    assert data["policy"] == {"name": "auto"}
    prob = json.loads(query(policy="prob").to_json())["policy"]
    assert prob == {"name": "prob", "statistics": {"name": "running"}}


def _edited(path: str, value: Any) -> str:
    data = json.loads(query(memory=5, select="a.x", value=Value({"a": "x"}), policy="prob").to_json())
    *parents, last = path.split("/")
    place: Any = data
    for name in parents:
        place = place[int(name) if name.isdigit() else name]
    place[last] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("version", 2, "this windrow reads version 1"),
        ("version", "1", "version '1' is unknown here"),
        ("polcy", "prob", "Query has no field 'polcy'; did you mean 'policy'?"),
        ("streams", "a", "streams must be a list"),
        ("streams", [1, 2], "Stream: expected an object"),
        ("streams/0/windw", 1, "Stream has no field 'windw'; did you mean 'window'?"),
        ("streams/0/window/size", "soon", "cannot read 'soon'"),
        ("streams/0/window", 5, "Window: expected an object"),
        ("on/0/kind", "equals", "there is no predicate 'equals'; did you mean 'equal'?"),
        ("on", [{"left": "a.k"}], "an object with a 'kind'"),
        ("on/0/left", 5, "got 5"),
        ("select", [{}], "Output: the field 'column' is missing"),
        ("value", 3, "Value: expected an object"),
        ("memory", {"rows": 1, "bytes": 1}, "Memory: expected one of"),
        ("memory/color", 1, "Memory has no field 'color'"),
        ("policy", {"name": "prob", "speed": 1}, "Prob has no field 'speed'"),
        ("policy", {}, "has no 'name'"),
        ("policy/statistics", {"name": "guess"}, "there is no statistic 'guess'"),
    ],
)
def test_bad_json(path: str, value: Any, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        Query.from_json(_edited(path, value))
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "null", "{}"])
def test_no_json(text: str) -> None:
    with pytest.raises(SpecError, match=r"^Query: "):
        Query.from_json(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) inside a JSON value."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    return [place for key in keys for place in [(value, key), *_places(value[key])]]


@given(some.queries(), st.data())
def test_damaged_json_is_refused_with_one_clear_error(made: Query, data: st.DataObject) -> None:
    damaged = json.loads(made.to_json())
    container, key = data.draw(st.sampled_from(_places(damaged)))
    container[key] = data.draw(json_values)
    try:
        Query.from_json(json.dumps(damaged))
    except SpecError as error:
        assert str(error)


def test_missing_fields_take_their_defaults() -> None:
    data = query().to_dict()
    short = {"version": 1, "streams": data["streams"], "on": data["on"]}
    assert Query.from_json(json.dumps(short)) == query()


# ------------------------------------------------------------------------------------------------- fixed


def test_what_may_change_live_is_not_fixed() -> None:
    made = query()
    for other in (
        query(memory="5 MB"),
        query(memory=Memory(5, split=True)),
        query(policy="rand"),
        query(policy=policies.Prob(statistics=Sketch()), sample=0.5),
        query(on_full="fail"),
        query(patience="3 s"),
        query(streams=[A, Stream("b", "t", "10 s", lateness="2 s")]),
        made.with_window("a", "7 s"),
    ):
        assert other.fixed() == made.fixed()


@pytest.mark.parametrize(
    "changes",
    [
        {"on": "m"},
        {"seed": 1},
        {"order": "arrival"},
        {"streams": [A, C]},
        {"streams": [A, Stream("b", "t", Window.time("10 s", closed="both"))]},
        {"streams": [A, Stream("b", "t", "10 s", where=[Filter("x", "=", 1)])]},
        {"select": "a.x"},
    ],
)
def test_the_rest_is_fixed(changes: dict[str, Any]) -> None:
    assert query(**changes).fixed() != query().fixed()


# -------------------------------------------------------------------------------------------------- pairs


def test_pair_query() -> None:
    made = pair_query("k", "ts", "10 min", "64 MB", "fifo", lateness="5 s", seed=3)
    assert made.names == ("left", "right")
    assert made.streams == tuple(Stream(side, "ts", "10 min", "5 s") for side in ("left", "right"))
    assert made.on == (Equal("left.k", "right.k"),)
    assert (made.memory, made.policy, made.seed) == (Memory("64 MB"), policies.Fifo(), 3)


def test_pair_query_per_side() -> None:
    made = pair_query(
        Equal("left.id", "right.user"),
        time={"left": "ts", "right": "at"},
        within={"left": "10 min", "right": Window.rows(5)},
        lateness={"left": "1 s"},
        where={"right": [("x", ">", 1)]},
    )
    left, right = made.streams
    assert (left.time, right.time) == ("ts", "at")
    assert (left.window, right.window) == (Window.time("10 min"), Window.rows(5))
    assert (left.lateness.amount, right.lateness.amount) == (10**9, 0)
    assert (left.where, right.where) == ((), (Filter("x", ">", 1),))


def test_pair_query_without_times_is_unbounded() -> None:
    assert all(stream.window == Window.unbounded() for stream in pair_query("k").streams)
    assert pair_query("k", within=400).streams[0].window == Window.time(400)


@pytest.mark.parametrize("what", ["time", "within", "lateness", "where"])
def test_pair_query_knows_its_sides(what: str) -> None:
    with pytest.raises(SpecError, match=f"{what} has no side 'rigth'; did you mean 'right'"):
        pair_query("k", **{what: {"rigth": "x"}})  # type: ignore[arg-type]


@given(st.integers(1, 10**12), some.window_kinds)
def test_pair_query_takes_windows(size: int, closed: Any) -> None:
    window = Window.time(size, closed)
    assert pair_query("k", within=window).streams[1].window == window


# ----------------------------------------------------------------------------------------- how many


def chained(streams: int, column: Callable[[int], str]) -> Query:
    names = [f"s{k}" for k in range(streams)]
    on = [f"{one}.{column(k)} = {other}.{column(k)}" for k, (one, other) in enumerate(pairwise(names))]
    return Query(streams=[Stream(name, "t", 10) for name in names], on=on)


def test_more_streams_than_a_resident_can_name_are_refused():
    assert len(chained(256, lambda k: f"c{k}").streams) == 256
    with pytest.raises(SpecError, match="256 streams, got 257"):
        chained(257, lambda k: f"c{k}")


def test_more_pairs_of_columns_than_an_access_can_name_are_refused():
    query = chained(46, lambda k: "k")
    schema = pa.schema([("t", pa.int64()), ("k", pa.int64())])
    with pytest.raises(SpecError, match=r"1,035 pairs of columns.* at most 1,024"):
        bind(query, dict.fromkeys(query.names, schema))


def test_text_nested_too_deep_is_refused():
    with pytest.raises(SpecError, match="not JSON"):
        Query.from_json("[" * 100_000)
