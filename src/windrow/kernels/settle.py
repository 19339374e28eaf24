"""Settling: what becomes of a row when it has been probed. It is admitted, or it is not, for a reason."""

from typing import Any

from windrow.kernels import reasons
from windrow.kernels.chains import is_noted, set_aside, take_slot
from windrow.kernels.jit import inline, inner
from windrow.kernels.keys import hold_key, meet_key, open_key, pass_key
from windrow.kernels.layout import (
    LEAVING,
    NONE,
    PROBE_ONLY,
    R_CODES,
    R_COST,
    R_GAIN,
    R_LIVE,
    R_ROW,
    R_SLOT,
    R_STREAM,
    R_TIME,
    RELEASED,
    SAMPLED,
    SHED,
    STREAM_BITS,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import directory_of, link_at, numbers_at, pool_at, slot_at, stream_at, stream_of
from windrow.kernels.retain import admit, depart_one, forget
from windrow.kernels.sampler import sampled_out


@inline
def row_words(m: Memory) -> int:
    """Words of an arriving row's record."""
    return R_CODES + m.links + m.vals


@inline
def fill(h: Any, m: Memory, r: Any, rx: Any, at: int) -> int:
    """A slot with the data of the arriving row at a place, its keys opened, not yet a resident."""
    m.head.seq += 1
    slot, stream = copy_row(m, r, rx, at), r[at + R_STREAM]
    h.stored(h, m, slot, stream)
    for link in range(m.links):
        d = directory_of(m, stream, link)
        if d >= 0:
            link_at(m, slot, link).key = open_key(h, m, d, r[at + R_CODES + link])
    return slot


@inline
def copy_row(m: Memory, r: Any, rx: Any, at: int) -> int:
    """A slot with the data of the arriving row at a place, the last that was counted, without its keys."""
    slot = take_slot(m)
    write_row(m, r, rx, at, slot)
    return slot


@inline
def write_row(m: Memory, r: Any, rx: Any, at: int, slot: int) -> None:
    """Write the data of the arriving row at a place into a slot, without its keys."""
    record, stream = slot_at(m, slot), r[at + R_STREAM]
    record.time = r[at + R_TIME]
    record.seq = m.head.seq - 1
    record.row = r[at + R_ROW]
    record.cost = (r[at + R_COST] << STREAM_BITS) | stream
    for column in range(m.vals):
        m.w[numbers_at(m, slot) + column] = r[at + R_CODES + m.links + column]
    if m.rank_off > 0:
        record.rank = stream_at(m, stream).rank - 1
    if m.valued:
        record.gain = rx[at + R_GAIN]


@inline
def too_large(m: Memory, r: Any, at: int) -> bool:
    """Whether the row at a place would not fit its pool even alone."""
    pool = pool_at(m, stream_at(m, r[at + R_STREAM]).pool)
    cost = r[at + R_COST] + m.links * m.head.key_bytes
    return cost > pool.cap_bytes or pool.cap_rows < 1


@inline
def left_out(m: Memory, r: Any, at: int) -> bool:
    """Whether the sampler leaves out the row at a place, the last that was counted."""
    return m.head.drop != 0.0 and sampled_out(m.w, r[at + R_STREAM], m.head.seq - 1)


@inline
def refused(m: Memory, r: Any, at: int) -> bool:
    """Whether the row at a place can never be stored.

    Where nothing may be shed, whatever does not fit is admitted too, and the end of the group finds the pool
    above its cap.
    """
    return m.head.fail_when_full == 0 and too_large(m, r, at)


@inline
def settle_slot(h: Any, m: Memory, r: Any, rx: Any, at: int, slot: int) -> None:
    """Admit the row at a place, which has been probed from a slot, or turn it away."""
    r[at + R_SLOT] = NONE
    if r[at + R_LIVE] == PROBE_ONLY:
        forget(h, m.w, slot, NONE)
        return
    if h.done_with(h, m, slot, r[at + R_STREAM]):
        forget(h, m.w, slot, RELEASED)
        return
    matters = h.matters(h, m, slot)
    out = matters and left_out(m, r, at)
    if refused(m, r, at):
        forget(h, m.w, slot, SAMPLED if out else SHED if matters else RELEASED)
        return
    store(h, m, r, rx, at, slot, out)


@inline
def settle_row(h: Any, m: Memory, r: Any, rx: Any, at: int, key: int, alone: bool) -> None:
    """The same for a row that has no slot yet, and of which only the key was met; without one it may be NONE.

    A row that is left out, or the first to be shed, is not admitted if it stands alone: no row of its group meets it.
    """
    r[at + R_SLOT] = NONE
    if r[at + R_LIVE] == PROBE_ONLY:
        pass_key(m, 0, key)
        return
    if h.useless(h, m, r, at, key):
        h.let_pass(h, m, r, rx, at)
        pass_key(m, 0, key)
        return
    out = left_out(m, r, at)
    if refused(m, r, at) or (m.head.fail_when_full == 0 and alone and (out or h.hopeless(h, m, r, at, key))):
        reason = SAMPLED if out else SHED
        reasons.count(m, r[at + R_STREAM], reason)
        if is_noted(m, m.head.seq - 1):
            set_aside(m, copy_row(m, r, rx, at), reason)
        pass_key(m, 0, key)
        return
    if key < 0:
        key = meet_key(h, m, 0, r[at + R_CODES])
    hold_key(m, 0, key)
    slot = copy_row(m, r, rx, at)
    h.stored(h, m, slot, r[at + R_STREAM])
    link_at(m, slot, 0).key = key
    store(h, m, r, rx, at, slot, out)


@inline
def store(h: Any, m: Memory, r: Any, rx: Any, at: int, slot: int, out: bool) -> None:
    """Admit the row at a place from its slot; if it is left out, until its group ends."""
    h.starts(h, m, rx, at, slot)
    admit(h, m, slot)
    r[at + R_SLOT] = slot
    if out:
        r[at + R_SLOT] = LEAVING - slot
        m.head.pending += 1


@inner
def depart_sampled(h: Any, words: Any, r: Any, start: int, end: int) -> None:
    """Let the rows of a group depart that the sampler has left out; they stayed only to meet the rest of the group."""
    m = memory_of(words)
    size = row_words(m)
    m.head.pending = 0
    for k in range(start, end):
        at = k * size
        if r[at + R_LIVE] != 0 and r[at + R_SLOT] <= LEAVING:
            slot = LEAVING - r[at + R_SLOT]
            r[at + R_SLOT] = NONE
            # a window in rows may have let it expire meanwhile, and another row may have its slot
            if slot_at(m, slot).row != r[at + R_ROW] or stream_of(m, slot) != r[at + R_STREAM]:
                continue
            if h.matters(h, m, slot):
                depart_one(h, m.w, slot, SAMPLED)
            else:
                r[at + R_SLOT] = slot
