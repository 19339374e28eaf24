"""What stands before a join in its streaming query, as far as it can be seen when the join is written down.

With states that can be appended to (store.py) joins stand behind joins and aggregations. A watermark is declared once
on the way of a row: behind another operator a join goes by the one that Spark hands on. It fits what comes from there
if the time column carries it, or if the join is told by `lateness` how far behind rows may lie. With whole snapshots
(applyInPandasWithState) Spark runs one join in a streaming query, and none behind an aggregation; it says so when the
query starts, in many lines. The text of a plan is all that Spark tells of it without its inner classes, in classic
sessions and through Connect.
"""

import io
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from windrow.errors import SpecError
from windrow.spark.frames import declared_lateness
from windrow.spec import Stream

_NODE = r"^[\s:+\-!*()\d]*{}\b"  # at the beginning of a line, behind the lines of the tree and marks of Spark's
WHOLE, DELTAS, AGGREGATION, MARK = (
    re.compile(_NODE.format(name), re.M)
    for name in (
        "FlatMapGroupsIn(Pandas|Python)WithState",
        "TransformWithStateIn(Pandas|PySpark)",
        "(SessionWindow)?StateStoreSave",
        "EventTimeWatermark",
    )
)
APART = "write it out and read it in a query of its own"
TUNE = "choose the RocksDB state store (windrow.spark.tune) before the joins are written down"


def stands_behind(frame: Any, stream: Stream, appending: bool) -> bool:
    """Whether a stream's rows come from another operator, with a watermark that its time does not carry.

    Refuses a streaming frame behind which Spark will run no join. `appending` tells whether its state can be appended
    to.
    """
    if not frame.isStreaming:
        return False
    plan, carried = "", declared_lateness(frame, stream.name, stream.time) is not None
    with suppress(Exception):  # whatever cannot be explained will be told by Spark
        plan = plan_text(frame)
    for why in _reasons(plan, appending):
        raise SpecError(f"stream {stream.name!r} {why}")
    behind = appending and not carried and MARK.search(plan) is not None
    if behind and not stream.lateness.amount:
        raise SpecError(
            f"stream {stream.name!r} comes from a join or an aggregation, and its time {stream.time!r} carries no "
            "watermark: say with lateness= how far its rows may lie behind (as long as the windows before it), or "
            f"take window_time(window) of an aggregation, or {APART}"
        )
    return behind


def refuse_behind(frame: Any, name: str) -> None:
    """Refuse a streaming frame behind which Spark runs no query text as one task."""
    if not frame.isStreaming:
        return
    plan = ""
    with suppress(Exception):  # whatever cannot be explained will be told by Spark
        plan = plan_text(frame)
    if any(node.search(plan) for node in (WHOLE, DELTAS, AGGREGATION)):
        raise SpecError(
            f"stream {name!r} comes from a windrow join or an aggregation, and behind one Spark runs only query texts "
            f"that are one join: {APART}"
        )


def _reasons(plan: str, appending: bool) -> Iterator[str]:
    if WHOLE.search(plan) or (DELTAS.search(plan) and not appending):
        yield (
            "comes from another windrow join, and with the session's state store Spark runs one of them in a streaming "
            f"query: {TUNE}, or join all streams at once (Query.on_spark), or {APART}"
        )
    if AGGREGATION.search(plan) and not appending:
        yield (
            "comes from an aggregation, and with the session's state store Spark runs no windrow join behind one in "
            f"the same streaming query: {TUNE}, or {APART}"
        )


def plan_text(frame: Any) -> str:
    """Spark's plan of a frame, which it can only print."""
    with _overheard() as heard:
        frame.explain()
    return heard.getvalue()


class _Heard(io.StringIO):
    """What one thread prints; other threads print where they did before."""

    def __init__(self, others: TextIO) -> None:
        super().__init__()
        self.others, self.thread = others, threading.get_ident()

    def write(self, text: str) -> int:
        """Hear the thread, or hand on."""
        return super().write(text) if threading.get_ident() == self.thread else self.others.write(text)


_ONE = threading.Lock()  # whoever listens second would put back what the first has put in


@contextmanager
def _overheard() -> Iterator[_Heard]:
    with _ONE:
        before, heard = sys.stdout, _Heard(sys.stdout)
        sys.stdout = heard
        try:
            yield heard
        finally:
            sys.stdout = before
