"""Every argument of every public entry point, given numbers and things that nobody expects: it works, or it is refused.

Catches: errors of Python, numpy, Arrow or the kernels that come out as they are (OverflowError, MemoryError, TypeError
...) where one line should say what is wrong; and refusals that leave an engine half changed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow import policies, statistics
from windrow.errors import WindrowError
from windrow.quality.distortion import distortion

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")  # numpy's way to say that a number is wrong

NUMBERS = [0, 1, -1, 2**31, 2**53 + 1, 2**61, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**400]
NUMBERS += [0.5, -0.5, 1e-320, 1e308, float("inf"), float("-inf"), float("nan")]
THINGS = [True, None, "", "x", "5", b"5", [], [5], {}, {"left": 5}, {"x": 5}, object(), len, Decimal("1.5"), 1j]
THINGS += [np.int64(5), np.float32(1.5), np.datetime64("NaT"), dt.timedelta(days=999_999_999), dt.timedelta(-1)]
THINGS += ["9" * 50, "9" * 5000 + " s", "1e400", "-5 minutes", "5 parsecs", "9999-12-31", "0001-01-01T00:00:00Z"]
THINGS += [dt.datetime.min, dt.datetime.max, dt.date(1, 1, 1), dt.datetime(1, 1, 1, tzinfo=dt.UTC), pa.scalar(5)]
VALUES = [*NUMBERS, *THINGS]

STEPS = pa.table({"k": [1, 1, 2, 2, 3], "t": [1, 2, 3, 4, 5], "x": [1.0, 2.0, 3.0, 4.0, 5.0]})
STAMPS = STEPS.set_column(1, "t", pa.array([k * 10**9 for k in range(5)], pa.timestamp("ns")))
ZONED = STEPS.set_column(1, "t", pa.array([k * 10**9 for k in range(5)], pa.timestamp("ns", "UTC")))
MANY = pa.table({"k": [k % 7 for k in range(60)], "t": range(60), "x": [float(k) for k in range(60)]})
BASE: dict[str, Any] = {"on": "k", "time": "t", "within": 3, "memory": 4}


def joined(table: pa.Table = STEPS, **changes: Any) -> Any:
    within = 3 if table is STEPS else "3 s"
    return wr.join(table, table, **{**BASE, "within": within, **changes})


def best(table: pa.Table = STEPS, **changes: Any) -> Any:
    within = 3 if table is STEPS else "3 s"
    found = wr.optimum(table, table, **{**BASE, "within": within, **changes})
    return found.replay() if not changes.get("lifetimes") and changes.get("memory", 4) else found


def pushed(value: Any) -> wr.Queue:
    queue = wr.Queue(wr.Engine(wr.Query(streams=SIDES, on="k")), **value)
    queue.push({"left": STEPS, "right": STEPS})
    queue.flush()
    return wr.Queue.restore(queue.snapshot())


SIDES = [wr.Stream("left", "t", 3), wr.Stream("right", "t", 3)]


def filtered(table: pa.Table, op: str, value: Any) -> Any:
    return joined(table, where={"left": [("t", op, value)], "right": [("x", op, value)]})


def truncated(**budget: Any) -> Any:
    return wr.static.truncate(STEPS, STEPS, on="k", **budget).join()


CALLS: dict[str, Callable[[Any], Any]] = {
    "join: memory": lambda v: joined(memory=v),
    "join: memory of a class": lambda v: joined(memory=wr.Memory(v)),
    "join: split": lambda v: joined(memory=wr.Memory(4, split={"left": v, "right": 1})),
    "join: both of a split": lambda v: joined(memory=wr.Memory("9 MB", split={"left": v, "right": v})),
    "join: within": lambda v: joined(within=v),
    "join: within, in nanoseconds": lambda v: joined(STAMPS, within=v),
    "join: within, of a side": lambda v: joined(within={"left": v}),
    "join: lateness": lambda v: joined(lateness=v),
    "join: lateness, in nanoseconds": lambda v: joined(STAMPS, lateness=v),
    "join: patience": lambda v: joined(patience=v),
    "join: window in rows": lambda v: joined(within=wr.Window.rows(v)),
    "join: landmark": lambda v: joined(within=wr.Window.landmark(v)),
    "join: landmark, in nanoseconds": lambda v: joined(STAMPS, within=wr.Window.landmark(v)),
    "join: window, closed": lambda v: joined(within=wr.Window.time(v, closed="both")),
    "join: closed": lambda v: joined(within=wr.Window.time(3, closed=v)),
    "join: sample": lambda v: joined(sample=v),
    "join: seed": lambda v: joined(seed=v, policy="rand"),
    "join: on": lambda v: joined(on=v),
    "join: time": lambda v: joined(time=v),
    "join: policy": lambda v: joined(policy=v),
    "join: on_full": lambda v: joined(on_full=v),
    "join: order": lambda v: joined(order=v),
    "join: select": lambda v: joined(select=v),
    "join: value": lambda v: joined(value=v),
    "join: where": lambda v: joined(where=v),
    "join: shards": lambda v: joined(shards=v),
    "join: archive": lambda v: joined(archive=v),
    "join: a table": lambda v: wr.join(v, STEPS, on="k"),
    "band": lambda v: joined(on=[wr.Band("left.t", "right.t", v)]),
    "band of floats": lambda v: joined(on=[wr.Band("left.x", "right.x", v)]),
    "band of times": lambda v: joined(STAMPS, on=[wr.Band("left.t", "right.t", v)]),
    "distance": lambda v: joined(on=[wr.Distance("left.x", "right.x", v)]),
    "filter =": lambda v: filtered(STEPS, "=", v),
    "filter <": lambda v: filtered(STEPS, "<", v),
    "filter in": lambda v: filtered(STEPS, "in", [v, 1]),
    "filter in what": lambda v: filtered(STEPS, "in", v),
    "filter on times": lambda v: filtered(STAMPS, ">=", v),
    "optimum: memory": lambda v: best(memory=v),
    "optimum: split memory": lambda v: best(memory=wr.Memory(v, split=True)),
    "optimum: memory_changes": lambda v: best(memory_changes=v),
    "optimum: a change of memory": lambda v: best(memory_changes=[(2, v)]),
    "optimum: a change of split memory": lambda v: best(memory=wr.Memory(4, split=True), memory_changes=[(2, v)]),
    "optimum: when memory changes": lambda v: best(memory_changes=[(v, 2)]),
    "optimum: window_changes": lambda v: best(window_changes=v),
    "optimum: a change of a window": lambda v: best(window_changes={"left": [(2, v)]}),
    "optimum: when a window changes": lambda v: best(STAMPS, window_changes={"left": [(v, "2 s")]}),
    "optimum: lifetimes": lambda v: best(lifetimes=v),
    "optimum: warm_up": lambda v: best(warm_up=v),
    "optimum: warm_up, in nanoseconds": lambda v: best(STAMPS, warm_up=v),
    "optimum: value": lambda v: best(value=v),
    "optimum: method": lambda v: best(method=v),
    "analyse: window": lambda v: wr.analyse(MANY, on="k", window=v),
    "analyse: seed": lambda v: wr.analyse(MANY, on="k", window=5, seed=v),
    "truncate: keep": lambda v: truncated(keep=v),
    "truncate: drop": lambda v: truncated(drop=v),
    "truncate: keep_a": lambda v: truncated(keep_a=v),
    "truncate: drop_b": lambda v: truncated(drop_b=v),
    "truncate: ndg": lambda v: truncated(keep_a=v, keep_b=3, method="ndg"),
    "truncate: adg": lambda v: truncated(keep=v, method="adg"),
    "truncate: method": lambda v: truncated(keep=4, method=v),
    "truncate_many: keep": lambda v: wr.static.truncate_many({"a": STEPS, "b": STEPS}, "k", keep={"a": v}).join(),
    "truncate_many: all of keep": lambda v: wr.static.truncate_many({"a": STEPS, "b": STEPS}, "k", keep=v).join(),
    "compare: penalty": lambda v: wr.compare(STEPS, STEPS[:3], coordinates=["x"], penalty=v),
    "compare: archived": lambda v: wr.compare(STEPS, STEPS[:3], archived=v),
    "compare: columns": lambda v: wr.compare(STEPS, STEPS, columns=v),
    "compare: coordinates": lambda v: wr.compare(STEPS, STEPS, coordinates=v),
    "compare: measures": lambda v: wr.compare(STEPS, STEPS, measures=v),
    "distortion: smooth": lambda v: distortion(STEPS, STEPS[:3], "k", smooth=v),
    "queue: capacity": lambda v: pushed({"capacity": v, "service": 1}),
    "queue: service": lambda v: pushed({"capacity": 4, "service": v}),
    "queue: per": lambda v: pushed({"capacity": 4, "service": 1, "per": v}),
    "queue: threshold": lambda v: pushed({"capacity": 4, "service": 1, "threshold": v}),
    "queue: refresh": lambda v: pushed({"capacity": 4, "service": 1, "refresh": v}),
    "queue: form": lambda v: pushed({"capacity": 4, "service": 1, "form": v}),
    "queue: serve": lambda v: wr.Queue(wr.Engine(wr.Query(streams=SIDES, on="k")), capacity=4).serve(v),
    "decayed": lambda v: joined(policy=policies.Prob(statistics=statistics.Decayed(v))),
    "sketch: width": lambda v: joined(policy=policies.Prob(statistics=statistics.Sketch(width=v))),
    "sketch: depth": lambda v: joined(policy=policies.Prob(statistics=statistics.Sketch(depth=v))),
    "sketch: half_life": lambda v: joined(policy=policies.Prob(statistics=statistics.Sketch(half_life=v))),
    "gdj: initial": lambda v: joined(policy=policies.GreedyDual(initial=v)),
    "gdj: method": lambda v: joined(policy=policies.GreedyDual(method=v)),
    "age: curve": lambda v: joined(policy=policies.Age(curve=[1, v])),
    "age: all of curve": lambda v: joined(policy=policies.Age(curve=v)),
    "given": lambda v: joined(policy=policies.Given(v)),
    "statistics": lambda v: joined(policy=policies.Prob(statistics=v)),
    "restore": lambda v: wr.Engine.restore(v),
    "restore a queue": lambda v: wr.Queue.restore(v),
    "query from JSON": lambda v: wr.Query.from_json(v),
    "stream": lambda v: wr.Stream(v),
    "output": lambda v: wr.Output(v),
    "probe_order": lambda v: wr.Query(streams=SIDES, on="k", probe_order=v),
    "streams": lambda v: wr.Query(streams=v, on="k"),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_works_or_is_refused(name: str) -> None:
    """One line that names what is wrong, or an answer; nothing else."""
    for value in VALUES:
        try:
            CALLS[name](value)
        except WindrowError as error:
            assert str(error).strip() and "\n" not in str(error).strip(), (value, error)
        except Exception as error:
            raise AssertionError(f"{name} with {str(value)[:60]!r}: {type(error).__name__}: {error}") from error


# ------------------------------------------------------------------------------------- on a live engine

LIVE: dict[str, Callable[[Any, Any], Any]] = {
    "memory": lambda engine, v: setattr(engine, "memory", v),
    "window": lambda engine, v: engine.window("left", v),
    "window of what": lambda engine, v: engine.window(v, 3),
    "watermark": lambda engine, v: engine.push({}, watermark=v),
    "push": lambda engine, v: engine.push(v),
    "push of a stream": lambda engine, v: engine.push({"left": v}),
}


@pytest.mark.parametrize("table", [STEPS, STAMPS, ZONED], ids=["steps", "timestamps", "zoned"])
@pytest.mark.parametrize("name", LIVE)
def test_a_live_engine_takes_it_or_goes_on(name: str, table: pa.Table) -> None:
    """After a refusal everything is as before; after an answer a snapshot restores."""
    size = 3 if table is STEPS else "3 s"
    query = wr.Query(streams=[wr.Stream(n, "t", size) for n in ("left", "right")], on="k", memory=4)
    for value in VALUES:
        engine = wr.Engine(query)
        engine.push({"left": table, "right": table})
        before = engine.snapshot()
        try:
            LIVE[name](engine, value)
        except WindrowError as error:
            assert "\n" not in str(error).strip(), (value, error)
            assert engine.snapshot() == before, value
            assert engine.push({"left": table[4:], "right": table[4:]}).num_rows >= 1, value
        except Exception as error:
            raise AssertionError(f"{name} with {str(value)[:60]!r}: {type(error).__name__}: {error}") from error
        else:
            again = wr.Engine.restore(engine.snapshot())
            assert (again.metrics, again.watermark) == (engine.metrics, engine.watermark), value


@pytest.mark.parametrize("mark", [2**63, 2**64, -(2**63), -(2**70), True, 1.5, float("nan"), "x", dt.date(2024, 1, 1)])
def test_a_watermark_that_no_row_could_have(mark: Any) -> None:
    engine = wr.Engine(wr.Query(streams=SIDES, on="k"))
    engine.push({"left": STEPS, "right": STEPS})
    with pytest.raises(wr.errors.InputError, match="push: watermark"):
        engine.push({"left": STEPS}, watermark=mark)
    assert (engine.watermark, engine.metrics.arrived) == (5, 10)


@pytest.mark.parametrize("year", [1, 9999])
def test_a_watermark_that_nanoseconds_cannot_say(year: int) -> None:
    engine = wr.Engine(wr.Query(streams=[wr.Stream(n, "t", "3 s") for n in ("left", "right")], on="k"))
    engine.push({"left": ZONED, "right": ZONED})
    with pytest.raises(wr.errors.InputError, match="no time that a row could have: times are counted in ns since 1970"):
        engine.push({}, watermark=dt.datetime(year, 1, 1, tzinfo=dt.UTC))
    with pytest.raises(wr.errors.InputError, match="must both have a time zone, or neither"):
        engine.push({}, watermark=dt.datetime(2024, 1, 1))


def test_the_last_watermark_there_is() -> None:
    """It ends the streams: what is held expires, what still comes is late, and a snapshot restores."""
    engine = wr.Engine(wr.Query(streams=SIDES, on="k"))
    engine.push({"left": STEPS, "right": STEPS}, watermark=-(2**63) + 1)
    engine.push({}, watermark=2**63 - 1)
    again = wr.Engine.restore(engine.snapshot())
    assert again.watermark == 2**63 - 1
    again.push({"left": STEPS})
    assert (again.metrics.resident_rows, again.metrics.late, again.metrics.expired) == (0, 5, 10)
