"""Whether the workers' Python can run windrow is told before a query starts.

Catches: a Python without the packages that shows only in a worker, a refusal where workers cannot be seen or are served
otherwise, a setting of Spark's that is overlooked.
"""

from __future__ import annotations

import sys
import venv
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from windrow.errors import MissingDependency
from windrow.spark import interpreter
from windrow.spark.interpreter import NEEDED, check_interpreter


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python of this version without any package."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    return folder / "bin"


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)


def frame(master: str = "local[2]", **settings: str) -> Any:
    """What the check sees of a frame: the settings of its session."""
    known = {"spark.master": master} | {name.replace("_", "."): value for name, value in settings.items()}
    return SimpleNamespace(sparkSession=SimpleNamespace(conf=SimpleNamespace(get=lambda key, default: known.get(key))))


def packages(folder: Path, names: tuple[str, ...]) -> str:
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").touch()
    return str(folder)


@pytest.mark.parametrize("how", ["path", "variable", "setting"])
def test_a_python_without_the_packages_is_refused(how: str, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, program = frame(), str(bare / "python3")
    if how == "path":
        monkeypatch.setenv("PATH", str(bare))
        program = "python3"
    elif how == "variable":
        monkeypatch.setenv("PYSPARK_PYTHON", program)
    else:
        monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
        given = frame(spark_sql_execution_pyspark_python=program)
    with pytest.raises(MissingDependency) as refusal:
        check_interpreter(given)
    assert str(refusal.value) == (
        f"Spark's workers would run {program!r}, which does not find windrow, numpy, numba, pyarrow, pandas: set "
        "PYSPARK_PYTHON to this program's Python (sys.executable) before the session starts"
    )


@pytest.mark.parametrize("program", ["no-such-python", "/no/such/python", "false"])
def test_a_python_that_does_not_start_is_refused(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", program)
    with pytest.raises(MissingDependency, match=f"would run '{program}', which does not start: set PYSPARK_PYTHON"):
        check_interpreter(frame("local"))


def test_another_version_of_python_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python3"
    program.write_text("#!/bin/sh\necho 3.4\n")
    program.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(program))
    with pytest.raises(MissingDependency, match=r"Python 3\.4, and this is Python 3\.\d+: set PYSPARK_PYTHON"):
        check_interpreter(frame("local"))


def test_windrow_alone_may_be_sent_as_a_file(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(bare / "python3"))
    monkeypatch.setenv("PYTHONPATH", packages(tmp_path, NEEDED[1:]))
    with pytest.warns(UserWarning, match="which does not find windrow: set PYSPARK_PYTHON"):
        check_interpreter(frame())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_interpreter(frame(spark_submit_pyFiles="windrow.zip"))


def test_workers_that_find_windrow_or_cannot_be_seen_are_let_pass(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(bare / "python3"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_interpreter(frame(spark_executorEnv_PYTHONPATH=packages(tmp_path, NEEDED)))
        check_interpreter(frame("spark://host:7077"))
        check_interpreter(frame("local-cluster[1,1,1024]"))
        check_interpreter(type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})())
        monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
        check_interpreter(frame())


def test_a_python_is_asked_until_it_answers(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(bare / "python3"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(MissingDependency):
        check_interpreter(frame())
    packages(tmp_path, NEEDED)
    check_interpreter(frame())
    monkeypatch.setattr(interpreter.subprocess, "run", None)
    check_interpreter(frame())
