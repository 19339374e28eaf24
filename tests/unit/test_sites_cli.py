"""`windrow sites`, its setting file, and the experiments on sites in a quick run.

Catches: settings that are misread or refused without a word of what to do, plans that the simulator cannot run, figures
that an experiment does not measure.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import windrow as wr
from windrow.cli import app
from windrow.lab import verdict
from windrow.lab.experiment import Conditions, experiments, find
from windrow.lab.running import run
from windrow.sites import Plan

SETTING = """
on = "user_id"
interval = "5 s"
objective = "bytes"
[streams.clicks]
site = "edge"
file = "clicks.parquet"
time = "ts"
window = "1 minute"
[streams.orders]
site = "hub"
file = "orders.parquet"
time = "ts"
window_rows = 200
where = [["price", ">", 10]]
[links."edge - hub"]
latency = "25 ms"
bandwidth = "10 Mbit/s"
price = 0.09
"""


def sites(*words: str) -> Any:
    return CliRunner().invoke(app, ["sites", *words], prog_name="windrow")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sites")
    for k, name in enumerate(("clicks", "orders")):
        random, rows = np.random.default_rng(k), 400
        time = pa.array(np.sort(random.integers(0, 60_000, rows))).cast(pa.timestamp("ms"))
        columns = {"ts": time, "user_id": random.integers(0, 300, rows), "price": random.integers(0, 100, rows)}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    (folder / "places.toml").write_text(SETTING)
    return folder


def test_a_file_is_planned_and_simulated(place: Path) -> None:
    told = sites("plan", str(place / "places.toml"), "-o", str(place / "plan.json"))
    assert told.exit_code == 0, told.stderr
    assert "clicks@edge" in told.stdout and "bytes/s" in told.stdout
    plan = Plan.from_json((place / "plan.json").read_text())
    ran = sites("simulate", str(place / "places.toml"), "--plan", str(place / "plan.json"), "--json",
                "-o", str(place / "matches.parquet"))  # fmt: skip
    assert ran.exit_code == 0, ran.stderr
    facts = json.loads(ran.stdout)
    tables = {name: pq.read_table(place / f"{name}.parquet") for name in ("clicks", "orders")}
    matches = wr.Engine(plan.query).push(tables)
    assert facts["matches"] == matches.num_rows == pq.read_table(place / "matches.parquet").num_rows > 0
    assert facts["bytes"] > 0 and facts["money"] == pytest.approx(facts["bytes"] * 0.09 / 1e9)
    assert "matches in" in sites("simulate", str(place / "places.toml"), "--planner", "greedy").stdout


def test_a_plan_is_told_in_straight_columns_beside_shipping_everything(place: Path) -> None:
    told = sites("plan", str(place / "places.toml")).stdout.splitlines()
    begins = next(i for i, line in enumerate(told) if "rows of" in line)
    header, rule, *rows = told[begins : told.index("", begins)]
    for name, values in (("rows of", ("clicks", "orders")), ("from", ("edge", "hub")), ("to", ("edge", "hub"))):
        at = header.index(f" {name} ") + 1
        assert all(row[at:].startswith((*values, " ")) and row[at - 1] == " " for row in rows), told
    assert rule.strip(" ─") == ""
    facts = json.loads(sites("plan", str(place / "places.toml"), "--json").stdout)
    everything = facts["everything"]
    assert told[-1] == f"to ship everything to {everything['to']}: {everything['bytes_per_s']:,.0f} bytes/s"
    assert everything["bytes_per_s"] >= facts["bytes_per_s"] > 0


def test_a_choice_that_there_is_not_is_told_where_it_stands(place: Path) -> None:
    wrong = place / "wrong.toml"
    wrong.write_text(SETTING.replace('"bytes"', '"byts"'))
    refused = sites("plan", str(wrong))
    assert refused.exit_code == 1 and f"{wrong}: objective must be one of 'time', 'bytes', 'money'" in refused.stderr
    refused = sites("plan", str(place / "places.toml"), "--planner", "best")
    assert refused.exit_code == 1 and "windrow: --planner must be one of 'auto', " in refused.stderr


def test_the_plan_of_a_file_is_the_one_that_is_simulated(place: Path) -> None:
    named = place / "named.toml"
    named.write_text('plan = "own.json"\n' + SETTING)
    missing = sites("simulate", str(named))
    assert missing.exit_code == 1 and "own.json" in missing.stderr
    assert sites("plan", str(place / "places.toml"), "-o", str(place / "own.json")).exit_code == 0
    ran = sites("simulate", str(named), "--json")
    assert ran.exit_code == 0, ran.stderr
    again = sites("simulate", str(place / "places.toml"), "--plan", str(place / "own.json"), "--json")
    assert json.loads(ran.stdout) == json.loads(again.stdout)


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('on = "user_id"', "", "'on'"),
        ('site = "edge"', "", "site"),
        ("latency", "latencie", "latency"),
        ('objective = "bytes"', 'objective = "speed"', "objective"),
        ('window = "1 minute"', 'window = "1 minute"\nwindow_rows = 5', "not both"),
        ('file = "orders.parquet"', "", "no file"),
        ('interval = "5 s"', 'interval = "0 s"', "interval"),
        ("[streams.clicks]", "[streams.clicks", "neither TOML nor JSON"),
        ('"10 Mbit/s"', '"quick"', "bandwidth"),
        ('"edge - hub"', '"edge"', "two sites"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(place: Path, old: str, new: str, word: str) -> None:
    bad = place / "bad.toml"
    bad.write_text(SETTING.replace(old, new))
    result = sites("plan", str(bad))
    assert result.exit_code == 1 and word in result.stderr and len(result.stderr.strip().splitlines()) == 1


TABLE_D = [
    f"sites-one-way-{what}" for what in ("rows", "rate", "selectivity", "window", "latency", "bandwidth", "interval")
]


def test_every_experiment_of_the_paper_is_there() -> None:
    assert {*TABLE_D, "sites-planners", "sites-equal", "sites-real", "sites-bytes"} <= set(experiments())


@pytest.mark.parametrize("name", ["sites-one-way-selectivity", "sites-planners", "sites-bytes"])
def test_a_quick_run_measures_every_point(name: str) -> None:
    conditions = Conditions(quick=True, seeds=1)
    outcome = run(find(name), conditions)
    assert len(outcome.figures.rows) == len(find(name).sweep(conditions))
    assert outcome.verdict.word == verdict.UNKNOWN
    assert outcome.checks and all(check.found for check in outcome.checks)
    assert all(panel.curves for panel in find(name).draw(outcome.figures))
