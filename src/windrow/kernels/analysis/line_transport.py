"""Transport on a line: the least work that moves all of a supply into holes, of which there may be more."""

from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from windrow.kernels.jit import entry


@entry
def line_transport(points: NDArray[np.float64], surplus: NDArray[np.int64]) -> Any:
    """The least sum of distances when every unit of supply goes to a hole of its own.

    `points` ascend strictly; surplus[i] > 0 is supply at points[i], < 0 are holes there; all supply fits. The
    cost is O(d log d) for d points.

    Let F be the flow from points[i] on to the right, and f(F) the least work so far that leaves this flow. f
    is convex and made of straight pieces. Each point shifts f: supply moves it to the right; holes, of which
    any number may be filled, move only its falling part to the left. Each gap then adds gap * |F|. Only the
    breakpoints of the falling part matter (those of the rising part are never below 0 and F ends at 0): a
    heap of (position, drop of slope), positions relative to `shift`. Adding gap * |F| puts a breakpoint worth
    two gaps at 0 and takes the rightmost, worth one gap, over to the rising part; each pays its way to 0.
    """
    falling = [(np.int64(0), np.inf)]  # -position, because the heap gives the smallest first
    shift = np.int64(0)
    work = 0.0
    for i in range(points.size - 1):
        shift += surplus[i]
        gap = points[i + 1] - points[i]
        heappush(falling, (shift, 2.0 * gap))
        while gap > 0.0:
            key, drop = heappop(falling)
            taken = min(drop, gap)
            work += taken * (shift - key)
            gap -= taken
            if drop > taken:
                heappush(falling, (key, drop - taken))
    if points.size > 0:
        shift += surplus[points.size - 1]
    for key, drop in falling:
        if key < shift:
            work += drop * (shift - key)
    return work
