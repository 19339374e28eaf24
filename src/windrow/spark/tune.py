"""Session settings under which Spark hands rows to Python faster, and writes what is new instead of all there is."""

from typing import Any

from windrow.spark.store import CHANGELOG, PROVIDER, ROCKSDB

SETTINGS = {
    # With any other limit Spark measures the batch it fills after every single row, which takes as long as filling it.
    # Batches still end after spark.sql.execution.arrow.maxRecordsPerBatch rows, 10,000 by default.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    # The one store to whose states one can append; with a changelog a commit writes what the micro-batch has changed.
    PROVIDER: ROCKSDB,
    CHANGELOG: "true",
}


def tune(session: Any) -> dict[str, str | None]:
    """Set what makes joins faster on a Spark session, before they are written down, and say what was set before.

    Not done unasked, because settings hold for the whole session: functions in Python then get batches that only the
    number of rows limits. That is too much memory where rows of a hundred kilobytes pass through them, and a join's
    micro-batch must stay below 2 GB a shard; and queries with a new checkpoint use the RocksDB store. Undone by
    `session.conf.set`, or `unset` where None was set before.
    """
    before = {name: session.conf.get(name, None) for name in SETTINGS}
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    return before
