"""Groups: rows that arrive together, before and after they are probed.

A batch is one block of words too: `r` as integers, `rx` as floats, one record per row in the order in which rows
are taken. A driver takes it group by group (a group: the rows of one tick, at most GROUP). For each:

    begin   see that there is room, move clock and watermark (if rows move it, or memory is full), expire
    probe   each row in turn: count or emit its matches, learn from it, settle it      <- the driver's own part
    end     shed until every pool is inside its cap

Rows of one group meet each other because each is admitted before the next is probed and nothing is shed in between.
"""

from typing import Any

from windrow.kernels.jit import inline
from windrow.kernels.layout import (
    BLOCK,
    DONE,
    DRAIN,
    FULL,
    GROW_BLOCKS,
    GROW_KEYS,
    GROW_SLOTS,
    PRUNE,
    R_CODES,
    R_COST,
    R_STREAM,
    R_TICK,
    R_TIME,
)
from windrow.kernels.memory import Memory
from windrow.kernels.places import directory_at, index_at, pool_at, stream_at
from windrow.kernels.retain import any_over, expire_all, expire_stream, move_clock, move_watermark, shed
from windrow.kernels.settle import depart_sampled, row_words


@inline
def group_end(m: Memory, r: Any, start: int, rows: int) -> int:
    """Where the group that starts at a row ends."""
    words = row_words(m)
    last = min(rows, start + m.head.group)
    tick = r[start * words + R_TICK]
    end = start + 1
    while end < last and r[end * words + R_TICK] == tick:
        end += 1
    return end


@inline
def room(m: Memory, rows: int) -> int:
    """DONE when a group of rows will fit the block, or what has to grow first, by as many places as NEED says."""
    m.head.need = rows - (m.head.free_count + m.head.slot_cap - m.head.top)
    if m.head.need > 0:
        return DRAIN if m.head.gone_count + m.head.down_count > 0 else GROW_SLOTS
    for d in range(m.dirs):
        ctl = directory_at(m, d)
        if ctl.idle > m.head.idle_limit:
            return PRUNE
        m.head.need = ctl.live + rows - m.key_cap
        if m.head.need > 0:  # tables have two places for a key, at least
            return GROW_KEYS
    for ix in range(m.indexes):
        held = stream_at(m, index_at(m, ix).stream).rows
        m.head.need = index_at(m, ix).used + splits(held, rows) + 1 - m.head.block_cap
        if m.head.need > 0:
            return GROW_BLOCKS
    return DONE


@inline
def splits(held: int, rows: int) -> int:
    """Blocks that more rows can add, at most, to an ordered index that holds some.

    A block splits at the row after it is full, so before the first k splits k * (BLOCK + 1) rows were in k blocks; a
    half splits again after as many rows as it lacks.
    """
    return min(rows, (held + rows) // (BLOCK + 1) + rows // (BLOCK // 2) + 1)


@inline
def begin(h: Any, m: Memory, r: Any, start: int, end: int) -> int:
    """Begin a group: DONE, or what has to be done first (then nothing has changed)."""
    need = room(m, end - start)
    if need == DONE:
        need = h.unready(h, m, r, start, end)
    if need == DONE:
        need = h.short(h, m, end - start)
    if need != DONE:
        return need
    words = row_words(m)
    for k in range(start, end):
        move_clock(m, r[k * words + R_TIME], r[k * words + R_STREAM])
    if m.head.own_clock or crowded(m, r, start, end):
        move_watermark(m, r[start * words + R_TICK])
    expire_all(h, m)
    m.head.group_seq = m.head.seq
    return DONE


@inline
def crowded(m: Memory, r: Any, start: int, end: int) -> bool:
    """Whether some pool might pass its cap, if all rows of a group are admitted."""
    words = row_words(m)
    for pool in range(m.pools):
        line = pool_at(m, pool)
        rows, cost = line.used_rows, line.used_bytes
        for k in range(start, end):
            if stream_at(m, r[k * words + R_STREAM]).pool == pool:
                rows += 1
                cost += r[k * words + R_COST] + m.links * m.head.key_bytes
        if rows > line.cap_rows or cost > line.cap_bytes:
            return True
    return False


@inline
def end(h: Any, m: Memory, r: Any, start: int, after: int) -> int:
    """End a group: release what can be, shed what does not fit, or say FULL."""
    if m.head.pending > 0:
        depart_sampled(h, m.w, r, start, after)
    h.ended(h, m)
    if m.head.fail_when_full and any_over(m):
        return FULL
    shed(h, m)
    return DONE


@inline
def count_row(h: Any, m: Memory, stream: int) -> None:
    """Count an arrival for windows in rows and for the clock of arrivals."""
    m.head.arrivals += 1
    mine = stream_at(m, stream)
    mine.rank += 1
    if mine.last_rows > 0:
        expire_stream(h, m.w, stream)
    h.arrived(h, m)


@inline
def met_later(m: Memory, r: Any, k: int, end: int) -> bool:
    """Whether a later row of the group may match the k-th row, or make room for it by pushing another out of a window.

    True as well when the group is too long to look.
    """
    if end - k > 8 or (m.rank_off > 0 and end - k > 1):
        return True
    words = row_words(m)
    for later in range(k + 1, end):
        if r[later * words + R_CODES] == r[k * words + R_CODES]:
            return True
    return False
