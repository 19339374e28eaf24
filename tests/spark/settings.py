"""What the sessions of these tests are set to: small, quiet, and quick to start."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Programs this short end before the second compiler has paid for itself.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
}


def environment() -> dict[str, str]:
    """Variables by which Spark's workers find this Python, windrow and the tests."""
    path = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable), "PYTHONPATH": os.pathsep.join(path)}
