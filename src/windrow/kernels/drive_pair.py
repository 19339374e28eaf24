"""The driver of two streams joined by equality: one directory, one lookup per arrival.

Matches of an arrival are the other stream's chain of its key, newest first, as far as the windows reach. When only
counts are wanted and every resident is known to lie in the window, the length of the chain is the answer.
"""

from typing import Any

import numpy as np

from windrow.kernels.group import begin, count_row, end, group_end, met_later
from windrow.kernels.jit import entry, inline, inner
from windrow.kernels.layout import (
    CACHED,
    DONE,
    ENDLESS,
    LOW,
    NONE,
    OUT_PAUSE,
    PAUSE,
    R_CODES,
    R_GAIN,
    R_LIVE,
    R_ROW,
    R_SLOT,
    R_STREAM,
    R_TICK,
    R_TIME,
    RECALL,
)
from windrow.kernels.memory import Memory, bare_floats, bare_ints, memory_of
from windrow.kernels.places import chain, key_at, link_at, slot_at, stream_at
from windrow.kernels.settle import row_words, settle_row
from windrow.kernels.warm import WARM_ROWS, warm
from windrow.kernels.windows import pair_fits


@inner
def widen(out: Any, need: int) -> Any:
    """The same matches in a larger array; number by number, for to compile a copy of slices takes seconds."""
    lines, width = out.shape
    larger = np.empty((lines, max(need, 2 * width)), np.int64)
    for line in range(lines):
        for k in range(width):
            larger[line, k] = out[line, k]
    return larger


@inline
def all_fit(m: Memory, tick: int) -> bool:
    """Whether every resident lies in the window of a row that arrives at a tick."""
    left, right = stream_at(m, 0), stream_at(m, 1)
    if left.since > LOW or right.since > LOW or (left.near == 0 and right.near == 0):
        return False
    endless = left.reach == ENDLESS and right.reach == ENDLESS
    return endless or (m.head.watermark >= tick and m.head.clock <= tick)


@inner
def walk(h: Any, words: Any, r: Any, rx: Any, at: int, key: int, out: Any, width: int, sent: int) -> int:
    """Visit the partners of the row at a place that lie in the window; how many.

    Emits behind what was sent, if emitting: the streams' lines of `out` lie a width apart.
    """
    m = memory_of(words)
    stream, time, row = r[at + R_STREAM], r[at + R_TIME], r[at + R_ROW]
    other = 1 - stream
    emits, watching, found = m.head.emit != 0, h.watches(h, m), 0
    partner = chain(key_at(m, 0, key), other).tail
    while partner >= 0:
        there = slot_at(m, partner)
        fits = pair_fits(m, stream, time, other, there.time)
        if fits < 0:
            break
        if fits > 0 and not h.visible(h, m, partner):
            h.misses(h, m, partner, stream)
        elif fits > 0:
            if emits:
                out[stream * width + sent + found] = row
                out[other * width + sent + found] = there.row
            if m.valued:
                a, b = rx[at + R_GAIN], there.gain
                m.head.value += a + b if m.head.value_sum else a * b
            if watching:
                h.matched(h, m, partner)
            h.paired(h, m, partner)
            found += 1
            if h.enough(h, m):
                break
        partner = link_at(m, partner, 0).older
    return found


@inline
def probe_pair(
    h: Any,
    m: Memory,
    r: Any,
    rx: Any,
    at: int,
    probing: bool,
    trusted: bool,
    alone: bool,
    out: Any,
    width: int,
    sent: int,
) -> int:
    """Take one arriving row: count or emit its matches, learn from it, settle it; how many matches it has.

    It gets a slot only when it is admitted: most rows are not, where memory is small.
    """
    m.head.seq += 1
    found = 0
    key = h.met(h, m, r[at + R_CODES])
    if probing:
        h.looks_pair(h, m, r, at)
    if key >= 0:
        found = chain(key_at(m, 0, key), 1 - r[at + R_STREAM]).count
    if found > 0 and not (trusted and not h.watches(h, m) and not h.hides(h, m)):
        found = walk(h, m.w, r, rx, at, key, out, width, sent) if probing else 0
    h.rewarded(h, m, r, at, key, found)
    h.found_all(h, m, found)
    if m.head.learned_ahead == 0:
        h.learn_pair(h, m, r, rx, at, key)
    settle_row(h, m, r, rx, at, key, alone)
    h.settled(h, m, r, at)
    return found


@entry
def drive_pair(h: Any, block: Any, batch: Any, out: Any, probing: bool) -> tuple[int, Any, int]:
    """Take the batch from the cursor on; what stopped it, the matches as payload rows, and how many.

    If the rows are not probing, they find no matches, and all else is as if they had none.
    """
    m, r, rx = h.pair_memory(h, block), bare_ints(batch), bare_floats(batch)
    sent, status, i = 0, DONE, m.head.cursor
    lines, width = bare_ints(out), out.shape[1]  # an array would be counted in and out with every row
    words = row_words(m)
    rows = batch.shape[0] // words
    emits = m.head.emit != 0
    warmed = i
    while i < rows:
        after = group_end(m, r, i, rows)
        if after > warmed and m.table_size > CACHED:
            warmed = min(max(after, i + WARM_ROWS), rows)
            warm(h, m, r, i, warmed)
        status = begin(h, m, r, i, after)
        if status != DONE:
            break
        trusted = probing and not emits and not m.valued and all_fit(m, r[i * words + R_TICK])
        for k in range(i, after):
            at = k * words
            if h.deleted(h, m, r, at):
                continue
            count_row(h, m, r[at + R_STREAM])
            h.observed(h, m, r, at)
            if r[at + R_LIVE] <= 0:
                r[at + R_SLOT] = NONE
                h.refused(h, m, r, rx, at)
                continue
            if emits:  # no row can have more matches than the other stream has residents
                most = stream_at(m, 1 - r[at + R_STREAM]).rows
                if sent + most > width:
                    out = widen(out, sent + most)
                    lines, width = bare_ints(out), out.shape[1]
            alone = not met_later(m, r, k, after)
            found = probe_pair(h, m, r, rx, at, probing, trusted, alone, lines, width, sent)
            if emits:
                sent += found
        status = end(h, m, r, i, after)
        i = after
        m.head.cursor = i
        if status == DONE and h.calls(h, m):
            status = RECALL
        if status != DONE:
            break
        if sent >= OUT_PAUSE and i < rows:
            status = PAUSE
            break
    return status, out, sent
