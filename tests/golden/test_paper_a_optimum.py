"""The worked extensions of the flow model: Das, Gehrke and Riedewald, section 6.1.1, on the streams of its figure 3.

Catches: a change of window or memory that takes effect an instant early or late, memory that is added but cannot be
used, windows that end where there are none.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.test_optimum import best

import windrow as wr

R, S, W = [1, 1, 1, 3, 2], [2, 3, 1, 1, 3], 3
TWO = wr.Memory(2, split=True)


def tables(r: list[int], s: list[int], **columns: list[int]) -> tuple[pa.Table, pa.Table]:
    left, right = (pa.table({"t": range(len(keys)), "k": keys}) for keys in (r, s))
    for name, numbers in columns.items():
        right = right.append_column(name, pa.array(numbers, pa.int64()))
    return left, right


def optimum(r: list[int] = R, s: list[int] = S, memory: Any = TWO, **others: Any) -> wr.Optimum:
    return wr.optimum(*tables(r, s), on="k", time="t", **{"within": W, "memory": memory, **others})


def test_figure_3() -> None:
    found = optimum()
    assert (found.value, found.exact, found.replay()) == (5, 7, 5)


def test_a_shorter_life_of_one_row() -> None:
    """With a window of 2 for s(1) there is no node s(1):3, so (r(3), s(1)) is no match any more."""
    left, right = tables(R, S, life=[3, 2, 3, 3, 3])
    found = wr.optimum(left, right, on="k", time="t", within=W, memory=TWO, lifetimes={"right": "life"})
    assert (found.value, found.exact) == (4, 6)


def test_a_window_that_shrinks_for_a_while() -> None:
    found = optimum(window_changes={"right": [(1, 2), (4, 3)]})
    assert (found.value, found.exact, found.replay()) == (4, 6, 4)


def test_no_window() -> None:
    """r(0) never expires; one place a side still cannot hold all of r's 1s, nor s(0) together with s(1)."""
    found = optimum(within=None)
    assert found.exact == 3 * 2 + 1 * 2 + 1 * 1
    assert found.value == found.replay() == 5


@pytest.mark.parametrize(
    ("places", "then", "matches"), [(4, 1, 7), (4, 0, 6), (2, 1, 6), (2, 0, 5), (1, 2, 4), (1, 4, 4)]
)
def test_memory_changes_at_3(places: int, then: int, matches: int) -> None:
    """Figure 14, one pool. The figures are what trying all schedules gives."""
    left, right = ([(t, k, 1) for t, k in enumerate(keys)] for keys in (R, S))
    tried = best(left, right, lambda *_: W, lambda now: then if now >= 3 else places, lambda *_: 1.0)
    found = optimum(memory=places, memory_changes=[(3, then)])
    assert found.value == tried == matches
    assert then == 0 or found.replay() == matches


def test_ten_places_more_then_sixteen_less() -> None:
    """At t and t + 1 only four of ten new places can be filled, so ten more and 16 less is four more and ten less."""
    random = Random(4)
    for _ in range(20):
        r, s = ([random.randrange(5) for _ in range(40)] for _ in range(2))
        base = random.randrange(7, 10)
        t = random.randrange(5, 30)
        ten = optimum(r, s, base, within=15, memory_changes=[(t, base + 10), (t + 2, base - 6)])
        four = optimum(r, s, base, within=15, memory_changes=[(t, base + 4), (t + 2, base - 6)])
        less = optimum(r, s, base, within=15, memory_changes=[(t + 2, base - 6)])
        assert ten.value == four.value == ten.replay() >= less.value
