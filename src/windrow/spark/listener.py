"""The listener that brings a streaming query's counters to its `QueryMetrics`."""

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from windrow.spark.metrics import QueryMetrics


class Listener(StreamingQueryListener):
    """Follows one query."""

    def __init__(self, run: str, target: QueryMetrics) -> None:
        self.run = run
        self.target = target

    def onQueryStarted(self, event: Any) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: Any) -> None:
        """Take over the counters of a micro-batch."""
        if str(event.progress.runId) == self.run:
            self.target.take(event.progress.observedMetrics)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing has changed."""

    def onQueryTerminated(self, event: Any) -> None:
        """The last counters stay."""


def attach(query: Any, target: QueryMetrics) -> None:
    """Follow a query from now on, and take over what it has reported so far."""
    session = SparkSession.getActiveSession()
    assert session is not None, "a streaming query has a session"
    session.streams.addListener(Listener(str(query.runId), target))
    for progress in query.recentProgress:
        target.take(progress.observedMetrics)
