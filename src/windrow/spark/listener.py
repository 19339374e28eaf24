"""The listener that brings a streaming query's counters to its `QueryMetrics`."""

import threading
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from windrow.spark.metrics import QueryMetrics


class Listener(StreamingQueryListener):
    """Follows one query, until it ends."""

    def __init__(self, session: Any, run: str, target: QueryMetrics) -> None:
        self.session = session
        self.run = run
        self.target = target

    def onQueryStarted(self, event: Any) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: Any) -> None:
        """Take over the counters of a micro-batch."""
        if str(event.progress.runId) == self.run:
            self.target.take(event.progress.observedMetrics, event.progress.batchId)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing has changed."""

    def onQueryTerminated(self, event: Any) -> None:
        """The last counters stay. Connect waits for listeners before a program ends, so this one leaves."""
        if str(event.runId) == self.run:  # in a thread, because a listener that removes itself waits for itself
            threading.Thread(target=self._leave, name="windrow-leaves", daemon=True).start()

    def _leave(self) -> None:
        with suppress(Exception):  # the session may have ended
            self.session.streams.removeListener(self)


def attach(query: Any, target: QueryMetrics) -> None:
    """Follow a query from now on. Where its session is not to be found, its own reports alone are read."""
    if query.isActive and (session := _session()) is not None:
        session.streams.addListener(Listener(session, str(query.runId), target))


def _session() -> Any:
    """The session of this thread or, in a thread that has none, the one that there is."""
    with suppress(Exception):  # there is none, and none is made
        return SparkSession.active()
    return None
