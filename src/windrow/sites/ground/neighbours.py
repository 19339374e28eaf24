"""Neighbour: how a site reaches another one: sends what is in the outbox, hears what was noted, dials again.

A connection that says nothing for a while is given up, since a link that is down does not say so: by a thread that does
nothing else, since who sends, or waits for the first word, is stuck in a call then. What was sent on it and not
acknowledged is sent again on the next one. Whatever else goes wrong is told in one line, and the link is made again: a
thread that ended would leave both sites waiting without a word.
"""

import contextlib
import json
import logging
import threading
import time
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from windrow.sites.ground.running import Running
from windrow.sites.ground.trust import Trust, plain
from windrow.sites.messages import VERSION

log = logging.getLogger("windrow.sites")

PULSE = 2.0  # seconds between two words about where this site is
DEAF = 8.0  # seconds without a word after which a connection is given up
SHORTEST, LONGEST = 0.1, 2.0  # seconds between two attempts
REMIND = 60.0  # seconds after which the same that nobody expected is told again
LOST = (pa.ArrowException, flight.FlightError, OSError, StopIteration)  # what a connection ends with
OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 1000)]


class Neighbour:
    """The way to another site, in a thread of its own."""

    def __init__(self, running: Running, site: str, trust: Trust) -> None:
        self.running, self.site, self.trust = running, site, trust
        self.outbox = running.outboxes[site]
        self.address = running.description.station(site).address
        self.connected = False
        self.attempts = self.frames = self.frame_bytes = 0
        self._since = time.monotonic()
        self._logged = ""
        self._odd, self._odd_at = "", 0.0  # what nobody expected, and when it was told
        self._stop = threading.Event()
        self._heard = 0.0
        self._thread = threading.Thread(target=self._run, name=f"to {site}", daemon=True)

    def start(self) -> None:
        """Begin to dial."""
        self._thread.start()

    def stop(self) -> None:
        """Hang up."""
        self._stop.set()
        self.outbox.wake()
        self._thread.join(5.0)

    @property
    def away(self) -> float:
        """For how many seconds the site has not been there."""
        return 0.0 if self.connected else time.monotonic() - self._since

    def _run(self) -> None:
        pause = SHORTEST
        while not self._stop.is_set():
            self.attempts += 1
            odd = False
            try:
                self._talk()
            except LOST as error:
                self._note(error)
            except Exception as error:
                odd = True
                self._tell(error)
            if self.connected:
                self.connected, self._since, pause = False, time.monotonic(), SHORTEST
            pause = LONGEST if odd else pause
            self._stop.wait(pause)
            pause = min(LONGEST, 2 * pause)

    def _tell(self, error: Exception) -> None:
        """Say what nobody expected; the same again only now and then."""
        text, now = f"{type(error).__name__}: {plain(error)}", time.monotonic()
        if text != self._odd or now - self._odd_at > REMIND:
            self._odd, self._odd_at = text, now
            log.error(
                "site %s: the link to site %s at %s has failed and is made again: %s",
                self.running.name, self.site, self.address, text,
            )  # fmt: skip

    def _note(self, error: BaseException) -> None:
        """Say once why a site cannot be reached."""
        if self._stop.is_set() or self.outbox.needless:
            return
        refused = isinstance(error, flight.FlightUnauthenticatedError | flight.FlightUnauthorizedError)
        what = "refuses this one" if refused else "cannot be reached"
        if what != self._logged:
            self._logged = what
            log.warning("site %s: site %s at %s %s: %s", self.running.name, self.site, self.address, what, plain(error))

    def _talk(self) -> None:
        scheme = "grpc+tls" if self.trust.secure else "grpc+tcp"
        location = f"{scheme}://{self.address}"
        with flight.FlightClient(location, generic_options=OPTIONS, **self.trust.client_options(self.site)) as client:
            hello = {"version": VERSION, "description": self.running.description.id, "site": self.running.name}
            descriptor = flight.FlightDescriptor.for_command(json.dumps(hello).encode())
            writer, reader = client.do_exchange(descriptor, flight.FlightCallOptions(headers=self.trust.headers()))
            over = threading.Event()
            self._heard = time.monotonic()
            odd: list[Exception] = []
            listener = threading.Thread(target=self._listen, args=(reader, over, odd), daemon=True)
            gone = threading.Event()
            watch = threading.Thread(target=self._watch, args=(reader, gone), daemon=True)
            watch.start()
            try:
                self._hear(reader.read_chunk())  # what it has, before anything is sent
                self.connected, self._logged = True, ""
                self.outbox.rewind()
                listener.start()
                self._send(writer, over)
                if odd:
                    raise odd[0]
                if self._deaf:  # who listens has heard that it was given up
                    raise TimeoutError
                with contextlib.suppress(pa.ArrowException):
                    writer.done_writing()
            except LOST:
                if self._deaf:
                    raise TimeoutError(f"it has said nothing for {DEAF:g} seconds") from None
                raise
            finally:
                gone.set()
                watch.join()
                reader.cancel()
                if listener.ident is not None:
                    listener.join(5.0)
                with contextlib.suppress(*LOST):
                    writer.close()

    def _send(self, writer: Any, over: threading.Event) -> None:
        told, spoke = None, 0.0
        while not over.is_set() and not self._stop.is_set():
            now = time.monotonic()
            public = self.running.public
            urgent = (public["facts"], public["full"])  # must be said at once when it changes
            if urgent != told or now - spoke > PULSE:
                self._say(writer, public)
                told, spoke = urgent, now
            data = self.outbox.following(PULSE / 4)
            if data is not None:
                writer.write_metadata(data)

    @property
    def _deaf(self) -> bool:
        return time.monotonic() - self._heard > DEAF

    def _watch(self, reader: Any, gone: threading.Event) -> None:
        """End a call on which nothing has been heard for too long."""
        while not gone.wait(DEAF / 8):
            if self._deaf:
                try:
                    reader.cancel()
                    return
                except Exception as error:
                    self._tell(error)

    def _say(self, writer: Any, public: dict[str, Any]) -> None:
        data = json.dumps(public, separators=(",", ":")).encode()
        self.frames += 1
        self.frame_bytes += len(data)
        writer.write_metadata(data)

    def _listen(self, reader: Any, over: threading.Event, odd: list[Exception]) -> None:
        try:
            while not over.is_set():
                self._hear(reader.read_chunk())
        except LOST:
            pass
        except Exception as error:  # raised where it is told
            odd.append(error)
        finally:
            over.set()
            self.outbox.wake()

    def _hear(self, chunk: Any) -> None:
        frame = json.loads(chunk.app_metadata.to_pybytes())
        self._heard = time.monotonic()
        self.outbox.acknowledge({str(step): int(interval) for step, interval in frame["acks"].items()})
        self.running.heeded[self.site] = max(self.running.heeded[self.site], int(frame["told"]))
