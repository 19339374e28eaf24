"""The query texts that the k-constraints paper prints (1.1, 1.4, figure 12), on rows small enough to follow by hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

import windrow as wr
from windrow.lab.road_queries import ACC_NOTIFY, ACC_SEG, CAR_EXIT, CUR_CAR_SEG, NEG_TOLL, ROAD_QUERIES, SEG_TOLL

NOON = datetime(2024, 1, 1, 12)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def packets(*rows: tuple[float, int, int]) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array([at(60 * minute) for minute, _, _ in rows], pa.timestamp("us")),
            "pid": [pid for _, pid, _ in rows],
            "size": [size for _, _, size in rows],
        }
    )


def test_the_sum_over_three_links() -> None:
    """1.1: packets 1 and 2 pass all links; 3 is too slow for the windows; 4 is on the first link alone."""
    query = wr.cql("""
        Select  sum(C.size)
        From    C [Range 10 minutes], B [Range 10 minutes],
                O [Range 10 minutes]
        Where   C.pid = B.pid and B.pid = O.pid
    """)
    tables = {
        "C": packets((0, 1, 100), (1, 2, 50), (2, 3, 7), (3, 4, 9)),
        "B": packets((2, 1, 100), (3, 2, 50), (12.5, 3, 7)),
        "O": packets((4, 1, 100), (6, 2, 50), (14, 3, 7)),
    }
    result = query.run(tables)
    assert result.kind == "relation"
    sums = {minute: result.at(at(60 * minute))["sum(C.size)"].to_pylist() for minute in (3, 4, 6, 10, 10.5, 11, 12)}
    assert sums == {3: [], 4: [100], 6: [150], 10: [150], 10.5: [50], 11: [50], 12: [None]}
    assert result.last.to_pylist() == [{"sum(C.size)": None}]
    assert result.metrics is not None and result.metrics.matched == 2


def test_the_join_of_two_streams_with_a_filter() -> None:
    """1.4, with windows of two rows: the filter takes rows out of the window only after it has counted them."""
    text = "Select Istream(*) From S1 [Rows 2], S2 [Rows 2] Where S1.A = S2.A and S2.B > 10"
    s1 = pa.table({"n": [0, 5, 6], "A": [1, 2, 1]})
    s2 = pa.table({"n": [1, 2, 3, 4], "A": [1, 2, 2, 1], "B": [11, 12, 3, 4]})
    result = wr.cql(text).run({"S1": s1, "S2": s2}, time="n")
    assert result.table.to_pylist() == [{"at": 1, "S1_n": 0, "S1_A": 1, "S2_n": 1, "S2_A": 1, "B": 11}]
    longer = wr.cql(text.replace("S2 [Rows 2]", "S2 [Rows 50,000]")).run({"S1": s1, "S2": s2}, time="n")
    assert [(row["at"], row["S2_n"]) for row in longer.table.to_pylist()] == [(1, 1), (5, 2), (6, 1)]


def cars(*reports: tuple[int, int, int]) -> pa.Table:
    """Reports (second, car, mile)."""
    return pa.table(
        {
            "ts": pa.array([at(second) for second, _, _ in reports], pa.timestamp("us")),
            "cid": [car for _, car, _ in reports],
            "speed": [60] * len(reports),
            "lane": [4 if mile < 0 else 1 for _, _, mile in reports],
            "xpos": [abs(mile) * 5280 for _, _, mile in reports],
            "sid": [abs(mile) for _, _, mile in reports],
        }
    )


ROAD = cars(
    (0, 7, 3), (5, 8, 1), (30, 7, 3), (35, 8, 2), (60, 7, 3), (65, 8, 3), (90, 7, 3), (95, 8, 4), (120, 7, 3),
    (125, 8, -5), (150, 7, 4), (180, 7, 5),
)  # fmt: skip
"""Car 7 stands in mile 3 from second 0 to 120; car 8 drives a mile each time, and leaves at mile 5."""


def segments(text: str, second: float) -> list[Any]:
    table = wr.cql(text).run({"CarStr": ROAD}).at(at(second))
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_segments_of_active_cars() -> None:
    assert segments(CUR_CAR_SEG, 66) == [(7, 3), (8, 3)]
    assert segments(CUR_CAR_SEG, 155) == [(7, 4), (8, 5)]
    assert segments(CUR_CAR_SEG, 156) == [(7, 4)], "car 8 has been silent for more than half a minute"


def test_segments_with_accidents() -> None:
    """Figure 12: the fourth report from one place comes at second 90; the first from elsewhere at 150."""
    result = wr.cql(ACC_SEG).run({"CarStr": ROAD})
    assert result.table.to_pylist() == [{"since": at(90), "until": at(150), "sid": 3}]
    assert result.changes.to_pylist() == [
        {"at": at(90), "change": 1, "sid": 3},
        {"at": at(150), "change": -1, "sid": 3},
    ]


def test_cars_that_leave_and_cars_in_trouble() -> None:
    left = wr.cql(CAR_EXIT).run({"CarStr": ROAD})
    assert left.table.to_pylist() == [{"at": at(125), "cid": 8, "sid": 5}]
    told = wr.cql(ACC_NOTIFY).run({"CarStr": ROAD})
    assert told.table.to_pylist() == [{"at": at(90), "cid": 7, "sid": 3}, {"at": at(90), "cid": 8, "sid": 3}]


def test_cars_that_leave_get_their_toll_back() -> None:
    """Car 8 leaves in mile 5, where no car was slow; then in the same mile with one that is."""
    assert wr.cql(NEG_TOLL).run({"CarStr": ROAD}).table.num_rows == 0
    slow = ROAD.set_column(2, "speed", pa.array([60] * 9 + [50] + [60] * 2))  # the report with which it leaves
    back = wr.cql(NEG_TOLL).run({"CarStr": slow})
    assert back.table.to_pylist() == [{"at": at(125), "cid": 8, "sid": 5}]


def test_tolls_of_slow_and_crowded_segments() -> None:
    crowd = cars(*((second, car, 9) for second in (0, 30) for car in range(60)))
    crowd = crowd.set_column(2, "speed", pa.array([20] * 120))
    result = wr.cql(SEG_TOLL).run({"CarStr": crowd})
    assert result.at(at(30)).to_pylist() == [{"sid": 9, "toll": 2 * 10 * 10}]
    assert set(ROAD_QUERIES) >= {"CurCarSeg", "AccSeg", "CarExitStr", "NegTollStr"}


def test_what_explain_says_of_figure_12() -> None:
    """Joins that the paper finds many-one: LastRep -> CurActiveCars, and CurCarSeg -> AccCars."""
    said = wr.cql(ACC_SEG).explain().splitlines()
    assert "    many-one: LastRep -> CurActiveCars" in said
    assert "  many-one: CurCarSeg -> AccCars" in said
    assert "  covers: {CurCarSeg}" in said
    assert any(
        line.startswith("  constraints that could release rows: ") and "CurCarSeg -> AccCars" in line for line in said
    )
