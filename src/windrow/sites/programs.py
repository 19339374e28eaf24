"""The one-way programs: how rows that arrive at a source N1 meet the window W2 of a stream at a destination N2.

B1 are the arriving rows of an interval, B2 those of the window's stream. Each program is a list of steps, in the order
of the paper's algorithm; a channel whose reader is at another site is shipped there. Line numbers are the paper's.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

from windrow.errors import SpecError, alternatives
from windrow.sites.bloom import ChooseShort, Echo, Keep, Offer, Sketch, TellShort
from windrow.sites.edges import Edge
from windrow.sites.mixed import Answer, Ask, Choose, Meet, Tell
from windrow.sites.semijoins import Copied, Unsent
from windrow.sites.steps import Join, Judge, Placed, Port, Project, Reduce, Step


class Program(ABC):
    """A one-way program. `rows` is the channel of arriving rows; the joined rows have the edge's name."""

    name: ClassVar[str]
    at_source: ClassVar[bool]  # where joined rows arise
    by_value: ClassVar[bool] = False  # whether it needs an equality between the streams

    @abstractmethod
    def place(self, edge: Edge, rows: str) -> list[Placed]:
        """The steps on an edge."""

    def site(self, edge: Edge) -> str:
        """Where joined rows arise."""
        return edge.source if self.at_source else edge.destination


def _placed(kind: type[Step], site: str, edge: Edge, reads: list[str | Port], writes: list[str | Port]) -> Placed:
    """A step that writes channels of the edge; one that asks a window in rows reads its clock, too."""
    name = f"{edge.name}.{kind.__name__.lower()}"
    ports = [port if isinstance(port, Port) else Port(port) for port in reads]
    outs = [port if isinstance(port, Port) else Port(port) for port in writes]
    return Placed(kind, name, site, tuple(ports), tuple(outs), edge)


class SimpleAtSource(Program):
    """Algorithm 1, SP-S: N2 ships B2, N1 keeps W2 and joins."""

    name, at_source = "SP-S", True

    def place(self, edge: Edge, rows: str) -> list[Placed]:
        batch, clock = edge.stream, f"{edge.stream}#"
        return [_placed(Join, edge.source, edge, [rows, batch, clock], [edge.name])]  # 6, 7; 3


class SimpleAtDestination(Program):
    """Algorithm 2, SP-D: N1 ships B1, N2 joins it with W2."""

    name, at_source = "SP-D", False

    def place(self, edge: Edge, rows: str) -> list[Placed]:
        batch, clock = edge.stream, f"{edge.stream}#"
        return [_placed(Join, edge.destination, edge, [rows, batch, clock], [edge.name])]  # 3, 4; 7


class OneStepAtSource(Program):
    """Algorithm 3, SM-S1: N1 ships K1, N2 ships rows of W2 that match and were never sent, N1 joins with its copy."""

    name, at_source = "SM-S1", True

    def place(self, edge: Edge, rows: str) -> list[Placed]:
        batch, clock = edge.stream, f"{edge.stream}#"
        partial, lacking = f"{edge.name}.k", f"{edge.name}.w"
        return [
            _placed(Project, edge.source, edge, [rows], [partial]),  # 3
            _placed(Unsent, edge.destination, edge, [partial, batch, clock], [lacking]),  # 4, 5, 9, 10
            _placed(Copied, edge.source, edge, [rows, lacking, clock], [edge.name]),  # 6, 11
        ]


class TwoStepAtSource(Program):
    """Algorithm 4, SM-S2: N1 keeps the values of W2 and the full rows of those it has met; it asks for the others."""

    name, at_source, by_value = "SM-S2", True, True

    def place(self, edge: Edge, rows: str) -> list[Placed]:
        batch, clock = edge.stream, f"{edge.stream}#"
        new, gone, asked = f"{edge.name}.j", f"{edge.name}.c", f"{edge.name}.v"
        fresh, answered = f"{edge.name}.f", f"{edge.name}.w"
        later = Port(answered, edge.lag)
        return [
            _placed(Answer, edge.destination, edge, [batch, clock, Port(asked, edge.lag)], [new, gone, fresh, later]),
            _placed(Ask, edge.source, edge, [rows, new, gone], [asked]),  # 3, 4, 13
            _placed(Meet, edge.source, edge, [rows, fresh, answered, clock], [edge.name]),  # 3, 7, 8
        ]  # Answer: 5, 6, 11, 12


class OneStepAtDestination(Program):
    """Algorithm 5, SM-D1: N1 keeps the values of W2 and ships the rows of B1 that have one of them, N2 joins."""

    name, at_source, by_value = "SM-D1", False, True

    def place(self, edge: Edge, rows: str) -> list[Placed]:
        batch, clock = edge.stream, f"{edge.stream}#"
        new, gone, chosen = f"{edge.name}.j", f"{edge.name}.c", f"{edge.name}.b"
        return [
            _placed(Tell, edge.destination, edge, [batch, clock], [new, gone]),  # 8, 9
            _placed(Choose, edge.source, edge, [rows, new, gone], [chosen]),  # 10, 3, 4
            _placed(Join, edge.destination, edge, [chosen, batch, clock], [edge.name]),  # 5
        ]


class TwoStepAtDestination(Program):
    """Algorithm 6, SM-D2: N1 ships K1, N2 says which have partners, N1 ships the rows of B1 that have, N2 joins."""

    name, at_source = "SM-D2", False

    def place(self, edge: Edge, rows: str) -> list[Placed]:
        batch, clock = edge.stream, f"{edge.stream}#"
        partial, found, chosen = f"{edge.name}.k", f"{edge.name}.p", f"{edge.name}.b"
        return [
            _placed(Project, edge.source, edge, [rows], [partial]),  # 3
            _placed(Judge, edge.destination, edge, [partial, batch, clock], [found]),  # 4, 5
            _placed(Reduce, edge.source, edge, [rows, found], [chosen]),  # 6, 7
            _placed(Join, edge.destination, edge, [chosen, batch, clock], [edge.name]),  # 8
        ]


class FilterAtSource(Program):
    """BF-S1: as SM-S1, with a Bloom filter of the keys of B1 instead of partial rows."""

    name, at_source, by_value = "BF-S1", True, True

    def place(self, edge: Edge, rows: str) -> list[Placed]:
        batch, clock = edge.stream, f"{edge.stream}#"
        asked, lacking = f"{edge.name}.k", f"{edge.name}.w"
        return [
            _placed(Sketch, edge.source, edge, [rows], [asked]),
            _placed(Offer, edge.destination, edge, [asked, batch, clock], [lacking]),
            _placed(Copied, edge.source, edge, [rows, lacking, clock], [edge.name]),
        ]


class ShortAtDestination(Program):
    """BF-D1: as SM-D1, with 32 bits of each value instead of the value."""

    name, at_source, by_value = "BF-D1", False, True

    def place(self, edge: Edge, rows: str) -> list[Placed]:
        batch, clock = edge.stream, f"{edge.stream}#"
        new, gone, chosen = f"{edge.name}.j", f"{edge.name}.c", f"{edge.name}.b"
        return [
            _placed(TellShort, edge.destination, edge, [batch, clock], [new, gone]),
            _placed(ChooseShort, edge.source, edge, [rows, new, gone], [chosen]),
            _placed(Join, edge.destination, edge, [chosen, batch, clock], [edge.name]),
        ]


class FilterAtDestination(Program):
    """BF-D2: as SM-D2, with a Bloom filter of the keys of B1, answered by one of those that the window has."""

    name, at_source, by_value = "BF-D2", False, True

    def place(self, edge: Edge, rows: str) -> list[Placed]:
        batch, clock = edge.stream, f"{edge.stream}#"
        asked, found, chosen = f"{edge.name}.k", f"{edge.name}.p", f"{edge.name}.b"
        return [
            _placed(Sketch, edge.source, edge, [rows], [asked]),
            _placed(Echo, edge.destination, edge, [asked, batch, clock], [found]),
            _placed(Keep, edge.source, edge, [rows, found], [chosen]),
            _placed(Join, edge.destination, edge, [chosen, batch, clock], [edge.name]),
        ]


PROGRAMS: dict[str, Program] = {
    each.name: each
    for each in (
        SimpleAtSource(),
        SimpleAtDestination(),
        OneStepAtSource(),
        TwoStepAtSource(),
        OneStepAtDestination(),
        TwoStepAtDestination(),
    )
}


FILTERED: dict[str, Program] = {
    each.name: each for each in (FilterAtSource(), ShortAtDestination(), FilterAtDestination())
}
"""Beyond the paper: filters instead of partial rows."""

EVERY: dict[str, Program] = PROGRAMS | FILTERED


def program(name: str) -> Program:
    """The program of a name."""
    if name not in EVERY:
        raise SpecError(f"there is no program {name!r}{alternatives(str(name), EVERY, 'programs')}")
    return EVERY[name]
