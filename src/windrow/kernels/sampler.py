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

from windrow.kernels.apart import apart, length
from windrow.kernels.chains import stream_at
from windrow.kernels.hashing import in_sample, mix64
from windrow.kernels.jit import inline, inner
from windrow.kernels.layout import (
    CAP_BYTES,
    CAP_ROWS,
    CLOCK,
    DROP,
    HIGH,
    LAST_ROWS,
    LOW,
    POOL,
    POOL_SIZE,
    RANK,
    REACH,
    SEED,
    SEEN,
    SEEN_FIRST,
    SEEN_LAST,
    USED_BYTES,
    USED_ROWS,
    WATERMARK,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.retain import own_mark

MARGIN = 4.0
FEW_ROWS = 32  # of a stream: before it has brought as many, its rate is not known


@inner
def sampled_out(words: Any, stream: int, arrived: int) -> bool:
    """Whether a row of a stream with a sequence number is left out."""
    m = memory_of(words)
    drop = m.x[DROP]
    if drop < 0.0:
        see(m, stream)
        drop = 1.0 - keep_share(m, m.w[stream_at(m, stream) + POOL])
    word = mix64(np.uint64(arrived) + mix64(np.uint64(m.w[SEED]) ^ np.uint64(0x5A3C96E1D2B48F07)))
    return in_sample(word, drop)


@inline
def see(m: Memory, stream: int) -> None:
    """Let the estimate of a stream's rows per window see one arriving row."""
    mine, now = stream_at(m, stream), m.w[CLOCK]
    if m.w[mine + SEEN_FIRST] == LOW:
        m.w[mine + SEEN_FIRST] = now
        m.w[mine + SEEN_LAST] = now
    if now > m.w[mine + SEEN_FIRST]:  # n rows are n - 1 gaps: those of the first instant begin the count
        m.x[mine + SEEN] = faded(m, mine, now) + 1.0
        m.w[mine + SEEN_LAST] = now


@inline
def span(m: Memory, mine: int) -> float:
    """How long the window of the stream with a line is."""
    return float(length(m.w[mine + REACH])) + 1.0


@inline
def faded(m: Memory, mine: int, now: int) -> float:
    """A stream's arrival count as it stands at a time."""
    return m.x[mine + SEEN] * math.exp(-float(apart(now, m.w[mine + SEEN_LAST])) / span(m, mine))


@inline
def per_window(m: Memory, stream: int) -> float:
    """How many rows of a stream an exact join would hold; 0 while too little is known."""
    mine, now = stream_at(m, stream), m.w[CLOCK]
    if m.w[mine + LAST_ROWS] > 0:
        return float(m.w[mine + LAST_ROWS])
    first, mark, window = m.w[mine + SEEN_FIRST], m.w[WATERMARK], span(m, mine)
    if first == LOW or now <= first or m.w[mine + RANK] < FEW_ROWS:
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
        if m.w[stream_at(m, stream) + POOL] == pool:
            need += per_window(m, stream)
    at = m.pools_at + pool * POOL_SIZE
    rows = float(m.w[at + CAP_ROWS])
    if m.w[at + CAP_BYTES] < HIGH and m.w[at + USED_ROWS] > 0:
        rows = min(rows, float(m.w[at + CAP_BYTES]) * float(m.w[at + USED_ROWS]) / float(m.w[at + USED_BYTES]))
    if need <= rows:
        return 1.0
    rows -= min(MARGIN * math.sqrt(rows * (1.0 - rows / need)), rows / 2.0)
    return rows / need
