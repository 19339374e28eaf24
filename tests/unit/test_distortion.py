"""Can catch: shares of the wrong total, keys that one side lacks forgotten, smoothing that is not what is said."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.errors import InputError, SpecError
from windrow.quality.distortion import Distortion, distortion, distortion_of_counts

KEYS = st.lists(st.sampled_from(["a", "b", "c", None]), max_size=30)


def twin(found: list[Any], exact: list[Any], smooth: float) -> tuple[float, float]:
    """SSE and smoothed KL, key by key."""
    keys = list(dict.fromkeys(found + exact))
    sse = kl = 0.0
    for key in keys:
        p = exact.count(key) / len(exact) if exact else 1 / len(keys)
        q = found.count(key) / len(found) if found else 1 / len(keys)
        sse += (p - q) ** 2
        p = (exact.count(key) + smooth) / (len(exact) + smooth * len(keys))
        q = (found.count(key) + smooth) / (len(found) + smooth * len(keys))
        kl += p * math.log(p / q)
    return sse, kl


@given(KEYS, KEYS, st.sampled_from([0.5, 1, 0.01]))
def test_tables_give_what_the_slow_twin_gives(found: list[Any], exact: list[Any], smooth: float) -> None:
    tables = [pa.table({"k": pa.array(side, pa.string()), "x": range(len(side))}) for side in (found, exact)]
    result = distortion(*tables, "k", smooth)
    sse, kl = twin(found, exact, smooth)
    assert result.keys == len(set(found + exact))
    assert result.sse == pytest.approx(sse, abs=1e-12) and result.kl == pytest.approx(kl, abs=1e-12)


def test_equal_spread_is_no_distortion_however_few_matches_there_are() -> None:
    exact = np.array([400, 200, 0, 200])
    assert distortion_of_counts(exact, exact) == Distortion(0.0, 0.0, 3)
    half, skewed = distortion_of_counts(exact // 2, exact), distortion_of_counts([300, 0, 0, 0], exact)
    assert half.sse == 0.0 and half.kl < 1e-4 < 0.3 < skewed.kl
    assert skewed.sse == pytest.approx(0.25 + 2 / 16)
    assert distortion_of_counts([], []) == Distortion(0.0, 0.0, 0)


def test_several_columns_are_one_key() -> None:
    table = pa.table({"a": [1, 1, 2], "b": [1, 2, 1]})
    assert distortion(table, table, ["a", "b"]).keys == 3


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(InputError, match="same keys"):
        distortion_of_counts([1, 2], [1])
    with pytest.raises(InputError, match="smooth"):
        distortion_of_counts([1], [1], smooth=0)
    with pytest.raises(SpecError, match="smooth"):
        distortion_of_counts([1], [1], smooth=-1)
    for bad in ([-1], [float("nan")], [[1]]):
        with pytest.raises(InputError, match="not negative"):
            distortion_of_counts(bad, [1])
