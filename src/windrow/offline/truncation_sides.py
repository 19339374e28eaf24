"""Truncated joins of histograms with a budget per side: exactly `keep_a` rows of the left, `keep_b` of the right.

**The optimum.** Kept are a_i <= m_i and b_i <= n_i, and the matches are the sum of a_i b_i. For given b this is a
knapsack in a that may be filled in order of b_i, so all a_i but one are 0 or m_i; then, for given a, the same holds
for b. A best choice thus has at most one component cut on the left and one cut on the right, which may be the same or
not (K(2, 10) and K(10, 2) with five rows of each side: 2 x 3 + 3 x 2 beats every choice that cuts one).

1. *A bound.* For prices per row of each side, no choice keeps more than
   `U = p_a keep_a + p_b keep_b + sum of max(0, m n - p_a m - p_b n)`: what a component gains beyond its price,
   `a b - p_a a - p_b b`, is bilinear, so it is largest at a corner of the box, and only the corners (0, 0) and (m, n)
   are not negative. Prices come from bisection over p_a, with a fractional knapsack for p_b.
2. *Losses, gap, core* as in `truncation.py`. Being bilinear, the loss over all cuts of a component is least at one of
   five points, which say whether the component may be cut at all; and it is not cut if all components at least as
   large on both sides would then have to be kept, at a loss beyond the gap.
3. *Two cuts.* Let i be cut on the right, with b_i rows there, and j on the left, with a_j. Then m_i <= a_j and n_j <=
   b_i, or moving a right row from j to i, or a left row from i to j, would gain. So i keeps at least n_j right rows
   for some j with m_j > m_i.
4. *The search* (`kernels/offline/truncated_sides.py`) keeps sets of whole components, with at most one cut on the
   right, for each component that may be cut on the left (or on both sides): its part is then what room is left.

Time is bounded by O(c log c keep_a keep_b) list operations times the cuts tried, against O(c keep_a keep_b m n) of
the published programme. That can still be much, for states have two weights, so the search has an effort that it may
spend. Where it runs out, the answer is the best one found, and `Kept.bound` says how many matches a best choice can
have at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from windrow.errors import SpecError
from windrow.kernels.offline import truncated, truncated_best, truncated_sides
from windrow.offline.truncation import COMPARED, LARGEST, Counts, Kept, check_keep, components

SCOUT_COMPONENTS = 128
SCOUT_STATES = 256
EFFORT = 100_000_000  # states that may be looked at: about a second
BISECTIONS = 60


def optimal_sides(m: ArrayLike, n: ArrayLike, keep_a: int, keep_b: int, effort: int = EFFORT) -> Kept:
    """The choice of `keep_a` and `keep_b` rows with the most matches; if `effort` runs out, a good one and a bound.

    >>> kept = optimal_sides([2, 10], [10, 2], 5, 5)
    >>> kept.a.tolist(), kept.b.tolist(), kept.matches
    ([2, 3], [3, 2], 12)
    """
    m, n = _checked(m, n, keep_a, keep_b)
    capped_a, capped_b = np.minimum(m, keep_a), np.minimum(n, keep_b)  # more of a component than fits does not count
    live = np.flatnonzero((capped_a > 0) & (capped_b > 0))
    a, b = np.zeros_like(m), np.zeros_like(n)
    bound = 0
    if len(live):
        search = _Search(capped_a[live], capped_b[live], keep_a, keep_b, effort)
        a[live], b[live] = search.best()
        bound = search.value if search.effort >= 0 else int(search.bound + search.margin)
    return replace(_made_up(m, n, a, b, keep_a, keep_b), bound=bound)


def plain_sides(m: ArrayLike, n: ArrayLike, keep_a: int, keep_b: int) -> Kept:
    """The same by the published dynamic programme over (component, rows a, rows b): for comparison, on small inputs."""
    m, n = _checked(m, n, keep_a, keep_b)
    a, b = truncated.plain_sides(m, n, keep_a, keep_b)
    return Kept(m, n, a, b, bound=int((a * b).sum()))


def ndg(m: ArrayLike, n: ArrayLike, keep_a: int, keep_b: int) -> Kept:
    """Node degree greedy: the left rows with the most partners, then the right rows with the most partners left.

    It drops at most twice as many matches as necessary. The papers also say that it keeps at least half of what is
    possible, which does not hold: of many K(1, r + 1) and one K(r, r) it keeps r of r^2 matches when r rows of each
    side are kept.
    """
    m, n = _checked(m, n, keep_a, keep_b)
    a = _filled(m, n, keep_a)
    return Kept(m, n, a, _filled(n, a, keep_b))


def ndg_many(counts: Sequence[ArrayLike], keeps: Sequence[int]) -> list[Counts]:
    """For each of several relations the rows with the most matches, chosen by itself: rows kept of each key.

    With r relations it drops at most r times as many matches as necessary. The exact answer is NP-hard from three on.

    >>> [kept.tolist() for kept in ndg_many([[2, 1], [1, 3], [4, 1]], keeps=[2, 2, 3])]
    [[2, 0], [1, 1], [2, 1]]
    """
    relations = [components(c, c)[0] for c in counts]
    if len({len(relation) for relation in relations}) != 1 or len(keeps) != len(relations):
        raise SpecError("every relation needs a count for each key, and a number of rows to keep")
    if float(np.prod([r.astype(float) for r in relations], axis=0).sum()) > LARGEST:
        raise SpecError("the join of these relations has more than 2^60 matches, which cannot be counted")
    chosen = []
    for k, relation in enumerate(relations):
        check_keep(keeps[k], int(relation.sum()), f"keep of relation {k}")
        others = np.prod([r for j, r in enumerate(relations) if j != k], axis=0)
        chosen.append(_filled(relation, np.asarray(others), keeps[k]))
    return chosen


def _checked(m: ArrayLike, n: ArrayLike, keep_a: int, keep_b: int) -> tuple[Counts, Counts]:
    m, n = components(m, n)
    check_keep(keep_a, int(m.sum()), "keep_a")
    check_keep(keep_b, int(n.sum()), "keep_b")
    return m, n


def _filled(rows: Counts, degree: Counts, keep: int) -> Counts:
    """The `keep` rows of highest degree, which all rows of a component share; among equals, of larger components."""
    order = np.lexsort((-rows, -degree))
    before = np.cumsum(rows[order]) - rows[order]
    kept = np.empty_like(rows)
    kept[order] = np.clip(keep - before, 0, rows[order])
    return kept


def _made_up(m: Counts, n: Counts, a: Counts, b: Counts, keep_a: int, keep_b: int) -> Kept:
    """The choice with other rows added until the sides are full: they have no match to give."""
    a = a + _filled(m - a, b, keep_a - int(a.sum()))
    b = b + _filled(n - b, a, keep_b - int(b.sum()))
    return Kept(m, n, a, b)


@dataclass
class _Search:
    """One search: components in the order given, a best answer so far, and the open lists."""

    m: Counts
    n: Counts
    keep_a: int
    keep_b: int
    effort: int
    value: int = -1
    answer: tuple[Counts, Counts] = field(init=False)
    pool: NDArray[np.int64] = field(default_factory=lambda: np.empty((3, 4096), np.int64))

    def best(self) -> tuple[Counts, Counts]:
        """Rows of a best choice, by side."""
        self._offer(np.zeros_like(self.m), _filled(self.n, self.m, self.keep_b))
        self._offer(np.zeros_like(self.m), _filled(self.n, np.minimum(self.m, self.n), self.keep_b))
        self._offer(np.zeros_like(self.m), ndg(self.m, self.n, *self._most()).b)
        self.price_a, self.price_b = self._prices()
        self.surplus = self.m * self.n - self.price_a * self.m - self.price_b * self.n
        self.bound = self.price_a * self.keep_a + self.price_b * self.keep_b + float(np.maximum(self.surplus, 0).sum())
        self.margin = self.bound * 2.0**-50 * (len(self.m) + 64)
        if self.gap >= 0:
            self._scout()
        if self.gap >= 0:
            self._run(*self._core(), 0)
        return self.answer

    @property
    def gap(self) -> float:
        """What a better answer may lose at most against the bound."""
        return self.bound - self.value - 1 + self.margin

    def _most(self) -> tuple[int, int]:
        return min(self.keep_a, int(self.m.sum())), min(self.keep_b, int(self.n.sum()))

    def _offer(self, a: Counts, b: Counts) -> None:
        """Take an answer if it is better, after filling each side in turn as the other one asks for."""
        most_a, most_b = self._most()
        value = -1
        while (a * b).sum() > value:
            value = int((a * b).sum())
            a = _filled(self.m, b, most_a)
            b = _filled(self.n, a, most_b)
        if value > self.value:
            self.value, self.answer = value, (a, b)

    def _prices(self) -> tuple[float, float]:
        """Prices per row that bring the bound low: any prices give one."""
        low, high, price_b = 0.0, float(self.n.max()), 0.0
        best = (np.inf, 0.0, 0.0)
        for _ in range(BISECTIONS):
            price_a = (low + high) / 2
            price_b, used_a, bound = self._knapsack(price_a)
            best = min(best, (bound, price_a, price_b))
            if used_a > self.keep_a:
                low = price_a
            else:
                high = price_a
        return best[1], best[2]

    def _knapsack(self, price_a: float) -> tuple[float, float, float]:
        """The price of the right side for one of the left; left rows that it uses; the bound."""
        profit = self.m * (self.n - price_a)
        order = np.argsort(-profit / self.n, kind="stable")
        order = order[profit[order] > 0]
        used = np.cumsum(self.n[order])
        full = int(np.searchsorted(used, self.keep_b, side="right"))
        part = np.ones(len(order))
        price_b = 0.0
        if full < len(order):
            price_b = float(profit[order[full]] / self.n[order[full]])
            part[full:] = 0.0
            part[full] = (self.keep_b - (used[full - 1] if full else 0)) / self.n[order[full]]
        bound = price_a * self.keep_a + float((part * profit[order]).sum())
        return price_b, float((part * self.m[order]).sum()), bound

    def _scout(self) -> None:
        """Look for a good answer among components near the prices, with short lists."""
        near = np.argsort(np.abs(self.surplus), kind="stable")[:SCOUT_COMPONENTS]
        fixed = self.surplus > 0
        fixed[near] = False
        rows_a, rows_b = int(self.m[fixed].sum()), int(self.n[fixed].sum())
        if rows_a <= self.keep_a and rows_b <= self.keep_b:
            self._run(fixed, near[1:][::-1], near[:1], SCOUT_STATES)
        ratio = self.m * self.n / (self.price_a * self.m + self.price_b * self.n + 1e-9)
        order = np.argsort(-ratio, kind="stable")
        fits = (np.cumsum(self.m[order]) <= self.keep_a) & (np.cumsum(self.n[order]) <= self.keep_b)
        b = np.zeros_like(self.n)
        b[order[fits]] = self.n[order[fits]]
        self._offer(np.zeros_like(self.m), b + _filled(self.n - b, self.m, self._most()[1] - int(b.sum())))

    def _core(self) -> tuple[NDArray[np.bool_], Counts, Counts]:
        """Components that are fixed as whole, open ones that are not cut on the left, and those that may be."""
        m, n, gap = self.m, self.n, self.gap

        def loss(a: Any, b: Any) -> NDArray[np.float64]:
            return np.maximum(self.surplus, 0.0) - (a * b - self.price_a * a - self.price_b * b)

        right = np.where(n > 1, np.minimum(loss(m, np.ones_like(n)), loss(m, n - 1)), np.inf)
        left = np.where(m > 1, np.minimum(loss(np.ones_like(m), n), loss(m - 1, n)), np.inf)
        both = np.where((m > 1) & (n > 1), loss(np.ones_like(m), np.ones_like(n)), np.inf)
        may_be_cut = np.minimum(np.minimum(right, left), both) <= gap
        regret = np.where(self.surplus < 0, np.maximum(np.minimum(-self.surplus, right), 0.0), 0.0)
        among = np.argsort(-regret, kind="stable")[:COMPARED]
        may_be_cut &= ~truncated_best.replaceable(m, n, regret, among, gap)
        is_open = (np.abs(self.surplus) <= gap) | (right <= gap)
        cuttable = self._one_of_equals(may_be_cut)
        fixed = (self.surplus > 0) & ~is_open
        fixed[cuttable] = False
        is_open[cuttable] = False
        always = np.flatnonzero(is_open)
        always = always[np.argsort(-np.abs(self.surplus[always]), kind="stable")]
        return fixed, always, cuttable

    def _one_of_equals(self, among: NDArray[np.bool_]) -> Counts:
        """Of components with equal m and n only one need be tried as the cut one."""
        found = np.flatnonzero(among)
        _, first = np.unique(np.stack((self.m[found], self.n[found])), axis=1, return_index=True)
        return found[np.sort(first)]

    def _fewest_right(self, cuttable: Counts) -> Counts:
        """The fewest right rows of each component when it is cut on the right and a cuttable one on the left."""
        by_m = cuttable[np.argsort(-self.m[cuttable], kind="stable")]
        fewest = np.minimum.accumulate(np.append(LARGEST, self.n[by_m]))
        return fewest[np.searchsorted(-self.m[by_m], -self.m, side="left")]

    def _run(self, fixed: NDArray[np.bool_], always: Counts, cuttable: Counts, limit: int) -> None:
        """Search over open components, for each cuttable one that is left out of the lists."""
        self.base = np.flatnonzero(fixed)
        self.limit = limit
        self.least = self._fewest_right(cuttable)
        self.room_a = self.keep_a - int(self.m[fixed].sum())
        self.room_b = self.keep_b - int(self.n[fixed].sum())
        self.base_value = int((self.m * self.n)[fixed].sum())
        nothing = np.array([[0], [0], [0], [0], [-1]], np.int64)
        states, top = self._with(nothing, 0, always, cuttable)
        self._without(states, top, cuttable)

    def _with(self, states: Any, top: int, added: Counts, undecided: Counts) -> tuple[Any, int]:
        """A list with components added, while others are undecided."""
        gain = float(np.maximum(self.surplus[np.concatenate((added, undecided))], 0.0).sum())
        prices = (self.price_a, self.price_b)
        constant = self.price_a * self.room_a + self.price_b * self.room_b + gain
        constant += self.base_value - self.value - 1 + self.margin
        limits = (self.room_a, self.room_b, *prices, constant)
        states, self.pool, top, self.effort = truncated_sides.with_components(
            states, self.m[added], self.n[added], self.least[added], added, self.pool, top, limits, self.gap,
            self.limit, self.effort,
        )  # fmt: skip
        return states, top

    def _without(self, states: Any, top: int, cuttable: Counts) -> None:
        """Complete a list over all components but the cuttable ones by part of one of them, and the others whole."""
        if states.shape[1] == 0 or self.effort < 0:
            return
        if len(cuttable) <= 1:
            m, n = (int(self.m[cuttable[0]]), int(self.n[cuttable[0]])) if len(cuttable) else (0, 0)
            known = self.value - self.base_value
            _, at, a, b = truncated_sides.completed(states, m, n, self.room_a, self.room_b, known)
            if at >= 0:
                self._take(int(states[truncated_sides.NODE, at]), cuttable, a, b)
            return
        half = len(cuttable) // 2
        for out, others in ((cuttable[:half], cuttable[half:]), (cuttable[half:], cuttable[:half])):
            self._without(*self._with(states, top, others, out), out)

    def _take(self, node: int, cuttable: Counts, a: int, b: int) -> None:
        """Remember a state and its completion as the best answer."""
        rows_a, rows_b = np.zeros_like(self.m), np.zeros_like(self.n)
        rows_a[self.base], rows_b[self.base] = self.m[self.base], self.n[self.base]
        while node >= 0:
            node, item, part = (int(x) for x in self.pool[:, node])
            rows_a[item], rows_b[item] = self.m[item], part
        if len(cuttable):
            rows_a[cuttable[0]], rows_b[cuttable[0]] = a, b
        self.value, self.answer = int((rows_a * rows_b).sum()), (rows_a, rows_b)
