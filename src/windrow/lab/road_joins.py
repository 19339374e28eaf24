"""The joins of four Linear Road queries as joins of streams of insertions, from the reports of cars.

Every car reports each half minute, so the reports of the last 30 seconds are the last report of every car that is
active, and a window of 30 seconds is `[Partition By cid Rows 1]` of active cars. What is unique at each moment is
unique for ever once the number of the report, or the minute, is part of its key; the answer is the same.

    CurCarSeg    LastRep -> CurActiveCars    on (cid, report)    the segment of each active car
    AccSeg       CurCarSeg -> AccCars        on (cid, report)    cars whose last four reports are from one place
    CarExitStr   CurCarSeg -> Leaving        on (cid, report)    cars that leave by an exit (lane 4)
    NegTollStr   CurCarSeg -> AccSeg         on (sid, minute)    cars in segments with an accident in the minute before,
                                                                 announced within its first second

Of these the paper prints AccSeg with CurCarSeg inside; the other two are written from what it says that they track. A
row that comes within the same second as its partner may come before or after it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.lab.kmon_joins import Join
from windrow.lab.linear_road import EXIT, LEAST_STOPPED, linear_road
from windrow.spec import Constraint, Integrity, Query, Stream, Unique

WINDOW = "30 seconds"
SECOND = 1_000_000
MINUTE = 60 * SECOND
SOON = "1 second"
CAR, PLACE = ["cid", "report"], ["sid", "minute"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class RoadJoin:
    """A join of parents to children on a key, and the constraints that the paper names for it."""

    join: Join
    constraints: tuple[Constraint, ...]


def road_joins(cars: int, seconds: int, accidents: float, seed: int) -> dict[str, RoadJoin]:
    """The four joins over the reports of so many cars."""
    reports = _numbered(linear_road(cars, seconds, accidents, seed))
    where = reports.select(["ts", "cid", "report", "sid"])
    still = reports["still"].to_numpy()
    stopped = reports.filter(pa.array(still >= LEAST_STOPPED)).select(["ts", "cid", "report"])
    leaving = reports.filter(pa.array(reports["lane"].to_numpy() == EXIT)).select(["ts", "cid", "report"])
    active = reports.select(["ts", "cid", "report"])
    return {
        "CurCarSeg": _joined("LastRep", where, "CurActiveCars", active, CAR, rids=False),
        "AccSeg": _joined("CurCarSeg", where, "AccCars", stopped, CAR),
        "CarExitStr": _joined("CurCarSeg", where, "Leaving", leaving, CAR),
        "NegTollStr": _joined("CurCarSeg", _with_minute(where), "AccSeg", _announced(reports, still), PLACE),
    }


def _joined(parent: str, many: pa.Table, child: str, one: pa.Table, key: list[str], rids: bool = True) -> RoadJoin:
    streams = [Stream(parent, "ts", WINDOW), Stream(child, "ts", WINDOW)]
    on = [f"{parent}.{column} = {child}.{column}" for column in key]
    query = Query(streams=streams, on=on, patience="0 s")  # rows come in order: no stream needs to be waited for
    found: tuple[Constraint, ...] = (Unique(child, key),)
    if rids:
        found += (Integrity(parent, child, SOON),)
    return RoadJoin(Join(query, {parent: many, child: one}), found)


def _numbered(reports: pa.Table) -> pa.Table:
    """Reports with their number among those of their car, and how many in a row are from the place of the last."""
    cid, xpos = reports["cid"].to_numpy(), reports["xpos"].to_numpy()
    order = np.argsort(cid, kind="stable")
    begins = np.diff(cid[order], prepend=-1) != 0
    moved = begins | (np.diff(xpos[order], prepend=-1) != 0)
    number, still = np.empty(len(cid), np.int64), np.empty(len(cid), np.int64)
    number[order], still[order] = _since(begins), _since(moved) + 1
    return reports.append_column("report", pa.array(number)).append_column("still", pa.array(still))


def _since(begins: NDArray[np.bool_]) -> Ints:
    """How many places each is behind the last beginning."""
    places = np.arange(len(begins))
    return places - np.maximum.accumulate(np.where(begins, places, 0))


def _ticks(table: pa.Table) -> Ints:
    return np.asarray(table["ts"].cast(pa.int64()).to_numpy())


def _with_minute(table: pa.Table) -> pa.Table:
    return table.append_column("minute", pa.array(_ticks(table) // MINUTE))


def _announced(reports: pa.Table, still: Ints) -> pa.Table:
    """Segments with a stopped car, once for each minute after one in which there was one, within its first second."""
    chosen = np.flatnonzero(still >= LEAST_STOPPED)
    minutes, sids = _ticks(reports)[chosen] // MINUTE + 1, reports["sid"].to_numpy()[chosen]
    found = np.unique(np.stack([minutes, sids], axis=1), axis=0)
    moments = (found[:, 0] * MINUTE + found[:, 1] * 1_000).astype("datetime64[us]")
    order = np.argsort(moments, kind="stable")
    return pa.table({"ts": moments[order], "sid": found[order, 1], "minute": found[order, 0]})
