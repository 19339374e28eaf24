"""What the analysis of locality needs of loops: stack distances, and the age up to which a key's rows pay best."""

from typing import Any

import numpy as np

from windrow.kernels.jit import entry, inner


@entry
def stack_distances(ids: Any, keys: int) -> Any:
    """For each row, how many different keys have come since its key came last; -1 for a key that is new.

    A mark stands at the last row of every key seen so far: the marks behind a key's own are the keys in between. A
    Fenwick tree counts them, so that n rows take O(n log n).
    """
    n = ids.shape[0]
    tree = np.zeros(n + 1, np.int64)  # marks, summed over ranges that end at i and are as long as i's lowest bit
    last = np.full(keys, -1, np.int64)
    found = np.empty(n, np.int64)
    seen = 0
    for row in range(n):
        before = last[ids[row]]
        if before < 0:
            found[row] = -1
            seen += 1
        else:
            up_to = 0
            i = before + 1
            while i > 0:
                up_to += tree[i]
                i -= i & -i
            found[row] = seen - up_to
            i = before + 1
            while i <= n:
                tree[i] -= 1
                i += i & -i
        last[ids[row]] = row
        i = row + 1
        while i <= n:
            tree[i] += 1
            i += i & -i
    return found


@inner
def ages(at: Any, until: Any, other: Any, stride: int, found: Any) -> int:
    """How many matches every stride-th row of a key has while it is held; as many ages as `found` takes go there.

    `at` and `other` are when the key's rows and its partners come, `until` when each row expires; all ascend.
    """
    first, count = 0, 0
    for i in range(0, at.shape[0], stride):
        while first < other.shape[0] and other[first] <= at[i]:
            first += 1
        j = first
        while j < other.shape[0] and other[j] <= until[i]:
            if count < found.shape[0]:
                found[count] = other[j] - at[i]
            count += 1
            j += 1
    return count


@entry
def best_ages(start: Any, at: Any, until: Any, other_start: Any, other_at: Any, limit: int, pooled: Any) -> Any:
    """For each key the age k up to which holding its rows pays best: C(k) / k is largest, C(k) matches up to age k.

    Rows and partners of key v stand at start[v] to start[v + 1], in order. 0 is a key without a match. Where a key has
    more than about `limit` matches, a part of its rows, evenly spaced, stands for all. `pooled` takes the matches of
    all keys by age.
    """
    keys = start.shape[0] - 1
    best = np.zeros(keys, np.int64)
    nothing = np.empty(0, np.int64)
    for v in range(keys):
        mine, ends = at[start[v] : start[v + 1]], until[start[v] : start[v + 1]]
        others = other_at[other_start[v] : other_start[v + 1]]
        if mine.shape[0] == 0 or others.shape[0] == 0:
            continue
        stride = 1
        if mine.shape[0] * others.shape[0] > limit:  # otherwise there cannot be more; here a part of the rows tells
            sparse = 1 + mine.shape[0] // 1024
            stride = 1 + ages(mine, ends, others, sparse, nothing) * sparse // limit
        found = np.empty(ages(mine, ends, others, stride, nothing), np.int64)
        ages(mine, ends, others, stride, found)
        found.sort()
        most = 0.0
        for c in range(found.shape[0]):
            pooled[found[c]] += stride
            # C(k) is c + 1 at the last of equal ages, and no more than that at the others
            if (c + 1) / found[c] > most:
                most = (c + 1) / found[c]
                best[v] = found[c]
    return best
