"""What stands before a join in its streaming query, as far as it can be seen when the join is written down.

Spark runs one operator of the join's kind (applyInPandasWithState) in a streaming query, and none behind a streaming
aggregation; it says so when the query starts, in many lines. The text of a plan is all that Spark tells of it without
its inner classes, in classic sessions and through Connect.
"""

import io
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from windrow.errors import SpecError

_NODE = r"^[\s:+\-!*()\d]*{}\b"  # at the beginning of a line, behind the lines of the tree and marks of Spark's
STANDS_BEFORE = {
    re.compile(_NODE.format("FlatMapGroupsIn(Pandas|Python)WithState"), re.M): (
        "comes from another windrow join, or applyInPandasWithState, and Spark runs one of them in a streaming query: "
        "join all streams at once (Query.on_spark), or write its matches out and read them in a query of their own"
    ),
    re.compile(_NODE.format("(SessionWindow)?StateStoreSave"), re.M): (
        "comes from an aggregation, and Spark runs no windrow join behind one in the same streaming query: write it "
        "out and read it in a query of its own"
    ),
}


def refuse_chained(frame: Any, stream: str) -> None:
    """Refuse a streaming frame before which Spark will run no join."""
    if not frame.isStreaming:
        return
    plan = ""
    with suppress(Exception):  # whatever cannot be explained will be told by Spark
        plan = plan_text(frame)
    for found, why in STANDS_BEFORE.items():
        if found.search(plan):
            raise SpecError(f"stream {stream!r} {why}")


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


@contextmanager
def _overheard() -> Iterator[_Heard]:
    before, heard = sys.stdout, _Heard(sys.stdout)
    sys.stdout = heard
    try:
        yield heard
    finally:
        sys.stdout = before
