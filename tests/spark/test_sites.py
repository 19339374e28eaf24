"""Sites whose streams come from Spark: one from a classic session, one from a session of Spark Connect.

Catches: micro-batches that are lost, doubled or taken out of order between Spark and a site, a query that goes on from
its checkpoint and hands over what a site has had, functions that cannot travel to a Connect server, results that Spark
reads otherwise than they were written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.contract.test_sites import one_engine
from tests.contract.test_sites_flight import finish, ports
from tests.running import assert_same, multiset
from tests.spark.connect_feed import fed
from tests.spark.settings import ROOT, environment

import windrow as wr
from windrow.sites.ground.handing import Handing

SCHEMA = {"t": "int64", "k": "string", "id": "int64"}
FILES, ROWS = 4, 60


def described(root: Path) -> Path:
    stream = {"time": "t", "window": 20, "schema": SCHEMA}
    data = {
        "on": "k", "select": [["a.id", "a"], ["b.id", "b"], ["b.k", "k"]], "interval": 10,
        "streams": {"a": {**stream, "site": "A"}, "b": {**stream, "site": "B"}},
        "sites": {name: {"address": f"127.0.0.1:{port}"} for name, port in zip("AB", ports(2), strict=True)},
        "plan": {"sequences": {"a": [["b", "SM-S1"]], "b": [["a", "SM-D1"]]}},
    }  # fmt: skip
    (root / "sites.json").write_text(json.dumps(data))
    return root / "sites.json"


def streams(seed: int) -> dict[str, pa.Table]:
    rng, found = np.random.default_rng(seed), {}
    for name in "ab":
        times, keys = np.sort(rng.integers(0, 200, FILES * ROWS)), rng.integers(0, 40, FILES * ROWS)
        columns = {"t": times, "k": pa.array([f"é{key}" for key in keys]), "id": np.arange(len(times))}
        found[name] = pa.table({**columns, "more": rng.random(len(times))})
    return found


def write(folder: Path, table: pa.Table, files: range) -> None:
    folder.mkdir(exist_ok=True)
    for k in files:
        pq.write_table(table.slice(k * ROWS, ROWS), folder / f"{k}.parquet")
        os.utime(folder / f"{k}.parquet", (1_700_000_000 + k,) * 2)  # Spark reads files in the order of these times


def connected(spark: Any, *words: str) -> str:
    server = f"sc://127.0.0.1:{spark.conf.get('spark.connect.grpc.binding.port')}"
    program = [sys.executable, "-m", "tests.spark.connect_feed", server, *words]
    env = {**os.environ, **environment()}
    for _ in range(3):
        ran = subprocess.run(program, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
        if "Python worker to connect back" not in ran.stderr:  # Spark gives a worker ten seconds to start, and no more
            break
    assert ran.returncode == 0, ran.stderr[-4000:]
    return ran.stdout


def test_sites_fed_by_spark_and_by_connect_are_one_engine(spark: Any, tmp_path: Path, seed: int) -> None:
    file, tables = described(tmp_path), streams(seed)
    folders = {name: tmp_path / f"rows-{name}" for name in "ab"}
    sites = [wr.sites.serve(file, name) for name in "AB"]
    for files, ends in ((range(2), "goes on"), (range(2, FILES), "ends")):
        for name, folder in folders.items():
            write(folder, tables[name], files)
        fed(spark, str(file), "a", str(folders["a"]))
        assert "connect" in connected(spark, str(file), "b", str(folders["b"]), ends)
    for name, batch in (("a", 0), ("b", FILES - 1)):  # as a query does that was killed before it had noted this batch
        Handing.to(file, name).rows(tables[name].slice(batch * ROWS, ROWS), batch=batch)
    wr.sites.end(file, "a")
    finish(*sites)
    assert [site.running.refused for site in sites] == [{"repeated batches": 1}] * 2
    expected = one_engine(wr.sites.describe(file).query, tables)
    assert expected.total() > 100
    assert_same(multiset(wr.sites.results(file)), expected, f"seed {seed}")
    assert_same(multiset(wr.sites.results(file, spark=spark).toArrow()), expected, f"seed {seed}")
