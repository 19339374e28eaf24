"""Windows: whether two rows lie in each other's."""

from windrow.kernels.apart import apart, length
from windrow.kernels.chains import stream_at
from windrow.kernels.jit import inline
from windrow.kernels.layout import NEAR, REACH, SINCE
from windrow.kernels.memory import Memory


@inline
def pair_fits(m: Memory, mine: int, my_time: int, other: int, time: int) -> int:
    """1 if two rows lie in each other's windows, 0 if not, -1 if not and older rows of `other` will not either."""
    if my_time > time:  # theirs is the older one: their window decides
        at = stream_at(m, other)
        return -1 if apart(my_time, time) > length(m.w[at + REACH]) or time < m.w[at + SINCE] else 1
    at = stream_at(m, mine)
    if my_time < time:
        return 0 if apart(time, my_time) > length(m.w[at + REACH]) or my_time < m.w[at + SINCE] else 1
    near = m.w[at + NEAR] != 0 or m.w[stream_at(m, other) + NEAR] != 0
    return 1 if near and time >= m.w[stream_at(m, min(mine, other)) + SINCE] else 0
