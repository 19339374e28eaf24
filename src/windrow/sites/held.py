"""Held: a window at a site, in an engine that looks at it stage by stage.

    store(rows)      the engine keeps a row until its last moment (`Bound.until`)
    probe(rows)      pairs of an arriving row and a resident: predicates hold, and its last moment is not past
    partners(rows)   which arriving rows have such a pair

An engine's event time is a moment here: a resident has the time of its last moment in a window of one step, and an
arriving row, whose stream has no bound, meets it as long as that is not before its own moment. So rows may be stored in
any order, as long as they live, and leave when the lowest moment that anybody may still ask about has passed them.
Whether the resident came before the arriving row is for the caller to judge (`windows.py`).

Several users may share one window: its rows stay until the slowest user is past them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine import stages
from windrow.engine.engine import Engine
from windrow.kernels import layout as at
from windrow.kernels.layout import LOW
from windrow.sites.bound import parts
from windrow.sites.budget import Share
from windrow.spec import Query, Stream, Window, split_reference
from windrow.spec.predicates import Predicate
from windrow.state.columns import empty_table

LAST, NOW, ROW = "@last", "@now", "@row"
NEVER_LATE = 2**61  # units of moments
LAZY = 8  # releases, after which rows expire though none are stored


@dataclass(frozen=True)
class Shape:
    """What a window is asked: its stream's columns that are kept, and the predicates with the types on their far side.

    Two programs of one shape at one site share a window.
    """

    stream: str
    kept: tuple[str, ...]
    predicates: tuple[Predicate, ...]

    @property
    def asked(self) -> list[str]:
        """The columns of arriving rows that the predicates read, in order."""
        found = [c for p in self.predicates for c in p.columns if split_reference(c)[0] not in parts([self.stream])]
        return list(dict.fromkeys(found))

    @cached_property
    def own(self) -> list[str]:
        """The columns of the window's stream that the predicates read."""
        found = [c for p in self.predicates for c in p.columns if split_reference(c)[0] in parts([self.stream])]
        return list(dict.fromkeys(found))

    def rewritten(self) -> list[Predicate]:
        """The predicates between the streams w (window) and p (probing) of the engine."""
        places = {c: f"p.{k}" for k, c in enumerate(self.asked)} | {c: f"w.{c}" for c in self.own}
        return [p.with_(left=_renamed(p.left, places), right=_renamed(p.right, places)) for p in self.predicates]


def _renamed(side: Any, places: dict[str, str]) -> Any:
    return places[side] if isinstance(side, str) else tuple(places[c] for c in side)


class Held:
    """The residents of one window, asked about one set of predicates."""

    def __init__(
        self, shape: Shape, schema: pa.Schema, asked: Sequence[pa.DataType], share: Share | None = None
    ) -> None:
        """`schema` has the columns of residents, `asked` the types of the columns that arriving rows bring.

        With a share of a budget, what does not fit is shed by a policy. Arriving rows teach it, so they are pushed and
        not stored. Times are last moments, far ahead of those who ask: nobody may be late for them when memory is full.
        """
        self.shape = shape
        self.kept = [schema.field(name) for name in shape.kept]
        columns = {field.name: field for field in [*self.kept, *(schema.field(c) for c in shape.own)]}
        self.residents = pa.schema([pa.field(LAST, pa.int64()), *columns.values()])
        self.arriving = pa.schema(
            [pa.field(NOW, pa.int64()), pa.field(ROW, pa.int64()), *(pa.field(str(k), t) for k, t in enumerate(asked))]
        )
        self.share = share
        streams = [Stream("w", LAST, Window.time(1)), Stream("p", NOW, Window.unbounded())]
        select = [(f"p.{ROW}", ROW), *((f"w.{field.name}", field.name) for field in self.kept)]
        self.query = Query(streams=streams, on=shape.rewritten(), select=select, policy="fifo")
        if share is not None:
            streams[1] = Stream("p", NOW, Window.time(NEVER_LATE))  # some policies ask how long windows are
            streams = [stream.with_(lateness=NEVER_LATE) for stream in streams]
            self.query = self.query.with_(streams=streams, memory=share.memory, policy=share.policy)
        self.engine = Engine(self.query, {"w": self.residents, "p": self.arriving}, own_clock=False)
        self.users: dict[str, int] = {}
        self.stored = -1
        self.joined: int | None = None  # pairs that were joined: those whose resident came first
        self.passed: int | None = None  # rows for whom one pair is enough, that had one: see `Loss.of_window`
        self._raised, self._releases = LOW, 0

    def join_users(self, user: str) -> None:
        """One more user, who may ask about any moment."""
        self.users[user] = LOW

    def store(self, rows: pa.Table, until: np.ndarray) -> None:
        """Keep rows until their last moments."""
        alive = until >= self.low if len(until) else np.zeros(0, np.bool_)
        if alive.any():
            columns = [pa.array(until), *(rows[name] for name in self.residents.names[1:])]
            table = pa.Table.from_arrays(columns, schema=self.residents)
            rows = table if alive.all() else table.filter(pa.array(alive))
            stages.store(self.engine, {"w": rows}, None if self.low == LOW else self.low)
            self._raised = self.low

    def store_once(self, interval: int, rows: pa.Table, until: np.ndarray) -> None:
        """Keep the rows of an interval, if no other user has brought them."""
        if interval > self.stored:
            self.store(rows, until)
            self.stored = interval

    @property
    def low(self) -> int:
        """The lowest moment that a user may still ask about."""
        return min(self.users.values(), default=LOW)

    def release(self, user: str, moment: int) -> None:
        """A user will not ask about moments before this one: rows whose last moment is past expire, now or soon.

        They leave with the next rows that are stored, which costs less than a call for each interval.
        """
        self.users[user] = max(self.users[user], moment)
        self._releases += 1
        lazy = self.share is None and self._releases % LAZY != 0
        if self.low > self._raised and not lazy and (self.resident_rows or self.share is not None):
            self.engine.push({}, watermark=self.low)
            self._raised = self.low

    def probe(self, now: np.ndarray, columns: Sequence[Any]) -> tuple[np.ndarray, pa.Table]:
        """Pairs: the places of arriving rows, and the residents that they meet."""
        if not len(now) or (self.share is None and not self.resident_rows):
            return np.zeros(0, np.int64), empty_table(pa.schema(self.kept))
        ask = stages.probe if self.share is None else stages.meet
        found = ask(self.engine, {"p": self._asking(now, columns)})
        return found[ROW].to_numpy(), found.drop_columns([ROW])

    def partners(self, now: np.ndarray, columns: Sequence[Any]) -> np.ndarray:
        """Which arriving rows meet somebody."""
        if self.share is not None:
            met = np.zeros(len(now), np.bool_)
            met[self.probe(now, columns)[0]] = True
            self.passed = (self.passed or 0) + int(met.sum())
            return met
        if not len(now) or not self.resident_rows:
            return np.zeros(len(now), np.bool_)
        return stages.partners(self.engine, {"p": self._asking(now, columns)})["p"]

    def _asking(self, now: np.ndarray, columns: Sequence[Any]) -> pa.Table:
        return pa.Table.from_arrays([pa.array(now), pa.array(np.arange(len(now))), *columns], schema=self.arriving)

    @property
    def resident_rows(self) -> int:
        """How many rows are held."""
        return int(self.engine.bound()[1].stream_counter(at.Stream.rows)[0])

    # -- snapshots -------------------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[dict[str, Any], bytes]:
        """What is held, as a header of JSON values and the engine's own snapshot."""
        head = {"users": self.users, "stored": self.stored, "raised": self._raised}
        head |= {"joined": self.joined, "passed": self.passed}
        return head, self.engine.snapshot()

    def restore(self, header: dict[str, Any], data: bytes) -> None:
        """Go on from a snapshot."""
        self.users, self.stored, self._raised = dict(header["users"]), int(header["stored"]), int(header["raised"])
        self.joined, self.passed = header["joined"], header["passed"]
        self.engine = Engine.restore(data, own_clock=False)
