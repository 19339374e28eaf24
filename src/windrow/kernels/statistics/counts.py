"""How often keys arrive, and what is usual: counts in the keys' records, whatever the statistic.

A new key starts from the oracle's table or the sketch (or zero), and each arrival adds its weight. Decay never touches
old counts: the weight of an arrival grows instead, by 2 ** (1 / half-life) per arrival, and all counts are scaled down
together before it overflows. What a row adds to an output value is cut at MOST_GAIN before it is counted, so that every
number that statistics keep stays finite.

Most policies count in one way. AUTO has several, and asks for one of them: `h.ways` says how many there are, `h.way`
which is asked for, `h.counted` what it gives (see policies/counting.py and policies/auto.py).
"""

from typing import Any

import numpy as np

from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import (
    BINS,
    H_TREE,
    R_GAIN,
    STAT_NONE,
    STAT_ORACLE,
    STAT_SKETCH,
    Key,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import chain, directory_at, histogram_at, kept_at, key_at
from windrow.kernels.statistics.oracle import oracle_line
from windrow.kernels.statistics.sketch import sketch_add, sketch_read

MIX_STEP = 4.0
LIGHT = 1e-100  # by what all weights are scaled down
LEAST = 1e-300  # below what any count can be
MOST_GAIN = 1e150  # times the largest weight, times more arrivals than can be counted, it is still a number


@inline
def worth_at(m: Memory, record: Key, stream: int) -> int:
    """Where a key's frequency weighted by output value stands."""
    return kept_at(m, record, 0, stream)


@inline
def any_learning(m: Memory) -> bool:
    """Whether arrivals teach the statistic anything."""
    return m.statistic != STAT_NONE and m.statistic != STAT_ORACLE


@inline
def gain_of(m: Memory, rx: Any, at: int) -> float:
    """What the arriving row at a place adds to an output value, as statistics count it: never infinite."""
    return min(max(rx[at + R_GAIN], -MOST_GAIN), MOST_GAIN) if m.valued else 1.0


@inline
def arrivals_of(h: Any, m: Memory, record: Key, stream: int) -> float:
    """How often a key arrives on a stream, as the policy counts it."""
    return h.counted(h, m, record, stream, h.way(h, m))


@inner
def start_key(words: Any, d: int, key: int, code: int) -> None:
    """First frequencies of a new key (its record is zero)."""
    m = memory_of(words)
    record, streams = key_at(m, d, key), m.streams
    if m.statistic == STAT_ORACLE:
        line = oracle_line(m.w, d, code)
        for stream in range(streams if line >= 0 else 0):
            chain(record, stream).freq = m.x[line + 1 + stream]
            if m.valued:
                m.x[worth_at(m, record, stream)] = m.x[line + 1 + streams + stream]
    elif m.statistic == STAT_SKETCH:
        for stream in range(streams):
            chain(record, stream).freq = sketch_read(m.w, d, stream, 0, code)
            if m.valued:
                m.x[worth_at(m, record, stream)] = sketch_read(m.w, d, stream, 1, code)


@inline
def learn_key(h: Any, m: Memory, d: int, key: int, stream: int, code: int, gain: float) -> None:
    """Count an arrival of a stream under a key."""
    record = key_at(m, d, key)
    if m.statistic == STAT_SKETCH:
        learn_in_sketch(m.w, d, record, stream, code, gain)
    else:
        h.count_in(h, m, record, stream, m.head.weight, gain)
    if m.streams > 2:
        learn_usual(h, m, d, record, stream)


@inner
def learn_in_sketch(words: Any, d: int, record: Key, stream: int, code: int, gain: float) -> None:
    """Count an arrival in the sketch; the key's record has what it says."""
    m = memory_of(words)
    weight = m.head.weight
    chain(record, stream).freq = sketch_add(m.w, d, stream, 0, code, weight)
    if m.valued:
        m.x[worth_at(m, record, stream)] = sketch_add(m.w, d, stream, 1, code, weight * gain)


@inline
def usual_at(h: Any, m: Memory, d: int, stream: int, way: int) -> int:
    """Where the count of the usual arrival of a stream stands, by a way to count; before the first of them stands how
    many arrivals have told."""
    return m.head.means_at + (d * m.streams + stream) * (1 + h.ways(h)) + 1 + way


@inline
def usual(h: Any, m: Memory, d: int, stream: int) -> float:
    """How often the key of the usual arrival of a stream arrives, as the policy counts it."""
    return max(m.x[usual_at(h, m, d, stream, h.way(h, m))], LEAST)


@inline
def learn_usual(h: Any, m: Memory, d: int, record: Key, stream: int) -> None:
    """Let an arrival tell what is usual, for every way to count: they do not compare."""
    first = usual_at(h, m, d, stream, 0)
    m.x[first - 1] = min(m.x[first - 1] + 1.0, 1024.0)
    for way in range(h.ways(h)):
        m.x[first + way] += (h.counted(h, m, record, stream, way) - m.x[first + way]) / m.x[first - 1]


@inline
def fade(h: Any, m: Memory) -> bool:
    """Let the past weigh less after one arrival; True when all scores have changed."""
    m.head.weight *= m.head.growth
    grown = m.head.weight >= m.head.mix_until or m.head.weight * LIGHT >= 1.0
    return (grown or m.streams > 2) and weigh_anew(h, m.w)


@inner
def weigh_anew(h: Any, words: Any) -> bool:
    """After the weight has grown: True when all scores have changed.

    What all arrivals weigh beside recent ones does not grow with each of these, but in steps: a change of all scores
    is too much work for one arrival.
    """
    m = memory_of(words)
    stepped = m.head.weight >= m.head.mix_until
    if stepped:
        m.head.mix *= MIX_STEP
        m.head.mix_until *= MIX_STEP
    least = LIGHT
    if m.streams > 2:  # counts of all partners are multiplied
        least = float(np.exp(np.log(least) / (m.streams - 1)))
    if m.head.weight * least < 1.0:
        return stepped
    scale_down(h, m, least)
    return True


@inline
def scale_down(h: Any, m: Memory, least: float) -> None:
    """Make all weights and what they were added to smaller by a factor."""
    m.head.weight *= least
    m.head.mix *= least
    m.head.mix_until *= least
    h.rescaled(h, m, least)
    for d in range(m.dirs):
        for key in range(directory_at(m, d).top):
            record = key_at(m, d, key)
            for stream in range(m.streams):
                m.x[h.fading_at(h, m, record, stream)] *= least
                if m.valued:
                    m.x[h.fading_worth_at(h, m, record, stream)] *= least
    for line in range(m.dirs * m.streams):
        for way in range(h.ways(h)):
            if h.way_fades(h, way):
                m.x[usual_at(h, m, 0, line, way)] *= least
    worths = 2 if m.valued else 1
    for k in range(m.dirs * m.streams * worths * m.head.sketch_depth * m.head.sketch_width):
        m.x[m.head.sketch_at + k] *= least
    for hist in range(m.hists):
        line = histogram_at(m, hist)
        line.total *= least
        for k in range(BINS + 1):
            m.x[line.at + H_TREE + k] *= least
