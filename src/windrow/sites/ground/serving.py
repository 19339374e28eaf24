"""Serving: a site in this process: its state, its server, the ways to its neighbours, the sources of its streams."""

import json
import logging
import threading
import time
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from windrow.errors import InputError, SpecError, WindrowError, alternatives
from windrow.sites.ground.description import Description, describe
from windrow.sites.ground.keeping import write_whole
from windrow.sites.ground.neighbours import Neighbour
from windrow.sites.ground.running import PAUSE, REPORT, Running
from windrow.sites.ground.server import Server, fitted
from windrow.sites.ground.sources import FileSource
from windrow.sites.ground.status import FIGURES, Figures

log = logging.getLogger("windrow.sites")


class Serving:
    """A site that is being served until it is stopped, or until all streams have ended and nobody needs it."""

    def __init__(self, file: str | Path | Description, name: str) -> None:
        self.description = file if isinstance(file, Description) else describe(file)
        self.name = name
        trust = self.description.trust(name)
        trust.check(name, self.description.station(name).ends[0])
        self.running = Running(self.description, name)
        self.failed: BaseException | None = None
        try:
            self.neighbours = {site: Neighbour(self.running, site, trust) for site in self.running.others}
            self.figures = Figures(self.running, self.neighbours)
            self.figures.gather()
            self.sources = [
                FileSource(self.running, stream, self.description.feeds[stream])
                for stream in self.running.arrivals
                if self.description.feeds[stream].files is not None
            ]
            self.server = Server(self.running, trust, lambda: self.figures.last)  # last: what it opens, others must end
        except BaseException:
            self.running.keeping.close()
            raise
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"site {name}", daemon=True)

    @property
    def address(self) -> str:
        """Where the site can be reached."""
        return f"{self.description.station(self.name).ends[0]}:{self.server.door.port}"

    def start(self) -> Self:
        """Begin."""
        log.info("site %s: listens on %s, plan %s", self.name, self.address, self.running.network.plan.id)
        for neighbour in self.neighbours.values():
            neighbour.start()
        for source in self.sources:
            source.start()
        self._thread.start()
        return self

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is over; whether it is."""
        self._thread.join(seconds)
        if self.failed is not None:
            raise self.failed
        return not self._thread.is_alive()

    def stop(self) -> None:
        """End, whatever is left to do; the folder has all that is needed to go on."""
        self._stop.set()
        self._thread.join()

    def feed(self, stream: str, rows: Any, until: int | None = None) -> None:
        """Hand over rows of a stream whose rows come from this program; returns when they cannot get lost."""
        self._check(stream)
        table = rows if isinstance(rows, pa.Table) else pa.table(rows)
        safe = threading.Event()
        self.running.wait_for_room(stream, lambda: not self._thread.is_alive())
        schema = self.running.network.bound.schemas[stream]
        self.running.feed(stream, fitted(table, schema, stream), until=until, safe=safe.set)
        self._until(safe, f"the rows of {stream!r} were noted: hand them over again when it is served")

    def end(self, stream: str) -> None:
        """A stream that this program feeds has no more rows; returns when that cannot be forgotten."""
        self._check(stream)
        safe = threading.Event()
        self.running.end(stream, safe.set)
        self._until(safe, f"the end of {stream!r} was noted: say so again when it is served")

    def _check(self, stream: str) -> None:
        if stream not in self.running.arrivals:
            known = alternatives(stream, self.running.arrivals, "streams")
            raise SpecError(f"site {self.name!r} has no stream {stream!r}{known}")
        if self.description.feeds[stream].files is not None:
            raise SpecError(
                f"the rows of stream {stream!r} come from files: leave them out of the description to hand rows over"
            )

    def _until(self, safe: threading.Event, what: str) -> None:
        """Wait until something is noted, or the site has stopped before."""
        while not safe.wait(PAUSE):
            if not self._thread.is_alive() and not safe.is_set():
                raise self.failed or WindrowError(f"site {self.name!r} has stopped before {what}")

    def _run(self) -> None:
        busy, looked = True, 0.0
        try:
            while not self._stop.is_set():
                busy = self.running.round(0.0 if busy else PAUSE)
                if broken := [source.failed for source in self.sources if source.failed]:
                    raise InputError(broken[0])
                if time.monotonic() - looked > REPORT:
                    looked = time.monotonic()
                    self.figures.gather()
                    if self.running.may_leave({site: there.away for site, there in self.neighbours.items()}):
                        log.info("site %s: all streams have ended, and nobody needs this site any more", self.name)
                        break
        except BaseException as error:
            self.failed = error
            log.error("site %s: stopped: %s", self.name, error)
        finally:
            self._close()

    def _close(self) -> None:
        for source in self.sources:
            source.stop()
        for neighbour in self.neighbours.values():
            neighbour.stop()
        self.server.end()
        path = self.description.station(self.name).folder / FIGURES
        try:
            write_whole(path, json.dumps(self.figures.gather(), indent=1).encode())
        except OSError as error:
            log.error("site %s: %s: writing failed: %s", self.name, path, error.strerror)
        finally:
            self.running.keeping.close()


def serve(file: str | Path | Description, name: str) -> Serving:
    """Serve a site in this process, in threads of its own."""
    return Serving(file, name).start()
