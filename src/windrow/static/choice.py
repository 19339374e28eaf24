"""Choice: how many rows of each key are kept, from the histograms alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from windrow.errors import SpecError
from windrow.offline.truncation import Kept, adg, check_keep, optimal
from windrow.offline.truncation_sides import ndg, optimal_sides
from windrow.record import one_of

Ints = NDArray[np.int64]
Method = Literal["optimal", "adg", "ndg"]
METHODS = ("optimal", "adg", "ndg")


@dataclass(frozen=True)
class Budget:
    """What may be kept: rows in all, or rows of each side; given as rows kept or as rows dropped."""

    keep: int | None = None
    drop: int | None = None
    keep_a: int | None = None
    keep_b: int | None = None
    drop_a: int | None = None
    drop_b: int | None = None

    @property
    def by_side(self) -> bool:
        """Whether each side has a budget of its own."""
        return any(value is not None for value in (self.keep_a, self.keep_b, self.drop_a, self.drop_b))

    def check(self) -> None:
        """One question is asked, and only one."""
        in_all = [name for name in ("keep", "drop") if getattr(self, name) is not None]
        for side in ("a", "b"):
            if getattr(self, f"keep_{side}") is not None and getattr(self, f"drop_{side}") is not None:
                raise SpecError(f"keep_{side} and drop_{side} say the same thing twice: give one of them")
        if len(in_all) == 2 or (in_all and self.by_side):
            raise SpecError("give keep or drop for both relations together, or budgets by side (keep_a, ...), not both")
        if not in_all and not self.by_side:
            raise SpecError("say how many rows to keep: keep= or drop= in all, or keep_a=, keep_b= (drop_a=, drop_b=)")

    def rows(self, left: int, right: int) -> int | tuple[int, int]:
        """Rows to keep, in all or by side, of so many; a side without a budget is kept whole."""
        if not self.by_side:
            return _kept(self.keep, self.drop, left + right, "")
        return _kept(self.keep_a, self.drop_a, left, "_a"), _kept(self.keep_b, self.drop_b, right, "_b")


def _kept(keep: Any, drop: Any, rows: int, side: str) -> int:
    if drop is not None:
        check_keep(drop, rows, f"drop{side}")
        return rows - int(drop)
    if keep is None:
        return rows
    check_keep(keep, rows, f"keep{side}")
    return int(keep)


@dataclass(frozen=True)
class Choice:
    """Rows kept of each key, and how many of the rows without a key are kept on each side."""

    kept: Kept
    null_left: int
    null_right: int


def check_method(method: str, budget: Budget) -> None:
    """The method is known, and answers the question."""
    one_of(method, METHODS, "method")
    if method == "adg" and budget.by_side:
        raise SpecError("adg keeps so many rows in all: give keep= or drop=, or use method='ndg' or 'optimal'")
    if method == "ndg" and not budget.by_side:
        raise SpecError("ndg keeps so many rows of each side: give keep_a=, keep_b=, or use method='adg' or 'optimal'")


def choose(m: Ints, n: Ints, nulls: tuple[int, int], budget: Budget, method: Method) -> Choice:
    """The choice for histograms; rows with a null key match nothing and are kept only if all others are."""
    left, right = int(m.sum()), int(n.sum())
    rows = budget.rows(left + nulls[0], right + nulls[1])
    if isinstance(rows, int):
        keep = min(rows, left + right)
        null_left = min(nulls[0], rows - keep)
        kept = adg(m, n, keep) if method == "adg" else optimal(m, n, keep)
        return Choice(kept, null_left, rows - keep - null_left)
    keep_a, keep_b = min(rows[0], left), min(rows[1], right)
    kept = ndg(m, n, keep_a, keep_b) if method == "ndg" else optimal_sides(m, n, keep_a, keep_b)
    return Choice(kept, rows[0] - keep_a, rows[1] - keep_b)
