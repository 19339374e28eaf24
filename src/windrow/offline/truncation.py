"""Truncated joins of histograms: how many rows of each key to keep, so that the fewest matches are lost.

A key with m rows on the left and n on the right is a component K(m, n) with m n matches. Kept are exactly `keep` rows
in all; `truncation_sides.py` keeps `keep_a` and `keep_b` of the sides.
Dropping k rows is keeping all but k: one choice answers both questions.

**Why the optimum is found fast, and is one.** Let C(p) be the most matches of p rows of K(m, n). Row p adds
`min(floor(p / 2), m, n)` matches, which never falls as p grows: C is convex. A sum of convex functions over a box
with a fixed sum of rows is largest at a corner, where all components but one are kept whole or not at all (lemma 2 of
the technical report, which argues case by case). So the question is a 0/1 knapsack, weights w = m + n, values
v = m n, and one item that may be cut.

1. *A bound.* By convexity C(p) <= p v / w. With any price L per row no choice keeps more than
   `U = L keep + sum of max(0, v - L w)`; L is the density v / w at which a knapsack in order of densities is full.
2. *Losses.* Against U, keeping p rows of a component loses `max(0, v - L w) - (C(p) - L p) >= 0`, and the loss of a
   choice is the sum. A choice that beats a known one of B matches loses at most `gap = U - B - 1`.
3. *The core.* So a component is left out although v > L w, or kept although v < L w, at most `gap / |v - L w|` times
   among its equals. Beyond that it is fixed. C is convex, hence the loss concave in p, and least at the ends: the
   component can be the cut one only if its loss with one row missing, or with two rows kept, is within the gap.
4. *Who is cut.* Of p rows, C(p) depends on min(m, n) alone and grows with it. So the cut component can be exchanged
   for one that is left out and at least as large in both min(m, n) and m + n; a component is tried as the cut one
   only if all such can be kept whole within the gap. Taking q rows away from a whole component costs `sum over t < q
   of min(m, n, floor((w - t) / 2))`, so a cut one can also be exchanged for one that is kept and no larger in both.
   Among components that are fixed as kept only those not undercut are tried: for more rows than the smaller one has,
   both ends of the larger one's loss, and so all of it, lie outside the gap. Each exchange raises the sum of min(m,
   n) + m + n over the whole components, or leaves it and raises that of the cut one: they come to an end.
5. *The search* over the core (`kernels/offline/truncated_best.py`) drops a set of whole components only when another is
   no heavier and matches no less, or when its losses pass the gap. It runs for every component that may be cut.

Every step leaves at least one best choice, or B already is one. Equal components are one class, and enter the search
in bundles of 1, 2, 4, ... The worst case is O(c keep log c) for c classes, never above the published programme's O(c
keep^2) by more than a small factor: c classes hold at least about c^1.5 rows, so log c is below their mean size.
Floating point enters only in bounds, with a margin.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from windrow.errors import SpecError
from windrow.kernels.offline import truncated, truncated_best

Counts = NDArray[np.int64]

SCOUT_CLASSES = 48  # how many classes, and how many states, the search for a first good answer looks at
SCOUT_STATES = 48
COMPARED = 512  # with how many classes a class is compared before it may be cut
LARGEST = 1 << 60


@dataclass(frozen=True)
class Kept:
    """A choice: rows kept of each component, of the left (a) and of the right relation (b)."""

    m: Counts
    n: Counts
    a: Counts
    b: Counts
    bound: int | None = None
    """Matches that no choice of as many rows can pass; None where nothing was proved."""

    @property
    def proved(self) -> bool:
        """Whether this is known to be a best choice."""
        return self.bound is not None and self.matches >= self.bound

    @property
    def rows(self) -> int:
        """Rows kept in all."""
        return int(self.a.sum() + self.b.sum())

    @property
    def matches(self) -> int:
        """Matches of the rows kept."""
        return int((self.a * self.b).sum())

    @property
    def exact(self) -> int:
        """Matches of all rows."""
        return int((self.m * self.n).sum())

    @property
    def cut(self) -> Counts:
        """The components that are kept in part, though all their rows have partners."""
        kept = self.a + self.b
        return np.flatnonzero((self.m > 0) & (self.n > 0) & (kept > 0) & (kept < self.m + self.n))


def optimal(m: ArrayLike, n: ArrayLike, keep: int) -> Kept:
    """The choice of `keep` rows in all with the most matches.

    >>> kept = optimal([2, 3, 1], [2, 3, 9], keep=9)
    >>> kept.a.tolist(), kept.b.tolist(), kept.matches
    ([2, 3, 0], [1, 3, 0], 11)
    """
    m, n = components(m, n)
    check_keep(keep, int(m.sum() + n.sum()), "keep")
    return _best(_with_rows(m, n, _most(m, n, keep), keep))


def plain(m: ArrayLike, n: ArrayLike, keep: int) -> Kept:
    """The same by the published dynamic programme, in O(c keep^2) time and O(c keep) space: for comparison."""
    m, n = components(m, n)
    check_keep(keep, int(m.sum() + n.sum()), "keep")
    return _best(_with_rows(m, n, truncated.plain(m, n, keep), keep))


def adg(m: ArrayLike, n: ArrayLike, keep: int) -> Kept:
    """Average degree greedy: whole components in order of m n / (m + n), and part of the one that no longer fits.

    It keeps at least half of the matches that are possible, and drops at most twice as many as necessary.
    """
    m, n = components(m, n)
    check_keep(keep, int(m.sum() + n.sum()), "keep")
    weight = m + n
    order = np.argsort(-(m * n) / np.maximum(weight, 1), kind="stable")
    before = np.cumsum(weight[order]) - weight[order]
    rows = np.empty_like(weight)
    rows[order] = np.clip(keep - before, 0, weight[order])
    return _with_rows(m, n, rows, keep)


def _best(kept: Kept) -> Kept:
    """The choice, said to be a best one."""
    return replace(kept, bound=kept.matches)


def components(m: ArrayLike, n: ArrayLike) -> tuple[Counts, Counts]:
    """The counts as arrays, checked."""
    m, n = np.asarray(m), np.asarray(n)
    for name, counts in (("m", m), ("n", n)):
        if counts.ndim != 1 or (len(counts) and counts.dtype.kind not in "iu"):
            raise SpecError(f"{name} must hold one whole number of rows per key, got {counts.dtype} {counts.shape}")
        if len(counts) and counts.min() < 0:
            raise SpecError(f"{name} counts rows and cannot be negative, got {counts.min()}")
    if len(m) != len(n):
        raise SpecError(f"m and n must count the same keys, got {len(m)} and {len(n)} of them")
    if float((m.astype(float) * n).sum()) > LARGEST:
        raise SpecError("the join of these relations has more than 2^60 matches, which cannot be counted")
    return m.astype(np.int64), n.astype(np.int64)


def check_keep(keep: int, rows: int, what: str) -> None:
    """Refuse a number of rows that cannot be kept."""
    if isinstance(keep, bool) or not isinstance(keep, (int, np.integer)):
        raise SpecError(f"{what} must be a whole number of rows, got {keep!r}")
    if keep < 0:
        raise SpecError(f"{what} cannot be negative, got {keep}")
    if keep > rows:
        raise SpecError(f"{what} is {keep:,}, but there are only {rows:,} rows: give at most that many")


def _with_rows(m: Counts, n: Counts, rows: Counts, keep: int) -> Kept:
    """The choice with so many rows of each component, and enough others to make up `keep`.

    What is left over has no match to give: first the rows of the cut component, then of others, then rows without
    partners.
    """
    rows = rows.copy()
    lacking = keep - int(rows.sum())
    if lacking:
        room = m + n - rows
        order = np.lexsort((-rows, (m == 0) | (n == 0)))
        before = np.cumsum(room[order]) - room[order]
        rows[order] += np.clip(lacking - before, 0, room[order])
    # As many of one side as of the other, while there are; the odd one is of the larger side.
    fewer = np.minimum(rows // 2, np.minimum(m, n))
    more = rows - fewer
    left_is_more = m >= n
    return Kept(m, n, np.where(left_is_more, more, fewer), np.where(left_is_more, fewer, more))


# ------------------------------------------------------------------------------------------ k rows in all


@dataclass(frozen=True)
class _Classes:
    """Equal components together, in order of falling density: K(m, n) with m >= n, `copies` times."""

    m: Counts
    n: Counts
    copies: Counts
    of: Counts  # the class of each component

    @property
    def weight(self) -> Counts:
        return self.m + self.n

    @property
    def value(self) -> Counts:
        return self.m * self.n


@dataclass
class _Answer:
    """Whole components kept of each class, and rows of one more of the class `cut`."""

    value: int
    whole: Counts
    cut: int
    part: int


def _classes(m: Counts, n: Counts) -> _Classes:
    order = np.lexsort((n, m))
    new = np.ones(len(m), np.bool_)
    new[1:] = (np.diff(m[order]) != 0) | (np.diff(n[order]) != 0)
    first = order[new]
    copies = np.diff(np.append(np.flatnonzero(new), len(m)))
    by_density = np.argsort(-(m[first] * n[first]) / np.maximum(m[first] + n[first], 1), kind="stable")
    place = np.empty(len(first), np.int64)
    place[by_density] = np.arange(len(first))
    of = np.empty(len(m), np.int64)
    of[order] = place[np.cumsum(new) - 1]
    first = first[by_density]
    return _Classes(m[first], n[first], copies[by_density], of)


def _most(m: Counts, n: Counts, keep: int) -> Counts:
    """Rows kept of each component, by the search that the module's text describes; it may need fewer than `keep`."""
    live = np.flatnonzero((m > 0) & (n > 0))
    rows = np.zeros(len(m), np.int64)
    if keep < 2:
        return rows
    # Of a component larger than `keep` only so many rows count as fit, and which side is the larger does not count.
    fewer = np.minimum(np.minimum(m[live], n[live]), keep // 2)
    more = np.minimum(np.maximum(m[live], n[live]), keep - fewer)
    if int((more + fewer).sum()) <= keep:
        rows[live] = more + fewer
        return rows
    classes = _classes(more, fewer)
    answer = _best_answer(classes, keep)
    # The first components of a class are kept whole, the next one may be the cut one.
    order = np.argsort(classes.of, kind="stable")
    starts = np.cumsum(classes.copies) - classes.copies
    rank = np.empty(len(live), np.int64)
    rank[order] = np.arange(len(live)) - starts[classes.of[order]]
    whole = rank < answer.whole[classes.of]
    rows[live] = np.where(whole, more + fewer, 0)
    if answer.part:
        rows[live[order[starts[answer.cut] + answer.whole[answer.cut]]]] = answer.part
    return rows


def _best_answer(classes: _Classes, keep: int) -> _Answer:
    weight, value, copies = classes.weight, classes.value, classes.copies
    filled = np.cumsum(weight * copies)
    full = int(np.searchsorted(filled, keep, side="right"))  # the class that no longer fits
    price = float(value[full] / weight[full])
    surplus = value - price * weight
    surplus[full] = 0.0
    bound = price * keep + float((copies * np.maximum(surplus, 0.0)).sum())
    margin = bound * 2.0**-50 * (len(copies) + 64)  # more than all rounding errors of the bounds

    whole = np.where(np.arange(len(copies)) < full, copies, 0)
    left = keep - int((whole * weight).sum())
    whole[full] = left // weight[full]
    part = int(left % weight[full])
    fewer = min(part // 2, int(classes.n[full]))
    answer = _Answer(int((whole * value).sum()) + fewer * (part - fewer), whole, full, part)

    for scout in (True, False):
        gap = bound - answer.value - 1 + margin
        if gap < 0:
            break
        core = _near(surplus, copies, full) if scout else _core(classes, surplus, price, gap, keep)
        answer = _searched(classes, core, keep, price, margin, answer, scout)
    return answer


def _near(surplus: NDArray[np.float64], copies: Counts, full: int) -> tuple[Counts, Counts, Counts]:
    """A core for a first good answer: a few classes near the price, of which the one that no longer fits may be cut."""
    near = np.argsort(np.abs(surplus), kind="stable")[:SCOUT_CLASSES]
    opened = np.zeros(len(copies), np.int64)
    opened[near] = np.minimum(copies[near], 4)
    opened[full] = copies[full]
    return np.where(surplus > 0, copies - opened, 0), opened, np.array([full])


def _core(
    classes: _Classes, surplus: NDArray[np.float64], price: float, gap: float, keep: int
) -> tuple[Counts, Counts, Counts]:
    """Whole components that are fixed, those that are open, and the classes of which one may be cut."""
    n, weight, copies = classes.n, classes.weight, classes.copies
    flips = np.full(len(copies), LARGEST, np.int64)
    np.divide(gap, np.abs(surplus), out=(times := np.full(len(copies), np.inf)), where=surplus != 0)
    few = times < LARGEST
    flips[few] = times[few].astype(np.int64)

    def loss(p: Counts) -> NDArray[np.float64]:
        fewer = np.minimum(n, p // 2)
        return np.maximum(surplus, 0.0) - (fewer * (p - fewer) - price * p)

    may_be_cut = (weight > 2) & (np.minimum(loss(weight - 1), loss(np.full_like(weight, 2))) <= gap)
    fixed = flips == 0
    low, high = fixed & (surplus < 0), fixed & (surplus > 0)
    in_place = ~fixed
    in_place[_unsurpassed(low, n, weight)] = True
    regret = np.where(in_place, np.maximum(-surplus, 0.0) * copies, 0.0)
    among = np.argsort(-regret, kind="stable")[:COMPARED]
    may_be_cut &= ~truncated_best.replaceable(n, weight, regret, among, gap)
    cheapest = _unsurpassed(high & may_be_cut, -n, -weight)
    may_be_cut &= ~high
    may_be_cut[cheapest] = True
    opened = np.where(fixed & ~may_be_cut, 0, np.minimum(copies, np.minimum(flips, LARGEST - 1) + 1))
    whole = np.where(surplus > 0, copies - opened, 0)
    opened = np.where(surplus > 0, opened, np.minimum(opened, keep // weight + 1))
    return whole, opened, np.flatnonzero(may_be_cut)


def _unsurpassed(among: NDArray[np.bool_], one: Counts, other: Counts) -> Counts:
    """Those among which no other is at least as large in both measures; one of several that are equal."""
    found = np.flatnonzero(among)
    found = found[np.lexsort((-other[found], -one[found]))]
    most = np.maximum.accumulate(other[found])
    first = np.ones(len(found), np.bool_)
    first[1:] = most[1:] > most[:-1]
    return found[first]


def _searched(
    classes: _Classes, core: tuple[Counts, Counts, Counts], keep: int, price: float, margin: float, known: _Answer,
    scout: bool,
) -> _Answer:  # fmt: skip
    """The best answer over a core, or the known one."""
    whole, opened, cuttable = core
    bundled = opened.copy()
    bundled[cuttable] -= 1
    item_class, item_copies = _bundles(bundled)
    # Those that lose most by a change come first: lists stay short until the end.
    order = np.argsort(-np.abs(classes.value - price * classes.weight)[item_class] * item_copies, kind="stable")
    item_class = np.concatenate((item_class[order], cuttable))
    item_copies = np.concatenate((item_copies[order], np.ones(len(cuttable), np.int64)))
    fixed_value = int((whole * classes.value).sum())
    value, chosen, cut, part = truncated_best.search(
        classes.weight[item_class] * item_copies, classes.value[item_class] * item_copies,
        classes.m[cuttable], classes.n[cuttable], keep - int((whole * classes.weight).sum()),
        price, known.value - fixed_value, margin, SCOUT_STATES if scout else 0,
    )  # fmt: skip
    if cut < 0:
        return known
    kept = whole.copy()
    np.add.at(kept, item_class[chosen], item_copies[chosen])
    at = int(cuttable[cut]) if len(cuttable) else 0
    if len(cuttable) and part == classes.weight[at]:
        kept[at] += 1
        part = 0
    return _Answer(int(value) + fixed_value, kept, at, int(part))


def _bundles(copies: Counts) -> tuple[Counts, Counts]:
    """The classes in bundles of 1, 2, 4, ... and a rest, of which any number of copies can be put together."""
    classes, sizes = [], []
    size, left, at = 1, copies, np.arange(len(copies))
    while len(at):
        some = left > 0
        at, left = at[some], left[some]
        taken = np.minimum(left, size)
        classes.append(at)
        sizes.append(taken)
        left = left - taken
        size *= 2
    return np.concatenate(classes), np.concatenate(sizes)
