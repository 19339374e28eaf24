"""What a join does at its hooks where released rows go to disk, from where later arrivals find them.

A row that is released leaves memory as before. Its slot is kept until it is taken to disk (`take_down`), and the filter
knows its keys at once. A probe asks the filter wherever it looks for candidates; if rows may lie there that were
demoted, they are called back when the group has ended: see release/visiting.py.

No rows that stay to tell their parents keep their payload and can be matched: only what memory does not hold is looked
for elsewhere.
"""

from typing import Any

import numpy as np

from windrow.kernels import reasons
from windrow.kernels.chains import free_slot
from windrow.kernels.drive_many import access_at, order_of
from windrow.kernels.jit import entry, inline, inner
from windrow.kernels.layout import (
    AWAY,
    BARE,
    D_CODES,
    D_COST,
    D_GAIN,
    D_GONE,
    D_RANK,
    D_ROW,
    D_SEQ,
    D_STREAM,
    D_TIME,
    EXPIRED,
    HASH,
    NO,
    NONE,
    R_CODES,
    R_STREAM,
    RELEASED,
    STREAM_BITS,
    YES,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import directory_of, key_at, key_of, link_at, numbers_at, slot_at, stream_at, stream_of
from windrow.kernels.release.filter import call, lacks_room, look_down, put
from windrow.kernels.settle import copy_row

BASE = "hooks"


@inline
def short(h: Any, m: Memory, rows: int) -> int:
    """The filter has room for all that may be demoted before the next group."""
    return lacks_room(m, rows)


@inline
def visible(h: Any, m: Memory, slot: int) -> bool:
    """All residents can be matched but rows that a filter refuses."""
    return slot_at(m, slot).row != BARE


@inline
def sees(h: Any, m: Memory, slot: int) -> bool:
    """A probe finds whom it can match."""
    return h.visible(h, m, slot)


@inline
def is_new(h: Any, m: Memory, bound: Any) -> bool:
    """Every match is given: nothing is missed that is found."""
    return True


@inline
def misses(h: Any, m: Memory, slot: int, stream: int) -> None:
    """Nothing is missed that is found."""


@inline
def why_expired(h: Any, m: Memory, slot: int) -> int:
    """Rows that were spared could be matched, and need not go to disk now."""
    return EXPIRED


@inline
def paired(h: Any, m: Memory, slot: int) -> None:
    """Y2; a No row that is matched after all stays what it is, and goes as it was about to."""
    if slot_at(m, slot).status < NO:
        slot_at(m, slot).status = YES


@inline
def strips(h: Any, m: Memory) -> bool:
    """No rows keep their payload."""
    return False


@inner
def look(words: Any, route: int, depth: int, bound: Any) -> None:
    """Ask whether demoted rows may be candidates at a depth."""
    m = memory_of(words)
    stream, access = order_of(m.w, route, depth), access_at(m.w, route, depth)
    if stream_at(m, stream).demoted == 0:
        return
    if m.w[access] != HASH:
        call(m, stream, NONE, 0)
        return
    which, binder = m.w[access + 1], m.w[access + 2]
    key = key_of(m, bound[binder], m.w[m.head.position_at + binder * m.dirs + which])
    look_down(m, stream, which, key_at(m, which, key).code)


@inline
def looks(h: Any, m: Memory, route: int, depth: int, bound: Any) -> None:
    """A probe is about to look for candidates at a depth."""
    look(m.w, route, depth, bound)


@inline
def looks_pair(h: Any, m: Memory, r: Any, at: int) -> None:
    """An arriving row is about to look for its matches."""
    other = 1 - r[at + R_STREAM]
    if stream_at(m, other).demoted > 0:
        look_down(m, other, 0, r[at + R_CODES])


@inline
def calls(h: Any, m: Memory) -> bool:
    """Whether demoted rows are called back."""
    return m.head.called > 0


@inline
def unlinked(h: Any, m: Memory, slot: int, link: int, code: int) -> None:
    """A slot that is in no chain any more keeps the code of its key there."""
    link_at(m, slot, link).newer = code


@inline
def goes_down(h: Any, m: Memory, slot: int, reason: int) -> bool:
    """Released rows go to disk, but those that a filter refuses."""
    if reason != RELEASED or slot_at(m, slot).row == BARE:
        return False
    put_down(m.w, slot)
    return True


@inner
def put_down(words: Any, slot: int) -> None:
    """Keep the slot of a row that has left until it is taken to disk; the filter knows it from now on."""
    m = memory_of(words)
    at, stream = slot_at(m, slot), stream_of(m, slot)
    stream_at(m, stream).demoted += 1
    for link in range(m.links):
        d = directory_of(m, stream, link)
        if d >= 0:
            put(m.w, stream, d, link_at(m, slot, link).newer)
    at.status = AWAY
    at.newer = m.head.seq
    at.older = m.head.down
    m.head.down = slot
    m.head.down_count += 1


@inline
def let_pass(h: Any, m: Memory, r: Any, rx: Any, at: int) -> None:
    """A row that need not be stored goes to disk at once."""
    stream = r[at + R_STREAM]
    stream_at(m, stream).complete += 1
    reasons.count(m, stream, RELEASED)
    slot = copy_row(m, r, rx, at)
    link_at(m, slot, 0).newer = r[at + R_CODES]
    put_down(m.w, slot)


@entry
def take_down(block: Any) -> Any:
    """The rows that were demoted, in order of departure, [row, word] (D_STREAM …); their slots are free again."""
    m = memory_of(block)
    found = np.zeros((m.head.down_count, D_CODES + m.links + m.vals), np.int64)
    for k in range(found.shape[0] - 1, -1, -1):
        slot = m.head.down
        at, stream = slot_at(m, slot), stream_of(m, slot)
        found[k, D_STREAM], found[k, D_ROW], found[k, D_TIME], found[k, D_SEQ] = stream, at.row, at.time, at.seq
        found[k, D_GONE], found[k, D_COST] = at.newer, at.cost >> STREAM_BITS
        if m.rank_off > 0:
            found[k, D_RANK] = at.rank
        if m.valued:
            found[k, D_GAIN] = m.w[at.at + m.head.gain_off]
        for link in range(m.links):
            if directory_of(m, stream, link) >= 0:
                found[k, D_CODES + link] = link_at(m, slot, link).newer
        for column in range(m.vals):
            found[k, D_CODES + m.links + column] = m.w[numbers_at(m, slot) + column]
        m.head.down = at.older
        free_slot(m, slot)
    m.head.down_count = 0
    return found
