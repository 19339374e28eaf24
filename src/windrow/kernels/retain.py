"""Retaining: who is admitted, who expires, who is shed. Every row that leaves memory leaves here.

    admit   link a row into its lists, indexes and leaf, and charge it
    expire  drop residents that no row at or behind the watermark can match
    shed    drop the rule's victims until each pool is inside its cap

Invariant after `shed`: used <= cap for every pool, in rows and in bytes. Cost per row: O(log residents), amortised.
"""

from typing import Any

import numpy as np

from windrow.kernels import age, credit, directory, ordered, tournament
from windrow.kernels.apart import apart, before, length
from windrow.kernels.chains import (
    age_insert,
    age_remove,
    chain_insert,
    chain_remove,
    free_slot,
    is_noted,
    key_of,
    link_at,
    set_aside,
    slot_at,
    stream_at,
)
from windrow.kernels.directory import key_at
from windrow.kernels.estimate import life_learn, start_key
from windrow.kernels.hashing import random_below
from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import (
    AGE,
    ARRIVED,
    BASE,
    BYTES,
    CAP_BYTES,
    CAP_ROWS,
    CLOCK,
    COST,
    COUNT,
    DENSE_AT,
    DIR_SIZE,
    EXPIRED,
    FIFO,
    GIVEN,
    GREEDY_DUAL,
    INDEX_SIZE,
    INDEXES_AT,
    KEY_BYTES,
    KEY_IDLE,
    LAST_ROWS,
    LAST_TIME,
    LATENESS,
    LATEST,
    LIFE_EXPECTED,
    LINK_OLDER,
    NONE,
    OLDEST,
    PATIENCE,
    PEAK_BYTES,
    PEAK_ROWS,
    PER_STREAM,
    PLACE_OFF,
    POOL,
    POOL_SIZE,
    RAND,
    RANDOM,
    RANK,
    REACH,
    ROWS,
    SAMPLED,
    SCORE_OFF,
    SEED,
    SHED,
    SINCE,
    SLOT_CAP,
    STREAM_BITS,
    TIME,
    USED_BYTES,
    USED_ROWS,
    WATERMARK,
    WEIGHT,
    X_COLUMN,
    X_FLOAT,
    X_STREAM,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.score import (
    clock,
    cut,
    group_of,
    group_score,
    held,
    leader,
    lose_head,
    lowest_group,
    ranked,
    row_score,
    stream_of,
    touch_group,
    touch_row,
)


@inline
def index_number(m: Memory, ix: int, slot: int) -> int:
    """The number under which an ordered index files a resident."""
    line = m.w[INDEXES_AT] + ix * INDEX_SIZE
    bits = m.w[slot_at(m, slot) + m.vals_off + m.w[line + X_COLUMN]]
    return ordered.ordered_bits(bits) if m.w[line + X_FLOAT] else bits


@inline
def is_idle(m: Memory, d: int, key: int) -> bool:
    """Whether a key has no residents."""
    record = key_at(m, d, key)
    for stream in range(m.streams):
        if m.w[record + PER_STREAM * stream + COUNT] > 0:
            return False
    return True


@inline
def unused(m: Memory, d: int, key: int, stream: int) -> bool:
    """Whether nothing is charged for a key: without residents or, in split memory, without residents of the stream."""
    if m.pools == 1:
        return is_idle(m, d, key)
    return m.w[key_at(m, d, key) + PER_STREAM * stream + COUNT] == 0


@inline
def meet_key(m: Memory, d: int, code: int) -> int:
    """The key number of a code, new if need be; it is not known yet whether it will have residents."""
    key = directory.find(m, d, code)
    if key < 0:
        key = directory.add(m, d, code)
        start_key(m, d, key, code)
        if m.keep_idle:
            m.w[m.dirs_at + d * DIR_SIZE + KEY_IDLE] += 1
    return key


@inline
def hold_key(m: Memory, d: int, key: int) -> None:
    """Let a key that was met have residents from now on."""
    if m.keep_idle and is_idle(m, d, key):
        m.w[m.dirs_at + d * DIR_SIZE + KEY_IDLE] -= 1


@inline
def open_key(m: Memory, d: int, code: int) -> int:
    """The key number of a code that will have residents, new if need be."""
    key = meet_key(m, d, code)
    hold_key(m, d, key)
    return key


@inline
def pass_key(m: Memory, d: int, key: int) -> None:
    """Forget a key that was met in vain, unless it has residents or is kept for its frequencies."""
    if key >= 0 and not m.keep_idle and is_idle(m, d, key):
        directory.remove(m, d, key)


@inline
def close_key(m: Memory, d: int, key: int) -> None:
    """Forget a key that has no residents left, or keep it for its frequencies."""
    if not is_idle(m, d, key):
        return
    if m.keep_idle:
        m.w[m.dirs_at + d * DIR_SIZE + KEY_IDLE] += 1
    else:
        directory.remove(m, d, key)


@inline
def charge(m: Memory, stream: int, rows: int, cost: int, keys_cost: int) -> None:
    """Count rows and bytes in or out, for the stream and its pool; keys are the pool's, for streams share them."""
    mine = stream_at(m, stream)
    pool = m.pools_at + m.w[mine + POOL] * POOL_SIZE
    m.w[mine + ROWS] += rows
    m.w[mine + BYTES] += cost
    m.w[pool + USED_ROWS] += rows
    m.w[pool + USED_BYTES] += cost + keys_cost


@inline
def admit(m: Memory, slot: int) -> None:
    """Make a filled slot a resident: its links name its keys already."""
    stream = stream_of(m, slot)
    age_insert(m, stream, slot)
    opened = 0
    for link in range(m.links):
        d = m.w[m.classes_at + stream * m.links + link]
        if d >= 0:
            record = key_at(m, d, key_of(m, slot, link))
            opened += unused(m, d, key_of(m, slot, link), stream)
            chain_insert(m, record, stream, slot, link)
    for ix in range(m.indexes):
        if m.w[m.w[INDEXES_AT] + ix * INDEX_SIZE + X_STREAM] == stream:
            ordered.insert(m.w, ix, index_number(m, ix, slot), slot)
    charge(m, stream, 1, m.w[slot_at(m, slot) + COST] >> STREAM_BITS, opened * m.w[KEY_BYTES])
    if m.rule == RAND:
        dense_add(m, m.w[stream_at(m, stream) + POOL], slot)
    elif ranked(m):
        if m.rule == GREEDY_DUAL:
            credit.enter(m, slot)
        if m.by_row:
            touch_row(m.w, slot, False)
        elif m.rule != GREEDY_DUAL and m.w[link_at(m, slot, 0) + LINK_OLDER] < 0:
            touch_group(m.w, key_of(m, slot, 0), stream)


@inline
def dense_add(m: Memory, pool: int, slot: int) -> None:
    """Put a resident at the end of its pool's dense list (it has been charged already)."""
    place = m.w[m.pools_at + pool * POOL_SIZE + USED_ROWS] - 1
    m.w[slot_at(m, slot) + m.w[PLACE_OFF]] = place
    m.w[m.w[DENSE_AT] + pool * m.w[SLOT_CAP] + place] = slot


@inline
def dense_remove(m: Memory, pool: int, slot: int) -> None:
    """Close the gap of a resident in the dense list with the last one (the charge is gone already)."""
    dense = m.w[DENSE_AT] + pool * m.w[SLOT_CAP]
    place = m.w[slot_at(m, slot) + m.w[PLACE_OFF]]
    last = m.w[dense + m.w[m.pools_at + pool * POOL_SIZE + USED_ROWS]]
    m.w[dense + place] = last
    m.w[slot_at(m, last) + m.w[PLACE_OFF]] = place


@inline
def unlink_keys(m: Memory, slot: int, stream: int) -> int:
    """Take a resident out of its chains; how many of them are empty now."""
    closed = 0
    by_group = ranked(m) and not m.by_row
    for link in range(m.links):
        d = m.w[m.classes_at + stream * m.links + link]
        if d < 0:
            continue
        key = key_of(m, slot, link)
        record = key_at(m, d, key)
        was_head = m.w[link_at(m, slot, link) + LINK_OLDER] < 0
        chain_remove(m, record, stream, slot, link)
        if by_group and was_head and m.rule != GREEDY_DUAL:
            lose_head(m.w, key, stream)
        closed += unused(m, d, key, stream)
        if m.w[record + PER_STREAM * stream + COUNT] == 0:
            close_key(m, d, key)
    return closed


@inline
def count_departure(m: Memory, stream: int, reason: int) -> None:
    """Count a row that leaves, or is never admitted; `reason` is EXPIRED, SHED or SAMPLED, which is shed too."""
    m.w[stream_at(m, stream) + reason] += 1
    if reason == SAMPLED:
        m.w[stream_at(m, stream) + SHED] += 1


@inline
def drop(m: Memory, slot: int, reason: int) -> None:
    """Take a resident out of every structure; `reason` is EXPIRED, SHED or SAMPLED."""
    stream = stream_of(m, slot)
    count_departure(m, stream, reason)
    if m.rule == LIFE_EXPECTED and reason != SAMPLED:
        score = m.x[slot_at(m, slot) + m.w[SCORE_OFF]] if m.by_row else group_score(m, key_of(m, slot, 0), stream)
        life_learn(m.w, stream, cut(score) / m.x[WEIGHT], held(m, slot))
    elif m.rule == GREEDY_DUAL:
        credit.leave(m, slot)
    elif m.rule == AGE:
        age.depart(m.w, slot)
    age_remove(m, stream, slot)
    for ix in range(m.indexes):
        if m.w[m.w[INDEXES_AT] + ix * INDEX_SIZE + X_STREAM] == stream:
            ordered.remove(m.w, ix, index_number(m, ix, slot), slot)
    closed = unlink_keys(m, slot, stream)
    if m.by_row and ranked(m):
        touch_row(m.w, slot, True)
    charge(m, stream, -1, -(m.w[slot_at(m, slot) + COST] >> STREAM_BITS), -closed * m.w[KEY_BYTES])
    if m.rule == RAND:
        dense_remove(m, m.w[stream_at(m, stream) + POOL], slot)
    if reason != EXPIRED and is_noted(m, m.w[slot_at(m, slot) + ARRIVED]):
        set_aside(m, slot, reason)
    else:
        free_slot(m, slot)


@inner
def let_go(words: Any, slot: int, reason: int) -> None:
    """Forget a row that was probed but never admitted; `reason` is SHED, SAMPLED or NONE if it is no loss."""
    m = memory_of(words)
    stream = stream_of(m, slot)
    for link in range(m.links):
        d = m.w[m.classes_at + stream * m.links + link]
        if d >= 0:
            close_key(m, d, key_of(m, slot, link))
    if reason != NONE and is_noted(m, m.w[slot_at(m, slot) + ARRIVED]):
        set_aside(m, slot, reason)
    else:
        free_slot(m, slot)


@inner
def turn_away(words: Any, slot: int, reason: int) -> None:
    """Shed a row that was probed but never admitted; `reason` is SHED or SAMPLED."""
    m = memory_of(words)
    count_departure(m, stream_of(m, slot), reason)
    let_go(m.w, slot, reason)


@inline
def move_clock(m: Memory, time: int, stream: int) -> None:
    """Note that a row of a stream has come with a time."""
    mine = stream_at(m, stream)
    if time > m.w[mine + LAST_TIME]:
        m.w[mine + LAST_TIME] = time
        if time > m.w[CLOCK]:
            m.w[CLOCK] = time


@inline
def own_mark(m: Memory) -> int:
    """The least time that a row may still bring within its stream's lateness, over all streams.

    A stream is waited for until another runs ahead of it by more than the query's patience.
    """
    least = LATEST
    for stream in range(m.streams):
        mine = stream_at(m, stream)
        seen = max(m.w[mine + LAST_TIME], before(m.w[CLOCK], length(m.w[mine + PATIENCE])))
        least = min(least, before(seen, length(m.w[mine + LATENESS])))
    return least


@inline
def move_watermark(m: Memory, most: int) -> None:
    """Raise the watermark to where the times of rows have brought it, but not past a time that rows still have."""
    m.w[WATERMARK] = max(m.w[WATERMARK], min(own_mark(m), most))


@inline
def expire(m: Memory, stream: int) -> None:
    """Drop the residents of a stream whose window has passed."""
    mine, mark = stream_at(m, stream), m.w[WATERMARK]
    while m.w[mine + OLDEST] >= 0:
        slot = m.w[mine + OLDEST]
        at = slot_at(m, slot)
        if m.w[mine + LAST_ROWS] > 0:
            gone = m.w[at + m.rank_off] < m.w[mine + RANK] - m.w[mine + LAST_ROWS]
        else:
            time = m.w[at + TIME]
            gone = time < mark and (apart(mark, time) > length(m.w[mine + REACH]) or time < m.w[mine + SINCE])
        if not gone:
            break
        drop(m, slot, EXPIRED)


@inline
def expire_all(m: Memory) -> None:
    """Drop the residents of all streams whose window has passed."""
    for stream in range(m.streams):
        expire(m, stream)


@inline
def over(m: Memory, pool: int) -> bool:
    """Whether a pool is above its cap."""
    at = m.pools_at + pool * POOL_SIZE
    return m.w[at + USED_ROWS] > m.w[at + CAP_ROWS] or m.w[at + USED_BYTES] > m.w[at + CAP_BYTES]


@inline
def any_over(m: Memory) -> bool:
    """Whether some pool is above its cap."""
    for pool in range(m.pools):
        if over(m, pool):
            return True
    return False


@inline
def oldest(m: Memory, pool: int) -> int:
    """The resident of a pool with the least (time, sequence number)."""
    best, best_time, best_seq = -1, 0, 0
    for stream in range(m.streams):
        slot = m.w[stream_at(m, stream) + OLDEST]
        if m.w[stream_at(m, stream) + POOL] != pool or slot < 0:
            continue
        time, seq = m.w[slot_at(m, slot) + TIME], m.w[slot_at(m, slot) + ARRIVED]
        if best < 0 or time < best_time or (time == best_time and seq < best_seq):
            best, best_time, best_seq = slot, time, seq
    return best


@inline
def lowest(m: Memory, pool: int) -> int:
    """The resident with the lowest priority."""
    leaf = credit.least(m, pool) if m.rule == GREEDY_DUAL else lowest_group(m.w, pool)
    if m.x[tournament.leaf_at(m, pool, leaf) + BASE] == np.inf:
        return oldest(m, pool)  # no leaf holds anybody: cannot be, but a loop without end would be worse
    if m.by_row:
        for _ in range(4):  # what has gained since it was scored gets a second look
            if row_score(m.w, leaf) == m.x[slot_at(m, leaf) + m.w[SCORE_OFF]]:
                break
            touch_row(m.w, leaf, False)
            leaf = tournament.winner(m, pool)
        return leaf
    key, stream = group_of(m, pool, leaf)
    return leader(m, key_at(m, 0, key), stream)


@inline
def victim(m: Memory, pool: int) -> int:
    """Whom the rule sheds next."""
    if m.rule == RAND:
        m.w[RANDOM] += 1
        rows = m.w[m.pools_at + pool * POOL_SIZE + USED_ROWS]
        return m.w[m.w[DENSE_AT] + pool * m.w[SLOT_CAP] + np.int64(random_below(m.w[SEED], m.w[RANDOM], rows))]
    if m.rule == FIFO:
        return oldest(m, pool)
    if m.rule == AGE:
        return age.overdue(m.w, pool)
    return lowest(m, pool)


@inline
def ending(m: Memory, pool: int) -> int:
    """A resident of a pool that could only match more rows of the present instant, or NONE.

    Not with GIVEN: whoever gives the numbers may know that the window is about to grow.
    """
    if m.rule == GIVEN:
        return NONE
    for stream in range(m.streams):
        mine = stream_at(m, stream)
        slot = m.w[mine + OLDEST]
        if slot >= 0 and m.w[mine + POOL] == pool and m.w[mine + LAST_ROWS] == 0:
            time = m.w[slot_at(m, slot) + TIME]
            if m.w[WATERMARK] >= time and apart(m.w[WATERMARK], time) >= length(m.w[mine + REACH]):
                return slot
    return NONE


@inline
def shed(m: Memory) -> None:
    """Bring every pool inside its cap, then note the peaks."""
    rows, cost = 0, 0
    for pool in range(m.pools):
        if over(m, pool):
            if ranked(m):
                tournament.advance(m.w, pool, clock(m))
            while over(m, pool):
                slot = ending(m, pool)  # what its window has almost left goes before what the rule would choose
                drop(m, slot if slot >= 0 else victim(m, pool), SHED)
        rows += m.w[m.pools_at + pool * POOL_SIZE + USED_ROWS]
        cost += m.w[m.pools_at + pool * POOL_SIZE + USED_BYTES]
    m.w[PEAK_ROWS] = max(m.w[PEAK_ROWS], rows)
    m.w[PEAK_BYTES] = max(m.w[PEAK_BYTES], cost)
