"""Results: what a truncated join keeps, what it loses, and what travelled for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from windrow.offline.truncation import Kept


@dataclass(frozen=True)
class Bytes:
    """Bytes that travel: histograms to the place of the choice, requests back, and the rows asked for.

    Rows are counted as in Arrow: fixed widths, offsets, and the bytes of text. A histogram entry, or a request, is a
    key and a count of eight bytes.
    """

    histograms: int
    requests: int
    rows: int
    everything: int
    """What shipping all rows of both relations would take."""

    @property
    def shipped(self) -> int:
        """All that travels."""
        return self.histograms + self.requests + self.rows

    @property
    def share(self) -> float:
        """What travels over what shipping everything would take."""
        return self.shipped / self.everything if self.everything else 0.0


@dataclass(frozen=True)
class Cut:
    """A component of which some rows are kept and some dropped, though all have partners: its key, and rows by side."""

    key: tuple[Any, ...]
    left: int
    left_kept: int
    right: int
    right_kept: int


@dataclass(frozen=True)
class Truncated:
    """Two relations truncated for their join: what was kept, what it still matches, what travelled.

    `left` and `right` are Arrow tables or Spark DataFrames, as the relations were given.
    """

    left: Any
    right: Any
    kept_left: int
    kept_right: int
    dropped_left: int
    dropped_right: int
    matches: int
    """Matches of the rows kept: the join of `left` and `right` has exactly so many."""
    exact_matches: int
    """Matches of all rows."""
    bound: int | None
    """Matches that no choice of as many rows can pass; None where nothing was proved (adg, ndg)."""
    cut: tuple[Cut, ...]
    bytes: Bytes
    _join: Callable[[], Any] = field(repr=False)

    @classmethod
    def of(
        cls, parts: Sequence[Any], kept: Sequence[int], rows: Sequence[int], choice: Kept, cut: tuple[Cut, ...],
        size: Bytes, join: Callable[[], Any],
    ) -> Truncated:  # fmt: skip
        """The result for two truncated relations, of which so many of so many rows were kept."""
        return cls(
            left=parts[0],
            right=parts[1],
            kept_left=kept[0],
            kept_right=kept[1],
            dropped_left=rows[0] - kept[0],
            dropped_right=rows[1] - kept[1],
            matches=choice.matches,
            exact_matches=choice.exact,
            bound=choice.bound,
            cut=cut,
            bytes=size,
            _join=join,
        )

    @property
    def recall(self) -> float:
        """Matches kept over matches of all rows; 1 where there are none."""
        return self.matches / self.exact_matches if self.exact_matches else 1.0

    @property
    def optimal(self) -> bool:
        """Whether this is known to be a best choice."""
        return self.bound is not None and self.matches >= self.bound

    def join(self) -> Any:
        """The join of the truncated relations: a table, or a DataFrame; columns are named as by `windrow.join`."""
        return self._join()

    @property
    def table(self) -> pa.Table:
        """The join as an Arrow table; from Spark it is collected."""
        joined = self.join()
        return joined if isinstance(joined, pa.Table) else joined.toArrow()
