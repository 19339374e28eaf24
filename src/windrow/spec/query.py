"""Query: what a join is, in full."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, Self

from windrow import policies
from windrow.errors import SpecError, alternatives
from windrow.policies import Policy
from windrow.record import Record, listed, number, one_of, whole
from windrow.spec import checks
from windrow.spec.constraints import (
    SPARED_SHARE,
    Constraint,
    Constraints,
    Demote,
    Lose,
    Monitored,
    OnViolation,
    constraint_from_dict,
    parse_constraints,
    parse_on_violation,
)
from windrow.spec.durations import Duration, DurationLike, parse_duration
from windrow.spec.joins import NamedJoin, OnLike, on_from_json, on_to_json, parse_on
from windrow.spec.memory import Memory
from windrow.spec.output import Output, Selection, Value, parse_select
from windrow.spec.predicates import Predicate
from windrow.spec.stream import Stream

MOST_STREAMS = 256  # a resident's record has a byte for its stream
MOST_SHARDS = 1 << 16
ProbeOrder = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, init=False)
class Query(Record):
    """A join of two or more streams: a match is one row of each for which all predicates and windows hold.

    Or several joins in one memory, by name: a stream's rows are then held once for all the joins it takes part in, and
    a policy weighs what they give to all of them.

    >>> query = Query(
    ...     streams=[Stream("clicks", "ts", "10 minutes"), Stream("orders", "ts", "10 minutes")],
    ...     on="user_id", memory="64 MB", policy="prob",
    ... )
    >>> Query.from_json(query.to_json()) == query
    True
    >>> both = query.with_(on={"buyers": "user_id", "pages": ["clicks.page = orders.page"]})
    >>> [(join.name, [str(predicate) for predicate in join.on]) for join in both.joins]
    [('buyers', ['clicks.user_id = orders.user_id']), ('pages', ['clicks.page = orders.page'])]

    Parameters:
        streams: two or more, of different names.
        on: predicates that connect all streams; a text is a column that is equal on all of them, or "a.x = b.y". A
            mapping from names to such predicates is several joins, each of the streams that its predicates mention.
        select: the output columns; None for all columns of all streams. Each of several joins has those of its streams.
        value: what a match is worth; None counts each match as one.
        memory: the cap; None for an exact, unbounded join.
        policy: what to shed when memory is full; a name or a configured policy.
        on_full: "shed" or "fail" when memory is full.
        order: take the rows of a batch in order of event "time", or of "arrival".
        patience: how far ahead in event time a stream may run before a silent one is no longer waited for;
            None waits for ever.
        sample: leave rows out in front of memory: probed, but never stored. The probability of it, or "unbiased" for
            as much as lets rows stay until they expire; only where memory is capped, like the policy.
        probe_order: for every stream, the other streams in the order in which its rows visit them; None
            lets the engine choose.
        seed: where the random choices start.
        shards: into how many independent slices the join is cut, by the hash of its key; memory is divided among them.
            Embedded each runs in a thread. None is one, or on Spark as many as there are shuffle partitions, up to 8.
        constraints: what is known about the streams, so that rows that cannot match any more are released: None for
            nothing, a list of Unique, Integrity, Clustered and Ordered, "auto" for what monitors find, or "watch" to
            have it reported and nothing released.
        on_violation: what a constraint that is broken costs: "lose" the matches of released rows, of which a sample
            sees that it is broken (`Lose` says how large); or "demote" released rows to disk, where they are found, so
            that it costs time and no match; `Demote` names a folder and a cap.
    """

    streams: tuple[Stream, ...]
    on: tuple[Predicate, ...] | tuple[NamedJoin, ...]
    select: tuple[Output, ...] | None
    value: Value | None
    memory: Memory | None
    policy: Policy
    on_full: Literal["shed", "fail"]
    order: Literal["time", "arrival"]
    patience: Duration | None
    probe_order: ProbeOrder | None
    seed: int
    sample: float | Literal["unbiased"] | None
    shards: int | None
    constraints: Constraints
    on_violation: OnViolation

    def __init__(
        self,
        *,
        streams: Iterable[Stream],
        on: OnLike,
        select: Selection | None = None,
        value: Value | None = None,
        memory: Memory | int | str | None = None,
        policy: Policy | str | Mapping[str, Any] = "auto",
        on_full: Literal["shed", "fail"] = "shed",
        order: Literal["time", "arrival"] = "time",
        patience: DurationLike | None = None,
        probe_order: Mapping[str, Iterable[str]] | ProbeOrder | None = None,
        seed: int = 0,
        sample: float | Literal["unbiased"] | None = None,
        shards: int | None = None,
        constraints: Literal["watch", "auto"] | Monitored | Constraint | Iterable[Constraint] | None = None,
        on_violation: OnViolation = "lose",
    ) -> None:
        parts = _streams(streams)
        names = tuple(stream.name for stream in parts)
        self._set(
            streams=parts,
            on=parse_on(on, names),
            select=parse_select(select),
            value=value,
            memory=Memory.of(memory),
            policy=policies.resolve(policy),
            on_full=one_of(on_full, ("shed", "fail"), "on_full"),
            order=one_of(order, ("time", "arrival"), "order"),
            patience=None if patience is None else parse_duration(patience, "patience"),
            probe_order=_probe_order(probe_order, names),
            seed=whole(seed, "seed"),
            sample=_sample(sample),
            shards=None if shards is None else whole(shards, "shards", least=1, most=MOST_SHARDS),
            constraints=parse_constraints(constraints),
            on_violation=parse_on_violation(on_violation),
        )
        checks.check(self)

    def to_json(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        """Every snapshot has it."""
        return super().to_json()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the streams, in their order."""
        return tuple(stream.name for stream in self.streams)

    @property
    def demotes(self) -> Demote | None:
        """How released rows are kept on disk, if they are."""
        given = Demote() if self.on_violation == "demote" else self.on_violation
        return given if isinstance(given, Demote) else None

    @property
    def spares(self) -> float:
        """The share of rows that declared constraints would release and that stay, to see whether these hold."""
        if self.demotes is not None:
            return 0.0  # what is released is found again
        return self.on_violation.sample if isinstance(self.on_violation, Lose) else SPARED_SHARE

    @property
    def named(self) -> bool:
        """Whether its joins have names, so that matches come by name."""
        return bool(self.on) and isinstance(self.on[0], NamedJoin)

    @property
    def joins(self) -> tuple[NamedJoin, ...]:
        """The joins; the only one of a query without names has the name ''."""
        return self.on if self.named else (NamedJoin("", self.on),)  # type: ignore[return-value, arg-type]

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        """The predicates of all joins."""
        return tuple(predicate for join in self.joins for predicate in join.on)

    def refuse_names(self, who: str) -> None:
        """Raise an error that says what to do instead, if the joins have names: for callers that give one table."""
        if self.named:
            names = ", ".join(join.name for join in self.joins)
            raise SpecError(
                f"{who} takes one join, and this query names its joins ({names}): run them in one memory with "
                "windrow.Engine(query), or each as a query of its own"
            )

    def refuse_deletions(self, why: str) -> None:
        """Raise an error if streams bring deletions: for callers that would take them for rows, or lose them."""
        for stream in self.streams:
            if stream.sign is not None:
                raise SpecError(f"stream {stream.name!r} brings deletions (sign={stream.sign!r}), and {why}")

    def stream(self, name: str) -> Stream:
        """The stream called `name`."""
        for stream in self.streams:
            if stream.name == name:
                return stream
        raise SpecError(f"the query has no stream {name!r}{alternatives(str(name), self.names, 'streams')}")

    def with_window(self, name: str, window: Any) -> Query:
        """A copy in which the stream called `name` has another window."""
        old = self.stream(name)
        new = old.with_(window=window)
        return self.with_(streams=tuple(new if stream is old else stream for stream in self.streams))

    def on_spark(self, frames: Mapping[str, Any], **options: Any) -> Any:
        """The matches over Spark DataFrames, one per stream, as a DataFrame: see `windrow.spark.on_spark`."""
        return import_module("windrow.spark").on_spark(self, frames, **options)

    def to_dict(self) -> dict[str, Any]:
        order = None if self.probe_order is None else {name: list(rest) for name, rest in self.probe_order}
        return {**super().to_dict(), "on": on_to_json(self.on), "probe_order": order}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        given = cls._arguments(data)
        given["streams"] = [Stream.from_dict(item) for item in listed(given["streams"], "Query: streams")]
        given["on"] = on_from_json(given["on"])
        if given.get("select") is not None:
            given["select"] = [Output.from_dict(item) for item in listed(given["select"], "Query: select")]
        if given.get("value") is not None:
            given["value"] = Value.from_dict(given["value"])
        if given.get("memory") is not None:
            given["memory"] = Memory.from_dict(given["memory"])
        if isinstance(given.get("constraints"), Mapping):
            given["constraints"] = Monitored.from_dict(given["constraints"])
        elif given.get("constraints") is not None and not isinstance(given["constraints"], (str, Monitored)):
            items = listed(given["constraints"], "Query: constraints")
            given["constraints"] = [constraint_from_dict(item) for item in items]
        return cls(**given)

    def fixed(self) -> dict[str, Any]:
        """All that must stay the same while state of this query lives, by name, as JSON values.

        Memory, the extent of windows, lateness, patience, and what is shed when (policy, sample, on_full) are not among
        it: they may change on a live engine.
        """
        data = self.to_dict()
        on = list(data["on"].items()) if self.named else data["on"]  # the order of joins is part of the state
        found = {"streams": list(self.names), "on": on}
        for stream in data["streams"]:
            window = {name: stream["window"][name] for name in ("kind", "closed")}
            for name, value in (("time", stream["time"]), ("window", window), ("where", stream["where"])):
                found[f"{name} of {stream['name']}"] = value
        found |= {name: data[name] for name in ("select", "value", "order", "probe_order", "seed", "constraints")}
        lose: Any = "lose" if self.spares == SPARED_SHARE else {"sample": self.spares}
        return found | {"on_violation": lose if self.demotes is None else "demote", "shards": self.shards or 1}


def _streams(streams: object) -> tuple[Stream, ...]:
    if isinstance(streams, (str, Mapping, Stream)) or not isinstance(streams, Iterable):
        raise SpecError(f"streams must be a list of Stream, got {streams!r}")
    parts = tuple(streams)
    for part in parts:
        if not isinstance(part, Stream):
            raise SpecError(f"streams must be a list of Stream, got {part!r} in it")
    if len(parts) < 2:
        raise SpecError(f"a join needs at least two streams, got {len(parts)}")
    if len(parts) > MOST_STREAMS:
        raise SpecError(f"one query joins at most {MOST_STREAMS} streams, got {len(parts)}: use several queries")
    names = [part.name for part in parts]
    if twice := [name for name in names if names.count(name) > 1]:
        raise SpecError(f"two streams are called {twice[0]!r}: give every stream a name of its own")
    return parts


def _sample(value: Any) -> float | Literal["unbiased"] | None:
    """A drop probability, or how it is found."""
    if isinstance(value, str):
        if value != "unbiased":
            raise SpecError(f"sample must be a probability or 'unbiased', got {value!r}")
        return "unbiased"
    if value is None:
        return None
    share = float(number(value, "sample"))
    if share >= 1.0:
        raise SpecError(f"sample is the probability that a row is not stored, so it must be below 1, got {value!r}")
    return share or None  # a sampler that leaves nothing out is none


def _words(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _probe_order(order: Any, names: tuple[str, ...]) -> ProbeOrder | None:
    if order is None:
        return None
    try:
        given = {name: _words(rest) for name, rest in dict(order).items()}
    except (TypeError, ValueError):
        raise SpecError(f"probe_order must map each stream to a list of the others, got {order!r}") from None
    checks.check_probe_order(given, names)
    return tuple((name, given[name]) for name in names)
