"""What the sessions of these tests are set to: small, quiet, and quick to start."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from windrow.spark.store import CHANGELOG, PROVIDER, ROCKSDB

ROOT = Path(__file__).parents[2]

# Programs this short end before the second compiler has paid for itself; and Hadoop starts a process for every file
# that it writes (chmod), which this way takes one start instead of two.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djdk.lang.Process.launchMechanism=VFORK"

CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # A query of some hundred rows is over before its code is compiled. The programs of the pages have Spark's defaults.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # The usual one starts a process for every file that it looks at (readlink).
    "spark.sql.streaming.checkpointFileManagerClass": f"{CHECKPOINTS}.FileSystemBasedCheckpointFileManager",
}

STORE = {PROVIDER: ROCKSDB, CHANGELOG: "true"}


def connect_settings() -> dict[str, str]:
    """Let a session serve Spark Connect too: a server of its own would be one more Java that has to get going."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    plugin = "org.apache.spark.sql.connect.SparkConnectPlugin"
    return {"spark.plugins": plugin, "spark.connect.grpc.binding.port": str(port)}


def environment() -> dict[str, str]:
    """Variables by which Spark's workers find this Python, windrow and the tests."""
    path = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable), "PYTHONPATH": os.pathsep.join(path)}
