"""Can catch: an age that does not pay most, rows shed before their time or kept beyond it, ages that are misread."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow.errors import SpecError
from windrow.kernels import layout as at
from windrow.kernels import live_columns
from windrow.policies import Age
from windrow.spec import Memory, Query, Stream, Window
from windrow.state.parts import view

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64())])


def engine_of(policy: Any, memory: Any, window: Any, order: str = "time") -> Any:
    window = window if isinstance(window, Window) else Window.time(window)
    streams = [Stream(n, "t", window) for n in "ab"]
    query = Query(streams=streams, on="k", memory=memory, policy=policy, patience=0, order=order)
    return wr.Engine(query, dict.fromkeys(query.names, SCHEMA), count_only=True, recall=False)


def table(times: Any, keys: Any) -> pa.Table:
    return pa.table([pa.array(times, pa.int64()), pa.array(keys, pa.int64())], schema=SCHEMA)


def held(engine: Any) -> set[int]:
    """The sequence numbers of the residents."""
    words = engine._shard.words
    return set(live_columns.read_slots(words, live_columns.by_age(words), np.array([at.Slot.seq]))[0].tolist())


@pytest.mark.parametrize(
    ("curve", "best"), [((1, 0, 0, 0), 0.25), ((0, 0, 0, 1), 1.0), ((1, 1, 0), 2 / 3), ((0, 3, 2, 3), 1.0), ((0,), 1.0)]
)
def test_the_best_age_has_the_largest_mean_of_matches(curve: Any, best: float) -> None:
    assert Age(curve).best_age == pytest.approx(best)


@pytest.mark.parametrize("cap", [3, 6, 9])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("rows", [False, True])
def test_rows_leave_as_the_paper_says(cap: int, split: bool, rows: bool) -> None:
    """Against lists. A window of 12, rows pay up to an age of 4: staggered below a cap of 4 a stream, else FIFO."""
    window, best = 12, 4
    memory = Memory(2 * cap, split=True) if split else 2 * cap
    policy = Age([1 if k < best else 0 for k in range(window)])
    engine = engine_of(policy, memory, Window.rows(window) if rows else window, "arrival" if rows else "time")
    random, there, seq = Random(cap), [], 0
    for time in range(60):
        new = [(s, random.randrange(3)) for s in (0, 1)]
        engine.push({name: table([time], [key]) for name, (_, key) in zip("ab", new, strict=True)})
        clocks = [time, time - 1] if rows else [time, time]  # windows in rows move with each row of their stream
        there = [row for row in there if clocks[row[2]] - row[0] < window]
        for stream, _ in new:
            clocks[stream] = time
            there = [row for row in there if clocks[row[2]] - row[0] < window]
            there.append((time, seq, stream))
            seq += 1
            if rows:  # arrivals are instants of their own, and no row knows that it ends
                shed(there, clocks, cap, split, best, window + 1)
        shed(there, clocks, cap, split, best, window)
        assert held(engine) == {row[1] for row in there}
    assert engine.metrics.shed > 10


def shed(there: list[tuple[int, int, int]], clocks: list[int], cap: int, split: bool, best: int, window: int) -> None:
    for pool in ((0,), (1,)) if split else ((0, 1),):
        mine = [row for row in there if row[2] in pool]
        while len(mine) > cap * len(pool):
            ending = [row for row in mine if clocks[row[2]] - row[0] >= window - 1]
            over = [(row[0] - clocks[row[2]], row) for row in mine if clocks[row[2]] - row[0] >= best]
            gone = min(ending, key=lambda r: (r[2], r[1])) if ending else min(over)[1] if over else max(mine)
            mine.remove(gone)
            there.remove(gone)


def matches(policy: Any, memory: int, gap: tuple[int, int], window: int = 200) -> tuple[int, Any]:
    """Matches of streams in which b repeats each key of a after a gap, and what was learned about a."""
    rng, steps = np.random.default_rng(1), 12_000
    t = np.arange(steps)
    engine = engine_of(policy, Memory(2 * memory, split=True), window)
    later = np.maximum(t - rng.integers(*gap, steps), -1)
    for part in np.array_split(t, 4):
        engine.push({"a": table(part, part), "b": table(part, later[part])})
    lines = view(engine._shard.words, at.Head.ages_at, 2, at.AGE_SIZE).view(np.float64)
    return engine.metrics.matched, lines[0, at.A_LIMIT]


def test_the_age_that_pays_is_found() -> None:
    """Matches come between 40 and 60 steps later in a window of 200; memory for 20 rows."""
    fifo = engine_of("fifo", Memory(40, split=True), 200)
    t = np.arange(12_000)
    fifo.push({"a": table(t, t), "b": table(t, np.maximum(t - 50, -1))})
    assert fifo.metrics.matched < 200  # no row lives to see its match
    given, _ = matches(Age([0, 0, 1, 0, 0, 0, 0, 0, 0, 0]), 20, (40, 60))
    found, limit = matches(Age(), 20, (40, 60))
    assert 0.25 <= limit <= 0.36
    assert found > 0.9 * given > 2_500


def test_estimates_survive_a_snapshot() -> None:
    engine = engine_of(Age(), 30, 100)
    rng, other = np.random.default_rng(3), engine
    for part in range(5):
        t = np.arange(part * 700, part * 700 + 700)
        batch = {n: table(t, rng.geometric(0.2, 700)) for n in "ab"}
        engine.push(batch)
        if other is not engine:
            other.push(batch)
            assert other.snapshot() == engine.snapshot()
        other = wr.Engine.restore(engine.snapshot())


def test_without_an_end_of_the_window_age_is_fifo() -> None:
    random = Random(2)
    age, fifo = (engine_of(policy, 7, Window.unbounded()) for policy in ("age", "fifo"))
    for time in range(40):
        batch = {n: table([time], [random.randrange(4)]) for n in "ab"}
        age.push(batch)
        fifo.push(batch)
        assert held(age) == held(fifo)


@pytest.mark.parametrize("curve", [(), "long", 3, (1, -1), (1, float("nan"))])
def test_senseless_curves_are_refused(curve: Any) -> None:
    with pytest.raises(SpecError, match="curve"):
        Age(curve)
