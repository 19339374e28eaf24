"""Several joins in one block: which join a link or a number is read by, and in which joins a row can match.

With one join none of this exists. With several, the tables of routes have a line for each join and stream, the first
number of every row has a bit for each join in which it can match (a row may lack the key of one and have that of
another), and two tables have a second half:

    CLASSES    the join of each of a stream's links
    HIST_OF    the join of each of a stream's numbers

A route counts the visits to each stream in the tally; to its own it makes none, so the matches are counted there.
"""

from windrow.kernels.jit import inline
from windrow.kernels.memory import Memory
from windrow.kernels.places import numbers_at


@inline
def joins(m: Memory) -> int:
    """How many joins there are."""
    return (m.head.access_at - m.head.order_at) // (m.streams * (m.streams - 1))


@inline
def matches_in(m: Memory, slot: int, join: int) -> bool:
    """Whether a row can match in one of several joins."""
    return (m.w[numbers_at(m, slot)] >> join) & 1 != 0


@inline
def join_of_link(m: Memory, stream: int, link: int) -> int:
    """Which of several joins a stream's link belongs to."""
    return m.w[m.classes_at + (m.streams + stream) * m.links + link]


@inline
def join_of_number(m: Memory, stream: int, column: int) -> int:
    """Which of several joins reads a stream's number."""
    return m.w[m.head.hist_of_at + (m.streams + stream) * m.vals + column]
