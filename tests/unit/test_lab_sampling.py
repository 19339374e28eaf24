"""The experiment on dropping rows in front of the buffer: counts by key, and curves compared at equal distortion.

Catches: keys counted under another key, a sampler that does not reach the join, policies compared at the same drop
probability instead of the same distortion, and a verdict that holds whatever comes.
"""

from __future__ import annotations

from collections import Counter

import pytest

from windrow.lab.experiment import Conditions
from windrow.lab.experiments.gdj_sampling import LINES, UNBIASED, _by_key, at_equal, judge, most_output
from windrow.lab.figures import Figures
from windrow.lab.gdj_joins import DAY, GDJ, ITSELF, generated
from windrow.policies import Fifo


def test_matches_are_counted_by_key() -> None:
    join = generated(DAY, 3, Conditions(quick=True))
    left, right = (list(zip(*(t[c].to_pylist() for c in "tk"), strict=True)) for t in join.tables.values())
    expected = Counter(k for t, k in left for u, m in right if k == m and abs(t - u) < join.window)
    keys = sorted({k for _, k in left + right})
    assert _by_key(join.query, join)[0].tolist() == [expected[k] for k in keys]
    counts, dropped = _by_key(join.limited(Fifo(), 0.2).with_(sample=0.5), join)
    assert 0 < counts.sum() < sum(expected.values()) and dropped == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(("limit", "output"), [(1.0, 10.0), (1.5, 35.0), (2.0, 60.0), (3.0, 80.0), (9.0, 100.0)])
def test_output_is_interpolated_at_a_distortion(limit: float, output: float) -> None:
    # The last point has more distortion and less output again, as a small result has: it takes nothing away.
    assert most_output([(4.0, 100.0), (2.0, 60.0), (1.0, 10.0), (5.0, 5.0)], limit) == output


def _figures(gdj: float, prob: float) -> Figures:
    """Distortion is the square of output over a strength, and output falls as more is dropped."""
    strength = {line: prob if line in ("PROB", "RAND", "FIFO") else gdj for line in LINES}
    rows = []
    for seed in range(4):
        for i, drop in enumerate((0.0, 0.2, 0.4, 0.6, 0.8, UNBIASED)):
            row = {"streams": DAY, "drop": drop, "seed": seed, "EXACT": 100, "dropped": 0.5, "depth": 0.1, "J": 2.0}
            for line, strong in strength.items():
                output = (0.9 - 0.15 * i) * strong**0.5 + seed / 1_000
                spread = (output / strong) ** 2
                row |= {line: output, f"SSE {line}": spread, f"KL {line}": spread}
            rows.append(row)
    return Figures(rows)


@pytest.mark.parametrize(("gdj", "prob", "more"), [(1.0, 0.6, True), (0.6, 1.0, False)])
def test_a_policy_is_ahead_where_it_gives_more_at_equal_distortion(gdj: float, prob: float, more: bool) -> None:
    found = {check.claim: check.holds for check in judge(_figures(gdj, prob)) if not check.aside}
    assert found == {
        "with 80% dropped instead of none, GDJ and PROB have less SSE": True,
        "with 80% dropped instead of none, GDJ and PROB have less KL": True,
        "with 80% dropped instead of none, GDJ and PROB have less output": True,
        "at equal SSE, GDJ gives more than PROB": more,
        "at equal KL, GDJ gives more than PROB": more,
    }


def test_less_output_at_every_probability_may_be_more_at_equal_distortion() -> None:
    rows = [
        {
            "streams": DAY, "seed": 0, "J": 1.0,
            ITSELF: 0.8 * output, "PROB": output, f"SSE {ITSELF}": output / 4, "SSE PROB": output,
        }
        for output in (0.9, 0.5, 0.1)
    ]  # fmt: skip
    equal = at_equal(Figures(rows), "SSE", (ITSELF, "PROB"))
    assert len(equal.rows) == 5
    assert all(row[ITSELF] == pytest.approx(3.2 * row["PROB"]) for row in equal.rows)


def test_curves_that_share_no_range_are_compared_at_the_end_that_both_can_keep_to() -> None:
    rows = [
        {"streams": DAY, "seed": 0, "J": 1.0, GDJ: 1.0 + d, "PROB": 3.0 + d, f"SSE {GDJ}": 1.0 + d, "SSE PROB": 5.0 + d}
        for d in (0.0, 1.0)
    ]
    assert {(row[GDJ], row["PROB"]) for row in at_equal(Figures(rows), "SSE", (GDJ, "PROB")).rows} == {(2.0, 3.0)}
