"""Can catch: a forged snapshot that is accepted and makes a kernel reach outside of its memory, or miscount.

The checksum only finds accidents. Everything is done in a process of its own, where kernels are plain Python that looks
at every index; `tests/forged.py` says what is done, and `make soak` does it thousands of times.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from windrow.policies import ALL

ROOT = Path(__file__).parents[2]
CASES, SEEDS = 240, 16


def test_forged_snapshots_are_refused_or_are_states_that_an_engine_can_be_in(pytestconfig):
    drawn = pytestconfig.getoption("hypothesis_seed", None)
    seed = int(drawn) if str(drawn).isdigit() else 1
    program = [sys.executable, "tests/forged.py", f"--cases={CASES}", f"--seeds={SEEDS}", f"--seed={seed}"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = dict(re.findall(r"^(\S+) +(\d+) refused", done.stdout, re.M))
    assert {policy.name for policy in ALL} <= found.keys()
    refused, ran = map(int, re.findall(r"^all +(\d+) refused +(\d+) accepted", done.stdout, re.M)[0])
    assert refused and ran and refused + ran == CASES
