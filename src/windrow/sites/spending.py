"""Spending: how often streams are surveyed, so that it costs no more than a share of what the plan ships.

A check costs a message from each stream and one to each site, even if it brings three numbers only; keys cost more. The
share is earned as bytes are shipped, by the model's word, and spent by checks:

    gap    so many times the shortest distance to the next check, that at most half of what is earned until then goes
           for messages without keys
    keys   are asked for when what is left pays for them, and then only after a rest. The rest is twice as long after
           each survey of keys that changed nothing, and as short as can be after a change

The first survey has keys, and is paid for afterwards.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

MOST_GAP = 64  # times the shortest distance between two checks
MOST_REST = 8  # checks


@dataclass
class Spending:
    """What surveys have cost and may cost, in bytes."""

    share: float  # of what is shipped
    brief: float  # what a check without keys costs
    full: float = 0.0  # what the last one with keys has cost
    left: float = 0.0  # earned and not spent
    rest: int = 1  # checks between two with keys
    since: int = 0  # checks since the last one with keys

    def settle(self, shipped: float, spent: float, keys: bool, changed: bool) -> None:
        """A check is over: what was shipped since the last one, what it cost, whether it had keys, and whether rates or
        the plan have changed."""
        self.left += self.share * shipped - spent
        self.since += 1
        if keys:
            self.full, self.since = spent, 0
            self.rest = min(2 * self.rest, MOST_REST)
        if changed:
            self.rest = 1
        self.left = min(self.left, 2 * self.full)

    def next(self, shipped: float) -> tuple[int, bool]:
        """When the next check is, and whether it has keys, if so much is shipped in the shortest distance."""
        earned = self.share * shipped
        gap = MOST_GAP if earned <= 0 else max(1, min(MOST_GAP, ceil(2 * self.brief / earned)))
        return gap, self.since + 1 >= self.rest and self.left + gap * earned >= self.full

    def state(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)
