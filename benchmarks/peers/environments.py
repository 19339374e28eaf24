"""Virtual environments for the peers, made once under a cache folder: their dependencies do not go together."""

import os
import subprocess
import sys
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "windrow" / "peers"


class NotHere(Exception):
    """A peer cannot be installed or run here; says why."""


def environment(package: str) -> Path:
    """The Python of the environment with a package, installed if it is not there yet."""
    folder = CACHE / f"{package}-py{sys.version_info.major}{sys.version_info.minor}"
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        print(f"installing {package} into {folder} (once; some minutes) ...", flush=True)
        _run([sys.executable, "-m", "venv", "--clear", str(folder)], f"no virtual environment for {package}")
        _run([str(python), "-m", "pip", "install", "-q", "setuptools<81", package], f"{package} cannot be installed")
        (folder / "installed").touch()
    return python


def _run(command: list[str], failure: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise NotHere(f"{failure}: {(done.stderr or done.stdout).strip()[-500:]}")
