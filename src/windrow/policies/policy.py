"""Policy: the base class of all rules for what to shed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from windrow import statistics
from windrow.record import Record


@dataclass(frozen=True)
class Policy(Record):
    """A rule that names the row to shed when the memory is full.

    A policy is configuration only. Expiring, counting and keeping to the budget belong to the engine, so a
    policy can choose badly but can neither break the budget nor miscount. Among rows it holds equal, the
    one that arrived later stays. Before any policy is asked, rows go whose window has all but passed: they
    could only match more rows of the present instant.

    A policy whose `needs_statistics` is true has a field `statistics`, the estimate that it decides by.
    """

    TAG = "name"

    name: ClassVar[str]
    paper: ClassVar[str]
    """Where the policy comes from."""
    rule: ClassVar[str]
    """The name of its file of kernels (see windrow/kernels/hooks.py)."""
    needs_statistics: ClassVar[bool]

    def __post_init__(self) -> None:
        if self.needs_statistics:
            self._set(statistics=statistics.resolve(getattr(self, "statistics")))  # noqa: B009
