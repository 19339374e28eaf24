"""Whole tables in slices: all rows, in order, each slice about as large as it should be.

Catches: a row in two slices or in none, an instant that is torn apart, a slice far larger than a pace asks for.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow import feed


@pytest.mark.parametrize("same", [1, 100, 1_000])
@given(st.integers(0, 2**32), st.booleans())
def test_slices_end_between_instants_and_follow_a_pace(same: int, seed: int, paced: bool) -> None:
    """Of times that `same` rows share, a slice has as few as there can be, or at most what the pace says."""
    rng = np.random.default_rng(seed)
    progress = [np.sort(rng.integers(0, max(1, 20_000 // same), size)) for size in (15_000, 5_000)]
    together = np.sort(np.concatenate(progress))
    pace, taken = feed.Pace() if paced else None, [0, 0]
    for each in feed._cuts(progress, 4_096, pace):
        allowed = 4_096 if pace is None else max(pace.rows, feed.LEAST_ROWS)
        assert [start for start, _ in each] == taken
        taken = [end for _, end in each]
        size = sum(end - start for start, end in each)
        last = max(int(p[end - 1]) for p, end in zip(progress, taken, strict=True) if end)
        assert [int(np.searchsorted(p, last, side="right")) for p in progress] == taken
        assert size <= allowed + np.count_nonzero(together == last)
        if pace is not None:
            pace.rows = int(rng.choice([1, 256, 1_000, 4_096, 16_384]))
    assert taken == [len(p) for p in progress]
