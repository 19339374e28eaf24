"""The experiments on GreedyDual-Join: quick runs, budgets by rate, and two joins told apart in one memory.

Catches: memory that is not split by rate, parts of real streams that do not fit each other in time, rows that meet rows
of another join, an initial credit that is chosen by anything but the figures, and a claim that holds whatever comes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from windrow.lab import gdj_joins, verdict
from windrow.lab.data import Streams
from windrow.lab.experiment import Conditions, experiments, find
from windrow.lab.experiments import gdj_attributes, gdj_initial, gdj_unified
from windrow.lab.figures import Figures
from windrow.lab.gdj_joins import DAY, GDJ, Join
from windrow.lab.real_pairs import stations
from windrow.lab.running import run
from windrow.policies import Fifo

QUICK = Conditions(quick=True, seeds=2)
SHARES = ("GDJ", "PROB", "PROBV", "RAND", "RANDV", "AGE", "FIFO", "method")  # lines that are shares of the exact join
NAMES = [name for name in experiments() if name.startswith("gdj-")]


@pytest.mark.parametrize("name", NAMES)
def test_a_quick_run_measures_every_point(name: str) -> None:
    experiment = find(name)
    outcome = run(experiment, QUICK)
    assert len(outcome.figures.rows) == 2 * len(experiment.sweep(QUICK))
    assert outcome.verdict.word == verdict.UNKNOWN
    assert outcome.checks and all(check.found for check in outcome.checks)
    assert all(panel.curves for panel in experiment.draw(outcome.figures))
    for row in outcome.figures.rows:
        recalls = [value for line, value in row.items() if line.split(" ")[0] in SHARES]
        assert recalls and all(0 <= value <= 1 for value in recalls)


def _steps(times: list[int]) -> pa.Table:
    return pa.table({"t": pa.array(times, pa.int64()), "k": pa.array([0] * len(times), pa.int64())})


def test_memory_is_split_by_rate() -> None:
    join = Join({"left": _steps([0, 1, 2, 3, 4, 5, 6, 7]), "right": _steps([1, 5])}, window=8)
    assert join.need() == {"left": 8.0, "right": 2.0}
    assert join.matched(Fifo(), 1.0) == join.exact()  # this stream has no bursts: its mean is enough
    assert join.matched(Fifo(), 0.5) < join.exact()


def test_parts_of_streams_with_different_rates_lie_side_by_side() -> None:
    left, right = _steps(list(range(0, 120, 2))), _steps(list(range(120)))
    part = gdj_joins._part(Streams(left, right, ""), 1, most=100)
    assert part["left"]["t"].to_pylist() == list(range(20, 40, 2))
    assert part["right"]["t"].to_pylist() == list(range(20, 39))


def test_two_joins_in_one_are_the_sum_of_both() -> None:
    both = gdj_unified._both(DAY, 3, QUICK)
    pairs = [{n: t for n, t in both.tables.items() if n.startswith(name)} for name in gdj_unified.PAIRS]
    assert both.exact() == sum(Join(pair, both.window).exact() for pair in pairs) > 0


def test_attributes_are_joined_one_by_one() -> None:
    join = gdj_attributes._join(DAY, 3, 1, QUICK)
    alone = [Join(join.tables, join.window, name) for name in join.on]
    assert list(join.on) == ["x1", "x2", "x3"] and join.exact() == sum(one.exact() for one in alone) > 0
    first = gdj_attributes._join(DAY, 1, 1, QUICK)
    assert first.tables["left"]["x1"].equals(join.tables["left"]["x1"])  # streams stay as attributes are added


def test_the_initial_credit_is_chosen_for_each_set_of_streams_and_not_for_each_run() -> None:
    lines = list(gdj_joins.CREDITS)
    rows = [
        {"streams": "a", "seed": 0, **dict.fromkeys(lines, 0.1), lines[0]: 0.9, lines[1]: 0.0},
        {"streams": "a", "seed": 1, **dict.fromkeys(lines, 0.1), lines[0]: 0.3, lines[1]: 0.4},
        {"streams": "b", "seed": 0, **dict.fromkeys(lines, 0.1), lines[1]: 0.2},
    ]
    found = gdj_joins.chosen(Figures(rows))
    assert [row[GDJ] for row in found.rows] == [0.9, 0.3, 0.2]


@pytest.mark.parametrize(("best", "high", "depends"), [((0.9, 0.95), True, True), ((0.5, 0.9), False, True)])
def test_the_best_initial_credit_is_judged_by_figures(best: tuple[float, float], high: bool, depends: bool) -> None:
    rows = [
        {"streams": name, "initial": i, "seed": seed, "GDJ": 1 - abs(i - top) + seed / 100, gdj_joins.ITSELF: 0.5}
        for name, top in zip("ab", best, strict=True)
        for i in gdj_initial.INITIALS
        for seed in range(3)
    ]
    first, second, *_ = gdj_initial.judge(Figures(rows))
    assert (first.holds, second.holds) == (high, depends)


def test_stations_are_streams_of_one_time(tmp_path: Path) -> None:
    (tmp_path / "beijing_air_dewpoint").mkdir()
    hours = np.datetime64("2013-03-01T00:00", "us") + np.array([1, 0, 0, 1, 2]) * np.timedelta64(1, "h")
    rows = {
        "ts": hours, "station": pa.array(["b", "a", "b", "a", "a"]).dictionary_encode(),
        "dewp": pa.array([0.5, -1.0, 0.4, float("nan"), 2.0], pa.float32()),
    }  # fmt: skip
    pq.write_table(pa.table(rows), tmp_path / "beijing_air_dewpoint" / "part.parquet")
    found = sorted(table.to_pydict().items() for table in stations(tmp_path, 2))
    assert [dict(one) for one in found] == [{"t": [0, 1], "k": [4, 5]}, {"t": [0, 2], "k": [-10, 20]}]
