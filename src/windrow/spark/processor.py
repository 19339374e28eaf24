"""The stateful processor: the operator behind Spark's `transformWithState`, where a micro-batch appends to its state.

It asks for the RocksDB store. Silent shards are woken by timers in event time: without rows of its own a shard would
never hear that the watermark has moved, and its rows would stay. A timer stands a part of the longest window ahead of
the watermark that the shard knows; shards that have rows let it pass.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from windrow.spark.job import Job
from windrow.spark.operator import Operator
from windrow.spark.warm import Cache

HEAD, PIECE, ENTRY, NUMBER = "head string", "data binary", "watermark long, blobs binary", "number long"


class Shards(StatefulProcessor):
    """Runs the operator over the shards of one partition."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the parts of the state (deltas.py)."""
        self.store = SparkStore(
            handle,
            handle.getValueState("head", HEAD),
            handle.getMapState("pieces", NUMBER, PIECE),
            handle.getMapState("log", NUMBER, ENTRY),
        )

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """One micro-batch of a shard."""
        return self._push(key, rows, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        """The watermark has moved: rows of a silent shard expire."""
        return self._push(key, (), timerValues)

    def _push(self, key: Any, frames: Iterable[Any], timers: Any) -> Iterator[Any]:
        mark = timers.getCurrentWatermarkInMs() if self.job.marked else 0
        for result in Operator(self.job).append(int(key[0]), frames, self.store, mark, warm()):
            yield result.to_pandas()

    def close(self) -> None:
        """Nothing is open."""


@lru_cache(maxsize=1)
def warm() -> Cache:
    """The engines that are kept on this machine between micro-batches."""
    return Cache()


class SparkStore:
    """A shard's state in Spark's store (deltas.py)."""

    def __init__(self, handle: Any, head: Any, pieces: Any, log: Any) -> None:
        self._handle, self._head, self._pieces, self._log = handle, head, pieces, log

    def head(self) -> str | None:
        """The head, or None where there is no state."""
        found = self._head.get()
        return None if found is None else str(found[0])

    def set_head(self, text: str) -> None:
        """Write the head."""
        self._head.update((text,))

    def piece(self, number: int) -> bytes:
        """A piece of the snapshot."""
        return bytes(self._pieces.getValue((number,))[0])

    def set_piece(self, number: int, data: bytes) -> None:
        """Write a piece of the snapshot."""
        self._pieces.updateValue((number,), (data,))

    def remove_piece(self, number: int) -> None:
        """Remove a piece of the snapshot."""
        self._pieces.removeKey((number,))

    def entry(self, number: int) -> tuple[int | None, bytes]:
        """A push of the log: the watermark behind it, and its blobs."""
        watermark, data = self._log.getValue((number,))
        return watermark, bytes(data)

    def add_entry(self, number: int, watermark: int | None, data: bytes) -> None:
        """Append a push to the log."""
        self._log.updateValue((number,), (watermark, data))

    def remove_entry(self, number: int) -> None:
        """Remove a push from the log."""
        self._log.removeKey((number,))

    def wake_at(self, millis: int) -> None:
        """Call the shard when the watermark passes a time."""
        self._handle.registerTimer(millis)
