"""Status: the figures of a site as it works, and how to ask for them."""

import json
import resource
import time
from collections import deque
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from windrow.sites.ground.description import Description
from windrow.sites.ground.neighbours import Neighbour
from windrow.sites.ground.running import Running
from windrow.sites.ground.trust import plain
from windrow.sites.links import HEADER_BYTES

SPAN = 10.0  # seconds over which rates are taken
TIMEOUT = 3.0
FIGURES = "figures.json"  # the last figures, for who asks when the site has gone


class Figures:
    """Gathers the figures of one site now and then; others read the last ones."""

    def __init__(self, running: Running, neighbours: dict[str, Neighbour]) -> None:
        self.running, self.neighbours = running, neighbours
        self._marks: deque[tuple[float, dict[str, int]]] = deque()
        self._core = time.process_time()
        self.last: dict[str, Any] = {}

    def gather(self) -> dict[str, Any]:
        """The figures now; called by the thread that owns the state."""
        running, now = self.running, time.monotonic()
        totals = {f"rows {stream}": arrivals.rows for stream, arrivals in running.arrivals.items()}
        totals |= {f"to {site}": outbox.sent["bytes"] for site, outbox in running.outboxes.items()}
        totals["results"] = running.results.rows
        self._marks.append((now, totals))
        while self._marks[0][0] < now - SPAN:
            self._marks.popleft()
        rates = self._rates(now, totals)
        self.last = {
            "site": running.name,
            "plan": running.site.plan_at(running.lowest),
            "plans": running.site.plans(),
            "interval": running.lowest,
            "done": running.done,
            "first_row_at": running.first_row_at,
            "done_at": running.done_at,
            "core_s": time.process_time() - self._core,
            "waits_for": {} if running.done else running.lacking(),
            "streams": self._streams(rates),
            "links": self._links(rates),
            "results": {"rows": running.results.rows, "files": running.results.files, "rows_per_s": rates["results"]},
            "delay_s": self._delay(),
            "memory": {
                "resident_rows": running.site.resident_rows,
                "held_bytes": running.held,
                "may_hold_bytes": running.description.hold,
                "full": running.full,
                "windows": running.site.held_metrics(),
                "process_peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
            },
            "journal_bytes": running.keeping.bytes,
            "repeated": running.site.repeated,
            "refused": dict(running.refused),
        }
        return self.last

    def _rates(self, now: float, totals: dict[str, int]) -> dict[str, float]:
        then, before = self._marks[0]
        past = now - then
        return {name: (total - before.get(name, total)) / past if past else 0.0 for name, total in totals.items()}

    def _streams(self, rates: dict[str, float]) -> dict[str, Any]:
        counters = self.running.site.counters()
        return {
            stream: {
                **counters[stream], "next": arrivals.next, "ended": arrivals.ended is not None,
                "waiting_bytes": max(arrivals.bytes, 0), "rows_per_s": rates[f"rows {stream}"],
            }
            for stream, arrivals in self.running.arrivals.items()
        }  # fmt: skip

    def _links(self, rates: dict[str, float]) -> dict[str, Any]:
        planned, found = self.running.description.planned_bytes, {}
        for site, neighbour in self.neighbours.items():
            outbox = neighbour.outbox
            found[site] = {
                **outbox.sent,
                "with_headers": outbox.sent["bytes"] + HEADER_BYTES * outbox.sent["messages"],
                "frame_bytes": neighbour.frame_bytes,
                "bytes_per_s": rates[f"to {site}"],
                "planned_bytes_per_s": planned.get(f"{self.running.name} -> {site}"),
                "kept": len(outbox.kept),
                "kept_bytes": outbox.bytes,
                "connected": neighbour.connected,
                "away_s": round(neighbour.away, 1),
            }
        return found

    def _delay(self) -> dict[str, float | None]:
        delays = self.running.delays
        return {"mean": sum(delays) / len(delays) if delays else None, "max": max(delays, default=None)}


def status(description: Description, name: str) -> dict[str, Any]:
    """The figures of a site that is being served; where it is not, what kept it from answering."""
    trust, station = description.trust(), description.station(name)
    scheme = "grpc+tls" if trust.secure else "grpc+tcp"
    options = flight.FlightCallOptions(timeout=TIMEOUT, headers=trust.headers())
    try:
        with flight.FlightClient(f"{scheme}://{station.address}", **trust.client_options(name)) as client:
            (answer,) = client.do_action(flight.Action("status", b""), options)
        found: dict[str, Any] = json.loads(answer.body.to_pybytes())
        return found
    except (pa.ArrowException, flight.FlightError, OSError, ValueError) as error:
        return ended(station.folder) or {"site": name, "away": plain(error)}


def ended(folder: Path) -> dict[str, Any] | None:
    """The last figures of a site that has nothing left to do, if its folder is at this place."""
    try:
        figures: dict[str, Any] = json.loads((folder / FIGURES).read_bytes())
    except (OSError, ValueError):
        return None
    return figures if figures.get("done") else None
