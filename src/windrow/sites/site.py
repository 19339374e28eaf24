"""Site: one place in a network, that is under one plan: runs the steps that are ready, says what to send.

A site knows no clock and no network:

    put(stream, interval, …)   the rows of one of its streams for an interval that has ended
    receive(message)           a message of another site; one that came before is counted and ignored
    step()                     run one step whose interval is all there: messages to send, and matches

`snapshot` is all of it as bytes: steps, windows, what waits in channels. A site that is restored writes the same
messages again that it wrote after the snapshot; whoever had them ignores them. `Course` (course.py) is what a ground
sees: the site under one plan after another, and the rows of its streams.
"""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from windrow.errors import InputError, SnapshotError
from windrow.sites.budget import Budget, Loss
from windrow.sites.edges import Windows
from windrow.sites.messages import Message, Part
from windrow.sites.network import Network
from windrow.sites.rows import RowStore
from windrow.sites.steps import Placed, Step
from windrow.state.snapshot import form

PART_BYTES = 512  # that a part takes beside its rows, about: most parts of a silent stream have none


@dataclass
class Outcome:
    """What a site has to say after it has advanced."""

    messages: list[Message] = field(default_factory=list)
    results: list[tuple[str, int, pa.Table]] = field(default_factory=list)  # channel, interval, matches
    fired: list[tuple[str, int, int]] = field(default_factory=list)  # step, interval, rows that it read


class Site:
    """A place of a network."""

    def __init__(self, network: Network, name: str, budget: Budget | None = None) -> None:
        self.network, self.name, self.budget = network, name, budget
        self.placed: list[Placed] = [step for step in network.steps if step.site == name]
        stores = sum(placed.kind.stores for placed in self.placed)
        self.windows = Windows(None if budget is None else budget.share(name, stores))
        self.steps: list[Step] = [p.kind(p.edge, p.name, self.windows) for p in self.placed]
        self.next: list[int] = [network.first] * len(self.steps)  # the interval that each step takes next
        self.waiting: dict[str, dict[int, Part]] = {
            port.channel: {} for p in self.placed for port in p.reads if network.known(port.channel)
        }
        self.repeated = 0  # messages that came again
        self.waiting_bytes = 0  # of what waits in channels

    # -- in --------------------------------------------------------------------------------------------------------

    def put(self, stream: str, interval: int, rows: Part, clock: Part, outcome: Outcome) -> None:
        """The rows of an own stream for an interval, and the times of all that came; what must be sent is said."""
        parts = {stream: rows, f"{stream}#": clock}
        self._publish(f"{stream}@", interval, [(c, 0, p) for c, p in parts.items() if self.network.known(c)], outcome)

    def receive(self, message: Message) -> bool:
        """Put a message where steps find it; False if it came before."""
        if message.plan != self.network.id or message.receiver != self.name:
            raise InputError(
                f"site {self.name!r} runs plan {self.network.id} and got a message of plan {message.plan} "
                f"to {message.receiver!r}"
            )
        fresh = False
        for channel, part in message.parts.items():
            if channel not in self.waiting or self.network.home(channel) != message.sender:
                raise InputError(f"site {self.name!r} does not read {channel!r} from {message.sender!r}")
            lag = self.network.writers[channel][1] if channel in self.network.writers else 0
            fresh |= self._put(channel, message.interval - lag, part)
        self.repeated += not fresh
        return fresh

    def _put(self, channel: str, interval: int, part: Part) -> bool:
        if interval < self._needed(channel) or interval in self.waiting[channel]:
            return False
        self.waiting[channel][interval] = part
        self.waiting_bytes += PART_BYTES + part.table.nbytes
        return True

    def _needed(self, channel: str) -> int:
        """The first interval of a channel that some step has not taken."""
        return min(
            n - p.lag for s, n in zip(self.placed, self.next, strict=True) for p in s.reads if p.channel == channel
        )

    # -- at work ---------------------------------------------------------------------------------------------------

    def step(self) -> Outcome | None:
        """Run the step that is ready and furthest behind, for one interval; None if none is ready.

        What it has to say can be on its way while the next step runs, so that sites work side by side.
        """
        for k in sorted(range(len(self.placed)), key=self.next.__getitem__):
            if (parts := self._ready(self.placed[k], self.next[k])) is not None:
                outcome = Outcome()
                self._fire(k, parts, outcome)
                return outcome
        return None

    def _ready(self, placed: Placed, interval: int) -> list[Part | None] | None:
        """What a step reads for an interval, if it is all there."""
        found: list[Part | None] = []
        filling = bool(self.network.number) and interval == self.network.first
        for port in placed.reads:
            if not self.network.known(port.channel) or interval - self.network.first < port.lag:
                found.append(None)
                continue
            part = self.waiting[port.channel].get(interval - port.lag)
            if part is None:
                return None
            found.append(Part(part.table.slice(0, 0)) if filling and self.network.silent(placed, port) else part)
        return found

    def _fire(self, k: int, parts: list[Part | None], outcome: Outcome) -> None:
        placed, interval = self.placed[k], self.next[k]
        if interval == self.network.first and (clock := self._clock(placed, parts)) is not None:
            self.steps[k].begin(clock.facts.get("before", 0))
        written = self.steps[k].run(interval, parts)
        self.next[k] += 1
        outcome.fired.append((placed.name, interval, sum(p.table.num_rows for p in parts if p is not None)))
        self._publish(
            placed.name,
            interval,
            [(w.channel, w.lag, part) for w, part in zip(placed.writes, written, strict=True)],
            outcome,
        )
        for port in placed.reads:
            if port.channel in self.waiting:
                over = self.waiting[port.channel].pop(self._needed(port.channel) - 1, None)  # what is older is gone
                self.waiting_bytes -= 0 if over is None else PART_BYTES + over.table.nbytes

    def _clock(self, placed: Placed, parts: list[Part | None]) -> Part | None:
        """The clock of the window that a step asks, if it reads one."""
        return next((p for port, p in zip(placed.reads, parts, strict=True) if port.channel[-1:] == "#"), None)

    def _publish(self, step: str, interval: int, parts: list[tuple[str, int, Part]], outcome: Outcome) -> None:
        """Hand parts to the steps here, and put them into messages for the other sites that read them."""
        away: dict[str, dict[str, Part]] = {}
        for channel, lag, part in parts:
            if interval - self.network.first < lag:
                continue
            if channel in self.network.results:
                if part.table.num_rows:
                    outcome.results.append((channel, interval - lag, part.table))
                continue
            for site in self.network.readers(channel):
                if site == self.name:
                    self._put(channel, interval - lag, part)
                else:
                    away.setdefault(site, {})[channel] = part
        for site, theirs in away.items():
            name = self.network.tag + step
            outcome.messages.append(Message(self.network.id, name, self.name, site, interval, theirs))

    # -- snapshots -------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The whole state as bytes: a JSON header and Arrow tables."""
        parts: list[Any] = []

        def put(data: Any) -> int:
            parts.append(data)
            return len(parts) - 1

        steps = []
        for step, following in zip(self.steps, self.next, strict=True):
            numbers, tables = step.state()
            steps.append([step.name, following, numbers, {n: put(form.table_bytes(t)) for n, t in tables.items()}])
        windows = [[header, put(data)] for header, data in (held.snapshot() for held in self.windows.held.values())]
        waiting = {
            channel: [[i, dict(part.facts), put(form.table_bytes(part.table))] for i, part in sorted(queue.items())]
            for channel, queue in self.waiting.items()
        }
        header = {
            "site": self.name, "plan": self.network.id, "steps": steps, "windows": windows, "waiting": waiting,
            "repeated": self.repeated,
        }  # fmt: skip
        return form.write(header, parts)

    @classmethod
    def restore(cls, data: bytes, network: Network, budget: Budget | None = None) -> "Site":
        """The site of a snapshot, in the network that it was taken from."""
        snap = form.read(data)
        head = snap.header
        if head.get("plan") != network.id:
            raise SnapshotError(f"the snapshot is of plan {head.get('plan')}, not of plan {network.id}")
        site = cls(network, head["site"], budget)
        for k, (name, following, numbers, tables) in enumerate(head["steps"]):
            if site.steps[k].name != name:
                raise SnapshotError.impossible(f"the step {name!r} is not at its place")
            site.next[k] = following
            site.steps[k].load(numbers, {n: form.table_of(snap.parts[at]) for n, at in tables.items()})
        for held, (numbers, at) in zip(site.windows.held.values(), head["windows"], strict=True):
            held.restore(numbers, snap.parts[at].to_pybytes())
        for channel, queue in head["waiting"].items():
            site.waiting[channel] = {i: Part(form.table_of(snap.parts[at]), facts) for i, facts, at in queue}
            site.waiting_bytes += sum(PART_BYTES + part.table.nbytes for part in site.waiting[channel].values())
        site.repeated = head["repeated"]
        return site

    @property
    def resident_rows(self) -> int:
        """How many rows its windows and copies hold."""
        return sum(held.resident_rows for held in self.windows.held.values())

    def finished(self, end: int) -> bool:
        """Whether all is done of a plan whose sources go up to an interval."""
        short = self.network.shortfalls
        return all(at >= end - short[placed.name] for placed, at in zip(self.placed, self.next, strict=True))

    def lacking(self) -> dict[str, int]:
        """Which other sites, or own streams, have not brought what steps wait for, and the interval."""
        found: dict[str, int] = {}
        for placed, interval in zip(self.placed, self.next, strict=True):
            for port in placed.reads:
                at = interval - port.lag
                if not self.network.known(port.channel) or at < self.network.first or at in self.waiting[port.channel]:
                    continue
                home = self.network.home(port.channel)
                who = f"site {home}"
                if home == self.name:
                    stream = self.network.sources.get(port.channel)
                    if stream is None:
                        continue  # another step here, which waits itself
                    who = f"stream {stream}"
                found[who] = min(at, found.get(who, at))
        return found

    def losses(self) -> list[Loss]:
        """What windows and stores have taken, hold and have shed, where there is a budget."""
        if self.windows.share is None:
            return []
        found, names = [], self.network.plan.query.names
        of = {step.name: step.edge for step in self.steps}
        for (_, user), held in self.windows.held.items():
            told = (held.engine.metrics, held.joined, held.passed)
            found.append(Loss.of_window(of[user].name, of[user].stream, *told, names))
        for step in self.steps:
            if isinstance(store := getattr(step, "store", None), RowStore):
                found.append(Loss.of_store(step.edge.name, step.edge.stream, store, names))
        return found


__all__ = ["Outcome", "Site", "Windows"]
