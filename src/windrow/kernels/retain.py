"""Retaining: who is admitted, who expires, who is shed. Every resident that leaves memory leaves by `depart`.

    admit    link a row into its lists, indexes and leaf, and charge it
    depart   take a resident out of all of them, for a reason (see reasons.py)
    forget   give back the slot of a row that was probed but never admitted
    expire   let residents depart that no row at or behind the watermark can match
    shed     let the policy's victims depart until each pool is inside its cap

Invariant after `shed`: used <= cap for every pool, in rows and in bytes. Cost per row: O(log residents), amortised.
"""

from typing import Any

from windrow.kernels import ordered, reasons
from windrow.kernels.apart import apart, before, length
from windrow.kernels.chains import (
    age_insert,
    age_remove,
    chain_insert,
    chain_remove,
    free_slot,
    is_noted,
    key_of,
    set_aside,
    slot_at,
    stream_at,
    stream_of,
)
from windrow.kernels.directory import key_at
from windrow.kernels.jit import inline, inner
from windrow.kernels.keys import close_key, unused
from windrow.kernels.layout import (
    ARRIVED,
    BYTES,
    CAP_BYTES,
    CAP_ROWS,
    CLOCK,
    COST,
    COUNT,
    EXPIRED,
    INDEX_SIZE,
    INDEXES_AT,
    KEY_BYTES,
    LAST_ROWS,
    LAST_TIME,
    LATENESS,
    LATEST,
    NONE,
    OLDEST,
    PATIENCE,
    PEAK_BYTES,
    PEAK_ROWS,
    PER_STREAM,
    POOL,
    POOL_SIZE,
    RANK,
    REACH,
    ROWS,
    SHED,
    SINCE,
    STREAM_BITS,
    TIME,
    USED_BYTES,
    USED_ROWS,
    WATERMARK,
    X_COLUMN,
    X_FLOAT,
    X_STREAM,
)
from windrow.kernels.memory import Memory, memory_of


@inline
def index_number(m: Memory, ix: int, slot: int) -> int:
    """The number under which an ordered index files a resident."""
    line = m.w[INDEXES_AT] + ix * INDEX_SIZE
    bits = m.w[slot_at(m, slot) + m.vals_off + m.w[line + X_COLUMN]]
    return ordered.ordered_bits(bits) if m.w[line + X_FLOAT] else bits


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
def admit(h: Any, m: Memory, slot: int) -> None:
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
    h.entered(h, m, slot)


@inline
def unlink_keys(m: Memory, slot: int, stream: int) -> int:
    """Take a resident out of its chains; how many of them are empty now."""
    closed = 0
    for link in range(m.links):
        d = m.w[m.classes_at + stream * m.links + link]
        if d < 0:
            continue
        key = key_of(m, slot, link)
        record = key_at(m, d, key)
        chain_remove(m, record, stream, slot, link)
        closed += unused(m, d, key, stream)
        if m.w[record + PER_STREAM * stream + COUNT] == 0:
            close_key(m, d, key)
    return closed


@inline
def depart(h: Any, m: Memory, slot: int, reason: int) -> None:
    """Take a resident out of every structure."""
    stream = stream_of(m, slot)
    reasons.count(m, stream, reason)
    h.leaving(h, m, slot, reason)
    age_remove(m, stream, slot)
    for ix in range(m.indexes):
        if m.w[m.w[INDEXES_AT] + ix * INDEX_SIZE + X_STREAM] == stream:
            ordered.remove(m.w, ix, index_number(m, ix, slot), slot)
    closed = unlink_keys(m, slot, stream)
    charge(m, stream, -1, -(m.w[slot_at(m, slot) + COST] >> STREAM_BITS), -closed * m.w[KEY_BYTES])
    h.left(h, m, slot)
    give_slot(m, slot, reason)


@inline
def give_slot(m: Memory, slot: int, reason: int) -> None:
    """Give back the slot of a row that is nowhere any more, or keep it until its owner has asked for it."""
    if reasons.is_lost(reason) and is_noted(m, m.w[slot_at(m, slot) + ARRIVED]):
        set_aside(m, slot, reason)
    else:
        free_slot(m, slot)


@inner
def depart_one(h: Any, words: Any, slot: int, reason: int) -> None:
    """The same where it is done seldom."""
    depart(h, memory_of(words), slot, reason)


@inner
def forget(words: Any, slot: int, reason: int) -> None:
    """Forget a row that was probed from a slot but never admitted; NONE if that is no departure."""
    m = memory_of(words)
    stream = stream_of(m, slot)
    if reason != NONE:
        reasons.count(m, stream, reason)
    for link in range(m.links):
        d = m.w[m.classes_at + stream * m.links + link]
        if d >= 0:
            close_key(m, d, key_of(m, slot, link))
    give_slot(m, slot, reason)


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
def has_expired(m: Memory, slot: int, mine: int) -> bool:
    """Whether the window of a resident, of the stream with a line, has passed."""
    at, mark = slot_at(m, slot), m.w[WATERMARK]
    if m.w[mine + LAST_ROWS] > 0:
        return m.w[at + m.rank_off] < m.w[mine + RANK] - m.w[mine + LAST_ROWS]
    time = m.w[at + TIME]
    return time < mark and (apart(mark, time) > length(m.w[mine + REACH]) or time < m.w[mine + SINCE])


@inline
def expire(h: Any, m: Memory, stream: int) -> None:
    """Let the residents of a stream depart whose window has passed."""
    mine = stream_at(m, stream)
    while m.w[mine + OLDEST] >= 0 and has_expired(m, m.w[mine + OLDEST], mine):
        depart(h, m, m.w[mine + OLDEST], EXPIRED)


@inline
def expire_all(h: Any, m: Memory) -> None:
    """Let the residents of all streams depart whose window has passed."""
    for stream in range(m.streams):
        expire(h, m, stream)


@inner
def expire_stream(h: Any, words: Any, stream: int) -> None:
    """Let the residents of a stream depart whose window has passed, where that is seldom asked."""
    expire(h, memory_of(words), stream)


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


@inner
def shed_from(h: Any, words: Any, pool: int) -> None:
    """Bring a pool that is above its cap inside it."""
    m = memory_of(words)
    h.freshen(h, m, pool)
    while over(m, pool):
        slot = h.ending(h, m, pool)  # what its window has almost left goes before what the policy would choose
        if slot < 0:
            slot = h.victim(h, m, pool)
        depart(h, m, slot, SHED)


@inline
def shed(h: Any, m: Memory) -> None:
    """Bring every pool inside its cap, then note the peaks."""
    rows, cost = 0, 0
    for pool in range(m.pools):
        if over(m, pool):
            shed_from(h, m.w, pool)
        rows += m.w[m.pools_at + pool * POOL_SIZE + USED_ROWS]
        cost += m.w[m.pools_at + pool * POOL_SIZE + USED_BYTES]
    m.w[PEAK_ROWS] = max(m.w[PEAK_ROWS], rows)
    m.w[PEAK_BYTES] = max(m.w[PEAK_BYTES], cost)
