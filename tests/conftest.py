"""Set-up shared by all tests: hypothesis profiles."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

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
