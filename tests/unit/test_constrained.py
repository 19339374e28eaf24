"""Generated streams that keep constraints: that they do, with the distances, multiplicities and shares asked for.

Catches: a distance that is passed or not reached, a constraint that holds by accident, limits that do not change over
time, cars that report too often, jump, or stop for too short a time to count.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windrow as wr
from windrow.analysis.adherence import adherence, scrambling_distances
from windrow.errors import SpecError
from windrow.lab.constrained import Edge, fan_streams, limits, star_streams
from windrow.lab.linear_road import ENTRY, EVERY, EXIT, LEAST_STOPPED, MILE, car_reports, linear_road
from windrow.lab.traffic import network_links, unique_pair
from windrow.spec import Clustered, Constraint, Integrity, Ordered, Unique

STAR, FAN = ["S1.A = S2.A", "S1.B = S3.B"], ["S1.A = S3.A", "S2.A = S3.A"]


def found(tables: dict[str, pa.Table], on: list[str], *constraints: Constraint) -> list[Any]:
    query = wr.Query(streams=[wr.Stream(name, "t") for name in tables], on=on)
    return [a.holds if a.rows is None else a.rows for a in adherence(query, tables, constraints)]


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 6), st.integers(0, 99))
def test_a_star_keeps_its_distances(k: int, other: int, multiplicity: int, seed: int) -> None:
    edges = [Edge(multiplicity, distance=k), Edge(multiplicity, clustered=other, distance=k, dangling=0.2)]
    tables = star_streams(3_000, edges, seed)
    asked = [Unique("S2", "A"), Unique("S3", "B"), Integrity("S1", "S2"), Integrity("S1", "S3"), Clustered("S1", "B")]
    one, two, near, far, clustered = found(tables, STAR, *asked)
    assert (one, two) == (True, True)
    assert near <= k and far <= k and clustered <= other
    assert near >= 0.8 * min(k, tables["S2"].num_rows / 2)
    assert sorted(t for table in tables.values() for t in table["t"].to_pylist()) == list(
        range(sum(map(len, tables.values())))
    )


@given(st.integers(0, 300), st.sampled_from(["clustered", "scrambled"]), st.integers(0, 99))
def test_a_fan_keeps_its_distances(k: int, kind: str, seed: int) -> None:
    tables = fan_streams(4_000, [Edge(**{kind: k}), Edge(**{kind: k})], seed)  # type: ignore[arg-type]
    constraint = (
        (Clustered("S1", "A"), Clustered("S2", "A"))
        if kind == "clustered"
        else (Ordered("S1", "A"), Ordered("S2", "A"))
    )
    unique, one, two, *rest = found(
        tables, FAN, Unique("S3", "A"), Integrity("S1", "S3"), Integrity("S2", "S3"), *constraint
    )
    assert (unique, one, two) == (True, 0, 0)
    assert max(rest) <= k and min(rest) >= 0.8 * k


@given(st.integers(0, 200), st.floats(0, 0.5), st.integers(0, 99))
def test_a_child_out_of_order_is_so_among_those_that_come(k: int, dangling: float, seed: int) -> None:
    tables = star_streams(4_000, [Edge(child_scrambled=k, dangling=dangling)], seed)
    ((behind,),) = [found(tables, STAR[:1], Ordered("S2", "A"))]
    assert 0.6 * k - 1 <= behind <= k


def test_rows_have_the_asked_multiplicity_selectivity_and_share_without_a_child() -> None:
    tables = star_streams(60_000, [Edge(5, distance=50, dangling=0.25)], seed=1)
    parents, children = tables["S1"]["A"].to_numpy(), tables["S2"]["A"].to_numpy()
    assert abs(np.isin(parents, children).mean() - 0.75) < 0.01
    assert abs(len(parents) / len(np.unique(parents)) - 5) < 0.2
    assert abs((tables["S2"]["f"].to_numpy() < 30).mean() - 0.3) < 0.02
    assert found(tables, STAR[:1], Ordered("S1", "A"))[0] > len(parents) / 2, "no order by accident"


def test_limits_change_over_time() -> None:
    assert limits([(0, 0), (0.5, 0), (0.5, 100), (1, 100)], 4).tolist() == [0, 0, 100, 100]
    assert limits([(0, 0), (1, 100)], 4).tolist() == [12.5, 37.5, 62.5, 87.5]
    edge = Edge(child_scrambled=[(0, 500), (0.5, 500), (0.5, 10), (1, 10)], multiplicity=1)
    keys = star_streams(40_000, [edge], seed=2)["S2"]["A"].to_numpy()
    behind = scrambling_distances(keys)
    assert behind[:9_000].max() > 400 and 5 < behind[11_000:].max() <= 10


@pytest.mark.parametrize(
    "wrong",
    [{"multiplicity": 0}, {"dangling": 1.0}, {"clustered": 1, "scrambled": 1}, {"scrambled": 1, "child_scrambled": 1},
     {"distance": -1}, {"distance": [(1, 0), (0, 1)]}, {"distance": []}],
)  # fmt: skip
def test_edges_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        Edge(**wrong)


def test_packets_pass_links_in_order_and_in_time() -> None:
    tables = network_links(5, latency=(0.5, 0.25), seed=4)
    streams = [wr.Stream(name, "ts", "10 minutes") for name in tables]
    query = wr.Query(streams=streams, on=["C.pid = B.pid", "B.pid = O.pid"])
    kept = {
        str(a.constraint.with_(k=0)) if a.rows is not None else str(a.constraint): a for a in adherence(query, tables)
    }
    assert kept["B -> C within 0 rows"].rows == 0 and kept["O -> B within 0 rows"].rows == 0
    assert 0.4e9 < kept["C -> B within 0 rows"].time.amount <= 0.5e9  # type: ignore[union-attr]
    assert 0.2e9 < kept["B -> O within 0 rows"].time.amount <= 0.25e9  # type: ignore[union-attr]
    assert all(kept[f"{name} is unique on pid"].holds for name in tables)
    on_both = np.isin(tables["B"]["pid"].to_numpy(), tables["C"]["pid"].to_numpy()).sum()
    assert abs(on_both / tables["C"].num_rows - 0.1) < 0.02


def test_pairs_meet_once_and_soon() -> None:
    left, right = unique_pair(2_000, near=0.9, delay=2.0, seed=5)
    result = wr.join(left, right, on="id", time="ts", within="3 seconds")
    assert result.table.num_rows == 1_800 == right.num_rows
    assert len(set(left["id"].to_pylist())) == 2_000


def test_cars_report_every_half_minute_and_drive_on() -> None:
    table = linear_road(cars=300, seconds=1_200, accidents=0.01, seed=6)
    assert table.num_rows == 300 * 1_200 // EVERY
    times = table["ts"].to_numpy().astype("datetime64[s]").astype(np.int64)
    assert (np.diff(times) >= 0).all()
    order = np.lexsort((times, table["cid"].to_numpy()))
    when = times[order]
    cid, xpos, lane, speed = (table[name].to_numpy()[order] for name in ("cid", "xpos", "lane", "speed"))
    same = cid[1:] == cid[:-1]
    assert (np.diff(when)[same] == EVERY).all(), "one report each half minute, and none is left out"
    moved = np.abs(np.diff(xpos))[same]
    assert moved.max() <= 100 * MILE * EVERY // 3600 + 1
    stays = np.flatnonzero(same & (np.diff(xpos) == 0) & (speed[1:] == 0))
    assert len(stays)
    assert (table["sid"].to_numpy() == table["xpos"].to_numpy() // MILE).all()
    assert not (lane[:-1][same] == EXIT).any(), "after its exit a car is gone"
    assert not (lane[1:][same] == ENTRY).any(), "a car enters with its first report"
    assert (lane == EXIT).sum() > 50 and (lane == ENTRY).sum() > 50


def test_a_stopped_car_makes_four_reports_from_one_place() -> None:
    table = linear_road(cars=200, seconds=3_000, accidents=0.005, seed=7)
    table = table.sort_by([("cid", "ascending"), ("ts", "ascending")])
    cid, xpos, speed = (table[name].to_numpy() for name in ("cid", "xpos", "speed"))
    runs, length = [], 0
    for k in range(len(cid)):
        if speed[k] == 0 and k and cid[k] == cid[k - 1] and xpos[k] == xpos[k - 1]:
            length += 1
        else:
            runs, length = [*runs, length], 0
    finished = [run for run in runs if run]
    assert finished and min(finished[:-1]) >= 1
    assert sum(run + 1 >= LEAST_STOPPED for run in finished) > 0.8 * len(finished), "but for those cut by the end"


def test_the_seed_decides_the_road() -> None:
    one, other = (pa.concat_tables(car_reports(50, 300, 0.01, seed=seed)) for seed in (1, 1))
    assert one == other
    assert one != linear_road(50, 300, 0.01, seed=2)
    assert sum(table.num_rows for table in car_reports(10, 45)) in range(10, 21)
