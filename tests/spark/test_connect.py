"""The same join through a Spark Connect server, which is started here; the client has no Java in it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.settings import ROOT, SETTINGS, environment

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def server(java: None, tmp_path: Path) -> Iterator[str]:
    """The address of a server; a client waits for it by itself."""
    import pyspark

    port = free_port()
    settings = {**SETTINGS, "spark.connect.grpc.binding.port": str(port), "spark.sql.warehouse.dir": str(tmp_path)}
    given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    program = [str(submit), "--master", "local[2]", "--class", SERVER, *given, "spark-internal"]
    with (tmp_path / "server.log").open("w") as log:
        process = subprocess.Popen(
            program, cwd=tmp_path, env={**os.environ, **environment()}, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield f"sc://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def test_the_join_its_metrics_and_its_repair_through_connect(server: str, tmp_path: Path, seed: int) -> None:
    program = [sys.executable, "-m", "tests.spark.connect_program", server, str(tmp_path), str(seed)]
    ran = subprocess.run(
        program, cwd=ROOT, env={**os.environ, **environment()}, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    note = f"seed {seed}: {found}"
    assert "connect" in found["kind"], note
    assert found["batch"] and found["streaming"] and found["repaired"] and found["static"], note
    assert found["batch_metrics"]["matched"] == found["rows"], note
    assert found["metrics"]["matched"] == found["output"] < found["rows"], note
    assert found["metrics"]["shed"] > 0 and 0 < found["metrics"]["recall"] < 1, note
    assert set(found["metrics"]["shards"]) == set(found["batch_metrics"]["shards"]), note
