"""Planning: from a query, the places of its streams and the links between them to a plan that tells its costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Any, Literal

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table

from windrow.engine.intake import as_table
from windrow.errors import SpecError
from windrow.record import listed, name_text, number, one_of, whole
from windrow.sites.bound import Bound
from windrow.sites.costs import OBJECTIVES, Corrected, Model, Objective, Paper
from windrow.sites.figures import Figures, earliest, measured
from windrow.sites.links import Links
from windrow.sites.planners import PLANNERS, Choice, Search, plan_all, shared, total
from windrow.sites.plans import Plan
from windrow.sites.programs import program as known_program
from windrow.spec import Query
from windrow.spec.durations import parse_duration

UNIT_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_MODELS: dict[str, type[Model]] = {"corrected": Corrected, "paper": Paper}
SMALL, LARGE = 5, 9  # up to so many streams: exhaustive; exact; beyond, greedy


@dataclass(frozen=True)
class Planned:
    """A plan with what each of its steps will ship, by the model that it was chosen by."""

    plan: Plan
    choices: dict[str, Choice]
    search: Search
    planner: str

    @property
    def cost(self) -> float:
        """What the plan costs by its objective, for a second of arrivals."""
        return total(self.search, self.choices)

    def lines(self) -> list[dict[str, Any]]:
        """What is shipped, for each step: bytes and messages of a second, and seconds under way; shared things once."""
        found, seen, tau = [], set(), self.search.model.figures.tau
        for head, choice in self.choices.items():
            legs = [*choice.sequence, ("", "results")]
            for (stream, program), edge in zip(legs, choice.edges, strict=True):
                for ship in edge.ships or (None,):
                    again = ship is not None and ship.shared and (ship.shared, ship.receiver) in seen
                    line: dict[str, Any] = {"head": head, "meets": stream, "program": program}
                    if ship is None:
                        if program == "results":
                            continue
                        line |= {"from": "", "to": "", "what": "", "bytes_per_s": 0.0, "messages_per_s": 0.0}
                        found.append(line | {"delay_s": 0.0})
                        continue
                    seen |= {(ship.shared, ship.receiver)} if ship.shared else set()
                    link = self.search.model.links.between(ship.sender, ship.receiver)
                    line |= {"from": ship.sender, "to": ship.receiver, "what": ship.what + " (shared)" * bool(again)}
                    line |= {"bytes_per_s": 0.0 if again else ship.bytes / tau}
                    line |= {"messages_per_s": 0.0 if again else ship.messages / tau}
                    found.append(line | {"delay_s": link.seconds(ship.bytes)})
        return found

    def expected(self) -> dict[str, float]:
        """Bytes that go over each link in a second, as {"A -> B": bytes}."""
        found: dict[str, float] = {}
        for line in self.lines():
            if line["bytes_per_s"] and line["from"] != line["to"]:
                ends = f"{line['from']} -> {line['to']}"
                found[ends] = found.get(ends, 0.0) + line["bytes_per_s"]
        return found

    @property
    def bytes(self) -> float:
        """Bytes that are shipped in a second."""
        return sum(line["bytes_per_s"] for line in self.lines())

    def everything(self) -> tuple[str, float]:
        """Where all rows that can match would be shipped (for the result, or for few bytes), and bytes a second."""
        model = self.search.model

        def shipped(site: str) -> float:
            parts = [(name, there) for name, there in model.sites.items() if there != site]
            ships = (
                model.ship(there, site, "rows", model.bound.columns((name,)), model.figures.rates[name])
                for name, there in parts
            )
            return sum(ship.bytes for ship in ships) / model.figures.tau

        places = [self.plan.result_at] if self.plan.result_at else list(dict.fromkeys(model.sites.values()))
        return min(((site, shipped(site)) for site in places), key=lambda found: found[1])

    def explain(self) -> str:
        """A drawing of the plan, and a table of what every step ships."""
        table = Table(box=box.SIMPLE, pad_edge=False)
        for name in ("rows of", "meet", "by", "from", "to", "what", "bytes/s", "messages/s", "delay"):
            table.add_column(name, justify="right" if name in ("bytes/s", "messages/s", "delay") else "left")
        for x in self.lines():
            figures = (f"{x['bytes_per_s']:,.0f}", f"{x['messages_per_s']:,.1f}", f"{x['delay_s'] * 1000:,.0f} ms")
            table.add_row(x["head"], x["meets"], x["program"], x["from"], x["to"], x["what"], *figures)
        out = StringIO()
        Console(file=out, width=140).print(table)
        drawn = "\n".join(line.rstrip() for line in out.getvalue().splitlines() if line.strip())
        ended = f"{self.planner}: {self.bytes:,.0f} bytes/s, {self.search.model.objective} {self.cost:,.4g} per second"
        site, everything = self.everything()
        ended += f"\nto ship everything to {site}: {everything:,.0f} bytes/s" if self.bytes else ""
        return f"{self.drawing()}\n\n{drawn}\n\n{ended}"

    def drawing(self) -> str:
        """Each sequence on a line: where its rows are, and which window they meet by which program."""
        lines = []
        for head, choice in self.choices.items():
            site, text = self.plan.site_of(head), f"{head}@{self.plan.site_of(head)}"
            for stream, program in choice.sequence:
                there = self.plan.site_of(stream)
                site = site if "-S" in program else there
                text += f" ──{program}──▶ {stream}@{there}" + ("" if site == there else f" (joined at {site})")
            last = self.plan.result_at
            lines.append(text + (f" ──▶ {last}" if last and last != site else ""))
        return "\n".join(lines)


def plan(
    query: Query, sites: Mapping[str, str], links: Any = None, *, samples: Mapping[str, Any] | None = None,
    figures: Figures | None = None, schemas: Mapping[str, pa.Schema] | None = None, interval: Any = "100 ms",
    delay: Any = 0, objective: Objective = "time", planner: Literal["auto", "greedy", "exhaustive", "exact"] = "auto",
    model: Literal["corrected", "paper"] = "corrected", result_at: str | None = None, origin: int | None = None,
    programs: tuple[str, ...] = (), step_seconds: float = 1.0,
) -> Planned:  # fmt: skip
    """The cheapest plan that a planner finds.

    Parameters:
        sites: the site of each stream.
        links: a Link for all, or a mapping from pairs of sites ("A -> B" one way, "A - B" both) to links.
        samples: a table of each stream over the same time, from which rates, sizes and shares are measured.
        figures: or these figures, with the schemas of the streams.
        objective: "time" (seconds under way and at work, the paper's), "bytes", or "money" (by the links' prices).
        planner: "auto" is exhaustive up to 5 streams, exact up to 9, then greedy.
        model: "corrected", or "paper" for appendix B as it is printed.
        origin: when interval 0 begins, in units of the times; None is the earliest time of the samples.
        programs: the programs that may be used; all, if none is named.
        step_seconds: how long a unit of time takes, where times are plain numbers.
    """
    one_of(objective, OBJECTIVES, "objective")
    one_of(planner, ("auto", *PLANNERS), "planner")
    kind = _MODELS[one_of(model, tuple(_MODELS), "model")]
    _check_places(query, sites, result_at)
    programs = tuple(programs if isinstance(programs, tuple) else listed(programs, "programs"))
    for each in programs:
        known_program(each)
    parse_duration(delay, "the delay")
    if not number(step_seconds, "step_seconds"):
        raise SpecError("step_seconds must be more than nothing")
    if origin is not None:
        whole(origin, "origin", least=-(2**62))
    known = Links(links)
    schemas = _schemas(query, samples, figures, schemas)
    length = parse_duration(interval, "the interval")
    if origin is None:
        origin = 0 if samples is None else earliest(query, samples)
    bound = Bound(query, dict(schemas), length, origin)
    if figures is None:
        assert samples is not None
        figures = measured(bound, samples, UNIT_SECONDS.get(bound.unit, step_seconds))
    made = kind(bound, figures, known, {name: sites[name] for name in query.names}, objective)
    search = Search(query, made, result_at, programs)
    many = len(query.names)
    name = planner if planner != "auto" else "exhaustive" if many <= SMALL else "exact" if many <= LARGE else "greedy"
    choices = plan_all(search, name)
    if made.relative:
        choices = shared(search, choices, name)
    sequences = {head: choice.sequence for head, choice in choices.items()}
    return Planned(Plan(query, sites, sequences, interval, delay, result_at, origin), choices, search, name)


def _check_places(query: Any, sites: Any, result_at: Any) -> None:
    """Refuse places that are none, before anything is measured."""
    if not isinstance(query, Query):
        raise SpecError(f"plan takes a Query, got {type(query).__name__}")
    if not isinstance(sites, Mapping) or set(sites) != set(query.names):
        raise SpecError(f"sites must say where each of the streams {', '.join(query.names)} is, got {sites!r}")
    for stream, site in sites.items():
        name_text(site, f"the site of stream {stream!r}")
    if result_at is not None:
        name_text(result_at, "result_at")


def _schemas(query: Query, samples: Any, figures: Any, schemas: Any) -> Mapping[str, pa.Schema]:
    """The columns of each stream: of its sample, or as they are told beside figures."""
    if figures is not None and not isinstance(figures, Figures):
        raise SpecError(f"figures must be Figures of the streams, got {type(figures).__name__}")
    if samples is None and (figures is None or schemas is None):
        raise SpecError("plan needs samples= of the streams, or figures= and schemas=")
    told, what = (schemas, "schemas") if samples is None else (samples, "samples")
    if not isinstance(told, Mapping) or set(told) != set(query.names):
        raise SpecError(f"{what} must have one for each of the streams {', '.join(query.names)}")
    return told if samples is None else {name: as_table(table, name).schema for name, table in samples.items()}
