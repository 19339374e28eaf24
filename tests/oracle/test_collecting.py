"""Joins of some thousand rows, many collections long, give what they give without constraints, in no more memory.

Catches what few rows do not reach: residents that no collection looks at any more (those whose partner has expired, or
that waited behind others), a sweep that loses its place when a row it stands on goes, refused rows that take more room
than the parents they tell, the pace of collections after a restore.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow.lab.constrained import Edge
from windrow.lab.experiments import kmon_ca, kmon_oac, kmon_oap, kmon_rids
from windrow.lab.kmon_joins import Join, star

ROWS, WINDOW = 24_000, 2_000
KINDS = {"RIDS": kmon_rids.SERIES, "CA": kmon_ca.SERIES, "OAP": kmon_oap.SERIES, "OAC": kmon_oac.SERIES}


def held(join: Join, constraints: Sequence[wr.Constraint] | wr.Monitored, restore: bool) -> tuple[Any, float, Any]:
    """The matches, the mean of the bytes held in the second half, and the last metrics."""
    engine, found, sizes = join.engine(constraints), Counter[tuple[Any, ...]](), []
    for k, part in enumerate(join.slices(30)):
        table: pa.Table = engine.push(part)
        found.update(zip(*(column.to_pylist() for column in table.columns), strict=True))
        sizes.append(engine.metrics.resident_bytes)
        if restore and k % 7 == 3:
            engine = wr.Engine.restore(engine.snapshot())
    return found, sum(sizes[15:]) / 15, engine.metrics


@pytest.mark.parametrize("k", [0, 40, 700])
@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_without_constraints_in_less_memory(kind: str, k: int) -> None:
    join = KINDS[kind].join(k, k + 1, ROWS, WINDOW)
    plain, size, _ = held(join, (), False)
    found, less, metrics = held(join, KINDS[kind].constraints(k), k == 40)
    assert found == plain and plain.total() > 500
    assert all(one.violations == 0 for one in metrics.constraints.values())
    assert less < size * (1.15 if kind == "RIDS" else 0.95), f"{less / size:.0%} of what is held without constraints"


@pytest.mark.parametrize("children", [2, 3])
def test_unique_keys_alone_take_no_more_memory(children: int) -> None:
    """Rows that filters refuse are not kept where they would stay for longer than the parents that they tell."""
    join = star([Edge(distance=100)] * children, 3, ROWS, WINDOW)
    unique = [wr.Unique(f"S{k + 2}", "ABC"[k]) for k in range(children)]
    plain, size, _ = held(join, (), False)
    found, less, metrics = held(join, unique, True)
    assert found == plain and plain.total() > 500
    assert less < 1.05 * size, f"{less / size:.0%} of what is held without constraints"
    assert metrics.released > 0 and all(one.released > 0 for one in metrics.constraints.values())


def test_refused_rows_stay_where_many_parents_follow_few_of_them() -> None:
    """One child for fifty parents, half of the children refused: their parents are not stored."""
    rng = np.random.default_rng(5)
    keys = np.sort(rng.integers(0, 400, 20_000))
    parents = pa.table({"t": np.arange(20_000), "k": keys})
    children = pa.table({"t": np.searchsorted(keys, np.arange(400)), "k": np.arange(400), "f": np.arange(400) % 2})
    streams = [wr.Stream("p", "t", 4_000), wr.Stream("c", "t", 4_000, where=[wr.Filter("f", "=", 0)])]
    query = wr.Query(streams=streams, on="k", constraints=[wr.Unique("c", "k")])
    engine, plain = wr.Engine(query), wr.Engine(query.with_(constraints=None))
    for start in range(0, 20_000, 500):
        batch = {name: table.filter((table["t"].to_numpy() >= start) & (table["t"].to_numpy() < start + 500))
                 for name, table in (("p", parents), ("c", children))}  # fmt: skip
        assert engine.push(batch).num_rows == plain.push(batch).num_rows
    assert engine.metrics.streams["p"].resident_rows < 200 < 3_000 < plain.metrics.streams["p"].resident_rows


def test_parents_go_with_a_child_that_expires() -> None:
    """a -> b -> c in windows without end but c's: what waits for nobody any more leaves, over two edges."""
    count = 12_000
    rng = np.random.default_rng(6)
    when = np.arange(count)
    tables = {
        "c": pa.table({"t": when, "y": when}),
        "b": pa.table({"t": when, "x": when, "y": when}),
        "a": pa.table({"t": when, "x": np.maximum(when - rng.integers(0, 300, count), 0), "z": when}),
        "d": pa.table({"t": when, "z": rng.permutation(count)}),  # of which most come when c has expired
    }
    streams = [wr.Stream(name, "t", 200 if name == "c" else wr.Window.unbounded()) for name in tables]
    on = ["a.x = b.x", "b.y = c.y", "a.z = d.z"]
    promised = [wr.Unique("b", "x"), wr.Unique("c", "y"), wr.Unique("d", "z"), wr.Integrity("b", "c", k=0)]
    query = wr.Query(streams=streams, on=on, order="arrival")
    engine, plain = wr.Engine(query.with_(constraints=promised)), wr.Engine(query)
    for start in range(0, count, 400):
        batch = {name: table.slice(start, 400) for name, table in tables.items()}
        assert engine.push(batch).num_rows == plain.push(batch).num_rows
    found = {name: stream.resident_rows for name, stream in engine.metrics.streams.items()}
    assert found["a"] < 2_000 and plain.metrics.streams["a"].resident_rows == count, found
