"""Costs: what an edge ships in each interval under each program, by two models.

`Paper` is appendix B of the semijoin paper as printed: seconds of execution for each second of arrivals, with its
distinct values k and m (which may exceed the rows there are), without the counts vector.

`Corrected` says what the programs here ship: rows, bytes and messages of each channel. Distinct values are those that
so many rows have, counts travel as places of values that are gone, partial rows are answered by bits, a message has a
header, and sizes are those of packed sample rows where there are samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import ceil, exp, expm1
from typing import ClassVar, Literal, get_args

import pyarrow as pa

from windrow.sites.bloom import BITS
from windrow.sites.bound import TIME, Bound
from windrow.sites.figures import Figures, Meeting
from windrow.sites.links import BARE_BYTES, HEADER_BYTES, Links
from windrow.sites.messages import body_bytes

Objective = Literal["time", "bytes", "money"]
OBJECTIVES = get_args(Objective)

ROW_SECONDS = 1e-6  # reading a row, in the corrected model (and in the simulator)
ENVELOPE = 96  # the header of a message without rows, JSON and all
PACKED = {4: 2.2, 8: 3.0}  # bytes of whole numbers that rise (places, entries), packed: those of 30, measured
PART = 110  # what one more part adds to a message, beside its values
PROBE, UPDATE, HASH, INSERT = 1e-7, 1e-7, 1e-7, 1e-7  # seconds for a row, in the paper's model
FALSE = 0.01  # keys that a Bloom filter passes and should not
SAMPLED, MOST_APART = 4096, 32  # rows that are packed to learn a size, and how far they may lie apart


@dataclass(frozen=True)
class Ship:
    """What one channel carries from one site to another in an interval."""

    sender: str
    receiver: str
    what: str
    rows: float
    bytes: float
    messages: float  # in an interval
    shared: str = ""  # channels of this name to the receiver are shipped once, whoever reads them


@dataclass(frozen=True)
class Rows:
    """Joined rows on their way: their streams (the first is the head), where they are, how many in a second."""

    done: tuple[str, ...]
    site: str
    rate: float


@dataclass(frozen=True)
class EdgeCost:
    """What an edge costs in an interval: what it ships, and seconds of work at sites."""

    ships: tuple[Ship, ...]
    processing: float = 0.0
    fixed: float | None = None  # seconds, where a model tells no bytes


@dataclass
class Model(ABC):
    """What edges cost."""

    bound: Bound
    figures: Figures
    links: Links
    sites: dict[str, str]
    objective: Objective = "time"
    _sizes: dict[tuple[tuple[str, ...], int, int], float] = field(default_factory=dict)
    _rates: dict[tuple[str, ...], float] = field(default_factory=dict)
    relative: ClassVar[bool] = False  # whether what an edge ships is the same wherever the rows are

    @property
    def counted(self) -> bool:
        """Whether sizes are those of packed messages, and not widths that somebody has given."""
        return bool(self.figures.samples or self.figures.sizes)

    @property
    def header(self) -> float:
        """What a message has beside its parts."""
        return HEADER_BYTES + ENVELOPE if self.counted else BARE_BYTES

    @property
    def part(self) -> float:
        """What a part has beside its values."""
        return PART if self.counted else 0.0

    def packed(self, width: int) -> float:
        """What a whole number of so many bytes takes, among others that rise."""
        return PACKED[width] if self.counted else width

    @abstractmethod
    def edge(self, rows: Rows, stream: str, program: str) -> EdgeCost:
        """What it costs to let rows meet the window of a stream."""

    def after(self, rows: Rows, stream: str, site: str) -> Rows:
        """The rows after they have met the window of a stream."""
        head, *rest = rows.done
        done = (head, *(name for name in self.sites if name == stream or name in rest))
        return Rows(done, site, self._rate(done))

    def _rate(self, done: tuple[str, ...]) -> float:
        """How many joined rows of some streams a second brings: the same in whatever order they were joined."""
        if done not in self._rates:
            rate, joined, rest = self.figures.rates[done[0]], [done[0]], list(done[1:])
            while rest:
                stream = next(name for name in rest if self.bound.connections.of(name, joined)[0])
                rate *= self.meeting(tuple(joined), stream).pairs
                joined.append(stream)
                rest.remove(stream)
            self._rates[done] = rate
        return self._rates[done]

    def asking(self, done: tuple[str, ...], stream: str) -> list[str]:
        """The streams whose keys a window is asked by."""
        return list(dict.fromkeys(c.partition(".")[0] for c in self.bound.keys(stream, done).theirs))

    def meeting(self, done: tuple[str, ...], stream: str) -> Meeting:
        """How joined rows meet a window."""
        return self.figures.meeting(self.asking(done, stream), stream)

    def price(self, cost: EdgeCost) -> float:
        """A cost by the objective, for a second of arrivals."""
        if cost.fixed is not None:
            return cost.fixed
        total = cost.processing if self.objective == "time" else 0.0
        for ship in cost.ships:
            link = self.links.between(ship.sender, ship.receiver)
            if ship.sender == ship.receiver:
                continue
            if self.objective == "time":
                total += ship.messages * link.delay + link.transfer(ship.bytes)
            else:
                total += ship.bytes if self.objective == "bytes" else ship.bytes * link.price / 1e9
        return total / self.figures.tau

    def delivery(self, rows: Rows, receiver: str | None) -> EdgeCost:
        """What it costs to bring matches to where they are wanted."""
        if receiver is None or receiver == rows.site:
            return EdgeCost(())
        ship = self.ship(rows.site, receiver, "matches", self.bound.columns(rows.done), rows.rate)
        sample = self.figures.matches
        if sample is not None and sample.num_rows:
            count = max(1, min(ceil(ship.rows / max(ship.messages, 1e-9)), sample.num_rows))
            width = body_bytes(sample.slice(0, count)) / count
            ship = replace(ship, bytes=self.header + width * ship.rows)
        return EdgeCost((ship,))

    def ship(
        self,
        sender: str,
        receiver: str,
        what: str,
        columns: list[str],
        rate: float,
        shared: str = "",
        share: float = 1.0,
    ) -> Ship:
        """A channel with some columns and the time of rows, a share of those that there are."""
        rows = rate * self.figures.tau
        size, messages = self.size(columns, rows, share=share)
        return Ship(sender, receiver, what, rows, size, messages, shared)

    # -- sizes -----------------------------------------------------------------------------------------------------

    def size(self, columns: list[str], rows: float, timed: bool = True, share: float = 1.0) -> tuple[float, float]:
        """Bytes and messages of so many rows in an interval, on average; seldom rows are few messages."""
        busy = self.figures.busy.get(columns[0].partition(".")[0], 1.0) if columns else 1.0
        some = min(1.0 - exp(-rows), busy)
        if some <= 0.0:
            return self.header, 0.0
        empty = (1.0 - some) * self.header
        return some * self._packed(tuple(columns), rows / some, timed, share) + empty, some

    def _packed(self, columns: tuple[str, ...], rows: float, timed: bool, share: float) -> float:
        if columns and all(c.partition(".")[0] in self.figures.sizes for c in columns):
            return self.header + self._told(columns, rows, timed)
        known = all(c.partition(".")[0] in self.figures.samples for c in columns)
        if not known or not columns:
            width = sum(self.figures.widths.get(c, 8.0) for c in columns) + 8.0 * timed
            return self.header + rows * width
        there = min(self.figures.samples[c.partition(".")[0]].num_rows for c in columns)
        count = max(1, min(ceil(rows), SAMPLED, there))
        apart = max(1, min(round(1 / max(share, 0.01)), MOST_APART, there // count))
        key = (columns, count if timed else -count, apart)
        if key not in self._sizes:
            self._sizes[key] = self._sample(columns, count, timed, apart)
        return self.header + self._sizes[key] * rows / count

    def _told(self, columns: tuple[str, ...], rows: float, timed: bool) -> float:
        """The packed bytes of rows, by what the sites of their streams have told; those of several streams have one
        frame."""
        first, names = columns[0].partition(".")[0], ([TIME] if timed else []) + list(columns)
        total = 0.0
        for stream in dict.fromkeys(c.partition(".")[0] for c in columns):
            mine = [c for c in names if c.partition(".")[0] == stream or (c == TIME and stream == first)]
            total += self.figures.sizes[stream].size(mine, rows, frame=stream == first)
        return total

    def _sample(self, columns: tuple[str, ...], count: int, timed: bool, apart: int) -> float:
        """The packed bytes of rows from the middle of the samples; chosen rows lie apart, and pack less well."""
        arrays = []
        names = ([TIME] if timed else []) + list(columns)
        for name in names:
            table = self.figures.samples[(columns[0] if name == TIME else name).partition(".")[0]]
            start = max(0, (table.num_rows - count * apart) // 2)
            column = table[name].slice(start, count * apart)
            if apart > 1:
                column = column.take(pa.array(range(0, len(column), apart)))
            while len(column) < count and len(column):
                column = pa.chunked_array([*column.chunks, *column.chunks])
            arrays.append(column.slice(0, count).combine_chunks() if len(column) else pa.nulls(count, column.type))
        return float(body_bytes(pa.table(dict(zip(map(str, range(len(arrays))), arrays, strict=True)))))


@dataclass(frozen=True)
class _Case:
    """An edge in figures: the sites, how rows meet, rates of rows at both ends, and their columns."""

    here: str
    there: str
    head: str  # the stream whose rows arrive as they are, if they do
    stream: str
    meeting: Meeting
    rate: float
    other: float
    arriving: list[str]
    window: list[str]
    their_keys: list[str]
    own_keys: list[str]


class Corrected(Model):
    """What the programs here ship."""

    relative: ClassVar[bool] = True

    def edge(self, rows: Rows, stream: str, program: str) -> EdgeCost:
        """The channels of a program, in the order of its steps."""
        meeting = self.meeting(rows.done, stream)
        keys = self.bound.keys(stream, rows.done)
        wanted = {*self.bound.columns((*rows.done, stream)), *keys.mine}
        case = _Case(
            rows.site, self.sites[stream], rows.done[0] if len(rows.done) == 1 else "", stream, meeting,
            rows.rate, self.figures.rates[stream],
            self.bound.columns(rows.done), [c for c in self.bound.columns((stream,)) if c in wanted],
            list(dict.fromkeys(keys.theirs)), list(dict.fromkeys(keys.mine)),
        )  # fmt: skip
        ships = [*_SHIPS[program](self, case), *self._clock(case, program)]
        work = (rows.rate * (1 + meeting.pairs) + case.other) * self.figures.tau * ROW_SECONDS
        return EdgeCost(tuple(ships), work)

    def _clock(self, case: _Case, program: str) -> list[Ship]:
        """A copy of a window in rows needs to know how many rows had come."""
        if self.bound.lives[case.stream].rows is None or "-S" not in program:
            return []
        what = f"clock of {case.stream}"
        clock = self.ship(case.there, case.here, what, [], case.other, f"{case.stream}#")
        if program == "SP-S":  # in the message with the rows
            clock = replace(clock, bytes=max(0.0, clock.bytes - self.header), messages=0.0)
        return [clock]

    def window_rows(self, case: _Case) -> list[Ship]:
        """SP-S: all rows of the stream, shipped once for all programs that read them there."""
        columns = self.bound.columns((case.stream,))
        return [self.ship(case.there, case.here, f"rows of {case.stream}", columns, case.other, case.stream)]

    def arriving_rows(self, case: _Case) -> list[Ship]:
        """SP-D: all arriving rows."""
        return [self.ship(case.here, case.there, "arriving rows", case.arriving, case.rate, case.head)]

    def unsent_rows(self, case: _Case) -> list[Ship]:
        """SM-S1: partial rows, and the window's rows that they ask for first."""
        what, rate = f"rows of {case.stream} never sent", case.other * case.meeting.asked
        rows = self.ship(case.there, case.here, what, case.window, rate, share=case.meeting.asked)
        return [self._partial(case), rows]

    def asked_rows(self, case: _Case) -> list[Ship]:
        """SM-S2: values, those that are asked for, and their rows, which go with the next values."""
        m = case.meeting  # a value that is new is asked for from now on only, others may have been before
        share = m.fresh * m.asked + (1 - m.fresh) * m.around
        asking = case.other * m.fresh * share * self.figures.tau
        size = self.header + self.part * -expm1(-asking) + self.packed(8) * asking
        rows = self.ship(case.there, case.here, f"rows of {case.stream} asked for", case.window, case.other * share)
        alone = replace(rows, bytes=max(rows.bytes - self.header, 0.0) + self.part * rows.messages, messages=0.0)
        asked = Ship(case.here, case.there, "values asked for", asking, size, 1 - exp(-asking))
        return [*self._update(case), asked, alone]

    def valued_rows(self, case: _Case) -> list[Ship]:
        """SM-D1: values, and the arriving rows that have one of them."""
        rate = case.rate * case.meeting.share
        rows = self.ship(case.here, case.there, "rows with a value", case.arriving, rate, share=case.meeting.share)
        return [*self._update(case), rows]

    def judged_rows(self, case: _Case) -> list[Ship]:
        """SM-D2: partial rows, a bit for each, and the arriving rows that have partners."""
        partial = self._partial(case)
        size = self.header + self.part * partial.messages + partial.rows / 8
        bits = Ship(case.there, case.here, "bits of partial rows", partial.rows, size, partial.messages)
        rate = case.rate * case.meeting.share
        rows = self.ship(case.here, case.there, "rows with partners", case.arriving, rate, share=case.meeting.share)
        return [partial, bits, rows]

    def filtered_rows(self, case: _Case) -> list[Ship]:
        """BF-S1: a filter of keys, and the window's rows that it passes first."""
        asked, batch = case.meeting.asked, max(case.other * self.figures.tau, 1e-9)
        passed = 1 - (1 - FALSE) ** (1 + self.figures.window[case.stream] / batch)  # each interval asks about each row
        what, rate = f"rows of {case.stream} never sent", case.other * (asked + (1 - asked) * passed)
        rows = self.ship(case.there, case.here, what, case.window, rate, share=asked)
        return [self._filter(case, case.here, 1.0), rows]

    def short_rows(self, case: _Case) -> list[Ship]:
        """BF-D1: values of 32 bits, and the arriving rows that have one of them."""
        new, gone = self._update(case)
        size = self.header + self.part * new.messages + 4 * new.rows
        return [replace(new, bytes=size), gone, self.valued_rows(case)[-1]]

    def echoed_rows(self, case: _Case) -> list[Ship]:
        """BF-D2: a filter of keys, a filter of those in the window, and the arriving rows that it passes."""
        share = min(1.0, case.meeting.share + FALSE)
        back = self._filter(case, case.there, share)
        what, rate = "rows with partners", case.rate * share
        rows = self.ship(case.here, case.there, what, case.arriving, rate, share=share)
        return [self._filter(case, case.here, 1.0), back, rows]

    def _filter(self, case: _Case, sender: str, share: float) -> Ship:
        """A Bloom filter of some of the keys of an interval."""
        keys = case.rate * case.meeting.few * self.figures.tau * share
        some = -expm1(-keys)
        size = self.header + some * self.part + keys * BITS / 8
        receiver = case.there if sender == case.here else case.here
        return Ship(sender, receiver, "filter of keys", keys, size, some)

    def _partial(self, case: _Case) -> Ship:
        return self._keys(case.here, case.there, "partial rows", case.their_keys, case.rate * case.meeting.few)

    def _keys(self, sender: str, receiver: str, what: str, columns: list[str], rate: float) -> Ship:
        rows = rate * self.figures.tau
        size, messages = self.size(columns, rows, timed=False)
        return Ship(sender, receiver, what, rows, size, messages)

    def _update(self, case: _Case) -> list[Ship]:
        """New values, and in the same message the places of those that are gone."""
        rate = case.other * case.meeting.fresh
        new = self._keys(case.there, case.here, f"new values of {case.stream}", case.own_keys, rate)
        gone = self.packed(4) * new.rows + self.part * new.messages
        return [new, Ship(case.there, case.here, "values that are gone", new.rows, gone, 0.0)]


_SHIPS: dict[str, Callable[[Corrected, _Case], list[Ship]]] = {
    "SP-S": Corrected.window_rows,
    "SP-D": Corrected.arriving_rows,
    "SM-S1": Corrected.unsent_rows,
    "SM-S2": Corrected.asked_rows,
    "SM-D1": Corrected.valued_rows,
    "SM-D2": Corrected.judged_rows,
    "BF-S1": Corrected.filtered_rows,
    "BF-D1": Corrected.short_rows,
    "BF-D2": Corrected.echoed_rows,
}


class Paper(Model):
    """Appendix B as printed, in seconds; the objective is time."""

    def edge(self, rows: Rows, stream: str, program: str) -> EdgeCost:
        """One formula for each program."""
        f, tau = self.figures, self.figures.tau
        r1, r2, w2 = rows.rate, f.rates[stream], f.window[stream]
        wp1, wp2 = max(r1 * tau, 1e-9), max(r2 * tau, 1e-9)
        d1, d2 = min(f.distinct[n] for n in self.asking(rows.done, stream)), f.distinct[stream]
        f12, f21 = min(1.0, d2 / d1), min(1.0, d1 / d2)
        m1, m2, k2 = min(d1, wp1 * d1 * 100), min(d2, wp2 * d2 * 100), min(d2, w2 * d2 * 100)
        full1 = sum(v for c, v in f.widths.items() if c.partition(".")[0] in rows.done)
        full2 = sum(v for c, v in f.widths.items() if c.partition(".")[0] == stream)
        part1, part2 = self._key(rows.done, stream, 0), self._key(rows.done, stream, 1)
        here, there = rows.site, self.sites[stream]
        away, back = self.links.between(here, there), self.links.between(there, here)
        far = here != there

        def out(size: float) -> float:
            return away.seconds(size) / tau if far else 0.0

        def home(size: float) -> float:
            return back.seconds(size) / tau if far else 0.0

        probe = r1 * PROBE * w2
        gone = m2 * (1 - f21)
        cost = {
            "SP-S": r1 * UPDATE + probe + home(wp2 * full2) + r2 * UPDATE,
            "SP-D": r1 * INSERT + out(wp1 * full1) + probe + r2 * UPDATE,
            "SM-S1": r1 * INSERT + out(m1 * part1) + m1 / tau * PROBE * w2 + home(wp2 * f21 * full2)
            + wp2 * f21 * INSERT / tau + r2 * INSERT + r1 * PROBE * w2 * f21 + home(8),
            "SM-S2": r1 * INSERT + 2 * r1 * HASH + out(k2 * (1 - f12) * part2) + k2 * (1 - f12) * PROBE * w2 / tau
            + home(k2 * (1 - f12) * full2) + r2 * PROBE * k2 + r2 * INSERT + gone * INSERT / tau
            + home(gone * part2 + wp2 * f21 * full2) + gone * UPDATE / tau,
            "SM-D1": r1 * INSERT + r1 * PROBE * k2 + out(wp1 * f12 * full1) + r1 * f12 * PROBE * w2 + r2 * PROBE * k2
            + r2 * INSERT + 2 * gone * INSERT / tau + home(gone * part2),
            "SM-D2": r1 * INSERT + out(m1 * part1) + m1 * PROBE * w2 / tau + home(m1 * f12 * part1)
            + m1 * f12 * PROBE * wp1 / tau + out(wp1 * f12 * full1) + r1 * f12 * PROBE * w2 + r2 * UPDATE,
        }  # fmt: skip
        return EdgeCost((), 0.0, cost[program])

    def _key(self, done: tuple[str, ...], stream: str, side: int) -> float:
        keys = self.bound.keys(stream, done)
        return sum(self.figures.widths.get(c, 8.0) for c in set((keys.theirs, keys.mine)[side]))


__all__ = ["Corrected", "EdgeCost", "Model", "Objective", "Paper", "Rows", "Ship"]
