"""A plan: what a shard needs to know of a bound query, in numbers only."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, wraps
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels.hooks import Hooks, hooks
from windrow.kernels.layout import HIGH, LINK_WORDS, NONE, PER_STREAM
from windrow.state.release import Release

EXACT, BESIDE = "exact", "exact_beside"  # no policy; and beside a join, to estimate its recall (kernels/policies)
SIGNED = "signed"  # no policy, and streams that bring deletions
GROUP_SHARE, LEAST_GROUP = 8, 16
SAMPLE_MARGIN, LEAST_MARGIN = 4, 4  # a quarter, and a few rows
LEAST_AT_ONCE = 1 << 10  # rows between two looks of monitors
LARGEST_FORK = 1 << 16  # bytes up to which forks grow by half

T = TypeVar("T")


def once(method: Callable[["Plan"], T]) -> Callable[["Plan"], T]:
    """A method of a plan whose answer is kept with it: plans do not change, and a small state is restored in less time
    than it takes to work all of it out again."""
    name = f"_{method.__name__}"

    @wraps(method)
    def kept(self: "Plan") -> T:
        known = vars(self)
        if name not in known:
            known[name] = method(self)
        found: T = known[name]
        return found

    return kept


@dataclass(frozen=True)
class Learning:
    """Which statistic feeds the policy, and its parameters."""

    kind: int = at.STAT_NONE
    half_life: int | None = None
    sketch_depth: int = 0
    sketch_width: int = 0

    @property
    def growth(self) -> float:
        """How much more an arrival weighs than the one before it."""
        return 1.0 if self.half_life is None else float(2.0 ** (1.0 / self.half_life))


@dataclass(frozen=True)
class Shedding:
    """Parameters of the rules that have some: where credits start and what a match adds, the age that pays.

    `initial` is the percentile at which credits start, `age` a share of the window; 0 where it is estimated.
    """

    start: int = at.START_SHARE
    initial: float = 0.0
    gain: int = at.GAIN_ONE
    age: float = 0.0


@dataclass(frozen=True)
class Records:
    """How many words slots and keys have, and where in a slot the fields begin that not every query has."""

    slot_words: int
    key_words: int
    offsets: dict[int, int]


@dataclass(frozen=True, eq=False)
class Joins:
    """Several joins in one plan: the streams of each, and the join of each directory, predicate and value column."""

    members: tuple[tuple[int, ...], ...]
    directories: tuple[int, ...]
    preds: tuple[int, ...]
    numbers: np.ndarray


@dataclass(frozen=True, eq=False)
class Plan:
    """Streams, directories, predicates, windows and pools of one shard.

    `classes[stream, link]` names the directory of each of a stream's links; `numbers` says for each stream and value
    column whether it holds float bits (1), integers (0) or nothing (-1); `windows` are the words REACH to POOL of
    each stream's line; `preds` the predicates' lines. Of several joins the first number of a row has a bit for each
    join in which it can match (2 in `numbers`), and there is a route for each join and stream.
    """

    classes: np.ndarray
    directories: int
    numbers: np.ndarray
    preds: np.ndarray
    windows: np.ndarray
    cap_rows: tuple[int, ...] = (HIGH,)
    cap_bytes: tuple[int, ...] = (HIGH,)
    rule: str = EXACT
    learning: Learning = field(default_factory=Learning)
    shedding: Shedding = field(default_factory=Shedding)
    value: str | None = None
    fail_when_full: bool = False
    seed: int = 0
    idle_limit: int = HIGH
    probe_order: tuple[tuple[int, ...], ...] | None = None
    drop: float = 0.0  # probability that a row is not stored, or UNBIASED
    fork_bytes: int = HIGH  # for each fork of the rule AUTO
    room_bytes: int = HIGH  # for the block
    prospects: bool = True  # whether there is room for what the policy knows of them
    group: int = at.GROUP_LIMIT  # rows of one instant that arrive together, at most
    joins: Joins | None = None  # None for one join of all streams
    own_clock: bool = True  # whether the times of rows move the watermark
    release: Release | None = None  # by which constraints residents are released
    demotes: bool = False  # whether what is released goes to disk, and is found there

    @cached_property
    def hooks(self) -> Hooks:
        """What the policy does in kernels, and what is released."""
        return self._hooks_of(self.rule)

    @cached_property
    def bare_hooks(self) -> Hooks:
        """The same without the policy."""
        return self._hooks_of(EXACT)

    def hooks_when(self, begun: int) -> Hooks:
        """What kernels do once the policy has begun, or while it is deferred."""
        return self.hooks if begun else self.bare_hooks

    def _hooks_of(self, rule: str) -> Hooks:
        besides = "+demoting" if self.demotes else "+hooks"
        return hooks(rule + besides if self.releases else rule)

    @property
    def releases(self) -> bool:
        """Whether residents are released by constraints."""
        return self.release is not None

    @property
    def together(self) -> int:
        """Rows of one instant that come together, at most: one where demoted rows leave a window in rows by the next."""
        return 1 if self.demotes and self.counts_rows else self.group

    @property
    def calls(self) -> int:
        """Keys under which demoted rows are looked for at a time, at most."""
        return self.together if self.demotes else 0

    @property
    def most_at_once(self) -> int:
        """Rows after which monitors look again, if there are any."""
        monitored = None if self.release is None else self.release.monitored
        return HIGH if monitored is None else max(monitored.reaction, LEAST_AT_ONCE)

    @property
    def clusters_in_time(self) -> bool:
        """Whether a constraint asks for the least time of a key's rows."""
        return self.release is not None and self.release.clusters_in_time

    @cached_property
    def befores(self) -> int:
        """Words of a slot that say how many rows of child streams came before."""
        return 0 if self.release is None else int(self.release.befores.shape[1])

    def keeps(self, what: str) -> bool:
        """Whether the policy keeps something that not every policy does."""
        return what in self.hooks.KEEPS

    @cached_property
    def streams(self) -> int:
        """How many streams."""
        return int(self.windows.shape[0])

    @cached_property
    def links(self) -> int:
        """The largest number of directories a stream is in."""
        return int(self.classes.shape[1])

    @cached_property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """The streams of each join."""
        return self.joins.members if self.joins is not None else (tuple(range(self.streams)),)

    @cached_property
    def routes(self) -> int:
        """How many routes there are: those of the first join's streams, then of the second's, and so on."""
        return len(self.members) * self.streams

    @property
    def widest_join(self) -> int:
        """The largest number of streams in one join."""
        return max(map(len, self.members))

    def join_of_directory(self, d: int) -> int:
        """The join of a directory."""
        return 0 if self.joins is None else self.joins.directories[d]

    def join_of_predicate(self, k: int) -> int:
        """The join of a predicate."""
        return 0 if self.joins is None else self.joins.preds[k]

    def link_joins(self) -> np.ndarray:
        """[stream, link]: the join of each of a stream's links, or NONE."""
        of = [self.join_of_directory(d) for d in range(self.directories)]
        return np.array([*of, NONE], np.int64)[self.classes]

    @cached_property
    def pools(self) -> int:
        """How many pools the memory is divided into."""
        return len(self.cap_rows)

    @cached_property
    def ranges(self) -> np.ndarray:
        """The predicates that are not equalities."""
        return self.preds[self.preds[:, at.Predicate.kind] != at.P_EQUAL]

    @cached_property
    def common_key(self) -> bool:
        """Whether one directory holds every stream and nothing else restricts the only join."""
        alone = self.joins is None and self.directories == 1 and len(self.ranges) == 0
        return alone and bool((self.classes[:, 0] == 0).all())

    @cached_property
    def is_pair(self) -> bool:
        """Whether the fast driver applies."""
        numbered = self.releases or self.rule == SIGNED
        return self.streams == 2 and self.common_key and (numbered or self.numbers.shape[1] == 0)

    @property
    def defers(self) -> bool:
        """Whether the join is an exact one before a part of a cap is used (see kernels/policies/exact.py)."""
        plain = self.learning in (Learning(), Learning(at.STAT_RUNNING)) and self.value is None and self.drop == 0.0
        return bool(self.hooks.DEFERS) and plain and self.is_pair

    def laid_out(self, begun: int) -> "Plan":
        """The plan that says what slots and keys hold: the one without policy, as long as that is deferred.

        Slots and keys of that begin as those of the other. Where rows are released, they would not.
        """
        return self if begun or self.releases else replace(self, rule=EXACT, learning=Learning())

    def records(self, begun: int) -> Records:
        """How slots and keys are laid out by that plan."""
        return self.full_records() if begun else self.bare_records()

    @once
    def full_records(self) -> Records:
        """Slots and keys with all that the policy keeps."""
        return Records(self.slot_words(), self.key_words(), self.offsets())

    @once
    def bare_records(self) -> Records:
        """Slots and keys of the same join without its policy, as it is while that is deferred."""
        return self.laid_out(0).full_records()

    @cached_property
    def ranked(self) -> bool:
        """Whether the rule keeps priorities."""
        return bool(self.hooks.RANKED)

    @cached_property
    def drifting(self) -> bool:
        """Whether priorities change with the clock."""
        return bool(self.hooks.DRIFTING)

    @property
    def beside(self) -> bool:
        """Whether it counts, beside another join, what that has missed (kernels/recall.py)."""
        return self.rule == BESIDE

    @cached_property
    def by_row(self) -> bool:
        """Whether each resident is a leaf of its own."""
        if not self.common_key or self.value is not None or self.hooks.OWN_LEAVES:
            return True
        alike = self.streams == 2 and self.shedding.gain in (at.GAIN_ONE, at.GAIN_NONE)
        return self.keeps("credits") and not alike

    @cached_property
    def credits_by_key(self) -> bool:
        """Whether credits move with the key (see kernels/policies/greedy_dual.py)."""
        return self.keeps("credits") and not self.by_row

    @property
    def credits_by_row(self) -> bool:
        """Whether each row has a credit of its own."""
        return self.keeps("credits") and self.by_row

    @cached_property
    def counts_rows(self) -> bool:
        """Whether some window counts rows."""
        return bool((self.windows[:, at.Stream.last_rows - at.Stream.reach] > 0).any())

    @once
    def indexed(self) -> list[tuple[int, int]]:
        """(stream, value column) pairs that get an ordered index: those of range predicates."""
        found: list[tuple[int, int]] = []
        for p in self.ranges:
            if p[at.Predicate.kind] == at.P_NE:
                continue
            for pair in (
                (p[at.Predicate.left], p[at.Predicate.left_col]),
                (p[at.Predicate.right], p[at.Predicate.right_col]),
            ):
                if (int(pair[0]), int(pair[1])) not in found:
                    found.append((int(pair[0]), int(pair[1])))
        return found

    @once
    def histograms(self) -> list[tuple[int, int]]:
        """(stream, value column) pairs whose distribution statistics learn."""
        if self.learning.kind == at.STAT_NONE:
            return []
        return [(int(s), int(c)) for s, c in np.argwhere((self.numbers >= 0) & (self.numbers < 2))]

    def positions(self) -> np.ndarray:
        """The link of each stream into each directory, or NONE."""
        found = np.full((self.streams, self.directories), NONE, np.int64)
        for stream, link in np.argwhere(self.classes >= 0):
            found[stream, self.classes[stream, link]] = link
        return found

    @property
    def valued(self) -> bool:
        """Whether matches have a value."""
        return self.value is not None

    @cached_property
    def credited(self) -> bool:
        """Whether the policy gives credits."""
        return self.keeps("credits")

    @property
    def dense(self) -> bool:
        """Whether the policy keeps residents in a dense list."""
        return self.keeps("dense")

    @cached_property
    def scored(self) -> bool:
        """Whether rows have a priority or credit of their own."""
        return (self.ranked and self.by_row) or self.credited

    @cached_property
    def recent(self) -> bool:
        """Whether recent arrivals are counted beside all."""
        return self.keeps("recent")

    @cached_property
    def recent_worths(self) -> bool:
        """Whether their output value is."""
        return self.recent and self.valued

    def has(self, when: str) -> bool:
        """Whether there is what stands under a condition (see kernels/layout.py): a property of plans, by name."""
        return bool(getattr(self, when))

    @once
    def offsets(self) -> dict[int, int]:
        """Where in a slot the fields begin that not every query has, by word of the head; 0 for those it lacks."""
        first = at.LINK0 + self.links * LINK_WORDS
        found = {at.Head.vals_off: first}
        first += self.numbers.shape[1]
        for word, (when, size) in at.OPTIONAL.items():
            there = any(map(self.has, when))
            found[word] = first if there else 0
            first += size if there else 0
        return found | {at.Head.befores_off: first if self.befores else 0}

    @once
    def slot_words(self) -> int:
        """Words of a slot's record."""
        more = sum(size for when, size in at.OPTIONAL.values() if any(map(self.has, when)))
        return at.LINK0 + self.links * LINK_WORDS + self.numbers.shape[1] + more + self.befores

    def place_of(self, name: str) -> int:
        """The place of something among what keys keep beside their chains; 0 where they do not."""
        names = [kept.name for kept in self.kept_of_keys()]
        return names.index(name) if name in names else 0

    @once
    def kept_of_keys(self) -> list[at.Kept]:
        """What keys keep beside their chains."""
        return [kept for kept in at.KEPT_OF_KEYS if self.has(kept.when)]

    @once
    def record_words(self) -> int:
        """Words of an arriving row's record."""
        return at.R_CODES + self.links + self.numbers.shape[1]

    @once
    def key_words(self) -> int:
        """Words of a key's record."""
        return at.Key.size + (PER_STREAM + len(self.kept_of_keys())) * self.streams

    @once
    def node_words(self) -> int:
        """Words of a node's record in a tournament."""
        return at.Node.size if self.drifting else at.STILL_WORDS

    @once
    def leaf_bytes(self) -> int:
        """What one more leaf costs: its record, and that of an inner node."""
        return 16 * self.node_words() if self.ranked else 0

    @once
    def key_bytes(self) -> int:
        """What the first resident under a key is charged beside itself: the key's record, table places and leaves.

        Tables have at most four places per key. All directories have as many places for keys as the largest one, and
        all pools as many leaves, so a key is charged in each; but only in the directory in which a pool has most keys
        (kernels/keys.py). In split memory every pool is charged for the keys that it uses.
        """
        size = 8 * self.directories * (self.key_words() + 4)
        return size + (0 if self.by_row else self.pools * self.widest_pool() * self.leaf_bytes())

    @once
    def most_rows(self) -> int:
        """Residents that the caps can allow."""
        return min(sum(self.cap_rows), sum(self.cap_bytes) // self.row_bytes())

    def most_keys(self) -> int:
        """Keys that the caps can allow in one directory, with those that only statistics keep."""
        return min(self.most_rows(), sum(self.cap_bytes) // (self.row_bytes() + self.key_bytes())) + self.idle_limit

    def with_room(self, room_bytes: int) -> "Plan":
        """The same join in a block of so many bytes, a small part of which is for rows of one instant."""
        rows = room_bytes // (self.row_bytes() + self.links * self.key_bytes())
        group = min(max(rows // GROUP_SHARE, LEAST_GROUP), at.GROUP_LIMIT)
        return self.budgeted(room_bytes=room_bytes, group=group)

    def budgeted(self, **changes: Any) -> "Plan":
        """The same join with other caps, other limits or other room: what is known of its records stays known, unless
        there are more pools than before."""
        found = replace(self, **changes)
        if found.pools == self.pools and not self.demotes:
            vars(found).update({name: known for name, known in vars(self).items() if name not in _DEPENDING})
        return found

    @once
    def widest_pool(self) -> int:
        """The largest number of streams in one pool."""
        return int(np.bincount(self.windows[:, at.Stream.pool - at.Stream.reach]).max())

    @once
    def row_bytes(self) -> int:
        """What every resident is charged beside its payload."""
        size = 8 * self.slot_words() + (4 * self.links if self.demotes else 0)  # the filter has room for its keys
        size += -(-16 * (at.BLOCK_WORDS + 1) // at.FILLED) * len(self.indexed())  # all indexes have as many blocks
        if self.keeps("dense"):
            size += 8 * self.pools
        elif self.ranked and self.by_row:
            size += self.pools * self.leaf_bytes()
        return size

    def same_shape(self, other: "Plan") -> bool:
        """Whether a shard of the other plan can serve this one with new windows and caps alone."""
        shape = attrgetter("rule", "learning", "shedding", "pools", "fail_when_full", "prospects", "calls")
        return bool(shape(self) == shape(other))

    def learns_as(self, other: "Plan") -> bool:
        """Whether what a shard of the other plan has learned means the same here."""
        alike = (self.learning, self.prospects) == (other.learning, other.prospects)
        return alike and self.keeps("recent") == other.keeps("recent") and self.learning.kind != at.STAT_NONE

    def for_sample(self, rows: np.ndarray, size: np.ndarray, idle: int) -> "Plan":
        """The same join for a sample, with caps of its own for its pools, at least a row in each, and for idle keys."""
        caps = (tuple(int(min(max(cap, 1), HIGH)) for cap in found) for found in (rows, size))
        room = min(self.fork_bytes, LARGEST_FORK)
        return self.budgeted(cap_rows=next(caps), cap_bytes=next(caps), idle_limit=idle, room_bytes=room)

    def without_cap(self, pooled: bool = True) -> "Plan":
        """The same join, exact: no caps, no policy, no statistics; all streams in one pool unless told otherwise."""
        windows = self.windows.copy()
        if pooled:
            windows[:, at.Stream.pool - at.Stream.reach] = 0
        return replace(
            self,
            windows=windows,
            cap_rows=(HIGH,),
            cap_bytes=(HIGH,),
            rule=SIGNED if self.rule == SIGNED else EXACT,
            learning=Learning(),
            drop=0.0,
            fail_when_full=False,
            fork_bytes=HIGH,
            room_bytes=HIGH,
            prospects=True,
            group=at.GROUP_LIMIT,
        )


_DEPENDING = {"_most_rows", *(part.name for part in fields(Plan))}  # on what `budgeted` changes
