"""Slots and keys numbered anew, without gaps, so that their block can become smaller.

A block grows part by part, and each part keeps the most that it ever had to hold. Where the mix changes, from many keys
with few rows each to few keys with many, the block would come to hold the most rows *and* the most keys, which no
moment has needed. So a block that outgrows its room is packed first: residents and keys move to the lowest numbers, and
whatever is declared to name a slot or a key follows (kernels/layout.py, state/parts.py). Nothing else changes, and
nothing depends on numbers: the shard goes on as it would have (state/shard.py asks for it, between two groups of rows).
"""

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels import live_columns
from windrow.kernels.layout import BLOCK, NONE, Head
from windrow.state.block import capacity_of, clear_leaves, leaf_records
from windrow.state.parts import parts, view
from windrow.state.plan import Plan


def renumber(words: np.ndarray, plan: Plan) -> np.ndarray:
    """Give the residents and keys of a block the lowest numbers; the new slot of each old one, 0 of empty ones.

    No row that was shed waits to be asked for. Tables by hash and tournaments are left to be decided anew.
    """
    head = Head(words, 0)
    plan = plan.laid_out(head.begun)
    live = np.sort(live_columns.by_age(words))
    new = np.zeros(max(int(head.top), 1), np.int64)
    new[live] = np.arange(len(live))
    keys = [_keys(words, plan, d, new) for d in range(plan.directories)]
    _slots(words, plan, live, new, keys)
    _lists(words, plan, new)
    if plan.ranked and head.ranking:
        _leaves(words, plan, live, keys)
    head.top, head.free, head.free_count = len(live), NONE, 0
    return new


def followed(numbers: np.ndarray, new: np.ndarray) -> np.ndarray:
    """New numbers for old ones; NONE stays, and whatever else is negative.

    What nobody reads (a link of a stream that has none, a row that has left) may be any number.
    """
    return np.where(numbers >= 0, new[np.clip(numbers, 0, len(new) - 1)], numbers)


def _keys(words: np.ndarray, plan: Plan, d: int, slots: np.ndarray) -> np.ndarray:
    """Pack the records of a directory's keys; the numbers of those that are in use, in order."""
    line = view(words, Head.dirs_at, plan.directories, at.DIR_SIZE)[d]
    cap, size = int(words[Head.key_cap]), plan.key_words()
    records = view(words, Head.keys_at, plan.directories, cap * size)[d].reshape(cap, size)
    used = np.flatnonzero(records[: line[at.Directory.top], at.chain_word(0, at.Chain.count)] != NONE)
    packed = records[used]
    ends = [at.chain_word(stream, word) for stream in range(plan.streams) for word in at.Chain.naming("slot")]
    packed[:, ends] = followed(packed[:, ends], slots)
    for which, kept in enumerate(plan.kept_of_keys()):
        if kept.names:
            first = at.chain_word(plan.streams, which * plan.streams)
            named = packed[:, first : first + plan.streams]
            named[:] = followed(named - 1, slots) + 1
    records[: len(used)] = packed
    line[at.Directory.top], line[at.Directory.free] = len(used), NONE
    return used


def _slots(words: np.ndarray, plan: Plan, live: np.ndarray, new: np.ndarray, keys: list[np.ndarray]) -> None:
    """Pack the records of residents, and let them name their neighbours and keys anew."""
    records = view(words, Head.slots_at, int(words[Head.slot_cap]), plan.slot_words())
    packed = records[live]
    named = at.Slot.naming("slot")
    named += [_link(link, word) for link in range(plan.links) for word in at.Link.naming("slot")]
    named += _optional(plan)
    packed[:, named] = followed(packed[:, named], new)
    stream = packed[:, at.Slot.cost] & at.STREAM_MASK
    for link, word in [(link, word) for link in range(plan.links) for word in at.Link.naming("key")]:
        directory, column = plan.classes[stream, link], packed[:, _link(link, word)]
        for d, used in enumerate(keys):
            mine = directory == d
            column[mine] = np.searchsorted(used, column[mine])
    records[: len(live)] = packed


def _optional(plan: Plan) -> list[int]:
    """The words of slots that name others, of those that not every query has."""
    offsets, words = plan.offsets(), [value for value in at.Slot.words.values() if value.names == "slot"]
    return [offsets[w.where] + w.step for w in words if w.where is not None and plan.has(w.when)]


def _link(link: int, word: int) -> int:
    """A word of a slot's link."""
    return at.LINK0 + link * at.LINK_WORDS + word


def _lists(words: np.ndarray, plan: Plan, new: np.ndarray) -> None:
    """Let age lists, parts that list slots, and ordered indexes name slots anew."""
    lines = view(words, Head.streams_at, plan.streams, at.STREAM_SIZE)
    ends = at.Stream.naming("slot")
    lines[:, ends] = followed(lines[:, ends], new)
    for sized in parts(plan, capacity_of(words), int(words[Head.oracle_rows])):
        if sized.part.names:
            part = view(words, sized.word, sized.outer, sized.inner)
            part[:] = followed(part, new)
    indexes, cap = len(plan.indexed()), int(words[Head.block_cap])
    order = view(words, Head.orders_at, indexes, cap)
    blocks = view(words, Head.blocks_at, indexes, cap * at.BLOCK_WORDS).reshape(indexes, cap, at.BLOCK_WORDS)
    used = view(words, Head.indexes_at, indexes, at.INDEX_SIZE)[:, at.Index.used]
    for k in range(indexes):
        mine = blocks[k, order[k, : used[k]]]
        held = np.arange(BLOCK) < mine[:, [at.B_COUNT]]
        slots = mine[:, at.B_SLOT : at.B_SLOT + BLOCK]
        slots[held] = new[slots[held]]
        blocks[k, order[k, : used[k]]] = mine


def _leaves(words: np.ndarray, plan: Plan, live: np.ndarray, keys: list[np.ndarray]) -> None:
    """Let leaves follow their residents, or their keys; the others are empty."""
    leaves = leaf_records(words, plan)
    pools = view(words, Head.pools_at, plan.pools, at.POOL_SIZE)
    pools[:, at.Pool.span] = 0
    for pool in range(plan.pools):
        width = 1 if plan.by_row else int(pools[pool, at.Pool.width])
        owners = live if plan.by_row else keys[0]
        places = (owners[:, None] * width + np.arange(width)).ravel()
        leaves[pool, : len(places)] = leaves[pool, places]
        clear_leaves(leaves[pool, len(places) :], plan)
