"""Deltas: a shard's state as a snapshot and the pushes since, so that a micro-batch writes what it brought.

    head       one small text: which version this is, where snapshot and log begin and end, counters to check
    pieces     the last snapshot, cut into pieces
    log        the blobs of every push since, with the watermark that came behind them

The engine is deterministic, so the snapshot and the logged pushes give the state, bit by bit. A micro-batch appends its
blobs. Where the log would grow beyond the snapshot, a new snapshot takes the place of both. Replaying is done under the
settings of the snapshot, and counters must come out as they were noted.

Each state has a version: a digest chained over all pushes since the beginning, with the settings of each. An engine
that was kept aside under a version (a warm one) is that state, whatever has been retried, killed or set back; any other
is rebuilt from the store.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Protocol

import pyarrow as pa

from windrow.engine import Engine
from windrow.errors import SnapshotError
from windrow.spark.warm import chained

ENTRY = pa.schema([("stream", pa.int32()), ("source", pa.int64()), ("number", pa.int32()), ("rows", pa.binary())])
CODEC = "lz4"
PIECE_BYTES = 1 << 24
LEAST_LOG = 1 << 22  # bytes: below that a log is replayed as fast as a snapshot is read
MOST_ENTRIES = 1_000  # pushes that a restart replays at most
CHECKED = ("arrived", "late", "ignored", "matched", "expired", "released", "shed", "resident_rows", "resident_bytes")


class Store(Protocol):
    """Where the parts of one shard's state are kept; what is written counts when the micro-batch is committed."""

    def head(self) -> str | None:
        """The head, or None where there is no state."""

    def set_head(self, text: str) -> None:
        """Write the head."""

    def piece(self, number: int) -> bytes:
        """A piece of the snapshot."""

    def set_piece(self, number: int, data: bytes) -> None:
        """Write a piece of the snapshot."""

    def remove_piece(self, number: int) -> None:
        """Remove a piece of the snapshot."""

    def entry(self, number: int) -> tuple[int | None, bytes]:
        """A push of the log: the watermark behind it, and its blobs."""

    def add_entry(self, number: int, watermark: int | None, data: bytes) -> None:
        """Append a push to the log."""

    def remove_entry(self, number: int) -> None:
        """Remove a push from the log."""

    def wake_at(self, millis: int) -> None:
        """Call the shard when the watermark passes a time."""


@dataclass(frozen=True)
class Push:
    """What a micro-batch brings to a shard: blobs in the order in which they were packed, and a watermark behind."""

    blobs: pa.RecordBatch
    watermark: int | None

    def data(self) -> pa.Buffer:
        """The blobs as the log has them: compressed, for what the log takes decides when a snapshot is written."""
        return pa.compress(self.blobs.serialize(), CODEC)

    @classmethod
    def of(cls, watermark: int | None, data: bytes) -> "Push":
        """The push of a log entry."""
        plain = pa.CompressedInputStream(pa.BufferReader(data), CODEC).read_buffer()
        return cls(pa.ipc.read_record_batch(plain, ENTRY), watermark)


@dataclass(frozen=True)
class Head:
    """What a state says of itself."""

    identity: str = ""  # the join, and the archive (facts.py, archive.py)
    settings: str = ""  # a digest of those under which the log was written
    version: str = ""
    place: str = ""  # where its engines are kept between micro-batches: equal joins of a query have places of their own
    pushes: int = 0
    pieces: int = 0
    snapshot_bytes: int = 0
    first: int = 0  # number of the oldest push in the log; the newest is that of the last push
    log_bytes: int = 0
    watermark: int | None = None  # the last that was given, in microseconds
    timer: int | None = None  # when the shard is woken if it has no rows until then, in milliseconds
    counters: tuple[int, ...] = ()
    attached: int = 0  # pushes that found the engine warm
    rebuilt: int = 0  # pushes that did not

    def text(self) -> str:
        """As it is written."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str | None) -> "Head":
        """The head of a store; an empty one where there is no state."""
        if text is None:
            return cls()
        found = json.loads(text)
        return cls(**{**found, "counters": tuple(found["counters"])})

    @property
    def resident_rows(self) -> int:
        """Rows that the shard holds."""
        return self.counters[CHECKED.index("resident_rows")] if self.counters else 0

    @property
    def entries(self) -> range:
        """The numbers of the log's pushes."""
        return range(self.first, self.pushes)


def counters_of(engine: Engine) -> tuple[int, ...]:
    """What must come out again when a log is replayed."""
    metrics = engine.metrics
    return tuple(int(getattr(metrics, name)) for name in CHECKED)


@dataclass(frozen=True)
class Deltas:
    """The state of one shard in a store."""

    store: Store
    shard: int

    def replayed(self, head: Head, push: Callable[[Engine, "Push"], None]) -> Engine:
        """The engine of a state, rebuilt; `push` takes one push of the log as the first time."""
        engine = Engine.restore_pieces(self.store.piece(k) for k in range(head.pieces))
        for number in head.entries:
            push(engine, Push.of(*self.store.entry(number)))
        found = counters_of(engine)
        if found != head.counters:
            told = ", ".join(f"{n} {a} and not {b}" for n, a, b in zip(CHECKED, found, head.counters, strict=True))
            raise SnapshotError(
                f"shard {self.shard}: replaying {len(head.entries)} micro-batches of the checkpoint gave {told}: go on "
                "with the windrow that has written it, or start anew with a new checkpoint"
            )
        return engine

    def written(self, head: Head, engine: Engine, push: Push, whole: bool) -> Head:
        """Write what a push has changed: its blobs or, where they are no less (or if asked for), a new snapshot."""
        data = push.data()
        version = chained(head.version, head.settings.encode(), repr(push.watermark).encode(), data)
        head = replace(head, pushes=head.pushes + 1, version=version)
        head = replace(head, watermark=push.watermark or head.watermark, counters=counters_of(engine))
        room = max(LEAST_LOG, head.snapshot_bytes)
        if whole or not head.pieces or head.log_bytes + data.size > room or len(head.entries) > MOST_ENTRIES:
            head = self._snapshot(head, engine)
        else:
            self.store.add_entry(head.pushes - 1, push.watermark, data.to_pybytes())
            head = replace(head, log_bytes=head.log_bytes + data.size)
        return head

    def _snapshot(self, head: Head, engine: Engine) -> Head:
        pieces = size = 0
        for piece in engine.snapshot_pieces(PIECE_BYTES):
            self.store.set_piece(pieces, piece)
            pieces, size = pieces + 1, size + len(piece)
        for number in range(pieces, head.pieces):
            self.store.remove_piece(number)
        for number in range(head.first, head.pushes - 1):
            self.store.remove_entry(number)
        return replace(head, pieces=pieces, snapshot_bytes=size, first=head.pushes, log_bytes=0)
