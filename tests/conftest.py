"""Set-up shared by all tests: hypothesis profiles, and no stale kernels."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

KERNELS = Path(__file__).resolve().parents[1] / "src" / "windrow" / "kernels"

# A first example may compile a kernel, so neither a deadline nor "too slow" says anything about the code.
_COMMON = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
}
# dev: while writing; failures are remembered and tried first. ci: `make test`; nothing is remembered, so that
# the seed alone decides. thorough: a long search, `make test PROFILE=thorough SEED=random`.
settings.register_profile("dev", max_examples=25, **_COMMON)
settings.register_profile("ci", max_examples=30, database=None, **_COMMON)
settings.register_profile("thorough", max_examples=2_000, **_COMMON)
settings.load_profile("dev")


def pytest_configure(config: pytest.Config) -> None:
    """Drop numba's disk cache when a kernel source is newer than it.

    The cache of a kernel does not notice that a kernel it calls, in another file, has changed.
    """
    if hasattr(config, "workerinput"):  # an xdist worker: its controller has done this
        return
    cached = [*KERNELS.rglob("*.nbi"), *KERNELS.rglob("*.nbc")]
    edited = max((path.stat().st_mtime for path in KERNELS.rglob("*.py")), default=0.0)
    with suppress(FileNotFoundError):  # another run beside this one is doing the same
        if any(path.stat().st_mtime < edited for path in cached):
            for path in cached:
                path.unlink()
