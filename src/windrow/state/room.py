"""How large a shard's block is: at the start, when something in it has no room, and when it is built anew.

A block holds some of its places in reserve, so that it does not move with every row. With a budget in bytes the reserve
is bounded (`Plan.room_bytes` is what the block may take when it is full):

    far below its room      half as much again, while that takes at most three quarters of it
    else                    an eighth more, or what the rows that lack room need

so a block takes at most an eighth more than what is charged for it, and room for one group of rows. Its parts are at
their largest at different times, if keys are many at first and rows later: a block that would take more than an eighth
above its room is packed first (state/renumbering.py), if a sixteenth of its room can be had by it.
"""

from dataclasses import replace
from functools import lru_cache

from windrow.kernels import layout as at
from windrow.state.block import block_bytes, fixed_bytes
from windrow.state.parts import LEAST_FILTER, Capacity
from windrow.state.plan import LEAST_MARGIN, SAMPLE_MARGIN, Plan

RESERVE = 8  # one part in so many
LEAST = 16  # places of the smallest block
FEWEST_BLOCKS = 2
SLOTS_PER_BLOCK = 16


@lru_cache(maxsize=64)
def first(plan: Plan, oracle_rows: int = 0) -> Capacity:
    """The capacity of an empty shard: that of 1,024 rows, or less where it would take a quarter of its room."""
    fixed, slots = fixed_bytes(plan, oracle_rows), Capacity.slots
    most = fixed + (plan.room_bytes - fixed) // 4
    while slots > LEAST and block_bytes(plan, _even(slots), oracle_rows) > most:
        slots //= 2
    return replace(_even(slots), begun=int(not plan.defers))


def enough(plan: Plan, rows: int, keys: int, longest: int) -> Capacity:
    """The capacity for so many residents, keys in a directory, and residents in an ordered index; an eighth more."""
    least = first(plan)
    blocks = longest // at.FILLED + 1
    return Capacity(
        max(least.slots, _up(rows + rows // RESERVE)),
        max(least.keys, _up(keys + keys // RESERVE)),
        max(least.blocks, FEWEST_BLOCKS + blocks + blocks // RESERVE),
    )


def larger(plan: Plan, now: Capacity, status: int, lacking: int) -> Capacity:
    """The next capacity, after a driver has said what lacks how many places."""
    if status == at.GROW_SLOTS:
        return replace(now, slots=_up(_more(plan, now, now.slots, lacking, plan.most_rows() + plan.together)))
    if status == at.GROW_FILTER:
        return replace(now, filter=lacking // 2 + LEAST_FILTER)  # half of its places
    if status == at.GROW_KEYS:
        return replace(now, keys=_up(_more(plan, now, now.keys, lacking, plan.most_keys() + plan.together)))
    return replace(now, blocks=_more(plan, now, now.blocks, lacking, 2 * plan.most_rows() // at.FILLED + 1))


def too_large(plan: Plan, wanted: Capacity, needed: Capacity) -> bool:
    """Whether a block had better be packed to what it needs than grow to what is wanted."""
    if plan.room_bytes >= at.HIGH:
        return False
    size = block_bytes(plan, wanted)
    over = size > plan.room_bytes + plan.room_bytes // RESERVE
    return over and size - block_bytes(plan, needed) > plan.room_bytes // (2 * RESERVE)


def sampled(plan: Plan, rows: int, keys: int, idle: int) -> Capacity:
    """The capacity of a fork with so many residents and keys, of which so many may have no resident: with a budget in
    bytes, whatever it comes to hold (`Plan.for_sample`) but for large groups of rows, or many keys where they were few.
    """
    if plan.fork_bytes < at.HIGH:
        rows += rows // SAMPLE_MARGIN + plan.pools * LEAST_MARGIN
        keys = min(rows + idle, keys + keys // SAMPLE_MARGIN + LEAST_MARGIN)
    return Capacity(_up(rows, 2), _up(keys, 2), FEWEST_BLOCKS)


def rows_in(plan: Plan, size: int) -> int:
    """Residents, each under a key of its own, for which a block of so many bytes has room, reserve and all."""
    each = plan.row_bytes() + max(plan.links, 1) * plan.key_bytes()
    return max(size - fixed_bytes(plan), 0) * RESERVE // (RESERVE + 1) // each


def _more(plan: Plan, now: Capacity, places: int, lacking: int, most: int) -> int:
    half = replace(now, **{part: n + n // 2 for part, n in vars(now).items() if part != "filter"})
    step = places // 2 if block_bytes(plan, half) <= plan.room_bytes // 4 * 3 else places // RESERVE
    return max(min(places + step, most), places + lacking)


def _even(slots: int) -> Capacity:
    return Capacity(slots, slots, max(slots // SLOTS_PER_BLOCK, FEWEST_BLOCKS))


def _up(places: int, step: int = 8) -> int:
    """A little more: tournaments need an even number of leaves."""
    return -(-max(places, 2) // step) * step
