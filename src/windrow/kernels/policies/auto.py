"""AUTO: p, how often partners arrive, as the present choice counts arrivals (state/auto/trials.py finds the choice).

A key has two counts for each stream, of all arrivals and of recent ones, whose weights grow. A choice (CHOICE) asks for
the one or the other or both, of the partners' streams or of all streams together:

    BRIEF    recent arrivals instead of all
    MIXED    with BRIEF: all arrivals beside them, each of which counts MIX, about what recent ones weigh in the mean
    POOLED   of all streams together
"""

from typing import Any

from windrow.kernels.jit import inline
from windrow.kernels.layout import BRIEF, CHOICE_WORDS, MIXED, POOLED, PR_USUAL, Key
from windrow.kernels.memory import Memory
from windrow.kernels.places import chain, kept_at, key_at, stream_at
from windrow.kernels.policies import counting, prospects
from windrow.kernels.statistics.counts import arrivals_of, worth_at

BASE = "counting"
TRIES = True
WAYS = CHOICE_WORDS
KEEPS = ("recent", "prospects")


@inline
def brief_at(m: Memory, record: Key, stream: int) -> int:
    """Where a key's count of recent arrivals stands."""
    return kept_at(m, record, 1 if m.valued else 0, stream)


@inline
def brief_worth_at(m: Memory, record: Key, stream: int) -> int:
    """Where that count weighted by output value stands."""
    return brief_at(m, record, stream) + m.streams


@inline
def ways(h: Any) -> int:
    """All combinations."""
    return WAYS


@inline
def way(h: Any, m: Memory) -> int:
    """The present choice."""
    return m.head.choice


@inline
def mixed(m: Memory, whole: float, brief: float, way: int) -> float:
    """What a way to count makes of the counts of all arrivals and of recent ones."""
    if way & BRIEF == 0:
        return whole
    if way & MIXED == 0:
        return brief
    return brief + whole * m.head.mix


@inline
def counted(h: Any, m: Memory, record: Key, stream: int, way: int) -> float:
    """How often a key arrives on a stream, by a way to count."""
    if way & POOLED == 0:
        return mixed(m, chain(record, stream).freq, m.x[brief_at(m, record, stream)], way)
    total = 0.0
    for each in range(m.streams):
        total += mixed(m, chain(record, each).freq, m.x[brief_at(m, record, each)], way)
    return total


@inline
def counts_own(h: Any, m: Memory) -> bool:
    """Whether an arrival also counts for the rows of its own stream."""
    return m.head.choice & POOLED != 0


@inline
def worth_of(h: Any, m: Memory, record: Key, stream: int) -> float:
    """The same weighted by output value; never pooled, for values of different streams do not compare."""
    return mixed(m, m.x[worth_at(m, record, stream)], m.x[brief_worth_at(m, record, stream)], m.head.choice)


@inline
def count_in(h: Any, m: Memory, record: Key, stream: int, weight: float, gain: float) -> None:
    """Count an arrival: as one among all, by its weight among the recent ones."""
    chain(record, stream).freq += 1.0
    m.x[brief_at(m, record, stream)] += weight
    if m.valued:
        m.x[worth_at(m, record, stream)] += gain
        m.x[brief_worth_at(m, record, stream)] += weight * gain


@inline
def count_weight(h: Any, m: Memory) -> float:
    """What the latest arrival has added to its key's count of all arrivals."""
    return 1.0


@inline
def histogram_total(h: Any, m: Memory, stream: int, total: float) -> float:
    """Histograms weigh recent arrivals more; keys may not, or count all arrivals beside them."""
    if m.head.choice & BRIEF == 0 and m.head.growth != 1.0:
        return float(stream_at(m, stream).rank)
    return total * 2.0 if m.head.choice & MIXED else total


@inline
def fading_at(h: Any, m: Memory, record: Key, stream: int) -> int:
    """Counts of recent arrivals have weights that grow."""
    return brief_at(m, record, stream)


@inline
def fading_worth_at(h: Any, m: Memory, record: Key, stream: int) -> int:
    """The same, weighted by output value."""
    return brief_worth_at(m, record, stream)


@inline
def way_fades(h: Any, way: int) -> bool:
    """Ways that look at recent arrivals do."""
    return way & BRIEF != 0


# ------------------------------------------------------------------------------------------- prospects


@inline
def arrived(h: Any, m: Memory) -> None:
    """Look at residents, every so often."""
    if prospects.judges(m) and m.head.begun != 0 and prospects.is_due(m):
        prospects.look(h, m.w)


@inline
def count_of(h: Any, m: Memory, record: Key, stream: int) -> float:
    """How often the partners of a key arrive."""
    return arrivals_of(h, m, record, 1 - stream)


@inline
def count_unit(h: Any, m: Memory) -> float:
    """What an arrival adds to such a count."""
    return m.head.weight if m.head.choice & BRIEF else 1.0


@inline
def group_score(h: Any, m: Memory, key: int, stream: int) -> float:
    """How often partners of a key arrive or, where that is contradicted, what such rows still meet."""
    if m.head.judging == 0:
        return counting.group_score(h, m, key, stream)
    return prospects.prospect(m, key, stream, arrivals_of(h, m, key_at(m, 0, key), 1 - stream))


@inline
def meets(h: Any, m: Memory, d: int, key: int, stream: int) -> None:
    """A row of a stream that comes is what rows of the other one have waited for."""
    if prospects.judges(m):
        prospects.meet(m, key, 1 - stream)


@inline
def only_rises(h: Any, m: Memory) -> bool:
    """What rows still meet falls, too."""
    return m.head.judging == 0


@inline
def rescaled(h: Any, m: Memory, least: float) -> None:
    """Weights are smaller by a factor, and so is the usual count, if it goes by them."""
    if prospects.judges(m) and m.head.choice & BRIEF:
        for stream in range(2):
            m.x[prospects.prospects_at(m, stream) + PR_USUAL] *= least
