"""Small plans, and blocks of words laid out for them, on which kernels can be tried without an engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.kernels import layout as at
from windrow.kernels import maintenance
from windrow.state import block
from windrow.state.plan import Plan
from windrow.state.probe_orders import first_route


def plan_of(streams: int = 2, pools: int = 1, bands: int = 0, directories: int = 1, **fields: Any) -> Plan:
    """A plan whose streams share keys, or so many integer columns compared by band predicates between neighbours."""
    windows = np.zeros((streams, at.Stream.offset - at.Stream.reach), np.int64)
    windows[:, 0], windows[:, 1], windows[:, 2] = at.HIGH, -at.HIGH, 1
    windows[:, at.Stream.pool - at.Stream.reach] = np.arange(streams) % pools
    lines = []
    for d in range(directories):
        for s in range(streams - 1):
            lines.append(_line(left=s, right=s + 1, left_col=d))
    for column in range(bands):
        lines.append(_line(kind=at.P_BAND, right=1, left_col=column, right_col=column, dims=1))
    return Plan(
        classes=np.tile(np.arange(directories), (streams, 1)).astype(np.int64),
        directories=directories,
        numbers=np.zeros((streams, bands), np.int64),
        preds=np.array(lines, np.int64).reshape(-1, at.PRED_SIZE),
        windows=windows,
        cap_rows=(at.HIGH,) * pools,
        cap_bytes=(at.HIGH,) * pools,
        **fields,
    )


def block_of(plan: Plan) -> np.ndarray:
    """The block of an empty shard, with its tables filled and its tournaments decided, as when rows have been shed."""
    words = block.start(plan, first_route(plan), emit=False)
    words[at.Head.ranking] = plan.ranked
    maintenance.rebuild(plan.hooks, words)
    return words


def _line(**words: int) -> np.ndarray:
    line = np.zeros(at.PRED_SIZE, np.int64)
    for name, word in words.items():
        line[getattr(at.Predicate, name)] = word
    return line
