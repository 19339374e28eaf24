"""The contestants: the same streams joined by windrow, joined by Spark itself, and only shuffled.

Each gives a frame whose rows are counted and fingerprinted on their way out, so that equal answers can be asserted
batch by batch. The sink throws them away.
"""

import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core_seconds import CoreSeconds, python_bytes
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener
from stream_files import LATENESS, SIDES, WINDOW, Streams

import windrow as wr
from windrow.spark.store import PROVIDER, ROCKSDB

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
OUTPUT = ("key", "left_ts", "left_amount", "right_ts", "right_amount")


@dataclass(frozen=True)
class Contestant:
    """A query over the streams, and where its state is kept."""

    frame: Callable[..., DataFrame]
    provider: str = HDFS


@dataclass
class Run:
    """What one run of a contestant showed, micro-batch by micro-batch."""

    seconds: list[float] = field(default_factory=list)
    core: list[float] = field(default_factory=list)  # seconds of a core: JVM and Python workers
    parts: list[dict[str, int]] = field(default_factory=list)
    answers: list[tuple[int, int]] = field(default_factory=list)  # matches, and a sum of their hashes
    state: dict[str, int] = field(default_factory=dict)  # of the last micro-batch
    counters: dict[str, Any] = field(default_factory=dict)  # of windrow
    written_bytes: int = 0  # by the checkpoint's state, over all micro-batches
    written: list[int] = field(default_factory=list)  # the same up to each micro-batch, with files that have gone since
    folder_bytes: int = 0  # of the checkpoint at the end
    workers: list[int] = field(default_factory=list)  # memory of all Python workers after each micro-batch


def windrow(left: DataFrame, right: DataFrame) -> DataFrame:
    return wr.join(left, right, on="key", time="ts", within=f"{WINDOW} seconds")


def spark_join(left: DataFrame, right: DataFrame) -> DataFrame:
    a, b = (
        frame.select(
            F.col("key").alias(f"{side}_key"), F.col("ts").alias(f"{side}_ts"), F.col("amount").alias(f"{side}_amount")
        )
        for side, frame in zip(SIDES, (left, right), strict=True)
    )
    width = f"interval {WINDOW} seconds"
    near = F.expr(f"left_key = right_key and right_ts > left_ts - {width} and right_ts < left_ts + {width}")
    return a.join(b, near).select(F.col("left_key").alias("key"), *OUTPUT[1:])


def shuffle(left: DataFrame, right: DataFrame) -> DataFrame:
    partitions = int(left.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    return left.unionByName(right).repartition(partitions, "key")


CONTESTANTS = {
    "shuffle only": Contestant(shuffle),
    "windrow": Contestant(windrow, ROCKSDB),
    "spark, HDFS store": Contestant(spark_join),
    "spark, RocksDB store": Contestant(spark_join, ROCKSDB),
    "windrow, HDFS store": Contestant(windrow),
}


def run(spark: SparkSession, contestant: Contestant, streams: Streams, scratch: Path) -> Run:
    """Drive a contestant through all files from an empty state, one micro-batch after the other."""
    spark.conf.set(PROVIDER, contestant.provider)
    checkpoint = scratch / f"checkpoint-{time.monotonic_ns()}"
    sides = [
        spark.readStream.schema(streams.schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(streams.path(side))
        .withWatermark("ts", f"{LATENESS} seconds")
        for side in streams.sides
    ]
    frame = contestant.frame(*sides)
    frame = frame.observe("answer", F.count(F.lit(1)).alias("n"), F.sum(_hash(frame)).alias("sum"))
    watch = Watch(checkpoint / "state")
    spark.streams.addListener(watch)
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    counters = wr.spark.metrics(query)
    query.awaitTermination()
    watch.ended.wait(60)
    spark.streams.removeListener(watch)
    found = _read(query.recentProgress, streams)
    used = [watch.core[b] - watch.core[b - 1] for b in sorted(watch.core) if b]
    found.core = used[streams.filling - 1 :][: streams.batches]
    found.counters = counters.to_dict() if counters.shards else {}
    found.written = [sum(watch.written[b].values()) for b in sorted(watch.written)]
    found.written_bytes = found.written[-1]
    found.workers = watch.workers
    found.folder_bytes = sum(sizes(checkpoint).values())
    shutil.rmtree(checkpoint)
    return found


def _hash(frame: DataFrame) -> Any:
    """A number per row that is spread evenly and can be added up without overflow."""
    return F.pmod(F.xxhash64(*sorted(frame.columns)), F.lit(2**31 - 1))


def sizes(folder: Path) -> dict[str, int]:
    """The files of a folder, and their bytes."""
    found = {}
    for file in folder.rglob("*"):
        with suppress(OSError):  # it has gone meanwhile
            if file.is_file():
                found[str(file)] = file.stat().st_size
    return found


class Watch(StreamingQueryListener):
    """Notes after every micro-batch how much of the cores has been used, and what was written to a folder."""

    def __init__(self, folder: Path) -> None:
        self.core: dict[int, float] = {}
        self.folder, self.written = folder, dict[int, dict[str, int]]()
        self.workers: list[int] = []
        self.clock = CoreSeconds()
        self.ended = threading.Event()

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        batch = event.progress.batchId
        self.core[batch] = self.clock.read()
        self.workers.append(python_bytes())
        self.written[batch] = {**self.written.get(batch - 1, {}), **sizes(self.folder)}

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        self.ended.set()


def _read(progress: list[Any], streams: Streams) -> Run:
    found = Run()
    for batch in [p for p in progress if p.numInputRows][streams.filling :]:
        found.seconds.append(batch.durationMs["triggerExecution"] / 1000)
        found.parts.append(dict(batch.durationMs))
        answer = batch.observedMetrics["answer"]
        found.answers.append((answer["n"], answer["sum"] or 0))
        assert batch.numInputRows == (streams.batch_rows or batch.numInputRows), batch.numInputRows
        assert not any(o.numRowsDroppedByWatermark for o in batch.stateOperators), "no row is late"
        states = [_state(operator) for operator in batch.stateOperators]
        found.state = {name: sum(state[name] for state in states) for name in states[0]} if states else {}
    assert len(found.seconds) == streams.batches, (len(found.seconds), streams.batches)
    return found


def _state(operator: Any) -> dict[str, int]:
    """What a stateful operator holds: rows, bytes of the version in use, and bytes with all that the store caches.

    The HDFS-backed store estimates what the version in use takes on the heap, and that is compared; RocksDB knows only
    what its files take.
    """
    custom = operator.customMetrics
    bytes_ = custom.get("stateOnCurrentVersionSizeBytes", custom.get("rocksdbSstFileSize", 0))
    return {"rows": operator.numRowsTotal, "bytes": bytes_, "cached_bytes": operator.memoryUsedBytes}
