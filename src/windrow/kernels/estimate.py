"""What statistics learn from arrivals: frequencies by key, mass by range, time that rows are held.

Frequencies stand in the key's record whatever the statistic: a new key starts from the oracle's table or the sketch
(or zero), and each arrival adds its weight. Decay never touches old counts: the weight of an arrival grows instead,
by 2 ** (1 / half-life) per arrival, and all counts are scaled down together before it overflows. What a row adds to an
output value is cut at MOST_GAIN before it is counted, so that every number that statistics keep stays finite.
"""

from typing import Any

import numpy as np

from windrow.kernels.directory import key_at
from windrow.kernels.hashing import mix64
from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import (
    AUTO,
    BINS,
    BRIEF,
    CHOICE,
    CHOICE_WORDS,
    DIR_SIZE,
    FREQ,
    GROWTH,
    H_LOW,
    H_STEP,
    H_TOTAL,
    H_TREE,
    HIST_SIZE,
    HISTS_AT,
    KEY_TOP,
    LIFE_AT,
    LIFE_BINS,
    MEANS_AT,
    MIX,
    MIX_UNTIL,
    MIXED,
    ORACLE_AT,
    ORACLE_START_AT,
    PER_STREAM,
    POOLED,
    SKETCH_AT,
    SKETCH_DEPTH,
    SKETCH_WIDTH,
    STAT_NONE,
    STAT_ORACLE,
    STAT_SKETCH,
    WEIGHT,
)
from windrow.kernels.memory import Memory, memory_of

MIX_STEP = 4.0
LEAST = 1e-300  # below what any count can be
MOST_GAIN = 1e150  # times the largest weight, times more arrivals than can be counted, it is still a number


@inline
def freq_at(record: int, stream: int) -> int:
    """Where a key's frequency on a stream stands."""
    return record + PER_STREAM * stream + FREQ


@inline
def worth_at(m: Memory, record: int, stream: int) -> int:
    """Where a key's frequency weighted by output value stands."""
    return record + 1 + PER_STREAM * m.streams + stream


@inline
def brief_at(m: Memory, record: int, stream: int) -> int:
    """Where a key's count of recent arrivals stands (AUTO)."""
    return record + 1 + (PER_STREAM + (1 if m.valued else 0)) * m.streams + stream


@inline
def brief_worth_at(m: Memory, record: int, stream: int) -> int:
    """Where that count weighted by output value stands."""
    return brief_at(m, record, stream) + m.streams


@inline
def arrivals_of(m: Memory, record: int, stream: int) -> float:
    """How often a key arrives on a stream, as the rule counts it."""
    return counted(m, record, stream, m.w[CHOICE] if m.rule == AUTO else 0)


@inline
def counted(m: Memory, record: int, stream: int, choice: int) -> float:
    """How often a key arrives on a stream, by a choice of AUTO's; 0 for all other rules."""
    if choice & POOLED == 0:
        return mixed(m, freq_at(record, stream), brief_at(m, record, stream), choice)
    total = 0.0
    for each in range(m.streams):
        total += mixed(m, freq_at(record, each), brief_at(m, record, each), choice)
    return total


@inline
def mixed(m: Memory, whole: int, brief: int, choice: int) -> float:
    """What a choice makes of the counts of all arrivals and of recent ones that stand at two places.

    Beside recent arrivals, whose weights grow, each of all counts MIX: about as much as they weigh in the mean.
    """
    if choice & BRIEF == 0:
        return m.x[whole]
    if choice & MIXED == 0:
        return m.x[brief]
    return m.x[brief] + m.x[whole] * m.x[MIX]


@inline
def pools(m: Memory) -> bool:
    """Whether an arrival also counts for the rows of its own stream."""
    return m.rule == AUTO and m.w[CHOICE] & POOLED != 0


@inline
def worth_of(m: Memory, record: int, stream: int) -> float:
    """The same weighted by output value; never pooled, for values of different streams do not compare."""
    if m.rule != AUTO:
        return m.x[worth_at(m, record, stream)]
    return mixed(m, worth_at(m, record, stream), brief_worth_at(m, record, stream), m.w[CHOICE])


@inner
def oracle_line(words: Any, d: int, code: int) -> int:
    """Where the oracle's line for a code begins (code, counts, worths), or -1."""
    m = memory_of(words)
    line_words = 1 + 2 * m.streams
    low, end = m.w[m.w[ORACLE_START_AT] + d], m.w[m.w[ORACLE_START_AT] + d + 1]
    high = end
    while low < high:
        mid = (low + high) >> 1
        if m.w[m.w[ORACLE_AT] + mid * line_words] < code:
            low = mid + 1
        else:
            high = mid
    at = m.w[ORACLE_AT] + low * line_words
    if low < end and m.w[at] == code:
        return at
    return -1


@inner
def sketch_cell(words: Any, d: int, stream: int, what: int, k: int, code: int) -> int:
    """Where the k-th counter of a code stands; what: 0 count, 1 worth."""
    m = memory_of(words)
    worths = 2 if m.valued else 1
    word = mix64(np.uint64(code) + np.uint64(k + 1) * np.uint64(0x9E3779B97F4A7C15))
    line = ((d * m.streams + stream) * worths + what) * m.w[SKETCH_DEPTH] + k
    return m.w[SKETCH_AT] + line * m.w[SKETCH_WIDTH] + np.int64(word % np.uint64(m.w[SKETCH_WIDTH]))


@inner
def sketch_read(words: Any, d: int, stream: int, what: int, code: int) -> float:
    """The sketch's estimate: the least of its counters for a code."""
    m = memory_of(words)
    least = np.inf
    for k in range(m.w[SKETCH_DEPTH]):
        least = min(least, m.x[sketch_cell(m.w, d, stream, what, k, code)])
    return least


@inner
def sketch_add(words: Any, d: int, stream: int, what: int, code: int, weight: float) -> float:
    """Add to the sketch, conservatively (only counters below the new estimate rise); the new estimate."""
    m = memory_of(words)
    total = sketch_read(m.w, d, stream, what, code) + weight
    for k in range(m.w[SKETCH_DEPTH]):
        at = sketch_cell(m.w, d, stream, what, k, code)
        if m.x[at] < total:
            m.x[at] = total
    return total


@inline
def start_key(m: Memory, d: int, key: int, code: int) -> None:
    """First frequencies of a new key (its record is zero)."""
    kind = m.statistic
    if kind != STAT_ORACLE and kind != STAT_SKETCH:
        return
    record, streams = key_at(m, d, key), m.streams
    line = oracle_line(m.w, d, code) if kind == STAT_ORACLE else -1
    for stream in range(streams):
        if line >= 0:
            m.x[freq_at(record, stream)] = m.x[line + 1 + stream]
            if m.valued:
                m.x[worth_at(m, record, stream)] = m.x[line + 1 + streams + stream]
        elif kind == STAT_SKETCH:
            m.x[freq_at(record, stream)] = sketch_read(m.w, d, stream, 0, code)
            if m.valued:
                m.x[worth_at(m, record, stream)] = sketch_read(m.w, d, stream, 1, code)


@inline
def learn_key(m: Memory, d: int, key: int, stream: int, code: int, gain: float) -> None:
    """Count an arrival of a stream under a key."""
    record, weight = key_at(m, d, key), m.x[WEIGHT]
    if m.statistic == STAT_SKETCH:
        m.x[freq_at(record, stream)] = sketch_add(m.w, d, stream, 0, code, weight)
        if m.valued:
            m.x[worth_at(m, record, stream)] = sketch_add(m.w, d, stream, 1, code, weight * gain)
    else:
        whole = 1.0 if m.rule == AUTO else weight
        m.x[freq_at(record, stream)] += whole
        if m.valued:
            m.x[worth_at(m, record, stream)] += whole * gain
        if m.rule == AUTO:
            learn_brief(m, record, stream, weight, gain)
    if m.streams > 2:
        learn_usual(m, d, record, stream)


@inline
def usual_at(m: Memory, d: int, stream: int, choice: int) -> int:
    """Where the count of the usual arrival of a stream stands, after how many arrivals have told; by choice in AUTO."""
    return m.w[MEANS_AT] + (d * m.streams + stream) * (1 + CHOICE_WORDS if m.rule == AUTO else 2) + 1 + choice


@inline
def usual(m: Memory, d: int, stream: int) -> float:
    """How often the key of the usual arrival of a stream arrives, as the rule counts it."""
    return max(m.x[usual_at(m, d, stream, m.w[CHOICE] if m.rule == AUTO else 0)], LEAST)


@inline
def learn_usual(m: Memory, d: int, record: int, stream: int) -> None:
    """Let an arrival tell what is usual: in AUTO for every choice, for their counts do not compare."""
    first = usual_at(m, d, stream, 0)
    m.x[first - 1] = min(m.x[first - 1] + 1.0, 1024.0)
    for choice in range(CHOICE_WORDS if m.rule == AUTO else 1):
        m.x[first + choice] += (counted(m, record, stream, choice) - m.x[first + choice]) / m.x[first - 1]


@inline
def learn_brief(m: Memory, record: int, stream: int, weight: float, gain: float) -> None:
    """Count an arrival among the recent ones (AUTO)."""
    m.x[brief_at(m, record, stream)] += weight
    if m.valued:
        m.x[brief_worth_at(m, record, stream)] += weight * gain


@inner
def fade(words: Any) -> bool:
    """Let the past weigh less after one arrival; True when all scores have changed.

    What all arrivals weigh beside recent ones does not grow with each of these, but in steps: a change of all scores
    is too much work for one arrival.
    """
    m = memory_of(words)
    m.x[WEIGHT] *= m.x[GROWTH]
    stepped = m.x[WEIGHT] >= m.x[MIX_UNTIL]
    if stepped:
        m.x[MIX] *= MIX_STEP
        m.x[MIX_UNTIL] *= MIX_STEP
    least = 1e-100
    if m.streams > 2:  # counts of all partners are multiplied
        least = float(np.exp(np.log(least) / (m.streams - 1)))
    if m.x[WEIGHT] * least < 1.0:
        return stepped
    for word in (WEIGHT, MIX, MIX_UNTIL):
        m.x[word] *= least
    for d in range(m.dirs):
        for key in range(m.w[m.dirs_at + d * DIR_SIZE + KEY_TOP]):
            record = key_at(m, d, key)
            for stream in range(m.streams):
                m.x[brief_at(m, record, stream) if m.rule == AUTO else freq_at(record, stream)] *= least
                if m.valued:
                    at = brief_worth_at(m, record, stream) if m.rule == AUTO else worth_at(m, record, stream)
                    m.x[at] *= least
    for line in range(m.dirs * m.streams):
        for choice in range(CHOICE_WORDS if m.rule == AUTO else 1):
            if m.rule != AUTO or choice & BRIEF:
                m.x[usual_at(m, 0, line, choice)] *= least
    worths = 2 if m.valued else 1
    for k in range(m.dirs * m.streams * worths * m.w[SKETCH_DEPTH] * m.w[SKETCH_WIDTH]):
        m.x[m.w[SKETCH_AT] + k] *= least
    for hist in range(m.hists):
        line = m.w[HISTS_AT] + hist * HIST_SIZE
        m.x[line + H_TOTAL] *= least
        for k in range(BINS + 1):
            m.x[line + H_TREE + k] *= least
    return True


@inner
def hist_put(words: Any, line: int, at: int, weight: float) -> None:
    """Add to a bin (Fenwick tree)."""
    m = memory_of(words)
    at += 1
    while at <= BINS:
        m.x[line + H_TREE + at] += weight
        at += at & -at


@inner
def hist_sum(words: Any, line: int, upto: int) -> float:
    """Mass of the first `upto` bins."""
    m = memory_of(words)
    total = 0.0
    while upto > 0:
        total += m.x[line + H_TREE + upto]
        upto -= upto & -upto
    return total


@inner
def hist_widen(words: Any, line: int, downward: bool) -> None:
    """Double the range of a histogram, upwards or downwards, by joining bins two by two."""
    m = memory_of(words)
    plain = np.empty(BINS)
    for k in range(BINS):
        plain[k] = hist_sum(m.w, line, k + 1) - hist_sum(m.w, line, k)
    start = 0
    if downward:
        m.x[line + H_LOW] -= BINS * m.x[line + H_STEP]
        start = BINS // 2
    m.x[line + H_STEP] *= 2.0
    for k in range(BINS + 1):
        m.x[line + H_TREE + k] = 0.0
    for k in range(BINS):
        if plain[k] > 0.0:
            hist_put(m.w, line, start + k // 2, plain[k])


@inner
def hist_learn(words: Any, line: int, value: float, weight: float) -> None:
    """Count one value."""
    m = memory_of(words)
    if not abs(value) < 1e300:
        return
    if m.x[line + H_STEP] == 0.0:
        m.x[line + H_STEP] = max(abs(value) * 1e-6, 1e-6)
        m.x[line + H_LOW] = value - m.x[line + H_STEP] * (BINS // 2)
    while value < m.x[line + H_LOW]:
        hist_widen(m.w, line, True)
    while value >= m.x[line + H_LOW] + BINS * m.x[line + H_STEP]:
        hist_widen(m.w, line, False)
    at = int((value - m.x[line + H_LOW]) / m.x[line + H_STEP])
    hist_put(m.w, line, min(max(at, 0), BINS - 1), weight)
    m.x[line + H_TOTAL] += weight


@inner
def hist_below(words: Any, line: int, value: float) -> float:
    """Mass below a value; the bin it falls into is taken as even."""
    m = memory_of(words)
    at = (value - m.x[line + H_LOW]) / m.x[line + H_STEP]
    at = min(max(at, 0.0), float(BINS))
    whole = int(at)
    below = hist_sum(m.w, line, whole)
    if whole >= BINS:
        return below
    return below + (at - whole) * (hist_sum(m.w, line, whole + 1) - below)


@inner
def hist_share(words: Any, line: int, low: float, high: float) -> float:
    """Share of the mass in [low, high]; 1 while nothing is known."""
    m = memory_of(words)
    if not m.x[line + H_TOTAL] > 0.0:
        return 1.0
    return max((hist_below(m.w, line, high) - hist_below(m.w, line, low)) / m.x[line + H_TOTAL], 0.0)


@inner
def life_line(words: Any, stream: int, score: float) -> int:
    """Where what is known of rows of such a score stands: departures seen, mean time held. Bins are powers of two."""
    m = memory_of(words)
    at = 0
    if score > 0.0:
        at = min(max(int(np.floor(np.log2(score))) + LIFE_BINS // 2, 0), LIFE_BINS - 1)
    return m.w[LIFE_AT] + (stream * LIFE_BINS + at) * 2


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


@inline
def learns(m: Memory) -> bool:
    """Whether arrivals teach the statistic anything."""
    return m.statistic != STAT_NONE and m.statistic != STAT_ORACLE
