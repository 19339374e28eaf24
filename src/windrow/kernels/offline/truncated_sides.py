"""Lists of states for truncated joins with a budget per side: what `offline/truncation_sides.py` searches with.

A state is a set of components: rows of the left (A) and of the right side (B), matches (VALUE), whether one of them
has been cut on the right (CUT), and how it came about (NODE). A list is sorted by (A, B, CUT). Among states with
equal A one stays only if it has more matches than all that need no more of B, and, if it has used its cut, than those
that have not. A state also leaves when `value - price_a A - price_b B + constant` is negative: it cannot pass the
best answer known.
"""

from typing import Any

import numpy as np

from windrow.kernels.jit import entry, inner
from windrow.kernels.offline.truncated_best import room, thinned

A, B, CUT, VALUE, NODE = 0, 1, 2, 3, 4
PARENT, ITEM, PART = 0, 1, 2


@inner
def before(x: Any, i: int, a: int, b: int, cut: int) -> bool:
    """Whether state i of a list comes before (a, b, cut)."""
    if x[A, i] != a:
        return x[A, i] < a
    if x[B, i] != b:
        return x[B, i] < b
    return x[CUT, i] <= cut


@inner
def merged(
    base: Any, base_length: int, source: Any, length: int, step: Any, target: Any, pool: Any, top: int, limits: Any
) -> Any:  # fmt: skip
    """Merge a list with another one of which each state has taken a step; gives the length and the pool's new top.

    step: (rows a, rows b, matches, whether it is a cut, number of the item); limits: (most a, most b, price a, price b,
    constant).
    """
    a, b, value, cut, number = step
    most_a, most_b, price_a, price_b, constant = limits
    i, j, out = 0, 0, 0
    row, whole_best, any_best = -1, -1, -1
    while True:
        while j < length and (
            source[A, j] + a > most_a or source[B, j] + b > most_b or (cut == 1 and source[CUT, j] == 1)
        ):
            j += 1
        if i >= base_length and j >= length:
            return out, top
        is_new = i >= base_length or (
            j < length and not before(base, i, source[A, j] + a, source[B, j] + b, max(cut, source[CUT, j]))
        )
        if is_new:
            at_a, at_b, used = source[A, j] + a, source[B, j] + b, max(cut, source[CUT, j])
            total, node = source[VALUE, j] + value, source[NODE, j]
            j += 1
        else:
            at_a, at_b, used, total, node = base[A, i], base[B, i], base[CUT, i], base[VALUE, i], base[NODE, i]
            i += 1
        if at_a != row:
            row, whole_best, any_best = at_a, -1, -1
        if total <= whole_best or (used == 1 and total <= any_best):
            continue
        if total - price_a * at_a - price_b * at_b + constant < 0.0:
            continue
        any_best = max(any_best, total)
        if used == 0:
            whole_best = total
        if is_new:
            pool[PARENT, top], pool[ITEM, top], pool[PART, top] = node, number, b
            node = top
            top += 1
        target[A, out], target[B, out], target[CUT, out], target[VALUE, out], target[NODE, out] = (
            at_a, at_b, used, total, node,
        )  # fmt: skip
        out += 1


@entry
def with_components(
    states: Any, m: Any, n: Any, least: Any, numbers: Any, pool: Any, top: int, limits: Any, gap: float, limit: int,
    effort: int,
) -> Any:  # fmt: skip
    """The list with components added one by one: each is left out, kept whole, or kept with some right rows.

    least: the fewest right rows with which a component can be kept. limits: (most a, most b, price a, price b,
    constant), the constant counting these components as undecided; a cut that loses more than `gap` is not tried.
    Gives the list, the pool and its top, and what is left of the `effort`, which is counted in states looked at; once
    it is negative, the list is not whole.
    """
    most_a, most_b, price_a, price_b, constant = limits
    here = states.copy()
    length = here.shape[1]
    there = np.empty_like(here)
    for k in range(m.shape[0]):
        whole = m[k] * n[k] - price_a * m[k] - price_b * n[k]
        constant -= max(0.0, whole)
        bounds = (most_a, most_b, price_a, price_b, constant)
        source, source_length = here[:, :length].copy(), length
        effort -= length
        there = room(there, 0, 2 * length)
        pool = room(pool, top, top + length)
        step = (m[k], n[k], m[k] * n[k], 0, numbers[k])
        length, top = merged(source, length, source, length, step, there, pool, top, bounds)
        here, there = there, here
        for b in range(least[k], n[k]):
            if max(0.0, whole) - (m[k] * b - price_a * m[k] - price_b * b) > gap:
                continue
            effort -= length + source_length
            if effort < 0:
                break
            there = room(there, 0, length + source_length)
            pool = room(pool, top, top + source_length)
            step = (m[k], b, m[k] * b, 1, numbers[k])
            length, top = merged(here, length, source, source_length, step, there, pool, top, bounds)
            here, there = there, here
        if limit > 0 and length > 2 * limit:
            promise = here[VALUE, :length] - price_a * here[A, :length] - price_b * here[B, :length]
            length = thinned(here, promise, limit)
        if effort < 0:
            break
    return here[:, :length].copy(), pool, top, effort


@entry
def completed(states: Any, m: int, n: int, most_a: int, most_b: int, best: int) -> Any:
    """The best completion of a list by part of one component: (value, state, rows a, rows b), state -1 if none."""
    found, part_a, part_b = -1, 0, 0
    for k in range(states.shape[1]):
        a, b = min(m, most_a - states[A, k]), min(n, most_b - states[B, k])
        value = states[VALUE, k] + a * b
        if value > best:
            best, found, part_a, part_b = value, k, a, b
    return best, found, part_a, part_b
