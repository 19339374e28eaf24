"""Query texts that run batch by batch: what is refused, and that nothing has happened when it is.

Catches: a refused first push whose columns stay; what does not fit the text found when rows are already taken; sums
that overflow in silence; a budget under which a restored query goes on otherwise, or that is full for ever.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.every_type import COLUMNS

import windrow as wr
from windrow.errors import CqlError, InputError, MemoryFull, WindrowError
from windrow.state.coding import family, value_type

COUNTS = "Select L.k, count(*) as n From L [Range 400], R [Range 400] Where L.k = R.k Group By L.k"
MOST = 2**63 - 1


def single(values: Any, times: Any = None) -> dict[str, pa.Table]:
    """A batch of the one stream of a text."""
    return {"L": pa.table({"t": [1] * len(values) if times is None else times, "k": values})}


def pair(push: int, rows: int = 100, keys: int = 150) -> dict[str, pa.Table]:
    """A batch of two streams."""
    random, t = np.random.default_rng(push), np.arange(push * rows, (push + 1) * rows)
    return {name: pa.table({"t": t, "k": random.integers(0, keys, rows)}) for name in "LR"}


def test_a_first_push_that_is_refused_tells_no_columns() -> None:
    running = wr.cql("Select count(*) as n From L [Range 5]").start(time="t", sign="s")
    rows = single([7])["L"]
    for signs in (["x"], [[1]]):
        with pytest.raises(InputError, match="is a column of signs"):
            running.push({"L": rows.append_column("s", [signs])})
    with pytest.raises(WindrowError, match="has no state yet"):
        running.finish()
    running.push({"L": rows.append_column("s", [[1]])})
    assert running.finish().to_pylist()[0] == {"at": 1, "change": 1, "n": 1}


@pytest.mark.parametrize(
    ("text", "values", "says"),
    [
        ("Select L.k as at From L [Range 5]", [1], "an output column is called 'at'"),
        ("Select sum(L.k) as x From L [Range 5]", ["a"], "sum is of numbers"),
        ("Select L.k + 'a' as x From L [Range 5]", [1], "cannot compute"),
        ("Select min(L.k) as x From L [Range 5]", [[1]], "have no least or largest"),
        ("Select count(distinct L.k) as x From L [Range 5]", [[1]], "cannot be compared"),
        ("Select Distinct L.k From L [Range 5]", [[1]], "cannot be compared"),
        ("Select Istream(L.k) From L [Partition By k Rows 1]", [{"a": 1}], "cannot be compared"),
    ],
)
def test_what_does_not_fit_the_text_is_told_before_anything_is_taken(text: str, values: Any, says: str) -> None:
    rows = single(values)
    with pytest.raises(WindrowError, match=says):
        wr.cql(text).start({"L": rows["L"].schema}, time="t")
    running = wr.cql(text).start(time="t")
    for _ in range(2):  # the second time as the first: the query is not broken
        with pytest.raises(WindrowError, match=says):
            running.push(rows)


@pytest.mark.parametrize("distinct", ["", "distinct "])
def test_sums_of_whole_numbers_are_exact_or_refused(distinct: str) -> None:
    query = wr.cql(f"Select sum({distinct}L.k) as x From L [Range 5]")

    def added(values: list[int]) -> list[int]:
        return [row["x"] for row in query.run(single(values), time="t").table.to_pylist()][:1]

    for values in (
        [MOST],
        [MOST - 1, 1],
        [-MOST - 1],
        [MOST, -MOST - 1],
        [MOST, MOST - 1, -MOST, 5 - MOST],
        [-(2**32), 3],
    ):
        assert added(values) == [sum(values)]
    for values in ([MOST, 1], [MOST, MOST - 1], [-MOST - 1, -1], [2**62, 2**62 + 1]):
        with pytest.raises(InputError, match="beyond what 64 bits hold"):
            added(values)
    with pytest.raises(InputError, match="beyond what 64 bits hold"):
        query.run({"L": pa.table({"t": [1], "k": pa.array([2**63], pa.uint64())})}, time="t")


def test_a_sum_comes_back_from_the_edge() -> None:
    """Each state is the sum of the rows that are in, and no sum of more rows is made on the way."""
    running = wr.cql("Select sum(L.k) as x From L [Now]").start(time="t")
    values = [MOST, -MOST - 1, MOST, MOST, -5]
    found = [running.push(single([value], [t])) for t, value in enumerate(values)]
    told = pa.concat_tables([*found, running.finish()]).to_pylist()
    assert [row["x"] for row in told if row["change"] > 0] == [MOST, -MOST - 1, MOST, -5, None]


def test_arithmetic_that_overflows_is_refused() -> None:
    for text in ("L.k + 1", "L.k * 2", "-L.k - 2"):
        with pytest.raises(CqlError, match="overflow"):
            wr.cql(f"Select {text} as x From L [Range 5]").run(single([MOST]), time="t")


@pytest.mark.parametrize(
    "values",
    [
        *(pa.array([0, 1, None, 1], kind) for kind in (pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.float32())),
        *(pa.array([False, True, None, True]), pa.array(["a", "b", None, "b"]), pa.array([b"", b"b", None, b"b"])),
        *(pa.array([0, 1, None, 1], pa.int32()).cast(kind) for kind in (pa.date32(), pa.time32("s"))),
        pa.array([0.5, 1.0, None, 1.0], pa.float32()).cast(pa.float16()),
    ],
    ids=lambda values: str(values.type),
)
def test_groups_go_on_from_batch_to_batch_whatever_the_type_of_their_keys(values: pa.Array) -> None:
    """Catches keys whose codes depend on what lies beside them in memory."""
    running = wr.cql("Select L.k, count(*) as n From L [Range Unbounded] Group By L.k").start(time="t")
    for t in range(3):
        running.push(single(values.slice(t), [t] * (4 - t)))
    running.push({}, watermark=9)
    first, second = values[0].as_py(), values[1].as_py()
    counts = {row["k"]: row["n"] for row in running.relation.to_pylist()}
    assert counts == {first: 1, second: 5, None: 3} and running.relation.num_rows == 3


def test_zero_is_one_value_whatever_its_sign() -> None:
    rows = single([0.0, -0.0, float("nan"), float("nan"), None])
    for text in ("Select L.k, count(*) as n From L [Range 5] Group By L.k", "Select Distinct L.k From L [Range 5]"):
        assert wr.cql(text).run(rows, time="t").last.num_rows == 3


TEXTS = (
    "Select L.v, count(*) as n From L [Range 9] Group By L.v",
    "Select min(L.v) as least, max(L.v) as largest From L [Range 9]",
    "Select L.v, R.v as w From L [Range 9], R [Rows 3] Where L.k = R.k",
)


@pytest.mark.parametrize("name", COLUMNS)
def test_values_of_any_type_give_the_same_batch_by_batch_or_are_refused(name: str) -> None:
    """What can be a key of a join can be that of a group, and has a least value; all else can be carried along."""
    values = COLUMNS[name]
    rows = pa.table({"t": range(len(values)), "k": [n % 2 for n in range(len(values))], "v": values})
    for text in TEXTS:
        query = wr.cql(text)
        try:
            whole = query.run(dict.fromkeys(query.streams, rows), time="t")
        except WindrowError as error:
            assert "cast" in str(error) and text is not TEXTS[2]
            assert family(value_type(rows.schema.field("v").type)) is None
            continue
        running, found = query.start(time="t"), []
        for start in range(0, rows.num_rows, 2):
            found.append(running.push(dict.fromkeys(query.streams, rows.slice(start, 2))))
            running = query.restore(running.snapshot(), time="t")
        told = pa.concat_tables([*found, running.finish()]).to_pylist()
        assert Counter(map(str, told)) == Counter(map(str, whole.changes.to_pylist()))


@pytest.mark.parametrize("time", [2**62, -(2**62)])
def test_times_beyond_all_spans_are_refused(time: int) -> None:
    query = wr.cql("Select L.k From L [Range 5]")
    with pytest.raises(InputError, match=r"L\.t: a time is 2\^62"):
        query.run(single([1], [time]), time="t")
    running = query.start(time="t")
    running.push(single([1], [3]))
    with pytest.raises(InputError, match=r"L\.t: a time is 2\^62"):
        running.push(single([1], [time]))
    assert running.finish().num_rows == 2


def test_after_an_interruption_nothing_goes_on() -> None:
    running = wr.cql("Select sum(L.k) as x From L [Range 5]").start(time="t")
    with pytest.raises(InputError, match="beyond what 64 bits hold"):
        running.push(single([MOST, MOST]), watermark=9)
    for call in (lambda: running.push(single([1])), running.finish, running.snapshot):
        with pytest.raises(WindrowError, match="interrupted half-way"):
            call()


def test_restored_under_a_budget_it_sheds_as_it_would_have() -> None:
    options = {"time": "t", "memory": "120 kB", "policy": "prob"}
    query = wr.cql(COUNTS)
    went_on, restored = query.start(**options), query.start(**options)
    for push in range(20):
        assert restored.push(pair(push)).equals(went_on.push(pair(push)))
        went_on.snapshot()
        restored = query.restore(restored.snapshot(), **options)
        assert restored.metrics == went_on.metrics
    assert went_on.metrics.joins[0][1].shed > 100


def test_a_join_that_sheds_nothing_is_full_between_pushes_and_not_in_one() -> None:
    running = wr.cql("Select L.k, R.t From L [Range 300], R [Range 300] Where L.k = R.k").start(
        time="t", memory="120 kB", on_full="fail"
    )
    pushes, told = 0, 0
    with pytest.raises(MemoryFull, match="nothing of this push was taken"):
        for pushes in range(50):
            told += running.push(pair(pushes, 25, 20))["change"].to_pylist().count(1)
    before = running.metrics
    with pytest.raises(MemoryFull):
        running.push(pair(pushes, 25, 20))
    assert running.metrics == before and told > 0
    running.push({}, watermark=25 * pushes + 1000)  # without rows it is taken, and lets all rows leave
    assert running.relation.num_rows == 0 and running.metrics.bytes < before.bytes
    running.push(pair(pushes + 50, 25, 20))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("A.f > 1", [1, 2]), ("not A.f > 1", [3]), ("A.f = A.f", [1, 2, 3]), ("A.f != A.f", []), ("A.f < 1", [3]),
        ("A.f <= 1.5", [1, 3]), ("A.f >= 2", [2]), ("A.u > 5", [1]), ("A.u >= -1", [1, 2, 3]),
    ],
)  # fmt: skip
def test_a_condition_holds_alike_with_and_without_a_join(condition: str, expected: list[int]) -> None:
    """As in Spark: NaN equals itself and is larger than all numbers; numbers of 64 bits keep their values."""
    own = pa.array([2**63 + 5, 3, 4, None], pa.uint64())
    table = pa.table({"t": [1, 2, 3, 4], "k": [1] * 4, "f": [1.5, float("nan"), 0.0, None], "u": own})
    both = {"A": table, "B": pa.table({"t": [1], "k": [1]})}
    alone = wr.cql(f"Select A.t as x From A [Range 50] Where {condition}").run({"A": table}, time="t")
    joined = wr.cql(f"Select Istream(A.t as x) From A [Range 50], B [Range 50] Where A.k = B.k and {condition}")
    assert alone.table["x"].to_pylist() == joined.run(both, time="t").table["x"].to_pylist() == expected


JOIN = "Select Istream(L.k, R.t) From L [Range 300], R [Range 300] Where L.k = R.k"


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (JOIN, {"polcy": "prob"}, "did you mean 'policy'"),
        (JOIN, {"policy": "prop"}, "did you mean 'prob'"),
        (JOIN, {"memory": "lots"}, "cannot read 'lots'"),
        (JOIN, {"seed": -1}, "seed must be at least 0"),
        (JOIN, {"on_full": "burn"}, "one of 'shed', 'fail'"),
        (JOIN, {"sample": 2.0, "memory": 10}, "must be below 1"),
        (JOIN, {"constraints": "always"}, "constraints must be None"),
        (JOIN, {"constraints": ["L -> R"]}, "a list of Integrity"),
        (JOIN, {"constraints": [wr.Unique("L", "other")]}, "other"),
        (JOIN, {"constraints": wr.Unique("M", "k")}, "no join of this text has together"),
        (JOIN, {"on_violation": "demote"}, "set constraints"),
        (JOIN, {"sign": "s", "memory": 10}, "brings deletions"),
        (JOIN, {"sign": {"M": "s"}}, "the query has no stream 'M'"),
        (JOIN, {"sign": 5}, "sign must be a column"),
        (JOIN, {"time": 5}, "time must be a column"),
        (JOIN, {"time": {"L": 5}}, "needs the name of a column"),
        (JOIN, {"time": {"M": "t"}}, "the query has no stream 'M'"),
        (JOIN, {"lateness": "soon"}, "lateness"),
        ("Select Istream(v) From L [Range 3], R [Range 3] Where L.k = R.k", {"policy": "prop"}, "did you mean 'prob'"),
        ("Select count(*) as n From L [Range 5]", {"policy": "prop"}, "did you mean 'prob'"),
        ("Select count(*) as n From L [Range 5]", {"polcy": "prob"}, "did you mean 'policy'"),
    ],
)
def test_options_that_cannot_be_meant_are_refused_by_start_itself(text: str, options: Any, says: str) -> None:
    with pytest.raises(WindrowError, match=says):
        wr.cql(text).start(**{"time": "t", **options})


def test_options_that_only_columns_decide_about_are_taken_by_start() -> None:
    text = "Select Istream(v) From L [Range 3], R [Range 3] Where k = j"
    running = wr.cql(text).start(time="t", constraints=[wr.Unique("L", "k")], policy="prob", memory=100)
    assert wr.cql(text).start(time="t", constraints=[wr.Unique("L", "k")], on_violation="demote")
    with pytest.raises(WindrowError, match="set constraints"):
        wr.cql(text).start(time="t", on_violation="demote")
    rows = {"L": pa.table({"t": [1], "k": [1]}), "R": pa.table({"t": [2], "j": [1], "v": [7]})}
    assert running.push(rows, watermark=9)["v"].to_pylist() == [7]


def test_constraints_that_can_be_gone_through_once_are_used() -> None:
    rows = {name: pa.table({"t": [1, 2, 3], "k": [1, 2, 3]}) for name in ("L", "R")}
    for result in (
        wr.cql(JOIN).run(rows, time="t", constraints=(wr.Unique(name, "k") for name in rows)),
        wr.cql(JOIN).run(rows, time="t", constraints=[wr.Unique(name, "k") for name in rows]),
    ):
        assert result.joins[0][1].released == 6
    assert len(wr.cql(JOIN).query(time="t", constraints=(wr.Unique(name, "k") for name in rows)).constraints) == 2
