"""An instance: what the optimum is asked of. When each row comes, how long it may stay of use, and who it would match.

Time is counted in instants, the different times at which rows come. Rows that are held from an instant to the next take
one place of their pool in the gap between the two. A row that comes at instant a and is of use until instant l can be
held over the gaps a, ..., l - 1; if it is held up to an instant, it has had all its matches until then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.bind import Binding, bind
from windrow.engine.intake import as_table, plain_schema
from windrow.engine.prepare import Rows, rows_of, tables
from windrow.errors import MemoryTooSmall, SpecError, UnknownColumn
from windrow.kernels import layout as at
from windrow.offline.changes import Changes, memory_starts, window_starts
from windrow.offline.matches import Events, events_of, matches_of, worth_of
from windrow.spec import Memory, Query
from windrow.spec.durations import parse_duration
from windrow.state.coding import duration_in_units, lengths


@dataclass(frozen=True)
class Instance:
    """Rows that may match, in the order in which they come (instant, then stream, then position).

    `events` are the matches of held rows: a row that is held until the instant of event e gains `gain[e]`. Where rows
    of one stream and key are all alike (`key` is given), there are none: only the number of rows held matters.
    """

    ticks: np.ndarray  # of every instant
    stream: np.ndarray
    position: np.ndarray  # of each row in its stream's table
    instant: np.ndarray
    last: np.ndarray  # the last instant at which the row can match
    pool: np.ndarray
    places: np.ndarray  # [pool, gap]: rows that may be held over it
    key: np.ndarray | None
    at_once: float  # gained by rows that come together, whatever is held
    counted_from: int  # the first instant whose matches count
    events: Events
    gain: np.ndarray  # of each event

    @property
    def rows(self) -> int:
        """How many rows may be held."""
        return len(self.instant)

    @property
    def gaps(self) -> int:
        """How many gaps there are between instants."""
        return max(len(self.ticks) - 1, 0)


@dataclass(frozen=True)
class Question:
    """What is asked: a query over whole tables, and what changes while they run."""

    query: Query
    tables: Mapping[str, Any]
    memory: Any
    memory_changes: Changes = ()
    window_changes: Mapping[str, Changes] | None = None
    lifetimes: Mapping[str, str] | None = None
    warm_up: Any = 0
    value: Callable[[pa.Table], Any] | None = None


@dataclass(frozen=True)
class Whole:
    """The tables of a question, and their rows as the engine sees them."""

    tables: dict[str, pa.Table]
    rows: list[Rows]


def whole_of(question: Question) -> tuple[Binding, Whole]:
    """What a question is asked of, bound."""
    query = question.query.with_(memory=None)
    _check(query, question.tables)
    given = {name: as_table(question.tables[name], name) for name in query.names}
    binding = bind(query, {name: plain_schema(table.schema) for name, table in given.items()})
    return binding, Whole(given, [rows_of(binding, s, t) for s, t in enumerate(tables(binding, given))])


def instance_of(question: Question) -> Instance:
    """The instance of a question."""
    binding, whole = whole_of(question)
    rows = whole.rows
    parts = [np.flatnonzero(r.keep) for r in rows]
    stream = np.repeat(np.arange(len(rows)), [len(p) for p in parts])
    position = np.concatenate(parts)
    time = np.concatenate([r.time[p] for r, p in zip(rows, parts, strict=True)])
    every = np.unique(np.concatenate([r.time[r.counted] for r in rows])) if len(time) else np.zeros(0, np.int64)
    order = np.lexsort((position, stream, time))
    stream, position, time = stream[order], position[order], time[order]
    instant = np.searchsorted(every, time)
    last = _last(question, binding, every, stream, time, instant)
    last = np.minimum(last, _own_last(question, binding, whole, every, stream, position, time))
    places, pools = _places(question, binding, every)
    places = np.minimum(places, len(stream))  # more than all rows is never held
    base = {
        "ticks": every, "stream": stream, "position": position, "instant": instant, "last": last,
        "pool": pools[stream] if len(stream) else stream, "places": places,
        "counted_from": _counted_from(question, binding, every),
    }  # fmt: skip
    if _is_alike(question, binding):
        codes = np.concatenate([r.codes[0][p] for r, p in zip(rows, parts, strict=True)])[order]
        return _alike(base, codes, _near(binding, every))
    return _by_matches(base, question, binding, whole)


def _check(query: Query, given: Mapping[str, Any]) -> None:
    query.refuse_names("the optimum")
    query.refuse_deletions("the optimum knows insertions only")
    if not isinstance(given, Mapping):
        raise SpecError(f"tables of a query are given by stream, {{{query.names[0]!r}: table, ...}}")
    if set(given) != set(query.names):
        raise SpecError(f"the query's streams are {', '.join(query.names)}, and tables came for {', '.join(given)}")
    if query.order != "time":
        raise SpecError("the optimum takes rows in order of time: order='time'")


def _is_alike(question: Question, binding: Binding) -> bool:
    """Whether rows of one key are worth the same to everybody, so that only their number matters."""
    plan = binding.plan
    timed = all(stream.window.kind != "rows" for stream in binding.query.streams)
    same = question.value is None and binding.query.value is None and not question.lifetimes
    return plan.is_pair and timed and same


def _near(binding: Binding, ticks: np.ndarray) -> np.ndarray:
    """At which instants rows that come together match: those of the second stream meet those of the first."""
    windows = binding.plan.windows
    return (ticks >= windows[0, at.Stream.since - at.Stream.reach]) & windows[:, at.Stream.near - at.Stream.reach].any()


def _last(
    question: Question, binding: Binding, ticks: np.ndarray, stream: np.ndarray, time: np.ndarray, instant: np.ndarray
) -> np.ndarray:
    """The last instant at which each row is inside its window, windows changing as asked."""
    last = instant.copy()
    changes = window_starts(question.window_changes, binding, ticks)
    for s, name in enumerate(binding.query.names):
        mine = stream == s
        words = binding.plan.windows[s]
        reach = np.full(len(ticks), words[0], np.int64)
        for start, window in changes.get(name, ()):
            changed = bind(binding.query.with_window(name, window), binding.schemas).plan.windows[s]
            reach[start:] = changed[0]
        floor = np.maximum.accumulate(_before(ticks, reach.view(np.uint64))) if len(ticks) else ticks
        found = np.searchsorted(floor, time[mine], side="right") - 1
        since = words[at.Stream.since - at.Stream.reach]
        last[mine] = np.where(time[mine] < since, instant[mine], np.maximum(found, instant[mine]))
    return last


def _before(ticks: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """The times so far before others, or LOW: as kernels/distances.py has it, for arrays."""
    from_low = ticks.view(np.uint64) - np.uint64(2**63)  # modulo 2**64
    return np.where(reach >= from_low, at.LOW, ticks - reach.view(np.int64))


def _own_last(
    question: Question, binding: Binding, whole: Whole, ticks: np.ndarray, stream: np.ndarray,
    position: np.ndarray, time: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """The last instant of each row's own lifetime, where the rows of its stream have one."""
    last = np.full(len(stream), len(ticks))
    given: Any = question.lifetimes or {}
    if not isinstance(given, Mapping) or not all(isinstance(column, str) for column in given.values()):
        raise SpecError(f"lifetimes are columns by stream, such as {{'left': 'length'}}, got {given!r}")
    for name, column in given.items():
        if name not in binding.query.names:
            raise SpecError(f"lifetimes: there is no stream {name!r}; the streams are {', '.join(binding.query.names)}")
        table = whole.tables[name]
        if column not in table.column_names:
            raise UnknownColumn.of(column, table.column_names, f"lifetimes: stream {name!r}")
        mine = stream == binding.query.names.index(name)
        own = lengths(table[column], binding.domain, f"{name}.{column}")[position[mine]]
        mine_until = np.searchsorted(ticks, time[mine] + own.view(np.int64), side="left") - 1
        never_ends = own > np.uint64(at.LATEST) - time[mine].view(np.uint64)
        last[mine] = np.where(never_ends, len(ticks), mine_until)
    return last


def _counted_from(question: Question, binding: Binding, ticks: np.ndarray) -> int:
    """The first instant after the warm-up, which is a duration from the first."""
    if not len(ticks):
        return 0
    length = parse_duration(question.warm_up, "warm_up")
    units = duration_in_units(length.amount, length.unit, binding.domain, "warm_up")
    first = int(ticks[0]) + math.ceil(units)
    return int(np.searchsorted(ticks, first)) if first <= at.LATEST else len(ticks)


def _places(question: Question, binding: Binding, ticks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[pool, gap]: places, and the pool of each stream."""
    gaps = max(len(ticks) - 1, 0)
    names = binding.query.names
    steps = [(0, question.memory), *memory_starts(question.memory_changes, question.memory, binding, ticks)]
    found: np.ndarray | None = None
    for start, limit in steps:
        memory = Memory.of(limit) if not isinstance(limit, int) or limit > 0 else limit
        rows = places_of(memory, names)
        if found is None:
            found = np.zeros((len(rows), gaps), np.int64)
        if len(rows) != len(found):
            raise SpecError("memory cannot change between shared and split while the streams run")
        found[:, start:] = np.array(rows)[:, None]
    assert found is not None
    pools = np.arange(len(names)) if len(found) > 1 else np.zeros(len(names), np.int64)
    return found, pools


def places_of(memory: Any, names: Sequence[str]) -> list[int]:
    """Places per pool."""
    if isinstance(memory, int):
        if memory < 0:
            raise MemoryTooSmall(f"memory cannot be negative, got {memory} rows")
        return [memory]
    if memory is None or memory.rows is None:
        raise SpecError(f"the optimum counts memory in rows, got {memory}: give a number of rows")
    return list(memory.rows_by_pool(names))


def _alike(base: dict[str, Any], codes: np.ndarray, near: np.ndarray) -> Instance:
    """Rows of one key are alike: events are the arrivals of the other stream's rows of the key."""
    _, key = np.unique(codes, return_inverse=True)
    together = 0.0
    if near.any():
        counted = (base["instant"] >= base["counted_from"]) & near[base["instant"]]
        both = [key[(base["stream"] == s) & counted] * np.int64(len(base["ticks"])) for s in (0, 1)]
        ids = [b + base["instant"][(base["stream"] == s) & counted] for s, b in enumerate(both)]
        (left, n), (right, k) = (np.unique(i, return_counts=True) for i in ids)
        _, i, j = np.intersect1d(left, right, assume_unique=True, return_indices=True)
        together = float((n[i] * k[j]).sum())
    none = np.zeros(0, np.int64)
    events = Events(none, none, none, np.zeros(0))
    return Instance(**base, key=key, at_once=together, events=events, gain=np.zeros(0))


def _by_matches(base: dict[str, Any], question: Question, binding: Binding, whole: Whole) -> Instance:
    """Every match of the exact join is an event of each row that has to wait for it."""
    matches = matches_of(question, whole.tables)
    worth = worth_of(question, whole.tables, matches, whole.rows)
    place = np.full((len(whole.rows), max((len(r.time) for r in whole.rows), default=0)), -1, np.int64)
    place[base["stream"], base["position"]] = np.arange(len(base["stream"]))
    rows = place[np.arange(len(matches))[:, None], matches] if matches.size else matches.astype(np.int64)
    events, together = events_of(rows, worth, base["instant"], base["last"], base["counted_from"])
    return Instance(**base, key=None, at_once=together, events=events, gain=events.worth[events.match] / events.shares)
