"""The session's state store: whether states can be appended to, and what to say where they cannot."""

import logging
from typing import Any

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"

_log = logging.getLogger("windrow.spark")
_said = False


def appends(frame: Any) -> bool:
    """Whether the store of a frame's session appends what a micro-batch brings; if not, that is said once."""
    global _said
    if frame.sparkSession.conf.get(PROVIDER, "").endswith("RocksDBStateStoreProvider"):
        return True
    if not _said:
        _said = True
        _log.warning(
            "the session's state store cannot append, so every micro-batch reads and writes the whole state of its "
            "shards: windrow.spark.tune(spark) chooses the RocksDB store, for queries with a new checkpoint"
        )
    return False
