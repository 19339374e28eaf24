"""Continuous queries of the Linear Road benchmark over car reports (`linear_road.py`), as texts.

Of these the k-constraints paper prints AccSeg (figure 12), with CurCarSeg inside it, and says that the joins of its
table 3 go by "cid". The others are written from what the paper and the benchmark say that they track; they are
windrow's own words for it.
"""

from __future__ import annotations

from windrow.spec import Constraint, Integrity, Unique

CUR_CAR_SEG = """
Select LastRep.cid, sid From
  (CarStr [Partition By cid Rows 1]) as LastRep,
  (Select distinct cid From CarStr [Range 30 seconds]) as CurActiveCars
Where LastRep.cid = CurActiveCars.cid
"""
"""The segment in which each car is that has reported within the last half minute."""

ACC_SEG = """
Select distinct sid From
  (Select cid, sid From
    (CarStr [Partition By cid Rows 1]) as LastRep,
    (Select distinct cid From
      CarStr [Range 30 seconds]) as CurActiveCars
    Where LastRep.cid = CurActiveCars.cid)
  as CurCarSeg,
  (Select cid
    From CarStr [Partition By cid Rows 4]
    Group By cid
    Having count (distinct xpos) = 1 and count(*) = 4)
  as AccCars
Where CurCarSeg.cid = AccCars.cid
"""
"""Segments with a car whose last four reports are from one place: figure 12, word for word."""

CAR_EXIT = f"""
Select Istream(Leaving.cid, CurCarSeg.sid) From
  (Select cid From CarStr [Now] Where lane = 4) as Leaving,
  ({CUR_CAR_SEG.strip()}) as CurCarSeg
Where Leaving.cid = CurCarSeg.cid
"""
"""Cars that leave the road (lane 4 is an exit), each with the segment in which it does: CarExitStr."""

ACC_NOTIFY = f"""
Select Istream(CurCarSeg.cid, AccSeg.sid) From
  ({CUR_CAR_SEG.strip()}) as CurCarSeg,
  ({ACC_SEG.strip()}) as AccSeg
Where CurCarSeg.sid = AccSeg.sid
"""
"""Cars in a segment with an accident, which are told of it, when they come into it or it happens."""

NEG_TOLL = f"""
Select Istream(Tolled.cid, Tolled.sid) From
  (Select CurCarSeg.cid, CurCarSeg.sid From
    ({CUR_CAR_SEG.strip()}) as CurCarSeg,
    (Select distinct sid From
      (Select sid From CarStr [Range 5 minutes] Group By sid Having avg(speed) < 60) as Slow)
    as TollSeg
    Where CurCarSeg.sid = TollSeg.sid)
  as Tolled,
  (Select cid From CarStr [Now] Where lane = 4) as Leaving
Where Tolled.cid = Leaving.cid
"""
"""Cars that leave the road in a segment that takes a toll (a slow one), which they get back: NegTollStr."""

SEG_AVG_SPEED = """
Select sid, avg(speed) as speed From CarStr [Range 5 minutes] Group By sid
"""
"""The average speed of the last five minutes in each segment."""

SEG_VOL = f"""
Select sid, count(*) as cars From ({CUR_CAR_SEG.strip()}) as CurCarSeg Group By sid
"""
"""How many cars are in each segment."""

SEG_TOLL = f"""
Select Slow.sid, 2 * (Vol.cars - 50) * (Vol.cars - 50) as toll From
  ({SEG_AVG_SPEED.strip()}) as Slow,
  ({SEG_VOL.strip()}) as Vol
Where Slow.sid = Vol.sid and Slow.speed < 40 and Vol.cars > 50
"""
"""The toll of segments that are slow and crowded, by the benchmark's formula with 50 cars as the bound."""

MANY_ONE = (Unique("CurActiveCars", "cid"),)
LEAVING = (*MANY_ONE, Unique("Leaving", "cid"))
ROAD_CONSTRAINTS: dict[str, tuple[Constraint, ...]] = {
    "CurCarSeg": MANY_ONE,
    "AccSeg": (*MANY_ONE, Unique("AccCars", "cid"), Integrity("CurCarSeg", "AccCars", "1 second")),
    "CarExitStr": (*LEAVING, Integrity("CurCarSeg", "Leaving", "1 second")),
    "NegTollStr": (*LEAVING, Integrity("Tolled", "Leaving", "1 second")),
}
"""The kinds of constraints that table 3 names, as these streams keep them.

Rows of a block leave it by deletions, so uniqueness is that of each moment (docs/constraints.md): a car is active, or
stands, or leaves once at a time, and the report that ends it replaces the one that has met it. A car that stops, or
leaves, says so in the report that puts it into CurCarSeg, so its partner comes at once. Segments are joined with cars
of which more come while an accident or a toll lasts, and either may come again: of these nothing is said.
"""

ROAD_QUERIES = {
    "CurCarSeg": CUR_CAR_SEG,
    "AccSeg": ACC_SEG,
    "CarExitStr": CAR_EXIT,
    "NegTollStr": NEG_TOLL,
    "AccNotifyStr": ACC_NOTIFY,
    "SegAvgSpeed": SEG_AVG_SPEED,
    "SegVol": SEG_VOL,
    "SegToll": SEG_TOLL,
}
