"""The simulated ground: sites on one machine, a virtual clock, links with latency, bandwidth and jitter.

Messages are encoded and decoded as on a real network, so bytes are counted, not estimated. A link carries one message
after another at its bandwidth; latency and jitter come on top, so messages may overtake each other. Everything is
decided by the tables, the plan, the links and the seed.
"""

import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.intake import as_table
from windrow.engine.metrics import Metrics
from windrow.engine.prepare import rows_of, tables
from windrow.errors import InputError
from windrow.sites.bound import Bound
from windrow.sites.budget import Budget, together
from windrow.sites.council import Replan
from windrow.sites.course import Course
from windrow.sites.links import BARE_BYTES, HEADER_BYTES, Link, Links
from windrow.sites.messages import CODEC, Message
from windrow.sites.network import Deliver
from windrow.sites.planning import Planned
from windrow.sites.plans import Plan
from windrow.sites.site import Outcome
from windrow.state.columns import empty_table

ROW_SECONDS = 1e-6  # what a step is taken to need for a row that it reads
MOST_INTERVALS = 5_000_000


@dataclass
class Traffic:
    """What went over one link."""

    bytes: int = 0
    messages: int = 0
    empty: int = 0  # messages without rows, which say that there are none
    seconds: float = 0.0  # under way, summed over messages


@dataclass
class Simulation:
    """What a simulated run gave and what it cost.

    `delays` has a line for every interval of every sequence that gave matches: the seconds from the end of the interval
    until they were delivered.
    """

    table: pa.Table
    links: dict[tuple[str, str], Traffic] = field(default_factory=lambda: defaultdict(Traffic))
    channels: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # bytes of shipped channels, packed
    delays: list[float] = field(default_factory=list)
    processing: float = 0.0
    seconds: float = 0.0  # of arrivals
    intervals: int = 0
    money: float = 0.0
    peak_rows: dict[str, int] = field(default_factory=dict)
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    metrics: Metrics | None = None  # of all windows and stores under a budget, with one recall
    held: dict[str, tuple[int, int]] = field(default_factory=dict)  # by site, under a budget: the most rows and bytes
    plans: list[dict[str, Any]] = field(default_factory=list)  # number, id, the interval at which it began, and why

    @property
    def bytes(self) -> int:
        """All bytes that were shipped."""
        return sum(traffic.bytes for traffic in self.links.values())

    @property
    def messages(self) -> int:
        """All messages, those without rows too."""
        return sum(traffic.messages for traffic in self.links.values())

    @property
    def transmission(self) -> float:
        """Seconds under way, summed over messages that have rows: the paper sends no others."""
        return sum(traffic.seconds for traffic in self.links.values())

    @property
    def execution(self) -> float:
        """The paper's measure: transmission and processing at all sites, for each second of arrivals."""
        return (self.transmission + self.processing) / self.seconds if self.seconds else 0.0

    def summary(self) -> dict[str, Any]:
        """The figures as plain values."""
        return {
            "matches": self.table.num_rows,
            "bytes": self.bytes,
            "messages": self.messages,
            "delay_mean_s": float(np.mean(self.delays)) if self.delays else 0.0,
            "delay_max_s": max(self.delays, default=0.0),
            "execution_s_per_s": self.execution,
            "money": self.money,
            "intervals": self.intervals,
            "plans": self.plans,
            "metrics": None if self.metrics is None else self.metrics.to_dict(),
            "links": {f"{a} -> {b}": vars(t) for (a, b), t in sorted(self.links.items())},
        }


def simulate(
    plan: Plan | Planned, inputs: Mapping[str, Any], links: Any = None, *, seed: int = 0, codec: str | None = CODEC,
    step_seconds: float = 1.0, restore: float = 0.0, heads: Collection[str] | None = None,
    widths: Mapping[str, float] | None = None, replan: Replan | Sequence[tuple[int, Plan]] | None = None,
    memory: Any = None, policy: Any = None,
) -> Simulation:  # fmt: skip
    """Run a plan over whole tables, one per stream, on simulated links.

    Parameters:
        links: a Link for all, or a mapping from pairs of sites ("A -> B" one way, "A - B" both) to links.
        seed: decides about jitter.
        codec: how messages are packed; None leaves them as they are.
        step_seconds: how long a unit of time takes, where times are plain numbers.
        restore: how often, from 0 to 1, a site that has advanced is replaced by what its snapshot restores: for tests.
        heads: the streams whose one-way joins are run; None is all of them, which makes the join.
        widths: bytes of columns, by which sizes of messages are reckoned instead of packing them: for rows that are
            only as wide as one says.
        replan: when the plan is looked at again, and replaced by one that costs less; or (interval, plan) of plans that
            replace each other from these intervals on.
        memory: what each site may hold, in rows or bytes, or a mapping from sites; None is anything.
        policy: by which windows that are full shed; None is "auto".
    """
    if isinstance(replan, Replan) and replan.objective is None and isinstance(plan, Planned):
        replan = replan.with_(objective=plan.search.model.objective)
    plan = plan.plan if isinstance(plan, Planned) else plan
    given = {name: as_table(inputs[name], name) for name in plan.query.names if name in inputs}
    if missing := [name for name in plan.query.names if name not in given]:
        raise InputError(f"simulate: there is no table for the stream {missing[0]!r}")
    ways = Links(links)
    schemas = {name: table.schema for name, table in given.items()}
    how: dict[str, Any] = {"heads": heads, "links": ways, "step_seconds": step_seconds}
    how |= {"budget": Budget.of(memory, policy)}
    how |= {"replan": replan} if isinstance(replan, Replan) else {"switches": tuple(replan or ())}
    run = _Run(lambda name: Course(plan, schemas, name, **how), plan, ways, seed, codec, step_seconds, restore, widths)
    return run.run(given)


def cut(bound: Bound, given: Mapping[str, pa.Table]) -> dict[str, list[tuple[int, pa.Table]]]:
    """The rows of each stream by interval, in order of time; rows without a time, or before the origin, come first."""
    found = {}
    for name, table in given.items():
        plain = tables(bound.binding, {name: table})[bound.place(name)]
        interval = bound.interval_of(rows_of(bound.binding, bound.place(name), plain).time)
        order = np.argsort(interval, kind="stable")
        interval = np.maximum(interval[order], 0)
        ends = np.flatnonzero(np.diff(interval, append=np.iinfo(np.int64).max))
        rows, pieces, start = plain.take(pa.array(order)), [], 0
        for end in ends:
            pieces.append((int(interval[end]), rows.slice(start, end + 1 - start)))
            start = int(end) + 1
        found[name] = pieces
    return found


class _Run:
    """One simulated run."""

    def __init__(
        self, make: Callable[[str], Course], plan: Plan, links: Links, seed: int, codec: str | None,
        step_seconds: float, restore: float, widths: Mapping[str, float] | None,
    ) -> None:  # fmt: skip
        self.make, self.plan, self.widths = make, plan, widths
        self.links, self.codec, self.restore = links, codec, restore
        self.random, self.chance = np.random.default_rng(seed), np.random.default_rng([seed, 1])
        self.sites = {name: make(name) for name in plan.places}
        self.bound = self.sites[plan.places[0]].bound
        self.result = Simulation(pa.table({}))
        unit = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "steps": step_seconds}[self.bound.unit]
        self.tau = self.bound.tau * unit
        self.events: list[tuple[float, int, str, Any]] = []
        self.early: list[tuple[str, bytes]] = []  # messages of plans that their receivers do not know yet
        self.order = itertools.count()
        self.busy: dict[tuple[str, str], float] = defaultdict(float)
        self.found: list[pa.Table] = []
        self.peaks: dict[str, int] = defaultdict(int)

    def run(self, given: Mapping[str, pa.Table]) -> Simulation:
        """Feed every interval when it ends, deliver messages when they arrive."""
        self.rows = {name: dict(parts) for name, parts in cut(self.bound, given).items()}
        last = max((max(parts) for parts in self.rows.values() if parts), default=-1)
        self.intervals = last + 1 + self.sites[self.plan.places[0]].tail
        if self.intervals > MOST_INTERVALS:
            raise InputError(
                f"the tables span {self.intervals:,} intervals: give the plan an origin, or a longer interval"
            )
        self.taken = {stream: 0 for stream, _ in self.plan.sites}
        for interval in range(self.intervals):
            self.ended, now = interval, (interval + 1) * self.tau
            self._deliver(now)
            self._feed(interval + 1, now)
        self.ended = self.intervals
        self._deliver(float("inf"))
        return self._close(last + 1)

    def _feed(self, until: int, now: float) -> None:
        """Let streams take the intervals that have ended; those of which the plan is not known yet wait."""
        moved = True
        while moved:
            moved = False
            for stream, name in self.plan.sites:
                while self.taken[stream] < min(until, self.sites[name].limit):
                    interval, moved = self.taken[stream], True
                    outcome = self.sites[name].take(stream, interval, self.rows[stream].get(interval))
                    self.taken[stream] += 1
                    self._settle(name, outcome, now)
                    self._advance(name, now)

    def _deliver(self, until: float) -> None:
        while self.events and self.events[0][0] <= until:
            now, _, receiver, data = heapq.heappop(self.events)
            self._arrive(receiver, data, now)
            self._feed(self.ended, now)  # streams that had to wait for a plan

    def _arrive(self, receiver: str, data: Any, now: float) -> None:
        """Hand a message over, and then those that came before their plan."""
        site = self.sites[receiver]
        message = data if isinstance(data, Message) else site.decode(data)
        if message is None:
            self.early.append((receiver, data))
            return
        site.receive(message)
        self._advance(receiver, now)
        waiting, self.early = self.early, []
        for name, early in waiting:
            if name == receiver and self.sites[name].decode(early) is not None:
                self._arrive(name, early, now)
            else:
                self.early.append((name, early))

    def _advance(self, name: str, now: float) -> None:
        self._settle(name, self.sites[name].advance(), now)
        self.peaks[name] = max(self.peaks[name], self.sites[name].resident_rows)
        if self.restore and self.chance.random() < self.restore:
            self.sites[name] = self.make(name).restore(self.sites[name].snapshot())

    def _settle(self, name: str, outcome: Outcome, now: float) -> None:
        """Send what is to be sent, keep what was found."""
        self.result.processing += ROW_SECONDS * sum(rows for _, _, rows in outcome.fired)
        for message in outcome.messages:
            self._send(message, now)
        for _, interval, table in outcome.results:
            self.found.append(table)
            self.result.delays.append(now - (interval + 1) * self.tau)

    def _send(self, message: Message, now: float) -> None:
        ends = (message.sender, message.receiver)
        link: Link = self.links.between(*ends)
        rows = sum(part.table.num_rows for part in message.parts.values())
        data: Message | bytes = message
        if self.widths is None:
            data = message.encode(self.codec)
            size = len(data) + HEADER_BYTES
        else:
            size = BARE_BYTES + round(sum(self._width(part.table) for part in message.parts.values()))
        begins = max(now, self.busy[ends])
        self.busy[ends] = begins + link.transfer(size)
        late = float(self.random.uniform(0, link.jitter.amount / 1e9)) if link.jitter.amount else 0.0
        heapq.heappush(self.events, (self.busy[ends] + link.delay + late, next(self.order), message.receiver, data))
        traffic = self.result.links[ends]
        traffic.bytes += size
        traffic.messages += 1
        traffic.empty += not rows
        traffic.seconds += link.seconds(size) if rows else 0.0
        self.result.money += link.price * size / 1e9
        for channel, part in message.parts.items():
            share = part.table.num_rows / rows if rows else 1 / len(message.parts)
            self.result.channels[channel] += round(size * share)

    def _width(self, table: pa.Table) -> float:
        """The bytes of a part by the widths of its columns; what nobody has given one, such as a filter, as it is."""
        size, widths = 0.0, self.widths or {}
        for column in table.schema:
            if column.name in widths:
                size += table.num_rows * widths[column.name]
            elif pa.types.is_primitive(column.type):
                size += table.num_rows * column.type.bit_width / 8
            else:
                size += table[column.name].nbytes
        return size

    def _close(self, intervals: int) -> Simulation:
        network = self.sites[self.plan.places[0]].networks[0]
        schema = next(Deliver.schemas(s.edge)[0] for s in network.steps if s.kind is Deliver)
        result = self.result
        result.table = pa.concat_tables(self.found) if self.found else empty_table(schema)
        result.intervals, result.seconds = intervals, intervals * self.tau
        result.peak_rows = dict(self.peaks)
        result.plans = self.sites[self.plan.places[0]].plans()
        if any(site.budget is not None for site in self.sites.values()):
            matched: dict[str, int] = defaultdict(int)
            for site in self.sites.values():
                for edge, rows in site.matched.items():
                    matched[edge] += rows
            losses = [loss for site in self.sites.values() for loss in site.losses()]
            result.metrics = together(losses, matched, self.plan.query.names)
            for name, site in self.sites.items():
                peaks = [(loss.metrics.peak_rows, loss.metrics.peak_bytes) for loss in site.losses()]
                result.held[name] = (sum(rows for rows, _ in peaks), sum(size for _, size in peaks))
        for site in self.sites.values():
            result.counters |= {stream: dict(counts) for stream, counts in site.counters().items()}
        return result
