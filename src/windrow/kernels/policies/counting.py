"""Policies that go by how often partners arrive: what they keep of arrivals, and how chances follow from it.

Statistics count every arrival under its keys, and keep keys whose rows have left. Plain counts of two streams with a
common key are deferred (exact.py): until then nothing is asked of them and no keys are kept, and then they begin
with the residents.

Below `ways` stand the hooks that only such policies have: in how many ways arrivals are counted, which of them is asked
for, and what each gives.
"""

from typing import Any

from windrow.kernels.jit import inline, inner
from windrow.kernels.joins import join_of_link, join_of_number, matches_in
from windrow.kernels.keys import meet_key
from windrow.kernels.layout import (
    FREQ,
    R_CODES,
    R_STREAM,
    STAT_RUNNING,
    Key,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import chain, directory_of, histogram_at, key_at, key_of, slot_at, stream_at
from windrow.kernels.policies import chances
from windrow.kernels.policies.ranked import touch_group, waits
from windrow.kernels.statistics.counts import any_learning, arrivals_of, fade, gain_of, learn_key, start_key, worth_at
from windrow.kernels.statistics.histogram import hist_learn

BASE = "ranked"
DEFERS = True


@inline
def met(h: Any, m: Memory, code: int) -> int:
    """The number of an arriving row's key: it is counted."""
    return meet_key(h, m, 0, code)


@inline
def opened(h: Any, m: Memory, d: int, key: int, code: int) -> None:
    """A new key may be known to the statistic."""
    if m.statistic != STAT_RUNNING:
        start_key(m.w, d, key, code)


@inline
def learns(h: Any, m: Memory) -> bool:
    """Whether arrivals teach the statistic anything."""
    return any_learning(m)


@inline
def learn_pair(h: Any, m: Memory, r: Any, rx: Any, at: int, key: int) -> None:
    """Let the statistics see the row at a place of a join of two streams with a common key."""
    if any_learning(m):
        learn_link(h, m, r, rx, at, 0, 0, key)
        learn_end(h, m)


@inline
def learn_row(h: Any, m: Memory, r: Any, rx: Any, at: int, slot: int) -> None:
    """Let the statistics see the row at a place of any other join; priorities that rest on it follow."""
    if any_learning(m):
        learn_links(h, m.w, r, rx, at, slot)


@inner
def learn_links(h: Any, words: Any, r: Any, rx: Any, at: int, slot: int) -> None:
    """Let the statistics see all keys and numbers of the row at a place."""
    m = memory_of(words)
    stream = r[at + R_STREAM]
    for link in range(m.links):
        d = directory_of(m, stream, link)
        if d < 0 or (m.several and not matches_in(m, slot, join_of_link(m, stream, link))):
            continue
        learn_link(h, m, r, rx, at, d, link, key_of(m, slot, link))
    if m.hists > 0:
        learn_numbers(m.w, r, rx, at, gain_of(m, rx, at))
    learn_end(h, m)


@inline
def learn_link(h: Any, m: Memory, r: Any, rx: Any, at: int, d: int, link: int, key: int) -> None:
    """Let the statistics see one key of the arriving row at a place; groups that rest on it follow."""
    stream = r[at + R_STREAM]
    h.meets(h, m, d, key, stream)
    learn_key(h, m, d, key, stream, r[at + R_CODES + link], gain_of(m, rx, at))
    if m.head.ranking != 0 and not m.by_row and not waits(h, m):
        for other in range(m.streams):
            if (other != stream or h.counts_own(h, m)) and chain(key_at(m, d, key), other).count > 0:
                touch_group(h, m, key, other)


@inline
def learn_end(h: Any, m: Memory) -> None:
    """After each arrival that was learned from: recent ones may have grown too heavy."""
    if m.head.growth != 1.0 and fade(h, m):
        h.rank_all(h, m)


@inner
def learn_numbers(words: Any, r: Any, rx: Any, at: int, gain: float) -> None:
    """Let the histograms see an arriving row."""
    m = memory_of(words)
    weight = m.head.weight
    if m.valued and not m.head.value_sum:
        weight *= max(gain, 0.0)
    for column in range(m.vals):
        hist = m.w[m.head.hist_of_at + r[at + R_STREAM] * m.vals + column]
        if hist >= 0 and m.several:
            join = join_of_number(m, r[at + R_STREAM], column)
            if (r[at + R_CODES + m.links] >> join) & 1 == 0:
                continue
        if hist >= 0:
            line, place = histogram_at(m, hist), at + R_CODES + m.links + column
            number = rx[place] if line.is_float else float(r[place])
            hist_learn(m.w, line, number, weight)


@inline
def begins(h: Any, m: Memory) -> None:
    """Count the residents; every arrival is counted from now on."""
    for stream in range(m.streams):
        slot = stream_at(m, stream).oldest
        while slot >= 0:
            h.count_in(h, m, key_at(m, 0, key_of(m, slot, 0)), stream, m.head.weight, 1.0)
            slot = slot_at(m, slot).newer


@inline
def starts(h: Any, m: Memory, rx: Any, at: int, slot: int) -> None:
    """No score yet."""
    if m.by_row:
        slot_at(m, slot).score = 0.0


@inline
def moved(h: Any, a: Memory, b: Memory, slot: int, there: int, same: bool) -> None:
    """No score yet."""
    if b.by_row:
        slot_at(b, there).score = 0.0


@inline
def group_score(h: Any, m: Memory, key: int, stream: int) -> float:
    """How often partners of a key arrive, on all the other streams of the common key."""
    record = key_at(m, 0, key)
    if m.streams == 2:
        return arrivals_of(h, m, record, 1 - stream)
    product = 1.0
    for other in range(m.streams):
        if other != stream:
            product *= arrivals_of(h, m, record, other)
    return product


@inline
def row_score(h: Any, m: Memory, slot: int) -> float:
    """A resident's chance of partners."""
    return chances.row_chance(h, m.w, slot)


# ------------------------------------------------------------------------------------------- ways to count


@inline
def ways(h: Any) -> int:
    """In how many ways arrivals are counted."""
    return 1


@inline
def way(h: Any, m: Memory) -> int:
    """The way that is asked for."""
    return 0


@inline
def counted(h: Any, m: Memory, record: Key, stream: int, way: int) -> float:
    """How often a key arrives on a stream, by a way to count."""
    return chain(record, stream).freq


@inline
def meets(h: Any, m: Memory, d: int, key: int, stream: int) -> None:
    """A row of a stream with a key has come, and is about to be counted."""


@inline
def rescaled(h: Any, m: Memory, least: float) -> None:
    """All weights are smaller by a factor."""


@inline
def counts_own(h: Any, m: Memory) -> bool:
    """Whether an arrival also counts for the rows of its own stream."""
    return False


@inline
def worth_of(h: Any, m: Memory, record: Key, stream: int) -> float:
    """How often a key arrives on a stream, weighted by output value."""
    return m.x[worth_at(m, record, stream)]


@inline
def count_in(h: Any, m: Memory, record: Key, stream: int, weight: float, gain: float) -> None:
    """Count an arrival of a weight."""
    chain(record, stream).freq += weight
    if m.valued:
        m.x[worth_at(m, record, stream)] += weight * gain


@inline
def count_weight(h: Any, m: Memory) -> float:
    """What the latest arrival has added to its key's frequency."""
    return m.head.weight


@inline
def histogram_total(h: Any, m: Memory, stream: int, total: float) -> float:
    """Arrivals of a stream that compare with frequencies of keys, where histograms have counted so many."""
    return total


@inline
def fading_at(h: Any, m: Memory, record: Key, stream: int) -> int:
    """Where the frequency stands whose weights grow."""
    return chain(record, stream).at + FREQ


@inline
def fading_worth_at(h: Any, m: Memory, record: Key, stream: int) -> int:
    """Where the same stands, weighted by output value."""
    return worth_at(m, record, stream)


@inline
def way_fades(h: Any, way: int) -> bool:
    """Whether a way to count goes by weights that grow."""
    return True
