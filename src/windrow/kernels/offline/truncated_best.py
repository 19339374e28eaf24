"""The search behind the optimal truncated join: subsets of components, as lists of states, each time without one.

A state is a set of whole components: (weight = its rows, value = its matches, node = how it came about). A list of
states is sorted by weight and then also by value, for a heavier state that matches no more is of no use. A state stays
only while `value + price * (capacity - weight) + what the open items can gain at that price` reaches past the best
answer known. The one component that may be kept in part must be in no state, so lists are needed over all items but
one, for each one that may be cut. Halving the range shares the work:

    without(lo, hi) = a list over all items outside lo..hi
    without(lo, mid) = without(lo, hi) and the items mid..hi;   without(mid, hi) = the other way round

Each item joins a list once per level: O(items * log(cuttable items) * length of a list), lists hold at most
capacity + 1 states. Nodes of a list lie in a pool above those of the list it was made from, and go with it.
"""

from typing import Any

import numpy as np

from windrow.kernels.jit import entry, inner
from windrow.kernels.offline.truncated import most_matches

WEIGHT, VALUE, NODE = 0, 1, 2
PARENT, ITEM = 0, 1
FAR = 1 << 62


@inner
def room(array: Any, used: int, needed: int) -> Any:
    """The array, or one twice as wide with its first `used` columns, so that `needed` columns fit."""
    if needed <= array.shape[1]:
        return array
    wider = np.empty((array.shape[0], max(needed, 2 * array.shape[1])), np.int64)
    wider[:, :used] = array[:, :used]
    return wider


@inner
def with_item(source: Any, length: int, target: Any, item: Any, pool: Any, top: int, limits: Any) -> Any:
    """Merge a list with itself plus an item into `target`; gives its length and the pool's new top.

    item: (weight, value, its number); limits: (capacity, price, constant): a state stays while
    value - price * weight + constant >= 0.
    """
    weight, value, number = item
    capacity, price, constant = limits
    i, j, out = 0, 0, 0
    last = -1
    while i < length or j < length:
        plain = source[WEIGHT, i] if i < length else FAR
        taken = source[WEIGHT, j] + weight if j < length else FAR
        if taken > capacity:
            j = length
            taken = FAR
            if i >= length:
                break
        if plain < taken or (plain == taken and source[VALUE, i] >= source[VALUE, j] + value):
            total, node, is_new = source[VALUE, i], source[NODE, i], False
            at = plain
            i += 1
        else:
            total, node, is_new = source[VALUE, j] + value, source[NODE, j], True
            at = taken
            j += 1
        if total <= last or total - price * at + constant < 0.0:
            continue
        last = total
        if is_new:
            pool[PARENT, top] = node
            pool[ITEM, top] = number
            node = top
            top += 1
        target[WEIGHT, out] = at
        target[VALUE, out] = total
        target[NODE, out] = node
        out += 1
    return out, top


@inner
def thinned(states: Any, promise: Any, limit: int) -> int:
    """Keep about `limit` states, those of most promise; gives how many. The rest of the search is then no proof."""
    length = promise.shape[0]
    least = np.partition(promise, length - limit)[length - limit]
    out = 0
    for k in range(length):
        if promise[k] >= least:
            states[:, out] = states[:, k]
            out += 1
    return out


@inner
def finished(states: Any, length: int, m: int, n: int, capacity: int, best: int) -> Any:
    """The best completion of a list by part of one component: (value, node, rows of the component)."""
    node, part = -2, 0
    for k in range(length):
        p = min(capacity - states[WEIGHT, k], m + n)
        value = states[VALUE, k] + most_matches(m, n, p)
        if value > best:
            best, node, part = value, states[NODE, k], p
    return best, node, part


@inner
def trace(pool: Any, node: int, chosen: Any) -> None:
    """Mark the items of a state."""
    chosen[:] = False
    while node >= 0:
        chosen[pool[ITEM, node]] = True
        node = pool[PARENT, node]


@entry
def replaceable(smaller: Any, weight: Any, regret: Any, among: Any, gap: float) -> Any:
    """Which classes need not be cut: all that could be cut in their place, kept whole, would lose more than the gap.

    regret: what keeping a whole class loses; among: the classes to look at, those with the most regret first.
    """
    found = np.zeros(weight.shape[0], np.bool_)
    for j in range(weight.shape[0]):
        lost = 0.0
        for i in among:
            if i != j and smaller[i] >= smaller[j] and weight[i] >= weight[j]:
                lost += regret[i]
                if lost > gap:
                    found[j] = True
                    break
    return found


@entry
def search(
    weight: Any, value: Any, m: Any, n: Any, capacity: int, price: float, best: int, slack: float, limit: int
) -> Any:  # fmt: skip
    """The best set of items, and part of one cuttable item, that fits the capacity: (value, chosen, cut, part).

    Items are given by weight and value; the last len(m) of them are the cuttable ones K(m, n). `best` is the value to
    beat; cut is -1 if it is not beaten. With a limit, lists are thinned to it, and the answer is only a good one.
    """
    always = weight.shape[0] - m.shape[0]
    chosen = np.zeros(weight.shape[0], np.bool_)
    cut, part = -1, 0
    here = np.empty((3, 1024), np.int64)
    there = np.empty((3, 1024), np.int64)
    arena = np.empty((3, 4096), np.int64)
    pool = np.empty((2, 4096), np.int64)
    frames = np.zeros((130, 6), np.int64)  # first, last, start and end in the arena, stage, top of the pool
    frames[0, 0], frames[0, 1] = always, weight.shape[0]
    gains = np.zeros(weight.shape[0] + 1)  # gains[k]: what the items before k can gain
    for k in range(weight.shape[0]):
        gains[k + 1] = gains[k] + max(0.0, value[k] - price * weight[k])
    arena[:, 0] = 0
    arena[NODE, 0] = -1
    depth, top = 0, 0
    # The list over the items that cannot be cut, built as if it were the child of an empty one.
    add_first, add_last, start, end = 0, always, 0, 1
    building = True
    while depth >= 0:
        if building:
            length = end - start
            here = room(here, 0, length)
            here[:, :length] = arena[:, start:end]
            for k in range(add_first, add_last):
                there = room(there, 0, 2 * length)
                pool = room(pool, top, top + length)
                undecided = gains[frames[depth, 1]] - gains[frames[depth, 0]] + gains[add_last] - gains[k + 1]
                constant = price * capacity + undecided - best - 1 + slack
                item, limits = (weight[k], value[k], k), (capacity, price, constant)
                length, top = with_item(here, length, there, item, pool, top, limits)
                here, there = there, here
                if limit > 0 and length > 2 * limit:
                    length = thinned(here, here[VALUE, :length] - price * here[WEIGHT, :length], limit)
            arena = room(arena, end, end + length)
            arena[:, end : end + length] = here[:, :length]
            frames[depth, 2], frames[depth, 3], frames[depth, 4], frames[depth, 5] = end, end + length, 0, top
            building = False
        first, last, start, end, stage, top = frames[depth]
        middle = (first + last) // 2
        if start == end or stage == 2 or last - first <= 1:
            if start < end and last - first <= 1:
                at = min(first, weight.shape[0] - 1)
                a, b = (m[at - always], n[at - always]) if last > first else (0, 0)
                found, node, rows = finished(arena[:, start:end], end - start, a, b, capacity, best)
                if node > -2:
                    best, cut, part = found, at - always if last > first else 0, rows
                    trace(pool, node, chosen)
            depth -= 1
            continue
        frames[depth, 4] = stage + 1
        if stage == 0:
            add_first, add_last = middle, last
            frames[depth + 1, 0], frames[depth + 1, 1] = first, middle
        else:
            add_first, add_last = first, middle
            frames[depth + 1, 0], frames[depth + 1, 1] = middle, last
        depth += 1
        building = True
    return best, chosen, cut, part
