"""The roll call: shards that have no rows are asked for their counters, in the first micro-batch of a run and later.

Spark calls a shard that has rows, and counters travel with what it gives. So packers send every shard a row that says
no more than that it is called. A shard that has nothing else answers with the counters that its state remembers, those
of its last committed push, and neither takes anything nor writes anything: calling twice, or once too often, changes
nothing, and a micro-batch that is retried is the same with and without.

Nobody tells a task that its micro-batch is the first of a run. But a run has an id, and a process that has not heard of
it calls the roll. So does one that comes later, and every micro-batch whose number is a multiple of `EVERY`: whoever
begins to read the counters of a query that runs for long finds them in its last reports, of which Spark keeps 100.
"""

from collections.abc import Sequence

import pyarrow as pa

CALL = -1  # in the place of a stream
EVERY = 50  # micro-batches
CALLED = "called"  # beside the counters of a shard: with this micro-batch all shards have told theirs

_begun: dict[tuple[str, str], int] = {}  # by run and join, the first micro-batch that this process has packed


def is_called(join: str) -> bool:
    """Whether the shards of a join are called in the micro-batch that is being packed."""
    moment = _moment()
    if moment is None:
        return False
    run, batch = moment
    return _begun.setdefault((run, join), batch) == batch or batch % EVERY == 0


def _moment() -> tuple[str, int] | None:
    """The run and the micro-batch of this task, as Spark tells them; None where there are none."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return None
    run, batch = context.getLocalProperty("spark.jobGroup.id"), context.getLocalProperty("streaming.sql.batchId")
    return None if run is None or batch is None else (run, int(batch))


def calls(shards: Sequence[int], source: int, schema: pa.Schema) -> pa.RecordBatch:
    """A row for each shard, between blobs (pack.py)."""
    n = len(shards)
    columns = {"shard": list(shards), "stream": [CALL] * n, "source": [source] * n, "number": [0] * n}
    given = {**columns, "latest": [None] * n, "rows": [b""] * n}
    return pa.record_batch([pa.array(given[field.name], field.type) for field in schema], schema=schema)
