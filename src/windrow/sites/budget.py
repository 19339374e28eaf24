"""Budget: what a site may hold, how that is divided, what was shed for it, and what that cost.

A site holds windows and copies (held.py: engines) and, for semijoins, stores of rows by number (rows.py). Each has the
same share of the budget. A window that is full sheds by the policy of the budget. A store that is full takes no more
rows until some have expired: what was told of its rows to another site cannot be taken back.

Rows that are missing at one place make matches missing, and never bring any: every step asks for rows that are there.
Under a budget each step has a window of its own. Shared ones hold less, but what is shed would then depend on which
step comes first, and what a step writes would not be decided by what it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from windrow.engine.metrics import Metrics, StreamMetrics, added_up
from windrow.errors import SpecError
from windrow.policies import Policy
from windrow.spec import Memory

STORED_BYTES = 64  # of a row in a store, beside its columns: its last moment, its mark, its entry


@dataclass(frozen=True)
class Share:
    """What one window or store may hold, and by which policy it sheds."""

    memory: Memory
    policy: Any

    def room(self, rows: int, size: int, row_bytes: float) -> int:
        """How many more rows of some size fit a store that has so many rows and bytes."""
        if self.memory.rows is not None:
            return max(0, self.memory.rows - rows)
        assert self.memory.bytes is not None
        return max(0, int((self.memory.bytes - size) // (row_bytes + STORED_BYTES)))


@dataclass(frozen=True)
class Budget:
    """The memory of each site, in rows or bytes, and the policy by which windows shed.

    >>> Budget.of("1 MB", "prob").share("edge", 4).memory.bytes
    250000
    """

    memory: Mapping[str, Memory]
    default: Memory | None
    policy: Any

    @classmethod
    def of(cls, memory: Any, policy: str | Policy | None = None) -> Budget | None:
        """The budget that values stand for: one memory for each site alike, or a mapping from sites; None is none."""
        if memory is None:
            return None
        given = dict(memory) if isinstance(memory, Mapping) else {}
        known = {site: _memory(value) for site, value in given.items()}
        return cls(known, None if isinstance(memory, Mapping) else _memory(memory), policy or "auto")

    def share(self, site: str, stores: int) -> Share | None:
        """What each of so many windows and stores at a site may hold; None if it may hold anything."""
        memory = self.memory.get(site, self.default)
        if memory is None or not stores:
            return None
        whole = memory.rows if memory.rows is not None else memory.bytes
        assert whole is not None
        part = whole // stores
        if not part:
            raise SpecError(f"site {site!r} has a budget of {whole} and {stores} windows and stores: give it more")
        return Share(Memory(part if memory.rows is not None else f"{part} B"), self.policy)


def _memory(value: Any) -> Memory:
    memory = Memory.of(value)
    assert memory is not None
    if memory.share is not None or memory.split is not None:
        raise SpecError(f"the memory of a site is in rows or bytes, as in 100000 or '64 MB', got {value!r}")
    return memory


@dataclass(frozen=True)
class Loss:
    """What a window or store of an edge lost: its counters, and the share that it kept of what it should have found or
    taken; None if that cannot be told."""

    edge: str
    metrics: Metrics
    kept: float | None

    @classmethod
    def of_window(
        cls, edge: str, stream: str, found: Metrics, joined: int | None, passed: int | None, names: Iterable[str]
    ) -> Loss:
        """Of an engine. `joined`: its matches without those with rows that came later, which count nowhere. `passed`:
        of a window that only says who has partners, or who is asked for, of how many rows it said that: one pair that
        is found is enough, so a row with n pairs is passed over as seldom as all of them are lost."""
        produced = found.matched if joined is None else joined
        known = found.exact_matched
        if known is None and not found.streams["w"].shed:
            known = float(found.matched)
        exact = None if known is None else produced + max(known - found.matched, 0.0)
        told = _counted(names, stream, found.streams["w"], produced, exact, found.peak_rows, found.peak_bytes)
        kept = None if exact is None else produced / exact if exact else 1.0
        if kept and passed:
            kept = 1.0 - (1.0 - kept) ** max(1.0, produced / kept / passed)
        return cls(edge, told, kept)

    @classmethod
    def of_store(cls, edge: str, stream: str, store: Any, names: Iterable[str]) -> Loss:
        """Of a store of rows: what it has admitted of what came; where it tells keys, the rows whose key was told."""
        found: StreamMetrics = store.counters()
        told = _counted(names, stream, found, 0, 0.0, store.peak_rows, store.peak_bytes)
        kept = store.told if store.told >= 0 else found.arrived - found.shed
        return cls(edge, told, kept / found.arrived if found.arrived else 1.0)


def _counted(
    names: Iterable[str], stream: str, found: StreamMetrics, matched: int, exact: float | None, rows: int, size: int
) -> Metrics:
    """The metrics of one window or store: those of its stream (of joined rows, of their first one)."""
    streams = {name: StreamMetrics() for name in names} | {stream.partition("+")[0]: found}
    return Metrics(matched, rows, size, streams, exact_matched=exact)


def together(losses: Iterable[Loss], matched: Mapping[str, int], names: Iterable[str]) -> Metrics:
    """All windows and stores of all sites as one, with one recall.

    `matched` are the matches that each sequence has delivered, by the name of its last edge. A sequence has found what
    each of its edges has kept of what came to it, so the exact join would have given it its matches over the product.
    Losses of an edge are taken as independent of each other. Recall is None where some window cannot tell.
    """
    found = list(losses)
    kept: dict[str, float] = {}
    for loss in found:
        kept[loss.edge] = kept.get(loss.edge, 1.0) * (1.0 if loss.kept is None else loss.kept)
    produced, exact = sum(matched.values()), 0.0
    for last, rows in matched.items():
        share = prod(kept.get(edge, 1.0) for edge in _edges(last))
        exact += rows / share if share else 0.0
    known = all(loss.kept is not None for loss in found)
    everything = added_up([loss.metrics for loss in found], names)
    return replace(
        everything, matched=produced, exact_matched=exact if known else None, recall_interval=None,
        recent_recall=None, recall=None if not known else produced / exact if exact else 1.0,
    )  # fmt: skip


def _edges(last: str) -> list[str]:
    """The edges of a sequence, by the name of the last one: "a/b/c" comes after "a/b". In a tree, of both sides of each
    node: "a+b/c" after "a/b" and "b/a"."""
    head, *rest = last.split("/")
    if "+" not in last:
        return ["/".join([head, *rest[: k + 1]]) for k in range(len(rest))]
    streams = max((head, *rest), key=len).split("+")
    below = ["+".join(streams[: k + 1]) for k in range(len(streams))]
    found = [last]
    for k in range(1, len(streams)):
        found += [f"{below[k - 1]}/{streams[k]}", f"{streams[k]}/{below[k - 1]}"]
    return found
