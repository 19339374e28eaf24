"""The queue ahead of memory on a simulated clock: rows arrive, wait, are served in order, or are shed unprobed.

Rows are records as the drivers take them (layout.py), in order of arrival; R_TICK is the instant of arrival, R_SLOT
the arrival number. What becomes of each stands in `state`. Instant by instant:

    serve    time has passed since the instant before: as many of the oldest waiting rows as the service rate allows
    round    enough has been served: come back, so that the engine takes it (statuses as of a driver otherwise)
    arrive   the rows of the instant join the queue; past `capacity` it is cut at once
    cut      past the threshold, at the end of the instant, the rows of least worth are shed: an eighth of the queue in
             one go, so that the worth of all need not be found for every single row

Worth is found from the block as the last round left it: residents of the other streams under a row's keys (the
histogram of memory that the modular form has) and, integrated, also the waiting rows there and what the statistics say.
Cost per arrival: O(log n) amortised.
"""

from typing import Any, NamedTuple

import numpy as np

from windrow.kernels.directory import find
from windrow.kernels.distances import apart
from windrow.kernels.group import room
from windrow.kernels.hashing import random64
from windrow.kernels.jit import entry, inline, inner
from windrow.kernels.layout import (
    DONE,
    NONE,
    R_CODES,
    R_LIVE,
    R_SLOT,
    R_STREAM,
    R_TICK,
)
from windrow.kernels.memory import Memory, bare_floats, memory_of
from windrow.kernels.places import chain, directory_of, key_at
from windrow.kernels.retain import forget
from windrow.kernels.settle import fill, row_words

# what becomes of a row
COMING, WAITING, SERVED, SHED_HERE = range(4)
# whom a cut sheds
OLDEST_FIRST, NEWEST_FIRST, AT_RANDOM, MODULAR, INTEGRATED = range(5)
# single numbers of the simulation
NEXT, FRONT, BACK, NOW, LAST, UNHANDED, PEAK, CUTS, CAPACITY, THRESHOLD, REFRESH, FORM, Q_SEED, LEARNED, Q_SIZE = range(
    15
)
CREDIT, SERVICE, F_SIZE = range(3)
ROUND = 100  # a status: what was served is ready for the engine


class Waiting(NamedTuple):
    """Records, what became of each, its key numbers [row, link], waiting rows [key number, stream], and in order."""

    r: Any
    state: Any
    ids: Any
    counts: Any
    line: Any
    q: Any
    f: Any
    shed: Any


@inline
def count_keys(m: Memory, w: Waiting, k: int, step: int) -> None:
    """Count a row in or out of the waiting rows of its keys."""
    at = k * row_words(m)
    if w.r[at + R_LIVE] != 0:
        for link in range(m.links):
            if w.ids[k, link] >= 0:
                w.counts[w.ids[k, link], w.r[at + R_STREAM]] += step


@inline
def enqueue(m: Memory, w: Waiting, k: int) -> None:
    """Put an arriving row at the end."""
    if w.q[BACK] == w.line.shape[0]:  # twice the capacity, so this is done once in as many rows
        n = w.q[BACK] - w.q[FRONT]
        for j in range(n):
            w.line[j] = w.line[w.q[FRONT] + j]
        w.q[FRONT], w.q[BACK] = 0, n
    w.line[w.q[BACK]] = k
    w.q[BACK] += 1
    w.state[k] = WAITING
    count_keys(m, w, k, 1)


@inline
def serve(m: Memory, w: Waiting) -> None:
    """Take rows from the front while there is credit; an idle server saves none of it."""
    while w.f[CREDIT] >= 1.0 and w.q[FRONT] < w.q[BACK]:
        k = w.line[w.q[FRONT]]
        w.q[FRONT] += 1
        w.f[CREDIT] -= 1.0
        w.state[k] = SERVED
        w.q[LAST] = w.r[k * row_words(m) + R_TICK]
        w.q[UNHANDED] += 1
        count_keys(m, w, k, -1)
    if w.q[FRONT] == w.q[BACK]:
        w.f[CREDIT] = 0.0


@inline
def whole(m: Memory, w: Waiting) -> bool:
    """Whether no waiting row is of the instant served last: its rows then meet in the engine as without a queue."""
    return w.q[FRONT] == w.q[BACK] or w.r[w.line[w.q[FRONT]] * row_words(m) + R_TICK] != w.q[LAST]


@inner
def worth(h: Any, words: Any, w: Waiting, k: int) -> float:
    """What a waiting row promises: matches with residents and, integrated, with waiting rows, then later partners.

    A row that can never match is worth less than one that merely has no partner yet.
    """
    m = memory_of(words)
    at = k * row_words(m)
    stream = w.r[at + R_STREAM]
    if w.r[at + R_LIVE] == 0:
        return -1.0
    partners, later = 0.0, 0.0
    for link in range(m.links):
        d = directory_of(m, stream, link)
        if d < 0:
            continue
        key = find(m, d, w.r[at + R_CODES + link])
        for other in range(m.streams):
            if other == stream:
                continue
            if key >= 0:
                partners += chain(key_at(m, d, key), other).count
            if w.q[FORM] == INTEGRATED:
                partners += w.counts[w.ids[k, link], other]
                if key >= 0 and m.statistic != 0:
                    later += chain(key_at(m, d, key), other).freq / h.count_weight(h, m)
    return partners + later / (1.0 + later)  # below one: among rows with as many partners, the statistics decide


@inner
def cut(h: Any, words: Any, w: Waiting, keep: int) -> None:
    """Shed the waiting rows of least worth, the older of equals first, until `keep` are left."""
    m = memory_of(words)
    size = row_words(m)
    first, n = w.q[FRONT], w.q[BACK] - w.q[FRONT]
    score = np.empty(n, np.float64)
    for j in range(n):
        k = w.line[first + j]
        if w.q[FORM] == OLDEST_FIRST:
            score[j] = j
        elif w.q[FORM] == NEWEST_FIRST:
            score[j] = -j
        elif w.q[FORM] == AT_RANDOM:
            score[j] = float(random64(w.q[Q_SEED], w.r[k * size + R_SLOT]) >> np.uint64(11))
        else:
            score[j] = worth(h, m.w, w, k)
    order = np.argsort(score, kind="mergesort")
    for j in order[: n - keep]:
        k = w.line[first + j]
        w.state[k] = SHED_HERE
        w.shed[w.r[k * size + R_STREAM]] += 1
        count_keys(m, w, k, -1)
    left = first
    for j in range(first, first + n):
        if w.state[w.line[j]] == WAITING:
            w.line[left] = w.line[j]
            left += 1
    w.q[BACK] = left
    w.q[CUTS] += 1


@inline
def kept(limit: int) -> int:
    """How many rows a cut leaves of a queue that has passed a limit."""
    return limit - limit // 8


@inline
def instant_end(m: Memory, w: Waiting, rows: int) -> int:
    """Where the instant of the next row ends."""
    words, k = row_words(m), w.q[NEXT]
    end = k + 1
    while end < rows and w.r[end * words + R_TICK] == w.r[k * words + R_TICK]:
        end += 1
    return end


@inline
def learn_ahead(h: Any, m: Memory, w: Waiting, rx: Any, start: int, end: int) -> int:
    """Let the statistics see rows at the door instead of when they are served: DONE, or what has to grow first."""
    words = row_words(m)
    w.q[LEARNED] = max(w.q[LEARNED], start)
    while w.q[LEARNED] < end:
        need = room(m, 1)
        if need != DONE:
            return need
        at = w.q[LEARNED] * words
        if w.r[at + R_LIVE] != 0:
            slot = fill(h, m, w.r, rx, at)
            h.learn_row(h, m, w.r, rx, at, slot)
            forget(h, m.w, slot, NONE)
            m.head.seq -= 1  # it has only been looked at
        w.q[LEARNED] += 1
    return DONE


@inline
def pass_time(m: Memory, w: Waiting, tick: int) -> None:
    """Let the clock reach an instant, and serve meanwhile."""
    if tick > w.q[NOW]:
        w.f[CREDIT] += w.f[SERVICE] * float(apart(tick, w.q[NOW]))
        w.q[NOW] = tick
        serve(m, w)


@entry
def run_queue(h: Any, block: Any, w: Waiting) -> int:
    """Take the coming rows: DONE, ROUND when the engine should take what was served, or what has to grow first."""
    m, rx = memory_of(block), bare_floats(w.r)
    words = row_words(m)
    rows = w.r.shape[0] // words
    while w.q[NEXT] < rows:
        pass_time(m, w, w.r[w.q[NEXT] * words + R_TICK])
        if w.q[UNHANDED] >= w.q[REFRESH] and whole(m, w):
            return ROUND
        end = instant_end(m, w, rows)
        if w.q[FORM] == INTEGRATED and h.learns(h, m):
            need = learn_ahead(h, m, w, rx, w.q[NEXT], end)
            if need != DONE:
                return need
        for k in range(w.q[NEXT], end):
            enqueue(m, w, k)
            if w.q[BACK] - w.q[FRONT] > w.q[CAPACITY]:
                cut(h, m.w, w, kept(w.q[CAPACITY]))
        w.q[NEXT] = end
        w.q[PEAK] = max(w.q[PEAK], w.q[BACK] - w.q[FRONT])
        if w.q[BACK] - w.q[FRONT] > w.q[THRESHOLD]:
            cut(h, m.w, w, kept(w.q[THRESHOLD]))
    return DONE


@entry
def serve_some(block: Any, w: Waiting, rows: float) -> None:
    """Serve so many waiting rows at once."""
    m = memory_of(block)
    w.f[CREDIT] += rows
    serve(m, w)
    w.f[CREDIT] = 0.0
