"""Outbox: messages to one neighbour, kept until it has acknowledged them.

A message is known by its step and interval, and a step's messages are sent in order of interval, so an acknowledgement
is one interval for each step. After a connection has ended all that was not acknowledged is sent again.
"""

import threading
from collections import deque
from collections.abc import Mapping


class Outbox:
    """What one neighbour has not acknowledged."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.kept: dict[tuple[str, int], bytes] = {}
        self.unsent: deque[tuple[str, int]] = deque()
        self.bytes = 0  # kept
        self.sent = {"messages": 0, "bytes": 0, "again": 0}
        self._steps: dict[str, deque[int]] = {}
        self._acknowledged: dict[str, int] = {}
        self._once: dict[str, int] = {}  # the last interval of each step that was sent
        self.needless = False  # the neighbour has all that it needs

    def put(self, step: str, interval: int, data: bytes) -> None:
        """Keep a message, and send it when that can be done."""
        with self.changed:
            if self.needless or interval <= self._acknowledged.get(step, -1):
                return
            self.kept[step, interval] = data
            self._steps.setdefault(step, deque()).append(interval)
            self.unsent.append((step, interval))
            self.bytes += len(data)
            self.changed.notify_all()

    def acknowledge(self, until: Mapping[str, int]) -> None:
        """The neighbour has the messages of some steps up to some intervals, and will not forget them."""
        with self.changed:
            for step, interval in until.items():
                self._acknowledged[step] = max(interval, self._acknowledged.get(step, -1))
                waiting = self._steps.get(step, deque())
                while waiting and waiting[0] <= interval:
                    self.bytes -= len(self.kept.pop((step, waiting.popleft())))

    def discard(self) -> None:
        """The neighbour needs nothing more."""
        with self.changed:
            self.needless = True
            self.kept.clear()
            self._steps.clear()
            self.unsent.clear()
            self.bytes = 0
            self.changed.notify_all()

    def rewind(self) -> None:
        """A new connection: whatever is kept must be sent."""
        with self.changed:
            self.unsent = deque(self.kept)

    def following(self, wait: float) -> bytes | None:
        """The message to send next; None if there is none for so many seconds, or somebody wants attention."""
        with self.changed:
            if not self.unsent:
                self.changed.wait(wait)
            while self.unsent:
                key = self.unsent.popleft()
                data = self.kept.get(key)
                if data is not None:
                    self._count(key, len(data))
                    return data
            return None

    def _count(self, key: tuple[str, int], size: int) -> None:
        step, interval = key
        again = interval <= self._once.get(step, -1)
        self._once[step] = max(interval, self._once.get(step, -1))
        self.sent["messages"] += 1
        self.sent["bytes"] += size
        self.sent["again"] += again

    def wake(self) -> None:
        """Want attention."""
        with self.changed:
            self.changed.notify_all()

    def state(self) -> list[tuple[str, int, bytes]]:
        """What is kept."""
        with self.changed:
            return [(step, interval, data) for (step, interval), data in self.kept.items()]
