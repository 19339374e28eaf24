"""Which Python Spark's workers run, and whether windrow can run in it: told in one line before a query starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from functools import lru_cache
from typing import Any

from windrow.errors import MissingDependency

NEEDED = ("windrow", "numpy", "numba", "pyarrow", "pandas")
ADVICE = "set PYSPARK_PYTHON to this program's Python (sys.executable) before the session starts"

# Spark's own setting for functions on DataFrames comes before the variable that it reads when a session starts.
_SETTING, _VARIABLE, _DEFAULT = "spark.sql.execution.pyspark.python", "PYSPARK_PYTHON", "python3"
_PROBE = """
import sys
from importlib.util import find_spec
print("%d.%d" % sys.version_info[:2], *(name for name in sys.argv[1:] if find_spec(name) is None))
"""


def on_this_machine(frame: Any) -> bool:
    """Whether the workers of a frame's session surely run on this machine."""
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        return False
    master = frame.sparkSession.conf.get("spark.master", None) or ""
    return master == "local" or master.startswith("local[")


def check_interpreter(frame: Any) -> None:
    """Refuse a frame whose session runs on this machine with workers that cannot run windrow.

    Workers of a cluster, and of a server behind Spark Connect, cannot be seen from here: those are let pass.
    """
    if not on_this_machine(frame):
        return
    settings = frame.sparkSession.conf
    program = settings.get(_SETTING, None) or os.environ.get(_VARIABLE) or _DEFAULT
    paths = (settings.get("spark.executorEnv.PYTHONPATH", None), os.environ.get("PYTHONPATH"))
    sent = bool(settings.get("spark.submit.pyFiles", None))
    _check(program, os.pathsep.join(filter(None, paths)), os.environ.get("PATH"), sent)


@lru_cache(maxsize=16)  # which does not remember what was refused: that may have been mended since
def _check(program: str, paths: str, search: str | None, sent: bool) -> None:
    """Raise if workers surely fail; warn if only windrow is missing, which may still be sent to them as a file."""
    answer = _answer(program, paths, search)
    if answer is None:
        return
    if not answer:
        raise MissingDependency(f"Spark's workers would run {program!r}, which does not start: {ADVICE}")
    version, *missing = answer.split()
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if version != here:
        raise MissingDependency(
            f"Spark's workers would run {program!r}, Python {version}, and this is Python {here}: {ADVICE}"
        )
    told = f"Spark's workers would run {program!r}, which does not find {', '.join(missing)}: {ADVICE}"
    if missing == ["windrow"]:
        if not sent:
            warnings.warn(told, stacklevel=5)
    elif missing:
        raise MissingDependency(told)


def _answer(program: str, paths: str, search: str | None) -> str | None:
    """The version of a Python, and which packages it lacks; empty if it does not start, None if that is not known."""
    found = shutil.which(program, path=search)
    if found is None:
        in_a_folder_of_sparks = os.sep in program and not os.path.isabs(program)
        return None if in_a_folder_of_sparks else ""
    command, surroundings = [found, "-c", _PROBE, *NEEDED], {**os.environ, "PYTHONPATH": paths}
    try:
        done = subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=60, check=True)
    except subprocess.TimeoutExpired:
        return None
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.splitlines()[-1]
