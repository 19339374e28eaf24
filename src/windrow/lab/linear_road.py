"""Cars on an expressway that report where they are, in the manner of the Linear Road benchmark, of any size.

A constant number of cars is on the road. Each reports every 30 seconds, at a second of its own: when it enters (lane
0), on its way (lanes 1 to 3), and when it leaves by an exit (lane 4), upon which a new car with a new number takes its
place. Now and then a car stops where it is for at least four reports: an accident. The expressway is 100 miles long,
one segment a mile, in two directions; "sid" numbers segments of both, and "xpos" is a place on the whole road in feet.

All cars take a step together, so a second of the road costs the same per report at any size, and memory holds the cars,
not their history: `car_reports` gives a table for each round of 30 seconds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.errors import SpecError
from windrow.record import number, whole

EVERY = 30
"""Seconds between two reports of a car."""

MILE = 5_280
SEGMENTS = 100
START = np.datetime64("2024-01-01T00:00:00", "us")
ENTRY, EXIT = 0, 4
LEAST_STOPPED = 4
"""Reports that a stopped car makes from one place at least, so that it counts as an accident."""

SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us"), "cid": pa.int64(), "speed": pa.int64(), "lane": pa.int64(), "xpos": pa.int64(),
        "sid": pa.int64(),
    }
)  # fmt: skip

Ints = NDArray[np.int64]


class _Road:
    """All cars that are on the road, one in each place of the arrays."""

    def __init__(self, cars: int, rng: np.random.Generator) -> None:
        self.rng = rng
        self.cid = np.arange(cars, dtype=np.int64)
        self.next_cid = cars
        self.phase = rng.integers(0, EVERY, cars)
        self.direction = rng.integers(0, 2, cars)
        self.way = rng.integers(0, SEGMENTS * MILE, cars)  # feet from where the direction begins
        self.exit = self.way + self._trips(cars)
        self.speed = self._speeds(cars)
        self.stopped = np.zeros(cars, np.int64)  # reports still to come from the same place
        self.fresh = np.zeros(cars, np.bool_)

    def _trips(self, count: int) -> Ints:
        """Lengths of trips in feet: ten miles on average, at least one."""
        return (MILE * (1 + self.rng.standard_exponential(count) * 9)).astype(np.int64)

    def _speeds(self, count: int) -> Ints:
        return np.clip(self.rng.normal(60, 12, count), 20, 100).astype(np.int64)

    def step(self, accidents: float) -> tuple[Ints, Ints]:
        """Half a minute of driving; lanes and speeds of the reports that follow."""
        free = self.stopped == 0
        new = free & ~self.fresh & (self.rng.random(len(self.cid)) < accidents)
        self.stopped[new] = LEAST_STOPPED + self.rng.geometric(0.5, int(new.sum())) - 1
        moving = free & ~new & ~self.fresh
        drift = self.rng.integers(-5, 6, len(self.cid))
        self.speed = np.clip(self.speed + drift, 10, 100)
        self.way = np.where(moving, self.way + self.speed * MILE * EVERY // 3600, self.way)
        leaves = moving & ((self.way >= self.exit) | (self.way >= SEGMENTS * MILE))
        self.way = np.minimum(self.way, SEGMENTS * MILE - 1)
        lane = 1 + self.rng.integers(0, 3, len(self.cid))
        lane[self.fresh] = ENTRY
        lane[leaves] = EXIT
        speed = np.where(self.stopped > 0, 0, self.speed)
        self.stopped = np.maximum(self.stopped - 1, 0)
        self.fresh[:] = False
        self.leaving = np.flatnonzero(leaves)
        return lane, speed

    def place(self) -> tuple[Ints, Ints]:
        """Where cars are on the whole road, in feet, and in which segment."""
        xpos = np.where(self.direction == 0, self.way, 2 * SEGMENTS * MILE - 1 - self.way)
        return xpos, xpos // MILE

    def replace(self) -> None:
        """New cars enter where others have left."""
        gone, count = self.leaving, len(self.leaving)
        self.cid[gone] = self.next_cid + np.arange(count)
        self.next_cid += count
        self.direction[gone] = self.rng.integers(0, 2, count)
        self.way[gone] = self.rng.integers(0, (SEGMENTS - 1) * MILE, count)
        self.exit[gone] = self.way[gone] + self._trips(count)
        self.speed[gone] = self._speeds(count)
        self.stopped[gone] = 0
        self.fresh[gone] = True


def car_reports(cars: int, seconds: int, accidents: float = 0.0002, seed: int = 0) -> Iterator[pa.Table]:
    """Reports of `cars` cars for `seconds`, a table in order of time for every 30 seconds.

    `accidents` is the probability that a car stops at a report.

    >>> [table.num_rows for table in car_reports(cars=100, seconds=90)]
    [100, 100, 100]
    """
    cars, seconds = whole(cars, "cars", least=1), whole(seconds, "seconds")
    if not 0 <= number(accidents, "accidents") <= 1:
        raise SpecError(f"accidents is a probability, got {accidents}")
    road = _Road(cars, np.random.Generator(np.random.PCG64(whole(seed, "seed"))))
    order = np.argsort(road.phase, kind="stable")
    for begin in range(0, seconds, EVERY):
        lane, speed = road.step(accidents)
        xpos, sid = road.place()
        moments = START + ((begin + road.phase) * 1_000_000).astype("timedelta64[us]")
        here = order if begin + EVERY <= seconds else order[road.phase[order] < seconds - begin]
        columns = (moments, road.cid, speed, lane, xpos, sid)
        yield pa.table([pa.array(column[here]) for column in columns], schema=SCHEMA)
        road.replace()


def linear_road(cars: int, seconds: int, accidents: float = 0.0002, seed: int = 0) -> pa.Table:
    """All reports of `car_reports` in one table."""
    parts = list(car_reports(cars, seconds, accidents, seed))
    return pa.concat_tables(parts) if parts else SCHEMA.empty_table()
