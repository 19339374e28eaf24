"""Council: decides, from what streams turn out to be like, whether another plan would cost less.

Now and then each stream is surveyed at its own site (survey.py). One site, the seat, gets all surveys. It prices the
plan that holds and the best one that it finds, and tells all sites: go on, or from interval B on, this plan; and when
the next check is, and whether surveys then have keys (spending.py).

    check c    surveys of the intervals before E(c), sent when each stream has come there; E(0) is `every`
    decision   by the seat, when it has the surveys of all streams; in the order of checks. It tells E(c + 1)
    B          E(c) + wait: no stream goes past it before its site knows decision c

Surveys and decisions are messages, numbered by checks, so nothing depends on when they come. Only the seat plans, so
sites need not agree about the last bit of a cost. What a survey says is decided by rows and decisions, never by how far
steps or messages have come, which is another thing after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import pyarrow as pa

from windrow.errors import InputError, SpecError
from windrow.record import Record, number, one_of, whole
from windrow.sites.bound import Bound
from windrow.sites.costs import EdgeCost, Objective
from windrow.sites.figures import Figures
from windrow.sites.links import HEADER_BYTES, Links
from windrow.sites.messages import Message, Part
from windrow.sites.past import Past
from windrow.sites.planners import PLANNERS, Search, ships
from windrow.sites.planning import UNIT_SECONDS, Planned
from windrow.sites.planning import plan as planned
from windrow.sites.plans import Plan
from windrow.sites.spending import MOST_GAP, Spending
from windrow.sites.survey import Survey
from windrow.spec.durations import Duration, DurationLike, parse_duration
from windrow.state.coding import duration_in_units
from windrow.state.snapshot import form

FURTHEST = 4  # checks for which rows are looked back at, where windows are as long
PAYS = 8  # checks within which a new plan must have saved what it costs to fill its windows
NOTICED, NAMED = 1.25, 3  # how much a figure must have changed to be a reason, and how many are named
BRIEF = 140  # bytes of a survey without keys, and of a decision to go on
KEPT = ("decided", "end", "gap", "keys", "known", "base", "seen", "shipped")  # in snapshots, as plain values
TOLD = pa.schema([pa.field("plan", pa.string()), pa.field("why", pa.string())])


@dataclass(frozen=True, init=False)
class Replan(Record):
    """When a plan is looked at again, and when it is replaced.

    Parameters:
        every: how long streams are watched before the plan is looked at again, at least: whole intervals are taken,
            and not fewer than a decision is under way.
        gain: how much less another plan must cost, as a share of what this one costs.
        at: the site that plans; None is the first one of the plan.
        sample: how many keys of each stream are sent there for it, at most.
        objective: "bytes", "time" or "money"; None is what the plan was made for, if that is known, else bytes.
        planner: as `windrow.sites.plan` takes it.
        share: what surveys and decisions may cost, as a share of the bytes that the plan ships: streams are looked at
            less often, or without keys, where that is little.
    """

    every: Duration
    gain: float
    at: str | None
    sample: int
    objective: str | None
    planner: str
    share: float

    def __init__(
        self, every: DurationLike, gain: float = 0.15, at: str | None = None, sample: int = 256,
        objective: Objective | None = None, planner: Literal["auto", "greedy", "exhaustive", "exact"] = "auto",
        share: float = 0.05,
    ) -> None:  # fmt: skip
        self._set(
            every=parse_duration(every, "replan: every"),
            gain=float(number(gain, "replan: gain")),
            at=at,
            sample=whole(sample, "replan: sample", least=1),
            share=float(number(share, "replan: share")),
            objective=None if objective is None else one_of(objective, ("time", "bytes", "money"), "replan: objective"),
            planner=one_of(planner, ("auto", *PLANNERS), "replan: planner"),
        )


class Council:
    """What a site has to do with the choice of plans."""

    DECISION: ClassVar[str] = "decision"

    def __init__(
        self, replan: Replan, plan: Plan, bound: Bound, links: Links | None = None, step_seconds: float = 1.0
    ) -> None:
        if plan.tree:
            raise SpecError("replan compares plans by sequences: a tree has no cost model; leave replan out")
        self.replan, self.bound, self.links = replan, bound, links or Links()
        self.seat = replan.at if replan.at is not None else plan.places[0]
        if self.seat not in plan.places:
            raise SpecError(f"replan: at is {self.seat!r}, and the sites are {', '.join(plan.places)}")
        length = duration_in_units(replan.every.amount, replan.every.unit, bound.binding.domain, "replan: every")
        self.wait = plan.lag + 1  # intervals for surveys to come, and for the decision to go
        self.every = max(self.wait + 1, -(-length.numerator // (length.denominator * bound.tau)))
        self.id = f"{plan.id}.plans"
        self.unit_seconds = UNIT_SECONDS.get(bound.unit, step_seconds)
        self.survey_of = Survey(bound, self.every)
        self.channels = {c: s for name in bound.query.names for c, s in self.survey_of.schemas(name).items()}
        self.homes = dict(plan.sites)
        self.others = len(plan.places) - 1
        self.decided = 0  # checks whose decision is known here
        self.end, self.gap, self.keys = self.every, 1, True  # of the next check: where, after how long, with keys
        self.surveys: dict[str, dict[str, Part]] = {}  # at the seat: of the next check, by stream
        self.told: dict[int, dict[str, Part]] = {}  # decisions that came before earlier ones
        self.known: dict[str, float] = {}  # what streams were like when the plan was chosen
        # at the seat: what the last surveys with keys said, how many rows there were when plans were last compared, and
        # what the plan ships in a second
        self.base: dict[str, Any] = {}
        self.seen: dict[str, Any] = {}
        self.shipped = 0.0
        away = sum(site != self.seat for site in self.homes.values())
        self.spending = Spending(replan.share, (away + self.others) * (HEADER_BYTES + BRIEF))

    # -- checks ----------------------------------------------------------------------------------------------------

    @property
    def limit(self) -> int:
        """The interval at which the next decision takes effect."""
        return self.end + self.wait

    @property
    def span(self) -> int:
        """For how many intervals rows are looked back at."""
        longest = [self.every]
        for life in self.bound.lives.values():
            longest.append(FURTHEST * self.every if life.reach is None else life.reach // self.bound.tau + 1)
        return min(self.every + max(longest), FURTHEST * self.every)

    def due(self, interval: int) -> bool:
        """Whether streams are surveyed when an interval has been taken."""
        return interval + 1 == self.end

    def survey(self, stream: str, past: Past) -> dict[str, Part]:
        """What a stream has been like, up to where the check is."""
        return self.survey_of.of(stream, past, self.end - self.span, self.end, self.replan.sample if self.keys else 0)

    def hear(self, check: int, stream: str, parts: Mapping[str, Part]) -> bool:
        """At the seat: the survey of a stream; False if it came before."""
        if check != self.decided or stream in self.surveys:
            return False
        self.surveys[stream] = dict(parts)
        return True

    def tell(self, check: int, parts: Mapping[str, Part]) -> bool:
        """A decision, perhaps before an earlier one; False if it came before."""
        if check < self.decided or check in self.told:
            return False
        self.told[check] = dict(parts)
        return True

    def complete(self) -> bool:
        """Whether the next decision can be made here."""
        return len(self.surveys) == len(self.bound.query.names)

    def adopt(self, parts: Mapping[str, Part]) -> tuple[int, Plan | None, str]:
        """A decision holds: from which interval on, which plan, if it is another one, and why."""
        begin, facts = self.limit, parts[self.DECISION].facts
        self.decided += 1
        self.gap, self.keys = facts["gap"], bool(facts["keys"])
        self.end += self.gap * self.every
        return begin, *self.read(parts)

    # -- decisions -------------------------------------------------------------------------------------------------

    def decide(self, current: Plan) -> dict[str, Part]:
        """At the seat: the decision of the next check, as it is told."""
        surveys, self.surveys = self.surveys, {}
        facts, keys = self.survey_of.facts(surveys), self.survey_of.is_full(surveys)
        drifted = bool(self.seen) and self.survey_of.drifted(self.seen, facts, NOTICED)
        if keys:
            self.base = self.survey_of.base(surveys)
        before, found = self.shipped, None
        met = bool(self.base) and all(self.base["facts"][n]["rows"] or not told["rows"] for n, told in facts.items())
        if (keys or (drifted and met)) and any(told["rows"] for told in facts.values()):
            self.seen = {"facts": facts}
            found = self._considered(current, facts)
        told: dict[str, list[str]] = {"plan": [], "why": []}
        if found is not None:
            told = {"plan": [found[0].to_json()], "why": [found[1]]}
        table = pa.table(told, schema=TOLD)
        seconds = self.every * self.bound.tau * self.unit_seconds
        spent = self._spent(surveys, table)
        self.spending.settle((before or self.shipped) * seconds * self.gap, spent, keys, drifted or found is not None)
        gap, again = self.spending.next(self.shipped * seconds) if self.shipped else (1, True)  # nobody has come yet
        return {self.DECISION: Part(table, {"gap": gap, "keys": int(again)})}

    def _spent(self, surveys: Mapping[str, Mapping[str, Part]], table: pa.Table) -> float:
        """The bytes of a check: of surveys from other sites, and of the decision."""
        surveyed = [
            self._bytes(f"figures {name}", parts) for name, parts in surveys.items() if self.homes[name] != self.seat
        ]
        told = {self.DECISION: Part(table, {"gap": 1, "keys": 0})}
        return sum(surveyed) + self.others * self._bytes(self.DECISION, told)

    def _bytes(self, step: str, parts: Mapping[str, Part]) -> int:
        return HEADER_BYTES + len(Message(self.id, step, self.seat, self.seat, self.decided, dict(parts)).encode())

    def _considered(self, current: Plan, facts: Mapping[str, Mapping[str, int]]) -> tuple[Plan, str] | None:
        """A better plan, if there is one, and why."""
        figures = self.survey_of.figures(self.base, facts, self.unit_seconds)
        found, now = self._better(current, figures), _summary(figures)
        if found is None:
            self.known = self.known or now
            return None
        changed = _changes(self.known, now)
        self.known = now
        return found[0], f"{changed}; {found[1]}" if changed else found[1]

    def _better(self, current: Plan, figures: Figures) -> tuple[Plan, str] | None:
        """A plan that costs enough less than the current one, and by how much."""
        objective: Any = self.replan.objective or "bytes"
        how: Any = self.replan.planner
        best = planned(
            self.bound.query, dict(current.sites), self.links, figures=figures, schemas=self.bound.schemas,
            interval=current.interval, delay=current.delay, objective=objective, planner=how,
            result_at=current.result_at, origin=current.origin,
        )  # fmt: skip
        search = best.search
        legs = {head: tuple((leg.stream, leg.program) for leg in legs) for head, legs in current.sequences}
        now = Planned(current, {head: search.choice(head, sequence) for head, sequence in legs.items()}, search, "")
        before, after, filling, self.shipped = now.cost, best.cost, _filling(best, search), now.bytes
        lasting = PAYS * self.every * figures.tau
        if after + filling / lasting >= before * (1 - self.replan.gain) or best.plan.sequences == current.sequences:
            return None
        self.shipped = best.bytes
        what = {"time": "seconds a second", "bytes": "bytes a second", "money": "a second to pay"}[objective]
        why = f"the old plan would cost {before:,.4g} {what}, this one {after:,.4g}"
        return best.plan.with_(dense_counts=current.dense_counts), why

    @staticmethod
    def read(parts: Mapping[str, Part]) -> tuple[Plan | None, str]:
        """The plan that a decision tells, if it does, and why."""
        table = parts[Council.DECISION].table
        if not table.num_rows:
            return None, ""
        return Plan.from_json(table["plan"][0].as_py()), str(table["why"][0].as_py())

    # -- messages --------------------------------------------------------------------------------------------------

    def schema_of(self, channel: str) -> pa.Schema:
        """The columns of a channel."""
        if channel == self.DECISION:
            return TOLD
        if channel not in self.channels:
            raise SpecError(f"there is no survey {channel!r}")
        return self.channels[channel]

    def verify(self, message: Message) -> None:
        """Refuse what nobody here waits for."""
        if message.step == self.DECISION:
            if message.sender != self.seat or set(message.parts) != {self.DECISION}:
                raise InputError(f"decisions are made at {self.seat!r}")
            facts = message.parts[self.DECISION].facts
            if not 1 <= facts.get("gap", 0) <= MOST_GAP or facts.get("keys") not in (0, 1):
                raise InputError("a decision that does not say when the next check is")
            try:
                self.read(message.parts)
            except SpecError as error:
                raise InputError(f"a decision that cannot be read: {error}") from None
            return
        stream = message.step.partition(" ")[2]
        if message.receiver != self.seat or self.homes.get(stream) != message.sender:
            raise InputError(f"nobody here waits for {message.step!r} of {message.sender!r}")
        self.survey_of.verify(stream, message.parts)

    # -- snapshots -------------------------------------------------------------------------------------------------

    def state(self, put: Callable[[Any], int]) -> dict[str, Any]:
        """What is known, with tables put elsewhere."""

        def put_all(parts: Mapping[str, Part]) -> dict[str, Any]:
            return {c: [dict(p.facts), put(form.table_bytes(p.table))] for c, p in parts.items()}

        return {
            **{name: getattr(self, name) for name in KEPT}, "spending": self.spending.state(),
            "surveys": {stream: put_all(parts) for stream, parts in self.surveys.items()},
            "told": [[check, put_all(parts)] for check, parts in self.told.items()],
        }  # fmt: skip

    def load(self, head: Mapping[str, Any], snap: form.Snapshot) -> None:
        """Go on from a state."""

        def parts_of(found: Mapping[str, Any]) -> dict[str, Part]:
            return {c: Part(form.table_of(snap.parts[at]), facts) for c, (facts, at) in found.items()}

        for name in KEPT:
            setattr(self, name, head[name])
        self.spending = Spending(**head["spending"])
        self.surveys = {stream: parts_of(found) for stream, found in head["surveys"].items()}
        self.told = {check: parts_of(found) for check, found in head["told"]}


def _filling(best: Planned, search: Search) -> float:
    """What it costs to fill the windows of a plan: rows or keys of whole windows, shipped once."""
    figures, found, seen = search.model.figures, [], set()
    for choice in best.choices.values():
        for ship in ships(choice):
            for stream, rate in figures.rates.items():
                window = figures.window[stream] / max(rate * figures.tau, 1e-9)
                whole_rows = ship.what == f"rows of {stream}" and (ship.shared, ship.receiver) not in seen
                if whole_rows or ship.what == f"new values of {stream}":
                    seen.add((ship.shared, ship.receiver))
                    found.append(replace(ship, bytes=ship.bytes * max(window, 1.0)))
    return search.model.price(EdgeCost(tuple(found))) * figures.tau


def _summary(figures: Figures) -> dict[str, float]:
    """What reasons are told by."""
    found = {f"rows of {name} a second": rate for name, rate in figures.rates.items()}
    for (a, b), meeting in figures.meetings.items():
        found[f"partners of {a} in {b}"] = meeting.pairs
        found[f"share of {a} with partners in {b}"] = meeting.share
    return found


def _changes(before: Mapping[str, float], now: Mapping[str, float]) -> str:
    """The figures that have changed most."""
    ratios = []
    for name, value in now.items():
        old = before.get(name, value)
        ratio = max(value, 1e-9) / max(old, 1e-9)
        ratios.append((max(ratio, 1 / ratio), f"{name} were {old:.3g} and are {value:.3g}"))
    ratios.sort(key=lambda pair: -pair[0])
    return ", ".join(text for ratio, text in ratios[:NAMED] if ratio > NOTICED)
