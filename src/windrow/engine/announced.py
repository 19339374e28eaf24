"""What is said while the kernels of a join are compiled: which join it is, and how long that takes."""

from collections.abc import Iterable
from contextlib import AbstractContextManager

from windrow.kernels.notice import NOTICE
from windrow.spec import Query

# Seconds of one core at some 4 GHz with nothing on disk, for two streams and for several; None is any other policy.
# `windrow compile --policy NAME --streams NUMBER --json` measures one of them, in a new NUMBA_CACHE_DIR.
SECONDS: dict[str | None, tuple[float, float]] = {"exact": (10, 10), "auto": (25, 25), None: (25, 25)}
FURTHER = 0.5  # what one more policy takes, of the time that it takes alone


def announce(query: Query, defers: bool) -> None:
    """What is compiled from now on is compiled for a query; if its policy is deferred, for the exact join at first."""
    several = len(query.streams) > 2
    policy = "exact" if query.memory is None or query.on_full == "fail" else query.policy.name
    if defers:
        NOTICE.expect(query.policy.rule, *_described(policy, several))
        policy = "exact"
    NOTICE.describe(*_described(policy, several))


def _described(policy: str, several: bool) -> tuple[str, float]:
    """What a join is called, and how long its kernels take to compile."""
    streams = "several streams" if several else "two streams"
    what = f"the exact join of {streams}" if policy == "exact" else f"the join of {streams} under {policy.upper()}"
    return what, _seconds(policy, several)


def together(what: str, policies: Iterable[str]) -> AbstractContextManager[None]:
    """What is compiled inside is compiled for all these, and joins of two streams."""
    each = [_seconds(policy, False) for policy in policies]
    return NOTICE.pinned(what, max(each) + FURTHER * (sum(each) - max(each)))


def _seconds(policy: str, several: bool) -> float:
    return SECONDS.get(policy, SECONDS[None])[several]
