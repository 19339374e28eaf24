"""The query of a two-stream join from the few words that the common case needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

from windrow.errors import SpecError, alternatives
from windrow.policies import Policy
from windrow.spec.constraints import Constraint, Monitored, OnViolation
from windrow.spec.durations import DurationLike
from windrow.spec.filters import Filter
from windrow.spec.joins import Entries
from windrow.spec.memory import Memory
from windrow.spec.output import Selection, Value
from windrow.spec.query import Query
from windrow.spec.stream import FilterLike, Stream
from windrow.spec.window import WindowLike

SIDES = ("left", "right")

T = TypeVar("T")
PerSide: TypeAlias = T | Mapping[str, T]
"""One value for both sides, or a mapping with the keys "left" and "right"; a missing side has the default."""


def pair_query(
    on: Entries,
    time: PerSide[str] | None = None,
    within: PerSide[WindowLike] | None = None,
    memory: Memory | int | str | None = None,
    policy: Policy | str = "auto",
    *,
    lateness: PerSide[DurationLike] = 0,
    where: Mapping[str, Filter | Iterable[FilterLike]] | None = None,
    select: Selection | None = None,
    value: Value | None = None,
    on_full: Literal["shed", "fail"] = "shed",
    order: Literal["time", "arrival"] = "time",
    patience: DurationLike | None = None,
    seed: int = 0,
    sample: float | Literal["unbiased"] | None = None,
    shards: int | None = None,
    constraints: Literal["watch", "auto"] | Monitored | Constraint | Iterable[Constraint] | None = None,
    on_violation: OnViolation = "lose",
) -> Query:
    """The join of the streams "left" and "right"; `time`, `within` and `lateness` may differ per side.

    >>> query = pair_query("user_id", time="ts", within={"left": "10 minutes", "right": "1 hour"})
    >>> [(stream.name, str(stream.window)) for stream in query.streams]
    [('left', '10 minutes'), ('right', '1 hour')]
    """
    times, windows = _per_side(time, "time", None), _per_side(within, "within", None)
    lags, filters = _per_side(lateness, "lateness", 0), _per_side(where or {}, "where", ())
    query = Query(
        streams=[Stream(side, times[side], windows[side], lags[side], filters[side]) for side in SIDES],
        on=on,
        select=select,
        value=value,
        memory=memory,
        policy=policy,
        on_full=on_full,
        order=order,
        patience=patience,
        seed=seed,
        sample=sample,
        shards=shards,
        constraints=constraints,
        on_violation=on_violation,
    )
    query.refuse_names("a call on two tables")
    return query


def _per_side(value: Any, what: str, default: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return dict.fromkeys(SIDES, value)
    for side in value:
        if side not in SIDES:
            raise SpecError(f"{what} has no side {side!r}{alternatives(str(side), SIDES, 'sides')}")
    return {side: value.get(side, default) for side in SIDES}
