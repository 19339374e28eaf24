"""Prices on time: the bound that they prove, and the schedule that they lead to.

A price per gap is what a place of memory costs over it. At any prices, no schedule can gain more than all places cost
together and what each row, paying for its place, would gain by itself. A row pays for a prefix of its events; the best
one is a maximum over a range of `worth[event] = gained until then - paid until then`, found in a segment tree.

    spans      lo[row], hi[row]: the row's events are lo <= event < hi, in order of time
    gained     gained[event]: the sum of all gains before the event, over all events in order
    paid       paid[instant]: the sum of the prices of all gaps before the instant
"""

from typing import Any

import numpy as np

from windrow.kernels.jit import entry, inline


@entry
def grow_tree(worth: Any) -> Any:
    """A segment tree of maxima: leaf k is node n + k."""
    n = worth.shape[0]
    tree = np.empty(2 * max(n, 1), np.float64)
    tree[:] = -np.inf
    for k in range(n):
        tree[n + k] = worth[k]
    for k in range(n - 1, 0, -1):
        tree[k] = max(tree[2 * k], tree[2 * k + 1])
    return tree


@inline
def most(tree: Any, low: int, high: int) -> float:
    """The largest worth of the events low to high - 1."""
    n = tree.shape[0] // 2
    best = -np.inf
    low += n
    high += n
    while low < high:
        if low & 1:
            best = max(best, tree[low])
            low += 1
        if high & 1:
            high -= 1
            best = max(best, tree[high])
        low >>= 1
        high >>= 1
    return best


@entry
def row_surplus(tree: Any, gained: Any, paid: Any, instant: Any, lo: Any, hi: Any) -> float:
    """What all rows would gain beyond what they pay."""
    total = 0.0
    for row in range(instant.shape[0]):
        if lo[row] < hi[row]:
            total += max(0.0, most(tree, lo[row], hi[row]) - gained[lo[row]] + paid[instant[row]])
    return total


@inline
def sift(least: Any, leaf: int, score: float) -> None:
    """Give a leaf another score and repair the path above it."""
    n = least.shape[0] // 2
    k = n + leaf
    least[k] = score
    while k > 1:
        k >>= 1
        least[k] = min(least[2 * k], least[2 * k + 1])


@inline
def least_leaf(least: Any) -> int:
    """The leaf with the lowest score."""
    n = least.shape[0] // 2
    k = 1
    while k < n:
        k = 2 * k if least[2 * k] <= least[2 * k + 1] else 2 * k + 1
    return k - n


@inline
def standing(tree: Any, gained: Any, hi: Any, head: int, next_event: int) -> float:
    """The score of a chain: what its oldest row still has to gain beyond its price, up to what all chains share."""
    if next_event >= hi[head]:
        return -1e300
    return most(tree, next_event, hi[head]) - gained[next_event]


@entry
def follow(
    tree: Any, gained: Any, instant: Any, pool_rows: Any, chain: Any, lo: Any, hi: Any, chains: int,
    event_order: Any, event_instant: Any, event_chain: Any, places: Any, until: Any,
) -> None:  # fmt: skip
    """Run through time and hold, within the places, the rows with the most to gain beyond their price.

    Rows of one chain are in order of arrival; the oldest one has the least to gain. `pool_rows` are the rows in order
    of instants, `event_order` the events.
    """
    rows = instant.shape[0]
    after = np.full(rows, -1, np.int64)  # the next held row of the chain
    head = np.full(chains, -1, np.int64)
    tail = np.full(chains, -1, np.int64)
    upcoming = np.full(chains, -1, np.int64)  # the chain's next event
    size = 2
    while size < chains:
        size *= 2
    least = np.full(2 * size, np.inf)
    held, e, k = 0, 0, 0
    for now in range(places.shape[0]):
        # events of this instant are matched; the chain's next event moves on
        while e < event_order.shape[0] and event_instant[event_order[e]] <= now:
            event = event_order[e]
            c = event_chain[event]
            upcoming[c] = event + 1
            row = head[c]
            while row >= 0 and event + 1 >= hi[row]:  # of no more use
                until[row] = now
                held -= 1
                row = after[row]
            head[c] = row
            sift(least, c, np.inf if row < 0 else standing(tree, gained, hi, row, event + 1))
            e += 1
        while k < rows and instant[pool_rows[k]] <= now:
            row = pool_rows[k]
            k += 1
            c = chain[row]
            if lo[row] >= hi[row]:
                continue
            upcoming[c] = max(upcoming[c], lo[row])
            if head[c] < 0:
                head[c] = row
                sift(least, c, standing(tree, gained, hi, row, upcoming[c]))
            else:
                after[tail[c]] = row
            tail[c] = row
            held += 1
        while held > places[now]:
            c = least_leaf(least)
            row = head[c]
            until[row] = now
            held -= 1
            head[c] = after[row]
            sift(least, c, np.inf if head[c] < 0 else standing(tree, gained, hi, head[c], upcoming[c]))
    for c in range(chains):
        row = head[c]
        while row >= 0:
            until[row] = places.shape[0]
            row = after[row]
