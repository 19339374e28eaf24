"""Recency: how soon a key comes again, against the same keys in a random order.

A random order keeps popularity and destroys everything else: what differs between the two is locality in time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windrow.analysis.coded import Coded
from windrow.analysis.figures import Spread, hill, spread
from windrow.kernels.analysis.locality import stack_distances

POINTS = 64  # of a curve
CLASS_FACTOR = 10  # keys of one popularity class differ in frequency by less than this


@dataclass(frozen=True)
class StackDistances:
    """How many different keys come between two arrivals of a key, in the stream and after permuting it.

    `hits` are the shares of all rows whose key is among the last so many keys (`capacities`): the hit rate of a cache
    of that size, F_D(C). A key's first row is no hit.
    """

    found: Spread | None
    permuted: Spread | None
    capacities: tuple[int, ...]
    hits: tuple[float, ...]
    hits_permuted: tuple[float, ...]


@dataclass(frozen=True)
class GapClass:
    """Gaps between arrivals of a key, in rows of the stream, for keys of about one frequency.

    `tail` is Hill's exponent of gaps over their key's mean gap: in a random order it is large (the tail is short),
    and small where rows of a key crowd together between long silences.
    """

    least: int  # rows of a key in this class
    most: int
    keys: int
    gaps: Spread
    permuted: Spread
    tail: float | None
    tail_permuted: float | None


@dataclass(frozen=True)
class Gaps:
    """Gaps by popularity class; and over all keys the exponent of their tail."""

    classes: tuple[GapClass, ...]
    tail: float | None
    tail_permuted: float | None


def stack(stream: Coded, permuted: np.ndarray) -> StackDistances:
    """The stack distances of a stream, and of its permuted keys."""
    own, other = (np.sort(_again(stack_distances(ids, stream.keys))) for ids in (stream.ids, permuted))
    seen = stream.rows - len(own)  # different keys
    capacities = np.unique(np.rint(np.geomspace(1, seen, POINTS)).astype(np.int64))
    hits, hits_permuted = (np.searchsorted(d, capacities, side="left") / stream.rows for d in (own, other))
    return StackDistances(
        spread(own), spread(other), tuple(capacities.tolist()), tuple(hits.tolist()), tuple(hits_permuted.tolist())
    )


def _again(distances: np.ndarray) -> np.ndarray:
    """The distances of rows whose key has come before."""
    return distances[distances >= 0]


def gaps(stream: Coded, permuted: np.ndarray) -> Gaps:
    """The gaps of a stream, and of its permuted keys."""
    counts = np.bincount(stream.ids, minlength=stream.keys)
    (key, gap), (key_permuted, gap_permuted) = (gaps_of(ids) for ids in (stream.ids, permuted))
    relative = gap * (counts[key] / stream.rows)
    relative_permuted = gap_permuted * (counts[key_permuted] / stream.rows)
    classes = []
    least = 2
    while least <= counts.max():
        most = CLASS_FACTOR ** len(str(least)) - 1
        inside = (counts >= least) & (counts <= most)
        mine, theirs = inside[key], inside[key_permuted]
        found, other = spread(gap[mine]), spread(gap_permuted[theirs])
        if found is not None and other is not None:
            tails = hill(relative[mine]), hill(relative_permuted[theirs])
            classes.append(GapClass(least, most, int(inside.sum()), found, other, *tails))
        least = most + 1
    return Gaps(tuple(classes), hill(relative), hill(relative_permuted))


def gaps_of(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For every row whose key has come before: the key, and how many rows ago that was."""
    order = np.argsort(ids, kind="stable")
    same = ids[order][1:] == ids[order][:-1]
    return ids[order][1:][same], np.diff(order)[same]
