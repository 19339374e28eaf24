"""The sampler in front of memory: which arriving rows are probed but never stored.

Each row is left out with probability p, by a word that depends on the seed and the row's sequence number alone. With
p = 1 - B / (rate x window), as many rows come in as leave by expiring, so a buffer of B rows holds a uniform sample of
the window and the policy has nothing to choose (Little's law; the paper's unbiased setting). Rates change and are not
known, so p is found anew for every row from what the state has seen:

    rows per window   of each stream of the pool: an arrival count that fades by 1/e in a window's length, divided by
                      what such a count reaches at a rate of one in the time seen; or the n of a window of n rows
    B                 the pool's cap in rows, or its bytes over the mean charge of its residents

The law speaks of means. How many rows a sample of a share q of the window has varies by sqrt(B (1 - q)), and what is
above B would be the policy's to choose; so B is taken smaller by MARGIN of these.
"""

import math
from typing import Any

import numpy as np

from windrow.kernels.distances import apart, length
from windrow.kernels.hashing import in_sample, mix64
from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import (
    HIGH,
    LOW,
    Stream,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import pool_at, stream_at
from windrow.kernels.retain import own_mark

MARGIN = 4.0
FEW_ROWS = 32  # of a stream: before it has brought as many, its rate is not known


@inner
def sampled_out(words: Any, stream: int, arrived: int) -> bool:
    """Whether a row of a stream with a sequence number is left out."""
    m = memory_of(words)
    drop = m.head.drop
    if drop < 0.0:
        see(m, stream)
        drop = 1.0 - keep_share(m, stream_at(m, stream).pool)
    word = mix64(np.uint64(arrived) + mix64(np.uint64(m.head.seed) ^ np.uint64(6502237858663010055)))
    return in_sample(word, drop)


@inline
def see(m: Memory, stream: int) -> None:
    """Let the estimate of a stream's rows per window see one arriving row."""
    mine, now = stream_at(m, stream), m.head.clock
    if mine.seen_first == LOW:
        mine.seen_first = now
        mine.seen_last = now
    if now > mine.seen_first:  # n rows are n - 1 gaps: those of the first instant begin the count
        mine.seen = faded(m, mine, now) + 1.0
        mine.seen_last = now


@inline
def span(m: Memory, mine: Stream) -> float:
    """How long the window of the stream with a line is."""
    return float(length(mine.reach)) + 1.0


@inline
def faded(m: Memory, mine: Stream, now: int) -> float:
    """A stream's arrival count as it stands at a time."""
    return mine.seen * math.exp(-float(apart(now, mine.seen_last)) / span(m, mine))


@inline
def per_window(m: Memory, stream: int) -> float:
    """How many rows of a stream an exact join would hold; 0 while too little is known."""
    mine, now = stream_at(m, stream), m.head.clock
    if mine.last_rows > 0:
        return float(mine.last_rows)
    first, mark, window = mine.seen_first, m.head.watermark, span(m, mine)
    if first == LOW or now <= first or mine.rank < FEW_ROWS:
        return 0.0
    age = float(apart(now, first))
    # rows are held until the watermark has passed their window, and where memory is full it is at least our own; one
    # that was given may be ahead of the clock
    mark = max(mark, own_mark(m))
    lag = min(float(apart(now, mark)), age) if now > mark else 0.0
    return faded(m, mine, now) / (1.0 - math.exp(-age / window)) * (window + lag) / window


@inline
def keep_share(m: Memory, pool: int) -> float:
    """The share of arriving rows that a pool can store until they expire."""
    need = 0.0
    for stream in range(m.streams):
        if stream_at(m, stream).pool == pool:
            need += per_window(m, stream)
    at = pool_at(m, pool)
    rows = float(at.cap_rows)
    if at.cap_bytes < HIGH and at.used_rows > 0:
        rows = min(rows, float(at.cap_bytes) * float(at.used_rows) / float(at.used_bytes))
    if need <= rows:
        return 1.0
    rows -= min(MARGIN * math.sqrt(rows * (1.0 - rows / need)), rows / 2.0)
    return rows / need
