"""Who will arrive next: the estimates that policies decide by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windrow import record
from windrow.statistics.decayed import Decayed
from windrow.statistics.oracle import Oracle
from windrow.statistics.running import Running
from windrow.statistics.sketch import Sketch
from windrow.statistics.statistic import Statistic

__all__ = ["ALL", "Decayed", "Oracle", "Running", "Sketch", "Statistic", "by_name", "resolve"]

ALL: tuple[type[Statistic], ...] = (Oracle, Running, Decayed, Sketch)


def by_name(name: str) -> type[Statistic]:
    """The class of the statistic called `name`."""
    return record.by_tag(name, ALL, "statistic")


def resolve(value: str | Statistic | Mapping[str, Any]) -> Statistic:
    """The statistic that `value` stands for: itself, a name (with defaults), or what `to_dict` wrote."""
    return record.resolve(value, Statistic, ALL, "statistic")
