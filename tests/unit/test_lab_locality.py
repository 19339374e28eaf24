"""The experiment on locality: real pairs read as they are stored, and a verdict that follows from their figures.

Catches: a set that is joined on the wrong side or in the wrong order, and a claim that holds whatever is measured.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from windrow.lab import real_pairs, verdict
from windrow.lab.data import Streams, steps
from windrow.lab.experiment import Conditions, find
from windrow.lab.experiments import locality
from windrow.lab.figures import Figures
from windrow.lab.running import run

ROWS = 240


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Every set in small, last rows first."""
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 6, ROWS)
    ts = np.datetime64("2014-12-27T00:00", "us") + np.arange(ROWS) * np.timedelta64(1, "h")
    text = pa.array([f"k{key}" for key in keys], pa.large_string())
    winter = pa.array(np.datetime64("2001-01-27T00:00", "us") + np.arange(ROWS) * np.timedelta64(1, "h"))
    sets = {
        "beijing_air_dewpoint": {"ts": ts, "dewp": keys / 10},
        "pnw_weather": {"origin": ["SEA", "PDX"] * (ROWS // 2), "dewp": keys * 1.0, **_hours()},
        "nasa_http_day": {"time": np.arange(ROWS), "host": text, "url": ["/a.gif", "/a.html", "/b.gif"] * (ROWS // 3)},
        "marine_obs": {"ts": ts, "lat": keys * 10.0, "lon": keys * 0.0, "kind": ["buoy", "shore"] * (ROWS // 2)},
        "us_flights_3m": {"ts": winter, "origin": text.dictionary_encode(), "destination": text.dictionary_encode()},
        "online_retail": {"ts": ts, "stock_code": text},
    }
    for name, columns in sets.items():
        (tmp_path / name).mkdir()
        table = pa.table(columns)
        pq.write_table(table.take(np.arange(ROWS)[::-1]), tmp_path / name / "part.parquet")
    return tmp_path


def _hours() -> dict[str, np.ndarray]:
    hours = np.arange(ROWS) // 2
    return {"month": hours // 96 + 1, "day": hours // 24 % 4, "hour": hours % 24}


def test_real_pairs_are_read_in_order_of_time(data: Path) -> None:
    keys = np.random.default_rng(0).integers(0, 6, ROWS)
    found = real_pairs.pairs(data)
    expected = {
        "dewpoint": (keys[:120], keys[120:]), "cities": (keys[::2], keys[1::2]), "marine": (keys[::2], keys[1::2]),
        "routes": (keys[:120], keys[120:]), "origins": (keys[:120], keys[120:]), "retail": (keys[:120], keys[120:]),
    }  # fmt: skip
    assert set(found) == {*expected, "web"}
    for name, sides in expected.items():
        mine = np.concatenate([found[name].left["k"].to_numpy(), found[name].right["k"].to_numpy()])
        theirs = np.concatenate(sides)
        # the same up to what keys are called
        assert len(set(zip(mine.tolist(), theirs.tolist(), strict=True))) == len(set(theirs.tolist())), name
    assert (found["web"].left.num_rows, found["web"].right.num_rows) == (160, 80)
    outcome = run(find("locality"), Conditions(quick=True, seeds=2, data=data))
    assert outcome.verdict.word == verdict.UNKNOWN
    assert all(panel.curves["real"] and panel.curves["permuted"] for panel in locality.draw(outcome.figures))


def judged(keys: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> tuple[bool | None, bool | None]:
    stream = steps(keys)
    monkeypatch.setattr(locality, "pairs", lambda folder: {"one": Streams(stream, stream, "made up")})
    rows = [{"streams": "one", "seed": 0, **row} for row in locality.measure({"streams": "one"}, 0, Conditions())]
    near, ages, *_ = locality.judge(Figures(rows))
    return near.holds, ages.holds


def test_the_verdict_follows_from_the_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    crowded = np.repeat(np.random.default_rng(1).integers(0, 200, 1_000), 5)
    assert judged(crowded, monkeypatch)[0] is True
    assert judged(np.random.default_rng(1).integers(0, 200, 5_000), monkeypatch)[0] is False
    alike = np.tile(np.arange(200), 20)  # every key comes every 200 rows: one age suits all
    assert judged(alike, monkeypatch) == (False, False)
