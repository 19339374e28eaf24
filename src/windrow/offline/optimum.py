"""`windrow.optimum`: the largest result that any choice of what to hold could have given, and such a choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from windrow.errors import SpecError
from windrow.offline.bracket import bracket
from windrow.offline.changes import Changes
from windrow.offline.flow import solve
from windrow.offline.graph import chains_of_keys, chains_of_rows, network
from windrow.offline.instance import Instance, Question, instance_of
from windrow.offline.many import bounded
from windrow.offline.replay import replay
from windrow.offline.schedule import fits, gain_of, until_of_keys, until_of_rows
from windrow.record import one_of
from windrow.spec import DurationLike, Query, WindowLike, pair_query

MANY_ROWS = 20_000  # of both streams: above that, where the exact solution may take minutes, the bracket is given
FINEST = 1e-6  # of the largest gain: where gains are no whole numbers, they are counted in such units


@dataclass(frozen=True, repr=False)
class Optimum:
    """The best that memory allows.

    `value` is what the schedule gains: matches, or their worth. `bound` is what no schedule can pass; where both are
    the same, the schedule is optimal. `exact` is what unlimited memory gives.
    """

    value: float
    bound: float
    exact: float
    question: Question
    instance: Instance
    until: np.ndarray

    @property
    def gap(self) -> float:
        """How far the schedule may be from the best possible, as a share of it."""
        return (self.bound - self.value) / self.bound if self.bound > 0 else 0.0

    def __repr__(self) -> str:
        return f"Optimum(value={self.value:,.10g}, bound={self.bound:,.10g}, exact={self.exact:,.10g})"

    def schedule(self, stream: str) -> np.ndarray:
        """For each row of a stream's table, the number of the instant until which it is held.

        Instants are the different times of all rows, counted from 0. As a column of the tables it is what policy
        `Given` needs to follow the schedule:

        >>> import pyarrow as pa, windrow as wr
        >>> keys = {"left": [1, 2, 1, 2], "right": [3, 1, 1, 1]}
        >>> sides = {side: pa.table({"k": mine, "t": range(4)}) for side, mine in keys.items()}
        >>> best = wr.optimum(*sides.values(), on="k", time="t", within=3, memory=1)
        >>> best
        Optimum(value=4, bound=4, exact=5)
        >>> best.schedule("left").tolist()
        [2, 1, 3, 3]
        >>> given = [table.append_column("until", [best.schedule(side)]) for side, table in sides.items()]
        >>> wr.join(*given, on="k", time="t", within=3, memory=1, policy=wr.policies.Given("until")).metrics.matched
        4
        """
        names = self.question.query.names
        if stream not in names:
            raise SpecError(f"there is no stream {stream!r}; the streams are {', '.join(names)}")
        mine = self.instance.stream == names.index(stream)
        found = np.zeros(len(self.question.tables[stream]), np.int64)
        found[self.instance.position[mine]] = self.until[mine]
        return found

    def replay(self) -> float:
        """What the engine gains that follows the schedule, memory and windows changing as asked.

        It is `value` where that is the optimum and no match is worth less than nothing; otherwise it may be more or
        less, because the engine sheds nothing while there is room. Rows with lifetimes of their own, or a memory of no
        rows at all, are nothing that an engine could be given.
        """
        return replay(self.question, self.instance, self.until)


def optimum(
    left: Any,
    right: Any,
    on: Any = None,
    time: str | Mapping[str, str] | None = None,
    within: WindowLike | Mapping[str, WindowLike] | None = None,
    memory: Any = None,
    *,
    memory_changes: Changes = (),
    window_changes: Mapping[str, Changes] | None = None,
    lifetimes: Mapping[str, str] | None = None,
    warm_up: DurationLike = 0,
    value: Any = None,
    where: Any = None,
    method: Literal["auto", "exact", "bracket"] = "auto",
) -> Optimum:
    """The optimum of a join of two tables, given as for `windrow.join`.

    `optimum(query, {"a": table, "b": table, "c": table})` asks the same of any `Query` of time order. Of three and more
    streams the optimum is not known: `bound` is what no schedule can pass, `value` what a schedule gains.

    Parameters:
        memory: rows that may be held from one instant to the next; split between the streams with
            `Memory(rows, split=True)`, shared otherwise. By default the query's.
        memory_changes: (time, memory) from when on the memory is another, as `[(100, 50)]` or
            `[("2026-01-01T12:00", 50)]`; a number is split as the first memory is.
        window_changes: by side, (time, window) from when on its window is another, as `{"left": [(100, 20)]}`.
        lifetimes: by side, a column that says how long each row can match at most, besides its window: whole numbers or
            durations, as times are; null for no limit.
        warm_up: a duration from the first row; matches in it do not count.
        value: what a match is worth: a `Value`, or a function of a table of all pairs (columns "left.x", "right.y")
            that gives one number for each.
        method: "exact" solves for the optimum itself; "bracket" gives a schedule and a bound that no schedule can
            pass, for equality joins of any length in time windows with matches of equal worth; "auto" takes the bracket
            above 20,000 rows where it can. Solving exactly takes seconds for 10,000 rows, and minutes for 40,000.
    """
    called = value if callable(value) else None
    if isinstance(left, Query):
        if on is not None or time is not None or within is not None or where is not None:
            raise SpecError("on, time, within and where are the query's: leave them out")
        query = left.with_(shards=None)  # what is possible in one memory
        query, sides = query if value is None or called else query.with_(value=value), right
    else:
        if on is None:
            raise SpecError("the optimum of two tables needs on=: the columns that must be equal")
        query = pair_query(on, time, within, where=where, value=None if called else value)
        sides = {"left": left, "right": right}
    memory = query.memory if memory is None else memory
    question = Question(query, sides, memory, memory_changes, window_changes, lifetimes, warm_up, called)
    return optimum_of(question, method)


def optimum_of(question: Question, method: Literal["auto", "exact", "bracket"] = "auto") -> Optimum:
    """The optimum of a question, solved exactly or bracketed."""
    if question.memory is None:
        raise SpecError("the optimum needs memory=: without a limit the exact join is the best")
    one_of(method, ("auto", "exact", "bracket"), "method")
    instance = instance_of(question)
    if method == "bracket" and instance.key is None:
        raise SpecError("a bracket needs an equality join, time windows and matches of equal worth: use method='exact'")
    if instance.key is not None and (method == "bracket" or (method == "auto" and instance.rows > MANY_ROWS)):
        bound, value, until = bracket(instance)
        return Optimum(value, bound, gain_of(instance, instance.last), question, instance, until)
    if len(question.query.streams) > 2:
        bound, value, until = bounded(instance, _by_flow)
    else:
        until, bound = _by_flow(instance)
        value = gain_of(instance, until)
    assert fits(instance, until), "a schedule from a flow fits the memory"
    return Optimum(value, bound, gain_of(instance, instance.last), question, instance, until)


def _by_flow(instance: Instance) -> tuple[np.ndarray, float]:
    """The best schedule, and what no schedule can pass."""
    until = instance.instant.copy()
    bound = instance.at_once
    for pool in range(instance.places.shape[0]):
        rows, held, most = _solved(instance, pool)
        until[rows] = held
        bound += most
    return until, bound


def _solved(instance: Instance, pool: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Rows of a pool, until when each is held, and what no schedule can pass."""
    chains = chains_of_rows(instance, pool) if instance.key is None else chains_of_keys(instance, pool)
    unit = unit_of(chains.event_gain)
    net = network(instance, chains, pool, unit)
    flow = solve(net)
    rounded = 0.0 if unit == 1.0 else unit / 2 * len(chains.event_gain)  # each gain may be counted half a unit short
    most = unit * float((flow * net.gain).sum()) + rounded
    if instance.key is None:
        return *until_of_rows(instance, chains, net, flow), most
    return *until_of_keys(instance, chains, net, flow, pool), most


def unit_of(gain: np.ndarray) -> float:
    """The unit in which gains are counted: one where they are whole, otherwise a small part of the largest."""
    largest = float(np.abs(gain).max(initial=0.0))
    if largest == 0.0 or (np.all(gain == np.rint(gain)) and largest < 2**31):
        return 1.0
    return largest * FINEST
