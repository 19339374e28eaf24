"""The published dynamic programmes of static truncated joins, kept plain: what faster ones are measured against.

Keys are components K(m, n): m rows of the left relation that each match n rows of the right one.

    T(i, j) = max over p of T(i - 1, j - p) + C_i(p)        k rows in all
    T(i, j, l) = max over a, b of T(i - 1, j - a, l - b) + a b     rows by side

Every table is kept, and the choice is found again on the way back. Time O(k * sum of min(m + n, k)), which is O(c k^2).
"""

from typing import Any

import numpy as np

from windrow.kernels.jit import entry, inline

NEVER = -(1 << 61)  # fewer rows than asked for; no sum of matches brings it above zero


@inline
def most_matches(m: int, n: int, p: int) -> int:
    """C(p): the most matches of p rows of K(m, n); as many of one side as of the other, while there are (lemma 1)."""
    fewer = min(m, n)
    half = min(p // 2, fewer)
    return half * (p - half)


@entry
def plain(m: Any, n: Any, keep: int) -> Any:
    """Rows kept of each component when `keep` rows are kept in all, by the dynamic programme."""
    c = m.shape[0]
    table = np.full((c + 1, keep + 1), NEVER, np.int64)
    table[0, 0] = 0
    for i in range(c):
        before, after = table[i], table[i + 1]
        for p in range(min(m[i] + n[i], keep) + 1):
            gain = most_matches(m[i], n[i], p)
            for j in range(p, keep + 1):
                after[j] = max(after[j], before[j - p] + gain)
    kept = np.zeros(c, np.int64)
    j = keep
    for i in range(c - 1, -1, -1):
        p = 0
        while table[i, j - p] + most_matches(m[i], n[i], p) != table[i + 1, j]:
            p += 1
        kept[i] = p
        j -= p
    return kept


@entry
def plain_sides(m: Any, n: Any, keep_a: int, keep_b: int) -> Any:
    """[side, component]: rows kept when `keep_a` and `keep_b` are kept of the sides, by the dynamic programme."""
    c = m.shape[0]
    table = np.full((c + 1, keep_a + 1, keep_b + 1), NEVER, np.int64)
    table[0, 0, 0] = 0
    for i in range(c):
        for a in range(min(m[i], keep_a) + 1):
            for b in range(min(n[i], keep_b) + 1):
                for j in range(a, keep_a + 1):
                    before, after = table[i, j - a], table[i + 1, j]
                    for k in range(b, keep_b + 1):
                        after[k] = max(after[k], before[k - b] + a * b)
    kept = np.zeros((2, c), np.int64)
    j, k = keep_a, keep_b
    for i in range(c - 1, -1, -1):
        found = False
        for a in range(min(m[i], j) + 1):
            for b in range(min(n[i], k) + 1):
                if table[i, j - a, k - b] + a * b == table[i + 1, j, k]:
                    kept[0, i], kept[1, i] = a, b
                    found = True
                    break
            if found:
                break
        j -= kept[0, i]
        k -= kept[1, i]
    return kept


@entry
def allotted(label: Any, rows: Any, kept: Any) -> Any:
    """How many rows of each entry are kept: the first ones of each label, until `kept` of it are used up."""
    left = kept.copy()
    found = np.zeros(label.shape[0], np.int64)
    for k in range(label.shape[0]):
        if label[k] >= 0:
            found[k] = min(rows[k], left[label[k]])
            left[label[k]] -= found[k]
    return found
