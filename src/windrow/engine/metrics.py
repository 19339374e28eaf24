"""Metrics: what came, what matched, what left and why."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class StreamMetrics:
    """Counters of one stream: arrived = late + ignored + resident_rows + expired + released + shed."""

    arrived: int = 0
    late: int = 0
    ignored: int = 0
    expired: int = 0
    released: int = 0
    shed: int = 0
    resident_rows: int = 0
    resident_bytes: int = 0


@dataclass(frozen=True)
class Metrics:
    """Counters of a query.

    `resident_bytes` holds the streams' rows and the keys that they share.
    `recall` is matches produced over matches of the exact join, over everything so far and recently; None when it
    cannot be told. The interval holds 95 % of the time; it has no width when all keys were watched.
    """

    matched: int
    peak_rows: int
    peak_bytes: int
    resident_bytes: int = 0
    streams: dict[str, StreamMetrics] = field(default_factory=dict)
    value: float | None = None
    recall: float | None = None
    recall_interval: tuple[float, float] | None = None
    recent_recall: float | None = None
    exact_matched: float | None = None

    def total(self, counter: str) -> int:
        """A counter summed over the streams."""
        return sum(getattr(stream, counter) for stream in self.streams.values())

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        totals = {name: self.total(name) for name in StreamMetrics.__dataclass_fields__}
        return {**totals, **asdict(self)}
