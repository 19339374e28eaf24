"""Constraints on Spark: each shard releases by what it sees, in checkpoints like everything else.

Catches: a shard that takes a part of the streams for all of them; a restart that forgets what had come; metrics that do
not say what is released by.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.running import assert_same, multiset
from tests.spark.driving import Driven, batches, query
from tests.spark.folders import write_files
from tests.spark.joining import collected, started, streamed

import windrow as wr
from windrow.lab.traffic import network_links, unique_pair

LINKS = ("C", "B", "O")


def links(constraints: Any) -> wr.Query:
    streams = [wr.Stream(name, "ts", "10 minutes", "1 second") for name in LINKS]
    on = ["C.pid = B.pid", "B.pid = O.pid"]
    select = {f"{name.lower()}_size": f"{name}.size" for name in LINKS} | {"pid": "C.pid"}
    return wr.Query(streams=streams, on=on, select=select, constraints=constraints)


def pieces(table: pa.Table, count: int = 4) -> list[pa.Table]:
    size = -(-table.num_rows // count)
    return [table.slice(start, size) for start in range(0, table.num_rows, size)]


def test_three_links_of_a_network(spark: Any, tmp_path: Path) -> None:
    """The first query of the k-constraints paper: the same packets as the join of all rows, most of them released."""
    tables = network_links(4, rates=(500, 2_000, 500), onward=(0.5, 0.5), seed=3)
    for name, table in tables.items():
        write_files(tmp_path / name, pieces(table))
    engine = wr.Engine(links(None))
    exact = multiset(engine.push(tables))
    frames = {name: streamed(spark, tmp_path / name) for name in LINKS}
    unique = [wr.Unique(name, "pid") for name in LINKS]
    soon = [wr.Integrity("C", "B", k="1 second"), wr.Integrity("B", "O", k="1 second")]
    running, name = started(links([*unique, *soon]).on_spark(frames, shards=3))
    metrics = wr.spark.metrics(running)
    running.awaitTermination()
    assert_same(multiset(spark.table(name).toArrow()), exact, "three links")
    total = metrics.total(LINKS)
    assert exact.total() > 50 and total.released > exact.total()
    assert total.constraints["C is unique on pid"].used and total.constraints["C is unique on pid"].violations == 0


def test_monitors_go_on_from_a_checkpoint(spark: Any, tmp_path: Path) -> None:
    """What was found by watching before a restart is used after it, and metrics say which constraints these are."""
    left, right = unique_pair(4_000, seconds=400.0, seed=2)
    for name, table in (("left", left), ("right", right)):
        write_files(tmp_path / name, pieces(table, 6))
    exact = multiset(wr.join(left, right, on="id", time="ts", within="1 minute").table)
    options = {"on": "id", "time": "ts", "within": "1 minute", "lateness": "5 seconds", "shards": 2}
    watching = wr.Monitored(reaction=200)
    for most in (3, 6):
        sides = [streamed(spark, _some(tmp_path / name, tmp_path / f"some-{name}", most)) for name in ("left", "right")]
        matches = wr.join(*sides, **options, constraints=watching)
        writer = matches.writeStream.format("parquet").trigger(availableNow=True)
        running = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(str(tmp_path / "rows"))
        metrics = wr.spark.metrics(running)
        running.awaitTermination()
    known = metrics.total(("left", "right")).constraints
    assert known["left is unique on id"].used and known["right is unique on id"].used
    assert known["left -> right"].measured > 0 and known["left -> right"].k is not None
    assert metrics.to_dict()["released"] > exact.total()
    assert all(shard["constraints"].keys() == known.keys() for shard in metrics.to_dict()["shards"].values())
    found = multiset(spark.read.parquet(str(tmp_path / "rows")).toArrow())
    assert found <= exact and found.total() >= 0.99 * exact.total()


def test_repair_gives_back_what_was_shed_beside_constraints(spark: Any, tmp_path: Path) -> None:
    """Catches a repair whose joins release by constraints of the streams, which their own inputs do not keep."""
    random = np.random.default_rng(5)
    tables = dict(zip(("left", "right"), unique_pair(1_500, seconds=150.0, seed=4), strict=True))
    for name, table in tables.items():
        early = table["ts"].cast(pa.int64()).to_numpy() + random.integers(0, 4_000_000, table.num_rows)
        tables[name] = table.take(pa.array(np.argsort(early, kind="stable")))  # out of order by up to 4 seconds
        write_files(tmp_path / name, pieces(tables[name], 3))
    exact = multiset(wr.join(*tables.values(), on="id", time="ts", within="1 minute").table)
    matches = wr.join(
        *(streamed(spark, tmp_path / name) for name in tables), on="id", time="ts", within="1 minute",
        lateness="5 seconds", memory=12, policy="fifo", shards=2, archive=tmp_path / "lost",
        constraints=[wr.Unique("left", "id"), wr.Unique("right", "id")],
    )  # fmt: skip
    found = multiset(collected(matches))
    sides = [spark.read.parquet(str(tmp_path / name)) for name in tables]
    missed = multiset(wr.repair(tmp_path / "lost", *sides).toArrow())
    assert missed.total() > 50 < found.total()
    assert_same(found + missed, exact, "output and repair")


def _some(source: Path, target: Path, most: int) -> Path:
    """The first files of a folder, in another."""
    target.mkdir(exist_ok=True)
    for file in sorted(source.iterdir())[:most]:
        if not (target / file.name).exists():
            shutil.copy2(file, target / file.name)  # with its time, by which Spark orders files
    return target


@pytest.mark.parametrize(
    "constraints", ["auto", (wr.Clustered("right", "k", k=50), wr.Ordered("left", "k", k="9 steps"))]
)
def test_a_killed_micro_batch_leaves_no_trace(constraints: Any) -> None:
    """With micro-batches that are killed at their end and taken again, matches are those of an undisturbed run."""
    asked = query(memory=None, policy="auto", constraints=constraints)
    outputs = []
    for kills in (False, True):
        driven = Driven(None).start(asked)
        for k, batch in enumerate(batches(7, 12)):
            if kills and k % 3 == 1:
                driven.push(batch, commit=False)
                driven.start(asked)
            driven.push(batch)
        outputs.append(driven.output)
    assert outputs[0] == outputs[1] and outputs[0].total() > 0
