"""One Spark session for all tests of this folder; its workers find this Python, windrow and the tests."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.spark.folders import Folders, make_folders

ROOT = Path(__file__).parents[2]
NO_JAVA = (
    "the tests of Spark need Java 17 or newer, and none was found by JAVA_HOME or PATH; "
    "on Debian or Ubuntu: apt-get install openjdk-17-jre-headless"
)

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
)


def java_is_there() -> bool:
    home = os.environ.get("JAVA_HOME")
    return bool(home and Path(home, "bin", "java").exists()) or shutil.which("java") is not None


@pytest.fixture(scope="session")
def java() -> None:
    """Fails, rather than skips, where Java is missing: these tests are part of the promise."""
    if not java_is_there():
        pytest.fail(NO_JAVA, pytrace=False)


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session: two threads, few partitions, and a task that fails is tried again."""
    from pyspark.sql import SparkSession

    warehouse = tmp_path_factory.mktemp("warehouse")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.log.level": "OFF",
    }
    builder = SparkSession.builder.master("local[2,3]").appName("windrow tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of the run, which draws the rows too: see `make test SEED=...`."""
    given = str(request.config.getoption("--hypothesis-seed", default=None) or "0")
    return int(given) if given.isdigit() else 0


@pytest.fixture(scope="session")
def folders(seed: int, tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """Two streams in folders of Parquet files, with columns of every type."""
    return make_folders(tmp_path_factory.mktemp("streams"), seed)
