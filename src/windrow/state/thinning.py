"""Kernels of samples (samples.py), which belong into kernels/ and stand here only until they are moved there.

thinned        into kernels/sample.py, instead of sampled_keys
thinned_size   into kernels/upkeep.py, instead of sample_size
move_thinned   into kernels/upkeep.py, instead of the shares `low` and `high` of move_residents
popularity     into kernels/upkeep.py
"""

from typing import Any

import numpy as np

from windrow.kernels import directory
from windrow.kernels.chains import key_of, slot_at, stream_at
from windrow.kernels.directory import key_at
from windrow.kernels.estimate import brief_at, brief_worth_at, freq_at, worth_at
from windrow.kernels.hashing import in_sample, row_word
from windrow.kernels.jit import entry, inline, inner
from windrow.kernels.layout import (
    ARRIVALS,
    ARRIVED,
    CHOICE,
    CLOCK,
    CODE,
    COUNT,
    DIR_SIZE,
    EXPIRED,
    GROWTH,
    HALF_LIFE,
    KEY_IDLE,
    KEY_TOP,
    LAST_TIME,
    MATCHED,
    MIX,
    MIX_UNTIL,
    NEWER,
    NONE,
    OLDEST,
    PEAK_BYTES,
    PEAK_ROWS,
    PER_STREAM,
    PROBE_ONLY,
    R_CODES,
    R_LIVE,
    RANDOM,
    RANK,
    SAMPLED,
    SEED,
    SEEN,
    SEEN_FIRST,
    SEEN_LAST,
    SEQ,
    SHED,
    VALUE,
    WATERMARK,
    WEIGHT,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.sample import key_in_sample
from windrow.kernels.upkeep import move_one


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
        code = m.w[key_at(m, 0, key_of(m, slot, 0)) + CODE]
        if not listed(popular, code):
            return key_in_sample(code, 0.0, share)
    return in_sample(row_word(m.w[SEED], m.w[slot_at(m, slot) + ARRIVED]), share)


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
        slot = m.w[stream_at(m, stream) + OLDEST]
        while slot >= 0:
            if row_in_sample(m, slot, share, popular):
                rows += 1
            slot = m.w[slot_at(m, slot) + NEWER]
    for d in range(m.dirs):
        keys = 0
        for key in range(m.w[m.dirs_at + d * DIR_SIZE + KEY_TOP]):
            record = key_at(m, d, key)
            if m.w[record + COUNT] != NONE and counts_in_sample(m.w[record + CODE], share, popular):
                keys += 1
        most = max(most, keys)
    return rows, most


@entry
def popularity(block: Any) -> tuple[Any, Any, Any]:
    """The codes of all keys of the first directory, how many residents each has, and how many recent arrivals."""
    m = memory_of(block)
    top = m.w[m.dirs_at + KEY_TOP]
    codes, rows, recent, n = np.empty(top, np.int64), np.zeros(top), np.zeros(top), 0
    for key in range(top):
        record = key_at(m, 0, key)
        if m.w[record + COUNT] == NONE:
            continue
        codes[n] = m.w[record + CODE]
        for stream in range(m.streams):
            rows[n] += m.w[record + PER_STREAM * stream + COUNT]
            recent[n] += m.x[brief_at(m, record, stream)]
        n += 1
    return codes[:n], rows[:n], recent[:n]


@entry
def move_thinned(old: Any, new: Any, share: float, popular: Any) -> None:
    """Admit the residents of a block that belong to a sample to an empty one of the same join; both are of AUTO.

    The new block has room for them and for the keys of the sample, which come along with their counts.
    """
    a, b = memory_of(old), memory_of(new)
    for word in (SEQ, MATCHED, RANDOM, CLOCK, WATERMARK, ARRIVALS, PEAK_ROWS, PEAK_BYTES):
        b.w[word] = a.w[word]
    b.x[VALUE] = a.x[VALUE]
    for stream in range(a.streams):
        for word in (EXPIRED, SHED, SAMPLED, LAST_TIME, RANK, SEEN, SEEN_FIRST, SEEN_LAST):
            b.w[stream_at(b, stream) + word] = a.w[stream_at(a, stream) + word]
        slot = a.w[stream_at(a, stream) + OLDEST]
        while slot >= 0:
            if row_in_sample(a, slot, share, popular):
                move_one(a, b, slot, stream, 0)
            slot = a.w[slot_at(a, slot) + NEWER]
    for word in (CHOICE, HALF_LIFE, MIX, MIX_UNTIL, GROWTH, WEIGHT):
        b.w[word] = a.w[word]
    for d in range(a.dirs):
        move_counts(a, b, d, share, popular)


@inner
def move_counts(a: Memory, b: Memory, d: int, share: float, popular: Any) -> None:
    """Copy how often the keys of a directory arrive that belong to a sample; those without residents come along."""
    for key in range(a.w[a.dirs_at + d * DIR_SIZE + KEY_TOP]):
        x = key_at(a, d, key)
        if a.w[x + COUNT] == NONE or not counts_in_sample(a.w[x + CODE], share, popular):
            continue
        there = directory.find(b, d, a.w[x + CODE])
        if there < 0:
            there = directory.add(b, d, a.w[x + CODE])
            b.w[b.dirs_at + d * DIR_SIZE + KEY_IDLE] += 1
        y = key_at(b, d, there)
        for stream in range(a.streams):
            b.w[freq_at(y, stream)] = a.w[freq_at(x, stream)]
            b.w[brief_at(b, y, stream)] = a.w[brief_at(a, x, stream)]
            if a.valued:
                b.w[worth_at(b, y, stream)] = a.w[worth_at(a, x, stream)]
                b.w[brief_worth_at(b, y, stream)] = a.w[brief_worth_at(a, x, stream)]
