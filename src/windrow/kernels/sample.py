"""Sampling by key: the same hash decides in every join which keys are watched."""

from typing import Any

import numpy as np

from windrow.kernels.chains import key_of, slot_at, stream_at
from windrow.kernels.directory import key_at
from windrow.kernels.hashing import mix64
from windrow.kernels.jit import entry, inline
from windrow.kernels.layout import (
    CODE,
    EXPIRED,
    GROUPS,
    NEWER,
    OLDEST,
    R_CODES,
    R_LIVE,
    SAMPLE_AT,
    SAMPLE_SHARE,
    SAMPLE_WEIGHT,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.retain import drop


@inline
def sample_word(code: int) -> Any:
    """A word that decides about a key, independent of where the key sits in its directory."""
    return mix64(np.uint64(code) ^ np.uint64(0xA5A5A5A5A5A5A5A5))


@inline
def in_sample(word: Any, share: float) -> bool:
    """Whether a key belongs to a sample of some share; smaller samples lie inside larger ones."""
    return bool(np.float64(word >> np.uint64(11)) < share * 9007199254740992.0)


@inline
def tally_sample(m: Memory, code: int, matches: int) -> None:
    """Count the matches of a sampled key in its group, for the estimate of recall."""
    if matches == 0 or m.x[SAMPLE_SHARE] <= 0.0:
        return
    word = sample_word(code)
    if in_sample(word, m.x[SAMPLE_SHARE]):
        m.x[m.w[SAMPLE_AT] + np.int64(word & np.uint64(GROUPS - 1))] += matches * m.x[SAMPLE_WEIGHT]


@entry
def sampled(records: Any, words: int, share: float, counts_rows: bool) -> Any:
    """The records whose keys belong to the sample; where windows count rows, the others stay but cannot match."""
    out = np.empty_like(records)
    n = 0
    for at in range(0, records.shape[0], words):
        inside = in_sample(sample_word(records[at + R_CODES]), share)
        if inside or counts_rows:
            out[n : n + words] = records[at : at + words]
            if not inside:
                out[n + R_LIVE] = 0
            n += words
    return out[:n]


@entry
def thin(block: Any, share: float) -> None:
    """Drop the residents whose keys do not belong to a smaller sample."""
    m = memory_of(block)
    for stream in range(m.streams):
        slot = m.w[stream_at(m, stream) + OLDEST]
        while slot >= 0:
            after = m.w[slot_at(m, slot) + NEWER]
            if not in_sample(sample_word(m.w[key_at(m, 0, key_of(m, slot, 0)) + CODE]), share):
                drop(m, slot, EXPIRED)
            slot = after
