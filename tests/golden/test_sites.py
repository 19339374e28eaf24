"""Figure 5 and algorithms 7 to 9 of "Distributed stream join query processing with semijoins" (2010), step by step.

Catches: values and counts that are not those of the worked example, rows that are sent twice or never, counts that
include rows that were never sent, a copy whose first rows are not the oldest.

Times are ours: the example has none. W2 is [18], intervals are 10 long.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from windrow.sites import Plan
from windrow.sites.course import Course
from windrow.sites.messages import Part
from windrow.sites.mixed import Answer, Ask, Choose, Meet, Tell
from windrow.sites.network import Network
from windrow.sites.semijoins import Copied, Unsent
from windrow.sites.site import Site
from windrow.spec import Query, Stream

SCHEMA = pa.schema([("t", pa.int64()), ("j", pa.string()), ("v", pa.string())])


def steps(program: str, dense: bool = True) -> dict[str, Any]:
    """The steps of S1 -> S2, each at its site, to be run by hand."""
    query = Query(streams=[Stream("s1", "t", 18), Stream("s2", "t", 18)], on="j",
                  select=[(f"{s}.{c}", f"{s}_{c}") for s in ("s1", "s2") for c in ("t", "j", "v")])  # fmt: skip
    sequences = {"s1": [("s2", program)], "s2": [("s1", "SP-D")]}
    plan = Plan(query, {"s1": "N1", "s2": "N2"}, sequences, interval=10, dense_counts=dense)
    network = Network(plan, {"s1": SCHEMA, "s2": SCHEMA})
    sites = [Site(network, name) for name in ("N1", "N2")]
    return {type(s).__name__: s for site in sites for s in site.steps if s.edge.head == "s1"}


def rows(step: Any, *found: tuple[int, str, str], stream: str = "s2") -> Part:
    """Rows (time, j, value) in wire form."""
    schema = step.edge.batch if stream == "s2" else step.edge.arriving
    named = {"@time": [t for t, _, _ in found], f"{stream}.j": [j for _, j, _ in found],
             f"{stream}.v": [v for _, _, v in found], f"{stream}.t": [t for t, _, _ in found]}  # fmt: skip
    return Part(pa.table({f.name: pa.array(named[f.name], f.type) for f in schema}, schema=schema))


def pairs(part: Part) -> list[tuple[str, str]]:
    return list(zip(part.table["s2.j"].to_pylist(), part.table["s2.v"].to_pylist(), strict=True))


BEFORE = [(0, "c", "y"), (1, "a", "x"), (5, "a", "y"), (6, "e", "v")]
NEW = [(21, "d", "x"), (22, "a", "z"), (23, "f", "w")]


def example(dense: bool) -> tuple[dict[str, Any], list[Part]]:
    """The state of figure 5 (a), c and a asked for; then the update of (b)."""
    at = steps("SM-S2", dense)
    answer, ask, meet = at["Answer"], at["Ask"], at["Meet"]
    new, counts, fresh, answered = answer.run(0, [rows(answer, *BEFORE), None, None])
    assert new.table["s2.j"].to_pylist() == ["c", "a", "e"]
    asked = ask.run(0, [rows(ask, (8, "c", ""), (9, "a", ""), stream="s1"), new, counts])[0]
    new, counts, _, answered = answer.run(1, [rows(answer), None, asked])
    assert sorted(pairs(answered)) == [("a", "x"), ("a", "y"), ("c", "y")]
    asked = ask.run(1, [rows(ask, stream="s1"), new, counts])[0]
    assert asked.table.num_rows == 0
    joined = meet.run(0, [rows(meet, (8, "c", ""), (9, "a", ""), stream="s1"), fresh, answered, None])[0]
    assert joined.table.num_rows == 3
    return at, answer.run(2, [rows(answer, *NEW), None, asked])


def test_figure_5() -> None:
    """v_J = <d, f>, v_C = <0, 2, 1, 1, 1> for c, a, e, d, f, and s_F = {<a, z>}; in M2 only a is full then."""
    at, (new, counts, fresh, answered) = example(dense=True)
    assert new.table["s2.j"].to_pylist() == ["d", "f"]
    assert counts.table["n"].to_pylist() == [0, 2, 1, 1, 1]
    assert pairs(fresh) == [("a", "z")]
    assert answered.table.num_rows == 0
    ask, meet = at["Ask"], at["Meet"]
    asked = ask.run(2, [rows(ask, stream="s1"), new, counts])[0]
    assert ask.values.flag.tolist() == [True, False, False, False]  # a is full; e, d and f are partial
    assert ask.values.number.tolist() == [1, 2, 3, 4]
    empty = Part(fresh.table.slice(0, 0))
    meet.run(1, [rows(meet, stream="s1"), empty, empty, None])
    arriving = rows(meet, *((26, j, "") for j in "caedf"), stream="s1")
    joined = meet.run(2, [arriving, fresh, empty, None])[0]
    assert sorted(pairs(joined)) == [("a", "z")]  # y's window has ended at 26: it was 5 + 18
    assert asked.table.num_rows == 0


def test_the_sparse_form_tells_the_same() -> None:
    """Ours: the places of values that are gone, instead of all counts."""
    at, (new, gone, _, _) = example(dense=False)
    assert gone.table["n"].to_pylist() == [0]
    ask = at["Ask"]
    ask.run(2, [rows(ask, stream="s1"), new, gone])
    assert ask.values.number.tolist() == [1, 2, 3, 4]


def test_algorithm_9_asks_once_and_partial_entries_stay_partial() -> None:
    """As printed, the count of a partial entry would become -1 + ...; here it is asked for when it is met, once."""
    at, (new, counts, _, _) = example(dense=True)
    ask, answer = at["Ask"], at["Answer"]
    asked = ask.run(2, [rows(ask, (24, "d", ""), (24, "a", ""), (25, "d", ""), stream="s1"), new, counts])[0]
    assert asked.table["entry"].to_pylist() == [3]
    *_, answered = answer.run(3, [rows(answer), None, asked])
    assert pairs(answered) == [("d", "x")]
    nothing = Part(asked.table.slice(0, 0))
    _, counts, *_ = answer.run(4, [rows(answer), None, nothing])
    assert counts.table["n"].to_pylist() == [0, 0, 1]  # a and d are gone, f is alive until 40
    new, _, fresh, _ = answer.run(5, [rows(answer, (51, "d", "again")), None, nothing])
    assert pairs(fresh) == []  # d, x has gone, so this is another entry, of which nothing was sent
    assert new.table["s2.j"].to_pylist() == ["d"]


def test_algorithm_7_sends_a_row_once() -> None:
    at = steps("SM-S1")
    unsent: Unsent = at["Unsent"]

    def partial(*keys: str) -> Part:
        return Part(pa.table({"s1.j": pa.array(keys, pa.string())}))

    def run(interval: int, keys: tuple[str, ...], *batch: tuple[int, str, str]) -> tuple[list[tuple[str, str]], int]:
        (part,) = unsent.run(interval, [partial(*keys), rows(unsent, *batch), None])
        return sorted(pairs(part)), part.facts["expired"]

    assert run(0, ("a",), *BEFORE) == ([("a", "x"), ("a", "y")], 0)
    assert run(1, ("a", "e", "g"), (11, "a", "z")) == ([("a", "z"), ("e", "v")], 1)  # x was sent and is gone; c was not
    assert run(2, ("a", "c"), (20, "a", "w")) == ([("a", "w")], 3)  # y, v and z: 5, 6 and 11 are behind 30 - 17


def test_algorithm_8_removes_the_oldest_rows_of_the_copy_though_they_came_last() -> None:
    at = steps("SM-S1")
    copied: Copied = at["Copied"]
    schema = at["Unsent"].store.schema

    def run(
        interval: int, expired: int, delta: list[tuple[int, str, str]], *arriving: tuple[int, str, str]
    ) -> list[Any]:
        part = rows(copied, *delta).table.select(schema.names)
        (joined,) = copied.run(interval, [rows(copied, *arriving, stream="s1"), Part(part, {"expired": expired}), None])
        return sorted(pairs(joined))

    assert run(0, 0, [(5, "a", "y"), (7, "a", "z")], (8, "a", "")) == [("a", "y"), ("a", "z")]
    assert run(1, 1, [(2, "e", "v")], (12, "e", ""), (13, "a", "")) == [("a", "y"), ("a", "z"), ("e", "v")]
    assert copied.queue.tolist() == [22, 24]  # e, v was the oldest
    assert run(2, 2, [], (20, "e", ""), (20, "a", "")) == [("a", "y"), ("a", "z")]
    assert copied.queue.tolist() == []


def test_algorithm_5_ships_rows_whose_key_is_among_the_values() -> None:
    at = steps("SM-D1")
    tell: Tell = at["Tell"]
    choose: Choose = at["Choose"]
    told = tell.run(0, [rows(tell, *BEFORE), None])
    (chosen,) = choose.run(0, [rows(choose, (8, "a", "1"), (9, "b", "2"), stream="s1"), *told])
    assert chosen.table["s1.v"].to_pylist() == ["1"]
    choose.run(1, [rows(choose, stream="s1"), *tell.run(1, [rows(tell), None])])
    told = tell.run(2, [rows(tell, *NEW), None])
    assert (told[0].table["s2.j"].to_pylist(), told[1].table["n"].to_pylist()) == (["d", "f"], [0, 2, 1, 1, 1])
    (chosen,) = choose.run(2, [rows(choose, (24, "c", "1"), (25, "f", "2"), stream="s1"), *told])
    assert chosen.table["s1.v"].to_pylist() == ["2"]


@pytest.mark.parametrize("kind", [Answer, Ask, Meet])
def test_every_step_of_the_example_is_there(kind: type) -> None:
    assert kind.__name__ in steps("SM-S2")


def test_a_step_looks_at_what_it_takes_and_not_at_all_that_waits() -> None:
    """A stream that is far ahead of the others: an interval costs the same, however many wait."""

    class Unseen(dict[int, Part]):
        def __iter__(self) -> Any:
            raise AssertionError("somebody looks at all that waits")

    query = Query(streams=[Stream("s1", "t", 18), Stream("s2", "t", 18)], on="j", select=[("s1.t", "a"), ("s2.t", "b")])
    plan = Plan(query, {"s1": "N1", "s2": "N1"}, {"s1": [("s2", "SP-D")], "s2": [("s1", "SP-D")]}, interval=10)
    course = Course(plan, {"s1": SCHEMA, "s2": SCHEMA}, "N1")
    site = course.sites[0]
    site.waiting = {channel: Unseen() for channel in site.waiting}
    for interval in range(50):
        course.take("s1", interval)
    for interval in range(40):
        course.take("s2", interval)
        course.advance()
    assert sorted({len(queue) for queue in site.waiting.values()}) == [0, 10]
