"""`windrow compile`, and what it leaves for others.

Catches: a kernel that a join calls and no rehearsal, a policy that is not rehearsed, progress that nobody sees.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from windrow import policies, rehearsal
from windrow.cli import app

SOURCE = Path(__file__).parents[2] / "src"
PROGRAM = """
import pyarrow as pa
from numba.core import event
import windrow as wr

class Compiled(event.Listener):
    def on_start(self, event):
        print(event.data["dispatcher"], event.data["args"])
    def on_end(self, event):
        pass

event.register("numba:compile", Compiled())
rows = pa.table({"ts": range(3000), "k": [f"{row * row % 401}" for row in range(3000)]})
left, right = rows, rows.slice(5)
exact = wr.join(left, right, on="k", time="ts", within=500)
capped = wr.join(left, right, on="k", time="ts", within=500, memory="100 kB", policy="fifo")
engine = wr.Engine(wr.Query(streams=[wr.Stream(n, "ts", 500) for n in "ab"], on="k", memory=300, policy="fifo"))
engine.push({"a": left, "b": right})
engine = wr.Engine.restore(engine.snapshot())
engine.memory = 100
assert 0 < engine.metrics.matched < capped.metrics.matched < exact.metrics.matched, "all of it has happened"
"""


def started(*words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, *words], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_who_comes_after_it_compiles_nothing() -> None:
    """Into the folder of these tests, where most of it is already."""
    kinds = ("--policy", "fifo", "--policy", "exact", "--streams", "2")
    done = started("-m", "windrow", "compile", *kinds, "--json")
    told = json.loads(done.stdout)
    assert set(told["seconds"]) == {"fifo, two streams", "exact, two streams"}
    assert sorted(line.rpartition(":")[0] for line in done.stderr.splitlines()) == sorted(told["seconds"])
    files = list(Path(told["folder"]).rglob("*.nbc"))
    assert told["functions"] == len(files) > 0 and told["bytes"] == sum(path.stat().st_size for path in files)
    after = started("-c", PROGRAM)
    assert (after.stdout, after.stderr) == ("", "")
    assert set(Path(told["folder"]).rglob("*.nbc")) == set(files)


def test_all_policies_are_rehearsed() -> None:
    names = {"exact", "given", *(policy.name for policy in policies.ALL)}
    found = rehearsal.cases()
    assert {str(case) for case in found[:-1]} == {f"{name}, {n} streams" for name in names for n in ("two", "several")}
    assert [str(case) for case in rehearsal.cases(["prob", "prob"], streams=4)] == ["prob, several streams"]
    assert [str(case) for case in rehearsal.cases(["prob", "exact"], 2)] == ["exact, two streams", "prob, two streams"]


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["--policy", "best"], 1, "windrow: there is no policy 'best'. Known names: exact, rand"),
        (["--streams", "1"], 2, "--streams"),
        (["--jobs", "0"], 2, "--jobs"),
    ],
)
def test_what_there_is_not_is_refused_in_a_line(words: list[str], code: int, line: str) -> None:
    done = CliRunner().invoke(app, ["compile", *words])
    assert done.exit_code == code and line in done.stderr and done.stderr.count("\n") == 1


def test_where_nothing_can_be_written_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windrow.kernels.compiled.FOLDER", None)
    done = CliRunner().invoke(app, ["compile"])
    assert done.exit_code == 1 and "NUMBA_CACHE_DIR" in done.stderr and done.stderr.count("\n") == 1


def test_its_help_has_an_example() -> None:
    assert "Example:" in CliRunner().invoke(app, ["compile", "--help"]).stdout
