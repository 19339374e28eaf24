"""Metrics: what came, what matched, what left and why."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class StreamMetrics:
    """Counters of one stream: arrived = late + ignored + resident_rows + expired + released + shed.

    `sampled` are those of `shed` that the sampler left out; the rest was the policy's choice. `resident_bytes` is what
    its residents are charged: their rows, and their part of the keys that streams share.
    """

    arrived: int = 0
    late: int = 0
    ignored: int = 0
    expired: int = 0
    released: int = 0
    shed: int = 0
    resident_rows: int = 0
    resident_bytes: int = 0
    sampled: int = 0


@dataclass(frozen=True)
class Metrics:
    """Counters of a query: those of its streams, each with its sum over them.

    `recall` is matches produced over matches of the exact join, over everything so far and recently; None when it
    cannot be told. The interval holds 95 % of the time; it has no width while the exact join stores every row. Of joins
    that have names, `joins` has the matches of each; `matched` and recall are over all of them.
    """

    matched: int
    peak_rows: int
    peak_bytes: int
    streams: dict[str, StreamMetrics] = field(default_factory=dict)
    value: float | None = None
    recall: float | None = None
    recall_interval: tuple[float, float] | None = None
    recent_recall: float | None = None
    exact_matched: float | None = None
    joins: dict[str, int] = field(default_factory=dict)

    @property
    def arrived(self) -> int:
        """Rows that came."""
        return self.total("arrived")

    @property
    def late(self) -> int:
        """Rows that came behind the watermark."""
        return self.total("late")

    @property
    def ignored(self) -> int:
        """Rows that can never match: filtered out, or without a key or a time."""
        return self.total("ignored")

    @property
    def expired(self) -> int:
        """Residents whose window has passed."""
        return self.total("expired")

    @property
    def released(self) -> int:
        """Residents that a constraint has proved useless."""
        return self.total("released")

    @property
    def shed(self) -> int:
        """Rows that memory had no room for."""
        return self.total("shed")

    @property
    def sampled(self) -> int:
        """Rows of `shed` that the sampler left out."""
        return self.total("sampled")

    @property
    def resident_rows(self) -> int:
        """Rows held now."""
        return self.total("resident_rows")

    @property
    def resident_bytes(self) -> int:
        """Bytes charged for them, keys and indexes included: what the budget limits."""
        return self.total("resident_bytes")

    def total(self, counter: str) -> int:
        """A counter summed over the streams."""
        return sum(getattr(stream, counter) for stream in self.streams.values())

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        totals = {name: self.total(name) for name in StreamMetrics.__dataclass_fields__}
        found = {**totals, **asdict(self)}
        if not self.joins:
            del found["joins"]
        return found
