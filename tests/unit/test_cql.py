"""Query texts: what is read, where errors point, how times are found, and what results offer.

Catches: a message that points at the wrong place or names the wrong thing; a text that is taken to mean something
else; types that aggregates or comparisons get wrong.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest

import windrow as wr
from windrow.cql.parsing import MOST_NESTED, parse
from windrow.errors import CqlError, InputError, SpecError, UnknownColumn

PAIR = {
    "L": pa.table({"t": [1, 2, 3], "k": [1, 2, 1], "x": [10, 20, 30]}),
    "R": pa.table({"t": [2, 4], "k": [1, 2], "y": [5, 6]}),
}


def run(text: str, tables: dict[str, pa.Table] | None = None, **options: Any) -> Any:
    """A text over tables, or over those of the pair that it names."""
    query = wr.cql(text)
    given = {name: table for name, table in PAIR.items() if name in query.streams} if tables is None else tables
    return query.run(given, **{"time": "t", **options})


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("Select x Form L", 1, 10, "did not expect 'Form'; expected"),
        ("Select x\nFrom L [Rows 0]", 2, 14, "holds at least one row, got 0"),
        ("Select x From L [Range 3 fortnights]", 1, 24, "cannot read '3 fortnights'"),
        ("Select x From L Where", 1, 22, "the text ends too early"),
        ("Select median(x) From L", 1, 8, "there is no function 'median'"),
        ("Select sum(*) From L", 1, 8, "sum(*) has no meaning: name a column"),
        ("Select x From L Where x = $1", 1, 27, "cannot read '$'"),
        ("Select x From (L [Now]) [Now] as y", 1, 25, "'L' has two windows"),
        ("Select x From L, L", 1, 18, "two sources are called 'L': give one another name with As"),
        ("Select L.z From L", 1, 8, "'L' has no column 'z'. Known columns: t, k, x"),
        ("Select z From L", 1, 8, "no source has a column 'z'"),
        ("Select M.x From L", 1, 8, "From names no source 'M'"),
        ("Select L.x From L, R Where L.k = R.k and\n  t > 3", 2, 3, "is a column of several sources: write L.t or R.t"),
        ("Select x From L [Rows 5],\n  R [Rows 5]", 2, 3, "nothing in Where joins 'R' with 'L'"),
        ("Select x From L Where sum(x) = 1", 1, 23, "an aggregate cannot stand in Where: put it into Having"),
        ("Select x From L Having x > 1", 1, 24, "Having is for groups"),
        ("Select k, x, count(*) From L Group By k", 1, 11, "L.x is neither grouped by nor in an aggregate"),
        ("Select *, count(*) From L", 1, 1, "* has no meaning there"),
        ("Select sum(count(*)) From L", 1, 8, "an aggregate of an aggregate needs a block of its own"),
        ("Select x as a, k as a From L", 1, 8, "two output columns are called 'a'"),
        ("Select x From (Select x From L) [Rows 2] as B", 1, 33, "a window is for a stream, and this block is"),
        ("Select x From L [Partition By z Rows 1]", 1, 17, "Partition By names the column 'z'"),
        ("Select x From L [Range 5 minutes]", 1, 17, "times are integers, so write a duration as a plain number"),
        ("Select x + 'a' as b From L", 1, 8, "cannot compute L.x + 'a'"),
        ("Select x From L Where x + 1", 1, 23, "L.x + 1 is no condition"),
        ('Select "x" From L as "my L"', 1, 17, "a source needs a name of letters"),
    ],
)  # fmt: skip
def test_errors_point_at_the_place(text: str, line: int, column: int, says: str) -> None:
    with pytest.raises(CqlError) as error:
        run(text)
    first, shown, arrow = str(error.value).splitlines()
    assert first.startswith(f"line {line}, column {column}: "), first
    assert says in first
    assert shown == "  " + text.splitlines()[line - 1]
    assert arrow.index("^") == column + 1


def test_nothing_to_read() -> None:
    for text in ("", "  \n", None):
        with pytest.raises(CqlError, match="got nothing to read"):
            wr.cql(text)  # type: ignore[arg-type]


def test_words_may_be_written_in_any_case_and_names_may_be_quoted() -> None:
    tree = parse('sElEcT istream("from") FROM "where" [rows 1,000] AS S -- the end\n WHERE not "from" in (1, 2);')
    assert (tree.emit, tree.sources[0].what, tree.sources[0].window.rows) == ("istream", "where", 1000)  # type: ignore[union-attr]
    assert str(tree.where) == "not ((from = 1) or (from = 2))"
    assert str(parse("Select note From orders Where android = 1").where) == "android = 1"


def test_operators_bind_as_in_sql() -> None:
    shown = str(parse("Select a From S Where a + 2 * 3 - -b >= 1 or not c = 'it''s' and d is null").where)
    assert shown == "(((a + (2 * 3)) - (-b)) >= 1) or ((not (c = 'it''s')) and (d is null))"
    assert (
        str(parse("Select a From S Where x between 1 and 2 and y != 3").where) == "((x >= 1) and (x <= 2)) and (y != 3)"
    )


def test_columns_that_must_be_equal_need_no_source() -> None:
    assert run("Select Istream(k, y) From L [Rows 9], R [Rows 9] Where L.k = R.k").table.num_rows == 3


def test_all_columns_are_called_after_their_source_where_names_meet() -> None:
    table = run("Select Istream(*) From L [Rows 9], R [Rows 9] Where L.k = R.k").table
    assert table.column_names == ["at", "L_t", "L_k", "x", "R_t", "R_k", "y"]
    assert run("Select Istream(R.*) From L [Rows 9], R [Rows 9] Where L.k = R.k").table.column_names == [
        "at",
        "t",
        "k",
        "y",
    ]


def test_times_are_found_or_asked_for() -> None:
    days = pa.table({"day": pa.array([date(2024, 1, 1), date(2024, 1, 3)]), "x": [1, 2]})
    result = wr.cql("Select sum(x) as s From S [Range 1 day]").run({"S": days})
    assert result.at(datetime(2024, 1, 2)).to_pylist() == [{"s": 1}]
    numbers = wr.cql("Select sum(x) as s From S [Rows 1]").run({"S": days.drop_columns("day")})
    assert numbers.table.to_pylist() == [{"since": 0, "until": 1, "s": 1}, {"since": 1, "until": None, "s": 2}]
    both = days.append_column("other", days["day"])
    with pytest.raises(InputError, match="several columns of times"):
        wr.cql("Select x From S").run({"S": both})
    with pytest.raises(InputError, match="has no column of times, and others have"):
        wr.cql("Select S.x From S, T Where S.x = T.x").run({"S": days, "T": pa.table({"x": [1]})})
    with pytest.raises(InputError, match="time says nothing of stream 'T'"):
        wr.cql("Select S.x From S, T Where S.x = T.x").run({"S": days, "T": days}, time={"S": "day"})
    with pytest.raises(UnknownColumn, match="time: stream 'S'"):
        wr.cql("Select x From S").run({"S": days}, time="nothing")
    with pytest.raises(CqlError, match="the streams have no time column: set time=, or use Rows"):
        wr.cql("Select x From S [Range 5]").run({"S": pa.table({"x": [1]})})


def test_tables_must_be_those_of_the_text() -> None:
    with pytest.raises(InputError, match="no table for the stream 'R'"):
        run("Select x From L, R Where L.k = R.k", {"L": PAIR["L"]})
    with pytest.raises(InputError, match="the query has no stream 'R'"):
        run("Select x From L", PAIR)


def test_rows_in_any_order_and_without_a_time() -> None:
    shuffled = pa.table({"t": [3, None, 1, 2], "k": [1, 1, 1, 2], "x": [30, 99, 10, 20]})
    assert run("Select Istream(x) From L [Rows 1]", {"L": shuffled}).values["x"].to_pylist() == [10, 20, 30]


def test_options_go_to_the_join() -> None:
    text = "Select Istream(x, y) From L [Range 5], R [Range 5] Where L.k = R.k"
    result = run(text, memory=2, policy="fifo")
    assert result.metrics.peak_rows <= 2
    (query, _), *rest = result.joins
    assert not rest and query.memory.rows == 2 and query.streams[0].window == wr.Window.time(5, closed="both")
    with pytest.raises(SpecError, match="on is said by the query text"):
        run(text, on="k")
    nested = "Select x From (Select L.x From L, R Where L.k = R.k) as B, L as M Where B.x = M.x"
    with pytest.raises(SpecError, match="memory is the budget of one join, and this text has 2"):
        run(nested, memory=10)
    assert [query.constraints for query, _ in run(nested, constraints=[wr.Unique("R", "k")]).joins] == [
        (wr.Unique("R", "k"),), None,
    ]  # fmt: skip
    with pytest.raises(SpecError, match="no join of this text has together"):
        run(nested, constraints=[wr.Integrity("R", "M", 3)])
    assert run("Select x From L").joins == () and run("Select x From L").metrics is None


def test_a_text_of_one_join_is_a_query() -> None:
    text = "Select Istream(L.x, R.y) From L [Range 5], R [Rows 9] Where L.k = R.k and R.y > 5 and L.x < R.y"
    query = wr.cql(text).query(time="t", memory=100)
    assert [str(predicate) for predicate in query.on] == ["L.k = R.k", "L.x < R.y"]
    assert [str(stream.window) for stream in query.streams] == ["5 steps, closed both", "9 rows"]
    assert [str(condition) for condition in query.streams[1].where] == ["y > 5"]
    assert wr.Engine(query).push(PAIR).num_rows == 0
    assert [(output.column, output.name) for output in query.select] == [("L.x", "x"), ("R.y", "y")]  # type: ignore[union-attr]
    named = wr.cql("Select Istream(x, y as why) From L, R Where L.k = R.k").query(time="t", tables=PAIR)
    assert wr.Engine(named).push(PAIR).column_names == ["x", "why"]
    together = wr.cql("Select Istream(x, y) From L [Now], R [Now] Where L.k != R.k").query(time="t", tables=PAIR)
    assert wr.Engine(together).push(PAIR).to_pylist() == [{"x": 20, "y": 5}]


@pytest.mark.parametrize("text", [
    "Select Istream(x) From L", "Select x From L, R Where L.k = R.k",
    "Select Istream(distinct x) From L, R Where L.k = R.k",
    "Select Istream(sum(x)) From L, R Where L.k = R.k", "Select Istream(x + 1 as z) From L, R Where L.k = R.k",
    "Select Istream(x) From L, R Where L.k = R.k and x + y > 3",
    "Select Istream(x) From L, R Where L.k = R.k and x % 2 = 0",
    "Select Istream(x) From L [Partition By k Rows 1], R Where L.k = R.k",
    "Select Istream(x) From (Select x, k From L) as L, R Where L.k = R.k",
])  # fmt: skip
def test_a_text_that_says_more_is_no_query(text: str) -> None:
    with pytest.raises(SpecError, match="only one join of streams that selects Istream of their columns is a Query"):
        wr.cql(text).query(time="t", tables=PAIR)


def test_results_say_what_they_are() -> None:
    stream, relation = run("Select Istream(x) From L [Range 1]"), run("Select x From L [Range 1]")
    for ask in (lambda: stream.at(1), lambda: stream.last, lambda: stream.changes):
        with pytest.raises(InputError):
            ask()
    assert relation.values.column_names == ["x"]
    assert relation.last.to_pylist() == [{"x": 20}, {"x": 30}]
    changes = [(row["at"], row["change"], row["x"]) for row in relation.changes.to_pylist()]
    assert changes == [(1, 1, 10), (2, 1, 20), (3, -1, 10), (3, 1, 30), (4, -1, 20), (5, -1, 30)]
    with pytest.raises(InputError, match="an output column is called 'since'"):
        run("Select x as since From L")


def test_a_row_that_goes_as_an_equal_one_comes_has_not_changed() -> None:
    still = pa.table({"t": [1, 2, 3], "k": [1, 1, 1], "x": [5, 5, 6]})
    text = "Select {0}(x) From (Select x From L [Partition By k Rows 1]) as P"
    assert run(text.format("Istream"), {"L": still}).table.to_pylist() == [{"at": 1, "x": 5}, {"at": 3, "x": 6}]
    assert run(text.format("Dstream"), {"L": still}).table.to_pylist() == [{"at": 3, "x": 5}]


@pytest.mark.parametrize(
    ("values", "function", "expected"),
    [
        (["b", "a", None], "min", ["b", "a", "a"]),
        (["b", "a", None], "max", ["b", "b", "b"]),
        ([datetime(2024, 1, 2), datetime(2024, 1, 1), None], "max", [datetime(2024, 1, 2)] * 3),
        ([0.5, 0.25, None], "sum", [0.5, 0.75, 0.75]),
        ([None, 2, 4], "avg", [None, 2.0, 3.0]),
        ([True, True, False], "sum", [1, 2, 2]),
        (["x", "x", None], "count", [1, 2, 2]),
    ],
)
def test_aggregates_of_all_sorts(values: list[Any], function: str, expected: list[Any]) -> None:
    table = pa.table({"t": [1, 2, 3], "v": values})
    result = run(f"Select {function}(v) as a, count(*) as n From L", {"L": table})
    assert [row["a"] for row in result.table.to_pylist()] == expected


def test_a_sum_of_texts_is_refused() -> None:
    with pytest.raises(InputError, match="sum is of numbers, and these values are string"):
        run("Select sum(v) From L", {"L": pa.table({"t": [1], "v": ["x"]})})


def test_moments_compare_with_texts() -> None:
    table = pa.table({"ts": pa.array([datetime(2024, 1, 1), datetime(2024, 1, 5)]), "x": [1, 2]})
    text = "Select Istream(x) From S Where ts > '2024-01-02' or x + 1 = 7"
    assert wr.cql(text).run({"S": table}).values["x"].to_pylist() == [2]


@pytest.mark.parametrize("text", [
    "Select Istream(L.x) From L [Range 5], R [Range 5] Where L.k = R.k",
    "Select k, sum(x) as s, min(x) as m From L [Range 2] Group By k Having count(*) > 0",
    "Select distinct B.k From (Select distinct k From L [Rows 2]) as B, R [Partition By k Rows 1] Where B.k = R.k",
    "Select count(*) as n, max(x) as m From L [Now]",
])  # fmt: skip
def test_empty_tables_give_empty_results(text: str) -> None:
    tables = {name: table.slice(0, 0) for name, table in PAIR.items() if name in wr.cql(text).streams}
    result = run(text, tables)
    assert result.table.num_rows == 0
    full = run(text, {name: PAIR[name] for name in tables})
    assert result.table.schema == full.table.schema


def test_constraints_reach_the_engine() -> None:
    text = "Select Istream(L.x) From L [Range 5], R [Range 5] Where L.k = R.k"
    plain, released = run(text), run(text, constraints=[wr.Unique("R", "k")])
    assert released.table.equals(plain.table)
    assert released.table.num_rows > 0


def test_explain_names_what_could_help() -> None:
    text = "Select Istream(L.x) From L [Range 5], R [Rows 9] as Q "
    text += "Where L.k = Q.k and Q.y > 2 and L.x + Q.y > 3 and L.x % 2 = 0"
    assert (
        wr.cql(text).explain()
        == """\
the query: a stream of what enters
  stream L [Range 5 steps], where (L.x % 2) = 0
  stream R as Q [Rows 9], where y > 2
  after the join: (L.x + Q.y) > 3
  joined by L.k = Q.k
  covers: {L, Q}
  constraints that could release rows: L is unique on k; L -> Q; L is ordered on k; L is clustered on k; \
Q is unique on k; Q -> L; Q is ordered on k; Q is clustered on k"""
    )
    with pytest.raises(CqlError, match=r"which source is 'x' a column of\? Write L.x or R.x"):
        wr.cql("Select x From L, R Where L.k = R.k").explain()
    assert "joined by" in wr.cql("Select x From L, R Where L.k = R.k").explain(PAIR)


# ------------------------------------------------------------------------------------------ long and deep texts

LONG = 5_000
ONE = {"L": pa.table({"t": [1, 2], "v": [3, 4]})}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("Select L.v as x From L Where " + " and ".join(f"L.v > {k}" for k in range(-LONG, 4)), [4]),
        ("Select L.v as x From L Where " + " or ".join(f"L.v = {k}" for k in range(4, LONG)), [4]),
        ("Select L.v as x From L Where L.v in (" + ", ".join(map(str, range(4, LONG))) + ")", [4]),
        ("Select " + " + ".join(["L.v"] * LONG) + " as x From L", [3 * LONG, 4 * LONG]),
        ("Select " + " - 1 + ".join(["L.v"] * LONG) + " as x From L", [2 * LONG + 1, 3 * LONG + 1]),
        ("Select sum(L.v) as x From L Having " + " and ".join(["sum(L.v) > 0"] * LONG), [3, 7]),
        ("Select L.v as x From L Where " + "(" * LONG + "L.v > 3" + ")" * LONG, [4]),
    ],
)
def test_chains_and_parentheses_may_have_any_length(text: str, values: list[int]) -> None:
    assert wr.cql(text).run(ONE, time="t").table["x"].to_pylist() == values
    assert wr.cql(text).explain()
    running = wr.cql(text).start(time="t")
    found = running.push(ONE, watermark=9).to_pylist()
    assert [row["x"] for row in found if row["change"] == 1 and row["x"] is not None] == values


@pytest.mark.parametrize("op", ["-", "/", "%", "+", "*"])
def test_chains_are_computed_from_left_to_right(op: str) -> None:
    rows = {"L": pa.table({"t": [1], "a": [97], "b": [11], "c": [7]})}
    table = wr.cql(f"Select a {op} b {op} c as x, a - b {op} c + 1 as y From L").run(rows, time="t").table
    assert table["x"].to_pylist() == [eval(f"97 {op} 11 {op} 7")]
    assert table["y"].to_pylist() == [eval(f"97 - 11 {op} 7 + 1")]
    assert str(parse(f"Select a {op} b - c From L").items[0].value) == f"(a {op} b) - c"


def nested_blocks(levels: int) -> str:
    text = "Select L.v From L [Range 5]"
    for _ in range(levels - 1):
        text = f"Select A.v From ({text}) As A"
    return text


def nested_operations(levels: int) -> str:
    """A comparison, operations in parentheses, and a column: as many levels."""
    return "Select L.v From L [Range 5] Where " + "1 + (" * (levels - 2) + "L.v" + ")" * (levels - 2) + " > 0"


@pytest.mark.parametrize("text", [nested_blocks, nested_operations])
def test_what_is_nested_too_deep_is_refused_with_the_limit(text: Any) -> None:
    assert wr.cql(text(MOST_NESTED)).run(ONE, time="t").table["v"].to_pylist() == [3, 4]
    assert wr.cql(text(MOST_NESTED)).start(time="t").push(ONE, watermark=9).num_rows == 4
    for levels in (MOST_NESTED + 1, 20 * MOST_NESTED, 100 * MOST_NESTED):
        with pytest.raises(CqlError, match=r"nested more than 64 levels deep here: .* take parentheses out"):
            wr.cql(text(levels))
    with pytest.raises(CqlError, match="nested more than 64 levels"):
        wr.cql("Select L.v From L Where " + "not " * 10_000 + "L.v > 0")
