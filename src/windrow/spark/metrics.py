"""Metrics on Spark: the counters of every shard, while a query runs.

The operator sends its counters along with the matches, and Spark's own observed metrics bring them to the driver, so
this works with Spark Connect too. A shard that had no rows in a micro-batch keeps the counters it had; in the first
micro-batch of a run all shards tell theirs (roll_call.py). A query may hold several joins, each of which is observed
under a name of its own; they are numbered in the order of writing.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterable, Mapping, Sequence
from http.server import ThreadingHTTPServer
from itertools import count
from typing import Any

from windrow.engine.metrics import Metrics, added_up
from windrow.errors import InputError
from windrow.spark import scrape
from windrow.spark.roll_call import CALLED

NAME = "windrow-"  # begins the names of observations
SHARDS = "shards"
SEEN_WITHIN = 10.0  # seconds in which Spark tells what an action that is over has observed
COUNTERS = (*scrape.COUNTED, *scrape.HELD)

Shards = dict[int, dict[str, Any]]
"""The counters of each shard of a join."""

_written = count(1)


def observed(result: Any, streaming: bool) -> tuple[Any, Any]:
    """The operator's output with its counters observed; and the observation, for a batch."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    # One text, because Connect hands on nested values in another shape.
    lines = F.collect_list(F.when(F.col("metrics").isNotNull(), F.struct("shard", "metrics")))
    shards = F.to_json(lines).alias(SHARDS)
    name = f"{NAME}{next(_written):09}-{secrets.token_hex(4)}"
    if streaming:
        return result.observe(name, shards), None
    observation = Observation(name)
    return result.observe(observation, shards), observation


class QueryMetrics:
    """The counters of a running query: per shard and in all.

    A listener brings them after every micro-batch. Whoever asks also gets what the query has reported since, so that
    nothing is missing from counters that are read when a query has come to a rest.

    In the first micro-batch of a run that has rows every shard tells its counters, and again now and then: from then on
    they are `complete`, those of the last micro-batch that was committed. Before that a restarted query has none.

    Of a query with several joins, shards and streams have the number of their join in front ("2/left"), counters are
    summed over all joins, and recall is told for each join alone (`to_dict()["joins"]`).
    """

    def __init__(self, query: Any = None) -> None:
        self._query = query
        self.name = "batch" if query is None else str(query.name or query.id)
        self._shards: dict[str, dict[int, tuple[int, dict[str, Any]]]] = {}  # by join: the micro-batch, and counters
        self._called: set[str] = set()  # joins of which all shards have told theirs
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        """Which query it is of; what it says is in `to_dict`."""
        return f"<metrics of {self.name}: to_dict() has them, serve(port) for Prometheus>"

    def take(self, observed: Mapping[str, Any], batch: int = 0) -> None:
        """Take over what Spark observed in one micro-batch; reports may come twice, and in any order."""
        with self._lock:
            for name in sorted(name for name in observed if name.startswith(NAME)):
                known = self._shards.setdefault(name, {})
                for line in json.loads(_text(observed[name]) or "[]"):
                    shard, counters = int(line["shard"]), json.loads(line["metrics"])
                    if counters.pop(CALLED, False):
                        self._called.add(name)
                    if known.get(shard, (-1,))[0] <= batch:
                        known[shard] = batch, counters

    def refresh(self) -> None:
        """Take over all that the query has reported."""
        try:
            reports = list(self._query.recentProgress) if self._query is not None else []
        except Exception:  # the session has ended: what it said last stays
            return
        for report in reports:
            self.take(report.observedMetrics, report.batchId)

    def _joins(self) -> list[Shards]:
        """The last known counters of every shard, by join."""
        self.refresh()
        with self._lock:
            found = [self._shards[name] for name in sorted(self._shards)]
            return [{shard: mine for shard, (_, mine) in sorted(shards.items())} for shards in found if shards]

    @property
    def complete(self) -> bool:
        """Whether all shards are in the counters, those too that have had no rows since the query was started."""
        self.refresh()
        with self._lock:
            return self._query is None or (bool(self._shards) and self._called >= set(self._shards))

    @property
    def shards(self) -> dict[Any, dict[str, Any]]:
        """The last known counters of every shard."""
        return dict(_numbered(self._joins()))

    def to_dict(self) -> dict[str, Any]:
        """Counters over all shards, recall with its interval, and the shards themselves; of several joins each."""
        joins = self._joins()
        found = _as_dict(_together(joins), dict(_numbered(joins))) | {"complete": self.complete}
        return found if len(joins) < 2 else found | {"joins": [_as_dict(_together([mine]), mine) for mine in joins]}

    def total(self, names: Iterable[str] = ()) -> Metrics:
        """The metrics of all shards together; `names` are the streams, where nothing was reported."""
        return _together(self._joins(), names)

    @property
    def recall(self) -> float | None:
        """Matches produced over matches of the exact join; None where some shard cannot tell, or of several joins."""
        return self.total().recall

    def to_json(self) -> str:
        """Everything as JSON."""
        return json.dumps(self.to_dict())

    def to_prometheus(self) -> str:
        """Everything in the text format of Prometheus, labelled with the query's name, or its id if it has none."""
        joins = self._joins()
        return scrape.prometheus(self.name, joins, [_together([mine]).recall for mine in joins])

    def serve(self, port: int = 0, host: str = "127.0.0.1") -> ThreadingHTTPServer:
        """Answer /metrics in the text format of Prometheus and /metrics.json; `shutdown()` on what is returned ends it.

        One address for each query; the label `query` tells them apart where they are brought together.
        """
        known = {"/metrics": (self.to_prometheus, scrape.TEXT), "/metrics.json": (self.to_json, "application/json")}
        return scrape.serve(known, port, host)


def _text(found: Any) -> str | None:
    """The observed text: a row or a dictionary of Spark's, or a row as Connect's progress reports spell it."""
    fields = found if isinstance(found, Mapping) else found.asDict()
    text: str | None = fields[SHARDS] if SHARDS in fields else fields["values"][0]
    return text


def _numbered(joins: Sequence[Shards]) -> Iterable[tuple[Any, dict[str, Any]]]:
    """Shards by their number; behind that of their join where there are several."""
    for join, shards in enumerate(joins, 1):
        yield from ((shard if len(joins) == 1 else f"{join}/{shard}", counters) for shard, counters in shards.items())


def _as_dict(total: Metrics, shards: Mapping[Any, Mapping[str, Any]]) -> dict[str, Any]:
    rows = [counters["resident_rows"] for counters in shards.values()]
    return {
        **{name: sum(mine[name] for mine in shards.values()) for name in COUNTERS},
        "largest_shard": max(rows) * len(rows) / sum(rows) if rows and sum(rows) else None,
        **{name: getattr(total, name) for name in ("recall", "recall_interval", "exact_matched")},
        "warm": _warm(shards),
        "shards": shards,
    }


def _together(joins: Sequence[Shards], names: Iterable[str] = ()) -> Metrics:
    """The metrics of all shards together; streams of several joins have the number of theirs in front."""
    each = [added_up([Metrics.from_dict(counters) for counters in shards.values()]) for shards in joins]
    if len(each) < 2:
        return each[0] if each else added_up([], names)
    counted = {name: sum(getattr(one, name) for one in each) for name in ("matched", "peak_rows", "peak_bytes")}
    return Metrics(
        **counted,
        streams={f"{k}/{name}": mine for k, one in enumerate(each, 1) for name, mine in one.streams.items()},
        constraints={f"{k}/{text}": mine for k, one in enumerate(each, 1) for text, mine in one.constraints.items()},
    )


def _warm(shards: Mapping[Any, Mapping[str, Any]]) -> dict[str, int] | None:
    """Of engines that stay on their machines between micro-batches: their bytes, which are those of the budget; how
    often one was at hand, and how often it was rebuilt from the checkpoint. None where none is kept."""
    found = [counters["warm"] for counters in shards.values() if "warm" in counters]
    return {name: sum(mine[name] for mine in found) for name in found[0]} if found else None


def metrics(query: Any) -> QueryMetrics:
    """The counters of a streaming query, followed by a listener from now on; or of a batch frame once computed."""
    if hasattr(query, "windrow_observation"):
        found = QueryMetrics()
        found.take({NAME: _seen(query.windrow_observation)})
        return found
    if not hasattr(query, "recentProgress"):
        raise InputError(f"metrics needs a streaming query or a frame of matches, got {type(query).__name__}")
    from windrow.spark.listener import attach

    found = QueryMetrics(query)
    attach(query, found)
    return found


def _seen(observation: Any) -> Any:
    """What a batch frame's first action has observed. In Spark classic asking waits until there was one, for ever."""
    found: list[Any] = []

    def ask() -> None:
        try:
            found.append(observation.get)
        except Exception as error:
            found.append(error)

    asking = threading.Thread(target=ask, name="windrow-asks", daemon=True)
    asking.start()
    asking.join(SEEN_WITHIN)
    if not found or not found[0]:
        raise InputError("this frame of matches has not been computed yet: call count(), or write it, and then metrics")
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]
