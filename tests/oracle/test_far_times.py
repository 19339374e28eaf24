"""Times anywhere in int64, and windows as long as that: the engine still gives the multiset of the naive join.

Catches: differences of times, or times and durations added, that leave the range of int64; ends of time that stand for
something else; windows that end although they should not, or the other way round; residents that expire too soon or
stay; bands over numbers that lie further apart than int64 can say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import exact_join, live_rows, taken_rows
from tests.running import assert_accounted, assert_part, assert_same, examples, multiset, run, start
from tests.streams import Case

import windrow as wr
from windrow import policies
from windrow.spec import Duration

LOW, LATEST = -(2**63), 2**63 - 1  # the first is no time
PLACES = (LOW + 1, -(2**62) - 1, -(2**62), -(2**61), -1, 0, 1, 2**61, 2**62 - 1, 2**62, LATEST - 1, LATEST)
SIZES = (1, 2, 2**61, 2**62 - 1, 2**62, 2**62 + 1, 2**63 - 2, 2**63 - 1)
DAYS = ("1678-01-01", "1823-11-12", "1970-01-01", "2116-02-20", "2261-12-31")
TYPES = {"steps": pa.int64(), "ns": pa.timestamp("ns")}


def windows(unit: Any) -> st.SearchStrategy[wr.Window]:
    """Windows of every kind; long ones in time, with any end."""
    sizes = st.sampled_from(SIZES).map(lambda size: Duration(size, unit))
    ends = st.sampled_from(["right", "left", "both", "neither"])
    since = [LOW, *PLACES] if unit == "steps" else DAYS
    return st.one_of(
        st.builds(wr.Window.time, sizes, ends),
        st.builds(wr.Window.rows, st.integers(1, 4)),
        st.builds(wr.Window.landmark, st.sampled_from(since)),
        st.just(wr.Window.unbounded()),
    )


def far_times(random: Random, count: int) -> list[int]:
    """Times near the ends of everything, or a window's length away from there; in order."""
    found = [random.choice(PLACES) + random.choice((0, 0, -1, 1, *SIZES, *(-s for s in SIZES))) for _ in range(count)]
    return sorted(min(max(time, LOW + 1), LATEST) for time in found)


Batch = dict[str, list[dict[str, int]]]


@st.composite
def far_cases(draw: st.DrawFn, sizes: tuple[int, ...] = (2, 3)) -> Case:
    """A join on a key of few values, in steps or nanoseconds.

    Pushes end between instants, or rows come in any order within the longest lateness there is.
    """
    unit = draw(st.sampled_from(sorted(TYPES)))
    names = "abc"[: draw(st.sampled_from(sizes))]
    patience = draw(st.sampled_from([None, 0, *SIZES]))
    scattered = draw(st.sampled_from([False, False, True]))
    lateness = [SIZES[-1] if scattered else draw(st.sampled_from([0, 0, *SIZES])) for _ in names]
    made = [draw(windows(unit)) for _ in names]
    made = [wr.Window.unbounded() if w.kind == "rows" and late else w for w, late in zip(made, lateness, strict=True)]
    parts = zip(names, made, lateness, strict=True)
    query = wr.Query(
        streams=[wr.Stream(n, "t", w, Duration(late, unit)) for n, w, late in parts],
        on="k",
        select={f"{n}_id": f"{n}.id" for n in names},
        patience=None if patience is None else Duration(patience, unit),
    )
    random = draw(st.randoms(use_true_random=False))
    rows = {n: far_rows(random, scattered) for n in names}
    cuts = [] if draw(st.booleans()) else sorted(random.choice(PLACES) for _ in range(3))
    batches = scatter(random, rows) if scattered else cut(rows, [LOW, *cuts, LATEST + 1])
    schema = pa.schema([("id", pa.int64()), ("t", TYPES[unit]), ("k", pa.int64())])
    return Case(query, dict.fromkeys(names, schema), batches)


def far_rows(random: Random, nearer: bool) -> list[dict[str, int]]:
    """Some rows; those that should be nearer lie within the longest lateness of each other."""
    times = far_times(random, random.randrange(1, 8))
    return [{"id": k, "t": max(t, 0) if nearer else t, "k": random.randrange(2)} for k, t in enumerate(times)]


def cut(rows: Batch, ends: Sequence[int]) -> list[Batch]:
    """Batches of the rows from each time to before the next."""
    spans = list(pairwise(ends))
    return [{n: [r for r in part if low <= r["t"] < high] for n, part in rows.items()} for low, high in spans]


def scatter(random: Random, rows: Batch) -> list[Batch]:
    """The rows in three batches, as chance will have it."""
    batches: list[Batch] = [{n: [] for n in rows} for _ in range(3)]
    for n, part in rows.items():
        for row in part:
            random.choice(batches)[n].append(row)
    return batches


@examples(400)
@given(far_cases())
def test_far_apart_it_is_the_exact_join(case: Case) -> None:
    engine, found = run(case)
    assert_same(multiset(found), exact_join(case.query, case.batches), case.query)
    assert_accounted(engine)
    assert engine.metrics.late == engine.metrics.ignored == 0
    if case.query.patience is None:
        live = live_rows(case.query, taken_rows(case.query, case.batches))
        assert [engine.metrics.streams[n].resident_rows for n in case.query.names] == live


@examples(100)
@given(far_cases(sizes=(2,)))
def test_far_apart_counting_alone_counts_the_same(case: Case) -> None:
    engine, _ = run(case, count_only=True)
    assert engine.metrics.matched == sum(exact_join(case.query, case.batches).values())


@examples(100)
@given(far_cases(), st.integers(0, 3))
def test_far_apart_snapshots_change_nothing(case: Case, at: int) -> None:
    engine = start(case)
    found = []
    for k, batch in enumerate(case.tables):
        found.append(engine.push(batch))
        if k == at:
            engine = wr.Engine.restore(engine.snapshot())
    assert_same(multiset(found), exact_join(case.query, case.batches), case.query)


@examples(40)
@given(far_cases(sizes=(2,)), st.sampled_from([0, 1e-300, 1.0, 1e308, float("inf")]))
def test_far_apart_a_queue_with_room_for_all_loses_nothing(case: Case, service: float) -> None:
    """Time that passes in the queue is a distance, too."""
    timed = [wr.Window.unbounded() if s.window.kind == "rows" else s.window for s in case.query.streams]
    streams = zip(case.query.streams, timed, strict=True)
    query = case.query.with_(streams=[s.with_(window=window) for s, window in streams])
    unit = "1 ns" if case.schemas["a"].field("t").type == TYPES["ns"] else 1
    queue = wr.Queue(wr.Engine(query, case.schemas), service=service, capacity=99, form="modular", per=unit)
    found = [queue.push(batch) for batch in replace(case, query=query).tables]
    assert_same(multiset([*found, queue.flush()]), exact_join(query, case.batches), query)


@pytest.mark.parametrize("policy", policies.ALL, ids=lambda policy: policy.name)
@pytest.mark.parametrize("sample", [None, "unbiased"])
def test_every_policy_bears_times_far_apart(policy: Any, sample: Any) -> None:
    """Scores, ages and rates are of distances: a part of the exact join comes out, and the budget holds."""
    random = Random(policy.name)
    chosen = policy("id") if policy is policies.Given else policy()
    for window in (Duration(2**63 - 1, "steps"), Duration(2**61, "steps"), wr.Window.unbounded()):
        if not isinstance(window, Duration) and (sample or policy.name.startswith("life")):
            continue  # refused: such windows do not end
        query = wr.Query(
            streams=[wr.Stream(n, "t", window) for n in "ab"],
            on="k", select={"a_id": "a.id", "b_id": "b.id"}, memory=6, policy=chosen, sample=sample,
        )  # fmt: skip
        rows = {n: [{"id": k, "t": t, "k": k % 3} for k, t in enumerate(far_times(random, 40))] for n in "ab"}
        batches = cut(rows, (LOW, -(2**62), 0, 2**62, LATEST + 1))
        schema = pa.schema([("id", pa.int64()), ("t", pa.int64()), ("k", pa.int64())])
        case = Case(query, dict.fromkeys("ab", schema), batches)
        engine, found = run(case)
        assert_part(multiset(found), exact_join(query, batches))
        assert_accounted(engine)
        assert engine.metrics.resident_rows <= 6
        assert engine.metrics.shed > 0
        again = wr.Engine.restore(engine.snapshot())
        assert again.snapshot() == engine.snapshot()


def test_years_as_they_are_met() -> None:
    """1880 and 2030 meet in nanoseconds, and so do the first and the last moment that these can say."""
    middle = [int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 10**9 for year in (2030, 1880)]
    times = {"left": [LOW + 1, middle[0]], "right": [middle[1], LATEST]}  # of 1677, 2030, 1880 and 2262
    tables = [pa.table({"k": [1, 1], "t": pa.array(t, pa.timestamp("ns"))}) for t in times.values()]
    expected = {
        wr.Window.unbounded(): 4,
        wr.Window.rows(9): 4,
        wr.Window.landmark("1678-01-01"): 2,  # without those of 1677, who came first
        wr.Window.time("60000 days"): 1,  # 164 years
        wr.Window.time("80000 days"): 2,  # 219 years
        wr.Window.time("100000 days"): 3,  # 273 years: not from 1677 to 2262
    }
    for window, matched in expected.items():
        result = wr.join(*tables, on="k", time="t", within=window)
        assert (result.metrics.matched, result.metrics.ignored) == (matched, 0), window


NUMBERS = st.lists(st.sampled_from([LOW, *PLACES]), min_size=1, max_size=6)


@examples(100)
@given(st.sampled_from([*SIZES, 2**64, 2**70]), NUMBERS, NUMBERS)
def test_bands_over_numbers_far_apart(width: int, left: list[int], right: list[int]) -> None:
    tables = [pa.table({"x": pa.array(x, pa.int64())}) for x in (left, right)]
    result = wr.join(*tables, on=[wr.Band("left.x", "right.x", width)])
    assert result.metrics.matched == sum(abs(a - b) <= width for a in left for b in right)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_distances_of_any_size(scale: float) -> None:
    """3, 4 and 5, where squares are too large or too small for floats."""
    points = pa.table({"x": [0.0, 3 * scale], "y": [0.0, 4 * scale]})
    for limit, matched in ((5.01 * scale, 4), (4.99 * scale, 2)):
        result = wr.join(points, points, on=[wr.Distance(("left.x", "left.y"), ("right.x", "right.y"), limit)])
        assert result.metrics.matched == matched
