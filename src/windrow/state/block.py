"""The block of words that is one shard's memory: laid out, filled at the start, and moved when a part grows.

state/parts.py lists the parts. When capacities grow, a larger block is laid out and every piece is copied to its new
place; numbers of slots and keys stay what they are.
"""

from functools import lru_cache

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels.layout import LOW, NONE, Head
from windrow.state.parts import (
    CAPACITY,
    LEAST_FILTER,
    Capacity,
    Sized,
    leaves,
    parts,
    power_of_two,
    view,
    words_of_parts,
)
from windrow.state.plan import Plan
from windrow.state.probe_orders import Route
from windrow.state.release import Release


def block_bytes(plan: Plan, capacity: Capacity, oracle_rows: int = 0) -> int:
    """Bytes of a block."""
    return 8 * (at.HEAD_SIZE + words_of_parts(plan, capacity, oracle_rows))


@lru_cache(maxsize=64)
def fixed_bytes(plan: Plan, oracle_rows: int = 0) -> int:
    """Bytes of a block whatever it holds: head, tables, statistics, one block per ordered index."""
    return block_bytes(plan, Capacity(0, 0, 1, LEAST_FILTER), oracle_rows)


def lay_out(plan: Plan, capacity: Capacity, oracle_rows: int = 0) -> np.ndarray:
    """A block with its head filled and every part zero."""
    words = np.zeros(block_bytes(plan, capacity, oracle_rows) // 8, np.int64)
    _write_places(words, plan, capacity, oracle_rows)
    return words


def is_laid_out(words: np.ndarray, plan: Plan) -> bool:
    """Whether a block has the size and the places of a block of a plan."""
    if len(words) < at.HEAD_SIZE:
        return False
    capacity, oracle_rows = capacity_of(words), int(words[at.Head.oracle_rows])
    head = np.zeros(at.HEAD_SIZE, np.int64)
    _write_places(head, plan, capacity, oracle_rows)
    same = np.array_equal(head[at.Head.streams :], words[at.Head.streams : at.HEAD_SIZE])
    return same and words.nbytes == block_bytes(plan, capacity, oracle_rows)


def _write_places(words: np.ndarray, plan: Plan, capacity: Capacity, oracle_rows: int) -> None:
    """The words of the head that say how large the parts of a block are, and where they begin."""
    start = at.HEAD_SIZE
    for part in parts(plan, capacity, oracle_rows):
        words[part.word] = start
        start += part.outer * part.inner
    head, learning = Head(words, 0), plan.learning
    head.streams, head.pools, head.dirs, head.links = plan.streams, plan.pools, plan.directories, plan.links
    head.vals, head.preds, head.indexes = plan.numbers.shape[1], len(plan.preds), len(plan.indexed())
    head.hists, head.oracle_rows = len(plan.histograms()), oracle_rows
    head.sketch_depth, head.sketch_width = learning.sketch_depth, learning.sketch_width
    head.slot_cap, head.key_cap, head.block_cap = capacity.slots, capacity.keys, capacity.blocks
    head.filter_words, head.called_cap = capacity.filter, plan.calls
    records = plan.records(capacity.begun)
    head.slot_words, head.key_words, head.node_words = records.slot_words, records.key_words, plan.node_words()
    head.table_size, head.leaves = power_of_two(2 * capacity.keys), leaves(plan, capacity)
    head.befores = plan.befores
    write_begun(words, plan, capacity.begun)
    if plan.release is not None:
        head.ordered, head.promises = len(plan.release.ordered), len(plan.release.promises)
    for word, offset in records.offsets.items():
        words[word] = offset


def start(plan: Plan, route: Route, emit: bool, capacity: Capacity | None = None, oracle_rows: int = 0) -> np.ndarray:
    """The block of an empty shard."""
    words = lay_out(plan, capacity or Capacity(), oracle_rows)
    head = Head(words, 0)
    head.free = head.gone = head.down = head.marked = head.half_life = NONE
    head.clock = head.watermark = LOW
    head.weight, head.growth, head.mix_until = 1.0, plan.learning.growth, np.inf
    write_shedding(words, plan)
    head.by_row, head.drifting, head.statistic = plan.by_row, plan.drifting, plan.learning.kind
    head.emit, head.fail_when_full, head.own_clock = emit, plan.fail_when_full, plan.own_clock
    head.has_value, head.value_sum = plan.valued, plan.value == "sum"
    head.seed, head.key_bytes, head.idle_limit = plan.seed, plan.key_bytes(), plan.idle_limit
    lines = view(words, at.Head.streams_at, plan.streams, at.STREAM_SIZE)
    lines[:, [at.Stream.oldest, at.Stream.newest, at.Stream.hint]] = NONE
    lines[:, [at.Stream.last_time, at.Stream.seen_first, at.Stream.seen_last]] = LOW
    write_windows(words, plan)
    view(words, at.Head.dirs_at, plan.directories, at.DIR_SIZE)[:, at.Directory.free] = NONE
    view(words, at.Head.classes_at, plan.streams, plan.links)[:] = plan.classes
    view(words, at.Head.position_at, plan.streams, plan.directories)[:] = plan.positions()
    view(words, at.Head.preds_at, len(plan.preds), at.PRED_SIZE)[:] = plan.preds
    write_numbers(words, plan)
    if plan.joins is not None:
        view(words, at.Head.classes_at, 2 * plan.streams, plan.links)[plan.streams :] = plan.link_joins()
        view(words, at.Head.hist_of_at, 2 * plan.streams, plan.numbers.shape[1])[plan.streams :] = plan.joins.numbers
    write_route(words, plan, route)
    if plan.release is not None:
        write_release(words, plan, plan.release)
    clear_new(words, plan, 0, 0)
    return words


def write_release(words: np.ndarray, plan: Plan, release: Release) -> None:
    """The join graph and what it is released by."""
    head = Head(words, 0)
    head.pace, head.every, head.bare_cost, head.clusters_in_time = 1, 1, plan.row_bytes(), release.clusters_in_time
    monitored = release.monitored
    head.monitored, head.releasing = monitored is not None, monitored is None or monitored.release
    head.spares = release.spares
    head.came_place = plan.place_of("came")
    lines = view(words, Head.streams_at, plan.streams, at.STREAM_SIZE)
    lines[:, at.Stream.first_edge], lines[:, at.Stream.after_edge] = release.edge_starts[:-1], release.edge_starts[1:]
    lines[:, at.Stream.remembers], lines[:, at.Stream.is_leaf] = release.remembers, release.is_leaf
    lines[:, at.Stream.is_judged], lines[:, at.Stream.turn] = release.is_judged, release.turns
    for word, found in (
        (Head.promises_at, release.promises),
        (Head.watched_at, release.watched),
        (Head.edges_at, release.edges),
        (Head.evidence_at, release.evidence),
        (Head.befores_at, release.befores),
        (Head.ordered_at, release.ordered),
    ):
        view(words, word, *found.shape)[:] = found
    write_covers(words, plan, release.covers, release.cover_starts)


def write_covers(words: np.ndarray, plan: Plan, covers: np.ndarray, starts: np.ndarray) -> None:
    """The covers of all streams, which follow from the promises that are used."""
    view(words, Head.covers_at, *covers.shape)[:] = covers
    lines = view(words, Head.streams_at, plan.streams, at.STREAM_SIZE)
    lines[:, at.Stream.first_cover], lines[:, at.Stream.after_cover] = starts[:-1], starts[1:]
    Head(words, 0).covers_hold = 1


def write_shedding(words: np.ndarray, plan: Plan) -> None:
    """Parameters of the rule, and what it takes for granted before it has learned."""
    head, shedding = Head(words, 0), plan.shedding
    head.credit_start, head.credit_gain = shedding.start, shedding.gain
    head.credit_share, head.age_limit, head.initial = shedding.initial, shedding.age, FIRST_TRIAL
    if plan.keeps("ages"):
        view(words, at.Head.ages_at, plan.streams, at.AGE_SIZE).view(np.float64)[:, at.A_LIMIT] = 1.0


def write_begun(words: np.ndarray, plan: Plan, begun: int) -> None:
    """Whether the policy has begun; where it counts arrivals, keys are then kept for their counts."""
    words[at.Head.begun] = begun
    words[at.Head.keep_idle] = begun != 0 and plan.learning.kind == at.STAT_RUNNING


def write_growth(words: np.ndarray) -> None:
    """How much more an arrival weighs than the one before it, for a half-life that was chosen, if one was (AUTO)."""
    if words[at.Head.half_life] > 0:
        words.view(np.float64)[at.Head.growth] = 2.0 ** (1.0 / float(words[at.Head.half_life]))


FIRST_TRIAL = 4  # the tuner begins with the share 1 - 2 ** -4


def carry(old: np.ndarray, old_plan: Plan, new: np.ndarray, plan: Plan, learned: bool) -> None:
    """Copy what does not belong to single rows or keys: probe orders and, if both learn alike, what was learned.

    A part that only one of the plans has, such as the lifetimes of LIFE-EXPECTED, stays as it is.
    """
    new[at.Head.routed] = old[at.Head.routed]
    sizes, theirs = (
        {part.word: part for part in parts(p, capacity_of(words), int(words[at.Head.oracle_rows]))}
        for p, words in ((old_plan, old), (plan, new))
    )
    same = old_plan.rule == plan.rule and old_plan.shedding == plan.shedding
    when = {"always": True, "learned": learned, "same": same}
    for word, mine in sizes.items():
        if when.get(mine.part.carried) and mine == theirs[word]:
            view(new, word, mine.outer, mine.inner)[:] = view(old, word, mine.outer, mine.inner)


def capacity_of(words: np.ndarray) -> Capacity:
    """What a block can hold."""
    return Capacity(*(int(words[k]) for k in CAPACITY))


def write_windows(words: np.ndarray, plan: Plan) -> None:
    """Windows, pools and caps of a plan."""
    lines = view(words, at.Head.streams_at, plan.streams, at.STREAM_SIZE)
    lines[:, at.Stream.reach : at.Stream.offset] = plan.windows
    pools = view(words, at.Head.pools_at, plan.pools, at.POOL_SIZE)
    pools[:, at.Pool.cap_rows] = plan.cap_rows
    pools[:, at.Pool.cap_bytes] = plan.cap_bytes
    pools[:, at.Pool.width] = 0
    for stream in range(plan.streams):
        pool = lines[stream, at.Stream.pool]
        lines[stream, at.Stream.offset] = pools[pool, at.Pool.width]
        pools[pool, at.Pool.width] += 1
    words[at.Head.idle_limit], words[at.Head.group] = plan.idle_limit, plan.together
    words.view(np.float64)[at.Head.drop] = plan.drop


def write_numbers(words: np.ndarray, plan: Plan) -> None:
    """Which columns have a histogram and which an ordered index."""
    of = view(words, at.Head.hist_of_at, plan.streams, plan.numbers.shape[1])
    of[:] = NONE
    hists = view(words, at.Head.hists_at, len(plan.histograms()), at.HIST_SIZE)
    for k, (stream, column) in enumerate(plan.histograms()):
        of[stream, column] = k
        hists[k, at.Histogram.is_float] = plan.numbers[stream, column]
    lines = view(words, at.Head.indexes_at, len(plan.indexed()), at.INDEX_SIZE)
    for k, (stream, column) in enumerate(plan.indexed()):
        lines[k, : at.Index.used] = stream, column, plan.numbers[stream, column]


def write_route(words: np.ndarray, plan: Plan, route: Route) -> None:
    """Probe orders."""
    n, lines = plan.streams, plan.routes
    view(words, at.Head.order_at, lines, n - 1)[:] = route.order
    view(words, at.Head.access_at, lines, (n - 1) * at.ACCESS_SIZE)[:] = route.access.reshape(lines, -1)
    view(words, at.Head.checks_at, lines, (n - 1) * (len(plan.preds) + 1))[:] = route.checks.reshape(lines, -1)


def leaf_records(words: np.ndarray, plan: Plan) -> np.ndarray:
    """The leaves' records, [pool, leaf, word]."""
    size = int(words[at.Head.leaves])
    nodes = view(words, at.Head.nodes_at, plan.pools, 2 * size * plan.node_words())
    return nodes.reshape(plan.pools, 2 * size, plan.node_words())[:, size:]


def clear_new(words: np.ndarray, plan: Plan, old_leaves: int, old_blocks: int) -> None:
    """Give leaves and blocks beyond the old ones their empty form."""
    if words[at.Head.leaves] > old_leaves:
        clear_leaves(leaf_records(words, plan)[:, old_leaves:], plan)
    order = view(words, at.Head.orders_at, len(plan.indexed()), int(words[at.Head.block_cap]))
    order[:, old_blocks:] = np.arange(old_blocks, order.shape[1])


def clear_leaves(leaves: np.ndarray, plan: Plan) -> None:
    """Make leaves empty, given as records."""
    leaves.view(np.float64)[..., at.Node.base] = np.inf
    leaves[..., at.Node.tie] = np.iinfo(np.int64).max
    if plan.drifting:
        leaves.view(np.float64)[..., at.Node.turn] = -np.inf


def _pieces(words: np.ndarray, sized: Sized) -> np.ndarray:
    """A part as the array of its pieces; keys, whose records may differ in length, by directory, key and word."""
    found = view(words, sized.word, sized.outer, sized.inner)
    if sized.word != at.Head.keys_at:
        return found
    return found.reshape(sized.outer, int(words[at.Head.key_cap]), int(words[at.Head.key_words]))


def regrown(words: np.ndarray, plan: Plan, capacity: Capacity, oracle_rows: int | None = None) -> np.ndarray:
    """The same shard in a block of other capacity; directories' tables and inner nodes are left to be rebuilt.

    A part that gets smaller holds nothing beyond its new end (state/renumbering.py).
    """
    old = capacity_of(words)
    old_oracle = int(words[at.Head.oracle_rows])
    rows = old_oracle if oracle_rows is None else oracle_rows
    new = lay_out(plan, capacity, rows)
    new[: at.Head.streams] = words[: at.Head.streams]
    write_begun(new, plan, capacity.begun)
    for a, b in zip(parts(plan, old, old_oracle), parts(plan, capacity, rows), strict=True):
        if a.part.rebuilt:
            continue
        theirs, mine = _pieces(words, a), _pieces(new, b)
        common = tuple(map(slice, map(min, theirs.shape, mine.shape)))
        mine[common] = theirs[common]
    most, kept = int(new[at.Head.leaves]), int(words[at.Head.leaves])
    if words[at.Head.ranking]:
        kept = min(kept, most)
        leaf_records(new, plan)[:, :kept] = leaf_records(words, plan)[:, :kept]
    else:
        kept = most  # they are written when the first row has to be shed
    clear_new(new, plan, kept, old.blocks)
    return new
