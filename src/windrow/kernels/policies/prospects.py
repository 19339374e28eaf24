"""Prospects: how many partners still come for rows, by how many have come so far and by age; learned from residents.

Where keys are all but unique, a row whose partner has come is worth nothing, and one that still waits is worth most:
counts of arrivals say the opposite. So the oldest row of each key and stream, which stands for it, is looked at: which
of its classes of partners so far (0, 1, 2 to 3, 4 and more) and of its ages meets how many arrivals per arrival for
which it is held. Per stream, class c and age a:

    MET    arrivals of partners that such rows met
    HELD   arrivals for which such rows were held, by a look every so often

    rate(c, a) = (MET(c, a) + 1) / (HELD(c, a) + 1 / rate(c)), and so is rate(c) from the rate of all rows
    WORTH(c, a) = the most that the mean of rate(c, a) to rate(c, a'), a' >= a, can be, weighted by the length of ages

WORTH is what a row brings per arrival if it is held until the best age to let it go. What was never held is taken to be
as good as the rest of its class, so that it is tried. Ages are parts of the window, finer where rows are young; between
two ages WORTH is drawn as a line. Rows of the last class differ in popularity: theirs is multiplied by their count over
the usual one.

As long as counts and prospects do not contradict each other, counts decide alone (`decided`).
"""

import math
from typing import Any

from windrow.kernels.distances import apart, length
from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import ENDLESS, PR_HELD, PR_MET, PR_SIZE, PR_USUAL, PR_WORTH
from windrow.kernels.layout import PROSPECT_AGES as AGES
from windrow.kernels.layout import PROSPECT_CLASSES as CLASSES
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import chain, key_at, key_of, link_at, slot_at, stream_at
from windrow.kernels.policies.ranked import clock, touch_group

LAST = CLASSES - 1
LEAST_STEP = 256  # arrivals between two looks, at least; else a quarter of the residents
FINEST = 256.0  # the youngest rows are younger than this part of a window
GRAIN = 1024.0  # counts are summed up in such parts of an arrival: a sum of whole numbers has no order
LOOKS = 4  # before it is believed that nothing is met
SELDOM = 64  # arrivals of which less than one meets anybody
SHARE = 0.125  # of what is held must be of a class before it speaks against counts
FEW = 0.03125  # and of a class that it is compared with
POOR = 16.0  # so many times less than the mean is as good as nothing
TWICE = 2.0
KNOWN, LITTLE = 16.0, 4.0  # arrivals that must have been met, or been missing


@inline
def judges(m: Memory) -> bool:
    """Whether prospects are kept: of two streams with a common key, and not in the smallest budgets."""
    return m.head.prospects_at < m.head.indexes_at  # the part that follows: theirs is not empty


@inline
def prospects_at(m: Memory, stream: int) -> int:
    """Where a stream's line of prospects begins."""
    return m.head.prospects_at + stream * PR_SIZE


@inline
def class_of(count: float) -> int:
    """The class of rows for which so many partners have come."""
    if count < 2.0:
        return 0 if count < 1.0 else 1
    return 2 if count < 4.0 else LAST


@inline
def lived(m: Memory, slot: int, stream: int, time: int, rank: int) -> float:
    """A resident's age at a time, or at a rank of its stream, as a part of its window; 0 where that has no end."""
    at, mine = slot_at(m, slot), stream_at(m, stream)
    if mine.last_rows > 0:
        return max(rank - 1 - at.rank, 0) / mine.last_rows
    if mine.reach == ENDLESS or at.time >= time:
        return 0.0
    return float(apart(time, at.time)) / (float(length(mine.reach)) + 1.0)


@inline
def age_then(m: Memory, slot: int, stream: int) -> float:
    """The age of a resident at the last look."""
    return age_of(lived(m, slot, stream, m.head.looked_clock, stream_at(m, stream).looked_rank))


@inline
def age_now(m: Memory, slot: int, stream: int) -> int:
    """The age of a resident, whole."""
    return int(age_of(lived(m, slot, stream, m.head.clock, stream_at(m, stream).rank)))


@inline
def age_of(share: float) -> float:
    """The number of an age, and how far it has passed, as one number: eight ages up to a quarter, then four."""
    if share * FINEST < 1.0:
        return share * FINEST
    if share >= 1.0:
        return float(AGES - 1)
    part, power = math.frexp(share)
    if power < -1:
        return 8 + power + 2.0 * (part - 0.5)
    return 9 + 2 * power + 4.0 * (part - 0.5)


@inline
def width(age: int) -> float:
    """How long an age is, in windows."""
    if age >= 7:
        return 0.125 if age < 9 else 0.25
    return 2.0 ** (max(age, 1) - 9)


@inline
def cell(m: Memory, stream: int, kind: int, age: int) -> int:
    """Where what is known of a class and an age stands, from the beginning of what is asked for."""
    return prospects_at(m, stream) + kind * AGES + age


@inline
def prospect(m: Memory, key: int, stream: int, count: float) -> float:
    """What the rows of a key and stream are worth, by the partners that have come, and by their count."""
    record = key_at(m, 0, key)
    kind = class_of(chain(record, 1 - stream).freq)
    age = age_then(m, chain(record, stream).head, stream)
    low = int(age)
    at = cell(m, stream, kind, low) + PR_WORTH
    worth = m.x[at]
    if low < AGES - 1:
        worth += (age - low) * (m.x[at + 1] - worth)
    if kind < LAST:
        return worth
    return worth * count / max(m.x[prospects_at(m, stream) + PR_USUAL], 1e-300)


@inline
def meet(m: Memory, key: int, stream: int) -> None:
    """A partner comes for the rows of a key and stream, and is not counted yet."""
    record = key_at(m, 0, key)
    if chain(record, stream).count > 0:
        age = age_now(m, chain(record, stream).head, stream)
        m.x[cell(m, stream, class_of(chain(record, 1 - stream).freq), age) + PR_MET] += 1.0


@inline
def is_due(m: Memory) -> bool:
    """Whether it is time to look at residents."""
    return m.head.arrivals >= m.head.look_next


@inner
def look(h: Any, words: Any) -> None:
    """Look at residents: what is held, what that is worth, and whether counts are contradicted."""
    m = memory_of(words)
    step = float(m.head.arrivals - m.head.looked) if m.head.looks > 0 else 0.0
    m.head.looked = m.head.arrivals
    m.head.looked_clock = m.head.clock
    rows = 0
    for stream in range(2):
        stream_at(m, stream).looked_rank = stream_at(m, stream).rank
        rows += stream_at(m, stream).rows
        count_held(h, m, stream, step)
    m.head.look_next = m.head.arrivals + max(rows // 4, LEAST_STEP)
    m.head.looks += 1
    judging = decided(m)
    if judging:
        estimate(m)
    if judging != m.head.judging:
        m.head.judging = judging
        h.rank_all(h, m)
    elif judging and m.head.ranking != 0:
        for stream in range(2):
            rank_anew(h, m, stream)
    fade(m)


@inline
def count_held(h: Any, m: Memory, stream: int, step: float) -> None:
    """Count who stands for the keys of a stream, and the usual count of those in the last class."""
    parts, many, slot, unit = 0, 0, stream_at(m, stream).oldest, h.count_unit(h, m)
    while slot >= 0:
        if link_at(m, slot, 0).older < 0:
            record = key_at(m, 0, key_of(m, slot, 0))
            kind = class_of(chain(record, 1 - stream).freq)
            m.x[cell(m, stream, kind, age_now(m, slot, stream)) + PR_HELD] += step
            if kind == LAST:
                parts += int(GRAIN * h.count_of(h, m, record, stream) / unit)
                many += 1
        slot = slot_at(m, slot).newer
    m.x[prospects_at(m, stream) + PR_USUAL] = unit * max(parts, 1) / (GRAIN * max(many, 1))


@inline
def rank_anew(h: Any, m: Memory, stream: int) -> None:
    """Bring the leaves of a stream up to date."""
    slot = stream_at(m, stream).oldest
    while slot >= 0:
        if link_at(m, slot, 0).older < 0:
            touch_group(h, m, key_of(m, slot, 0), stream)
        slot = slot_at(m, slot).newer


@inline
def total(m: Memory, what: int, stream: int, kind: int) -> float:
    """What was met or held of a class."""
    found = 0.0
    for age in range(AGES):
        found += m.x[cell(m, stream, kind, age) + what]
    return found


@inline
def all_met(m: Memory) -> float:
    """What all rows met."""
    found = 0.0
    for kind in range(CLASSES):
        found += of_both(m, PR_MET, kind)
    return found


@inline
def all_held(m: Memory) -> float:
    """For how many arrivals rows were held."""
    found = 0.0
    for kind in range(CLASSES):
        found += of_both(m, PR_HELD, kind)
    return found


@inline
def mean_rate(m: Memory) -> float:
    """What all rows meet per arrival for which they are held."""
    return max(all_met(m), 1.0) / max(all_held(m), 1.0)


@inline
def estimate(m: Memory) -> None:
    """What rows of each class and age are worth. As long as next to nothing was met the old are worth most: they stay
    until they have been seen at every age."""
    mean, unknown = mean_rate(m), all_met(m) < LITTLE
    for stream in range(2):
        for kind in range(CLASSES):
            rate = (total(m, PR_MET, stream, kind) + 1.0) / (total(m, PR_HELD, stream, kind) + 1.0 / mean)
            for age in range(AGES):
                worth = mean * (1 + age) if unknown else best_mean(m, stream, kind, age, rate)
                m.x[cell(m, stream, kind, age) + PR_WORTH] = worth


@inline
def best_mean(m: Memory, stream: int, kind: int, age: int, rate: float) -> float:
    """The most that the mean of the rates of a class from an age on can be; where nothing is known, a rate is given."""
    best, gain, span = 0.0, 0.0, 0.0
    for later in range(age, AGES):
        at = cell(m, stream, kind, later)
        gain += width(later) * (m.x[at + PR_MET] + 1.0) / (m.x[at + PR_HELD] + 1.0 / rate)
        span += width(later)
        best = max(best, gain / span)
    return best


@inline
def decided(m: Memory) -> int:
    """Whether prospects rank from now on: they do when something speaks against counts, until nothing does any more and
    something speaks for them. Where memory as a whole meets next to nothing, they can only do better; and where all
    but few rows have had many partners, counts tell most."""
    rows, mean, held = stream_at(m, 0).rows + stream_at(m, 1).rows, mean_rate(m), all_held(m)
    if of_both(m, PR_HELD, LAST) >= (1.0 - SHARE) * held:
        return 0
    if m.head.looks >= LOOKS and mean * rows * SELDOM < 1.0:
        return 1
    for stream in range(2):
        for kind in range(1, CLASSES):
            if speaks_against(m, stream, kind, held, mean):
                return 1
    return 1 if m.head.judging and not speaks_for(m) else 0


@inline
def of_both(m: Memory, what: int, kind: int) -> float:
    """What was met or held of a class of both streams."""
    return total(m, what, 0, kind) + total(m, what, 1, kind)


@inline
def speaks_against(m: Memory, stream: int, kind: int, whole: float, mean: float) -> bool:
    """Whether rows of a class meet next to nothing, or surely less than those of a lower class: counts take them for
    better. It takes less to go on than to begin."""
    met, held = total(m, PR_MET, stream, kind), total(m, PR_HELD, stream, kind)
    known, times = (KNOWN, POOR) if m.head.judging == 0 else (LITTLE, TWICE)
    if m.head.judging == 0 and held < SHARE * whole:
        return False
    if times * (met + 1.0) < mean * held:
        return True
    for other in range(2):
        for lower in range(kind):
            there, beside = total(m, PR_MET, other, lower), total(m, PR_HELD, other, lower)
            if there >= known and beside >= FEW * whole and there / beside * held > TWICE * met + known:
                return True
    return False


@inline
def speaks_for(m: Memory) -> bool:
    """Whether rows that had one partner meet no less than those that had none."""
    one, none = of_both(m, PR_MET, 1), of_both(m, PR_MET, 0)
    return one >= LITTLE and one * of_both(m, PR_HELD, 0) >= none * of_both(m, PR_HELD, 1)


@inline
def fade(m: Memory) -> None:
    """Halve what is known when a window has passed."""
    now, mine = clock(m), stream_at(m, 0)
    span = 2.0 * mine.last_rows if mine.last_rows > 0 else float(length(mine.reach)) + 1.0
    if now < m.head.faded + span:
        return
    m.head.faded = now
    for stream in range(2):
        at = prospects_at(m, stream)
        for k in range(2 * CLASSES * AGES):
            m.x[at + k] *= 0.5
