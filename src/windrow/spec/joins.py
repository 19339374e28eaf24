"""Joins of a query: which predicates belong together, and over which streams.

A query is one join of all its streams or, where `on` is a mapping, several joins by name. Each of these joins the
streams that its predicates mention; a stream may take part in many, and its rows are held once for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

from windrow.errors import SpecError
from windrow.record import Record, listed, name_text
from windrow.spec.predicates import Equal, Predicate, predicate_from_dict

Entries = str | Predicate | Iterable[str | Predicate]
OnLike = Entries | Mapping[str, Entries]
"""What stands for predicates: a column that all streams have, "a.x = b.y", a predicate, or a list of these; or a
mapping from names of joins to these."""

MOST_JOINS = 62  # a word holds one bit for each of them, and a sign


@dataclass(frozen=True)
class NamedJoin(Record):
    """One of the joins of a query: its name and its predicates."""

    name: str
    on: tuple[Predicate, ...]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        given = cls._arguments(data)
        return cls(given["name"], tuple(on_from_json(listed(given["on"], "NamedJoin: on"))))

    def streams(self, names: Iterable[str]) -> tuple[str, ...]:
        """The streams that it joins, in the order of the query's."""
        mentioned = {stream for predicate in self.on for stream in predicate.streams}
        return tuple(name for name in names if name in mentioned)


def parse_on(on: Any, names: tuple[str, ...]) -> tuple[Predicate, ...] | tuple[NamedJoin, ...]:
    """The predicates of the one join of all streams, or the joins by name."""
    if isinstance(on, Mapping):
        return _named(on.items(), names)
    if isinstance(on, tuple) and on and all(isinstance(join, NamedJoin) for join in on):
        return _named([(join.name, join.on) for join in on], names)
    return _predicates(on, names)


def on_from_json(on: Any) -> Any:
    """What `on_to_json` wrote."""
    if isinstance(on, Mapping):
        return {name: on_from_json(entries) for name, entries in on.items()}
    return [predicate_from_dict(item) for item in listed(on, "Query: on")]


def on_to_json(on: tuple[Predicate, ...] | tuple[NamedJoin, ...]) -> Any:
    """Predicates as a list, or as a mapping of such by the names of the joins."""
    if on and isinstance(on[0], NamedJoin):
        return {join.name: on_to_json(join.on) for join in on if isinstance(join, NamedJoin)}
    return [predicate.to_dict() for predicate in on]


def _named(joins: Iterable[tuple[Any, Any]], names: tuple[str, ...]) -> tuple[NamedJoin, ...]:
    found: dict[str, NamedJoin] = {}
    for name, entries in joins:
        name = name_text(name, "the name of a join")
        if name in found:
            raise SpecError(f"on: two joins are called {name!r}: give every join a name of its own")
        if isinstance(entries, Mapping):
            raise SpecError(f"on: the join {name!r} must have a list of predicates, got {entries!r}")
        found[name] = NamedJoin(name, _predicates(entries, names))
        if not found[name].on:
            raise SpecError(f"on: the join {name!r} has no predicate: give it at least one")
    if not found:
        raise SpecError("on is an empty mapping: name at least one join, as in {'orders': ['a.k = b.k']}")
    if len(found) > MOST_JOINS:
        raise SpecError(f"on names {len(found)} joins, and one query holds at most {MOST_JOINS}: use several queries")
    return tuple(found.values())


def _predicates(on: Any, names: tuple[str, ...]) -> tuple[Predicate, ...]:
    entries = (on,) if isinstance(on, (str, Predicate)) else on
    if not isinstance(entries, Iterable):
        raise SpecError(
            f"on must be a column of all streams, a predicate, or a list of these, or a mapping from names of joins to "
            f"these, got {on!r}"
        )
    return tuple(predicate for entry in entries for predicate in _expanded(entry, names))


_EQUALITY = re.compile(r"\s*(\w+)\s*={1,2}\s*(\w+)\s*")


def _expanded(entry: object, names: tuple[str, ...]) -> list[Predicate]:
    """The predicates of one entry of `on`: a plain column name is a chain of equalities over all streams."""
    if isinstance(entry, Predicate):
        return [entry]
    if not isinstance(entry, str) or not entry.strip():
        raise SpecError(f"on: expected a column name or a predicate, got {entry!r}")
    stream = entry.partition(".")[0]
    if stream != entry and stream in names:
        left, equals, right = (part.strip() for part in entry.partition("="))
        if equals and "." in right and left[-1] not in "<>!":
            return [Equal(left, right.removeprefix("=").strip())]
        raise SpecError(
            f"on: {entry!r} names a column of one stream; write the column alone if all streams have it, "
            f"or Equal({entry!r}, 'other.column')"
        )
    if (sides := _EQUALITY.fullmatch(entry)) and len(names) > 1:
        raise SpecError(
            f"on: {entry!r} does not say whose columns these are: write "
            f"'{names[0]}.{sides[1]} = {names[1]}.{sides[2]}'; a column that all streams have is written alone"
        )
    return [Equal(f"{a}.{entry}", f"{b}.{entry}") for a, b in pairwise(names)]
