"""The program `windrow` in a process of its own: how it starts, and its ways out.

They catch an entry point that does not start, imports that make help slow, a traceback where output cannot be written,
and a half-written file that stays when the process is asked to end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from windrow.cli import TERMINATED

SOURCE = Path(__file__).resolve().parents[2] / "src"
JOIN = ["join", "left.csv", "right.jsonl", "--on", "user_id", "--time", "ts", "--within", "5", "-o", "out.parquet"]
LEFT = "user_id,ts,price\n1,0,5.5\n2,1,6.5\n1,5,7.5\n3,6,1.0\n2,7,\n"
RIGHT = [{"user_id": 1, "ts": 2}, {"user_id": 1, "ts": 9}, {"user_id": 2, "ts": 3}, {"user_id": 4, "ts": 4}]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two small files, which is the current one."""
    (tmp_path / "left.csv").write_text(LEFT)
    (tmp_path / "right.jsonl").write_text("".join(json.dumps(row) + "\n" for row in RIGHT))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_program_itself(files: Path) -> None:
    command = [sys.executable, "-m", "windrow.cli", *JOIN, "--json"]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["matched"] == 5
    assert sorted(os.listdir()) == ["left.csv", "out.parquet", "right.jsonl"]


def test_help_comes_without_the_engine(files: Path) -> None:
    """What the command line imports before it runs a command: neither numba nor pyarrow."""
    code = """
import sys, types
windrow = sys.modules["windrow"] = types.ModuleType("windrow")  # instead of windrow/__init__.py
windrow.__path__ = [sys.argv[1]]
import windrow.cli
print([name for name in ("numba", "pyarrow", "numpy", "matplotlib") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(SOURCE / "windrow")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "[]"


# ------------------------------------------------------------------------------------------ the way out


def program(before: str, stdout: Any = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """A run of the program in a process of its own, after some lines of Python."""
    code = f"import sys\nfrom windrow.cli import main\nsys.argv[:] = {['windrow', *JOIN]!r}\n{before}\nmain()"
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    streams = {"stdout": stdout, "stderr": subprocess.PIPE}
    return subprocess.run([sys.executable, "-c", code], env=env, **streams, text=True, timeout=300, check=False)


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What the program said of its end; before it there may be a notice that kernels are compiled."""
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("windrow: ")]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_output_that_cannot_be_written_is_one_line(files: Path) -> None:
    """First as JSON, then, in the same process with the same output, as a table."""
    before = """
import os
full = os.dup(1)
sys.argv.append("--json")
try:
    main()
except SystemExit as end:
    assert end.code == 1, end.code
os.dup2(full, 1)
sys.argv.pop()
"""
    with open("/dev/full", "w") as full:
        done = program(before, stdout=full)
    assert done.returncode == 1
    assert said(done) == 2 * ["windrow: standard output: writing failed: No space left on device"]


def test_a_program_that_is_asked_to_end_leaves_no_file_behind(files: Path) -> None:
    """And one that is asked again while it clears away."""
    before = """
import os, signal
from windrow.files import writer
writer.Writer.write = lambda *_: os.kill(os.getpid(), signal.SIGTERM)
drop = writer.Writer._drop
writer.Writer._drop = lambda self: (os.kill(os.getpid(), signal.SIGTERM), drop(self))
"""
    done = program(before)
    assert done.returncode == TERMINATED
    assert said(done) == ["windrow: terminated"]
    assert sorted(os.listdir()) == ["left.csv", "right.jsonl"]
