"""What to shed when the memory is full: one file per policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windrow import record
from windrow.errors import UnknownPolicy
from windrow.policies.age import Age
from windrow.policies.auto import Auto
from windrow.policies.fifo import Fifo
from windrow.policies.given import Given
from windrow.policies.greedy_dual import GreedyDual
from windrow.policies.life import Life
from windrow.policies.life_expected import LifeExpected
from windrow.policies.policy import Policy
from windrow.policies.prob import Prob
from windrow.policies.rand import Rand

__all__ = [
    "ALL", "Age", "Auto", "Fifo", "Given", "GreedyDual", "Life", "LifeExpected", "Policy", "Prob", "Rand", "by_name",
    "resolve",
]  # fmt: skip

ALL: tuple[type[Policy], ...] = (Rand, Fifo, Prob, Life, LifeExpected, GreedyDual, Age, Auto)
"""The policies that need nothing but the streams."""

_KNOWN = (*ALL, Given)


def by_name(name: str) -> type[Policy]:
    """The class of the policy called `name`."""
    return record.by_tag(name, _KNOWN, "policy", UnknownPolicy)


def resolve(value: str | Policy | Mapping[str, Any]) -> Policy:
    """The policy that `value` stands for: itself, a name (with defaults), or what `to_dict` wrote."""
    return record.resolve(value, Policy, _KNOWN, "policy", UnknownPolicy)
