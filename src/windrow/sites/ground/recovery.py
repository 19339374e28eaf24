"""Recovery: the state of a running site as the header and parts of a snapshot, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windrow.state.snapshot import form

if TYPE_CHECKING:
    from windrow.sites.ground.running import Running


def saved(running: Running) -> tuple[dict[str, Any], list[Any]]:
    """All that the site must not forget, as JSON values and bytes."""
    parts: list[Any] = [running.site.snapshot()]

    def put(data: Any) -> int:
        parts.append(data)
        return len(parts) - 1

    arrivals = {}
    for stream, found in running.arrivals.items():
        facts, rows = found.state()
        arrivals[stream] = [facts, None if rows is None else put(form.table_bytes(rows))]
    outboxes = {
        other: [[step, interval, put(data)] for step, interval, data in outbox.state()]
        for other, outbox in running.outboxes.items()
    }
    header = {
        "arrivals": arrivals, "outboxes": outboxes, "marks": running.marks, "told": running.told, "come": running.come,
        "results": [running.results.rows, running.results.files],
    }  # fmt: skip
    return header, parts


def load(running: Running, snapshot: form.Snapshot) -> None:
    """Go on from a snapshot."""
    head = snapshot.header
    running.site.restore(snapshot.parts[0].to_pybytes())
    for stream, (facts, at) in head["arrivals"].items():
        running.arrivals[stream].load(facts, None if at is None else form.table_of(snapshot.parts[at]))
    for other, kept in head["outboxes"].items():
        for step, interval, at in kept:
            running.outboxes[other].put(step, interval, snapshot.parts[at].to_pybytes())
    running.marks |= head["marks"]
    running.come = head["come"]
    running.told = head["told"]
    for other, facts in running.told.items():
        if facts["done"]:
            running.outboxes[other].discard()
    running.results.rows, running.results.files = head["results"]
