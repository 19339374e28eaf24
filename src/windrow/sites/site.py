"""Site: one place with its streams: takes batches and messages, runs the steps that are ready, says what to send.

A site knows no clock and no network. A ground (simulated.py, or a real one) does three things with it:

    take(stream, interval, rows)   the rows of one of its streams for the next interval, when that interval has ended
    receive(message)               a message of another site; one that came before is counted and ignored
    step()                         run one step whose interval is all there: messages to send, and matches
    advance()                      run them all

`snapshot` is all of it as bytes: steps, windows, what waits in channels. A site that is restored writes the same
messages again that it wrote after the snapshot; whoever had them ignores them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from windrow.errors import InputError, SnapshotError
from windrow.sites.edges import Windows
from windrow.sites.held import Held, Shape
from windrow.sites.intake import Intake
from windrow.sites.messages import Message, Part
from windrow.sites.network import Network
from windrow.sites.steps import Placed, Step
from windrow.state.snapshot import form


@dataclass
class Outcome:
    """What a site has to say after it has advanced."""

    messages: list[Message] = field(default_factory=list)
    results: list[tuple[str, int, pa.Table]] = field(default_factory=list)  # channel, interval, matches
    fired: list[tuple[str, int, int]] = field(default_factory=list)  # step, interval, rows that it read


class Site:
    """A place of a network."""

    def __init__(self, network: Network, name: str) -> None:
        self.network, self.name = network, name
        self.windows: dict[tuple[Shape, str], Held] = {}
        self.placed: list[Placed] = [step for step in network.steps if step.site == name]
        self.steps: list[Step] = [p.kind(p.edge, p.name, self._window) for p in self.placed]
        self.next: list[int] = [0] * len(self.steps)  # the interval that each step takes next
        self.waiting: dict[str, dict[int, Part]] = {
            port.channel: {} for p in self.placed for port in p.reads if network.known(port.channel)
        }
        mine = [stream for stream, site in network.plan.sites if site == name]
        self.intakes = {stream: Intake(network.bound, stream) for stream in mine}
        self.repeated = 0  # messages that came again

    def _window(self, shape: Shape, label: str, schema: pa.Schema, types: list[Any]) -> Held:
        key = (shape, label)
        if key not in self.windows:
            self.windows[key] = Held(shape, schema, types)
        return self.windows[key]

    # -- in --------------------------------------------------------------------------------------------------------

    def take(self, stream: str, interval: int, rows: Any = None) -> Outcome:
        """The rows of an own stream for the next interval (None: none), and that it has ended.

        Rows of earlier intervals among them are late. What must be shipped to other sites is in the outcome.
        """
        intake = self.intakes[stream]
        if rows is not None:
            intake.feed(rows)
        batch, clock = intake.close(interval)
        outcome = Outcome()
        parts = {stream: Part(batch), f"{stream}#": Part(clock)}
        self._publish(f"{stream}@", interval, [(c, 0, p) for c, p in parts.items() if self.network.known(c)], outcome)
        return outcome

    def receive(self, message: Message) -> bool:
        """Put a message where steps find it; False if it came before."""
        if message.plan != self.network.plan.id or message.receiver != self.name:
            raise InputError(
                f"site {self.name!r} runs plan {self.network.plan.id} and got a message of plan {message.plan} "
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
        return True

    def _needed(self, channel: str) -> int:
        """The first interval of a channel that some step has not taken."""
        return min(
            n - p.lag for s, n in zip(self.placed, self.next, strict=True) for p in s.reads if p.channel == channel
        )

    # -- at work ---------------------------------------------------------------------------------------------------

    def advance(self) -> Outcome:
        """Run steps until none is ready."""
        whole = Outcome()
        while (outcome := self.step()) is not None:
            whole.messages += outcome.messages
            whole.results += outcome.results
            whole.fired += outcome.fired
        return whole

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
        for port in placed.reads:
            if not self.network.known(port.channel) or interval < port.lag:
                found.append(None)
                continue
            part = self.waiting[port.channel].get(interval - port.lag)
            if part is None:
                return None
            found.append(part)
        return found

    def _fire(self, k: int, parts: list[Part | None], outcome: Outcome) -> None:
        placed, interval = self.placed[k], self.next[k]
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
                needed, queue = self._needed(port.channel), self.waiting[port.channel]
                for old in [i for i in queue if i < needed]:
                    del queue[old]

    def _publish(self, step: str, interval: int, parts: list[tuple[str, int, Part]], outcome: Outcome) -> None:
        """Hand parts to the steps here, and put them into messages for the other sites that read them."""
        away: dict[str, dict[str, Part]] = {}
        for channel, lag, part in parts:
            if interval < lag:
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
            outcome.messages.append(Message(self.network.plan.id, step, self.name, site, interval, theirs))

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
        windows = [[header, put(data)] for header, data in (held.snapshot() for held in self.windows.values())]
        waiting = {
            channel: [[i, dict(part.facts), put(form.table_bytes(part.table))] for i, part in sorted(queue.items())]
            for channel, queue in self.waiting.items()
        }
        intakes = {}
        for stream, intake in self.intakes.items():
            numbers, table = intake.state()
            intakes[stream] = [numbers, put(form.table_bytes(table))]
        header = {
            "site": self.name, "plan": self.network.plan.id, "steps": steps, "windows": windows, "waiting": waiting,
            "intakes": intakes, "repeated": self.repeated,
        }  # fmt: skip
        return form.write(header, parts)

    @classmethod
    def restore(cls, data: bytes, network: Network) -> "Site":
        """The site of a snapshot, in the network that it was taken from."""
        snap = form.read(data)
        head = snap.header
        if head.get("plan") != network.plan.id:
            raise SnapshotError(f"the snapshot is of plan {head.get('plan')}, not of plan {network.plan.id}")
        site = cls(network, head["site"])
        for k, (name, following, numbers, tables) in enumerate(head["steps"]):
            if site.steps[k].name != name:
                raise SnapshotError.impossible(f"the step {name!r} is not at its place")
            site.next[k] = following
            site.steps[k].load(numbers, {n: form.table_of(snap.parts[at]) for n, at in tables.items()})
        for held, (numbers, at) in zip(site.windows.values(), head["windows"], strict=True):
            held.restore(numbers, snap.parts[at].to_pybytes())
        for channel, queue in head["waiting"].items():
            site.waiting[channel] = {i: Part(form.table_of(snap.parts[at]), facts) for i, facts, at in queue}
        for stream, (numbers, at) in head["intakes"].items():
            site.intakes[stream].load(numbers, form.table_of(snap.parts[at]))
        site.repeated = head["repeated"]
        return site

    @property
    def resident_rows(self) -> int:
        """How many rows its windows and copies hold."""
        return sum(held.resident_rows for held in self.windows.values())

    def counters(self) -> dict[str, Mapping[str, int]]:
        """What arrived at each own stream, and what was not joined."""
        return {stream: intake.counters for stream, intake in self.intakes.items()}


__all__ = ["Outcome", "Site", "Windows"]
