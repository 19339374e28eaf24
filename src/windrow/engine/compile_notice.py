"""What is said while the kernels of a join are compiled: which join it is, and how long that takes."""

from collections.abc import Iterable
from contextlib import AbstractContextManager

from windrow.kernels.notice import NOTICE
from windrow.spec import Query

# Seconds of one core at some 4 GHz with nothing on disk, for two streams with a common key and for others; None is any
# other policy. Those of two streams under a policy that is deferred have the exact join's in them, which is compiled
# before. `windrow compile --policy NAME --streams NUMBER --json` measures one of them, in a new NUMBA_CACHE_DIR.
SECONDS: dict[str | None, tuple[float, float]] = {"exact": (10, 10), "auto": (25, 25), None: (23, 23)}
CONSTRAINED = 5.0  # more for an exact join with constraints; policies have what these need
FURTHER = 0.5  # what one more policy takes, of the time that it takes alone


def announce(query: Query, defers: bool, pair: bool) -> None:
    """What is compiled from now on is compiled for a query; if its policy is deferred, for the exact join at first.

    Each kind of join is named as what it is compiled for, once per machine: policy, constraints, and whether it is one
    of two streams with a common key (`pair`), whose driver is another.
    """
    policy = "exact" if query.memory is None or query.on_full == "fail" else query.policy.name
    what, seconds = _called(query, policy, pair), _seconds(policy, not pair)
    if policy == "exact" and query.constraints:
        seconds += CONSTRAINED
    if defers:
        NOTICE.expect(query.policy.rule, what, seconds - _seconds("exact", not pair))
        what, seconds = f"the beginning of {what}", _seconds("exact", not pair)
    NOTICE.describe(what, seconds)


def _called(query: Query, policy: str, pair: bool) -> str:
    streams = "two streams" if len(query.streams) == 2 else "several streams"
    streams += "" if pair or len(query.streams) > 2 else " by more than a key"
    promised = " with constraints" if query.constraints else ""
    if policy == "exact":
        return f"the exact join of {streams}{promised}"
    return f"the join of {streams} under {policy.upper()}{promised}"


def together(what: str, policies: Iterable[str]) -> AbstractContextManager[None]:
    """What is compiled inside is compiled for all these, and joins of two streams."""
    each = [_seconds(policy, False) for policy in policies]
    return NOTICE.pinned(what, max(each) + FURTHER * (sum(each) - max(each)))


def _seconds(policy: str, several: bool) -> float:
    return SECONDS.get(policy, SECONDS[None])[several]
