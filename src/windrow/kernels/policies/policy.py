"""All hooks, in the order in which a row comes to them, as they are for a policy that does nothing there.

    unready, begins         a group of rows is about to come; the policy, if it was deferred, begins
    met, opened             its keys are looked up; a key is new
    deleted, undone         it may be a deletion, and is then done with; what follows from one
    arrived                 it is counted
    watches, matched        whether residents that it matches are looked at, and each of them
    enough                  it has a match: whether it needs no more
    joined, rewarded        it has been probed, in one of several joins and in all
    found_all               its matches are counted
    learn_pair, learn_row   statistics see it
    hopeless, starts        it is about to be admitted
    entered                 it is a resident
    leaving, left           it is about to leave; it has left its lists
    ending                  a resident that has all but expired
    freshen, victim         memory is full: priorities at the present clock, and whom to shed
    rank_all                windows or caps have changed
    catch_up, rebuild       the block is about to be packed; it has moved
    restored, moved         a resident has come from a snapshot, or from another block

Hooks get the hooks themselves, so that they can call others, and the memory; `r` and `rx` are the batch, and `at` is
where the row stands in it. What a hook learns or notes stands in columns and tables that the policy declares, by the
names in capitals.
"""

from typing import Any

from windrow.kernels.chains import oldest
from windrow.kernels.directory import find
from windrow.kernels.distances import apart, length
from windrow.kernels.jit import inline
from windrow.kernels.layout import DONE, EXPIRED, NONE, R_LIVE, REFUSED, SHED
from windrow.kernels.memory import Memory, memory_of_pair
from windrow.kernels.places import slot_at, stream_at

RANKED = False  # whether residents have leaves in tournaments
DRIFTING = False  # whether priorities move with the clock
OWN_LEAVES = False  # whether each resident has a leaf of its own, whatever the query
GIVEN = False  # whether a number comes with each row
TRIES = False  # whether it tries out how to count arrivals (state/auto/trials.py)
DEFERS = False  # whether it keeps nothing as long as a small part of memory is used (exact.py)
WAYS = 1  # in how many ways arrivals are counted
KEEPS: tuple[str, ...] = ()  # what it keeps beside that, by the names of state/plan.py


@inline
def drifts(h: Any) -> int:
    """The same as DRIFTING, for kernels, which are compiled without what they do not need."""
    return 0


@inline
def met(h: Any, m: Memory, code: int) -> int:
    """The number of an arriving row's key, or NONE where it has no residents and need not be known."""
    return find(m, 0, code)


@inline
def opened(h: Any, m: Memory, d: int, key: int, code: int) -> None:
    """A key is new; its record is zero."""


@inline
def arrived(h: Any, m: Memory) -> None:
    """A row has been counted."""


@inline
def watches(h: Any, m: Memory) -> bool:
    """Whether `matched` wants to see the residents that the present arrival matches."""
    return False


@inline
def matched(h: Any, m: Memory, slot: int) -> None:
    """The present arrival matches a resident."""


@inline
def enough(h: Any, m: Memory) -> bool:
    """Whether the present arrival, which has just matched, need not be probed further."""
    return False


@inline
def found_all(h: Any, m: Memory, found: int) -> None:
    """The present arrival has so many matches."""
    m.head.matched += found


@inline
def rewarded(h: Any, m: Memory, r: Any, at: int, key: int, found: int) -> None:
    """The row at a place has been probed and has so many matches; its first key, where it has one."""


@inline
def joined(h: Any, m: Memory) -> None:
    """The present arrival has been probed in one of several joins."""


@inline
def learns(h: Any, m: Memory) -> bool:
    """Whether arrivals teach the statistics anything."""
    return False


@inline
def learn_pair(h: Any, m: Memory, r: Any, rx: Any, at: int, key: int) -> None:
    """Let the statistics see the row at a place of a join of two streams with a common key."""


@inline
def learn_row(h: Any, m: Memory, r: Any, rx: Any, at: int, slot: int) -> None:
    """Let the statistics see the row at a place of any other join, which has been given a slot."""


@inline
def unready(h: Any, m: Memory, r: Any, start: int, end: int) -> int:
    """What has to be done before a group of rows is taken: BEGIN, or DONE."""
    return DONE


@inline
def begins(h: Any, m: Memory) -> None:
    """A policy that was deferred begins, with the residents (exact.py)."""


@inline
def hopeless(h: Any, m: Memory, r: Any, at: int, key: int) -> bool:
    """Whether the row at a place would be the first to be shed, so that admitting it is wasted work."""
    return False


@inline
def starts(h: Any, m: Memory, rx: Any, at: int, slot: int) -> None:
    """The row at a place of the batch is about to be admitted in a slot."""


@inline
def entered(h: Any, m: Memory, slot: int) -> None:
    """A row is a resident now, in its lists, and charged."""


@inline
def leaving(h: Any, m: Memory, slot: int, reason: int) -> None:
    """A resident is about to leave memory."""


@inline
def left(h: Any, m: Memory, slot: int) -> None:
    """A resident has been taken out of its lists, and its charge is gone."""


@inline
def ending(h: Any, m: Memory, pool: int) -> int:
    """A resident of a pool that could only match more rows of the present instant, or NONE."""
    for stream in range(m.streams):
        mine = stream_at(m, stream)
        slot = mine.oldest
        if slot >= 0 and mine.pool == pool and mine.last_rows == 0:
            time = slot_at(m, slot).time
            if m.head.watermark >= time and apart(m.head.watermark, time) >= length(mine.reach):
                return slot
    return NONE


@inline
def freshen(h: Any, m: Memory, pool: int) -> None:
    """Rows of a pool are about to be shed."""


@inline
def victim(h: Any, m: Memory, pool: int) -> int:
    """Whom to shed next: the oldest."""
    return oldest(m, pool)


@inline
def warm_path(h: Any, m: Memory, key: int, stream: int) -> None:
    """A row of a key will soon arrive on the other stream: fetch what will be written."""


@inline
def rank_all(h: Any, m: Memory) -> None:
    """Windows, caps or what priorities rest on have changed."""


@inline
def catch_up(h: Any, m: Memory) -> None:
    """The block is about to be packed: what waits to be written is written."""


@inline
def rebuild(h: Any, m: Memory) -> None:
    """The block has moved."""


@inline
def restored(h: Any, m: Memory, ends: Any, turn: Any) -> int:
    """Residents have been put into the block by columns; `ends` and `turn` are what was kept of leaves, or nothing.

    How many lines of them belong to leaves, or NONE when some are missing.
    """
    return 0


@inline
def moved(h: Any, a: Memory, b: Memory, slot: int, there: int, same: bool) -> None:
    """A resident of block `a` has been copied to a slot of block `b`, whose policy this is, and will be admitted.

    `same` says whether `a` has the same policy.
    """


# -- hooks of joins that release by constraints (kernels/release/hooks.py); policies have no say in them --

RELEASES = False  # whether residents are released


@inline
def pair_memory(h: Any, block: Any) -> Memory:
    """The block of a join of two streams with a common key."""
    return memory_of_pair(block, h.drifts(h))


@inline
def deleted(h: Any, m: Memory, r: Any, at: int) -> bool:
    """Whether the row at a place was a deletion, which has been done now. Comes before the row is counted."""
    return False


@inline
def observed(h: Any, m: Memory, r: Any, at: int) -> None:
    """The row at a place has been counted, whatever becomes of it."""


@inline
def undone(h: Any, m: Memory, r: Any, at: int) -> None:
    """The deletion at a place has been done."""


@inline
def refused(h: Any, m: Memory, r: Any, rx: Any, at: int) -> None:
    """The row at a place can never match. If it has a number all the same, it is taken."""
    if r[at + R_LIVE] == REFUSED:
        m.head.seq += 1


@inline
def hides(h: Any, m: Memory) -> bool:
    """Whether some residents may be invisible."""
    return False


@inline
def visible(h: Any, m: Memory, slot: int) -> bool:
    """Whether a resident can be in a match."""
    return True


@inline
def sees(h: Any, m: Memory, slot: int) -> bool:
    """Whether a probe of several steps goes on from a resident: then `is_new` decides about what it finds."""
    return h.visible(h, m, slot)


@inline
def misses(h: Any, m: Memory, slot: int, stream: int) -> None:
    """An arriving row of a stream would match a resident that is not visible, in a join of two streams."""


@inline
def paired(h: Any, m: Memory, slot: int) -> None:
    """A resident is in a match."""


@inline
def stored(h: Any, m: Memory, slot: int, stream: int) -> None:
    """A slot has been filled with an arriving row of a stream."""


@inline
def noted(h: Any, m: Memory, r: Any, at: int) -> None:
    """The row at a place has been settled."""


@inline
def useless(h: Any, m: Memory, r: Any, at: int, key: int) -> bool:
    """Whether the row at a place of a join of two streams, which has been probed, need not be stored."""
    return False


@inline
def done_with(h: Any, m: Memory, slot: int, stream: int) -> bool:
    """Whether the row in a slot of any other join, which has been probed, need not be stored."""
    return False


@inline
def let_pass(h: Any, m: Memory, r: Any, rx: Any, at: int) -> None:
    """Such a row leaves."""


@inline
def settled(h: Any, m: Memory, r: Any, at: int) -> None:
    """The row at a place of a join of two streams has been settled."""


@inline
def parting(h: Any, m: Memory, slot: int) -> None:
    """A resident is about to leave memory."""


@inline
def why_expired(h: Any, m: Memory, slot: int) -> int:
    """For which reason a resident departs whose window has passed."""
    return EXPIRED


@inline
def why_shed(h: Any, m: Memory, slot: int) -> int:
    """For which reason a resident departs that must make room."""
    return SHED


@inline
def matters(h: Any, m: Memory, slot: int) -> bool:
    """Whether the row of a slot, which the sampler has left out, is still here and can be in a match."""
    return True


@inline
def ended(h: Any, m: Memory) -> None:
    """A group of rows has been taken."""


@inline
def collect(h: Any, m: Memory) -> None:
    """Release what can be released."""


# -- hooks of joins that demote what they release (kernels/release/demoting.py) --


@inline
def short(h: Any, m: Memory, rows: int) -> int:
    """What lacks room before a group of so many rows is taken: GROW_FILTER, or DONE."""
    return DONE


@inline
def looks(h: Any, m: Memory, route: int, depth: int, bound: Any) -> None:
    """A probe is about to look for candidates at a depth of its route."""


@inline
def looks_pair(h: Any, m: Memory, r: Any, at: int) -> None:
    """The row at a place of a join of two streams is about to look for its matches."""


@inline
def is_new(h: Any, m: Memory, bound: Any) -> bool:
    """Whether a match that was found is to be given."""
    return True


@inline
def calls(h: Any, m: Memory) -> bool:
    """Whether rows of the group that has ended look for some that have left."""
    return False


@inline
def unlinked(h: Any, m: Memory, slot: int, link: int, code: int) -> None:
    """A row that leaves has been taken out of the chain of a key, by its code."""


@inline
def goes_down(h: Any, m: Memory, slot: int, reason: int) -> bool:
    """Whether the slot of a row that leaves is kept, to be taken to disk."""
    return False


@inline
def strips(h: Any, m: Memory) -> bool:
    """Whether a No row that stays does so without payload."""
    return True


@inline
def count_weight(h: Any, m: Memory) -> float:
    """What the latest arrival has added to its key's frequency."""
    return 1.0
