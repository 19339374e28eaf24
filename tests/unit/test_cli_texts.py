"""The texts of options: what a condition and a filter mean, and what is none.

They catch a text that is read as another condition than it says, and one that should have been refused.
"""

from __future__ import annotations

import pytest

import windrow as wr
from windrow.cli import texts
from windrow.errors import SpecError


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("a b", "left.a b = right.a b"),
        ("left.a=right.b", "left.a = right.b"),
        ("right.a == left.b", "right.a = left.b"),
        ("left.a<=right.b", "left.a <= right.b"),
        ("left.a != right.b", "left.a != right.b"),
        ("|left.a-right.b|<=5", "|left.a - right.b| <= 5"),
        ("|left.at - right.at| <= 5 s", "|left.at - right.at| <= 5 seconds"),
        ("|(left.x, left.y) - (right.x, right.y)| <= 2.5", "|(left.x, left.y) - (right.x, right.y)| <= 2.5"),
    ],
)
def test_what_a_condition_means(text: str, means: str) -> None:
    assert str(texts.predicate(text)) == means


@pytest.mark.parametrize(
    ("text", "side", "column", "op", "value"),
    [
        ("left.x > 5", "left", "x", ">", 5),
        ("right.x<=-2.5", "right", "x", "<=", -2.5),
        ("left.a.b = 'it is'", "left", "a.b", "=", "it is"),
        ("left.x == true", "left", "x", "=", True),
        ("left.x != 2024-01-01", "left", "x", "!=", "2024-01-01"),
        ('left.x = "7"', "left", "x", "=", "7"),
        ("left.x IN (1, 'a,b', c)", "left", "x", "in", (1, "a,b", "c")),
        ("left.x not  in (1)", "left", "x", "not in", (1,)),
        ("right.x is null", "right", "x", "is null", None),
        ("right.x IS NOT NULL", "right", "x", "is not null", None),
    ],
)
def test_what_a_filter_means(text: str, side: str, column: str, op: str, value: object) -> None:
    assert texts.filters([text]) == {side: [wr.Filter(column, op, value)]}


@pytest.mark.parametrize("text", ["", "left.x", "x > 5", "left. > 5", "left.x > ", "left.x in 5", "left.x in ()"])
def test_what_is_no_filter(text: str) -> None:
    with pytest.raises(SpecError):
        texts.filters([text])


def test_a_value_of_thousands_of_brackets_is_a_text() -> None:
    brackets = "[" * 100_000
    assert texts.filters([f"left.x = {brackets}"])["left"][0].value == brackets


def test_a_comma_may_be_part_of_a_value() -> None:
    assert texts.on_violation("demote:folder=scratch/a, b,disk=20MB") == wr.Demote("scratch/a, b", "20 MB")
    assert texts.on_violation("demote:disk=20MB,folder=scratch/a,b") == wr.Demote("scratch/a,b", "20 MB")
    assert texts.constraints(["auto:margin=1.5, reaction=500,"]) == wr.Monitored(margin=1.5, reaction=500)
