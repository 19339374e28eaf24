"""Worked examples of the k-constraints paper (Babu, Srivastava, Widom: section C of the papers windrow is built from).

Every example is a query, what is promised, and rows in one order, and is played by the slow twin and by an engine. The
state that a figure shows is brought about by letting its rows arrive. Where windrow departs from the paper
(docs/decisions/0030), the test says so.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tests import kmon_engine, kmon_twin
from tests.kmon_twin import Outcome

from windrow.spec import Query, Stream
from windrow.spec.constraints import Clustered, Constraint, Integrity, Ordered, Unique

Row = tuple[str, int, int]

run = kmon_twin.run


def query(columns: dict[str, str], on: list[str], where: dict[str, Any] | None = None) -> Query:
    streams = [Stream(name, where=[where[name]] if where and name in where else []) for name in columns]
    return Query(streams=streams, on=on, order="arrival")


@pytest.fixture(params=[kmon_twin.run, kmon_engine.run], ids=["twin", "engine"], autouse=True)
def who(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every example is played by the slow twin and by the engine."""
    monkeypatch.setattr(sys.modules[__name__], "run", request.param)


def play(asked: Query, columns: dict[str, str], constraints: list[Constraint], rows: list[Row]) -> Outcome:
    arrivals = [(name, dict(zip(columns[name], values, strict=True))) for name, *values in rows]
    return run(asked, constraints, arrivals)


# ---------------------------------------------------------------------------------------- figure 2 (a)
# S1(A, B) -> S2(A, C) and S1 -> S3(B, D), filter D < 8 on S3.

STAR = {"S1": "AB", "S2": "AC", "S3": "BD"}
STAR_QUERY = query(STAR, ["S1.A = S2.A", "S1.B = S3.B"], {"S3": ("D", "<", 8)})
STAR_KEYS: list[Constraint] = [Unique("S2", "A"), Unique("S3", "B")]
FIGURE_2A: list[Row] = [("S2", 6, 20), ("S2", 4, 15), ("S3", 7, 9), ("S3", 5, 3), ("S3", 10, 12)]


def star(constraints: list[Constraint], *rows: Row) -> Outcome:
    return play(STAR_QUERY, STAR, [*STAR_KEYS, *constraints], [*FIGURE_2A, *rows])


def test_figure_2a() -> None:
    state = star([])
    assert state.synopsis("S2") == {"yes": [(4, 15), (6, 20)]}
    assert state.synopsis("S3") == {"yes": [(5, 3)], "no": [(7, 9), (10, 12)]}


def test_example_3_1() -> None:
    after = star([], ("S1", 6, 5), ("S1", 8, 10))
    assert after.emitted(-2) == [((6, 5), (6, 20), (5, 3))]
    assert list(after.steps[-2].released) == [5], "Theorem 3.5: a row of the only root that is Yes is not kept"
    assert after.emitted(-1) == []
    assert list(after.steps[-1].released) == [6], "its child in S3 is No, and a root keeps no No rows"
    assert after.synopsis("S1") == {}


def test_example_4_1() -> None:
    promised: list[Constraint] = [Integrity("S1", "S3", k=1)]
    before = star(promised, ("S1", 4, 10))
    assert before.synopsis("S3") == {"yes": [(5, 3)]}, "No rows of S3 are not kept"
    assert before.synopsis("S1") == {"unknown": [(4, 10)]}
    after = star(promised, ("S1", 4, 10), ("S3", 2, 1))
    assert after.synopsis("S1") == {}, "the next row of S3 was not its child"
    assert star(promised, ("S1", 4, 2), ("S3", 2, 1)).emitted() == [((4, 2), (4, 15), (2, 1))]


def test_example_5_1() -> None:
    rows: list[Row] = [("S1", 6, 5), ("S1", 8, 8), ("S1", 4, 5)]
    before = star([Clustered("S1", "B", k=1)], *rows)
    assert before.emitted(-3) == [((6, 5), (6, 20), (5, 3))]
    assert before.emitted(-1) == [((4, 5), (4, 15), (5, 3))]
    assert before.synopsis("S3") == {"yes": [(5, 3)], "no": [(7, 9), (10, 12)]}
    after = star([Clustered("S1", "B", k=1)], *rows, ("S1", 11, 10))
    assert after.synopsis("S1") == {"unknown": [(8, 8)]}
    assert after.synopsis("S3") == {"no": [(7, 9), (10, 12)]}, "two rows that are not 5 have come since the first 5"


def test_example_8_1() -> None:
    rows: list[Row] = [("S1", 4, 5), ("S1", 6, 8), ("S1", 3, 13)]
    clustered, ordered = Clustered("S1", "A", k=0), Ordered("S3", "B", k=0)
    ordered_rows = sorted(FIGURE_2A, key=lambda row: (row[0], row[1]))  # 5, 7, 10: OAC(0) must hold on S3.B
    by = {
        name: play(STAR_QUERY, STAR, [*STAR_KEYS, *promised], [*ordered_rows, *rows])
        for name, promised in {"ca": [clustered], "oac": [ordered], "both": [clustered, ordered]}.items()
    }
    assert all(outcome.emitted(-3) == [((4, 5), (4, 15), (5, 3))] for outcome in by.values())
    assert by["ca"].synopsis("S1") == {"unknown": [(3, 13), (6, 8)]}
    assert by["ca"].synopsis("S2") == {"yes": [(6, 20)]}
    assert by["oac"].synopsis("S1") == {"unknown": [(3, 13)]}
    assert by["oac"].synopsis("S2") == {"yes": [(4, 15), (6, 20)]}
    assert by["both"].synopsis("S1") == {"unknown": [(3, 13)]}
    assert by["both"].synopsis("S2") == {}, "together they release a row that neither does alone"


def test_example_8_2() -> None:
    rows: list[Row] = [("S1", 6, 10), ("S1", 4, 10), ("S1", 8, 8)]
    clustered, within = Clustered("S1", "B", k=0), Integrity("S1", "S3", k=3)
    alone = star([clustered], *rows)
    assert alone.synopsis("S1") == {"unknown": [(8, 8)]}
    assert alone.synopsis("S3") == {"yes": [(5, 3)], "no": [(7, 9)]}
    both = star([clustered, within], *rows)
    assert both.synopsis("S1") == {"unknown": [(4, 10), (6, 10), (8, 8)]}, "the No row that would tell is not kept"
    more: list[Row] = [("S3", 20, 1), ("S3", 21, 1)]
    assert star([clustered, within], *rows, *more).synopsis("S1") == {"unknown": [(4, 10), (6, 10), (8, 8)]}
    assert star([clustered, within], *rows, *more, ("S3", 22, 1)).synopsis("S1") == {}


def test_example_f_1() -> None:
    after = star([Ordered("S3", "B", k=2)], ("S1", 6, 4))
    assert after.synopsis("S3") == {"yes": [(5, 3)]}, "No rows of S3 are not kept"
    assert after.synopsis("S1") == {}, "B has passed 7, so 4 will not come: released at once"
    assert star([Ordered("S3", "B", k=2)], ("S1", 6, 7)).synopsis("S1") == {"unknown": [(6, 7)]}


# ---------------------------------------------------------------------------------------- figure 2 (b)
# S1(A, B) -> S2(B, C) -> S3(C, D), a filter on S3.D that 12 passes.

CHAIN = {"S1": "AB", "S2": "BC", "S3": "CD"}
CHAIN_QUERY = query(CHAIN, ["S1.B = S2.B", "S2.C = S3.C"], {"S3": ("D", ">", 10)})
CHAIN_KEYS: list[Constraint] = [Unique("S2", "B"), Unique("S3", "C")]


def test_example_3_2() -> None:
    rows: list[Row] = [("S2", 2, 4), ("S1", 1, 2)]
    before = play(CHAIN_QUERY, CHAIN, CHAIN_KEYS, rows)
    assert before.synopsis("S2") == {"unknown": [(2, 4)]}
    assert before.synopsis("S1") == {"unknown": [(1, 2)]}
    after = play(CHAIN_QUERY, CHAIN, CHAIN_KEYS, [*rows, ("S3", 4, 12)])
    assert after.emitted() == [((1, 2), (2, 4), (4, 12))]
    assert after.synopsis("S3") == {"yes": [(4, 12)]}
    assert after.synopsis("S2") == {"yes": [(2, 4)]}
    assert after.synopsis("S1") == {}, "Yes, and S1 alone covers"


def test_a_filtered_child_reaches_the_root_through_the_chain() -> None:
    rows: list[Row] = [("S2", 2, 4), ("S1", 1, 2), ("S3", 4, 7)]
    after = play(CHAIN_QUERY, CHAIN, CHAIN_KEYS, rows)
    assert after.synopsis("S3") == {"no": [(4, 7)]}
    assert after.synopsis("S2") == {"no": [(2, 4)]}
    assert after.synopsis("S1") == {}


# --------------------------------------------------------------------------------------------- figure 17
# The figures' own rows are not in the text; these are rows as it describes them.

DIAMOND = {"S1": "AB", "S2": "AC", "S3": "BC", "S4": "CD"}
DIAMOND_QUERY = query(DIAMOND, ["S1.A = S2.A", "S1.B = S3.B", "S2.C = S4.C", "S3.C = S4.C"])
DIAMOND_KEYS: list[Constraint] = [Unique("S2", "A"), Unique("S3", "B"), Unique("S4", "C")]


def test_example_c_1() -> None:
    """Both children of (3, 4) are Yes and lead to different rows of S4: no match, and none to come."""
    rows: list[Row] = [("S4", 5, 0), ("S4", 6, 0), ("S2", 3, 5), ("S3", 4, 6)]
    before = play(DIAMOND_QUERY, DIAMOND, DIAMOND_KEYS, rows)
    assert before.synopsis("S2") == {"yes": [(3, 5)]}
    assert before.synopsis("S3") == {"yes": [(4, 6)]}
    after = play(DIAMOND_QUERY, DIAMOND, DIAMOND_KEYS, [*rows, ("S1", 3, 4)])
    assert after.matches.total() == 0
    assert after.synopsis("S1") == {}, "all that it reaches has arrived, so no match of it can come: released"


def test_a_diamond_that_closes_is_a_match() -> None:
    rows: list[Row] = [("S4", 5, 0), ("S2", 3, 5), ("S1", 3, 4), ("S3", 4, 5)]
    after = play(DIAMOND_QUERY, DIAMOND, DIAMOND_KEYS, rows)
    assert after.emitted() == [((3, 4), (3, 5), (4, 5), (5, 0))]
    assert after.synopsis("S1") == {}


CYCLE = {"S1": "AB", "S2": "BC", "S3": "CA"}
CYCLE_QUERY = query(CYCLE, ["S1.B = S2.B", "S2.C = S3.C", "S3.A = S1.A"])
CYCLE_KEYS: list[Constraint] = [Unique("S1", "A"), Unique("S2", "B"), Unique("S3", "C")]


def test_example_d_1() -> None:
    waiting: list[Row] = [("S3", 3, 1), ("S2", 2, 3)]
    before = play(CYCLE_QUERY, CYCLE, CYCLE_KEYS, waiting)
    assert before.synopsis("S3") == {"unknown": [(3, 1)]}
    assert before.synopsis("S2") == {"unknown": [(2, 3)]}
    closed = play(CYCLE_QUERY, CYCLE, CYCLE_KEYS, [*waiting, ("S1", 1, 2)])
    assert closed.emitted() == [((1, 2), (2, 3), (3, 1))]
    # Every stream of the cycle covers it, so no row of the match can be in another: they are kept as No rows, to tell.
    assert [closed.synopsis(name) for name in CYCLE] == [{"no": [(1, 2)]}, {"no": [(2, 3)]}, {"no": [(3, 1)]}]
    after = play(CYCLE_QUERY, CYCLE, CYCLE_KEYS, [*waiting, ("S1", 1, 2), ("S1", 4, 2)])
    assert after.matches.total() == 1
    assert after.synopsis("S1") == {"no": [(1, 2), (4, 2)]}, "(4, 2) leads to (2, 3), which leads to another row of S1"


@pytest.mark.parametrize("late", ["S1", "S2", "S3", "X"])
def test_a_cycle_with_a_child_outside_waits_for_it(late: str) -> None:
    """Figure 19, taken literally, calls the rows of a cycle Yes when it closes, though a child outside is missing."""
    columns = {"S1": "AB", "S2": "BC", "S3": "CA", "X": "CD"}
    asked = query(columns, ["S1.B = S2.B", "S2.C = S3.C", "S3.A = S1.A", "S3.C = X.C"])
    rows: list[Row] = [("S1", 1, 2), ("S2", 2, 3), ("S3", 3, 1), ("X", 3, 9)]
    rows.sort(key=lambda row: row[0] == late)
    after = play(asked, columns, [*CYCLE_KEYS, Unique("X", "C")], rows)
    assert after.emitted() == [((1, 2), (2, 3), (3, 1), (3, 9))]


@pytest.mark.parametrize("order", ["SAX", "SXA", "ASX", "AXS", "XSA", "XAS"])
@pytest.mark.parametrize("joins", [True, False])
def test_a_triangle_over_a_child_that_is_also_a_grandchild(order: str, joins: bool) -> None:
    """S -> A -> X and S -> X: figure 18 compares paths to grandchildren alone, and takes S for Yes when they differ."""
    columns = {"S": "AX", "A": "AX", "X": "XD"}
    asked = query(columns, ["S.A = A.A", "A.X = X.X", "S.X = X.X"])
    rows: dict[str, list[Row]] = {
        "S": [("S", 1, 7)], "A": [("A", 1, 7 if joins else 8)], "X": [("X", 7, 0), ("X", 8, 0)],
    }  # fmt: skip
    after = play(asked, columns, [Unique("A", "A"), Unique("X", "X")], [row for name in order for row in rows[name]])
    assert after.matches.total() == int(joins)
    assert after.synopsis("S") == {}, "all below it has arrived"


# ------------------------------------------------------------------------------------------- figure 3 (b)


def test_with_two_roots_a_matched_root_row_stays() -> None:
    """S1 -> S3 <- S2: a row of S1 that has matched matches again when another S2 row comes."""
    columns = {"S1": "KA", "S2": "KA", "S3": "KA"}
    asked = query(columns, ["S1.K = S3.K", "S2.K = S3.K"])
    keys: list[Constraint] = [Unique("S3", "K")]
    rows: list[Row] = [("S3", 1, 0), ("S1", 1, 0), ("S2", 1, 0)]
    matched = play(asked, columns, keys, rows)
    assert matched.synopsis("S1") == {"yes": [(1, 0)]}
    assert play(asked, columns, keys, [*rows, ("S2", 1, 1)]).emitted() == [((1, 0), (1, 1), (1, 0))]
    clustered: list[Constraint] = [Clustered("S1", "K", k=0), Clustered("S2", "K", k=0)]
    over = play(asked, columns, [*keys, *clustered], [*rows, ("S1", 2, 0), ("S2", 2, 0)])
    assert over.synopsis("S3") == {}, "both roots have left 1 behind, and none waits: the row goes"
    assert over.synopsis("S1") == {"unknown": [(2, 0)]}, "and its parents go with it"


# --------------------------------------------------------------------------------------- unique on both sides


def test_a_pair_that_is_unique_on_both_sides_goes_at_once() -> None:
    columns = {"L": "KA", "R": "KA"}
    keys: list[Constraint] = [Unique("L", "K"), Unique("R", "K")]
    rows: list[Row] = [("L", 1, 0), ("L", 2, 0), ("R", 1, 0)]
    after = play(query(columns, ["L.K = R.K"]), columns, keys, rows)
    assert after.emitted() == [((1, 0), (1, 0))]
    assert after.synopsis("L") == {"unknown": [(2, 0)]}
    assert after.synopsis("R") == {}


def test_with_three_streams_unique_rows_go_after_the_complete_match() -> None:
    columns = {"C": "PA", "B": "PA", "O": "PA"}
    keys: list[Constraint] = [Unique(name, "P") for name in columns]
    rows: list[Row] = [("C", 1, 0), ("B", 1, 0), ("O", 1, 0)]
    asked = query(columns, ["C.P = B.P", "B.P = O.P"])
    waiting = play(asked, columns, keys, rows[:2])
    assert [len(waiting.synopsis(name)) for name in columns] == [1, 1, 0]
    assert play(asked, columns, keys, rows).steps[-1].resident == {}
