"""A notice on the error stream that kernels are being compiled: one line for each kind of join, while it goes on.

Loading compiled kernels takes a moment and is not worth a word; nor are the first seconds of compiling. Time counts
from one compiled function to the next, for they come by the dozen, and with it the time in which this process waits for
another one that compiles the same.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from windrow.kernels.compiled import FOLDER

PATIENCE = 2.0  # seconds of compiling that nobody needs to hear of
MOST_SLOWED = 4.0  # a process that gets less of a core than one part in so many waits for something else


class Notice:
    """What is being compiled, since when, and whether that has been said."""

    def __init__(self) -> None:
        self.say: Callable[[str], None] = _to_the_error_stream
        self._seconds: float | None
        self._what, self._seconds = "its kernels", None
        self._expected: dict[str, tuple[str, float]] = {}
        self._pinned = False
        self._said = False
        self._told: set[str] = set()
        self._depth = 0
        self._wall = self._core = self._spent = self._spent_core = 0.0
        self._began = self._all = 0.0
        self._timer: threading.Timer | None = None

    def describe(self, what: str, seconds: float | None) -> None:
        """What kernels are for from now on, and how long all of them take to compile, on a core of their own."""
        if self._pinned or (what, seconds) == (self._what, self._seconds):
            return
        self._what, self._seconds = what, seconds
        self._said, self._spent, self._spent_core = what in self._told, 0.0, 0.0

    def expect(self, policy: str, what: str, seconds: float) -> None:
        """The same for when a policy begins that is deferred."""
        self._expected[policy] = what, seconds

    def turn_to(self, policy: str) -> None:
        """A policy begins, or takes the place of another one."""
        if policy in self._expected:
            self.describe(*self._expected[policy])

    @contextmanager
    def pinned(self, what: str, seconds: float | None) -> Iterator[None]:
        """The same for all that is done inside, whatever its parts say of themselves."""
        self.describe(what, seconds)
        self._pinned = True
        try:
            yield
        finally:
            self._pinned = False

    def began(self) -> None:
        """A function is being compiled; functions that it calls may follow inside."""
        self._depth += 1
        if self._depth == 1:
            self._began = time.perf_counter()
        if self._depth > 1 or self._said:
            return
        self._wall, self._core = time.perf_counter(), time.process_time()
        self._timer = threading.Timer(max(0.0, PATIENCE - self._spent), self._speak)
        self._timer.daemon = True
        self._timer.start()

    def ended(self) -> None:
        """The function is there."""
        self._depth -= 1
        if self._depth == 0:
            self._all += time.perf_counter() - self._began
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._spent += time.perf_counter() - self._wall
            self._spent_core += time.process_time() - self._core

    @property
    def seconds(self) -> float:
        """How long this process has compiled so far, or waited for another one that compiles the same."""
        return self._all

    def _speak(self) -> None:
        if self._said:
            return
        self._said = True
        self._told.add(self._what)
        often = "once per machine"
        if FOLDER is None:
            often = "in every process, for no folder takes it (NUMBA_CACHE_DIR names one)"
        long = "this may take a minute or more"
        if self._seconds is not None:
            long = f"about {_rounded(self._seconds * self._slowed())} s"
        self.say(f"windrow is compiling {self._what}, {often}: {long}")

    def _slowed(self) -> float:
        """How much longer compiling takes than on a core of its own, by what has been seen of it."""
        wall = self._spent + time.perf_counter() - self._wall
        core = self._spent_core + time.process_time() - self._core
        return max(1.0, wall / core) if core * MOST_SLOWED > wall else 1.0


def _to_the_error_stream(line: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _rounded(seconds: float) -> int:
    """Seconds as one says them."""
    return max(1, round(seconds)) if seconds < 10 else round(seconds / 5) * 5


NOTICE = Notice()
