"""Constraints in a query: what is read, what is refused, and the join graph they make.

Catches: a promise that is read as another one, or silently has no effect; a graph in which something reaches, or
covers, what it does not.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from tests.kmon_cases import Case, cases
from tests.kmon_twin import Graph as SlowGraph

import windrow as wr
from windrow.errors import SpecError
from windrow.spec import Duration, join_graph, useful
from windrow.spec.constraints import parse_constraints

CLICKS = wr.Query(
    streams=[wr.Stream("impressions", "ts", "1 hour"), wr.Stream("clicks", "ts", "1 hour")],
    on=["clicks.impression = impressions.id", "clicks.page = impressions.page"],
)


def test_a_text_in_k_is_a_time_and_a_number_is_rows() -> None:
    assert wr.Integrity("clicks", "impressions", k=5).k == 5
    assert wr.Integrity("clicks", "impressions", k="5 seconds").k == Duration(5 * 10**9, "ns")
    assert wr.Ordered("clicks", "page", k=timedelta(seconds=1)).k == Duration(10**9, "ns")
    assert wr.Clustered("clicks", "page", k="5 steps").k == Duration(5, "steps")
    with pytest.raises(SpecError, match="'5' has no unit: write the number 5 for arrivals, or '5 seconds'"):
        wr.Ordered("clicks", "page", k="5")


def test_json_tells_rows_from_steps_of_time() -> None:
    for k in (5, "5 steps", "5 seconds"):
        constraint = wr.Clustered("clicks", ["page", "impression"], k=k)
        assert wr.Clustered.from_json(constraint.to_json()) == constraint
    assert wr.Ordered("a", "x", k=5).to_dict()["k"] != wr.Ordered("a", "x", k="5 steps").to_dict()["k"]


def test_a_query_keeps_what_is_declared() -> None:
    promised = [wr.Unique("impressions", "id"), wr.Integrity("clicks", "impressions", k="5 s")]
    query = CLICKS.with_(constraints=promised, on_violation="demote")
    assert query.constraints == tuple(promised)
    assert wr.Query.from_json(query.to_json()) == query
    assert query.with_(constraints="watch").constraints == wr.Monitored(release=False)
    assert CLICKS.with_(constraints=promised[0]).constraints == (promised[0],)
    assert CLICKS.with_(constraints=[]).constraints is None
    assert wr.Query.from_dict({k: v for k, v in CLICKS.to_dict().items() if k != "constraints"}) == CLICKS


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ("warch", "constraints must be None, 'watch', 'auto' or a list of constraints, got 'warch'"),
        (5, "got 5"),
        ([5], "got 5 in it"),
        ({"kind": "unique"}, "got {'kind': 'unique'}"),
        ([wr.Unique("clicks", "page")] * 2, "is declared twice: leave one out"),
        ([wr.Unique("click", "page")], "which the query does not have; did you mean 'clicks'"),
        ([wr.Unique("clicks", "user")], "no join has this column of 'clicks'; it is joined by impression, page"),
        ([wr.Clustered("clicks", ["page", "user"])], "no join has all of these columns of 'clicks'"),
        ([wr.Ordered("clicks", "ts")], "releases nothing: no join has this column of 'clicks'"),
        ([wr.Ordered("clicks", "page", k="5 steps")], "k is 5 steps, but event times of this query are seconds"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(given_: Any, says: str) -> None:
    with pytest.raises(SpecError) as error:
        CLICKS.with_(constraints=given_)
    assert says in str(error.value)


def test_what_makes_no_sense_for_the_query_is_refused() -> None:
    chain = wr.Query(streams=[wr.Stream(name) for name in "abc"], on=["a.x = b.x", "b.y = c.y"])
    with pytest.raises(SpecError, match="no predicate joins 'a' with 'c'"):
        chain.with_(constraints=[wr.Integrity("a", "c")])
    with pytest.raises(SpecError, match="stream 'a' has no time column: set time=, or give k in rows"):
        chain.with_(constraints=[wr.Ordered("a", "x", k="5 s")])
    with pytest.raises(SpecError, match="this query names its joins"):
        chain.with_(on={"one": ["a.x = b.x"], "two": ["b.y = c.y"]}, constraints="auto")
    with pytest.raises(SpecError, match="on_violation='demote' is for rows that constraints release"):
        chain.with_(on_violation="demote")
    with pytest.raises(SpecError, match="between two streams, got 'a' twice"):
        wr.Integrity("a", "a")
    for bad in ([], ["x", "x"], 5, ["x", ""]):
        with pytest.raises(SpecError):
            wr.Unique("a", bad)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="needs the name of a stream"):
        wr.Unique("a.x", "x")
    with pytest.raises(SpecError, match="must be an object with a 'kind'"):
        parse_constraints([{"stream": "a"}])


@given(cases())
def test_the_graph_is_the_slow_ones(case: Case) -> None:
    slow, fast = SlowGraph(case.query, case.constraints), join_graph(case.query, case.constraints)
    for stream in range(len(case.query.streams)):
        assert list(fast.neighbours(stream)) == slow.neighbours[stream]
        assert list(fast.children[stream]) == slow.children(stream)
        assert list(fast.parents(stream)) == slow.parents(stream)
        assert fast.reach(stream) == slow.reach[stream]
        minimal = fast.covers_beside(stream)
        every = {(frozenset(group), own) for group, own in slow.covers[stream]}
        assert {(frozenset(c.neighbours), c.own) for c in minimal} <= every
        for group, own in every:
            assert any(set(c.neighbours) <= group and (own or not c.own) for c in minimal)


@given(cases())
def test_what_is_called_useful_can_be_declared(case: Case) -> None:
    constraints = useful(case.query)
    assert case.query.with_(constraints=constraints).constraints == tuple(constraints)
    assert {type(c) for c in case.constraints} <= {type(c) for c in constraints}
    assert all(any(c.with_(**_without_k(c, d)) == d for d in constraints) for c in case.constraints)


def _without_k(constraint: Any, like: Any) -> dict[str, Any]:
    return {"k": like.k} if hasattr(constraint, "k") and hasattr(like, "k") else {}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_minimal_covers_of_a_star(count: int) -> None:
    """One root covers a star; turned round, all its roots are needed."""
    names = ["hub", *(f"s{k}" for k in range(count))]
    on = [f"hub.k{k} = s{k}.id" for k in range(count)]
    query = wr.Query(streams=[wr.Stream(name) for name in names], on=on)
    out = join_graph(query, [wr.Unique(name, "id") for name in names[1:]])
    assert out.minimal_covers() == [(0,)]
    turned = join_graph(query, [wr.Unique("hub", f"k{k}") for k in range(count)])
    assert turned.minimal_covers() == [tuple(range(1, count + 1))]


def test_how_rows_are_demoted_is_read_and_written() -> None:
    query = wr.Query(streams=[wr.Stream("a", "t", 5), wr.Stream("b", "t", 5)], on="k", constraints=wr.Unique("a", "k"))
    assert query.demotes is None
    assert query.with_(on_violation="demote").demotes == wr.Demote()
    own = query.with_(on_violation=wr.Demote("scratch", disk="2 GB"))
    assert wr.Query.from_json(own.to_json()) == own and own.demotes.disk == 2_000_000_000
    assert own.fixed() == query.with_(on_violation="demote").fixed() != query.fixed()  # the folder may change
    with pytest.raises(SpecError, match="on_violation must be one of 'lose', 'demote'"):
        query.with_(on_violation="spill")
    with pytest.raises(SpecError, match="Demote: disk"):
        wr.Demote(disk=10)


def test_promises_that_differ_in_k_alone_have_a_line_each() -> None:
    promised = [wr.Clustered("a", "k", 1), wr.Clustered("a", "k", 7), wr.Clustered("a", "k", "3 steps")]
    query = wr.Query(streams=[wr.Stream("a", "t", 5), wr.Stream("b", "t", 5)], on="k", constraints=promised)
    engine = wr.Engine(query, {name: pa.schema([("t", pa.int64()), ("k", pa.int64())]) for name in query.names})
    found = {text: line.k for text, line in engine.metrics.constraints.items()}
    one = "a is clustered on k"
    assert found == {f"{one} within 1 rows": 1, f"{one} within 7 rows": 7, f"{one}, in time": 3}


@pytest.mark.parametrize("demote", ["demote", wr.Demote(disk="2 GB")])
def test_rows_on_disk_and_deletions_do_not_go_together(demote: object) -> None:
    streams = [wr.Stream("a", "t", 5, sign="op"), wr.Stream("b", "t", 5)]
    with pytest.raises(SpecError, match="brings deletions, which do not find rows on disk"):
        wr.Query(streams=streams, on="k", constraints="auto", on_violation=demote)
