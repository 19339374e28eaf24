"""Rehearsals: joins of a few hundred rows that call every kernel which real ones call, so that all is compiled.

Kernels are compiled when they are first called, for the policy and the kind of join that calls them. A rehearsal knows
no kernel by name: it does through the public face what one does with a join (push, grow, shed, change the memory,
snapshot and restore, archive, estimate recall, try out), for every policy there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from windrow import policies, static
from windrow.analysis import analyse
from windrow.api import compare
from windrow.cql import Cql
from windrow.engine import Engine, Queue, stages
from windrow.errors import MissingDependency, SpecError, UnknownPolicy, alternatives
from windrow.offline.optimum import optimum
from windrow.policies import Auto, Given, Policy
from windrow.spec import Band, Equal, Memory, Monitored, Query, Stream, Value, Window

EXACT = "exact"
NAMES = ("a", "b", "c")
ROWS, STEP = 480, 120  # of each stream, and of a push
WINDOW = 60
FEW = 24  # rows that are held
MANY = 8_000  # rows of each stream, of which few are alike, where it takes more to sample
Tables = dict[str, pa.Table]


@dataclass(frozen=True)
class Case:
    """A kind of join, which has kernels of its own: a policy or none, of two streams with equal keys, or of any other
    join, which is that of several streams."""

    policy: str
    several: bool

    def __str__(self) -> str:
        return f"{self.policy}, {'several' if self.several else 'two'} streams"

    def run(self) -> None:
        """Call every kernel of this kind."""
        names = NAMES if self.several else NAMES[:2]
        for scene in _scenes(None if self.policy == EXACT else _policy(self.policy), names):
            scene()


@dataclass(frozen=True)
class Others:
    """What is no stream join: the optimum, truncated joins, analysis, measures of loss."""

    policy: str = ""

    def __str__(self) -> str:
        return "optimum, truncation, analysis"

    def run(self) -> None:
        """Call every kernel of these."""
        rng = np.random.default_rng(0)
        rows = {"t": np.arange(300), "k": rng.integers(0, 30, 300), "x": rng.random(300)}
        left, right = pa.table(rows), pa.table({**rows, "k": rows["k"] ** 2 // 30})
        for keep in ({"keep": 133}, {"keep_a": 77, "keep_b": 81}):
            for method in ("optimal", "adg" if "keep" in keep else "ndg"):
                static.truncate(left, right, on="k", method=method, **keep)
        analyse(left, right, on="k", window=20)
        compare(left, right, coordinates=["x"], measures=["earth_movers"])
        with suppress(MissingDependency):
            for wanted in ("exact", "bracket"):
                optimum(left, right, on="k", time="t", within=WINDOW, memory=FEW, method=wanted)


def cases(chosen: Iterable[str] = (), streams: int | None = None) -> list[Case | Others]:
    """What there is to rehearse: all, or only some policies (or "exact"), or only with so many streams."""
    known = [EXACT, *(policy.name for policy in policies.ALL), Given.name]
    wanted = list(dict.fromkeys(chosen))
    for name in wanted:
        if name not in known:
            raise UnknownPolicy(f"there is no policy {name!r}{alternatives(name, known, 'names')}")
    if streams is not None and streams < 2:
        raise SpecError(f"a join has two streams or more, got {streams}")
    kinds = [False, True] if streams is None else [streams > 2]
    # The longest first, so that processes side by side end at about the same time.
    found: list[Case | Others] = [Case(name, several) for name in _in_order(wanted or known) for several in kinds]
    return found if wanted or streams is not None else [*found, Others()]


def _in_order(names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: ("auto", EXACT).index(name) if name in ("auto", EXACT) else 2)


def _policy(name: str) -> Policy:
    return Given("x") if name == Given.name else policies.by_name(name)()


def _tables(names: Iterable[str]) -> Tables:
    """Streams in which popular keys meet often, with a column of every way to be compared."""
    rng = np.random.default_rng(0)
    found = {}
    for name in names:
        keys = np.minimum(rng.zipf(1.5, ROWS), 100)
        found[name] = pa.table({
            "t": np.arange(ROWS), "k": keys, "x": keys / 4, "s": [f"key {key}" for key in keys],
            "d": [Decimal(int(key)) for key in keys],
        })  # fmt: skip
    return found


# ------------------------------------------------------------------------------------------- scenes


def _scenes(policy: Policy | None, names: tuple[str, ...]) -> Iterator[Callable[[], None]]:
    """What is done with joins of a kind, one after the other; what most joins do comes first."""
    tables = _tables(names)
    shared: dict[str, Any] = {"streams": [Stream(name, "t", WINDOW) for name in names], "on": "k", "patience": 0}
    few: dict[str, Any] = {} if policy is None else {"policy": policy, "memory": FEW}
    usual = Query(**shared, **few)
    wide = [Stream(name, "t", MANY if len(names) == 2 else 2 * WINDOW) for name in names]
    yield lambda: _live(usual, tables)
    yield lambda: _archived(usual.with_(memory=policy and "64 kB", streams=wide), tables)
    yield lambda: _pushed(Engine(usual, count_only=True), tables)
    yield lambda: _staged(usual, tables)
    yield lambda: _keyed(usual, tables)
    if not isinstance(policy, Given):
        yield lambda: _pushed(Engine(usual.with_(value=Value(dict.fromkeys(names, "x")))), tables)
    yield lambda: _pushed(Engine(usual.with_(streams=[Stream(n, None, Window.rows(WINDOW)) for n in names])), tables)
    if len(names) > 2:
        yield lambda: _conditional(usual, tables)
    if policy is None or isinstance(policy, Auto):
        yield lambda: _released(usual, tables)
    if policy is None:
        yield lambda: _signed(usual, tables)
    if policy is not None:
        yield lambda: _pushed(Engine(usual.with_(memory=Memory(FEW, split=True), sample=0.5)), tables)
        yield lambda: _pushed(Engine(usual.with_(memory=10 * ROWS, on_full="fail")), tables)
        yield lambda: _ample(usual.with_(memory=1_000 * ROWS), tables)
        yield lambda: _queued(usual, tables)
        yield lambda: _large(usual.with_(memory=6_000, streams=wide))
        yield lambda: _changing(usual.with_(memory="64 kB", streams=wide))


def _pushed(engine: Engine, tables: Tables, archived: bool = False) -> None:
    """Rows in some pushes; what is held goes through a snapshot."""
    for start in range(0, ROWS, STEP):
        engine.push({name: table.slice(start, STEP) for name, table in tables.items()})
        if archived:
            engine.departed()
        engine = Engine.restore(engine.snapshot())
    assert engine.metrics.matched


def _live(query: Query, tables: Tables) -> None:
    """A join that changes while it runs: windows, memory, whether there is any."""
    _pushed(Engine(query), tables)
    engine = Engine(query)
    engine.push(tables)
    for name in query.names:
        engine.window(name, 2 * WINDOW)
    if query.memory is not None:
        for memory in (4 * FEW, FEW // 2, None, "64 kB", FEW):
            engine.memory = memory
        Engine.restore(engine.snapshot(), query.with_(policy="rand")).push(tables)
    engine.push({}, watermark=2 * ROWS)


def _ample(query: Query, tables: Tables) -> None:
    """Far below the budget, where a policy may be deferred."""
    _pushed(Engine(query), tables)
    engine = Engine(query)
    engine.push(tables, watermark=ROWS)
    engine.push({}, watermark=2 * ROWS)


def _archived(query: Query, tables: Tables) -> None:
    """As on Spark: the rows that are lost are asked for, and the watermark comes from outside."""
    _pushed(Engine(query, departures=True, own_clock=False), tables, archived=True)


def _staged(query: Query, tables: Tables) -> None:
    """Stage by stage, as joins over several sites do."""
    engine = Engine(query, {name: table.schema for name, table in tables.items()})
    stages.store(engine, tables)
    stages.probe(engine, tables)
    stages.partners(engine, tables)
    stages.finish(engine)


def _keyed(query: Query, tables: Tables) -> None:
    """Keys of every kind that is coded in its own way, one at a time and together."""
    for on in ("s", "x", "d", ["k", "s"]):
        _pushed(Engine(query.with_(on=on)), tables)


def _conditional(query: Query, tables: Tables) -> None:
    """On other conditions than equal keys, of any number of streams; and several joins in one memory."""
    for names in (query.names[:2], query.names):
        streams = [query.stream(name) for name in names]
        near = [Band(f"{one}.x", f"{other}.x", 0.25) for one, other in pairwise(names)]
        here = {name: tables[name] for name in names}
        for on in (near, [*near, Equal(f"{names[0]}.k", f"{names[1]}.k")], {"one": "k", "other": "s"}):
            _pushed(Engine(query.with_(streams=streams, on=on)), here)


def _released(query: Query, tables: Tables) -> None:
    """With monitors that release what can be released, and change their mind."""
    watched = query.with_(constraints=Monitored(reaction=STEP, sample=0.1), on="k")
    _pushed(Engine(watched), tables)
    _staged(watched, tables)
    Engine(watched).push({name: table.slice(0, 2) for name, table in tables.items()})


def _signed(query: Query, tables: Tables) -> None:
    """With deletions, also where rows are released; and, once, with results that are kept up to date."""
    signed = {n: t.append_column("op", pa.array(np.where(np.arange(ROWS) % 5 == 4, -1, 1))) for n, t in tables.items()}
    plain = query.with_(streams=[stream.with_(sign="op", identity=["k"]) for stream in query.streams])
    for constraints in (None, Monitored(reaction=STEP, sample=0.1)):
        _pushed(Engine(plain.with_(constraints=constraints)), signed)
    if len(query.names) == 2:
        running = Cql(f"Select sum(a.x) as x From a [Range {WINDOW}] ").start(time="t", sign="op")
        running.push({"a": signed["a"]})
        running.finish()


def _queued(query: Query, tables: Tables) -> None:
    """Behind a queue that overflows."""
    for form in ("rand", "integrated"):
        queue = Queue(Engine(query), service=1, capacity=20, form=form)
        queue.push(tables)


def _large(query: Query) -> None:
    """With so many rows that policies which try something out try it on samples."""
    rng = np.random.default_rng(0)
    time, number = np.arange(MANY), rng.random(MANY)
    tables = {n: pa.table({"t": time, "k": rng.integers(0, MANY // 4, MANY), "x": number}) for n in query.names}
    engine = Engine(query, count_only=True)
    for start in range(0, MANY, MANY // 8):
        engine.push({name: table.slice(start, MANY // 8) for name, table in tables.items()})
    Engine.restore(engine.snapshot())


def _changing(query: Query) -> None:
    """A key for every row, then several rows of a key, and again, so that a block has to be packed."""
    single, shared = np.arange(ROWS, 2 * ROWS), np.arange(6 * ROWS) // 6 % (ROWS // 6)
    keys = np.concatenate([single, shared, single + ROWS])
    tables = {n: pa.table({"t": np.arange(len(keys)) // 100, "k": keys, "x": keys / 4}) for n in query.names}
    Engine(query, count_only=True).push(tables)
