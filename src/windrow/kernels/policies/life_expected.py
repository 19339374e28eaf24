"""LIFE-EXPECTED: p * min(e - now, L), where L is how long rows of such a p have been held.

Lifetimes are learned by stream and power of two of p: a count of departures and the mean time held.
"""

import math
from typing import Any

from windrow.kernels import reasons
from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import LIFE_BINS
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import key_of, slot_at, stream_of
from windrow.kernels.policies.ranked import clock, cut, held

BASE = "life"
KEEPS = ("lifetimes",)


@inline
def leaving(h: Any, m: Memory, slot: int, reason: int) -> None:
    """Learn from how long a row was held."""
    if reasons.is_learned(reason):
        stream = stream_of(m, slot)
        score = slot_at(m, slot).score
        if not m.by_row:
            score = h.group_score(h, m, key_of(m, slot, 0), stream)
        life_learn(m.w, stream, cut(score) / m.head.weight, held(m, slot))


@inline
def only_rises(h: Any, m: Memory) -> bool:
    """The time for which a row will be held is an estimate, which may fall."""
    return False


@inline
def turn_of(h: Any, m: Memory, slot: int, score: float, ends: float) -> float:
    """When as much of its time is left as such rows are held."""
    whole = ends - clock(m) + held(m, slot)
    return ends - life_expected(m.w, stream_of(m, slot), score / m.head.weight, whole)


@inner
def life_line(words: Any, stream: int, score: float) -> int:
    """Where what is known of rows of such a score stands: departures seen, mean time held. Bins are powers of two."""
    m = memory_of(words)
    at = 0
    if score > 0.0:
        at = min(max(math.frexp(score)[1] - 1 + LIFE_BINS // 2, 0), LIFE_BINS - 1)
    return m.head.life_at + (stream * LIFE_BINS + at) * 2


@inner
def life_learn(words: Any, stream: int, score: float, held: float) -> None:
    """Remember how long a row of such a score was held."""
    m = memory_of(words)
    line = life_line(m.w, stream, score)
    m.x[line] = min(m.x[line] + 1.0, 1024.0)
    m.x[line + 1] += (held - m.x[line + 1]) / m.x[line]


@inner
def life_expected(words: Any, stream: int, score: float, most: float) -> float:
    """How long a row of such a score is expected to be held; the whole window while little is known."""
    m = memory_of(words)
    line = life_line(m.w, stream, score)
    if m.x[line] < 8.0:
        return most
    return min(m.x[line + 1], most)
