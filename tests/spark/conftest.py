"""One Spark session for all tests of this folder; its workers find this Python, windrow and the tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.spark.folders import Folders, make_folders
from tests.spark.settings import SETTINGS, STORE, connect_settings, environment

NO_JAVA = (
    "the tests of Spark need Java 17 or newer, and none was found by JAVA_HOME or PATH; "
    "on Debian or Ubuntu: apt-get install openjdk-17-jre-headless"
)

os.environ |= environment()


@pytest.fixture(scope="session")
def java() -> None:
    """Fails, rather than skips, where Java is missing: these tests are part of the promise."""
    home = os.environ.get("JAVA_HOME")
    if not (home and Path(home, "bin", "java").exists()) and shutil.which("java") is None:
        pytest.fail(NO_JAVA, pytrace=False)


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session: two threads, few partitions, and a task that fails is tried again; with a Connect server in it."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2,2]").appName("windrow tests")
    for name, value in {**SETTINGS, **connect_settings()}.items():
        builder = builder.config(name, value)
    session = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse"))).getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def rocksdb(spark: Any) -> Iterator[None]:
    """The session with the store to whose states one can append, while a query is written down and started."""
    for name, value in STORE.items():
        spark.conf.set(name, value)
    yield
    for name in STORE:
        spark.conf.unset(name)


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of the run, which draws the rows too: see `make test SEED=...`."""
    given = str(request.config.getoption("--hypothesis-seed", default=None) or "0")
    return int(given) if given.isdigit() else 0


@pytest.fixture(scope="session")
def folders(seed: int, tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """Two streams in folders of Parquet files, with columns of every type."""
    return make_folders(tmp_path_factory.mktemp("streams"), seed)


@pytest.fixture(scope="session")
def late_folders(seed: int, tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """The same with rows that come too late."""
    return make_folders(tmp_path_factory.mktemp("late_streams"), seed, late=True)
