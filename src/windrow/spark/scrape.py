"""Counters for Prometheus: its text format (version 0.0.4), and an address from which it can scrape them."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from windrow.errors import InputError

TEXT = "text/plain; version=0.0.4; charset=utf-8"
COUNTED = {
    "arrived": "Rows that have arrived.",
    "late": "Rows behind the watermark, not joined.",
    "ignored": "Rows that can never match: filtered out, or without a key or a time.",
    "matched": "Matches produced.",
    "expired": "Residents whose window has passed. No loss.",
    "released": "Residents that a constraint has proven useless. No loss.",
    "shed": "Rows lost because memory was full.",
}
HELD = {
    "resident_rows": "Rows in join memory.",
    "resident_bytes": "Bytes charged for the rows in join memory.",
    "peak_bytes": "Most bytes charged at any time.",
}
OF_CONSTRAINTS = {
    "k": ("gauge", "How far rows that belong together may lie apart, in rows or units of time; none for unique keys."),
    "used": ("gauge", "Whether rows are released by the constraint now: 1 or 0."),
    "seen": ("gauge", "The largest distance measured lately, of declared constraints ever."),
    "measured": ("counter", "Distances measured."),
    "released": ("counter", "Rows found useless by the constraint, by itself or with others."),
    "violations": ("counter", "Distances beyond k while rows were released by it; each may have cost matches."),
}
RECALL = "Matches produced over matches of the exact join, as estimated."

Answer = tuple[Callable[[], str], str]


def prometheus(query: str, joins: Sequence[Mapping[int, Mapping[str, Any]]], recalls: Sequence[float | None]) -> str:
    """Counters end in _total, as their name asks for; what is held is a gauge. Labels are the query, the number of the
    join where there are several, the shard, and of constraints, where there are any, their text."""
    lines = []
    kinds = [(f"{name}_total", "counter", name, text) for name, text in COUNTED.items()]
    kinds += [(name, "gauge", name, text) for name, text in HELD.items()]
    owners = [{"query": query} | ({"join": join} if len(joins) > 1 else {}) for join in range(1, len(joins) + 1)]
    both = list(zip(owners, joins, strict=True))
    for metric, kind, name, text in kinds:
        lines += _family(metric, kind, text)
        lines += [f"windrow_{metric}{_labels(**own, shard=k)} {s[name]}" for own, mine in both for k, s in mine.items()]
    lines += _of_constraints(both)
    if any(recall is not None for recall in recalls):
        lines += _family("recall", "gauge", RECALL)
        told = zip(owners, recalls, strict=True)
        lines += [f"windrow_recall{_labels(**own)} {recall}" for own, recall in told if recall is not None]
    return "\n".join(lines) + "\n"


def _of_constraints(joins: Sequence[tuple[Mapping[str, Any], Mapping[int, Mapping[str, Any]]]]) -> list[str]:
    """A line for each constraint of each shard, in every family."""
    known = [
        (_labels(**own, shard=k, constraint=text), one)
        for own, mine in joins
        for k, shard in mine.items()
        for text, one in shard.get("constraints", {}).items()
    ]
    lines = []
    for name, (kind, about) in OF_CONSTRAINTS.items() if known else ():
        metric = f"constraint_{name}" + ("_total" if kind == "counter" else "")
        lines += _family(metric, kind, about)
        lines += [f"windrow_{metric}{labels} {int(one[name])}" for labels, one in known if one[name] is not None]
    return lines


def _family(metric: str, kind: str, text: str) -> list[str]:
    return [f"# HELP windrow_{metric} {text}", f"# TYPE windrow_{metric} {kind}"]


def _labels(**labels: object) -> str:
    return "{" + ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def serve(answers: Mapping[str, Answer], port: int, host: str) -> ThreadingHTTPServer:
    """Answer GET and HEAD of some paths, whatever their query string, in a thread, until `shutdown()`."""
    listed = "".join(f"{path}\n" for path in answers)
    known = {**answers, "/": (lambda: listed, "text/plain; charset=utf-8")}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(with_body=True)

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def _answer(self, with_body: bool) -> None:
            path = urlsplit(self.path).path
            if path not in known:
                self.send_error(404)
                return
            make, kind = known[path]
            body = make().encode()
            with suppress(ConnectionError):  # who asked may have left
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if with_body:
                    self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except (OSError, OverflowError) as error:
        raise InputError(f"metrics cannot be served at {host}:{port}: {error}; port 0 takes a free one") from error
    threading.Thread(target=server.serve_forever, name="windrow-metrics", daemon=True).start()
    return server
