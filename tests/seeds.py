"""Real snapshots to be altered: small engines of every policy, every statistic and every shape of a join.

Their names begin with that of the policy. Each comes with the rows that a restored engine takes next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
from tests.checked import MOST_STEPS, Steps
from tests.streams import configurations, label

import windrow as wr
from windrow.policies import ALL, GreedyDual
from windrow.spec import Band, Compare, Distance, Equal, Query, Stream, Value, Window

PUSHES, MORE = 6, 3


@dataclass(frozen=True)
class Made:
    """A snapshot, what restores it, and the rows to come."""

    data: bytes
    restore: Callable[[bytes], Any]
    more: list[dict[str, pa.Table]]


@dataclass(frozen=True)
class Shape:
    """A kind of join: what is given to the query and to the engine beside the policy, and how many rows come."""

    query: dict[str, Any]
    streams: str = "ab"
    window: Any = 30
    lateness: int = 0
    rows: int = 12
    options: dict[str, Any] | None = None
    timed: bool = True
    queue: dict[str, Any] | None = None


BAND = [Band("a.x", "b.x", 1)]
JOINS = {"keys": [Equal("a.k", "b.k")], "near": [Band("b.x", "c.x", 1)], "both": [Equal("a.j", "c.j")]}
RANGES = [Compare("a.x", "<", "b.y"), Distance(("a.x", "a.y"), ("b.x", "b.y"), 2), Equal("a.k", "b.k")]
SHAPES = {
    "pair": Shape({"memory": 40}),
    "text": Shape({"on": "s", "memory": 30}),
    "bytes": Shape({"memory": "90 kB"}, window=500, rows=40),
    "split": Shape({"memory": wr.Memory(40, split=True)}),
    "rows": Shape({"memory": 30, "order": "arrival"}, window=Window.rows(25), lateness=3),
    "late": Shape({"memory": 40, "patience": 20}, lateness=5, options={"departures": True}),
    "three": Shape({"memory": 40}, streams="abc", rows=8),
    "chain": Shape({"on": [Equal("a.k", "b.k"), Equal("b.j", "c.j")], "memory": 40}, streams="abc", rows=8),
    "band": Shape({"on": BAND, "memory": 200}, rows=30, window=200),
    "ranges": Shape({"on": RANGES, "memory": 30}),
    "joins": Shape({"on": JOINS, "memory": 40}, streams="abc", rows=8),
    "product": Shape({"value": Value({"a": "y", "b": "y"}), "memory": 30}),
    "sum": Shape({"value": Value({"a": "y"}, "sum"), "memory": 30, "on": [Equal("a.k", "b.k"), *BAND]}),
    "sample": Shape({"memory": 40, "sample": "unbiased"}, rows=30),
    "count": Shape({"memory": 40}, options={"count_only": True}),
    "untimed": Shape({"memory": 30}, window=40, timed=False),
    "queue": Shape({"memory": 30}, queue={"service": 1, "capacity": 20, "form": "integrated"}),
}
ONCE = {  # of no policy
    "exact": Shape({}),
    "exact landmark": Shape({}, window=Window.landmark(20)),
    "exact three": Shape({"on": [Equal("a.k", "b.k"), *BAND, Equal("b.j", "c.j")]}, streams="abc", rows=8),
    "fail": Shape({"memory": 900, "on_full": "fail"}),
    "fail queue": Shape({"memory": 900, "on_full": "fail"}, queue={"service": 1, "capacity": 20}),
    "unbound": Shape({"memory": 10}, rows=0),
    "auto large": Shape({"memory": "700 kB"}, window=5000, rows=700, options={"recall": False}),
    "auto trial": Shape({"memory": 60}, rows=40),
}


def _named() -> dict[str, Callable[[], Made]]:
    found: dict[str, Callable[[], Made]] = {}
    for policy in ALL:
        for name, shape in SHAPES.items():
            found[f"{policy.name} {name}"] = lambda policy=policy, shape=shape: _made(shape, policy=policy())
    for policy in [*configurations(), *(GreedyDual(i, m) for i, m in (("top", "top"), ("zero", 1), (0.9, "none")))]:
        name = label(policy)
        for shape in ("pair", "three") if policy != type(policy)() else ():
            found[f"{policy.name} {name} {shape}"] = lambda p=policy, shape=shape: _made(SHAPES[shape], policy=p)
    given = wr.policies.Given("y")
    found["given pair"] = lambda: _made(SHAPES["pair"], policy=given)
    return found | {name: lambda shape=shape: _made(shape) for name, shape in ONCE.items()}


SEEDS = _named()


def made(name: str) -> Made:
    """One of the real snapshots."""
    Steps.left = 100 * MOST_STEPS
    return SEEDS[name]()


def _made(shape: Shape, **more: Any) -> Made:
    windows = {"window": Window.rows(shape.window)} if not shape.timed else {"window": shape.window}
    streams = [Stream(n, "t" if shape.timed else None, lateness=shape.lateness, **windows) for n in shape.streams]
    fields = {"on": "k", **shape.query, **more}
    if not shape.timed:
        fields["order"] = "arrival"
    random = Random(len(shape.streams))
    batches = [_rows(random, shape, k) for k in range(PUSHES + MORE)]
    options = dict(shape.options or {})
    if getattr(getattr(fields.get("policy"), "statistics", None), "name", "") == "oracle":
        options["oracle"] = {n: pa.concat_tables([batch[n] for batch in batches]) for n in shape.streams}
    found: Any = wr.Engine(Query(streams=streams, **fields), **options)
    if shape.queue is not None:
        found = wr.Queue(found, **shape.queue)
    for batch in batches[:PUSHES] if shape.rows else ():
        found.push(batch)
        if options.get("departures"):
            found.departed()
    return Made(found.snapshot(), type(found).restore, batches[PUSHES:])


def _rows(random: Random, shape: Shape, push: int) -> dict[str, pa.Table]:
    """The rows of a push: a few per tick, popular keys and rare ones, with values that can be missing."""
    found = {}
    for name in shape.streams:
        first, n = push * shape.rows // 2, shape.rows
        times = sorted(first + random.randrange(shape.rows // 2 + 1) for _ in range(n))
        if shape.lateness:
            times = [t - random.randrange(2 * shape.lateness) for t in times]
        found[name] = pa.table(
            {
                "t": pa.array(times, pa.int64()),
                "k": pa.array([min(int(random.expovariate(0.3)), 20) for _ in range(n)], pa.int64()),
                "j": pa.array([random.randrange(5) for _ in range(n)], pa.int32()),
                "s": pa.array([random.choice((None, "k" * random.randrange(9))) for _ in range(n)], pa.string()),
                "x": pa.array([random.randrange(12) for _ in range(n)], pa.int64()),
                "y": pa.array([random.randrange(40) / 4 for _ in range(n)], pa.float64()),
            }
        )
    return found
