"""Course: a site through all plans that it is given, one after another: what a ground sees of it.

    take(stream, interval, rows)   the rows of one of its streams for the next interval, when that interval has ended
    receive(message)               a message of another site; one that came before is counted and ignored
    step()                         run one step whose interval is all there: messages to send, and matches
    advance()                      run them all

Intervals are numbered, so a change of plan needs no clock: rows that arrive in interval B or later are joined by the
new plan, those that arrived before by the old one. A match is found when the last of its rows arrives, so each is found
by one of both. Where a stream comes to B,

    the old network gets the intervals from B on without rows, as many as its questions are under way, and ends;
    the new network gets all rows that may still be met in the interval before B, when nobody arrives (`Network`): the
    windows, copies, values and marks of the new plan are made from them as they are always made.

Both networks run beside each other until the old one has ended here. Nothing of it is handed over: what was sent, asked
and counted under it ends with it.

Who decides: switches are given beforehand, or made by a `Council` (council.py), whose figures and plans are messages
like others: numbered, noted, kept until acknowledged. No stream goes past the interval at which a plan may change
before it is known whether it does.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from windrow.engine.metrics import added_up
from windrow.errors import InputError, SnapshotError, SpecError
from windrow.sites.bound import UNTIL, Bound
from windrow.sites.budget import Budget, Loss
from windrow.sites.council import Council, Replan
from windrow.sites.intake import Intake
from windrow.sites.links import Links
from windrow.sites.messages import Message, Part
from windrow.sites.network import CLOCK, Network
from windrow.sites.past import Past
from windrow.sites.plans import Plan
from windrow.sites.site import Outcome, Site
from windrow.state.columns import empty_table
from windrow.state.snapshot import form

ALWAYS = 1 << 62


class Course:
    """A site under one plan after another."""

    def __init__(
        self, plan: Plan, schemas: Mapping[str, pa.Schema], name: str, *, heads: Collection[str] | None = None,
        switches: Sequence[tuple[int, Plan]] = (), replan: Replan | None = None, links: Links | None = None,
        step_seconds: float = 1.0, budget: Budget | None = None,
    ) -> None:  # fmt: skip
        if budget is not None and (switches or replan is not None):
            raise SpecError(
                "a budget and a change of plans do not go together: a site keeps all rows of its streams that may "
                "still be met, to fill the windows of the next plan; leave out memory or replan"
            )
        self.budget, self.matched = budget, dict[str, int]()  # rows that sequences have delivered here
        self.name, self.schemas, self.heads = name, dict(schemas), heads
        self.networks = [Network(plan, schemas, heads)]
        self.reasons = ["the first plan"]
        self.sites: dict[int, Site] = {0: Site(self.networks[0], name, budget)}  # by the number of the plan
        self.bound = Bound(plan.query, self.schemas, plan.interval, plan.origin)
        mine = [stream for stream, site in plan.sites if site == name]
        self.intakes = {stream: Intake(self.bound, stream) for stream in mine}
        self.council = None if replan is None else Council(replan, plan, self.bound, links, step_seconds)
        self.pasts = {stream: Past(self.bound, stream) for stream in mine} if switches or replan else {}
        self.repeated = 0  # messages that came again
        self._said = Outcome()  # what is to be sent beside what steps say
        for begin, following in switches:
            self._switch(begin, following, "as it was told")

    # -- plans -----------------------------------------------------------------------------------------------------

    @property
    def network(self) -> Network:
        """The network of the last plan that is known."""
        return self.networks[-1]

    @property
    def plan(self) -> Plan:
        """The first plan, of which all others have the streams, sites and intervals."""
        return self.networks[0].plan

    @property
    def tail(self) -> int:
        """How many intervals without rows must follow the last one with rows, whatever the plan is then."""
        return max(network.plan.tail for network in self.networks)

    @property
    def limit(self) -> int:
        """Intervals from this one on may not be taken before more is known about plans."""
        return ALWAYS if self.council is None else self.council.limit

    def _switch(self, begin: int, plan: Plan, why: str) -> None:
        """From an interval on, another plan holds."""
        first = self.plan
        for what in ("query", "sites", "interval", "origin", "result_at"):
            if getattr(plan, what) != getattr(first, what):
                raise SpecError(f"a plan cannot be replaced by one with another {what}")
        if begin <= max([self.networks[-1].begin, *(intake.next - 1 for intake in self.intakes.values())]):
            raise SpecError(f"a plan cannot begin at interval {begin}: that has passed")
        self.networks.append(Network(plan, self.schemas, self.heads, len(self.networks), begin))
        self.reasons.append(why)

    def _site(self, number: int) -> Site | None:
        """The site under a plan; None if that has ended here."""
        if number not in self.sites and number > max(self.sites):
            for k in range(max(self.sites) + 1, number + 1):
                self.sites[k] = Site(self.networks[k], self.name, self.budget)
        return self.sites.get(number)

    # -- in --------------------------------------------------------------------------------------------------------

    def take(self, stream: str, interval: int, rows: Any = None) -> Outcome:
        """The rows of an own stream for the next interval (None: none), and that it has ended.

        Rows of earlier intervals among them are late. What must be shipped to other sites is in the outcome.
        """
        if interval >= self.limit:
            raise InputError(f"stream {stream!r}: interval {interval} has to wait until it is known which plan it has")
        intake, outcome = self.intakes[stream], Outcome()
        if rows is not None:
            intake.feed(rows)
        before = intake.taken
        batch, clock = intake.close(interval)
        number = max(k for k, network in enumerate(self.networks) if network.begin <= interval)
        network = self.networks[number]
        if number and network.begin == interval:
            self._cross(stream, number, before, outcome)
        self._put(stream, number, interval, Part(batch), Part(clock), outcome)
        if self.pasts:
            self._remember(stream, interval, batch, outcome)
        return outcome

    def _put(self, stream: str, number: int, interval: int, rows: Part, clock: Part, outcome: Outcome) -> None:
        site = self._site(number)
        assert site is not None
        schema = site.network.bound.rows_schema((stream,))
        table = rows.table
        if UNTIL in schema.names:
            table = table.append_column(UNTIL, pa.array(self.bound.until(stream, table)))
        site.put(stream, interval, Part(table.select(schema.names)), clock, outcome)

    def _cross(self, stream: str, number: int, taken: int, outcome: Outcome) -> None:
        """A stream comes to the interval at which a plan begins: the old one ends, the new one gets what is alive."""
        begin, old = self.networks[number].begin, self.networks[number - 1].plan
        nothing, silence = Part(empty_table(self.bound.rows_schema((stream,)))), Part(empty_table(CLOCK))
        for interval in range(begin, begin + old.tail):
            self._put(stream, number - 1, interval, nothing, silence, outcome)
        alive = Part(self.pasts[stream].alive(self._low(stream, begin, taken)))
        counted = Part(empty_table(CLOCK), {"before": taken})
        self._put(stream, number, begin - 1, alive, counted, outcome)

    def _low(self, stream: str, interval: int, taken: int) -> int:
        """The lowest moment that may be asked about from an interval on."""
        return taken if self.bound.lives[stream].rows is not None else self.bound.start(interval)

    def _remember(self, stream: str, interval: int, batch: pa.Table, outcome: Outcome) -> None:
        """Keep rows that a new plan may need; now and then, say what a stream is like."""
        past, taken, council = self.pasts[stream], self.intakes[stream].taken, self.council
        past.add(interval, batch)
        if council is not None and council.due(interval):
            check, parts = council.decided, council.survey(stream, past)
            if council.seat == self.name:
                council.hear(check, stream, parts)
                self._consider()
            else:
                message = Message(council.id, f"figures {stream}", self.name, council.seat, check, parts)
                outcome.messages.append(message)
        since = interval + 1 if council is None else interval + 2 - council.span
        past.forget(self._low(stream, interval + 1, taken), since)

    def receive(self, message: Message) -> bool:
        """Put a message where steps find it; False if it came before."""
        if self.council is not None and message.plan == self.council.id:
            fresh = self._counsel(self.council, message)
        else:
            site = self._site(self._number(message.plan))
            fresh = site is not None and site.receive(message)
        self.repeated += not fresh
        return fresh

    def _counsel(self, council: Council, message: Message) -> bool:
        if message.step == council.DECISION:
            fresh = council.tell(message.interval, message.parts)
            while (told := council.told.pop(council.decided, None)) is not None:
                self._adopt(council, told)
            return fresh
        fresh = council.hear(message.interval, message.step.partition(" ")[2], message.parts)
        self._consider()
        return fresh

    def _consider(self) -> None:
        """At the seat of the council: decide what can be decided, and tell all."""
        council = self.council
        assert council is not None
        while council.complete():
            check, parts = council.decided, council.decide(self.networks[-1].plan)
            for site in self.plan.places:
                if site != self.name:
                    message = Message(council.id, council.DECISION, self.name, site, check, parts)
                    self._said.messages.append(message)
            self._adopt(council, parts)

    def _adopt(self, council: Council, told: Mapping[str, Part]) -> None:
        begin, plan, why = council.adopt(told)
        if plan is not None:
            self._switch(begin, plan, why)

    # -- messages --------------------------------------------------------------------------------------------------

    def _number(self, plan: str) -> int:
        """The number of the plan of an id."""
        for network in reversed(self.networks):
            if network.id == plan:
                return network.number
        raise InputError(f"site {self.name!r} knows no plan {plan}")

    def decode(self, data: bytes | memoryview) -> Message | None:
        """The message in some bytes; None if it is of a plan that is to come; an InputError for anything else."""
        plan = Message.plan_of(data)
        if self.council is not None:
            if plan == self.council.id:
                return Message.decode(data, self.council.schema_of, plan)
            _, dot, number = plan.rpartition(".")
            if dot and number.isdigit() and len(number) < 10 and int(number) >= len(self.networks):
                return None
        try:
            known = self.networks[self._number(plan)]
        except InputError:
            raise InputError(f"this is no message of plan {self.network.id}: it is of plan {plan!r}") from None
        return Message.decode(data, known.schema_of, plan)

    def check(self, message: Message, sender: str) -> None:
        """Refuse a message that nobody here waits for."""
        if message.sender != sender or message.receiver != self.name:
            raise InputError(f"it is from {message.sender!r} to {message.receiver!r}")
        if self.council is not None and message.plan == self.council.id:
            self.council.verify(message)
            return
        network = self.networks[self._number(message.plan)]
        for channel in message.parts:
            if self.name not in network.readers(channel) or network.home(channel) != sender:
                raise InputError(f"nobody here reads {channel!r} of {sender!r}")

    def first_of(self, message: Message) -> int:
        """The first interval of which the step of a message sends one."""
        if self.council is not None and message.plan == self.council.id:
            return 0
        return self.networks[self._number(message.plan)].first_of(message.step)

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
        """Run one step, of the oldest plan that has one that is ready; None if none is. Plans that have ended here are
        forgotten."""
        if self._said.messages:
            outcome, self._said = self._said, Outcome()
            return outcome
        for number, site in sorted(self.sites.items()):
            if (found := site.step()) is not None:
                for channel, _, table in found.results:
                    edge = channel.removesuffix("=>")
                    self.matched[edge] = self.matched.get(edge, 0) + table.num_rows
                return found
            if self._over(number):
                del self.sites[number]
        return None

    def _over(self, number: int) -> bool:
        """Whether all is done of a plan, and another one has begun here."""
        if number + 1 >= len(self.networks):
            return False
        end = self.networks[number + 1].begin
        if any(intake.next <= end for intake in self.intakes.values()):
            return False
        over = self.sites[number].finished(end + self.networks[number].plan.tail)
        return over and self._site(number + 1) is not None

    # -- where it is -----------------------------------------------------------------------------------------------

    def finished(self, final: int) -> bool:
        """Whether nothing is left to do, if all streams end before an interval and `tail` more are taken."""
        last = max(k for k, network in enumerate(self.networks) if network.begin < final)
        if any(intake.next < final for intake in self.intakes.values()):
            return False
        site = self._site(last)
        return all(k >= last for k in self.sites) and site is not None and site.finished(final)

    @property
    def lowest(self) -> int:
        """The lowest interval that something here has not taken."""
        steps = [at for site in self.sites.values() for at in site.next]
        return min([*steps, *(intake.next for intake in self.intakes.values())], default=0)

    def lacking(self) -> dict[str, int]:
        """Which other sites, or own streams, have not brought what is waited for, and the interval."""
        found: dict[str, int] = {}
        for site in self.sites.values():
            for who, interval in site.lacking().items():
                found[who] = min(interval, found.get(who, interval))
        if not found and any(intake.next >= self.limit for intake in self.intakes.values()):
            found["the next plan"] = self.limit
        return found

    @property
    def waiting_bytes(self) -> int:
        """The bytes of what waits in channels."""
        return sum(site.waiting_bytes for site in self.sites.values())

    @property
    def resident_rows(self) -> int:
        """How many rows windows and copies hold."""
        return sum(site.resident_rows for site in self.sites.values())

    def losses(self) -> list[Loss]:
        """What windows and stores have taken, hold and have shed, where there is a budget."""
        return [loss for site in self.sites.values() for loss in site.losses()]

    def held_metrics(self) -> dict[str, Any] | None:
        """The counters of windows and stores here as plain data, where there is a budget."""
        if self.budget is None:
            return None
        return added_up([loss.metrics for loss in self.losses()], self.plan.query.names).to_dict()

    def counters(self) -> dict[str, Mapping[str, int]]:
        """What arrived at each own stream, and what was not joined."""
        return {stream: intake.counters for stream, intake in self.intakes.items()}

    def plan_at(self, interval: int) -> dict[str, Any]:
        """The plan of an interval, as `plans` tells it."""
        return [told for told in self.plans() if told["begins"] <= interval][-1]

    def plans(self) -> list[dict[str, Any]]:
        """The plans so far: number, id, the interval at which it begins, and why."""
        return [
            {"number": n.number, "id": n.plan.id, "begins": n.begin, "why": why}
            for n, why in zip(self.networks, self.reasons, strict=True)
        ]

    # -- snapshots -------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The whole state as bytes: a JSON header, Arrow tables, snapshots of sites under each plan."""
        parts: list[Any] = []

        def put(data: Any) -> int:
            parts.append(data)
            return len(parts) - 1

        intakes = {}
        for stream, intake in self.intakes.items():
            numbers, table = intake.state()
            past = put(form.table_bytes(self.pasts[stream].table())) if self.pasts else None
            intakes[stream] = [numbers, put(form.table_bytes(table)), past]
        plans = [
            [network.begin, network.plan.to_dict(), why]
            for network, why in zip(self.networks[1:], self.reasons[1:], strict=True)
        ]
        header = {
            "site": self.name, "plan": self.networks[0].id, "intakes": intakes, "plans": plans,
            "sites": {str(number): put(site.snapshot()) for number, site in self.sites.items()},
            "council": None if self.council is None else self.council.state(put), "repeated": self.repeated,
            "matched": self.matched,
            "said": [put(message.encode(None)) for message in self._said.messages],
        }  # fmt: skip
        return form.write(header, parts)

    def restore(self, data: bytes) -> "Course":
        """Go on from a snapshot of this site, which was made with the same first plan and settings."""
        snap = form.read(data)
        head = snap.header
        if head.get("plan") != self.networks[0].id or head.get("site") != self.name:
            raise SnapshotError(
                f"the snapshot is of plan {head.get('plan')} at {head.get('site')}, not of plan {self.networks[0].id} "
                f"at {self.name}"
            )
        del self.networks[1:], self.reasons[1:]
        for begin, plan, why in head["plans"]:
            made = Plan.from_dict(plan)
            self.networks.append(Network(made, self.schemas, self.heads, len(self.networks), begin))
            self.reasons.append(why)
        self.sites = {
            int(number): Site.restore(snap.parts[at].to_pybytes(), self.networks[int(number)], self.budget)
            for number, at in head["sites"].items()
        }
        for stream, (numbers, at, past) in head["intakes"].items():
            self.intakes[stream].load(numbers, form.table_of(snap.parts[at]))
            if past is not None:
                self.pasts[stream] = Past(self.bound, stream)
                self.pasts[stream].load(form.table_of(snap.parts[past]))
        if self.council is not None:
            self.council.load(head["council"], snap)
        self.repeated, self.matched = head["repeated"], dict(head["matched"])
        decoded = [self.decode(snap.parts[at].to_pybytes()) for at in head["said"]]
        self._said = Outcome([message for message in decoded if message is not None])
        return self
