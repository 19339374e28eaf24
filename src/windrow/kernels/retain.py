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
from windrow.kernels.chains import age_insert, age_remove, chain_insert, chain_remove, free_slot, is_noted, set_aside
from windrow.kernels.distances import apart, before, length
from windrow.kernels.jit import inline, inner
from windrow.kernels.keys import charge_key, close_key, refund_key, unused
from windrow.kernels.layout import (
    LATEST,
    NONE,
    STREAM_BITS,
    Stream,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import (
    chain,
    directory_of,
    index_at,
    key_at,
    key_of,
    numbers_at,
    pool_at,
    slot_at,
    stream_at,
    stream_of,
)


@inline
def index_number(m: Memory, ix: int, slot: int) -> int:
    """The number under which an ordered index files a resident."""
    line = index_at(m, ix)
    bits = m.w[numbers_at(m, slot) + line.column]
    return ordered.ordered_bits(bits) if line.is_float else bits


@inline
def charge(m: Memory, stream: int, rows: int, cost: int, keys_cost: int) -> None:
    """Count rows and bytes in or out, for the stream and its pool; keys are the pool's, for streams share them."""
    mine = stream_at(m, stream)
    pool = pool_at(m, mine.pool)
    mine.rows += rows
    mine.bytes += cost
    pool.used_rows += rows
    pool.used_bytes += cost + keys_cost


@inline
def admit(h: Any, m: Memory, slot: int) -> None:
    """Make a filled slot a resident: its links name its keys already."""
    stream = stream_of(m, slot)
    age_insert(m, stream, slot)
    keys_cost = 0
    for link in range(m.links):
        d = directory_of(m, stream, link)
        if d >= 0:
            record = key_at(m, d, key_of(m, slot, link))
            if unused(m, d, key_of(m, slot, link), stream):
                keys_cost += charge_key(m, stream, d)
            chain_insert(m, record, stream, slot, link)
    for ix in range(m.indexes):
        if index_at(m, ix).stream == stream:
            ordered.insert(m.w, ix, index_number(m, ix, slot), slot)
    charge(m, stream, 1, slot_at(m, slot).cost >> STREAM_BITS, keys_cost)
    h.entered(h, m, slot)


@inline
def unlink_keys(h: Any, m: Memory, slot: int, stream: int) -> int:
    """Take a resident out of its chains; what its pool is charged less for keys that it was the last of."""
    refund = 0
    for link in range(m.links):
        d = directory_of(m, stream, link)
        if d < 0:
            continue
        key = key_of(m, slot, link)
        record = key_at(m, d, key)
        chain_remove(m, record, stream, slot, link)
        if unused(m, d, key, stream):
            refund += refund_key(m, stream, d)
        h.unlinked(h, m, slot, link, record.code)
        if chain(record, stream).count == 0:
            close_key(m, d, key)
    return refund


@inline
def depart(h: Any, m: Memory, slot: int, reason: int) -> None:
    """Take a resident out of every structure."""
    stream = stream_of(m, slot)
    reasons.count(m, stream, reason)
    h.parting(h, m, slot)
    h.leaving(h, m, slot, reason)
    withdraw(h, m, slot, stream)
    h.left(h, m, slot)
    give_slot(h, m, slot, reason)


@inline
def withdraw(h: Any, m: Memory, slot: int, stream: int) -> None:
    """Take a resident of a stream out of its lists and indexes, and its charge with it."""
    age_remove(m, stream, slot)
    for ix in range(m.indexes):
        if index_at(m, ix).stream == stream:
            ordered.remove(m.w, ix, index_number(m, ix, slot), slot)
    refund = unlink_keys(h, m, slot, stream)
    charge(m, stream, -1, -(slot_at(m, slot).cost >> STREAM_BITS), -refund)


@inline
def give_slot(h: Any, m: Memory, slot: int, reason: int) -> None:
    """Give back the slot of a row that is nowhere any more, or keep it until its owner has asked for it."""
    if h.goes_down(h, m, slot, reason):
        return
    if reasons.is_lost(reason) and is_noted(m, slot_at(m, slot).seq):
        set_aside(m, slot, reason)
    else:
        free_slot(m, slot)


@inner
def depart_one(h: Any, words: Any, slot: int, reason: int) -> None:
    """The same where it is done seldom."""
    depart(h, memory_of(words), slot, reason)


@inner
def forget(h: Any, words: Any, slot: int, reason: int) -> None:
    """Forget a row that was probed from a slot but never admitted; NONE if that is no departure."""
    m = memory_of(words)
    stream = stream_of(m, slot)
    if reason != NONE:
        reasons.count(m, stream, reason)
    for link in range(m.links):
        d = directory_of(m, stream, link)
        if d >= 0:
            h.unlinked(h, m, slot, link, key_at(m, d, key_of(m, slot, link)).code)
            close_key(m, d, key_of(m, slot, link))
    give_slot(h, m, slot, reason)


@inline
def move_clock(m: Memory, time: int, stream: int) -> None:
    """Note that a row of a stream has come with a time."""
    mine = stream_at(m, stream)
    if time > mine.last_time:
        mine.last_time = time
        if time > m.head.clock:
            m.head.clock = time


@inline
def own_mark(m: Memory) -> int:
    """The least time that a row may still bring within its stream's lateness, over all streams.

    A stream is waited for until another runs ahead of it by more than the query's patience.
    """
    least = LATEST
    for stream in range(m.streams):
        mine = stream_at(m, stream)
        seen = max(mine.last_time, before(m.head.clock, length(mine.patience)))
        least = min(least, before(seen, length(mine.lateness)))
    return least


@inline
def move_watermark(m: Memory, most: int) -> None:
    """Raise the watermark to where the times of rows have brought it, but not past a time that rows still have."""
    m.head.watermark = max(m.head.watermark, min(own_mark(m), most))


@inline
def has_expired(m: Memory, slot: int, mine: Stream) -> bool:
    """Whether the window of a resident, of the stream with a line, has passed."""
    at, mark = slot_at(m, slot), m.head.watermark
    if mine.last_rows > 0:
        return at.rank < mine.rank - mine.last_rows
    time = at.time
    return time < mark and (apart(mark, time) > length(mine.reach) or time < mine.since)


@inline
def expire(h: Any, m: Memory, stream: int) -> None:
    """Let the residents of a stream depart whose window has passed."""
    mine = stream_at(m, stream)
    while mine.oldest >= 0 and has_expired(m, mine.oldest, mine):
        depart(h, m, mine.oldest, h.why_expired(h, m, mine.oldest))


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
    at = pool_at(m, pool)
    return at.used_rows > at.cap_rows or at.used_bytes > at.cap_bytes


@inline
def any_over(m: Memory) -> bool:
    """Whether some pool is above its cap."""
    for pool in range(m.pools):
        if over(m, pool):
            return True
    return False


@inline
def shed_from(h: Any, m: Memory, pool: int) -> None:
    """Bring a pool that is above its cap inside it, or empty it: what demoted rows take may leave no room for any."""
    h.freshen(h, m, pool)
    while over(m, pool) and pool_at(m, pool).used_rows > 0:
        slot = h.ending(h, m, pool)  # what its window has almost left goes before what the policy would choose
        if slot < 0:
            slot = h.victim(h, m, pool)
        depart(h, m, slot, h.why_shed(h, m, slot))


@inline
def shed(h: Any, m: Memory) -> None:
    """Bring every pool inside its cap, then note the peaks."""
    rows, cost = 0, 0
    for pool in range(m.pools):
        if over(m, pool):
            shed_from(h, m, pool)
        rows += pool_at(m, pool).used_rows
        cost += pool_at(m, pool).used_bytes
    m.head.peak_rows = max(m.head.peak_rows, rows)
    m.head.peak_bytes = max(m.head.peak_bytes, cost)
