"""What a shard's owner asks for between batches."""

from typing import Any

import numpy as np

from windrow.kernels import directory
from windrow.kernels.chains import free_slot, key_of, link_at, slot_at, stream_at, take_slot
from windrow.kernels.directory import key_at
from windrow.kernels.jit import entry, inline, inner
from windrow.kernels.keys import is_idle, open_key
from windrow.kernels.layout import (
    ARRIVALS,
    ARRIVED,
    CHOICE,
    CLOCK,
    CODE,
    COST,
    COUNT,
    CREDIT_START,
    DIR_SIZE,
    DONE,
    EXPIRED,
    FAIL_WHEN_FULL,
    FULL,
    G_CLOCK,
    G_NUMBER,
    G_ROW,
    G_SEQ,
    G_STREAM,
    G_WHY,
    GAIN_OFF,
    GONE,
    GONE_COUNT,
    GONE_SIZE,
    GROWTH,
    HALF_LIFE,
    HIST_SIZE,
    HISTS_AT,
    IDLE_LIMIT,
    INITIAL,
    KEY,
    KEY_IDLE,
    KEY_TOP,
    LAST_TIME,
    LATEST,
    MATCHED,
    MIX,
    MIX_UNTIL,
    NEWER,
    NONE,
    OLDER,
    OLDEST,
    OWN_CLOCK,
    PEAK_BYTES,
    PEAK_ROWS,
    PER_STREAM,
    RANDOM,
    RANK,
    RELEASED,
    ROW,
    SAMPLED,
    SEEN,
    SEEN_FIRST,
    SEEN_LAST,
    SEQ,
    SHED,
    START_TUNED,
    STREAM_BITS,
    STREAM_MASK,
    TIME,
    TOP,
    TRIAL,
    TRIAL_LEFT,
    TRIAL_SPAN,
    TRIAL_START,
    VALUE,
    WATERMARK,
    WEIGHT,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.retain import admit, any_over, depart, depart_one, expire_all, move_watermark, shed
from windrow.kernels.statistics.counts import freq_at
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
def raise_watermark(h: Any, block: Any, mark: int, ends: bool) -> None:
    """Let no row before a time be waited for any longer; if the input ends, none at all: every resident expires."""
    m = memory_of(block)
    if mark > m.w[WATERMARK]:
        m.w[WATERMARK] = mark
        expire_all(h, m)
    if ends:  # windows in rows and windows without an end do not pass with time
        for stream in range(m.streams):
            while m.w[stream_at(m, stream) + OLDEST] >= 0:
                depart_one(h, m.w, m.w[stream_at(m, stream) + OLDEST], EXPIRED)


@entry
def release(h: Any, block: Any, slots: Any) -> None:
    """Let residents depart that a constraint proves useless."""
    m = memory_of(block)
    for k in range(slots.shape[0]):
        depart(h, m, slots[k], RELEASED)


@entry
def begin_learning(h: Any, block: Any) -> None:
    """Count the residents, and every arrival from now on."""
    h.begin_learning(h, memory_of(block))


@entry
def reconsider(h: Any, block: Any) -> int:
    """After windows or caps have changed: expire, rank anew, shed. FULL if rows do not fit and none may be shed."""
    m = memory_of(block)
    expire_all(h, m)
    if m.w[OWN_CLOCK] or any_over(m):
        move_watermark(m, LATEST)
        expire_all(h, m)
    if m.w[FAIL_WHEN_FULL] and any_over(m):
        return FULL
    h.rank_all(h, m)
    shed(h, m)
    return DONE


@inline
def rarity(m: Memory, d: int, key: int) -> int:
    """A key's bin for forgetting, the exponent of its largest frequency; NONE for keys in use or free."""
    record = key_at(m, d, key)
    if m.w[record + COUNT] == NONE or not is_idle(m, d, key):
        return NONE
    most = 0
    for stream in range(m.streams):
        most = max(most, m.w[freq_at(record, stream)] >> 52)  # the exponent of a float that is not negative
    return most


@entry
def forget_rarest(block: Any) -> None:
    """Forget about half of the keys that only statistics keep, the rarest first, where there are too many of them."""
    m = memory_of(block)
    for d in range(m.dirs):
        ctl = m.dirs_at + d * DIR_SIZE
        if m.w[ctl + KEY_IDLE] <= m.w[IDLE_LIMIT]:
            continue
        bins = np.zeros(RARITIES, np.int64)
        for key in range(m.w[ctl + KEY_TOP]):
            rare = rarity(m, d, key)
            if rare >= 0:
                bins[rare] += 1
        left = m.w[ctl + KEY_IDLE] // 2 + 1
        last = 0
        while bins[last] < left:
            left -= bins[last]
            last += 1
        limit = least_code(m, d, last, bins[last], left)
        for key in range(m.w[ctl + KEY_TOP]):
            rare = rarity(m, d, key)
            if rare < 0 or rare > last or (rare == last and m.w[key_at(m, d, key) + CODE] > limit):
                continue
            directory.remove(m, d, key)
            m.w[ctl + KEY_IDLE] -= 1


@inline
def least_code(m: Memory, d: int, rare: int, count: int, nth: int) -> int:
    """The nth least code of the keys in a bin: whom to forget does not depend on how keys happen to be numbered."""
    codes, n = np.empty(count, np.int64), 0
    for key in range(m.w[m.dirs_at + d * DIR_SIZE + KEY_TOP]):
        if rarity(m, d, key) == rare:
            codes[n] = m.w[key_at(m, d, key) + CODE]
            n += 1
    codes.sort()
    return codes[nth - 1]


@entry
def learn_histogram(block: Any, hist: int, numbers: Any, weights: Any) -> None:
    """Count many values in one histogram."""
    m = memory_of(block)
    for k in range(numbers.shape[0]):
        hist_learn(m.w, m.w[HISTS_AT] + hist * HIST_SIZE, numbers[k], weights[k])


@entry
def drain(block: Any) -> Any:
    """The rows that were shed, in order of departure, [row, word]; their slots are free again."""
    m = memory_of(block)
    gone = np.empty((m.w[GONE_COUNT], GONE_SIZE), np.int64)
    for k in range(gone.shape[0] - 1, -1, -1):
        slot = m.w[GONE]
        at = slot_at(m, slot)
        gone[k, G_STREAM], gone[k, G_ROW] = m.w[at + COST] & STREAM_MASK, m.w[at + ROW]
        gone[k, G_SEQ], gone[k, G_CLOCK], gone[k, G_NUMBER] = m.w[at + NEWER], m.w[at + TIME], m.w[at + ARRIVED]
        gone[k, G_WHY] = m.w[at + COST] >> STREAM_BITS
        m.w[GONE] = m.w[at + OLDER]
        free_slot(m, slot)
    m.w[GONE_COUNT] = 0
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
    moved = np.zeros(max(a.w[TOP], 1), np.int64)  # who left a slot before an earlier move is looked for in slot 0
    for word in (SEQ, MATCHED, RANDOM, CLOCK, WATERMARK, ARRIVALS, PEAK_ROWS, PEAK_BYTES):
        b.w[word] = a.w[word]
    b.x[VALUE] = a.x[VALUE]
    if same and a.w[CREDIT_START] == START_TUNED and b.w[CREDIT_START] == START_TUNED:
        for word in (TRIAL, TRIAL_LEFT, TRIAL_START, TRIAL_SPAN, INITIAL):
            b.w[word] = a.w[word]
    for stream in range(a.streams):
        for word in (EXPIRED, RELEASED, SHED, SAMPLED, LAST_TIME, RANK, SEEN, SEEN_FIRST, SEEN_LAST):
            b.w[stream_at(b, stream) + word] = a.w[stream_at(a, stream) + word]
        slot = a.w[stream_at(a, stream) + OLDEST]
        while slot >= 0:
            if share == 1.0 or row_in_sample(a, slot, share, popular):
                moved[slot] = move_one(h, a, b, slot, stream, extra_cost, same)
            slot = a.w[slot_at(a, slot) + NEWER]
    if learned:
        for word in (CHOICE, HALF_LIFE, MIX, MIX_UNTIL, GROWTH, WEIGHT):
            b.w[word] = a.w[word]
        for d in range(a.dirs):
            move_frequencies(a, b, d, share, popular)
    return moved


@inner
def move_frequencies(a: Memory, b: Memory, d: int, share: float, popular: Any) -> None:
    """Copy how often the keys of a directory arrive; keys without residents come along."""
    for key in range(a.w[a.dirs_at + d * DIR_SIZE + KEY_TOP]):
        x = key_at(a, d, key)
        if a.w[x + COUNT] == NONE or (share < 1.0 and not counts_in_sample(a.w[x + CODE], share, popular)):
            continue
        there = directory.find(b, d, a.w[x + CODE])
        if there < 0:
            there = directory.add(b, d, a.w[x + CODE])
            b.w[b.dirs_at + d * DIR_SIZE + KEY_IDLE] += 1
        y = key_at(b, d, there)
        for stream in range(a.streams):
            b.w[freq_at(y, stream)] = a.w[freq_at(x, stream)]
        for word in range(1 + PER_STREAM * a.streams, a.key_words):  # what else is counted of keys
            b.w[y + word] = a.w[x + word]


@inner
def move_one(h: Any, a: Memory, b: Memory, slot: int, stream: int, extra_cost: int, same: bool) -> int:
    """Copy one resident; its slot in the new block."""
    there = take_slot(b)
    x, y = slot_at(a, slot), slot_at(b, there)
    for word in (TIME, ARRIVED, ROW):
        b.w[y + word] = a.w[x + word]
    b.w[y + COST] = a.w[x + COST] + (extra_cost << STREAM_BITS)
    for link in range(a.links):
        d = a.w[a.classes_at + stream * a.links + link]
        if d >= 0:
            code = a.w[key_at(a, d, key_of(a, slot, link)) + CODE]
            b.w[link_at(b, there, link) + KEY] = open_key(h, b, d, code)
    for column in range(a.vals):
        b.w[y + b.vals_off + column] = a.w[x + a.vals_off + column]
    if b.rank_off > 0:
        b.w[y + b.rank_off] = a.w[x + a.rank_off]
    if b.valued:
        b.x[y + b.w[GAIN_OFF]] = a.x[x + a.w[GAIN_OFF]]
    h.moved(h, a, b, slot, there, same)
    admit(h, b, there)
    return there
