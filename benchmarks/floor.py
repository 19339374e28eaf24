"""The floor: the least that an exact count of a two-stream window join can do, as a bare loop.

Per arrival one lookup in a hash table, one append to a ring, and the rows that fall out of the window: no policy,
no bytes, no payload, no snapshot, no keys that go away. What the engine costs beyond this is the price of
everything else it does.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@njit(cache=True)
def count_matches(stream: Ints, time: Ints, code: Ints, window: int, table_size: int, ring: int) -> int:
    """Matches of rows in time order; window: `time - window < resident's time`; sizes are powers of two."""
    mask = table_size - 1
    codes = np.zeros(table_size, np.int64)
    used = np.zeros(table_size, np.bool_)
    count = np.zeros((table_size, 2), np.int64)
    times, places = np.empty((2, ring), np.int64), np.empty((2, ring), np.int64)
    head, tail = np.zeros(2, np.int64), np.zeros(2, np.int64)
    matched = 0
    for i in range(len(code)):
        mine, now = stream[i], time[i]
        for s in range(2):  # expire
            while head[s] < tail[s] and times[s, head[s] & (ring - 1)] <= now - window:
                count[places[s, head[s] & (ring - 1)], s] -= 1
                head[s] += 1
        at = code[i] & mask  # look up
        while used[at] and codes[at] != code[i]:
            at = (at + 1) & mask
        codes[at], used[at] = code[i], True
        matched += count[at, 1 - mine]
        times[mine, tail[mine] & (ring - 1)] = now  # append
        places[mine, tail[mine] & (ring - 1)] = at
        tail[mine] += 1
        count[at, mine] += 1
    return matched
