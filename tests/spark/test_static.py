"""Truncated joins on Spark. Catches: another choice than on tables, other rows than chosen, rows that change."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.running import multiset

import windrow as wr
from windrow.errors import InputError, KeyTypeError, SpecError


@pytest.fixture(scope="module")
def frames(spark: Any) -> tuple[Any, Any]:
    """Two relations with text and number keys, nulls among them, and a column of maps."""
    rows = spark.range(400).selectExpr("cast(id as int) as id", "hash(id) as h", "map('a', id) as extra")
    left = rows.selectExpr("id", "if(id % 50 = 0, null, concat('ключ ', pmod(h, 9) * pmod(h, 5))) as k", "extra")
    right = rows.selectExpr("id as other", "concat('ключ ', pmod(h, 13)) as k", "array(h) as more")
    return left, right


@pytest.mark.parametrize("budget", [{"keep": 250}, {"keep_a": 111, "drop_b": 300, "method": "ndg"}], ids=str)
def test_the_same_choice_as_on_tables(frames: tuple[Any, Any], budget: dict[str, Any]) -> None:
    left, right = frames
    here = wr.static.truncate(left.toArrow(), right.toArrow(), on="k", **budget)
    there = wr.static.truncate(left, right, on="k", **budget)
    for name in ("matches", "exact_matches", "kept_left", "kept_right", "dropped_left", "dropped_right"):
        assert getattr(there, name) == getattr(here, name), name
    assert there.bytes.histograms == here.bytes.histograms
    assert there.join().columns == here.join().column_names
    assert there.join().count() == there.matches
    part = there.left.drop("extra")
    assert part.count() == there.kept_left
    assert multiset(part.repartition(3).toArrow()) == multiset(part.toArrow()), "the same rows, computed another way"


def test_keys_of_other_types_and_names_and_several_columns(spark: Any) -> None:
    left = spark.range(60).selectExpr("cast(id % 7 as int) as a", "cast(id % 3 as double) as b", "id as `x.y`")
    right = spark.range(40).selectExpr("id % 5 as c", "cast(id % 2 as decimal(5,1)) as d", "id as z")
    on = [wr.Equal("left.a", "right.c"), wr.Equal("left.b", "right.d")]
    result = wr.static.truncate(left, right, on=on, keep=50)
    exact = left.join(right, (left.a == right.c) & (left.b == right.d)).count()
    assert result.optimal and result.exact_matches == exact > result.matches
    assert result.join().count() == result.matches
    assert len(result.cut) <= 1


def test_everything_nothing_and_a_relation_with_itself(spark: Any) -> None:
    left = spark.range(20).selectExpr("if(id < 4, null, id % 4) as k", "id")
    most = wr.static.truncate(left, left, on="k", keep=35)  # nulls are the last to be kept
    assert (most.left.count(), most.right.count(), most.recall) == (19, 16, 1.0)
    assert most.join().count() == most.matches == 64
    empty = wr.static.truncate(left.where("id < 0"), left, on="k", keep=3)
    assert (empty.left.count(), empty.right.count(), empty.exact_matches) == (0, 3, 0)


def test_what_cannot_be_truncated(spark: Any) -> None:
    left = spark.range(5).selectExpr("id as k")
    with pytest.raises(InputError, match="must be a Spark DataFrame"):
        wr.static.truncate(left, pa.table({"k": [1]}), on="k", keep=1)
    with pytest.raises(KeyTypeError, match="cannot be compared"):
        wr.static.truncate(left, left.selectExpr("cast(k as string) as k"), on="k", keep=1)
    with pytest.raises(SpecError, match="only 10 rows"):
        wr.static.truncate(left, left, on="k", keep=11)
    stream = spark.readStream.format("rate").load().selectExpr("value as k")
    with pytest.raises(SpecError, match="is a stream"):
        wr.static.truncate(stream, stream, on="k", keep=1)
