"""What a shard's owner asks for between batches."""

from typing import Any

import numpy as np

from windrow.kernels import directory
from windrow.kernels.chains import free_slot, take_slot
from windrow.kernels.jit import entry, inline, inner
from windrow.kernels.keys import is_idle, open_key
from windrow.kernels.layout import (
    DONE,
    EXPIRED,
    FREQ,
    FULL,
    G_CLOCK,
    G_NUMBER,
    G_ROW,
    G_SEQ,
    G_STREAM,
    G_WHY,
    GONE_SIZE,
    HEAD_ALWAYS,
    HEAD_LEARNED,
    HEAD_SAME,
    LATEST,
    NONE,
    PER_STREAM,
    SLOT_ALWAYS,
    START_TUNED,
    STREAM_ALWAYS,
    STREAM_BITS,
    STREAM_MASK,
    UNKNOWN,
    YES,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import (
    before_at,
    came_at,
    came_time_at,
    chain,
    directory_at,
    directory_of,
    histogram_at,
    key_at,
    key_of,
    link_at,
    numbers_at,
    slot_at,
    stream_at,
)
from windrow.kernels.retain import admit, any_over, depart_one, expire_all, move_watermark, shed
from windrow.kernels.statistics.histogram import hist_learn
from windrow.kernels.trials import counts_in_sample, row_in_sample

RARITIES = 2048  # exponents of a float


@entry
def rebuild(h: Any, block: Any) -> None:
    """Fill the directories' tables and decide the tournaments, from the records."""
    m = memory_of(block)
    for d in range(m.dirs):
        directory.refill(m.w, d)
    h.rebuild(h, m)


@entry
def catch_up(h: Any, block: Any) -> None:
    """Write what waits to be written, before the block is packed."""
    h.catch_up(h, memory_of(block))


@entry
def raise_watermark(h: Any, block: Any, mark: int, ends: bool) -> None:
    """Let no row before a time be waited for any longer; if the input ends, none at all: every resident expires."""
    m = memory_of(block)
    if mark > m.head.watermark:
        m.head.watermark = mark
        expire_all(h, m)
    if ends:  # windows in rows and windows without an end do not pass with time
        for stream in range(m.streams):
            while stream_at(m, stream).oldest >= 0:
                depart_one(h, m.w, stream_at(m, stream).oldest, EXPIRED)


@entry
def collect(h: Any, block: Any) -> None:
    """Release what can be released by now."""
    h.collect(h, memory_of(block))


@entry
def doubt(block: Any) -> None:
    """Let no resident be Yes any longer: what it reaches has changed with the promises that are used."""
    m = memory_of(block)
    m.head.rounds = 0
    for stream in range(m.streams):
        slot = stream_at(m, stream).oldest
        while slot >= 0:
            at = slot_at(m, slot)
            if at.status == YES:
                at.status = UNKNOWN
            slot = at.newer


@entry
def begin_policy(h: Any, block: Any) -> None:
    """Let a policy that was deferred begin with the residents."""
    h.begins(h, memory_of(block))


@entry
def reconsider(h: Any, block: Any) -> int:
    """After windows or caps have changed: expire, rank anew, shed. FULL if rows do not fit and none may be shed."""
    m = memory_of(block)
    expire_all(h, m)
    if m.head.own_clock or any_over(m):
        move_watermark(m, LATEST)
        expire_all(h, m)
    if m.head.fail_when_full and any_over(m):
        return FULL
    h.rank_all(h, m)
    shed(h, m)
    return DONE


@inline
def rarity(m: Memory, d: int, key: int) -> int:
    """A key's bin for forgetting, the exponent of its largest frequency; NONE for keys in use or free."""
    record = key_at(m, d, key)
    if chain(record, 0).count == NONE or not is_idle(m, d, key):
        return NONE
    most = 0
    for stream in range(m.streams):
        most = max(most, m.w[chain(record, stream).at + FREQ] >> 52)  # the exponent of a float that is not negative
    return most


@entry
def forget_rarest(block: Any) -> None:
    """Forget about half of the keys that only statistics keep, the rarest first, where there are too many of them."""
    m = memory_of(block)
    for d in range(m.dirs):
        ctl = directory_at(m, d)
        if ctl.idle <= m.head.idle_limit:
            continue
        bins = np.zeros(RARITIES, np.int64)
        for key in range(ctl.top):
            rare = rarity(m, d, key)
            if rare >= 0:
                bins[rare] += 1
        left = ctl.idle // 2 + 1
        last = 0
        while bins[last] < left:
            left -= bins[last]
            last += 1
        limit = least_code(m, d, last, bins[last], left)
        for key in range(ctl.top):
            rare = rarity(m, d, key)
            if rare < 0 or rare > last or (rare == last and key_at(m, d, key).code > limit):
                continue
            directory.remove(m, d, key)
            ctl.idle -= 1


@inline
def least_code(m: Memory, d: int, rare: int, count: int, nth: int) -> int:
    """The nth least code of the keys in a bin: whom to forget does not depend on how keys happen to be numbered."""
    codes, n = np.empty(count, np.int64), 0
    for key in range(directory_at(m, d).top):
        if rarity(m, d, key) == rare:
            codes[n] = key_at(m, d, key).code
            n += 1
    codes.sort()
    return codes[nth - 1]


@entry
def learn_histogram(block: Any, hist: int, numbers: Any, weights: Any) -> None:
    """Count many values in one histogram."""
    m = memory_of(block)
    for k in range(numbers.shape[0]):
        hist_learn(m.w, histogram_at(m, hist), numbers[k], weights[k])


@entry
def drain(block: Any) -> Any:
    """The rows that were shed, in order of departure, [row, word]; their slots are free again."""
    m = memory_of(block)
    gone = np.empty((m.head.gone_count, GONE_SIZE), np.int64)
    for k in range(gone.shape[0] - 1, -1, -1):
        slot = m.head.gone
        at = slot_at(m, slot)
        gone[k, G_STREAM], gone[k, G_ROW] = at.cost & STREAM_MASK, at.row
        gone[k, G_SEQ], gone[k, G_CLOCK], gone[k, G_NUMBER] = at.newer, at.time, at.seq
        gone[k, G_WHY] = at.cost >> STREAM_BITS
        m.head.gone = at.older
        free_slot(m, slot)
    m.head.gone_count = 0
    return gone


@entry
def move_residents(
    h: Any, old: Any, new: Any, extra_cost: int, same: bool, learned: bool, share: float, popular: Any
) -> Any:
    """Admit the residents of one block to an empty one of the same join; the new slot of each old one, 0 of empty ones.

    The hooks are those of the new block; `same` says whether the old one had the same policy. Charges grow by
    `extra_cost` per row, what the new block costs more. The new block has room for all. With `learned` both blocks
    count frequencies in the same way: they move too, with the keys that only statistics keep. Of a share below 1 only
    rows and keys of a sample move (see trials.py).
    """
    a, b = memory_of(old), memory_of(new)
    moved = np.zeros(max(a.head.top, 1), np.int64)  # who left a slot before an earlier move is looked for in slot 0
    for word in HEAD_ALWAYS:
        b.w[word] = a.w[word]
    if same and a.head.credit_start == START_TUNED and b.head.credit_start == START_TUNED:
        for word in HEAD_SAME:
            b.w[word] = a.w[word]
    for stream in range(a.streams):
        mine, theirs = stream_at(b, stream), stream_at(a, stream)
        for word in STREAM_ALWAYS:
            b.w[mine.at + word] = a.w[theirs.at + word]
        slot = theirs.oldest
        while slot >= 0:
            if share == 1.0 or row_in_sample(a, slot, share, popular):
                moved[slot] = move_one(h, a, b, slot, stream, extra_cost, same)
            slot = slot_at(a, slot).newer
    if learned:
        for word in HEAD_LEARNED:
            b.w[word] = a.w[word]
        for d in range(a.dirs):
            move_frequencies(a, b, d, share, popular)
    if b.head.status_off > 0:
        for d in range(a.dirs):
            move_came(a, b, d)
    return moved


@inner
def move_came(a: Memory, b: Memory, d: int) -> None:
    """Copy when rows of the keys of a directory came, where these have residents."""
    for key in range(directory_at(a, d).top):
        if chain(key_at(a, d, key), 0).count == NONE:
            continue
        there = directory.find(b, d, key_at(a, d, key).code)
        for stream in range(a.streams if there >= 0 else 0):
            b.w[came_at(b, d, there, stream)] = a.w[came_at(a, d, key, stream)]
            if a.head.clusters_in_time:
                b.w[came_time_at(b, d, there, stream)] = a.w[came_time_at(a, d, key, stream)]


@inner
def move_frequencies(a: Memory, b: Memory, d: int, share: float, popular: Any) -> None:
    """Copy how often the keys of a directory arrive; keys without residents come along."""
    for key in range(directory_at(a, d).top):
        x = key_at(a, d, key)
        if chain(x, 0).count == NONE or (share < 1.0 and not counts_in_sample(x.code, share, popular)):
            continue
        there = directory.find(b, d, x.code)
        if there < 0:
            there = directory.add(b, d, x.code)
            directory_at(b, d).idle += 1
        y = key_at(b, d, there)
        for stream in range(a.streams):
            chain(y, stream).freq = chain(x, stream).freq
        for word in range(1 + PER_STREAM * a.streams, a.key_words):  # what else is counted of keys
            b.w[y.at + word] = a.w[x.at + word]


@inner
def move_one(h: Any, a: Memory, b: Memory, slot: int, stream: int, extra_cost: int, same: bool) -> int:
    """Copy one resident; its slot in the new block."""
    there = take_slot(b)
    x, y = slot_at(a, slot), slot_at(b, there)
    for word in SLOT_ALWAYS:
        b.w[y.at + word] = a.w[x.at + word]
    y.cost = x.cost + (extra_cost << STREAM_BITS)
    for link in range(a.links):
        d = directory_of(a, stream, link)
        if d >= 0:
            code = key_at(a, d, key_of(a, slot, link)).code
            link_at(b, there, link).key = open_key(h, b, d, code)
    for column in range(a.vals):
        b.w[numbers_at(b, there) + column] = a.w[numbers_at(a, slot) + column]
    if b.rank_off > 0:
        y.rank = x.rank
    if b.valued:
        y.gain = x.gain
    if b.head.status_off > 0:
        y.status = x.status
        for k in range(b.head.befores):
            b.w[before_at(b, there, k)] = a.w[before_at(a, slot, k)]
    h.moved(h, a, b, slot, there, same)
    admit(h, b, there)
    return there
