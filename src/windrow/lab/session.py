"""A Spark session on this machine, for the command line and the demo. The library itself never makes one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from windrow.errors import MissingDependency, WindrowError
from windrow.spark.tune import tune

JAVA = 17  # the oldest version that Spark 4 runs on


def missing() -> str | None:
    """What Spark lacks here and how to get it, in one line; None if it can run."""
    for package in ("pyspark", "pandas"):
        if find_spec(package) is None:
            return f"Spark needs the package {package}: install it with pip install 'pyspark>=4.1' 'pandas<3'"
    version = _java_version()
    if version is not None and version >= JAVA:
        return None
    found = "found none" if version is None else f"found Java {version}"
    return (
        f"Spark needs Java {JAVA} or newer and {found}: install it (on Debian or Ubuntu, apt-get install "
        f"openjdk-{JAVA}-jre-headless), or say in JAVA_HOME where it is"
    )


def _java_version() -> int | None:
    """The version of the Java that Spark would start: JAVA_HOME's, or else the one on the path."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else shutil.which("java")
    try:
        done = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(version[1]) if version else None


@contextmanager
def local_session(shards: int) -> Iterator[Any]:
    """A session on all cores, which ends with the block; one that this process has already is used and left running."""
    if lack := missing():
        raise MissingDependency(lack)
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable  # whatever it was: the session is windrow's own
    settings: dict[str, Any] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",  # a shard's work is not measured by its bytes
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(shards),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.appName("windrow").master("local[*]")
    with TemporaryDirectory(prefix="windrow-") as folder:
        log = Path(folder, "spark.log")
        with _errors_to(log):
            session = _started(builder.config(map=settings), log)
        tune(session)
        try:
            yield session
        finally:
            session.stop()


def _started(builder: Any, log: Path) -> Any:
    try:
        return builder.getOrCreate()
    except Exception as error:  # whatever keeps Spark from starting, its own log says it best
        said = log.read_text(errors="replace").strip().splitlines() or [str(error)]
        raise WindrowError(f"Spark does not start: {said[-1]}") from error


@contextmanager
def _errors_to(log: Path) -> Iterator[None]:
    """Send the error stream to a file: of this process for a while, and of the Java it starts for good."""
    sys.stderr.flush()
    kept, file = os.dup(2), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(file)
