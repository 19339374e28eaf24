"""Samples: of rows, for the estimate of recall; of keys, for the trials of the rule AUTO.

The estimate of recall is an exact join that only counts, and stores a sample of the rows. Every row probes, but only
sampled rows are stored; each match with a stored row then stands for 1 / share matches. That is an unbiased count, and
it does not mind skew: a popular key has many rows, of which its share is stored.
"""

from typing import Any

import numpy as np

from windrow.kernels.chains import slot_at, stream_at
from windrow.kernels.hashing import mix64
from windrow.kernels.jit import entry, inline
from windrow.kernels.layout import (
    ARRIVED,
    EXPIRED,
    GROUPS,
    NEWER,
    OLDEST,
    PROBE_ONLY,
    R_CODES,
    R_LIVE,
    SAMPLE_AT,
    SAMPLE_SHARE,
    SAMPLE_WEIGHT,
    SEED,
    SEQ,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.retain import drop


@inline
def row_word(m: Memory, seq: int) -> Any:
    """A word that decides about a row, from the seed and its sequence number."""
    return mix64(np.uint64(seq) + mix64(np.uint64(m.w[SEED]) ^ np.uint64(0xA5A5A5A5A5A5A5A5)))


@inline
def in_sample(word: Any, share: float) -> bool:
    """Whether a row belongs to a sample of some share; smaller samples lie inside larger ones."""
    return bool(np.float64(word >> np.uint64(11)) < share * 9007199254740992.0)


@inline
def key_in_sample(code: int, low: float, high: float) -> bool:
    """Whether a key belongs to the sample of keys between two shares; samples that do not overlap share no key."""
    word = mix64(np.uint64(code) ^ np.uint64(0x5851F42D4C957F2D))
    return in_sample(word, high) and not in_sample(word, low)


@entry
def sampled_keys(records: Any, words: int, low: float, high: float, keep_others: bool) -> Any:
    """The rows of a batch whose key belongs to a sample; others are left out or, if they are kept, only counted."""
    found, n = np.empty(records.shape[0], np.int64), 0
    for at in range(0, records.shape[0], words):
        chosen = key_in_sample(records[at + R_CODES], low, high)
        if chosen or keep_others:
            found[n : n + words] = records[at : at + words]
            if not chosen:
                found[n + R_LIVE] = 0
            n += words
    return found[:n].copy()


@inline
def sampling(m: Memory) -> bool:
    """Whether only a sample of the rows is stored."""
    return m.x[SAMPLE_SHARE] > 0.0


@inline
def tally(m: Memory, slot: int) -> None:
    """Count a match with a stored row, in the row's group."""
    word = row_word(m, m.w[slot_at(m, slot) + ARRIVED])
    m.x[m.w[SAMPLE_AT] + np.int64(word & np.uint64(GROUPS - 1))] += m.x[SAMPLE_WEIGHT]


@entry
def mark_sample(block: Any, records: Any, words: int, share: float) -> None:
    """Mark the rows of a batch that are not to be stored."""
    m = memory_of(block)
    seq = m.w[SEQ]
    for at in range(0, records.shape[0], words):
        if records[at + R_LIVE] != 0:
            records[at + R_LIVE] = 1 if in_sample(row_word(m, seq), share) else PROBE_ONLY
            seq += 1


@entry
def thin(block: Any, share: float) -> None:
    """Drop the residents that do not belong to a smaller sample."""
    m = memory_of(block)
    for stream in range(m.streams):
        slot = m.w[stream_at(m, stream) + OLDEST]
        while slot >= 0:
            after = m.w[slot_at(m, slot) + NEWER]
            if not in_sample(row_word(m, m.w[slot_at(m, slot) + ARRIVED]), share):
                drop(m, slot, EXPIRED)
            slot = after
