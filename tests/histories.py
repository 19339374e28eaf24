"""Hypothesis strategies for the whole life of an engine: how it is made, and what happens to it, step by step.

A history is a case (streams.py) with a policy and a budget, and with columns of extreme numbers; its steps are pushes,
some with a watermark, and changes of memory and windows in between. In part of the histories the rule AUTO has small
constants, so that a few rows are enough for its trials.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from tests.running import start
from tests.streams import ANY_WINDOW, DEFAULT, TIME_KINDS, Case, TimeKind, cases, statistics_of, windows

import windrow as wr
from windrow import policies
from windrow.engine import bind as binding
from windrow.engine.intake import plain_schema
from windrow.errors import MemoryTooSmall
from windrow.kernels import layout as at
from windrow.policies import greedy_dual
from windrow.spec import Memory, Query, Value, Window
from windrow.spec.bytesize import parse_bytes
from windrow.spec.graph import useful
from windrow.state.auto import trials as choosing
from windrow.state.parts import Capacity

END = 2**63 - 1
EXTREME = [math.inf, -math.inf, math.nan, 1e308, -1e308, 5e-324, None, 1e150, -0.0]
FAR_TIMES = [2**62 - 1, 2**62, END, -(2**62) + 1, -(2**62), -END - 1]
ROOMY = at.CACHED  # keys whose table is twice as large, so that leaves may wait (kernels/policies/ranked.py)
MARKS = [2**62, END, -(2**62), -END, 0]  # beyond, a watermark is refused: no row could have the time

THOROUGH = 1_000
"""Examples of a profile in which histories of every policy may have constraints, and not of the default one alone: each
policy with constraints has kernels of its own, which take half a minute to compile."""

Schemas = dict[str, pa.Schema]


# -------------------------------------------------------------------------------------------- steps


@dataclass(frozen=True)
class Push:
    """Rows come, perhaps none; a watermark may come with them."""

    tables: dict[str, pa.Table]
    watermark: Any = None

    def take(self, engine: wr.Engine) -> Any:
        return engine.push(self.tables, watermark=self.watermark)

    def __repr__(self) -> str:
        rows = {name: table.select(["t", "k", "worth"]).to_pylist() for name, table in self.tables.items()}
        return f"push (watermark {self.watermark}): {rows}"


@dataclass(frozen=True)
class Resize:
    """Memory changes."""

    memory: Memory | None

    def take(self, engine: wr.Engine) -> Any:
        engine.memory = self.memory


@dataclass(frozen=True)
class Rewindow:
    """A window changes."""

    stream: str
    window: Window

    def take(self, engine: wr.Engine) -> Any:
        engine.window(self.stream, self.window)


@dataclass(frozen=True)
class History:
    """How an engine is made, and its steps."""

    case: Case
    options: dict[str, bool]
    steps: list[Any]
    trial: dict[str, float] = field(default_factory=dict)
    roomy: bool = False

    def engine(self) -> wr.Engine:
        """The engine of the first step."""
        return start(self.case, **self.options)

    def never_restored(self) -> wr.Engine:
        """The same, perhaps in a block so large that kernels put off work that they do at once in what is restored."""
        engine = self.engine()
        if self.roomy:
            engine.bound()[1].grow(Capacity(keys=ROOMY))
        return engine

    @contextmanager
    def constants(self) -> Iterator[None]:
        """The constants of AUTO that the history asks for; what was bound under others is forgotten."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.trial.items():
                patch.setattr(choosing, name, value)
                if hasattr(binding, name):
                    patch.setattr(binding, name, value)
            binding._bound.cache_clear()
            yield
        binding._bound.cache_clear()

    def __repr__(self) -> str:
        lines = [f"{self.case!r}", f"{self.options} {self.trial} roomy: {self.roomy}", *map(repr, self.steps)]
        return "\n".join(lines)


# ----------------------------------------------------------------------------------------- policies


@st.composite
def gdj(draw: st.DrawFn) -> policies.Policy:
    """GreedyDual with any initial credit and method that go together."""
    methods: list[Any] = list(greedy_dual.METHODS)
    initial = draw(st.sampled_from([0.95, 0.0, 0.5, 1.0, *greedy_dual.INITIALS]))
    if initial == "top":
        methods = ["none", "top"]
    elif initial == "zero":
        methods = [m for m in methods if m not in (2, 3)]
    return policies.GreedyDual(initial=initial, method=draw(st.sampled_from(methods)))


def any_of(policy: type[policies.Policy]) -> st.SearchStrategy[Any]:
    """A policy with any parameters; a new one is found by itself, with its defaults or any statistic."""
    if policy is policies.GreedyDual:
        return gdj()
    if policy is policies.Age:
        return st.sampled_from([policies.Age(), policies.Age(curve=(1.0, 3.0, 0.5))])
    if policy.needs_statistics:
        return st.sampled_from(statistics_of()).map(lambda s: policy(statistics=s))  # type: ignore[call-arg]
    return st.just(policy())


WHOLE, SAMPLES = (4096,), (2, 4, 6)
"""How many rows the rule AUTO tries with at most: so many that it forks whole shards, or samples of their keys."""


def trials(rows: tuple[int, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Constants of AUTO with which a few rows are enough for trials, and for every way in which they end."""
    return st.fixed_dictionaries(
        {
            "FIRST_LOOK": st.sampled_from([1, 3, 8]),
            "LEAST_ROWS": st.just(1),
            "TRIAL_ROWS": st.sampled_from(rows),
            "TRIAL_WINDOWS": st.sampled_from([8, 1]),
            "STEADY": st.sampled_from([16, 0]),
            "FAR": st.sampled_from([0.02, 0.0]),
            "SURELY": st.sampled_from([4.0, 0.1]),
            "SURE": st.sampled_from([4.0, 0.1]),
            "MARGIN": st.sampled_from([0.005, -1.0]),
        }
    )


# ---------------------------------------------------------------------------------------- budgets


def told(query: Query, schemas: Schemas, split: Any, size: int = 1) -> int:
    """What is told to be enough where a size in bytes is not; 0 if it is."""
    plain = {name: plain_schema(schema) for name, schema in schemas.items()}
    try:
        binding.bind(query.with_(memory=Memory(f"{size} B", split)), plain)
    except MemoryTooSmall as error:
        return parse_bytes(str(error).rpartition("give at least ")[2])
    return 0


def smallest(query: Query, schemas: Schemas, split: Any, enough: int) -> int:
    """The smallest budget in bytes that is accepted, if `enough` is one rounded up in its third digit."""
    assert told(query, schemas, split, enough) == 0, "what is told to be enough is enough"
    low, high = enough - enough // 50, enough
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if told(query, schemas, split, middle) else (low, middle)
    return high


@st.composite
def budgets(draw: st.DrawFn, query: Query, schemas: Schemas) -> Memory:
    """Memory in rows or in bytes, shared or split, from the smallest that is accepted to more than is needed."""
    ratios = st.fixed_dictionaries({name: st.sampled_from([1, 2, 5]) for name in query.names})
    split = draw(st.none() | st.none() | st.just(True) | ratios)
    if draw(st.booleans()):
        portions = Memory(1, split).portions(query.names) or (1.0,)
        least = math.ceil(1 / min(portions))
        return Memory(least + draw(st.sampled_from([0, 1, 3, 8, 20, 1000])), split)
    least = told(query, schemas, split)
    more = draw(st.sampled_from([0, 1, 150, 600, 2000, 8000, least, 3 * least, 2_000_000]))
    least = smallest(query, schemas, split, least) if more < 2 else least
    return Memory(f"{least + more} B", split)


# ---------------------------------------------------------------------------------------- histories


def _seldom(draw: st.DrawFn, one_in: int) -> bool:
    return draw(st.integers(0, one_in - 1)) == one_in - 1


@st.composite
def histories(
    draw: st.DrawFn,
    kind: type[policies.Policy],
    tried: tuple[int, ...] = (),
    filling: bool = False,
    demoting: bool = False,
) -> History:
    """The life of an engine with a policy of a kind; of AUTO, with trials of so many rows if any are named; with memory
    that fills up in the middle, or with constraints whose rows go to disk, if told so."""
    policy, trial = draw(any_of(kind)), draw(trials(tried)) if tried else {}
    sampled = tried == SAMPLES
    kinds: tuple[str, ...] = ANY_WINDOW
    if policy.name.startswith("life"):  # compares lifetimes, so windows are all in time or all in rows
        kinds = draw(st.sampled_from([("time",), ("rows",)]))
    time_kind = draw(st.sampled_from(sorted(TIME_KINDS)))
    times, long = TIME_KINDS[time_kind], _seldom(draw, 3 if trial else 6)
    named = not sampled and not demoting and _seldom(draw, 4)
    case = draw(
        cases(
            streams=(2,) if long else draw(st.sampled_from([(2,), (2,), (2, 3, 4)])),
            timely=draw(st.booleans()),
            kinds=kinds,
            plain=sampled or draw(st.booleans()),  # keys that all streams share can be sampled
            time_kinds=(time_kind,),
            named=named,
            rows=100 if long else None,
        )
    )
    case = _with_extremes(case, Random(draw(st.integers(0, 10**6))), draw(st.booleans()), _seldom(draw, 4))
    query = case.query.with_(policy=policy, patience=draw(_patience(times, time_kind)))
    if not named and policy.name != "given" and draw(st.booleans()):
        valued = draw(st.sets(st.sampled_from(query.names), min_size=1))
        query = query.with_(value=Value(dict.fromkeys(valued, "worth"), draw(st.sampled_from(["product", "sum"]))))
    query = draw(_sampled(query))
    if kind is DEFAULT or settings.default.max_examples >= THOROUGH:
        query = draw(_promised(query, case.schemas, demoting))
    options = {name: draw(st.booleans()) for name in ("count_only", "departures")} | {"recall": not _seldom(draw, 4)}
    history = History(replace(case, query=query), options, [], trial, roomy=_seldom(draw, 3))
    with history.constants():
        memory = draw(budgets(query, case.schemas))
        if tried and not _seldom(draw, 4):  # more rows than samples are made of, and too few for the streams
            memory = Memory(draw(st.integers(8, 16)), memory.split if memory.split == "even" else None)
        if filling or (not tried and _seldom(draw, 3)):
            rows = sum(len(rows) for batch in case.batches for rows in batch.values())
            memory = Memory(len(query.names) + rows // draw(st.integers(2, 5)))
        if filling:
            history, query = replace(history, options={**options, "recall": True}), query.with_(sample=None)
        history = replace(history, case=replace(case, query=query.with_(memory=memory)))
        return replace(_opened(history), steps=_steps(draw, history, times))


def _opened(history: History) -> History:
    """The history with a budget that is accepted: an oracle's table is charged too, and floors come in steps."""
    try:
        history.engine()
        return history
    except MemoryTooSmall as error:
        enough, split = str(error).rpartition("give at least ")[2], history.case.query.memory.split
        return replace(history, case=history.case.with_query(memory=Memory(enough, split)))


def _patience(times: TimeKind, kind: str) -> st.SearchStrategy[Any]:
    far = [2**60, 2**62, END] if kind in ("int", "none") else [times.length(10**4)]
    return st.sampled_from([None, times.length(0) if kind in ("int", "none") else "0 s", times.length(3), *far])


@st.composite
def _sampled(draw: st.DrawFn, query: Query) -> Query:
    """The query with a sampler, or one that fails instead of shedding; mostly neither."""
    choice = draw(st.sampled_from([None, None, None, 0.5, "unbiased", "fail"]))
    if choice == "fail":
        return query.with_(on_full="fail")
    if choice == "unbiased" and any(s.window.kind not in ("time", "rows") for s in query.streams):
        choice = 0.1
    return query.with_(sample=choice)


@st.composite
def _promised(draw: st.DrawFn, query: Query, schemas: Schemas, demoting: bool) -> Query:
    """The query with constraints, declared or to be found, which its rows need not keep; in every third history without
    unless released rows are to go to disk."""
    choices = ["found", "declared", "declared"]
    choice = draw(st.sampled_from(choices if demoting else ["", "", "watched", *choices]))
    broken = ["demote"] if demoting else ["lose", "demote"]
    if query.named or not choice:
        return query
    if choice != "declared":
        monitored = wr.Monitored(release=choice == "found", reaction=draw(st.sampled_from([3, 12])), sample=0.5)
        return query.with_(constraints=monitored, on_violation=draw(st.sampled_from(broken)))
    known = st.lists(st.sampled_from(_declarable(query, schemas)), min_size=1, max_size=4, unique=True)
    promised = [c if isinstance(c, wr.Unique) else c.with_(k=draw(st.sampled_from([0, 3, 20]))) for c in draw(known)]
    broken_so = draw(st.sampled_from(broken if demoting else [*broken, wr.Lose(0.5)]))
    return query.with_(constraints=promised, on_violation=broken_so)


def _declarable(query: Query, schemas: Schemas) -> list[Any]:
    """The constraints that can release rows of a query; only numbers and times are ordered, each with its own kind."""

    def ordered(constraint: wr.Ordered) -> bool:
        column = constraint.column
        kinds = [schema.field(column).type for schema in schemas.values() if column in schema.names]
        numbers = all(pa.types.is_primitive(kind) and not pa.types.is_boolean(kind) for kind in kinds)
        return numbers and len({pa.int64() if pa.types.is_integer(kind) else kind for kind in kinds}) == 1

    return [c for c in useful(query) if not isinstance(c, wr.Ordered) or ordered(c)]


def _with_extremes(case: Case, random: Random, extreme: bool, far: bool) -> Case:
    """The case with columns for values and priorities, and with times that are far from 1970 where they are numbers."""
    pool = EXTREME if extreme else [0.0, 1.0, 2.5, -1.0, None]
    timed = case.query.streams[0].time is not None
    far = far and timed and all(pa.types.is_integer(schema.field("t").type) for schema in case.schemas.values())
    shift = random.choice([0, 2**62 - 64, -(2**62) + 8, END - 64, -END + 8]) if far else 0

    def row(old: dict[str, Any]) -> dict[str, Any]:
        more = {"worth": random.choice(pool), "priority": random.choice(pool)}
        if far:
            more["t"] = random.choice(FAR_TIMES) if random.random() < 0.04 else old["t"] + shift
        return {**old, **more}

    batches = [{name: [row(old) for old in rows] for name, rows in batch.items()} for batch in case.batches]
    schemas = dict(case.schemas)
    for name, schema in schemas.items():
        if far:
            schema = schema.set(schema.get_field_index("t"), pa.field("t", pa.int64()))
        schemas[name] = schema.append(pa.field("worth", pa.float64())).append(pa.field("priority", pa.float64()))
    return replace(case, batches=batches, schemas=schemas)


def _steps(draw: st.DrawFn, history: History, times: TimeKind) -> list[Any]:
    case, steps = history.case, []
    for batch, tables in zip(case.batches, case.tables, strict=True):
        if _seldom(draw, 4):
            steps.append(Resize(draw(_resized(case))))
        if _seldom(draw, 5):
            steps.append(draw(_rewindowed(case, times)))
        if _seldom(draw, 8):
            steps.append(Push({}))
        mark = draw(_marks([row["t"] for rows in batch.values() for row in rows])) if _seldom(draw, 4) else None
        steps.append(Push(tables, mark))
    return steps


@st.composite
def _resized(draw: st.DrawFn, case: Case) -> Memory | None:
    """Another budget; none at all only where no oracle would be forgotten with it."""
    statistic = getattr(case.query.policy, "statistics", None)
    if getattr(statistic, "name", "") != "oracle" and _seldom(draw, 5):
        return None
    return draw(budgets(case.query, case.schemas))


@st.composite
def _rewindowed(draw: st.DrawFn, case: Case, times: TimeKind) -> Rewindow:
    stream = draw(st.sampled_from(case.query.streams))
    kinds: tuple[str, ...] = ("rows",)
    if stream.window.kind != "rows":
        bounded = case.query.sample == "unbiased" or case.query.policy.name.startswith("life")
        kinds = ("time",) if bounded else ("time", "landmark", "unbounded")
    larger = {"time": Window.time(times.length(10**5)), "rows": Window.rows(2**50)}
    if kinds[0] in larger and _seldom(draw, 3):
        return Rewindow(stream.name, larger[kinds[0]])
    return Rewindow(stream.name, draw(windows(times, kinds)))


def _marks(seen: list[Any]) -> st.SearchStrategy[Any]:
    """A watermark: near the rows of a push, or as far away as can be."""
    timed = [t for t in seen if t != -END - 1]  # which is no time, and refused
    near = [datetime.combine(t, time()) if type(t) is date else t for t in timed[:1] + timed[-1:]]
    return st.sampled_from([*near, *near, *MARKS])
