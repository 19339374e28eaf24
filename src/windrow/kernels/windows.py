"""Windows: whether two rows lie in each other's."""

from windrow.kernels.distances import apart, length
from windrow.kernels.jit import inline
from windrow.kernels.memory import Memory
from windrow.kernels.places import stream_at


@inline
def pair_fits(m: Memory, mine: int, my_time: int, other: int, time: int) -> int:
    """1 if two rows lie in each other's windows, 0 if not, -1 if not and older rows of `other` will not either."""
    if my_time > time:  # theirs is the older one: their window decides
        at = stream_at(m, other)
        return -1 if apart(my_time, time) > length(at.reach) or time < at.since else 1
    at = stream_at(m, mine)
    if my_time < time:
        return 0 if apart(time, my_time) > length(at.reach) or my_time < at.since else 1
    near = at.near != 0 or stream_at(m, other).near != 0
    return 1 if near and time >= stream_at(m, min(mine, other)).since else 0
