"""Plan: where each stream is, and in which order and by which programs its rows meet the others.

A plan is plain data: JSON in and out, the same at every site; its id is a digest of it, so a message of another plan is
known by it. `Network` turns it into steps and channels.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from windrow.errors import SpecError
from windrow.record import Record, whole
from windrow.sites.bound import Bound
from windrow.sites.equalities import Connections
from windrow.sites.programs import program
from windrow.spec import Query
from windrow.spec.durations import Duration, parse_duration

VERSION = 1


@dataclass(frozen=True)
class Leg(Record):
    """One step of a sequence: the stream whose window is met, and the program."""

    stream: str
    program: str

    def __post_init__(self) -> None:
        program(self.program)


@dataclass(frozen=True)
class Branch(Record):
    """One more stream of a tree, and the programs of both one-way joins with the joined rows below it.

    `up`: the joined rows meet the stream's window. `down`: the stream's rows meet the window of joined rows. The first
    stream of a tree has none.
    """

    stream: str
    up: str = ""
    down: str = ""


@dataclass(frozen=True, init=False)
class Plan(Record):
    """Where streams are, and the sequence of each.

    Parameters:
        query: what is joined.
        sites: the site of each stream.
        sequences: for each stream, the others in order, each with its program (linear ordering).
        tree: or the streams in one order for all, each with two programs (tree ordering): every stream joins with the
            joined rows of those before it, which are kept.
        interval: how long rows are gathered before they are joined (tau).
        delay: how long a message may be under way before anybody waits for it (delta); answers never depend on it.
        result_at: the site that gets all results; None leaves them where they arise.
        origin: the time at which interval 0 begins, in units of the times.
        dense_counts: send the counts of all values, as the paper does, instead of those that are gone.
    """

    query: Query
    sites: tuple[tuple[str, str], ...]
    sequences: tuple[tuple[str, tuple[Leg, ...]], ...]
    tree: tuple[Branch, ...]
    interval: Duration
    delay: Duration
    result_at: str | None
    origin: int
    dense_counts: bool

    def __init__(
        self,
        query: Query,
        sites: Mapping[str, str],
        sequences: Mapping[str, Sequence[tuple[str, str] | Leg]] | None = None,
        interval: Any = "100 ms",
        delay: Any = 0,
        result_at: str | None = None,
        origin: int = 0,
        dense_counts: bool = False,
        tree: Sequence[Any] = (),
    ) -> None:
        sites, sequences = dict(sites), dict(sequences or {})
        if set(sites) != set(query.names):
            raise SpecError(f"sites must say where each of the streams {', '.join(query.names)} is, got {sites!r}")
        branches = _branches(tree, query)
        if bool(sequences) == bool(branches):
            raise SpecError("a plan has either sequences, one for each stream, or a tree")
        every = {name: _legs(name, sequences, query) for name in query.names} if sequences else {}
        self._set(
            query=query,
            sites=tuple((name, str(sites[name])) for name in query.names),
            sequences=tuple(every.items()),
            tree=branches,
            interval=parse_duration(interval, "the interval"),
            delay=parse_duration(delay, "the delay"),
            result_at=result_at,
            origin=whole(origin, "origin", least=-(2**62)),
            dense_counts=bool(dense_counts),
        )
        if not self.interval.amount:
            raise SpecError("the interval must be more than nothing")

    def site_of(self, stream: str) -> str:
        """Where a stream is."""
        return dict(self.sites)[stream]

    @cached_property
    def places(self) -> tuple[str, ...]:
        """All sites."""
        last = () if self.result_at is None else (self.result_at,)
        return tuple(dict.fromkeys([*(site for _, site in self.sites), *last]))

    @property
    def lag(self) -> int:
        """How many intervals a question and its answer may be under way."""
        return 1 + -(-2 * self.delay.amount // self.interval.amount)

    @property
    def tail(self) -> int:
        """How many intervals without rows must follow the last one with rows, so that every question is answered.

        In a tree the joined rows of a node, whose answers lag, are the window that the next node's questions go to.
        """
        return self.lag * max(1, len(self.tree) - 1)

    @cached_property
    def id(self) -> str:
        """A digest of the plan."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(f"{VERSION}{text}".encode()).hexdigest()[:12]

    def to_dict(self) -> dict[str, Any]:
        sequences = {name: [[leg.stream, leg.program] for leg in legs] for name, legs in self.sequences}
        tree = [[branch.stream, branch.up, branch.down] for branch in self.tree]
        return {**super().to_dict(), "sites": dict(self.sites), "sequences": sequences, "tree": tree}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Plan":
        given = cls._arguments(data)
        if not isinstance(given["query"], Query):
            given["query"] = Query.from_dict(given["query"])
        return cls(**given)

    def bound(self, schemas: Mapping[str, pa.Schema]) -> Bound:
        """The query, bound to schemas."""
        return Bound(self.query, dict(schemas), self.interval, self.origin, self.dense_counts, bool(self.tree))


def _branches(tree: Sequence[Any], query: Query) -> tuple[Branch, ...]:
    """The streams of a tree: each once, each connected to one before, none in rows whose joined rows are kept."""
    branches = tuple(
        item if isinstance(item, Branch) else Branch(*([item] if isinstance(item, str) else item)) for item in tree
    )
    if not branches:
        return ()
    names = [branch.stream for branch in branches]
    if sorted(names) != sorted(query.names):
        raise SpecError(f"a tree must name every stream once, got {names!r}")
    connections = Connections(query)
    for k, branch in enumerate(branches[1:], start=1):
        joined, equal = connections.of(branch.stream, names[:k])
        if not joined:
            raise SpecError(f"the tree comes to {branch.stream!r} before any stream that it is joined with")
        if not equal and (program(branch.up).by_value or program(branch.down).by_value):
            raise SpecError(f"{branch.up} or {branch.down} needs an equality, and {branch.stream!r} has none")
    if len(names) > 2 and (rows := [n for n in names[:-1] if query.stream(n).window.kind == "rows"]):
        raise SpecError(
            f"the stream {rows[0]!r} has a window in rows: a tree keeps joined rows, and such a window does "
            "not tell their last moment; put it last, or use sequences"
        )
    return branches


def _legs(name: str, sequences: Mapping[str, Any], query: Query) -> tuple[Leg, ...]:
    """The sequence of one stream: every other stream once, each connected to one before."""
    if name not in sequences:
        raise SpecError(f"sequences has none for the stream {name!r}: each stream needs the order of the others")
    legs = tuple(leg if isinstance(leg, Leg) else Leg(*leg) for leg in sequences[name])
    found = [leg.stream for leg in legs]
    if sorted([name, *found]) != sorted(query.names):
        raise SpecError(f"the sequence of {name!r} must name every other stream once, got {found!r}")
    done, connections = [name], Connections(query)
    for leg in legs:
        joined, equal = connections.of(leg.stream, done)
        if not joined:
            raise SpecError(
                f"the sequence of {name!r} comes to {leg.stream!r} before any stream that it is joined with"
            )
        if program(leg.program).by_value and not equal:
            raise SpecError(f"{leg.program} needs an equality, and {leg.stream!r} has none in the sequence of {name!r}")
        done.append(leg.stream)
    return legs
