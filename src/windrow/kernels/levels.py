"""Levels: how many residents of a pool have which credit, for percentiles and ranks without sorting.

A pool counts its residents in LEVELS levels of equal width, a power of two, from `low` upwards:

    level = (credit - low) >> shift, at least 0

and also by groups of 32 levels, so that a percentile or a rank is found by reading at most 32 + 32 counts. When a
credit rises above the last level, empty levels below are given up; if the credits still fill more than half, two
levels become one. So while credits lie within 512 of each other (shift 0) percentiles are exact for whole credits, and
when the levels are chosen they are never wider than 1/256 of what the credits span.
"""

from typing import Any

import numpy as np

from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import (
    LEVEL_GROUP,
    LEVEL_WORDS,
    LEVELS,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import credit_at


@inline
def above(m: Memory, pool: int, credit: float) -> int:
    """The level of a credit, which may lie below the first or above the last."""
    line = credit_at(m, pool)
    return int(credit) - line.low >> line.shift


@inline
def count(m: Memory, pool: int, level: int, rows: int) -> None:
    """Count rows in or out of a level."""
    level = min(max(level, 0), LEVELS - 1)
    at = m.head.levels_at + pool * LEVEL_WORDS
    m.w[at + level // LEVEL_GROUP] += rows
    m.w[at + LEVEL_GROUP + level] += rows


@inline
def put(m: Memory, pool: int, credit: float) -> None:
    """Count a credit in."""
    level = above(m, pool, credit)
    if level >= LEVELS:
        make_room(m.w, pool, credit)
        level = above(m, pool, credit)
    count(m, pool, level, 1)


@inline
def take(m: Memory, pool: int, credit: float) -> None:
    """Count a credit out."""
    count(m, pool, above(m, pool, credit), -1)


@inline
def move(m: Memory, pool: int, before: float, after: float) -> None:
    """Count a credit out and a higher one in."""
    old, new = above(m, pool, before), above(m, pool, after)
    if new >= LEVELS:
        make_room(m.w, pool, after)
        old, new = above(m, pool, before), above(m, pool, after)
    old, new = max(old, 0), max(new, 0)
    if old == new:
        return
    at = m.head.levels_at + pool * LEVEL_WORDS
    m.w[at + LEVEL_GROUP + old] -= 1
    m.w[at + LEVEL_GROUP + new] += 1
    if old // LEVEL_GROUP != new // LEVEL_GROUP:
        m.w[at + old // LEVEL_GROUP] -= 1
        m.w[at + new // LEVEL_GROUP] += 1


@inner
def clear(words: Any, pool: int, low: int, shift: int) -> None:
    """Begin anew with empty levels."""
    m = memory_of(words)
    line, at = credit_at(m, pool), m.head.levels_at + pool * LEVEL_WORDS
    line.low, line.shift = low, shift
    for k in range(LEVEL_WORDS):
        m.w[at + k] = 0


@inline
def width_for(span: int) -> int:
    """The least shift at which a span of credits fills no more than half of the levels."""
    shift = 0
    while span >> shift >= LEVELS // 2:
        shift += 1
    return shift


@inner
def make_room(words: Any, pool: int, credit: float) -> None:
    """Move the levels so that a credit above the last one has its place; what is counted stays counted."""
    m = memory_of(words)
    line, at = credit_at(m, pool), m.head.levels_at + pool * LEVEL_WORDS + LEVEL_GROUP
    first = 0
    while first < LEVELS and m.w[at + first] == 0:
        first += 1
    if first == LEVELS:
        clear(m.w, pool, int(credit), 0)
        return
    old = np.empty(LEVELS, np.int64)
    for k in range(LEVELS):
        old[k] = m.w[at + k]
    shift = line.shift
    low = line.low + (first << shift)
    wider = max(width_for(int(credit) - low) - shift, 0)
    clear(m.w, pool, low, shift + wider)
    for k in range(first, LEVELS):
        count(m, pool, (k - first) >> wider, old[k])


@inline
def percentile(m: Memory, pool: int, rows: int, share: float) -> float:
    """The credit (the low end of its level) that a share of the pool's residents does not pass: the nearest rank."""
    at = m.head.levels_at + pool * LEVEL_WORDS
    rank = min(max(int(np.ceil(share * rows - 1e-9)), 1), rows)
    higher, group = rows - rank, LEVEL_GROUP - 1  # mostly near the top: count from there
    while group > 0 and higher >= m.w[at + group]:
        higher -= m.w[at + group]
        group -= 1
    level = group * LEVEL_GROUP + LEVEL_GROUP - 1
    while level > group * LEVEL_GROUP and higher >= m.w[at + LEVEL_GROUP + level]:
        higher -= m.w[at + LEVEL_GROUP + level]
        level -= 1
    line = credit_at(m, pool)
    return float(line.low + (level << line.shift))


@inner
def twice_rank(words: Any, pool: int, credit: float) -> int:
    """Twice the rank of a resident's credit in its pool, the lowest 1; residents of one level share their mean rank."""
    m = memory_of(words)
    at = m.head.levels_at + pool * LEVEL_WORDS
    level = min(max(above(m, pool, credit), 0), LEVELS - 1)
    lower = 0
    for group in range(level // LEVEL_GROUP):
        lower += m.w[at + group]
    for k in range(level // LEVEL_GROUP * LEVEL_GROUP, level):
        lower += m.w[at + LEVEL_GROUP + k]
    return 2 * lower + m.w[at + LEVEL_GROUP + level] + 1
