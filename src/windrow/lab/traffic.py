"""Streams of packets and of pairs: a network with three links, and rows that have one partner each, soon or never."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.errors import SpecError
from windrow.record import number, whole

START = np.datetime64("2024-01-01T00:00:00", "us")
"""Where the clocks start."""

SECOND = 1_000_000  # microseconds

Ints = NDArray[np.int64]


def network_links(
    seconds: float,
    rates: tuple[float, float, float] = (1_000, 10_000, 1_000),
    onward: tuple[float, float] = (0.1, 0.1),
    latency: tuple[float, float] = (0.5, 0.5),
    seed: int = 0,
) -> dict[str, pa.Table]:
    """Packets on three links C -> B -> O, as the k-constraints paper's first example has them.

    A share `onward` of the packets on C goes on to B, and of those on B to O, each after at most `latency` seconds; the
    rest of a link's rate (rows per second) is other traffic, seen on that link alone. Columns: time "ts" in
    microseconds, packet "pid", "size" in bytes. A packet has one number, and one row on each link it passes.

    >>> tables = network_links(1, seed=1)
    >>> [table.num_rows for table in tables.values()]
    [1000, 10000, 1000]
    """
    rng = np.random.Generator(np.random.PCG64(whole(seed, "seed")))
    span = int(number(seconds, "seconds") * SECOND)
    counts = [int(number(rate, "a rate") * span / SECOND) for rate in rates]
    names = "CBO"
    times = rng.integers(0, max(span, 1), counts[0])
    pids = np.arange(counts[0], dtype=np.int64)
    free = counts[0]
    tables = {}
    for k, count in enumerate(counts):
        if k:
            passed = np.flatnonzero(rng.random(len(pids)) < onward[k - 1])[:count]
            late = (rng.random(len(passed)) * latency[k - 1] * SECOND).astype(np.int64)
            other = count - len(passed)
            times = np.concatenate([times[passed] + late, rng.integers(0, max(span, 1), other)])
            pids = np.concatenate([pids[passed], np.arange(free, free + other)])
            free += other
        tables[names[k]] = _packets(times, pids, rng)
    return tables


def _packets(times: Ints, pids: Ints, rng: np.random.Generator) -> pa.Table:
    order = np.argsort(times, kind="stable")
    sizes = rng.integers(40, 1_500, len(times))
    moments = START + times[order].astype("timedelta64[us]")
    return pa.table({"ts": moments, "pid": pids[order] * 2_654_435_761 % (1 << 40), "size": sizes})


def unique_pair(
    rows: int, seconds: float = 7_200.0, near: float = 0.95, delay: float = 1.0, seed: int = 0
) -> tuple[pa.Table, pa.Table]:
    """Requests and responses: each id has one row on each side, or only one on the left.

    A share `near` of the requests is answered within `delay` seconds; the others are not. Columns: time "ts" in
    microseconds, "id", and "amount".

    >>> left, right = unique_pair(1000, near=0.9, seed=3)
    >>> left.num_rows, right.num_rows
    (1000, 900)
    """
    rng = np.random.Generator(np.random.PCG64(whole(seed, "seed")))
    count = whole(rows, "rows")
    if not 0 <= number(near, "near") <= 1:
        raise SpecError(f"near is a share of the rows, from 0 to 1, got {near}")
    asked = np.sort(rng.integers(0, max(1, int(number(seconds, "seconds") * SECOND)), count))
    ids = rng.permutation(count)
    answered = np.sort(rng.permutation(count)[: round(count * near)])
    back = asked[answered] + (rng.random(len(answered)) * number(delay, "delay") * SECOND).astype(np.int64)
    order = np.argsort(back, kind="stable")
    return _events(asked, ids, rng), _events(back[order], ids[answered][order], rng)


def _events(times: Ints, ids: Ints, rng: np.random.Generator) -> pa.Table:
    moments = START + times.astype("timedelta64[us]")
    return pa.table({"ts": moments, "id": ids, "amount": rng.integers(1, 100_000, len(ids))})
