"""No policy: an exact join, one that stops when its memory is full, or one whose policy is deferred.

A join of two streams with a common key is an exact join as long as a small part of its memory is used: the same driver
on the same records, and nothing is kept, learned or ranked. Before a group of rows that may bring a pool to a quarter
of its cap, in rows or in bytes, and once an eighth of the bytes is used, the driver comes back (BEGIN). Records then
get the words that the policy keeps, the block gets leaves or lists, and the policy's `begins` fills them from the
residents. Those are all rows that have come, unless some have expired meanwhile, and then memory is ample. Nothing has
been shed by then: no group passes a cap without bringing it to a quarter first.
"""

from typing import Any

from windrow.kernels.jit import inline
from windrow.kernels.layout import BEGIN, DONE, R_COST
from windrow.kernels.memory import Memory
from windrow.kernels.places import pool_at
from windrow.kernels.settle import row_words

BASE = "policy"


@inline
def unready(h: Any, m: Memory, r: Any, start: int, end: int) -> int:
    """BEGIN when a group may bring a pool to a quarter of its cap, whichever pool its rows belong to; and in bytes, of
    which few groups have more than an eighth, when that is used."""
    if m.head.begun != 0:
        return DONE
    cost, words = (end - start) * m.head.key_bytes, row_words(m)
    for k in range(start, end):
        cost += r[k * words + R_COST]
    for pool in range(m.pools):
        line = pool_at(m, pool)
        if line.used_rows + end - start > line.cap_rows >> 2 or line.used_bytes > line.cap_bytes >> 3:
            return BEGIN
        if line.used_bytes + cost > line.cap_bytes >> 2:
            return BEGIN
    return DONE
