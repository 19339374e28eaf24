"""Samples on which AUTO tries its choices (state/auto/samples.py).

Of popular keys a share of the rows is stored, and all rows probe and are counted; of other keys a share of the keys is
there, with all their rows. So counts are right, and matches scale with the share. Without a list all keys are popular.
"""

from typing import Any

import numpy as np

from windrow.kernels.hashing import in_sample, mix64, row_word
from windrow.kernels.jit import entry, inline
from windrow.kernels.layout import (
    NONE,
    PROBE_ONLY,
    R_CODES,
    R_LIVE,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.places import chain, directory_at, key_at, key_of, slot_at, stream_at
from windrow.kernels.policies.auto import brief_at


@inline
def key_in_sample(code: int, low: float, high: float) -> bool:
    """Whether a key belongs to the sample of keys between two shares; samples that do not overlap share no key."""
    word = mix64(np.uint64(code) ^ np.uint64(0x5851F42D4C957F2D))
    return in_sample(word, high) and not in_sample(word, low)


@inline
def listed(popular: Any, code: int) -> bool:
    """Whether a code is among the popular ones, which are in ascending order; all are if there is no list."""
    n = popular.shape[0]
    if n == 0:
        return True
    low, high = 0, n
    while low < high:
        mid = (low + high) >> 1
        if popular[mid] < code:
            low = mid + 1
        else:
            high = mid
    return low < n and popular[low] == code


@entry
def thinned(records: Any, words: int, share: float, popular: Any, seed: int, first: int, keep_others: bool) -> Any:
    """The rows of a batch that belong to a sample; those of popular keys all, but only a share of them is stored.

    The first row that can match has the number `first`. Others are left out or, if they are kept, only counted.
    """
    found, n, seq = np.empty(records.shape[0], np.int64), 0, first
    for at in range(0, records.shape[0], words):
        live = records[at + R_LIVE]
        if live != 0:
            if popular.shape[0] == 0 or listed(popular, records[at + R_CODES]):
                live = live if in_sample(row_word(seed, seq), share) else PROBE_ONLY
            elif not key_in_sample(records[at + R_CODES], 0.0, share):
                live = 0
            seq += 1
        if live != 0 or keep_others:
            found[n : n + words] = records[at : at + words]
            found[n + R_LIVE] = live
            n += words
    return found[:n].copy()


@inline
def row_in_sample(m: Memory, slot: int, share: float, popular: Any) -> bool:
    """Whether a resident belongs to a sample."""
    if popular.shape[0] > 0:  # all streams then have one key in common
        code = key_at(m, 0, key_of(m, slot, 0)).code
        if not listed(popular, code):
            return key_in_sample(code, 0.0, share)
    return in_sample(row_word(m.head.seed, slot_at(m, slot).seq), share)


@inline
def counts_in_sample(code: int, share: float, popular: Any) -> bool:
    """Whether the counts of a key belong to a sample."""
    return listed(popular, code) or key_in_sample(code, 0.0, share)


@entry
def thinned_size(block: Any, share: float, popular: Any) -> tuple[int, int]:
    """Residents of a sample, and its keys, in the directory that has most."""
    m = memory_of(block)
    rows, most = 0, 0
    for stream in range(m.streams):
        slot = stream_at(m, stream).oldest
        while slot >= 0:
            if row_in_sample(m, slot, share, popular):
                rows += 1
            slot = slot_at(m, slot).newer
    for d in range(m.dirs):
        keys = 0
        for key in range(directory_at(m, d).top):
            record = key_at(m, d, key)
            if chain(record, 0).count != NONE and counts_in_sample(record.code, share, popular):
                keys += 1
        most = max(most, keys)
    return rows, most


@entry
def popularity(block: Any) -> tuple[Any, Any, Any]:
    """The codes of all keys of the first directory, how many residents each has, and how many recent arrivals."""
    m = memory_of(block)
    top = directory_at(m, 0).top
    codes, rows, recent, n = np.empty(top, np.int64), np.zeros(top), np.zeros(top), 0
    for key in range(top):
        record = key_at(m, 0, key)
        if chain(record, 0).count == NONE:
            continue
        codes[n] = record.code
        for stream in range(m.streams):
            rows[n] += chain(record, stream).count
            recent[n] += m.x[brief_at(m, record, stream)]
        n += 1
    return codes[:n], rows[:n], recent[:n]
