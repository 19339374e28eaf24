"""The block of words that is one shard's memory: laid out, filled at the start, and moved when a part grows.

Each part is `outer` equal pieces (one per directory, pool or ordered index) of `inner` words. When capacities grow,
a larger block is laid out and every piece is copied to its new place; numbers of slots and keys stay what they are.
"""

from dataclasses import dataclass

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels.layout import LOW, NONE
from windrow.state.plan import Plan
from windrow.state.probe_orders import Route


@dataclass(frozen=True)
class Capacity:
    """How much the growing parts can hold."""

    slots: int = 1024
    keys: int = 1024
    blocks: int = 64


@dataclass(frozen=True)
class Part:
    """One part of the block: the word that says where it begins, and its size."""

    word: int
    outer: int
    inner: int


def power_of_two(n: int) -> int:
    """The least power of two that is not below n (and at least 2)."""
    return 1 << max(n - 1, 1).bit_length()


def leaves(plan: Plan, capacity: Capacity) -> int:
    """Leaves of each tournament."""
    if not plan.ranked:
        return 0
    return capacity.slots if plan.by_row else capacity.keys * plan.widest_pool()


def parts(plan: Plan, capacity: Capacity, oracle_rows: int) -> list[Part]:
    """All parts, in their order in the block."""
    n, preds, d, pools, routes = plan.streams, len(plan.preds), plan.directories, plan.pools, plan.routes
    lines = n if plan.joins is None else 2 * n  # the second half says which join links and numbers belong to
    worths = 2 if plan.value else 1
    indexes, size, credited = len(plan.indexed()), leaves(plan, capacity), plan.keeps("credits")
    return [
        Part(at.STREAMS_AT, n, at.STREAM_SIZE),
        Part(at.POOLS_AT, pools, at.POOL_SIZE),
        Part(at.DIRS_AT, d, at.DIR_SIZE),
        Part(at.CLASSES_AT, lines, plan.links),
        Part(at.POSITION_AT, n, d),
        Part(at.ORDER_AT, routes, n - 1),
        Part(at.ACCESS_AT, routes, (n - 1) * at.ACCESS_SIZE),
        Part(at.CHECKS_AT, routes, (n - 1) * (preds + 1)),
        Part(at.PREDS_AT, preds, at.PRED_SIZE),
        Part(at.TALLY_AT, routes, n * 2),
        Part(at.HIST_OF_AT, lines, plan.numbers.shape[1]),
        Part(at.HISTS_AT, len(plan.histograms()), at.HIST_SIZE),
        Part(at.MEANS_AT, d, n * (1 + plan.hooks.WAYS)),
        Part(at.LIFE_AT, n, at.LIFE_BINS * 2 if plan.keeps("lifetimes") else 0),
        Part(at.SAMPLE_AT, 1, at.GROUPS),
        Part(at.CREDIT_AT, pools, at.CREDIT_SIZE if credited else 0),
        Part(at.LEVELS_AT, pools, at.LEVEL_WORDS if credited else 0),
        Part(at.TRIALS_AT, 1, 2 * at.TRIALS if credited else 0),
        Part(at.AGES_AT, n, at.AGE_SIZE if plan.keeps("ages") else 0),
        Part(at.INDEXES_AT, indexes, at.INDEX_SIZE),
        Part(at.SKETCH_AT, d * n * worths, plan.learning.sketch_depth * plan.learning.sketch_width),
        Part(at.ORACLE_START_AT, 1, d + 1),
        Part(at.ORACLE_AT, oracle_rows, 1 + 2 * n),
        Part(at.SLOTS_AT, 1, capacity.slots * plan.slot_words()),
        Part(at.DENSE_AT, pools, capacity.slots if plan.keeps("dense") else 0),
        Part(at.TABLES_AT, d, power_of_two(2 * capacity.keys)),
        Part(at.KEYS_AT, d, capacity.keys * plan.key_words()),
        Part(at.NODES_AT, pools, 2 * size * plan.node_words()),
        Part(at.ORDERS_AT, indexes, capacity.blocks),
        Part(at.BLOCKS_AT, indexes, capacity.blocks * at.BLOCK_WORDS),
    ]


def block_bytes(plan: Plan, capacity: Capacity, oracle_rows: int = 0) -> int:
    """Bytes of a block."""
    return 8 * (at.HEAD_SIZE + sum(p.outer * p.inner for p in parts(plan, capacity, oracle_rows)))


def fixed_bytes(plan: Plan, oracle_rows: int = 0) -> int:
    """Bytes of a block whatever it holds: head, tables, statistics, one block per ordered index."""
    return block_bytes(plan, Capacity(0, 0, 1), oracle_rows)


def lay_out(plan: Plan, capacity: Capacity, oracle_rows: int = 0) -> np.ndarray:
    """A block with its head filled and every part zero."""
    todo = parts(plan, capacity, oracle_rows)
    words = np.zeros(at.HEAD_SIZE + sum(p.outer * p.inner for p in todo), np.int64)
    start = at.HEAD_SIZE
    for part in todo:
        words[part.word] = start
        start += part.outer * part.inner
    learning = plan.learning
    sizes = {
        at.STREAMS: plan.streams, at.POOLS: plan.pools, at.DIRS: plan.directories, at.LINKS: plan.links,
        at.VALS: plan.numbers.shape[1], at.PREDS: len(plan.preds), at.INDEXES: len(plan.indexed()),
        at.HISTS: len(plan.histograms()), at.SKETCH_DEPTH: learning.sketch_depth,
        at.SKETCH_WIDTH: learning.sketch_width, at.ORACLE_ROWS: oracle_rows,
        at.SLOT_CAP: capacity.slots, at.SLOT_WORDS: plan.slot_words(), at.KEY_CAP: capacity.keys,
        at.KEY_WORDS: plan.key_words(), at.TABLE_SIZE: power_of_two(2 * capacity.keys),
        at.LEAVES: leaves(plan, capacity),
        at.NODE_WORDS: plan.node_words(), at.BLOCK_CAP: capacity.blocks, **plan.offsets(),
    }  # fmt: skip
    for word, size in sizes.items():
        words[word] = size
    return words


def start(plan: Plan, route: Route, emit: bool, capacity: Capacity | None = None, oracle_rows: int = 0) -> np.ndarray:
    """The block of an empty shard."""
    words = lay_out(plan, capacity or Capacity(), oracle_rows)
    floats = words.view(np.float64)
    words[at.FREE] = words[at.GONE] = words[at.MARKED] = NONE
    words[at.CLOCK] = words[at.WATERMARK] = LOW
    floats[at.WEIGHT] = 1.0
    floats[at.GROWTH] = plan.learning.growth
    words[at.HALF_LIFE] = NONE
    floats[at.MIX_UNTIL] = np.inf
    write_shedding(words, plan)
    switches = {
        at.BY_ROW: plan.by_row, at.STATISTIC: plan.learning.kind,
        at.EMIT: emit,
        at.FAIL_WHEN_FULL: plan.fail_when_full, at.HAS_VALUE: plan.value is not None,
        at.VALUE_SUM: plan.value == "sum", at.SEED: plan.seed, at.KEY_BYTES: plan.key_bytes(),
        at.IDLE_LIMIT: plan.idle_limit, at.DRIFTING: plan.drifting, at.OWN_CLOCK: plan.own_clock,
    }  # fmt: skip
    for word, switch in switches.items():
        words[word] = switch
    write_learning(words, plan, not plan.defers_counting)
    lines = view(words, at.STREAMS_AT, plan.streams, at.STREAM_SIZE)
    lines[:, [at.OLDEST, at.NEWEST, at.HINT]] = NONE
    lines[:, [at.LAST_TIME, at.SEEN_FIRST, at.SEEN_LAST]] = LOW
    write_windows(words, plan)
    view(words, at.DIRS_AT, plan.directories, at.DIR_SIZE)[:, at.KEY_FREE] = NONE
    view(words, at.CLASSES_AT, plan.streams, plan.links)[:] = plan.classes
    view(words, at.POSITION_AT, plan.streams, plan.directories)[:] = plan.positions()
    view(words, at.PREDS_AT, len(plan.preds), at.PRED_SIZE)[:] = plan.preds
    write_numbers(words, plan)
    if plan.joins is not None:
        view(words, at.CLASSES_AT, 2 * plan.streams, plan.links)[plan.streams :] = plan.link_joins()
        view(words, at.HIST_OF_AT, 2 * plan.streams, plan.numbers.shape[1])[plan.streams :] = plan.joins.numbers
    write_route(words, plan, route)
    clear_new(words, plan, 0, 0)
    return words


def write_shedding(words: np.ndarray, plan: Plan) -> None:
    """Parameters of the rule, and what it takes for granted before it has learned."""
    floats, shedding = words.view(np.float64), plan.shedding
    words[at.CREDIT_START], words[at.CREDIT_GAIN] = shedding.start, shedding.gain
    floats[at.CREDIT_SHARE], floats[at.AGE_LIMIT] = shedding.initial, shedding.age
    words[at.INITIAL] = FIRST_TRIAL
    if plan.keeps("ages"):
        view(words, at.AGES_AT, plan.streams, at.AGE_SIZE).view(np.float64)[:, at.A_LIMIT] = 1.0


def write_learning(words: np.ndarray, plan: Plan, learning: bool) -> None:
    """Whether arrivals are counted, and keys kept for their counts."""
    words[at.LEARNING] = learning
    words[at.KEEP_IDLE] = learning and plan.learning.kind == at.STAT_RUNNING


def write_growth(words: np.ndarray) -> None:
    """How much more an arrival weighs than the one before it, for a half-life that was chosen, if one was (AUTO)."""
    if words[at.HALF_LIFE] > 0:
        words.view(np.float64)[at.GROWTH] = 2.0 ** (1.0 / float(words[at.HALF_LIFE]))


FIRST_TRIAL = 4  # the tuner begins with the share 1 - 2 ** -4
ROUTES = (at.ORDER_AT, at.ACCESS_AT, at.CHECKS_AT, at.TALLY_AT)
LEARNED = (at.HISTS_AT, at.MEANS_AT, at.LIFE_AT, at.SKETCH_AT, at.ORACLE_START_AT, at.ORACLE_AT)
FOUND_OUT = (at.TRIALS_AT, at.AGES_AT)


def carry(old: np.ndarray, old_plan: Plan, new: np.ndarray, plan: Plan, learned: bool) -> None:
    """Copy what does not belong to single rows or keys: probe orders and, if both learn alike, what was learned.

    A part that only one of the plans has, such as the lifetimes of LIFE-EXPECTED, stays as it is.
    """
    new[at.ROUTED] = old[at.ROUTED]
    sizes, theirs = (
        {part.word: part for part in parts(p, _capacity(words), int(words[at.ORACLE_ROWS]))}
        for p, words in ((old_plan, old), (plan, new))
    )
    same = old_plan.rule == plan.rule and old_plan.shedding == plan.shedding
    for word in ROUTES + (LEARNED if learned else ()) + (FOUND_OUT if same else ()):
        part = sizes[word]
        if part == theirs[word]:
            view(new, word, part.outer, part.inner)[:] = view(old, word, part.outer, part.inner)


def _capacity(words: np.ndarray) -> Capacity:
    """What a block can hold."""
    return Capacity(int(words[at.SLOT_CAP]), int(words[at.KEY_CAP]), int(words[at.BLOCK_CAP]))


def view(words: np.ndarray, word: int, outer: int, inner: int) -> np.ndarray:
    """A part of the block as a matrix."""
    first = int(words[word])
    return words[first : first + outer * inner].reshape(outer, inner)


def write_windows(words: np.ndarray, plan: Plan) -> None:
    """Windows, pools and caps of a plan."""
    lines = view(words, at.STREAMS_AT, plan.streams, at.STREAM_SIZE)
    lines[:, at.REACH : at.OFFSET] = plan.windows
    pools = view(words, at.POOLS_AT, plan.pools, at.POOL_SIZE)
    pools[:, at.CAP_ROWS] = plan.cap_rows
    pools[:, at.CAP_BYTES] = plan.cap_bytes
    pools[:, at.WIDTH] = 0
    for stream in range(plan.streams):
        pool = lines[stream, at.POOL]
        lines[stream, at.OFFSET] = pools[pool, at.WIDTH]
        pools[pool, at.WIDTH] += 1
    words[at.IDLE_LIMIT], words[at.GROUP] = plan.idle_limit, plan.group
    words.view(np.float64)[at.DROP] = plan.drop


def write_numbers(words: np.ndarray, plan: Plan) -> None:
    """Which columns have a histogram and which an ordered index."""
    of = view(words, at.HIST_OF_AT, plan.streams, plan.numbers.shape[1])
    of[:] = NONE
    hists = view(words, at.HISTS_AT, len(plan.histograms()), at.HIST_SIZE)
    for k, (stream, column) in enumerate(plan.histograms()):
        of[stream, column] = k
        hists[k, at.H_FLOAT] = plan.numbers[stream, column]
    lines = view(words, at.INDEXES_AT, len(plan.indexed()), at.INDEX_SIZE)
    for k, (stream, column) in enumerate(plan.indexed()):
        lines[k, : at.X_USED] = stream, column, plan.numbers[stream, column]


def write_route(words: np.ndarray, plan: Plan, route: Route) -> None:
    """Probe orders."""
    n, lines = plan.streams, plan.routes
    view(words, at.ORDER_AT, lines, n - 1)[:] = route.order
    view(words, at.ACCESS_AT, lines, (n - 1) * at.ACCESS_SIZE)[:] = route.access.reshape(lines, -1)
    view(words, at.CHECKS_AT, lines, (n - 1) * (len(plan.preds) + 1))[:] = route.checks.reshape(lines, -1)


def leaf_records(words: np.ndarray, plan: Plan) -> np.ndarray:
    """The leaves' records, [pool, leaf, word]."""
    size = int(words[at.LEAVES])
    nodes = view(words, at.NODES_AT, plan.pools, 2 * size * plan.node_words())
    return nodes.reshape(plan.pools, 2 * size, plan.node_words())[:, size:]


def clear_new(words: np.ndarray, plan: Plan, old_leaves: int, old_blocks: int) -> None:
    """Give leaves and blocks beyond the old ones their empty form."""
    if words[at.LEAVES]:
        fresh = leaf_records(words, plan)[:, old_leaves:]
        fresh.view(np.float64)[..., at.BASE] = np.inf
        fresh[..., at.TIE] = np.iinfo(np.int64).max
        if plan.drifting:
            fresh.view(np.float64)[..., at.TURN] = -np.inf
    order = view(words, at.ORDERS_AT, len(plan.indexed()), int(words[at.BLOCK_CAP]))
    order[:, old_blocks:] = np.arange(old_blocks, order.shape[1])


def regrown(words: np.ndarray, plan: Plan, capacity: Capacity, oracle_rows: int | None = None) -> np.ndarray:
    """The same shard in a block of other capacity; directories' tables and inner nodes are left to be rebuilt."""
    old = _capacity(words)
    old_oracle = int(words[at.ORACLE_ROWS])
    rows = old_oracle if oracle_rows is None else oracle_rows
    new = lay_out(plan, capacity, rows)
    new[: at.STREAMS] = words[: at.STREAMS]
    for a, b in zip(parts(plan, old, old_oracle), parts(plan, capacity, rows), strict=True):
        if a.word in (at.TABLES_AT, at.NODES_AT):
            continue
        outer, inner = min(a.outer, b.outer), min(a.inner, b.inner)
        view(new, b.word, b.outer, b.inner)[:outer, :inner] = view(words, a.word, a.outer, a.inner)[:outer, :inner]
    kept = int(words[at.LEAVES])
    if kept:
        leaf_records(new, plan)[:, :kept] = leaf_records(words, plan)
    clear_new(new, plan, kept, old.blocks)
    return new
