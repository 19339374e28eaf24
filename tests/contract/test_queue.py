"""The queue ahead of an engine, in every form, against a slow twin and the plain engine.

Catches: a capacity that is passed, rows that are lost uncounted or served out of order, choices that are not the
form's, answers that depend on batch boundaries or on being restored, matches that the exact join does not have.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.running import assert_part, assert_same, examples, multiset
from tests.streams import KINDS, configurations, label, of_kind

import windrow as wr
from windrow.engine.queue import FORMS
from windrow.errors import SnapshotError, SpecError

NAMES = ("left", "right")
Row = tuple[int, int, int, int]  # instant, stream, id, key
INF = float("inf")


@st.composite
def arrivals(draw: st.DrawFn) -> list[Row]:
    """Rows of two streams in order of time, several to an instant."""
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    count, keys = draw(st.integers(0, 60)), draw(st.integers(1, 6))
    times = np.cumsum(random.integers(0, 3, count)).tolist()
    rows = [(t, int(random.integers(2)), k, int(random.integers(keys) ** 2 // keys)) for k, t in enumerate(times)]
    return sorted(rows)


def tables(rows: list[Row]) -> dict[str, pa.Table]:
    schema = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("t", pa.int64())])
    mine = [[{"id": i, "k": k, "t": t} for t, s, i, k in rows if s == side] for side in (0, 1)]
    return {name: pa.Table.from_pylist(side, schema=schema) for name, side in zip(NAMES, mine, strict=True)}


def query(window: int = 7, **changes: Any) -> wr.Query:
    streams = [wr.Stream(name, "t", window) for name in NAMES]
    return wr.Query(streams=streams, on="k", select={"a": "left.id", "b": "right.id"}, **changes)


def pushes(rows: list[Row], cuts: list[int]) -> list[list[Row]]:
    """The rows in batches that end before the given instants."""
    ends = [-1, *sorted(cuts), 10**9]
    return [[r for r in rows if a <= r[0] < b] for a, b in pairwise(ends)]


def pushed(queue: wr.Queue, batches: list[list[Row]]) -> Counter[Any]:
    """All matches of some batches and of the end, with the counters checked after each."""
    found = []
    for batch in batches:
        found.append(queue.push(tables(batch)))
        check(queue)
    return multiset([*found, queue.flush()])


def check(queue: wr.Queue) -> None:
    """Every row is somewhere, once, and not too many wait."""
    metrics = queue.metrics
    assert metrics.peak_waiting <= queue.capacity
    for name, stream in metrics.engine.streams.items():
        ours = metrics.waiting[name] + metrics.shed_in_queue[name]
        parts = stream.late + stream.ignored + stream.resident_rows + stream.expired + stream.released + stream.shed
        assert metrics.arrived[name] == ours + stream.arrived == ours + parts


# ------------------------------------------------------------------------------------------ slow twin


def twin(rows: list[Row], form: str, service: float, capacity: int, threshold: int, refresh: int) -> set[int]:
    """The ids of the rows that are shed before an engine without a cap, whose window is 7."""
    waiting: list[Row] = []
    served: list[Row] = []
    memory: list[Row] = []
    shed: set[int] = set()
    credit, now = 0.0, rows[0][0] if rows else 0

    def worth(place: int, row: Row) -> float:
        if form in ("fifo", "tail"):
            return place if form == "fifo" else -place
        mark = min((max((r[0] for r in memory if r[1] == s), default=-1) for s in (0, 1)), default=-1)
        there = [r for r in memory if mark - r[0] < 7]
        if form == "integrated":
            there = there + waiting
        return sum(r[1] != row[1] and r[3] == row[3] for r in there)

    def cut(keep: int) -> None:
        order = sorted(range(len(waiting)), key=lambda j: (worth(j, waiting[j]), j))
        gone = {waiting[j][2] for j in order[: len(waiting) - keep]}
        shed.update(gone)
        waiting[:] = [row for row in waiting if row[2] not in gone]

    for instant in sorted({row[0] for row in rows}):
        credit += service * (instant - now) if instant > now else 0.0
        now = instant
        while credit >= 1 and waiting:
            served.append(waiting.pop(0))
            credit -= 1
        credit = credit if waiting else 0.0
        if len(served) >= refresh and not (waiting and waiting[0][0] == served[-1][0]):
            memory += served
            served.clear()
        for row in rows:
            if row[0] == instant:
                waiting.append(row)
                if len(waiting) > capacity:
                    cut(capacity - capacity // 8)
        if len(waiting) > threshold:
            cut(threshold - threshold // 8)
    return shed


@examples(80)
@given(
    arrivals(),
    st.sampled_from(["fifo", "tail", "modular", "integrated"]),
    st.sampled_from([0.0, 0.3, 0.5, 1.0, INF]),
    st.integers(1, 20),
    st.integers(1, 10),
    st.lists(st.integers(0, 60), max_size=3),
    st.data(),
)
def test_a_queue_sheds_what_its_slow_twin_sheds(
    rows: list[Row], form: Any, service: float, capacity: int, refresh: int, cuts: list[int], data: Any
) -> None:
    threshold = data.draw(st.integers(1, capacity))
    options: dict[str, Any] = {"service": service, "capacity": capacity, "threshold": threshold}
    queue = wr.Queue(wr.Engine(query()), form=form, refresh=refresh, **options)
    found = pushed(queue, pushes(rows, cuts))
    check(queue)
    shed = twin(rows, form, service, capacity, threshold, refresh)
    assert sum(queue.metrics.shed_in_queue.values()) == len(shed)
    kept = [row for row in rows if row[2] not in shed]
    expected = Counter(
        (a[2], b[2]) for a in kept for b in kept if (a[1], b[1]) == (0, 1) and a[3] == b[3] and abs(a[0] - b[0]) < 7
    )
    assert_same(found, expected, options)


# ------------------------------------------------------------------------------------------- contract


def looks_ahead(policy: Any) -> bool:
    """Whether a policy must be shown the whole streams first."""
    return isinstance(getattr(policy, "statistics", None), wr.statistics.Oracle)


HONEST = [p for p in configurations() if not looks_ahead(p)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("form", FORMS)
@examples(10)
@given(arrivals(), st.lists(st.integers(0, 60), max_size=3), st.integers(1, 12), st.integers(1, 8), st.data())
def test_neither_batch_boundaries_nor_snapshots_matter(
    form: Any, kind: Any, rows: list[Row], cuts: list[int], capacity: int, memory: int, data: Any
) -> None:
    policy = data.draw(of_kind(kind, honest=True))
    made = query(memory=memory, policy=policy, sample=data.draw(st.sampled_from([None, 0.4])))
    options: dict[str, Any] = {"service": 0.7, "capacity": capacity, "form": form, "refresh": 5}
    schemas = {n: t.schema for n, t in tables([]).items()}
    whole = wr.Queue(wr.Engine(made, schemas), **options)
    expected = pushed(whole, [rows])
    queue, found = wr.Queue(wr.Engine(made, schemas), **options), []
    for batch in pushes(rows, cuts):
        found.append(queue.push(tables(batch)))
        queue = wr.Queue.restore(queue.snapshot())
        check(queue)
        assert queue.metrics.engine.resident_rows <= memory
    output = multiset([*found, queue.flush()])
    assert_same(output, expected)
    assert queue.metrics.to_dict() | {"engine": 0} == whole.metrics.to_dict() | {"engine": 0}
    exact = wr.Engine(made.with_(memory=None), schemas).push(tables(rows))
    assert_part(output, multiset(exact))


BLIND = [p for p in HONEST if p.name in ("fifo", "rand")]


@pytest.mark.parametrize("form", FORMS)
@examples(30)
@given(arrivals(), st.integers(1, 8), st.data())
def test_ample_service_is_the_plain_engine(form: Any, rows: list[Row], memory: int, data: Any) -> None:
    """Integrated memory knows of rows that wait, so it may choose otherwise; where nothing is learned it cannot."""
    made = query(memory=memory, policy=data.draw(st.sampled_from(BLIND if form == "integrated" else HONEST)))
    queue = wr.Queue(wr.Engine(made, recall=False), service=INF, capacity=100, form=form, refresh=3)
    found = pushed(queue, [rows])
    plain = wr.Engine(made, recall=False)
    assert_same(found, multiset(plain.push(tables(rows))))
    assert queue.metrics.engine.to_dict() == plain.metrics.to_dict()
    assert sum(queue.metrics.shed_in_queue.values()) == queue.metrics.cuts == 0


def zipf(seed: int, rows: int) -> dict[str, pa.Table]:
    random, weights = np.random.default_rng(seed), 1 / np.arange(1, 51)
    return {
        name: pa.table({"k": random.choice(50, rows, p=weights / weights.sum()), "t": np.arange(rows)})
        for name in NAMES
    }


def test_the_more_a_queue_knows_the_more_it_keeps() -> None:
    """On skewed streams at half the service rate: integrated before modular, and both far before blind forms."""
    streams = [wr.Stream(name, "t", 100) for name in NAMES]
    made = wr.Query(streams=streams, on="k", memory=60, policy="prob")
    total: Counter[str] = Counter()
    for seed in range(4):
        for form in FORMS:
            queue = wr.Queue(wr.Engine(made, count_only=True, recall=False), service=1, capacity=40, form=form)  # type: ignore[arg-type]
            queue.push(zipf(seed, 3000))
            queue.flush()
            total[form] += queue.metrics.engine.matched
            assert abs(sum(queue.metrics.shed_in_queue.values()) - 3000) < 60  # all serve as many
    assert total["integrated"] > total["modular"] > 2 * max(total[form] for form in ("fifo", "tail", "rand"))


@pytest.mark.parametrize("policy", HONEST, ids=label)
def test_an_integrated_queue_counts_from_its_first_row(policy: Any) -> None:
    """Its policy learns of rows that wait, so it cannot begin when memory has half filled: that would be too late."""
    for seed in range(3):
        made = wr.Query(streams=[wr.Stream(name, "t", 100) for name in NAMES], on="k", memory=60, policy=policy)
        queues = [wr.Queue(wr.Engine(made, recall=False), service=1, capacity=40, form="integrated") for _ in range(2)]
        queues[1].push({name: table.slice(0, 0) for name, table in zipf(seed, 300).items()})
        queues[1].engine.bound()[1].begin_policy()
        found = [multiset([queue.push(zipf(seed, 300)), queue.flush()]) for queue in queues]
        assert_same(*found)
        assert queues[0].metrics == queues[1].metrics


def test_nothing_is_shed_up_to_the_threshold_and_an_eighth_past_it() -> None:
    rows = [(0, 0, k, 1) for k in range(16)]
    queue = wr.Queue(wr.Engine(query()), capacity=20, threshold=16, form="fifo")
    queue.push(tables(rows))
    assert (queue.waiting, queue.metrics.cuts) == (16, 0)
    queue.push(tables([(1, 0, 16, 1)]))
    assert (queue.waiting, queue.metrics.cuts, queue.metrics.shed_in_queue["left"]) == (14, 1, 3)
    queue.push(tables([(2, 1, 17, 1)]))
    assert queue.serve(14).num_rows == 0 and queue.waiting == 1  # the partner waits still
    assert queue.serve(1).num_rows == 14


def test_rows_that_cannot_match_go_first_and_late_ones_do_not_wait() -> None:
    left = pa.table({"id": [0, 1, 2], "k": [None, 1, None], "t": [0, 0, 0]})
    queue = wr.Queue(wr.Engine(query()), capacity=2, form="modular")
    queue.push({"left": left, "right": left.slice(0, 0)})
    assert queue.metrics.shed_in_queue["left"] == 1 and queue.waiting == 2
    queue.flush()
    assert queue.metrics.engine.ignored == 1
    queue.push(
        {"left": pa.table({"id": [3], "k": [1], "t": [30]}), "right": pa.table({"id": [4], "k": [1], "t": [30]})}
    )
    queue.flush()
    queue.push({"left": pa.table({"id": [5, 6], "k": [1, 1], "t": [3, None]}), "right": left.slice(0, 0)})
    assert queue.metrics.engine.late == 1 and queue.metrics.engine.ignored == 2 and queue.waiting == 0


def test_service_is_per_unit_of_the_streams_time() -> None:
    times = pa.array([k * 1_000_000 for k in range(20)], pa.timestamp("us"))
    table = pa.table({"id": range(20), "k": [1] * 20, "t": times})
    streams = [wr.Stream(name, "t", "1 minute") for name in NAMES]
    queue = wr.Queue(wr.Engine(wr.Query(streams=streams, on="k")), service=30, per="1 minute", capacity=10**6)
    queue.push({"left": table, "right": table.slice(0, 0)})
    assert queue.metrics.engine.arrived == 0 and queue.waiting == 20  # nine are served; their round is not over
    queue.serve(0)
    assert queue.metrics.engine.arrived == 9
    with pytest.raises(SpecError, match="needs a unit"):
        wr.Queue(wr.Engine(wr.Query(streams=streams, on="k")), service=1, capacity=5)
    with pytest.raises(SpecError, match="needs a unit"):
        wr.Queue(wr.Engine(query()), service=1, capacity=5, per="1 minute")
    endless = [wr.Stream(name, "t") for name in NAMES]
    bare = wr.Queue(wr.Engine(wr.Query(streams=endless, on="k")), service=1, capacity=5)
    with pytest.raises(SpecError, match="needs a unit"):  # which only the times tell
        bare.push({"left": table, "right": table})


def test_what_a_queue_cannot_stand_before_is_refused() -> None:
    rows = [wr.Stream("left", None, wr.Window.rows(3)), wr.Stream("right", None, wr.Window.rows(3))]
    for streams in (rows, [wr.Stream(n, "t", wr.Window.rows(3)) for n in NAMES]):
        with pytest.raises(SpecError, match="counts rows"):
            wr.Queue(wr.Engine(wr.Query(streams=streams, on="k")), capacity=3)
    with pytest.raises(SpecError, match="order"):
        wr.Queue(wr.Engine(query(order="arrival")), capacity=3)
    signed = [wr.Stream("left", "t", 5, sign="s"), wr.Stream("right", "t", 5)]
    with pytest.raises(SpecError, match="brings deletions"):
        wr.Queue(wr.Engine(wr.Query(streams=signed, on="k")), capacity=3)
    with pytest.raises(SpecError, match="takes an Engine"):
        wr.Queue(query(), capacity=3)  # type: ignore[arg-type]
    for options in ({"capacity": 0}, {"capacity": 3, "threshold": 4}, {"capacity": 3, "form": "lifo"},
                    {"capacity": 3, "service": -1}, {"capacity": 3, "per": 0}):  # fmt: skip
        with pytest.raises(SpecError):
            wr.Queue(wr.Engine(query()), **options)  # type: ignore[arg-type]
    band = wr.Query(streams=[wr.Stream(n, "t", 5) for n in NAMES], on=wr.Band("left.k", "right.k", 1))
    with pytest.raises(SpecError, match="no equality"):
        wr.Queue(wr.Engine(band), capacity=3)
    with pytest.raises(SnapshotError, match=r"Engine\.restore"):
        wr.Queue.restore(wr.Engine(query()).snapshot())
    fresh = wr.Queue.restore(wr.Queue(wr.Engine(query()), service=INF, capacity=3).snapshot())
    assert fresh.service == INF and fresh.flush() is None and fresh.waiting == 0


@examples(50)
@given(st.data())
def test_three_streams_over_two_keys_go_through_every_form(data: Any) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    streams = [wr.Stream(name, "t", 6) for name in "abc"]
    on = [wr.Equal("a.k", "b.k"), wr.Equal("b.j", "c.j")]
    policy = data.draw(st.sampled_from(HONEST))
    made = wr.Query(streams=streams, on=on, memory=data.draw(st.integers(1, 9)), policy=policy)
    rows = {n: pa.table({"t": np.arange(25), **{c: random.integers(0, 3, 25) for c in "kj"}}) for n in "abc"}
    form = data.draw(st.sampled_from(list(FORMS)))
    queue = wr.Queue(wr.Engine(made), service=1.5, capacity=6, form=form, refresh=4)  # type: ignore[arg-type]
    cut = data.draw(st.integers(0, 25))
    found = [queue.push({n: t.slice(0, cut) for n, t in rows.items()})]
    queue = wr.Queue.restore(queue.snapshot())
    found += [queue.push({n: t.slice(cut) for n, t in rows.items()}), queue.flush()]
    check(queue)
    assert_part(multiset(found), multiset(wr.Engine(made.with_(memory=None)).push(rows)))


def test_a_queue_at_the_ends_of_time_comes_back() -> None:
    rows = pa.table({"t": pa.array([2**62, 2**63 - 1], pa.int64()), "k": [1, 1]})
    engine = wr.Engine(wr.Query(streams=[wr.Stream(name, "t", 10) for name in "ab"], on="k"))
    queue = wr.Queue(engine, service=1, per=1, capacity=50)
    queue.push({"a": rows, "b": rows})
    assert wr.Queue.restore(queue.snapshot()).snapshot() == queue.snapshot()


def test_a_queue_needs_an_engine_that_goes_by_its_rows() -> None:
    query = wr.Query(streams=[wr.Stream(name, "t", 10) for name in "ab"], on="k")
    with pytest.raises(wr.errors.SpecError, match="own_clock"):
        wr.Queue(wr.Engine(query, own_clock=False), service=1, per=1, capacity=50)
