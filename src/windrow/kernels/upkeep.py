"""What a shard's owner asks for between batches."""

from typing import Any

from windrow.kernels import directory, tournament
from windrow.kernels.estimate import hist_learn
from windrow.kernels.jit import entry
from windrow.kernels.layout import DIR_SIZE, HIST_SIZE, HISTS_AT, KEY_IDLE
from windrow.kernels.memory import memory_of
from windrow.kernels.retain import expire_all, move_watermark, shed
from windrow.kernels.score import clock, ranked, touch_all


@entry
def rebuild(block: Any) -> None:
    """Fill the directories' tables and decide the tournaments, from the records."""
    m = memory_of(block)
    for d in range(m.dirs):
        directory.refill(m, d)
    if ranked(m):
        for pool in range(m.pools):
            tournament.rebuild(m, pool, clock(m))


@entry
def reconsider(block: Any) -> None:
    """After windows or caps have changed: expire, rank anew, shed."""
    m = memory_of(block)
    move_watermark(m)
    expire_all(m)
    touch_all(m)
    shed(m)


@entry
def forget_keys(block: Any, d: int, keys: Any) -> None:
    """Forget keys that have no residents."""
    m = memory_of(block)
    for key in keys:
        directory.remove(m, d, key)
        m.w[m.dirs_at + d * DIR_SIZE + KEY_IDLE] -= 1


@entry
def learn_histogram(block: Any, hist: int, numbers: Any, weights: Any) -> None:
    """Count many values in one histogram."""
    m = memory_of(block)
    for k in range(numbers.shape[0]):
        hist_learn(m, m.w[HISTS_AT] + hist * HIST_SIZE, numbers[k], weights[k])
