"""Metrics: what came, what matched, what left and why; of one engine, and of several together."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels import reasons
from windrow.quality.tracker import Recall
from windrow.spec import Query
from windrow.state.monitor import promises
from windrow.state.parts import view
from windrow.state.shard import Shard


@dataclass(frozen=True)
class StreamMetrics:
    """Counters of one stream: arrived = late + ignored + resident_rows + expired + released + shed.

    `sampled` are those of `shed` that the sampler left out; the rest was the policy's choice. `resident_bytes` is what
    its residents are charged: their rows, and their part of the keys that streams share. Deletions arrive and are
    ignored; `deleted` are those of `expired` that they took out, and `unknown` the deletions that found no resident.
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
    deleted: int = 0
    unknown: int = 0


@dataclass(frozen=True)
class ConstraintMetrics:
    """What is known of a constraint: whether rows are released by it now and with which k (of a unique key None).

    `seen` is the largest distance that was measured lately where constraints are found by watching, else ever;
    `violations` counts those beyond k, while the constraint was used: each may have cost matches. `released` counts
    rows that were found useless by it, by itself or with others, which are counted for each of them.
    """

    k: int | None = None
    used: bool = False
    seen: int = 0
    measured: int = 0
    violations: int = 0
    released: int = 0


@dataclass(frozen=True)
class DemotedMetrics:
    """What became of a stream's released rows that went to disk (`rows` of them so far, counted as released, too).

    `held` lie there now, in `disk_bytes` of files or on their way to one; `found` came back for a moment because an
    arrival may have matched them, each time counted; `dropped` had no room on disk.
    """

    rows: int = 0
    held: int = 0
    disk_bytes: int = 0
    found: int = 0
    dropped: int = 0


@dataclass(frozen=True)
class Metrics:
    """Counters of a query: those of its streams, each with its sum over them.

    `recall` is matches produced over matches of the exact join, over everything so far and recently; None when it
    cannot be told, as after a constraint was broken and no spared row met what it cost. The interval holds 95 % of the
    time; it has no width while the exact join stores every row. Of joins that have names, `joins` has the matches of
    each; `matched` and recall are over all of them. `demoted` is by stream, where released rows go to disk.
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
    constraints: dict[str, ConstraintMetrics] = field(default_factory=dict)
    demoted: dict[str, DemotedMetrics] = field(default_factory=dict)

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
        found = {**totals, **_plain(self)}
        for name in ("joins", "constraints", "demoted"):
            if not found[name]:
                del found[name]
        return found

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Metrics":
        """The metrics that `to_dict` gave, perhaps by way of JSON."""
        names = StreamMetrics.__dataclass_fields__
        found = {s: {name: mine[name] for name in names if name in mine} for s, mine in data["streams"].items()}
        streams = {s: StreamMetrics(**mine) for s, mine in found.items()}
        own = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        interval = own["recall_interval"]
        own["constraints"] = {c: ConstraintMetrics(**mine) for c, mine in data.get("constraints", {}).items()}
        own["demoted"] = {s: DemotedMetrics(**mine) for s, mine in data.get("demoted", {}).items()}
        return cls(**{**own, "streams": streams, "recall_interval": None if interval is None else tuple(interval)})


def _plain(value: Any) -> Any:
    """What `dataclasses.asdict` gives, which copies numbers and texts one by one; metrics are asked for often."""
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(map(_plain, value))
    return value


def added_up(parts: Sequence[Metrics], names: Iterable[str] = ()) -> Metrics:
    """The metrics of several engines, one for each shard of a join, together; `names` are the streams if there is none.

    A row that is sent to several shards is counted in each. Peaks need not have been at the same time: their sum is the
    most that can have been held. Recent recall is weighed by the exact matches of each shard.
    """
    if not parts:
        return Metrics(0, 0, 0, {name: StreamMetrics() for name in names})
    if len(parts) == 1:
        return parts[0]
    counters = StreamMetrics.__dataclass_fields__
    return Metrics(
        **{name: sum(getattr(part, name) for part in parts) for name in ("matched", "peak_rows", "peak_bytes")},
        streams={
            stream: StreamMetrics(**{c: sum(getattr(part.streams[stream], c) for part in parts) for c in counters})
            for stream in parts[0].streams
        },
        value=None if parts[0].value is None else sum(part.value or 0.0 for part in parts),
        joins={name: sum(part.joins[name] for part in parts) for name in parts[0].joins},
        constraints={name: _constraint([part.constraints[name] for part in parts]) for name in parts[0].constraints},
        demoted={
            stream: DemotedMetrics(
                *(sum(one) for one in zip(*(astuple(p.demoted[stream]) for p in parts), strict=True))
            )
            for stream in parts[0].demoted
        },
        **_recall(parts),
    )


def _constraint(parts: Sequence[ConstraintMetrics]) -> ConstraintMetrics:
    """What several shards know of a constraint: used where one of them uses it, with the largest k."""
    ks = [part.k for part in parts if part.k is not None]
    return ConstraintMetrics(
        k=max(ks) if ks else None,
        used=any(part.used for part in parts),
        seen=max(part.seen for part in parts),
        measured=sum(part.measured for part in parts),
        violations=sum(part.violations for part in parts),
        released=sum(part.released for part in parts),
    )


def _recall(parts: Sequence[Metrics]) -> dict[str, Any]:
    """Recall over all parts, if each knows its own: exact counts add up, and so do the squares of their errors."""
    known = [part.exact_matched for part in parts if part.exact_matched is not None]
    if len(known) < len(parts):
        return {}
    matched, exact = sum(part.matched for part in parts), sum(known)
    spread = math.sqrt(sum(_spread(part) ** 2 for part in parts))
    recall = matched / exact if exact else 1.0
    low = matched / (exact + spread) if exact else 1.0
    high = matched / max(exact - spread, matched) if matched else (0.0 if exact else 1.0)
    recent = math.fsum((part.recent_recall or 0.0) * own for part, own in zip(parts, known, strict=True))
    return {
        "recall": recall,
        "recall_interval": (low, max(high, recall)),
        "recent_recall": min(recent / exact, 1.0) if exact else 1.0,
        "exact_matched": exact,
    }


def _spread(part: Metrics) -> float:
    """Half the width of a part's interval of the exact count."""
    exact = float(part.exact_matched or 0.0)
    low = part.recall_interval[0] if part.recall_interval is not None else 1.0
    return part.matched / low - exact if low > 0 else exact


_COUNTERS = (*reasons.NAMES.items(), ("resident_rows", at.Stream.rows))


def _charged(shard: Shard) -> np.ndarray:
    """Bytes charged for each stream: its rows, and its part of what else its pool is charged (keys, demoted rows), in
    proportion to its rows; where no stream has any, in equal parts."""
    lines = view(shard.words, at.Head.streams_at, shard.plan.streams, at.STREAM_SIZE)
    used = view(shard.words, at.Head.pools_at, shard.plan.pools, at.POOL_SIZE)[:, at.Pool.used_bytes]
    found = lines[:, at.Stream.bytes].copy()
    for pool, charged in enumerate(used):
        mine = np.flatnonzero(lines[:, at.Stream.pool] == pool)
        held = lines[mine, at.Stream.rows]
        rows = np.append(0, np.cumsum(held if held.any() else np.ones_like(held)))
        found[mine] += np.diff((int(charged) - int(found[mine].sum())) * rows // int(rows[-1]))
    return found


def metrics_of(
    query: Query, shard: Shard, came: np.ndarray, deletions: np.ndarray, false: np.ndarray, recall: Recall | None
) -> Metrics:
    """The metrics of a shard, with what its owner counts: by stream the rows that came (arrived, late, ignored) and the
    deletions (done, in vain), by join the candidates that were no matches; and what is known of recall."""
    columns = {name: shard.stream_counter(word) for name, word in _COUNTERS}
    columns["resident_bytes"] = _charged(shard)
    streams = {}
    for s, name in enumerate(query.names):
        arrived, late, ignored = (int(n) for n in came[s])
        counters = {counter: int(values[s]) for counter, values in columns.items()}
        counters |= dict(zip(("deleted", "unknown"), deletions[s].tolist(), strict=True))
        streams[name] = StreamMetrics(arrived=arrived, late=late, ignored=ignored, **counters)
    by_join = zip(query.joins, (shard.matched_by_join - false).tolist(), strict=True)
    return Metrics(
        matched=shard.matched - int(false.sum()),
        peak_rows=int(shard.words[at.Head.peak_rows]),
        peak_bytes=int(shard.words[at.Head.peak_bytes]),
        streams=streams,
        value=float(shard.floats[at.Head.value]) if query.value is not None else None,
        recall=recall.overall if recall else None,
        recall_interval=recall.interval if recall else None,
        recent_recall=recall.recent if recall else None,
        exact_matched=recall.exact_matched if recall else None,
        joins={join.name: n for join, n in by_join} if query.named else {},
        constraints=_constraints(shard),
        demoted=_demoted(query, shard),
    )


def _demoted(query: Query, shard: Shard) -> dict[str, DemotedMetrics]:
    """What became of released rows, by stream."""
    demoted = shard.demoted
    if demoted is None:
        return {}
    ever, size = shard.stream_counter(at.Stream.demoted), demoted.sizes
    figures = zip(ever, demoted.rows, size, demoted.found, demoted.dropped, strict=True)
    return {name: DemotedMetrics(*map(int, mine)) for name, mine in zip(query.names, figures, strict=True)}


def _constraints(shard: Shard) -> dict[str, ConstraintMetrics]:
    """What a shard knows of constraints, by their texts."""
    release = shard.plan.release
    if release is None:
        return {}
    found = {}
    for text, line in zip(release.texts, promises(shard.words, release).tolist(), strict=True):
        found[text] = ConstraintMetrics(
            k=None if line[at.Promise.kind] == at.BY_UNIQUE else line[at.Promise.k],
            used=bool(line[at.Promise.is_used]) and bool(shard.words[at.Head.releasing]),
            seen=max(line[at.Promise.seen], line[at.Promise.before]),
            measured=line[at.Promise.measured],
            violations=line[at.Promise.violations],
            released=line[at.Promise.released],
        )
    return found
