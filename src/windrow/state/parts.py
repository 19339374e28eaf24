"""The parts of a shard's block: what each holds, how large it is, and what becomes of it.

A part is `outer` equal pieces (one per stream, directory, pool or ordered index) of `inner` words; the head says where
it begins. Everything that is done with whole parts goes by this table: laying out a block and growing it
(state/block.py), carrying parts over to another plan's block, writing and reading snapshots (state/snapshot).

    about     what it holds
    size      its pieces and the words of each, for a plan and its capacity
    saved     the name under which snapshots keep it, and `kind` whether as integers or floats
    carried   when it comes along to a block of another plan: "always", "learned" (both plans learn alike), "same"
              (under the same policy); else it is filled from the residents, or by the plan
    grows     whether its size depends on the capacity
    rebuilt   whether it is decided anew when the block grows, instead of copied
    names     "slot" if all its words name slots
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels.layout import Head
from windrow.state.plan import Plan, once
from windrow.state.release import most_covers

LEAST_FILTER = 64  # words


@dataclass(frozen=True)
class Capacity:
    """How much the growing parts can hold."""

    slots: int = 1024
    keys: int = 1024
    blocks: int = 64
    filter: int = LEAST_FILTER
    begun: int = 1  # 0 as long as the policy is deferred, and there is no room for what it keeps


# the words of the head that tell it
CAPACITY = (Head.slot_cap, Head.key_cap, Head.block_cap, Head.filter_words, Head.begun)


@dataclass(frozen=True)
class Part:
    """What one part of a block is."""

    word: int
    about: str
    size: Callable[[Plan, Capacity], tuple[int, int]]
    saved: str = ""
    kind: type = np.float64
    carried: str = ""
    grows: bool = False
    rebuilt: bool = False
    names: str = ""


class Sized(NamedTuple):
    """A part in a block of some plan and capacity."""

    part: Part
    outer: int
    inner: int

    @property
    def word(self) -> int:
        """The word of the head that says where it begins."""
        return self.part.word


def power_of_two(n: int) -> int:
    """The least power of two that is not below n (and at least 2)."""
    return 1 << max(n - 1, 1).bit_length()


def leaves(plan: Plan, capacity: Capacity) -> int:
    """Leaves of each tournament."""
    if not plan.ranked or not capacity.begun:
        return 0
    return capacity.slots if plan.by_row else capacity.keys * plan.widest_pool()


def _lines(plan: Plan) -> int:
    """Lines of links and numbers: of several joins the second half says which join each belongs to."""
    return plan.streams if plan.joins is None else 2 * plan.streams


def _steps(words: Callable[[Plan], int]) -> Callable[[Plan, Capacity], tuple[int, int]]:
    """The size of what each route has for each of its steps."""
    return lambda p, _: (p.routes, (p.streams - 1) * words(p))


def judges(plan: Plan) -> bool:
    """Whether prospects are kept (kernels/policies/prospects.py)."""
    return plan.prospects and plan.keeps("prospects") and plan.streams == 2 and not plan.by_row


def _release(plan: Plan, lines: str, words: int) -> tuple[int, int]:
    """The size of what a join that releases has."""
    return (0 if plan.release is None else len(getattr(plan.release, lines))), words


PARTS = (
    # what the query says
    Part(Head.streams_at, "lines of streams", lambda p, _: (p.streams, at.STREAM_SIZE)),
    Part(Head.pools_at, "lines of pools", lambda p, _: (p.pools, at.POOL_SIZE)),
    Part(Head.held_at, "keys of each pool by directory", lambda p, _: (p.pools, p.directories * (p.directories > 1))),
    Part(Head.dirs_at, "lines of directories", lambda p, _: (p.directories, at.DIR_SIZE)),
    Part(Head.classes_at, "the directory of each link", lambda p, _: (_lines(p), p.links)),
    Part(Head.position_at, "the link into each directory", lambda p, _: (p.streams, p.directories)),
    # probe orders
    Part(Head.order_at, "the streams of each route", _steps(lambda p: 1), carried="always"),
    Part(Head.access_at, "how each is reached", _steps(lambda p: at.ACCESS_SIZE), carried="always"),
    Part(Head.checks_at, "predicates checked there", _steps(lambda p: len(p.preds) + 1), carried="always"),
    Part(Head.preds_at, "lines of predicates", lambda p, _: (len(p.preds), at.PRED_SIZE)),
    Part(
        Head.tally_at,
        "visits and candidates let through",
        lambda p, _: (p.routes, p.streams * 2),
        saved="tally",
        kind=np.int64,
        carried="always",
    ),
    # statistics
    Part(Head.hist_of_at, "the histogram of each number", lambda p, _: (_lines(p), p.numbers.shape[1])),
    Part(
        Head.hists_at,
        "histograms",
        lambda p, _: (len(p.histograms()), at.HIST_SIZE),
        saved="hists",
        carried="learned",
    ),
    Part(
        Head.means_at,
        "the usual arrival of each stream",
        lambda p, _: (p.directories, p.streams * (1 + p.hooks.WAYS)),
        saved="means",
        carried="learned",
    ),
    Part(
        Head.life_at,
        "how long rows are held, by score",
        lambda p, _: (p.streams, at.LIFE_BINS * 2 if p.keeps("lifetimes") else 0),
        saved="life",
        carried="learned",
    ),
    Part(Head.sample_at, "matches missed, by random group of rows", lambda p, _: (1, at.GROUPS), saved="sample"),
    # credits, ages
    Part(
        Head.credit_at,
        "lines of credits",
        lambda p, _: (p.pools, at.CREDIT_SIZE if p.credited else 0),
        saved="credit",
        kind=np.int64,
    ),
    Part(Head.levels_at, "rows by level of credit", lambda p, _: (p.pools, at.LEVEL_WORDS if p.credited else 0)),
    Part(
        Head.trials_at,
        "what initial credits gave",
        lambda p, _: (1, 2 * at.TRIALS if p.credited else 0),
        saved="trials",
        carried="same",
    ),
    Part(
        Head.ages_at,
        "matches and departures by age",
        lambda p, _: (p.streams, at.AGE_SIZE if p.keeps("ages") else 0),
        saved="ages",
        carried="same",
    ),
    Part(
        Head.prospects_at,
        "partners met and rows held, by partners so far and age",
        lambda p, _: (p.streams, at.PR_SIZE if judges(p) else 0),
        saved="prospects",
        carried="learned",
    ),
    Part(Head.indexes_at, "lines of ordered indexes", lambda p, _: (len(p.indexed()), at.INDEX_SIZE)),
    Part(
        Head.sketch_at,
        "the sketch's counters",
        lambda p, _: (
            p.directories * p.streams * (2 if p.valued else 1),
            p.learning.sketch_depth * p.learning.sketch_width,
        ),
        saved="sketch",
        carried="learned",
    ),
    Part(
        Head.oracle_start_at, "where a directory's lines begin", lambda p, _: (1, p.directories + 1), carried="learned"
    ),
    Part(Head.oracle_at, "the oracle's lines", lambda p, _: (0, 1 + 2 * p.streams), carried="learned"),
    # what is released
    Part(
        Head.promises_at,
        "promises",
        lambda p, _: _release(p, "promises", at.PROMISE_SIZE),
        saved="promises",
        kind=np.int64,
        carried="always",
    ),
    Part(Head.watched_at, "which promises keys tell about", lambda p, _: _release(p, "watched", at.WATCHED_SIZE)),
    Part(Head.edges_at, "edges of the join graph", lambda p, _: _release(p, "edges", at.EDGE_SIZE)),
    Part(Head.evidence_at, "evidence", lambda p, _: _release(p, "evidence", at.EVIDENCE_SIZE)),
    Part(Head.covers_at, "covers", lambda p, _: (0 if p.release is None else most_covers(p.release), at.COVER_SIZE)),
    Part(Head.befores_at, "whose arrivals slots count", lambda p, _: (p.streams, p.befores)),
    Part(
        Head.ordered_at,
        "ordered columns",
        lambda p, _: _release(p, "ordered", at.ORDERED_SIZE),
        saved="ordered",
        kind=np.int64,
        carried="always",
    ),
    Part(
        Head.steps_at,
        "steps of ordered columns",
        lambda p, _: _release(p, "ordered", 2 * at.STEPS),
        saved="steps",
        kind=np.int64,
        carried="always",
    ),
    Part(
        Head.missed_at,
        "matches missed because rows were released, by random group of rows",
        lambda p, _: (1, at.GROUPS if p.releases else 0),
        saved="missed",
        carried="always",
    ),
    # what is demoted
    Part(Head.filter_at, "the filter of demoted rows", lambda p, c: (1, c.filter if p.demotes else 0), grows=True),
    Part(Head.called_at, "keys under which they are called", lambda p, _: (1, at.CALLED_SIZE * p.calls)),
    # what grows
    Part(Head.slots_at, "slots", lambda p, c: (c.slots, p.records(c.begun).slot_words), grows=True),
    Part(
        Head.dense_at,
        "dense lists of slots (RAND)",
        lambda p, c: (p.pools, c.slots if p.dense and c.begun else 0),
        grows=True,
        names="slot",
    ),
    Part(
        Head.tables_at,
        "key numbers by hash",
        lambda p, c: (p.directories, power_of_two(2 * c.keys)),
        grows=True,
        rebuilt=True,
    ),
    Part(
        Head.keys_at,
        "records of keys",
        lambda p, c: (p.directories, c.keys * p.records(c.begun).key_words),
        grows=True,
    ),
    Part(
        Head.nodes_at,
        "tournaments",
        lambda p, c: (p.pools, 2 * leaves(p, c) * p.node_words()),
        grows=True,
        rebuilt=True,
    ),
    Part(Head.orders_at, "blocks of indexes in order", lambda p, c: (len(p.indexed()), c.blocks), grows=True),
    Part(
        Head.blocks_at,
        "blocks of indexes",
        lambda p, c: (len(p.indexed()), c.blocks * at.BLOCK_WORDS),
        grows=True,
    ),
)


def parts(plan: Plan, capacity: Capacity, oracle_rows: int) -> list[Sized]:
    """All parts, in their order in the block."""
    found = list(_fixed(plan)[0])
    for k in _GROWING:
        found[k] = Sized(PARTS[k], *PARTS[k].size(plan, capacity))
    found[_ORACLE] = found[_ORACLE]._replace(outer=oracle_rows)
    return found


def words_of_parts(plan: Plan, capacity: Capacity, oracle_rows: int) -> int:
    """Words that all parts take."""
    found, words = _fixed(plan)
    for k in _GROWING:
        outer, inner = PARTS[k].size(plan, capacity)
        words += outer * inner
    return words + oracle_rows * found[_ORACLE].inner


@once
def _fixed(plan: Plan) -> tuple[tuple[Sized, ...], int]:
    """All parts of a plan without capacity, and their words: those that grow are empty."""
    nothing = Capacity(0, 0, 0, 0)
    found = tuple(Sized(part, *((0, 0) if part.grows else part.size(plan, nothing))) for part in PARTS)
    return found, sum(part.outer * part.inner for part in found)


_GROWING = [k for k, part in enumerate(PARTS) if part.grows]
_ORACLE = next(k for k, part in enumerate(PARTS) if part.word == Head.oracle_at)


def view(words: np.ndarray, word: int, outer: int, inner: int) -> np.ndarray:
    """A part of a block as a matrix."""
    first = int(words[word])
    return words[first : first + outer * inner].reshape(outer, inner)
