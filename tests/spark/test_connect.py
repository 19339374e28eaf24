"""The same join through Spark Connect: the session of these tests is the server, the client has no Java in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.spark.settings import ROOT, environment


def test_the_join_its_metrics_and_its_repair_through_connect(spark: Any, tmp_path: Path, seed: int) -> None:
    server = f"sc://127.0.0.1:{spark.conf.get('spark.connect.grpc.binding.port')}"
    program = [sys.executable, "-m", "tests.spark.connect_program", server, str(tmp_path), str(seed)]
    ran = subprocess.run(
        program, cwd=ROOT, env={**os.environ, **environment()}, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    note = f"seed {seed}: {found}"
    assert "connect" in found["kind"], note
    assert found["batch"] and found["streaming"] and found["repaired"] and found["static"] and found["text"], note
    assert "comes from another windrow join" in found["chained"], note
    assert found["batch_metrics"]["matched"] == found["rows"], note
    assert found["metrics"]["complete"] and found["batch_metrics"]["complete"], note
    assert found["metrics"]["matched"] == found["output"] < found["rows"], note
    assert found["metrics"]["shed"] > 0 and 0 < found["metrics"]["recall"] < 1, note
    assert found["metrics"]["warm"] is not None, "its state was one of deltas"
    assert set(found["metrics"]["shards"]) == set(found["batch_metrics"]["shards"]), note
