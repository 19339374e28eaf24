"""Set-up shared by all tests: hypothesis profiles, and which tests share a process."""

from __future__ import annotations

import gc
import sys
from functools import cache
from typing import Any

import pytest
import typer.testing
from hypothesis import HealthCheck, settings

# A first example may compile a kernel, so neither a deadline nor "too slow" says anything about the code.
_COMMON = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
}
# dev: while writing; failures are remembered and tried first. ci: `make test`; nothing is remembered, so that
# the seed alone decides. thorough: a long search, `make test PROFILE=thorough SEED=random`, and `make contract`.
settings.register_profile("dev", max_examples=25, **_COMMON)
settings.register_profile("ci", max_examples=100, database=None, **_COMMON)
settings.register_profile("thorough", max_examples=2_000, **_COMMON)
settings.load_profile("dev")

# Tests call the command line some thousand times in one process, and every call would read all signatures again.
typer.testing._get_command = cache(typer.testing._get_command)


# A file is not divided between processes: the longest come first, so that all processes end at about the same time.
# What shares a Spark session is one such piece; the others here take ten seconds or more with cold kernels.
_LONGEST = (
    "tests/spark/", "tests/contract/test_generated.py", "tests/unit/test_readme.py", "tests/contract/test_policies.py",
    "tests/contract/test_stages.py", "tests/contract/test_shards.py", "tests/unit/test_tracker", "tests/oracle/",
    "tests/contract/test_budget.py", "tests/contract/test_sites_replan.py", "tests/contract/test_nonsense_cli.py",
    "tests/contract/test_joins.py", "tests/contract/test_departures.py", "tests/contract/test_sites",
    "tests/contract/test_changes.py", "tests/unit/test_kernels_", "tests/contract/test_queue.py",
    "tests/unit/test_compile", "tests/contract/test_given_clock.py", "tests/contract/test_sampler.py",
    "tests/unit/test_snapshot.py", "tests/unit/test_static.py", "tests/unit/test_optimum",
    "tests/unit/test_greedy_dual.py", "tests/unit/test_live_change.py", "tests/unit/test_analysis.py",
    "tests/unit/test_demo.py", "tests/unit/test_with.py", "tests/unit/test_sites_planners.py", "tests/unit/test_warm",
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--write-readme`: tests/unit/test_readme.py writes what programs print instead of comparing it."""
    parser.addoption("--write-readme", action="store_true", help="write what the README's programs print below them")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, the rest as they were."""

    def place(item: pytest.Item) -> int:
        return next((k for k, start in enumerate(_LONGEST) if item.nodeid.startswith(start)), len(_LONGEST))

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """What is loaded by now stays: to look through it for garbage again and again is a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_unconfigure() -> None:
    """At the end all is looked through: libraries tell of what is left over then."""
    gc.unfreeze()


def pytest_runtest_setup() -> None:
    """No test sees what another has bound, maybe under constants of its own."""
    binding = sys.modules.get("windrow.engine.bind")
    if binding is not None:
        binding._bound.cache_clear()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile`, the files of tests/spark go to one worker: they share a Spark session."""
    from xdist.scheduler import LoadFileScheduling

    class OneSession(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return "tests/spark" if nodeid.startswith("tests/spark/") else super()._split_scope(nodeid)

    return OneSession(config, log) if config.getoption("dist") == "loadfile" else None
