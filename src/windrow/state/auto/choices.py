"""What a shard of the rule AUTO can go by: ways to count how often partners arrive."""

from __future__ import annotations

from dataclasses import dataclass

from windrow.kernels import layout as at


@dataclass(frozen=True)
class Choice:
    """A way to count: recent arrivals with a half-life, a part of a window, or all, or both; of partners or pooled."""

    part: int = 0  # the half-life is a window over this; 0: all arrivals count the same
    pooled: bool = False  # over the streams
    mixed: bool = False  # all arrivals beside the recent ones, with as much weight in sum

    @property
    def word(self) -> int:
        """As the kernels read it."""
        return bool(self.part) * at.BRIEF | self.pooled * at.POOLED | self.mixed * at.MIXED


CHOICES = (
    Choice(), Choice(64, mixed=True), Choice(64, pooled=True, mixed=True), Choice(pooled=True), Choice(64, pooled=True),
    Choice(8), Choice(64),
)  # fmt: skip
# what a shard goes by before its first trial, and from then on until something else has proved better: mixed counts are
# the best of all where one has to serve all streams, and beside them plain ones are not worth a fork
PLAIN, USUAL = 0, 1
TRIED = len(CHOICES) - 1
USUAL_PART = 8  # of the half-life while all arrivals count the same, so that recent ones are known when asked for
