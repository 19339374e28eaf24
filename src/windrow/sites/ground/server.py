"""Server: what a site answers over Arrow Flight: the exchange with another site, rows handed over, its status.

    exchange   a site sends messages, facts and where it is; it is told what has been noted for good
    put        a program at this place hands rows of a stream over; it returns when they are in the journal
    status     an action that gives figures as JSON

All that is read is Arrow and JSON. Whoever is not known, or speaks of another plan or version, is refused before
anything is read from it.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from windrow.engine.intake import as_table
from windrow.errors import InputError, WindrowError
from windrow.sites.ground.arrivals import MOST_AHEAD
from windrow.sites.ground.door import Door, Visitor
from windrow.sites.ground.keeping import Entry
from windrow.sites.ground.running import Event, Running
from windrow.sites.ground.trust import Trust, plain
from windrow.sites.messages import MAGIC, VERSION

log = logging.getLogger("windrow.sites")

PULSE = 2.0  # seconds after which both ends say that they are there
GATHER = 0.25  # seconds of acknowledgements that go together: nobody waits for one but to forget what it kept
MOST_TEXT = 1 << 20
INNER = "grpc+tcp://127.0.0.1:0"  # where Flight listens, behind the door


class _Asking(flight.ServerMiddlewareFactory):
    """Looks at the token of a call before anything else."""

    def __init__(self, trust: Trust, refuse: Callable[[str, str], None]) -> None:
        self.trust, self.refuse = trust, refuse

    def start_call(self, info: Any, headers: Any) -> None:
        if not self.trust.admits(headers):
            self.refuse("wrong token", f"a call of {info.method} came without the token, or with another one")
            raise flight.FlightUnauthenticatedError("the token is missing or wrong")


class Server(flight.FlightServerBase):
    """The Flight server of a site, behind its door."""

    def __init__(self, running: Running, trust: Trust, status: Callable[[], dict[str, Any]]) -> None:
        host, port = running.description.station(running.name).ends
        trust.check(running.name, host)
        self.running, self.trust, self.status = running, trust, status
        context = trust.server_context()
        try:
            self.door = Door(host, port, context, lambda who, why: running.refuse("at the door", f"{who}: {why}"))
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise InputError(f"site {running.name!r} cannot listen on {host}:{port}: {why}") from None
        self.stopping = False
        try:
            super().__init__(INNER, middleware={"token": _Asking(trust, running.refuse)})
            self.door.open(self.port)
        except (pa.ArrowException, flight.FlightError, OSError) as error:
            self.door.close()
            raise InputError(f"site {running.name!r} cannot start its server: {plain(error)}") from None
        except BaseException:
            self.door.close()
            raise

    def end(self) -> None:
        """Answer nobody any more."""
        self.stopping = True
        with self.running.changed:
            self.running.changed.notify_all()
        self.door.close()
        self.shutdown()

    # -- what is answered ------------------------------------------------------------------------------------------

    def do_action(self, context: Any, action: Any) -> Any:
        """The status."""
        visitor = self._visitor(context)
        if action.type != "status":
            raise self._refusal("unknown calls", f"there is no action {action.type!r}")
        self.door.welcome(visitor)
        return [json.dumps(self.status()).encode()]

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Rows of a stream, from a program at this place."""
        visitor, head = self._visitor(context), self._head(descriptor)
        if visitor.names is not None and self.running.name not in visitor.names:
            named = ", ".join(sorted(visitor.names))
            raise self._refusal("strangers", f"{visitor.address} brings rows; its certificate names {named}")
        stream = head.get("stream")
        if stream not in self.running.arrivals:
            raise self._refusal("rows", f"site {self.running.name!r} has no stream {stream!r}")
        if self.running.description.feeds[stream].files is not None:
            raise self._refusal("rows", f"the rows of stream {stream!r} come from files")
        self.door.welcome(visitor)
        try:
            table = fitted(reader.read_all(), self.running.network.bound.schemas[stream], stream)
            self._hand_over(stream, table, head)
        except WindrowError as error:
            raise self._refusal("rows", str(error)) from None

    def _hand_over(self, stream: str, table: pa.Table, head: dict[str, Any]) -> None:
        self.running.wait_for_room(stream, lambda: self.stopping)
        safe = threading.Event()
        batch, until = (_whole(head, name) for name in ("batch", "until"))
        if batch is not None and batch < 0:
            raise InputError(f"batch must be a number from 0 on, got {batch}")
        position = None if batch is None else {"batch": batch}
        ends = bool(head.get("end"))
        self.running.feed(stream, table, position=position, until=until, safe=None if ends else safe.set)
        if ends:
            self.running.end(stream, safe.set)
        while not safe.wait(PULSE):
            if self.stopping:
                raise flight.FlightUnavailableError("the site is stopping")

    def _unknown(self, context: Any, *_: Any) -> Any:
        """Whatever else Flight can be asked for."""
        self._visitor(context)
        raise self._refusal("unknown calls", "there is nothing to be had but the status")

    do_get = list_flights = get_flight_info = get_schema = list_actions = _unknown

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """The talk of another site: its messages in, what was noted of them out."""
        visitor, head = self._visitor(context), self._head(descriptor)
        site = head.get("site")
        if site not in self.running.others:
            raise self._refusal("strangers", f"{visitor.address} calls itself {site!r}, which is no site of the plan")
        if visitor.names is not None and site not in visitor.names:
            named = ", ".join(sorted(visitor.names))
            raise self._refusal("strangers", f"{visitor.address} calls itself {site!r}; its certificate names {named}")
        self.door.welcome(visitor)
        over = threading.Event()
        talker = threading.Thread(target=self._acknowledge, args=(site, writer, over), daemon=True)
        talker.start()
        try:
            while not self.stopping:
                chunk = reader.read_chunk()
                self._listen(site, chunk.app_metadata.to_pybytes() if chunk.app_metadata is not None else b"")
        except StopIteration:
            pass
        except WindrowError as error:
            raise self._refusal("messages", f"from {site} at {visitor.address}: {error}") from None
        finally:
            over.set()
            with self.running.changed:
                self.running.changed.notify_all()
            talker.join()

    def _listen(self, site: str, data: bytes) -> None:
        if data.startswith(MAGIC):
            while (message := self.running.decode(data, site)) is None and not self.stopping:
                with self.running.changed:  # another site is ahead: the decision is under way to this one
                    self.running.changed.wait(PULSE / 4)
            if message is not None:
                self.running.offer(Event(Entry("message", {}, data), message=message))
            return
        frame = _json(data)
        if "facts" in frame:
            self.running.tell(site, _facts(frame["facts"], site, self.running))
        try:
            here = {"next": int(frame["next"]), "seen": int(frame["seen"]), "full": bool(frame["full"])}
        except (KeyError, TypeError, ValueError, OverflowError):
            raise InputError("it does not say where it is") from None
        _near([here["next"], here["seen"]], self.running)
        self.running.progress[site] = here

    def _acknowledge(self, site: str, writer: Any, over: threading.Event) -> None:
        """Tell the other end what was noted, whenever that is more, and now and then that somebody is here."""
        running, last = self.running, 0.0
        said: dict[str, int] = {}
        heard: int | None = None
        try:
            while not over.is_set() and not self.stopping:
                with running.changed:
                    marks, told = running.acknowledged[site], running.heard.get(site, -1)
                    if marks == said and told == heard and time.monotonic() - last < PULSE:
                        running.changed.wait(PULSE / 2)
                        continue
                news = {step: interval for step, interval in marks.items() if said.get(step) != interval}
                writer.write_metadata(json.dumps({"acks": news, "told": told}, separators=(",", ":")).encode())
                said, heard, last = marks, told, time.monotonic()
                over.wait(GATHER)
        except (pa.ArrowException, flight.FlightError, OSError, ValueError):
            over.set()
        except Exception as error:  # the other end hears nothing more, and makes the link again
            over.set()
            why = f"{type(error).__name__}: {' '.join(str(error).split())}"
            log.error("site %s: telling site %s what was noted has failed: %s", running.name, site, why)

    # -- who is there ----------------------------------------------------------------------------------------------

    def _visitor(self, context: Any) -> Visitor:
        port = context.peer().rpartition(":")[2]
        visitor = self.door.visitors.get(int(port)) if port.isdigit() else None
        if visitor is None:
            raise self._refusal("not by the door", f"a call came from {context.peer()}")
        return visitor

    def _head(self, descriptor: Any) -> dict[str, Any]:
        """What a call says first: it must be of this version and description."""
        try:
            head = _json(descriptor.command or b"")
        except WindrowError as error:
            raise self._refusal("garbage", str(error)) from None
        if head.get("version") != VERSION or head.get("description") != self.running.description.id:
            raise self._refusal(
                "other plans",
                f"a call is of version {head.get('version')!r} and description {head.get('description')!r}; here they "
                f"are {VERSION} and {self.running.description.id!r}: let all sites have the same file and windrow",
            )
        return head

    def _refusal(self, what: str, why: str) -> Exception:
        self.running.refuse(what, why)
        kind: type[Exception] = flight.FlightServerError
        if what in ("strangers", "not by the door", "other plans"):
            kind = flight.FlightUnauthorizedError
        return kind(why)


def _json(data: bytes) -> dict[str, Any]:
    """A small JSON object."""
    try:
        if len(data) > MOST_TEXT:
            raise ValueError("it is too long")
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"this is no JSON text: {error}") from None
    if not isinstance(found, dict):
        raise InputError("this is no JSON object")
    return found


def _facts(given: Any, site: str, running: Running) -> dict[str, Any]:
    """What a site may tell: where its own streams end, and whether it is done."""
    try:
        ends = {str(stream): int(end) for stream, end in given["ends"].items()}
        facts = {"number": int(given["number"]), "ends": ends, "done": bool(given["done"])}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise InputError(f"facts of site {site} that cannot be read") from None
    if strange := [stream for stream in ends if (stream, site) not in running.network.plan.sites]:
        raise InputError(f"site {site} tells about the stream {strange[0]!r}, which is not there")
    _near(ends.values(), running)
    return facts


def _whole(head: Mapping[str, Any], name: str) -> int | None:
    """A whole number of 64 bits that came along with rows, if it did."""
    value = head.get(name)
    if value is not None and (type(value) is not int or not -(2**63) < value < 2**63):
        raise InputError(f"{name} must be a whole number, got {value!r}")
    return value


def _near(intervals: Iterable[int], running: Running) -> None:
    """Refuse intervals that are so far away that nobody can have come to them."""
    seen = max([running.public["seen"], *(there["seen"] for there in list(running.progress.values()))])
    for interval in intervals:
        if not 0 <= interval <= seen + MOST_AHEAD:
            raise InputError(f"it speaks of interval {interval:,}, and streams have come to {seen:,}")


def fitted(table: pa.Table, schema: pa.Schema, stream: str) -> pa.Table:
    """Rows with the columns and types of their stream."""
    for field in schema:
        if field.name not in table.column_names:
            raise InputError(f"stream {stream!r}: these rows lack the column {field.name!r}")
    try:
        return as_table(table.select(schema.names), stream).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"stream {stream!r}: these rows do not fit {schema}: {error}") from None
