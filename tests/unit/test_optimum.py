"""The offline optimum against every possible schedule, on instances small enough to try them all."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.streams import POLICY_NAMES

import windrow as wr
from windrow.errors import MemoryTooSmall, SpecError
from windrow.offline import optimum
from windrow.offline.bracket import bracket
from windrow.offline.schedule import fits, gain_of

Rows = list[tuple[int, int, int]]  # time, key, weight


@st.composite
def streams(draw: st.DrawFn, most: int = 6) -> tuple[Rows, Rows]:
    """Two short streams in order of time, several rows at one time among them."""

    def rows() -> Rows:
        n = draw(st.integers(0, most))
        times = sorted(draw(st.lists(st.integers(0, 7), min_size=n, max_size=n)))
        return [(t, draw(st.integers(0, 2)), draw(st.integers(-2, 5))) for t in times]

    return rows(), rows()


def table(rows: Rows) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.table({n: pa.array(c, pa.int64()) for n, c in zip(("t", "k", "v"), columns, strict=True)})


def best(left: Rows, right: Rows, windows: Any, places: Any, worth: Any, warm_up: int = 0) -> float:
    """The best schedule, by trying at every instant every set of rows that could stay."""
    rows = [(0, *row) for row in left] + [(1, *row) for row in right]
    instants = sorted({row[1] for row in rows})

    def alive(x: int, now: int) -> bool:
        """Whether a row is inside its window now, and has been all the time."""
        since = [t for t in instants if rows[x][1] <= t <= now]
        return all(t - rows[x][1] < windows(rows[x][0], t) for t in since)

    def gained(held: frozenset[int], step: int) -> float:
        now, total = instants[step], 0.0
        fresh = [x for x, row in enumerate(rows) if row[1] == now]
        for y in fresh:
            for x in [*held, *(f for f in fresh if f < y)]:
                if rows[x][0] != rows[y][0] and rows[x][2] == rows[y][2] and alive(x, now):
                    pair = (rows[x], rows[y]) if rows[x][0] == 0 else (rows[y], rows[x])
                    total += worth(*pair) if now - instants[0] >= warm_up else 0.0
        return total

    @cache
    def most(held: frozenset[int], step: int) -> float:
        if step == len(instants):
            return 0.0
        now = gained(held, step)
        here = held | {x for x, row in enumerate(rows) if row[1] == instants[step]}
        if step + 1 == len(instants):
            return now
        kept = _subsets(here, rows, places(instants[step]))
        return now + max(most(k, step + 1) for k in kept)

    return most(frozenset(), 0) if instants else 0.0


def _subsets(here: frozenset[int], rows: Any, places: Any) -> list[frozenset[int]]:
    """All sets of rows that fit; `places` is one number, or one for each stream."""
    found = [frozenset[int]()]
    for x in sorted(here):
        found += [s | {x} for s in found]
    if isinstance(places, int):
        return [s for s in found if len(s) <= places]
    return [s for s in found if all(sum(rows[x][0] == side for x in s) <= places[side] for side in (0, 1))]


def ones(table: pa.Table) -> np.ndarray:
    return np.ones(table.num_rows)


def memory_of(places: Any) -> Any:
    return places if isinstance(places, int) else wr.Memory(2 * places[0], split=True)


PLACES = st.one_of(st.integers(0, 4), st.integers(1, 3).map(lambda n: (n, n)))


@given(streams(), st.integers(1, 6), st.integers(1, 6), PLACES, st.integers(0, 4))
def test_no_schedule_does_better_and_one_does_as_well(both: Any, a: int, b: int, places: Any, warm_up: int) -> None:
    left, right = both
    arguments = {
        "on": "k",
        "time": "t",
        "within": {"left": a, "right": b},
        "memory": memory_of(places),
        "warm_up": warm_up,
    }
    by_key = optimum(table(left), table(right), **arguments)
    by_pair = optimum(table(left), table(right), value=ones, **arguments)
    expected = best(left, right, lambda s, _: (a, b)[s], lambda _: places, lambda *_: 1.0, warm_up)
    assert by_key.value == by_key.bound == by_pair.value == expected
    assert by_key.exact == by_pair.exact
    for found in (by_key, by_pair):
        assert fits(found.instance, found.until)
        assert gain_of(found.instance, found.until) == expected


@given(streams(), st.integers(1, 6), PLACES)
def test_matches_of_different_worth(both: Any, window: int, places: Any) -> None:
    left, right = both
    arguments = {"on": "k", "time": "t", "within": window, "memory": memory_of(places)}
    product = optimum(table(left), table(right), value=wr.Value({"left": "v", "right": "v"}), **arguments)
    expected = best(left, right, lambda *_: window, lambda _: places, lambda x, y: float(x[3] * y[3]))
    assert product.value == pytest.approx(expected)
    called = optimum(
        table(left), table(right), value=lambda t: t["left.v"].to_numpy() - 0.25 * t["right.v"].to_numpy(), **arguments
    )
    expected = best(left, right, lambda *_: window, lambda _: places, lambda x, y: x[3] - 0.25 * y[3])
    assert called.value == pytest.approx(expected, abs=1e-4)


@given(
    streams(),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 7),
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(0, 7),
)
def test_windows_and_memory_that_change(
    both: Any, first: int, then: int, when: int, few: int, many: int, moment: int
) -> None:
    left, right = both
    found = optimum(
        table(left), table(right), on="k", time="t", within=first, memory=few, memory_changes=[(moment, many)],
        window_changes={"left": [(when, then)]},
    )  # fmt: skip
    expected = best(
        left, right, lambda s, now: then if s == 0 and now >= when else first,
        lambda now: many if now >= moment else few, lambda *_: 1.0,
    )  # fmt: skip
    assert found.value == expected


@given(streams(most=12), st.integers(1, 8), PLACES)
def test_the_bracket_holds_the_optimum(both: Any, window: int, places: Any) -> None:
    left, right = both
    exact = optimum(table(left), table(right), on="k", time="t", within=window, memory=memory_of(places))
    bound, gain, until = bracket(exact.instance, processes=1)
    assert gain <= exact.value <= bound + 1e-9
    assert fits(exact.instance, until)


def test_the_worked_example() -> None:
    r, s = [1, 1, 1, 3, 2], [2, 3, 1, 1, 3]
    left, right = (pa.table({"t": range(5), "k": keys}) for keys in (r, s))
    found = optimum(left, right, on="k", time="t", within=3, memory=wr.Memory(2, split=True))
    assert (found.value, found.exact) == (5.0, 7.0)


@given(streams(most=10), st.integers(1, 6), st.integers(1, 4), st.booleans())
def test_the_engine_follows_the_schedule_and_no_policy_beats_it(both: Any, window: int, rows: int, split: bool) -> None:
    tables = {"left": table(both[0]), "right": table(both[1])}
    memory = wr.Memory(2 * rows, split=True) if split else wr.Memory(rows)
    found = optimum(**tables, on="k", time="t", within=window, memory=memory)
    for name in tables:
        column = pa.array(found.schedule(name))
        tables[name] = tables[name].append_column("until", column)
    arguments = {"on": "k", "time": "t", "within": window, "memory": memory}
    assert wr.join(**tables, **arguments, policy=wr.policies.Given("until")).metrics.matched == found.value
    for policy in (*POLICY_NAMES, wr.policies.Prob("oracle")):
        assert wr.join(**tables, **arguments, policy=policy).metrics.matched <= found.value


def test_other_predicates() -> None:
    left, right = pa.table({"t": [0, 1], "x": [1.0, 5.0]}), pa.table({"t": [2, 3], "y": [1.5, 5.5]})
    found = optimum(left, right, on=[wr.Band("left.x", "right.y", 1)], time="t", within=10, memory=1)
    assert (found.value, found.exact) == (1.0, 2.0)


def test_what_makes_no_sense_is_refused() -> None:
    one = pa.table({"t": [0], "k": [1]})
    with pytest.raises(SpecError, match="memory="):
        optimum(one, one, on="k", time="t", within=3)
    with pytest.raises(SpecError, match="in rows"):
        optimum(one, one, on="k", time="t", within=3, memory="1 MB")
    with pytest.raises(MemoryTooSmall, match="negative"):
        optimum(one, one, on="k", time="t", within=3, memory=3, memory_changes=[(2, -1)])
    with pytest.raises(SpecError, match="shared and split"):
        optimum(one, one, on="k", time="t", within=3, memory=3, memory_changes=[(2, wr.Memory(4, split=True))])


FAR = (-(2**63) + 1, -(2**62) - 1, -1, 0, 2**62, 2**63 - 1)
LENGTHS = st.sampled_from([1, 2**62, 2**62 + 1, 2**63 - 1])


@given(streams(), LENGTHS, LENGTHS, st.integers(0, 3), st.sampled_from([0, 1, 2**62, 2**63 - 1]))
def test_times_far_apart(both: Any, a: int, b: int, places: int, warm_up: int) -> None:
    """The same streams with their instants spread over all that int64 can say."""
    left, right = ([(FAR[min(time, 5)], key, worth) for time, key, worth in rows] for rows in both)
    sides, arguments = (table(left), table(right)), {"on": "k", "time": "t", "memory": places, "warm_up": warm_up}
    found = optimum(*sides, within={"left": a, "right": b}, **arguments)
    assert found.value == found.bound
    assert found.value == best(left, right, lambda s, _: (a, b)[s], lambda _: places, lambda *_: 1.0, warm_up)
    endless = optimum(*sides, **arguments)
    for length in (None, 2**63 - 1):
        own = [side.append_column("own", pa.array([length] * side.num_rows, pa.int64())) for side in sides]
        limited = optimum(*own, lifetimes={"left": "own", "right": "own"}, **arguments)
        if length is None:
            assert limited.value == endless.value
        else:
            size = {"left": length, "right": length}
            assert limited.value == optimum(*sides, within=size, **arguments).value


def test_memory_without_a_bound_in_sight() -> None:
    """As many rows as can be asked for, shared or split, at once or later: everything is held."""
    side = table([(0, 1, 0), (1, 1, 0), (2, 2, 0), (3, 1, 0)])
    arguments = {"on": "k", "time": "t", "within": 9}
    for most in (2**53 + 1, 2**63 - 1):
        for memory in (most, wr.Memory(most, split=True), wr.Memory(most, split={"left": 1, "right": 1e-9})):
            found = optimum(side, side, memory=memory, **arguments)
            assert found.value == found.exact == found.replay() == 10
        changed = optimum(side, side, memory=wr.Memory(2, split=True), memory_changes=[(1, most)], **arguments)
        assert changed.value == changed.replay() <= 10


def test_the_warm_up_ends_where_it_says() -> None:
    """One and a half seconds from the first row: what comes after one second still belongs to it."""
    times = pa.array([0, 1, 2], pa.timestamp("s"))
    side = pa.table({"k": [1, 1, 1], "t": times})
    found = optimum(side, side, on="k", time="t", within="9 s", memory=9, warm_up="1500 ms")
    assert found.value == 5  # of nine matches those that the last two rows complete
