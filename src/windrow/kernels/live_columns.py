"""Live things in and out of a block: what a snapshot keeps is read here, and everything else is built again from it.

Out, residents come stream by stream, each stream in the order of its age list; a directory's keys come in the order in
which these residents name them first, then the keys that only statistics keep, by code. In, slots and keys are numbered
in that same order, so that every list is linked by appending. One pass over the residents each; no number of a slot
or a key is ever stored.
"""

from typing import Any, NamedTuple

import numpy as np

from windrow.kernels import directory
from windrow.kernels.jit import entry, inline
from windrow.kernels.keys import charge_key, is_idle
from windrow.kernels.layout import (
    B_COUNT,
    B_NUMBER,
    B_SLOT,
    FILLED,
    LOW,
    NONE,
    STAT_ORACLE,
    STREAM_BITS,
)
from windrow.kernels.memory import Memory, memory_of
from windrow.kernels.ordered import block_at
from windrow.kernels.places import (
    chain,
    directory_at,
    directory_of,
    index_at,
    key_at,
    leaf_at,
    link_at,
    numbers_at,
    pool_at,
    slot_at,
    stream_at,
    stream_of,
)
from windrow.kernels.policies.ranked import group_leaf
from windrow.kernels.retain import charge
from windrow.kernels.statistics.counts import start_key

TOGETHER = 256  # rows whose keys are looked up before the first of them is linked


class Residents(NamedTuple):
    """One stream's residents by column, oldest first; codes and numbers are [column, resident]."""

    time: Any
    seq: Any
    cost: Any
    codes: Any
    numbers: Any


# ------------------------------------------------------------------------------------------------ out


@entry
def by_age(block: Any) -> Any:
    """The slots of all residents, stream by stream, oldest first."""
    m = memory_of(block)
    rows = 0
    for stream in range(m.streams):
        rows += stream_at(m, stream).rows
    found = np.empty(rows, np.int64)
    if not by_arrival(m, found):
        walk_ages(m, found)
    return found


@inline
def walk_ages(m: Memory, found: Any) -> None:
    """Follow the age lists: each step waits for the one before it."""
    n = 0
    for stream in range(m.streams):
        slot = stream_at(m, stream).oldest
        while slot >= 0:
            found[n] = slot
            n += 1
            slot = slot_at(m, slot).newer


@inline
def by_arrival(m: Memory, found: Any) -> bool:
    """The same without a list, some times faster: False where rows came out of order, or too few of many are left."""
    low, high = 9223372036854775807, -1
    for slot in range(m.head.top):
        if slot_at(m, slot).row != NONE:
            low = min(low, slot_at(m, slot).seq)
            high = max(high, slot_at(m, slot).seq)
    if high - low >= 8 * found.shape[0]:
        return False
    slots = np.full(max(high - low + 1, 0), -1, np.int32)
    for slot in range(m.head.top):
        if slot_at(m, slot).row != NONE:
            slots[slot_at(m, slot).seq - low] = slot
    place, last = np.zeros(m.streams, np.int64), np.full(m.streams, LOW, np.int64)
    for stream in range(1, m.streams):
        place[stream] = place[stream - 1] + stream_at(m, stream - 1).rows
    for k in range(slots.shape[0]):
        if slots[k] < 0:
            continue
        stream, time = stream_of(m, slots[k]), slot_at(m, slots[k]).time
        if time < last[stream] and stream_at(m, stream).last_rows == 0:
            return False
        last[stream] = time
        found[place[stream]] = slots[k]
        place[stream] += 1
    return True


@entry
def read_slots(block: Any, slots: Any, fields: Any) -> Any:
    """Some words of some slots, [field, slot]."""
    m = memory_of(block)
    found = np.empty((fields.shape[0], slots.shape[0]), np.int64)
    for k in range(slots.shape[0]):
        at = slot_at(m, slots[k])
        for f in range(fields.shape[0]):
            found[f, k] = m.w[at.at + fields[f]]
    return found


@entry
def first_named(keys: Any, top: int) -> Any:
    """Key numbers below `top` in the order in which a column of residents' keys names them first."""
    seen, found, n = np.zeros(top, np.bool_), np.empty(top, np.int64), 0
    for k in range(keys.shape[0]):
        if not seen[keys[k]]:
            seen[keys[k]] = True
            found[n] = keys[k]
            n += 1
    return found[:n].copy()


@entry
def keys_idle(block: Any, d: int) -> Any:
    """A directory's keys without residents."""
    m = memory_of(block)
    top, n = directory_at(m, d).top, 0
    found = np.empty(top, np.int64)
    for key in range(top):
        if chain(key_at(m, d, key), 0).count != NONE and is_idle(m, d, key):
            found[n] = key
            n += 1
    return found[:n].copy()


@entry
def read_keys(block: Any, d: int, keys: Any, word: int) -> Any:
    """One word of each of some keys' records."""
    m = memory_of(block)
    found = np.empty(keys.shape[0], np.int64)
    for k in range(keys.shape[0]):
        found[k] = m.w[key_at(m, d, keys[k]).at + word]
    return found


@entry
def read_row_leaves(block: Any, slots: Any, word: int) -> Any:
    """One word of the leaf of each of some residents."""
    m = memory_of(block)
    found = np.empty(slots.shape[0], np.int64)
    for k in range(slots.shape[0]):
        pool = stream_at(m, stream_of(m, slots[k])).pool
        found[k] = m.w[leaf_at(m, pool, slots[k]).at + word]
    return found


@entry
def read_key_leaves(block: Any, keys: Any, word: int) -> Any:
    """One word of the leaves of keys, one key's streams after another where it has residents."""
    m = memory_of(block)
    found, n = np.empty(keys.shape[0] * m.streams, np.int64), 0
    for k in range(keys.shape[0]):
        for stream in range(m.streams):
            if chain(key_at(m, 0, keys[k]), stream).count > 0:
                pool = stream_at(m, stream).pool
                found[n] = m.w[leaf_at(m, pool, group_leaf(m, keys[k], stream)).at + word]
                n += 1
    return found[:n].copy()


# ------------------------------------------------------------------------------------------------- in


@entry
def clear_tables(block: Any) -> None:
    """Empty the directories' tables."""
    m = memory_of(block)
    for d in range(m.dirs):
        directory.refill(m.w, d)


@inline
def known_key(m: Memory, d: int, code: int) -> int:
    """The key number of a code, new if need be, or NONE when there is no room for it."""
    key = directory.find(m, d, code)
    if key < 0:
        if directory_at(m, d).top >= m.key_cap:
            return NONE
        key = directory.add(m, d, code)
        if m.statistic == STAT_ORACLE:
            start_key(m.w, d, key, code)
    return key


class Chains(NamedTuple):
    """A stream's chains while they are linked, close together in memory, where slots and records of keys lie far apart.

    Of each resident [link, place in its stream] its key and its neighbours; of each key [link, key] both ends and the
    length.
    """

    keys: Any
    older: Any
    newer: Any
    head: Any
    tail: Any
    count: Any


@inline
def no_chains(m: Memory, rows: int) -> Chains:
    """Chains of so many residents, not linked yet."""
    near = np.full((3, m.links, rows), NONE, np.int32)
    ends = np.full((2, m.links, m.key_cap), NONE, np.int32)
    return Chains(near[0], near[1], near[2], ends[0], ends[1], np.zeros((m.links, m.key_cap), np.int32))


@inline
def find_code(m: Memory, d: int, code: int, known: Any) -> int:
    """`directory.find`, by a list of the codes of all keys instead of their records."""
    mask = m.table_size - 1
    table = m.tables_at + d * m.table_size
    at, tag = code & mask, code & directory.TAG_MASK
    while True:
        word = m.w[table + at]
        if word < 0:
            return NONE
        if word >> directory.KEY_BITS == tag and known[d, word & directory.KEY_MASK] == code:
            return word & directory.KEY_MASK
        at = (at + 1) & mask


@inline
def open_keys(m: Memory, d: int, codes: Any, start: int, end: int, keys: Any, known: Any) -> bool:
    """The keys of some rows, looked up one after the other so that cache misses overlap; False if they do not fit."""
    for k in range(start, end):
        keys[k] = find_code(m, d, codes[k], known)
    for k in range(start, end):
        if keys[k] >= 0:
            continue
        key = find_code(m, d, codes[k], known)  # one of these rows may have brought it
        if key < 0:
            key = directory_at(m, d).top
            if key >= m.key_cap:
                return False
            directory_at(m, d).top += 1
            directory_at(m, d).live += 1
            known[d, key] = codes[k]
            directory.place(m, d, codes[k], key)
        keys[k] = key
    return True


@inline
def link_rows(m: Memory, stream: int, rows: Residents, chains: Chains, tops: Any, known: Any) -> int:
    """Put a stream's residents into the chains of their keys, oldest first; NONE when their keys do not fit.

    What is charged for keys that were unused (`keys.unused`): all keys below `tops` have residents of other streams.
    """
    keys_cost = 0
    for link in range(m.links):
        d = directory_of(m, stream, link)
        for start in range(0, rows.time.shape[0] if d >= 0 else 0, TOGETHER):
            end = min(start + TOGETHER, rows.time.shape[0])
            if not open_keys(m, d, rows.codes[link], start, end, chains.keys[link], known):
                return NONE
            for k in range(start, end):
                key = chains.keys[link, k]
                left = chains.tail[link, key]
                if left < 0:
                    chains.head[link, key] = k
                    if m.pools > 1 or key >= tops[d]:
                        keys_cost += charge_key(m, stream, d)
                else:
                    chains.older[link, k] = left
                    chains.newer[link, left] = k
                chains.tail[link, key] = k
                chains.count[link, key] += 1
    return keys_cost


@inline
def slot_or_none(first: int, place: int) -> int:
    """The slot of a place in a stream whose residents are in slots from `first` on."""
    return first + place if place >= 0 else NONE


@inline
def write_links(m: Memory, stream: int, first: int, k: int, chains: Chains) -> None:
    """The links of a stream's resident at a place."""
    for link in range(m.links):
        if directory_of(m, stream, link) >= 0:
            at = link_at(m, first + k, link)
            at.key = chains.keys[link, k]
            at.older = slot_or_none(first, chains.older[link, k])
            at.newer = slot_or_none(first, chains.newer[link, k])


@inline
def write_chains(m: Memory, stream: int, first: int, chains: Chains, tops: Any, known: Any) -> None:
    """The chains of a stream in the records of its keys; and the records of keys that are new."""
    for link in range(m.links):
        d = directory_of(m, stream, link)
        if d < 0:
            continue
        for key in range(directory_at(m, d).top):
            record = key_at(m, d, key)
            if key >= tops[d]:
                for at in range(record.at + 1, record.at + m.key_words):
                    m.w[at] = 0
                record.code = known[d, key]
                for other in range(m.streams):
                    chain(record, other).head = NONE
                    chain(record, other).tail = NONE
                if m.statistic == STAT_ORACLE:
                    start_key(m.w, d, key, record.code)
            if chains.tail[link, key] >= 0:
                mine = chain(record, stream)
                mine.head, mine.tail = first + chains.head[link, key], first + chains.tail[link, key]
                mine.count = chains.count[link, key]


@entry
def add_residents(block: Any, stream: int, rows: Residents, known: Any) -> bool:
    """Put a stream's residents into the next slots, oldest first; False when their keys do not fit.

    `known` [directory, key] has the codes of all keys, from one stream to the next.
    """
    m = memory_of(block)
    first, n, cost = m.head.top, rows.time.shape[0], 0
    chains, tops = no_chains(m, n), np.empty(m.dirs, np.int64)
    for d in range(m.dirs):
        tops[d] = directory_at(m, d).top
    keys_cost = link_rows(m, stream, rows, chains, tops, known)
    if keys_cost < 0:
        return False
    for k in range(n):
        slot = first + k
        at = slot_at(m, slot)
        at.time, at.seq, at.row = rows.time[k], rows.seq[k], k
        at.cost = (rows.cost[k] << STREAM_BITS) | stream
        at.older = slot - 1 if k > 0 else NONE
        at.newer = slot + 1 if k + 1 < n else NONE
        cost += rows.cost[k]
        for column in range(m.vals):
            m.w[numbers_at(m, slot) + column] = rows.numbers[column, k]
        write_links(m, stream, first, k, chains)
    write_chains(m, stream, first, chains, tops, known)
    if n > 0:
        mine = stream_at(m, stream)
        mine.oldest, mine.newest, mine.hint = first, first + n - 1, first + n - 1
    m.head.top = first + n
    charge(m, stream, n, cost, keys_cost)
    return True


@entry
def write_slots(block: Any, first: int, field: int, values: Any) -> None:
    """One word of successive slots."""
    m = memory_of(block)
    for k in range(values.shape[0]):
        m.w[slot_at(m, first + k).at + field] = values[k]


@entry
def add_idle(block: Any, d: int, codes: Any) -> bool:
    """Add keys without residents; False when one is there already or does not fit."""
    m = memory_of(block)
    for k in range(codes.shape[0]):
        before = directory_at(m, d).top
        if known_key(m, d, codes[k]) != before:
            return False
    directory_at(m, d).idle += codes.shape[0]
    return True


@entry
def write_keys(block: Any, d: int, word: int, values: Any) -> None:
    """One word of the record of every key, by number."""
    m = memory_of(block)
    for key in range(values.shape[0]):
        m.w[key_at(m, d, key).at + word] = values[key]


@entry
def write_dense(block: Any, pool: int, slots: Any) -> None:
    """A pool's dense list."""
    m = memory_of(block)
    for place in range(slots.shape[0]):
        slot_at(m, slots[place]).place = place
        m.w[m.head.dense_at + pool * m.head.slot_cap + place] = slots[place]


@entry
def read_dense(block: Any, pool: int) -> Any:
    """The slots of a pool's dense list."""
    m = memory_of(block)
    first, n = m.head.dense_at + pool * m.head.slot_cap, pool_at(m, pool).used_rows
    found = np.empty(n, np.int64)
    for place in range(n):
        found[place] = m.w[first + place]
    return found


@entry
def load_index(block: Any, ix: int, numbers: Any, slots: Any) -> None:
    """Fill an empty ordered index with sorted pairs."""
    m = memory_of(block)
    index_at(m, ix).used = (slots.shape[0] + FILLED - 1) // FILLED
    for k in range(slots.shape[0]):
        at, here = block_at(m, ix, k // FILLED), k % FILLED
        m.w[at + B_NUMBER + here] = numbers[k]
        m.w[at + B_SLOT + here] = slots[k]
        m.w[at + B_COUNT] = here + 1


@entry
def finish(h: Any, block: Any, ends: Any, turn: Any) -> int:
    """Let the policy build what it keeps, from residents and keys; `ends` and `turn` are what was kept of leaves.

    How many lines of them belong to leaves, or NONE when some are missing.
    """
    return h.restored(h, memory_of(block), ends, turn)


# ---------------------------------------------------------------------------------------------- codes


_UNMIX_1 = np.uint64(0x96DE1B173F119089)  # the inverses of mix64's multipliers, modulo 2**64
_UNMIX_2 = np.uint64(0x319642B2D24D8EC3)


@entry
def unmix_words(words: Any, out: Any) -> None:
    """The inverse of hashing.mix_words: from exact codes back to values, which are narrower than codes."""
    for i in range(words.size):
        word = words[i]
        word = word ^ (word >> np.uint64(31)) ^ (word >> np.uint64(62))
        word = word * _UNMIX_2
        word = word ^ (word >> np.uint64(27)) ^ (word >> np.uint64(54))
        word = word * _UNMIX_1
        out[i] = word ^ (word >> np.uint64(30)) ^ (word >> np.uint64(60))
