"""Metrics on Spark: the counters of every shard, while a query runs.

The operator sends its counters along with the matches, and Spark's own observed metrics bring them to the driver, so
this works with Spark Connect too. A shard that had no rows in a micro-batch keeps the counters it had.
"""

from __future__ import annotations

import json
import math
import secrets
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from windrow.errors import InputError

NAME = "windrow-"  # begins the names of observations; a query may hold several joins
COUNTERS = (
    "arrived", "late", "ignored", "matched", "expired", "released", "shed",
    "resident_rows", "resident_bytes", "peak_bytes",
)  # fmt: skip


def observed(result: Any, streaming: bool) -> tuple[Any, Any]:
    """The operator's output with its counters observed; and the observation, for a batch."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    shards = F.collect_list(F.struct("shard", "metrics")).alias("shards")
    if streaming:
        return result.observe(f"{NAME}{secrets.token_hex(4)}", shards), None
    observation = Observation(f"{NAME}{secrets.token_hex(4)}")
    return result.observe(observation, shards), observation


class QueryMetrics:
    """The counters of a running query: per shard and in all."""

    def __init__(self) -> None:
        self._shards: dict[int, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self.batches = 0

    def take(self, observed: Mapping[str, Any]) -> None:
        """Take over what Spark observed in one micro-batch."""
        mine = [found for name, found in observed.items() if name.startswith(NAME)]
        with self._lock:
            self.batches += bool(mine)
            for line in (line for found in mine for line in found["shards"] or []):
                if line["metrics"] is not None:
                    self._shards[int(line["shard"])] = json.loads(line["metrics"])

    @property
    def shards(self) -> dict[int, dict[str, Any]]:
        """The last known counters of every shard."""
        with self._lock:
            return dict(self._shards)

    def to_dict(self) -> dict[str, Any]:
        """Counters over all shards, recall with its interval, and the shards themselves."""
        shards = self.shards
        total: dict[str, Any] = {name: sum(s[name] for s in shards.values()) for name in COUNTERS}
        rows = [s["resident_rows"] for s in shards.values()]
        total["largest_shard"] = max(rows) * len(rows) / sum(rows) if rows and sum(rows) else None
        return {**total, **_recall(list(shards.values())), "shards": shards}

    @property
    def recall(self) -> float | None:
        """Matches produced over matches of the exact join; None where some shard cannot tell."""
        found: float | None = self.to_dict()["recall"]
        return found

    def to_json(self) -> str:
        """Everything as JSON."""
        return json.dumps(self.to_dict())

    def to_prometheus(self) -> str:
        """Everything in the text format of Prometheus."""
        lines = []
        for name in COUNTERS:
            lines.append(f"# TYPE windrow_{name} gauge")
            lines += [f'windrow_{name}{{shard="{k}"}} {s[name]}' for k, s in sorted(self.shards.items())]
        if (recall := self.recall) is not None:
            lines += ["# TYPE windrow_recall gauge", f"windrow_recall {recall}"]
        return "\n".join(lines) + "\n"

    def serve(self, port: int = 0, host: str = "127.0.0.1") -> ThreadingHTTPServer:
        """Answer GET /metrics in the text format of Prometheus; `shutdown()` on what is returned ends it."""
        server = ThreadingHTTPServer((host, port), _handler(self))
        threading.Thread(target=server.serve_forever, name="windrow-metrics", daemon=True).start()
        return server


def _recall(shards: list[dict[str, Any]]) -> dict[str, Any]:
    """Recall over all shards: their exact counts add up, and so do the squares of their errors."""
    if not shards or any(s["exact_matched"] is None for s in shards):
        return {"recall": None, "recall_interval": None, "exact_matched": None}
    matched, exact = sum(s["matched"] for s in shards), sum(s["exact_matched"] for s in shards)
    spread = math.sqrt(sum(_spread(s) ** 2 for s in shards))
    recall = matched / exact if exact else 1.0
    low = matched / (exact + spread) if exact else 1.0
    high = matched / max(exact - spread, matched) if matched else (0.0 if exact else 1.0)
    return {"recall": recall, "recall_interval": (low, max(high, recall)), "exact_matched": exact}


def _spread(shard: dict[str, Any]) -> float:
    """Half the width of a shard's interval of the exact count."""
    low = shard["recall_interval"][0]
    return float(shard["matched"] / low - shard["exact_matched"]) if low > 0 else float(shard["exact_matched"])


def _handler(source: QueryMetrics) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = {
                "/metrics": (source.to_prometheus, "text/plain; version=0.0.4"),
                "/metrics.json": (source.to_json, "application/json"),
            }
            if self.path not in known:
                self.send_error(404)
                return
            make, kind = known[self.path]
            body = make().encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler


def metrics(query: Any) -> QueryMetrics:
    """The counters of a streaming query, followed by a listener from now on; or of a batch frame once computed."""
    found = QueryMetrics()
    if hasattr(query, "windrow_observation"):
        found.take({NAME: query.windrow_observation.get})
        return found
    if not hasattr(query, "recentProgress"):
        raise InputError(f"metrics needs a streaming query or a frame of matches, got {type(query).__name__}")
    from windrow.spark.listener import attach

    attach(query, found)
    return found
