"""Policies that keep priorities: a tournament finds the resident that is worth least.

Where every stream shares one key and no output value is given, all rows of a stream with one key are worth the same:
the leaf is (key, stream) and its oldest row stands for it (with credits, the one that has least). Such a leaf may wait:
it then says too little, and is brought up to date when it wins (`waits`). Otherwise each row is a leaf of its own; its
score is taken when it arrives and looked at again when it is about to be shed.

Nothing is ranked before a row has to be shed for the first time (`freshen`): then all leaves are written at once, and
from then on they are kept (RANKING). A join that stays below its budget pays for no tournament. What has been ranked
since ever and what is ranked now shed the same rows, but that rows with leaves of their own have their scores from that
moment.

Below `leader` stand the hooks that only such policies have: who stands for a group, what a group or a row is worth, and
from when on a priority falls that drifts with the clock.
"""

from typing import Any

import numpy as np

from windrow.kernels import tournament
from windrow.kernels.chains import oldest
from windrow.kernels.distances import apart, length
from windrow.kernels.jit import inline, inner
from windrow.kernels.keys import unused
from windrow.kernels.layout import (
    CACHED,
    NONE,
    R_COST,
    R_STREAM,
    R_TIME,
    Key,
    Node,
)
from windrow.kernels.memory import Memory, fetch, memory_of
from windrow.kernels.places import (
    chain,
    directory_at,
    key_at,
    key_of,
    leaf_at,
    link_at,
    node_at,
    pool_at,
    slot_at,
    stream_at,
    stream_of,
)

BASE = "policy"
RANKED = True
HIGHEST = 1e150  # scores are cut here, so that a score times a clock stays finite
PATH = 5  # levels of a tournament that are fetched ahead


@inline
def clock(m: Memory) -> float:
    """Now, in the unit in which lifetimes are compared: event time, or arrivals where windows count rows."""
    if stream_at(m, 0).last_rows > 0:
        return float(m.head.arrivals)
    return float(m.head.clock)


@inline
def expiry(m: Memory, slot: int) -> float:
    """When a resident will expire, on the same clock."""
    at, stream = slot_at(m, slot), stream_of(m, slot)
    rank = at.rank if stream_at(m, stream).last_rows > 0 else 0
    return expiry_of(m, stream, at.time, rank)


@inline
def expiry_of(m: Memory, stream: int, time: int, rank: int) -> float:
    """When a row of a stream will expire that has a time and, where windows count rows, a rank."""
    mine = stream_at(m, stream)
    rows, seen = mine.last_rows, mine.rank
    if rows > 0:
        return m.head.arrivals + (rows - (seen - 1 - rank)) * max(1.0, m.head.arrivals / max(seen, 1))
    return float(time) + float(length(mine.reach)) + 1.0


@inline
def held(m: Memory, slot: int) -> float:
    """How long a resident has been held, on the same clock."""
    if stream_at(m, 0).last_rows > 0:
        return float(m.head.arrivals - slot_at(m, slot).seq)
    return float(apart(m.head.clock, slot_at(m, slot).time))


@inline
def cut(score: float) -> float:
    """A score that is finite and not negative."""
    return min(max(score, 0.0), HIGHEST) if score == score else 0.0


@inline
def set_leaf(h: Any, m: Memory, leaf: Node, slot: int, score: float) -> None:
    """Write the priority of the leaf at a place, for the resident that stands for it; it is finite and not negative."""
    score = cut(score)
    leaf.tie = slot_at(m, slot).seq
    leaf.base = score
    if not m.drifting:
        return
    ends = expiry(m, slot)
    leaf.ends = ends
    leaf.turn = h.turn_of(h, m, slot, score, ends)


@inline
def group_leaf(m: Memory, key: int, stream: int) -> int:
    """The leaf of a key and stream."""
    mine = stream_at(m, stream)
    return key * pool_at(m, mine.pool).width + mine.offset


@inline
def group_of(m: Memory, pool: int, leaf: int) -> tuple[int, int]:
    """The key and stream of a leaf."""
    width = pool_at(m, pool).width
    stream = 0
    while stream_at(m, stream).pool != pool or stream_at(m, stream).offset != leaf % width:
        stream += 1
    return leaf // width, stream


@inline
def touch_group(h: Any, m: Memory, key: int, stream: int) -> None:
    """Bring the leaf of a key and stream up to date after its chain or its frequencies changed."""
    pool = stream_at(m, stream).pool
    leaf = group_leaf(m, key, stream)
    at = leaf_at(m, pool, leaf)
    head = h.leader(h, m, key_at(m, 0, key), stream)
    if head < 0:
        if at.base == np.inf:
            return
        tournament.clear(m, at)
    else:
        score = h.group_score(h, m, key, stream)
        if not m.drifting and at.base == score and at.tie == slot_at(m, head).seq:
            return
        set_leaf(h, m, at, head, score)
    tournament.update(m, pool, leaf, clock(m))


@inline
def waits(h: Any, m: Memory) -> bool:
    """Whether a leaf may say less than it should until it wins: that of a group.

    What a key gains and what stands for it when its oldest row is gone only raise its priority. Not so where the time
    for which a row will be held is an estimate, which may fall. And not where the state lies in the cache: there it
    costs no more to touch a leaf at once than to look later whether it should have been.
    """
    if m.by_row or m.table_size <= CACHED or not h.only_rises(h, m):
        return False
    return m.drifting == 0 or stream_at(m, 0).last_rows == 0


@inline
def lose_head(h: Any, m: Memory, key: int, stream: int) -> None:
    """Bring the leaf of a key and stream up to date after the resident that stood for it has left, if it must be now.

    It must be when nobody is left, or when the next one came earlier, which disordered rows may do.
    """
    head = h.leader(h, m, key_at(m, 0, key), stream)
    if waits(h, m) and head >= 0:
        leaf = leaf_at(m, stream_at(m, stream).pool, group_leaf(m, key, stream))
        if slot_at(m, head).seq > leaf.tie:
            return
    touch_group(h, m, key, stream)


@inline
def lowest_group(h: Any, m: Memory, pool: int) -> int:
    """The leaf with the lowest priority: a leaf that wins and says too little is brought up to date first."""
    return lowest_waiting(h, m.w, pool) if waits(h, m) else tournament.winner(m, pool)


@inner
def lowest_waiting(h: Any, words: Any, pool: int) -> int:
    """The same where leaves wait."""
    m = memory_of(words)
    leaf = tournament.winner(m, pool)
    while True:
        at = leaf_at(m, pool, leaf)
        if at.base == np.inf:
            break
        key, stream = group_of(m, pool, leaf)
        head, score = h.leader(h, m, key_at(m, 0, key), stream), cut(h.group_score(h, m, key, stream))
        if at.base == score and at.tie == slot_at(m, head).seq:
            break
        set_leaf(h, m, at, head, score)
        tournament.update(m, pool, leaf, clock(m))
        leaf = tournament.winner(m, pool)
    return leaf


@inner
def touch_row(h: Any, words: Any, slot: int, gone: bool) -> None:
    """Bring a resident's own leaf up to date."""
    m = memory_of(words)
    pool = stream_at(m, stream_of(m, slot)).pool
    at = leaf_at(m, pool, slot)
    if gone:
        tournament.clear(m, at)
    else:
        score = h.row_score(h, m, slot)
        slot_at(m, slot).score = score
        set_leaf(h, m, at, slot, score)
    tournament.update(m, pool, slot, clock(m))


@inner
def touch_all(h: Any, words: Any) -> None:
    """Compute every leaf anew and rebuild the tournaments."""
    m = memory_of(words)
    for pool in range(m.pools):
        for leaf in range(leaves_used(m, pool)):
            tournament.clear(m, leaf_at(m, pool, leaf))
    for stream in range(m.streams):
        fill_leaves(h, m.w, stream)
    for pool in range(m.pools):
        tournament.rebuild(m.w, pool, clock(m), leaves_used(m, pool))


@inline
def leaves_used(m: Memory, pool: int) -> int:
    """How many leaves of a pool have ever been used, the first ones."""
    if m.by_row:
        return m.head.top
    return directory_at(m, 0).top * pool_at(m, pool).width


@inner
def fill_leaves(h: Any, words: Any, stream: int) -> None:
    """Write the leaves of one stream's residents, without repairing the tournament."""
    m = memory_of(words)
    pool = stream_at(m, stream).pool
    slot = stream_at(m, stream).oldest if m.by_row else NONE
    while slot >= 0:
        score = h.row_score(h, m, slot)
        slot_at(m, slot).score = score
        set_leaf(h, m, leaf_at(m, pool, slot), slot, score)
        slot = slot_at(m, slot).newer
    for key in range(0 if m.by_row else directory_at(m, 0).top):
        record = key_at(m, 0, key)
        if chain(record, 0).count == NONE or chain(record, stream).count == 0:  # free, or without residents
            continue
        at = leaf_at(m, pool, group_leaf(m, key, stream))
        set_leaf(h, m, at, h.leader(h, m, record, stream), h.group_score(h, m, key, stream))


@inline
def lowest(h: Any, m: Memory, pool: int) -> int:
    """The resident with the lowest priority."""
    leaf = h.lowest_leaf(h, m, pool)
    if leaf_at(m, pool, leaf).base == np.inf:
        return oldest(m, pool)  # no leaf holds anybody: cannot be, but a loop without end would be worse
    if m.by_row:
        for _ in range(4):  # what has gained since it was scored gets a second look
            if h.row_score(h, m, leaf) == slot_at(m, leaf).score:
                break
            touch_row(h, m.w, leaf, False)
            leaf = tournament.winner(m, pool)
        return leaf
    key, stream = group_of(m, pool, leaf)
    return h.leader(h, m, key_at(m, 0, key), stream)


# ------------------------------------------------------------------------------------------- hooks


@inline
def entered(h: Any, m: Memory, slot: int) -> None:
    """Give a new resident its leaf, or let it be the first of its key."""
    if m.head.ranking == 0:
        return
    if m.by_row:
        touch_row(h, m.w, slot, False)
    elif link_at(m, slot, 0).older < 0:
        touch_group(h, m, key_of(m, slot, 0), stream_of(m, slot))


@inline
def left(h: Any, m: Memory, slot: int) -> None:
    """Clear the leaf of a resident that has left, or let another stand for its key."""
    if m.head.ranking == 0:
        return
    if m.by_row:
        touch_row(h, m.w, slot, True)
    elif link_at(m, slot, 0).older < 0:
        lose_head(h, m, key_of(m, slot, 0), stream_of(m, slot))


@inline
def freshen(h: Any, m: Memory, pool: int) -> None:
    """Decide the tournament at the present clock; begin to rank, if nothing had to be shed so far."""
    if m.head.ranking == 0:
        begin_ranking(h, m.w)
    if m.drifting:
        tournament.advance(m.w, pool, clock(m))


@inner
def begin_ranking(h: Any, words: Any) -> None:
    """Keep tournaments from now on: all nodes are decided, also above leaves that nobody has used."""
    m = memory_of(words)
    m.head.ranking = 1
    for pool in range(m.pools):  # a block that grew before has left them alone
        for leaf in range(m.leaves):
            tournament.clear(m, leaf_at(m, pool, leaf))
    touch_all(h, m.w)
    h.rebuild(h, m)


@inline
def victim(h: Any, m: Memory, pool: int) -> int:
    """The resident with the lowest priority."""
    return lowest(h, m, pool)


@inline
def hopeless(h: Any, m: Memory, r: Any, at: int, key: int) -> bool:
    """Whether the row at a place would be the first to be shed."""
    if m.by_row or key < 0 or m.head.ranking == 0 or m.head.pending > 0:  # who is left out will make room
        return False
    stream = r[at + R_STREAM]
    if chain(key_at(m, 0, key), stream).count > 0:
        return False  # an older row stands for the key: it would go first
    pool = stream_at(m, stream).pool
    line, cost = pool_at(m, pool), r[at + R_COST]
    if unused(m, 0, key, stream):
        cost += m.head.key_bytes
    if line.used_rows < line.cap_rows and line.used_bytes + cost <= line.cap_bytes:
        return False
    if h.ending(h, m, pool) >= 0:
        return False
    ends = expiry_of(m, stream, r[at + R_TIME], stream_at(m, stream).rank - 1)
    return below_all(h, m, key, stream, pool, ends)


@inline
def below_all(h: Any, m: Memory, key: int, stream: int, pool: int, ends: float) -> bool:
    """Whether a row of a key that expires at a clock would have a lower priority than all residents of a pool."""
    score, now = h.group_score(h, m, key, stream), clock(m)
    if m.drifting:
        tournament.advance(m.w, pool, now)
        score = cut(score) * max(ends - now, 0.0)  # as a leaf computes it, to the last bit: ties decide
    if score < tournament.priority(m, leaf_at(m, pool, tournament.winner(m, pool)), now):
        return True  # a leaf never says too much
    return waits(h, m) and score < tournament.priority(m, leaf_at(m, pool, lowest_group(h, m, pool)), now)


@inline
def warm_path(h: Any, m: Memory, key: int, stream: int) -> None:
    """Fetch the lower part of the path above the leaf of a key and stream; the upper part is in the cache anyway."""
    if m.by_row or m.head.ranking == 0 or waits(h, m):
        return
    pool = stream_at(m, stream).pool
    node = m.leaves + group_leaf(m, key, stream)
    for _ in range(PATH):
        fetch(m, node_at(m, pool, node).at)
        node >>= 1


@inline
def catch_up(h: Any, m: Memory) -> None:
    """Write every leaf that may wait: whether leaves do depends on the size of the block."""
    if m.head.ranking != 0 and waits(h, m):
        touch_all(h, m.w)


@inline
def rank_all(h: Any, m: Memory) -> None:
    """Compute every leaf anew."""
    if m.head.ranking != 0:
        touch_all(h, m.w)


@inline
def rebuild(h: Any, m: Memory) -> None:
    """Decide the tournaments from their leaves."""
    for pool in range(m.pools if m.head.ranking != 0 else 0):
        tournament.rebuild(m.w, pool, clock(m), m.leaves)


@inline
def restored(h: Any, m: Memory, ends: Any, turn: Any) -> int:
    """Write all leaves from scores and counts, with what was kept of them, and decide the tournaments."""
    if m.head.ranking == 0:
        return 0
    count = restore_row_leaves(h, m, ends, turn) if m.by_row else restore_key_leaves(h, m, ends, turn)
    h.rebuild(h, m)
    return count


@inline
def restore_leaf(h: Any, m: Memory, at: Node, slot: int, score: float, ends: Any, turn: Any, k: int) -> None:
    """Write a leaf; where its line was kept, as it was."""
    set_leaf(h, m, at, slot, score)
    if ends.shape[0] > 0:
        at.ends = ends[k]
    if turn.shape[0] > 0:
        at.turn = turn[k]


@inline
def restore_row_leaves(h: Any, m: Memory, ends: Any, turn: Any) -> int:
    """Write the leaf of every resident from its score; ends and turn hold a word for each slot, or nothing."""
    for slot in range(m.head.top):
        pool = stream_at(m, stream_of(m, slot)).pool
        score = slot_at(m, slot).score
        restore_leaf(h, m, leaf_at(m, pool, slot), slot, score, ends, turn, slot)
    return m.head.top


@inline
def restore_key_leaves(h: Any, m: Memory, ends: Any, turn: Any) -> int:
    """Write the leaves of keys, one key's streams after another; how many, or NONE when kept lines are missing."""
    n, kept = 0, max(ends.shape[0], turn.shape[0])
    for key in range(directory_at(m, 0).top):
        for stream in range(m.streams):
            head = h.leader(h, m, key_at(m, 0, key), stream)
            if head < 0:
                continue
            if kept > 0 and n >= kept:
                return NONE
            at = leaf_at(m, stream_at(m, stream).pool, group_leaf(m, key, stream))
            restore_leaf(h, m, at, head, h.group_score(h, m, key, stream), ends, turn, n)
            n += 1
    return n


# ------------------------------------------------------------------------------------------- scores


@inline
def leader(h: Any, m: Memory, record: Key, stream: int) -> int:
    """The resident that stands for a key on a stream, or NONE: the oldest."""
    return chain(record, stream).head


@inline
def lowest_leaf(h: Any, m: Memory, pool: int) -> int:
    """The leaf with the lowest priority, up to date."""
    return lowest_group(h, m, pool)


@inline
def group_score(h: Any, m: Memory, key: int, stream: int) -> float:
    """What the rows of a key and stream are worth."""
    return 0.0


@inline
def row_score(h: Any, m: Memory, slot: int) -> float:
    """What a resident is worth that has a leaf of its own."""
    return slot_at(m, slot).score


@inline
def only_rises(h: Any, m: Memory) -> bool:
    """Whether the priority of a group only rises with what happens to it, but for the clock."""
    return True


@inline
def turn_of(h: Any, m: Memory, slot: int, score: float, ends: float) -> float:
    """The clock from which on the priority of a resident falls that drifts, until it ends."""
    return -np.inf
