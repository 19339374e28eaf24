"""Running: a site at work. One thread owns its state; what comes in is noted in the journal before it is acted upon.

    come in      rows of own streams, their ends, messages, what other sites tell: entries of the journal
    flushed      only then anything leaves: acknowledgements, messages, results
    acted upon   intervals that have ended are taken, steps that are ready run, messages go into outboxes

What leaves is decided by the entries and their order (sites/site.py), so a site that was killed and goes on from its
snapshot and journal sends and writes the same again.

How far a site may run ahead: while it holds more than it may for others, or another site says that it does, an interval
is taken only if the slowest site is about to need it. That much is always allowed, so nobody waits in a circle.
"""

import contextlib
import logging
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from windrow.errors import SpecError
from windrow.sites.ground import recovery
from windrow.sites.ground.arrivals import Arrivals
from windrow.sites.ground.description import Description
from windrow.sites.ground.keeping import Entry, Keeping
from windrow.sites.ground.outbox import Outbox
from windrow.sites.ground.results import Results
from windrow.sites.messages import Message
from windrow.sites.site import Outcome
from windrow.state.snapshot import form

log = logging.getLogger("windrow.sites")

ROUND = 128  # intervals that are taken before others have their turn
BITE = 4 << 20  # bytes of rows that are taken, likewise
TURN = 0.05  # seconds for which steps run before the inbox is looked at
PAUSE = 0.1  # seconds without work after which the clock is looked at
REPORT = 0.25  # seconds between two looks at what is held
COMPLAIN = 5.0  # seconds of standing still after which a site says what it waits for
LINGER = 15.0  # seconds for which a site that is done waits for another that does not answer
DELAYS = 1000  # intervals over which the delay is averaged
KEPT_BYTES = 256  # that a message in an outbox takes beside its own, about


@dataclass
class Event:
    """Something that came in: its entry, what it was decoded to, and whom to tell when it is safe."""

    entry: Entry
    message: Message | None = None
    table: pa.Table | None = None
    safe: Callable[[], None] | None = None


class Running:
    """The state of a site, its journal, its outboxes."""

    def __init__(self, description: Description, name: str) -> None:
        plan, station = description.plan, description.station(name)
        if name not in plan.places:
            raise SpecError(f"the plan has nothing to do at site {name!r}: its sites are {', '.join(plan.places)}")
        self.description, self.name, self.network = description, name, description.network  # of the first plan
        self.keeping = Keeping(station.folder, name, description.id)
        try:
            self.results = Results(station.folder)
            self.site = description.course(name)
        except BaseException:
            self.keeping.close()
            raise
        self.others = [place for place in plan.places if place != name]
        self.outboxes = {other: Outbox() for other in self.others}
        self.arrivals = {
            stream: Arrivals(self.network.bound, stream, description.feeds[stream])
            for stream, place in plan.sites if place == name
        }  # fmt: skip
        self.marks: dict[str, dict[str, int]] = {other: {} for other in self.others}  # the last interval of each step
        self.acknowledged = {other: dict(marks) for other, marks in self.marks.items()}  # of which nothing is forgotten
        self.told: dict[str, dict[str, Any]] = {}  # what other sites have told
        self.heeded: dict[str, int] = dict.fromkeys(self.others, 0)  # which of our facts they have
        self.progress: dict[str, dict[str, Any]] = {}  # where they are
        self.public: dict[str, Any] = {}  # where this site is
        self.first_row_at: float | None = None  # wall clock, for figures only
        self.done_at: float | None = None
        self.inbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.changed = threading.Condition()  # acknowledgements, facts, progress, room
        self.refused: dict[str, int] = {}
        self.delays: deque[float] = deque(maxlen=DELAYS)
        self._taken_at: dict[int, float] = {}
        self.held, self.full = 0, False
        self._looked = 0.0
        self._moved, self._complained = time.monotonic(), ""
        self._snapshot_bytes = 0
        self.come = 0  # the interval that messages of others have come to
        self.heard: dict[str, int] = {}  # which facts of others are noted for good
        try:
            self._restore()
        except BaseException:
            self.keeping.close()
            raise

    # -- what comes in ---------------------------------------------------------------------------------------------

    def offer(self, event: Event) -> None:
        """Hand something over to the thread that owns the state."""
        self.inbox.put(event)

    def feed(
        self, stream: str, table: pa.Table | None, *, position: Any = None, until: int | None = None,
        safe: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """Hand rows over. `position` is where the feed has come to; `safe` is called when they cannot get lost."""
        arrivals = self.arrivals[stream]
        arrivals.check(table, until)
        batch = position["batch"] if isinstance(position, dict) and "batch" in position else None
        body = b"" if table is None or not table.num_rows else form.table_bytes(table)
        with self.changed:
            arrivals.admit(bool(body), batch)
            arrivals.coming += len(body)
            facts = {"stream": stream, "position": position, "until": until}
            self.offer(Event(Entry("feed", facts, body), table=table, safe=safe))  # before an end that comes now

    def end(self, stream: str, safe: Callable[[], None] | None = None) -> None:
        """A stream has no more rows. `safe` is called when that cannot be forgotten."""
        with self.changed:
            self.arrivals[stream].ending = True
            self.offer(Event(Entry("end", {"stream": stream}), safe=safe))

    def tell(self, site: str, facts: dict[str, Any]) -> None:
        """What another site tells about itself."""
        if facts != self.told.get(site):
            self.offer(Event(Entry("told", {"site": site, "facts": facts})))

    def decode(self, data: bytes, sender: str) -> Message | None:
        """The message in some bytes, which a site has sent; an InputError if it is none that this site waits for.

        None if it is of a plan that this site has not been told yet: it has to come again, or to wait.
        """
        message = self.site.decode(data)
        if message is not None:
            self.site.check(message, sender)
        return message

    def wait_for_room(self, stream: str, stopped: Callable[[], bool]) -> None:
        """Wait while as many rows of a stream are waiting as there is room for, unless they wait for more of them."""
        most, arrivals = max(self.description.hold // 4, 1 << 20), self.arrivals[stream]
        with self.changed:
            while arrivals.bytes + arrivals.coming > most and not arrivals.starves and not stopped():
                self.changed.wait(PAUSE)

    # -- a round ---------------------------------------------------------------------------------------------------

    def round(self, wait: float = PAUSE) -> bool:
        """Take in what is there, and do what can be done; False if there was nothing."""
        come, events = self._drained(wait), 0
        for event in come:
            if self._fits(event):  # beside those that came with it
                self.keeping.add(event.entry)
                self._take_in(event)
                events += 1
        with self.changed:
            for event in come:
                if event.entry.kind == "feed":
                    self.arrivals[event.entry.facts["stream"]].coming -= len(event.entry.body)
        closings = self._closings()
        for entry in closings:
            self.keeping.add(entry)
        if events or closings:
            self.keeping.flush()
        if come or closings:
            self._confirm(come)
            for entry in closings:
                self._close(entry.facts["stream"], entry.facts["until"])
        stepped = self._advance(TURN)
        if events or closings or stepped:
            if self.keeping.bytes > max(self.description.snapshot_bytes, 4 * self._snapshot_bytes):
                self.snapshot()
            self._show()
        self._look()
        return bool(events or closings or stepped)

    def _advance(self, seconds: float) -> bool:
        """Run steps that are ready, for so long at most; what each has to say leaves before the next runs."""
        began, stepped = time.monotonic(), False
        while (outcome := self.site.step()) is not None:
            self._settle(outcome)
            stepped = True
            if time.monotonic() - began > seconds:
                break
        return stepped

    def _show(self) -> None:
        """Where this site is, for other threads, which pass it on."""
        here = max((arrivals.next for arrivals in self.arrivals.values()), default=0)
        self.public = {"next": self.lowest, "seen": here, "full": self.full, "facts": self._full_facts()}
        if self.done_at is None and self.public["facts"]["done"]:
            self.done_at = time.time()

    def _drained(self, wait: float) -> list[Event]:
        """What has come, up to so many bytes that noting them does not keep others waiting."""
        found: list[Event] = []
        size = 0
        with contextlib.suppress(queue.Empty):
            event: Event | None = self.inbox.get(timeout=wait) if wait else self.inbox.get_nowait()
            while event is not None:
                found.append(event)
                size += len(event.entry.body)
                event = self.inbox.get_nowait() if size < BITE else None
        return found

    def _fits(self, event: Event) -> bool:
        """Whether something is new; what came before is not noted again."""
        facts = event.entry.facts
        if event.message is not None:
            return self._in_order(event.message)
        if event.entry.kind == "told":
            return bool(facts["facts"]["number"] > self.told.get(facts["site"], {"number": -1})["number"])
        if event.entry.kind == "feed" and isinstance(facts["position"], dict) and "batch" in facts["position"]:
            last = self.arrivals[facts["stream"]].position
            if last is not None and facts["position"]["batch"] <= last.get("batch", -1):  # before, files may have come
                self.refuse("repeated batches", f"stream {facts['stream']!r} had batch {facts['position']['batch']}")
                return False
        return True

    def _in_order(self, message: Message) -> bool:
        marks = self.marks[message.sender]
        last = marks.get(message.step, -1)
        if message.interval <= last:
            self.site.repeated += 1
            return False
        if message.interval != max(last + 1, self.site.first_of(message)):
            self.refuse(
                "messages out of order",
                f"{message.sender} sent interval {message.interval} of {message.step!r} after interval {last}: one of "
                "both sites has lost its folder",
            )
            return False
        marks[message.step] = message.interval
        self._note(message)
        return True

    def _note(self, message: Message) -> None:
        """Another site has come to an interval, unless the message counts in something else."""
        if self.site.council is None or message.plan != self.site.council.id:
            self.come = max(self.come, message.interval + 1)

    def _take_in(self, event: Event) -> None:
        entry, facts = event.entry, event.entry.facts
        if entry.kind == "message":
            message = event.message
            assert message is not None
            self.site.receive(message)
        elif entry.kind == "feed":
            arrivals = self.arrivals[facts["stream"]]
            self.first_row_at = self.first_row_at or time.time()
            arrivals.feed(event.table, facts["until"])
            if facts["position"] is not None:
                arrivals.went_to(facts["position"])
        elif entry.kind == "end":
            self.arrivals[facts["stream"]].finish()
        elif entry.kind == "told":
            self.told[facts["site"]] = facts["facts"]
            if facts["facts"]["done"]:
                self.outboxes[facts["site"]].discard()

    def _confirm(self, events: list[Event]) -> None:
        """Everything is in the journal: tell those who wait for it."""
        for event in events:
            if event.safe is not None:
                event.safe()
        with self.changed:
            self._publish()
            self.changed.notify_all()

    def _publish(self) -> None:
        self.acknowledged = {other: dict(marks) for other, marks in self.marks.items()}
        self.heard = {other: facts["number"] for other, facts in self.told.items()}

    def _closings(self) -> list[Entry]:
        """Intervals of own streams that have ended and may be taken."""
        self._measure()
        limit, found = self._limit(), []
        for stream, arrivals in self.arrivals.items():
            until = min(arrivals.ready(self.seen, self.final), arrivals.next + ROUND, limit, self.site.limit)
            room = BITE if self.full else min(BITE, self.description.hold - self.held)
            until = arrivals.within(until, room)
            if until > arrivals.next:
                found.append(Entry("close", {"stream": stream, "until": until}))
        return found

    def _limit(self) -> int:
        """Up to which interval rows may be taken now."""
        if not self.full and not any(there.get("full") for there in self.progress.values()):
            return 1 << 62
        away = [
            self.progress.get(other, {}).get("next", 0)
            for other in self.others
            if not self.told.get(other, {"done": False})["done"]
        ]
        return min([self.lowest, *away]) + self.site.tail + 2

    def _close(self, stream: str, until: int) -> None:
        arrivals = self.arrivals[stream]
        now = time.monotonic()
        for interval in range(arrivals.next, until):
            self._taken_at[interval] = now
            rows = arrivals.take(interval)
            self._settle(self.site.take(stream, interval, rows))

    def _settle(self, outcome: Outcome) -> None:
        """Send what is to be sent, write what was found."""
        for message in outcome.messages:
            self.outboxes[message.receiver].put(message.step, message.interval, message.encode())
        for channel, interval, table in outcome.results:
            self.results.write(channel, interval, table)
            if interval in self._taken_at:
                self.delays.append(time.monotonic() - self._taken_at[interval])
        if outcome.fired:
            self._moved = time.monotonic()

    # -- where it is -----------------------------------------------------------------------------------------------

    @property
    def lowest(self) -> int:
        """The lowest interval that something here has not taken."""
        return self.site.lowest

    @property
    def seen(self) -> int:
        """The first interval that no stream anywhere has begun, as far as is known."""
        here = [arrivals.next for arrivals in self.arrivals.values()]
        there = [where.get("seen", 0) for where in self.progress.values()]
        return max([0, *here, *there, self.come])

    @property
    def final(self) -> int | None:
        """The interval at which everything ends, if all streams have."""
        ends = {stream: end for facts in (self.facts, *self.told.values()) for stream, end in facts["ends"].items()}
        if len(ends) < len(self.network.plan.sites):
            return None
        return int(max(ends.values())) + self.site.tail

    @property
    def done(self) -> bool:
        """Whether nothing is left to do here."""
        final = self.final
        if final is None or any(arrivals.next < final for arrivals in self.arrivals.values()):
            return False
        return self.site.finished(final)

    @property
    def facts(self) -> dict[str, Any]:
        """What others must know, and know for good."""
        ends = {stream: arrivals.ended for stream, arrivals in self.arrivals.items() if arrivals.ended is not None}
        return {"number": len(ends), "ends": ends, "done": False}

    def _full_facts(self) -> dict[str, Any]:
        """The same, with whether this site is done."""
        facts = self.facts
        done = self.done
        return facts | {"number": facts["number"] + done, "done": done}

    def may_leave(self, away: Mapping[str, float]) -> bool:
        """Whether nobody needs this site any more: all are done, and each has noted that this one is.

        Who does not answer may have left because it knew enough. It may also have been killed, so it is waited for.
        """
        if not self.done:
            return False
        number = self.public["facts"]["number"]
        return all(
            self.told.get(other, {"done": False})["done"]
            and (self.heeded[other] >= number or away.get(other, 0.0) > LINGER)
            for other in self.others
        )

    def _look(self) -> None:
        """Now and then: how much is held, who is waited for."""
        now = time.monotonic()
        if now - self._looked < REPORT:
            return
        self._looked = now
        self._measure()
        needed = self.lowest - self.site.tail
        for old in [interval for interval in self._taken_at if interval < needed]:
            del self._taken_at[old]
        self._complain(now)
        with self.changed:
            self.changed.notify_all()

    def _measure(self) -> None:
        """How much is held for others: what waits in outboxes, and in channels until the rest has come."""
        kept = sum(outbox.bytes + KEPT_BYTES * len(outbox.kept) for outbox in self.outboxes.values())
        self.held = self.site.waiting_bytes + kept
        full = self.held > self.description.hold
        if full != self.full:
            self.full = full
            self._show()
            what = "as much as it may: it goes on when others do" if full else "and has room again"
            log.warning("site %s: holds %s bytes, %s", self.name, f"{self.held:,}", what)

    def _complain(self, now: float) -> None:
        lacking = self.lacking()
        text = "; ".join(f"{who} (interval {interval})" for who, interval in sorted(lacking.items()))
        if lacking and now - self._moved > COMPLAIN and not self.done:
            if not self._complained:
                log.warning("site %s: waits for %s; holds %s bytes for others", self.name, text, f"{self.held:,}")
                self._complained = text
        elif self._complained and now - self._moved <= COMPLAIN:
            log.warning("site %s: goes on", self.name)
            self._complained = ""

    def lacking(self) -> dict[str, int]:
        """Which other sites, or own streams, have not brought what the steps that are furthest behind wait for."""
        return self.site.lacking()

    def refuse(self, what: str, why: str) -> None:
        """Count and log what was refused."""
        self.refused[what] = self.refused.get(what, 0) + 1
        log.warning("site %s: refused (%s): %s", self.name, what, " ".join(why.split())[:300])

    # -- snapshots -------------------------------------------------------------------------------------------------

    def snapshot(self) -> None:
        """Write the state, and begin a new journal."""
        header, parts = recovery.saved(self)
        self.results.settle()
        self._snapshot_bytes = self.keeping.snapshot(header, parts)

    def _restore(self) -> None:
        snapshot, entries = self.keeping.restore()
        if snapshot is not None:
            recovery.load(self, snapshot)
        count = 0
        for entry in entries:
            count += 1
            self._again(entry)
        self._advance(math.inf)
        self._publish()
        self._show()
        if snapshot is not None or count:
            log.info("site %s: back at interval %d, after %d entries of its journal", self.name, self.lowest, count)

    def _again(self, entry: Entry) -> None:
        """What was done with an entry before, once more."""
        if entry.kind == "close":
            self._close(entry.facts["stream"], entry.facts["until"])
            self._advance(math.inf)
            return
        event = Event(entry)
        if entry.kind == "message":
            event.message = self.site.decode(entry.body)
            assert event.message is not None, "a message was noted before its plan"
            self.marks[event.message.sender][event.message.step] = event.message.interval
            self._note(event.message)
        elif entry.kind == "feed" and entry.body:
            event.table = form.table_of(pa.py_buffer(entry.body))
        self._take_in(event)
